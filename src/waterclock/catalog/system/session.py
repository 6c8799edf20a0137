"""What a session contributes to the answer of a catalog query, and how it stops one."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from waterclock.runtime import SYSTEM, Runtime


@dataclass(frozen=True, slots=True)
class SessionStatement:
    """A statement that the session has prepared, by PREPARE if it is `from_sql`."""

    name: str
    statement: str
    prepared: datetime.datetime
    parameter_types: tuple[int, ...]
    from_sql: bool


@dataclass(frozen=True, slots=True)
class SessionCursor:
    """A cursor or a portal that the session has opened."""

    name: str
    statement: str
    opened: datetime.datetime
    is_holdable: bool
    is_binary: bool
    is_scrollable: bool


@dataclass(frozen=True, slots=True)
class SessionActivity:
    """What a session of the server is doing."""

    pid: int
    database: str
    user: str
    application_name: str
    client_address: str | None
    backend_start: datetime.datetime
    xact_start: datetime.datetime | None
    query_start: datetime.datetime | None
    state_change: datetime.datetime | None
    state: str
    query: str
    wait_event_type: str | None = None
    wait_event: str | None = None


@dataclass(frozen=True, slots=True)
class LockKey:
    """What an advisory lock is named by, as pg_locks shows it: two numbers of 32 bits.

    `kind` is 1 if they are the halves of one number, 2 if they were given apart.
    """

    class_id: int
    object_id: int
    kind: int

    @classmethod
    def of(cls, first: int, second: int | None = None) -> LockKey:
        if second is None:
            return cls(first >> 32 & _LOW, first & _LOW, 1)
        return cls(first & _LOW, second & _LOW, 2)


_LOW = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class ShownLock:
    """An advisory lock that a session holds, or has waited for since a time."""

    database: int
    key: LockKey
    pid: int
    mode: str
    waits_since: datetime.datetime | None


@dataclass(frozen=True, slots=True)
class ShownHold:
    """What keeps the past of a collection: who, of what kind, and from when on.

    `owner` is the role of a user's hold. Times are milliseconds since 1970.
    """

    holder: str | None
    kind: str
    owner: str | None
    object_id: str
    since: int
    lease_ms: int | None = None
    expires_ms: int | None = None


class SessionLocks(Protocol):
    """The advisory locks of the session; and what others hold."""

    def lock(
        self,
        key: LockKey,
        cancellation: Cancellation,
        *,
        is_shared: bool,
        for_transaction: bool,
        waits: bool,
    ) -> bool:
        """Take a lock; false if it is not free, unless the call waits."""
        ...

    def unlock(self, key: LockKey, *, is_shared: bool) -> bool:
        """Give a lock back; false, with a warning, if the session has none."""
        ...

    def unlock_all(self) -> None: ...

    def shown(self) -> Sequence[ShownLock]:
        """The locks of all sessions."""
        ...

    def blocking(self, pid: int) -> Sequence[int]:
        """The sessions that one waits for."""
        ...


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """`search_path` as it was set, without the system's schemas; `settings` those that the session
    changed, by their lower-case names. `now` is the time of the transaction's start, with zone."""

    current_user: str
    session_user: str
    database: str
    search_path: tuple[str, ...] = ("public",)
    backend_pid: int = 0
    client_address: str | None = None
    application_name: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    checked_setting: Callable[[str, str], str] = lambda _name, value: value
    """The value that a setting shows when it has been given one; raises if it can not be given."""
    now: datetime.datetime | None = None
    started: datetime.datetime | None = None
    """When the server started."""
    statements: tuple[SessionStatement, ...] = ()
    cursors: tuple[SessionCursor, ...] = ()
    sessions: Callable[[], Sequence[SessionActivity]] = tuple
    """All sessions of the server, as they are now."""
    stored_bytes: Callable[[str], int | None] = lambda _id: None
    """How much is stored of the collection with that id."""
    stop: Callable[[int, bool], bool] = lambda _pid, _ends: False
    """Cancels what a session runs, or ends it; tells whether there is one."""
    holds: Callable[[], Sequence[ShownHold]] = tuple
    """Who keeps the past of which collection, as it is now."""
    locks: SessionLocks | None = None
    """The advisory locks; None if nobody has any."""


class Cancellation:
    """One request to stop, from any thread, before, while or after the query runs."""

    def __init__(self, runtime: Runtime = SYSTEM) -> None:
        self._event = runtime.event()
        self._lock = threading.Lock()
        self._interrupts: list[Callable[[], None]] = []

    def cancel(self) -> None:
        with self._lock:
            self._event.set()
            for interrupt in self._interrupts:
                interrupt()

    @contextmanager
    def calling(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """What to call when cancelled, meanwhile. It is not called if that was before."""
        with self._lock:
            self._interrupts.append(interrupt)
        try:
            yield
        finally:
            with self._lock:
                self._interrupts.remove(interrupt)

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep; true if it was cut short."""
        return self._event.wait(seconds)
