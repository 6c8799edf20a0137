"""What a session contributes to the answer of a catalog query, and how it stops one."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


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


class Cancellation:
    """One request to stop, from any thread, before, while or after the query runs."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._interrupt: Callable[[], None] | None = None

    def cancel(self) -> None:
        with self._lock:
            self._event.set()
            if self._interrupt is not None:
                self._interrupt()

    def watch(self, interrupt: Callable[[], None] | None) -> None:
        """What to call when cancelled; None when there is nothing to stop any more."""
        with self._lock:
            self._interrupt = interrupt

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep; true if it was cut short."""
        return self._event.wait(seconds)
