"""A read hold in a program: history that stays readable for as long as the program works.

    with db.hold("orders", "sales") as hold:
        db.sql(f"SELECT * FROM orders AS OF {hold.time}")     # for an hour, if need be
        for changes in hold.follow("orders"):                 # goes on after a lost connection
            ...

A thread renews the lease, over a connection of its own, three times as often as it would run out.
A connection that is lost is made again as long as the lease lasts; when that is over, or the server
refuses, the hold is lost, and whoever uses it next is told why.

A hold that has a name outlives the program until its lease ends: a program that is started again in
time takes it up by that name, at the time at which it was left.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Generator
from types import TracebackType
from typing import ClassVar, Protocol, Self

from waterclock.client.api import Changes, Result, Subscription
from waterclock.client.statements import checked_name
from waterclock.errors import WaterclockError
from waterclock.sql.quoting import quote_ident

_LEAST_PAUSE_S = 0.2
_LOST = ("08", "57P")
"""What the SQLSTATEs of a connection that is lost begin with."""
_DUPLICATE = "42710"


class HoldLost(WaterclockError):
    """The hold could not be renewed in time, so the history may be forgotten."""

    sqlstate: ClassVar[str] = "55000"


class Statements(Protocol):
    """A session in which statements are run."""

    def sql(self, text: str, *parameters: object) -> Result: ...

    def close(self) -> None: ...


class Subscribe(Protocol):
    """Begins a subscription; see `Connection.subscribe`."""

    def __call__(
        self, relation: str, *, snapshot: bool = True, as_of: int | None = None
    ) -> Subscription: ...


class ReadHold:
    """Relations that can be read as of `time` until it is closed. Thread-safe."""

    def __init__(
        self,
        connect: Callable[[], Statements],
        subscribe: Subscribe,
        relations: tuple[str, ...],
        *,
        name: str | None = None,
        as_of: int | None = None,
        lease_s: float = 60.0,
    ) -> None:
        """Create the hold, or take up the one that has the name."""
        self._connect = connect
        self._subscribe = subscribe
        self.name = name or f"client_{secrets.token_hex(8)}"
        self._lease_s = lease_s
        self._turn = threading.Lock()
        self._closing = threading.Event()
        self._failure: WaterclockError | None = None
        self._positions: dict[object, int] = {}
        """How far each `follow` has got."""
        self._statements: Statements | None = connect()
        try:
            self._create(relations, as_of, may_exist=name is not None)
            self._time = self._read_time()
        except BaseException:
            self._statements.close()
            raise
        self._renewed_s = time.monotonic()
        self._thread = threading.Thread(
            target=self._keep_renewing, name="waterclock-read-hold", daemon=True
        )
        self._thread.start()

    def _create(self, relations: tuple[str, ...], as_of: int | None, *, may_exist: bool) -> None:
        listed = ", ".join(map(checked_name, relations))
        at = "" if as_of is None else f" AS OF {int(as_of)}"
        lease = f" WITH (LEASE = '{round(self._lease_s * 1000)}ms')"
        try:
            self._run(f"CREATE READ HOLD {self._quoted} ON {listed}{at}{lease}")
        except WaterclockError as error:
            if not may_exist or error.sqlstate != _DUPLICATE:
                raise
            self._run(f"ALTER READ HOLD {self._quoted} RENEW")

    def _read_time(self) -> int:
        text = "SELECT max(since) FROM mz_internal.mz_read_holds WHERE kind = 'read hold'"
        assert self._statements is not None
        [[found]] = self._statements.sql(f"{text} AND holder = $1", self.name).rows
        return int(found)

    @property
    def _quoted(self) -> str:
        return quote_ident(self.name)

    @property
    def time(self) -> int:
        """From when on the relations can be read. Raises `HoldLost`."""
        self._require_held()
        return self._time

    def renew(self) -> None:
        """Start the lease again now. Raises what the server says."""
        self._require_held()
        with self._turn:
            self._renew(None)

    def advance(self, to: int) -> None:
        """Keep only this time and later ones. Raises what the server says."""
        self._require_held()
        with self._turn:
            self._renew(to)

    def follow(self, relation: str, *, snapshot: bool = True) -> Generator[Changes, None, None]:
        """The relation as of `time`, then its changes, without end; the hold moves along.

        What was given out counts as done when the next changes are asked for. After a lost
        connection it goes on right there. Raises `HoldLost`, and what ends a subscription.
        """
        me, after = object(), self.time
        self._positions[me] = after
        try:
            while True:
                try:
                    with self._subscribe(relation, snapshot=snapshot, as_of=after) as changes:
                        for each in changes:
                            yield each
                            after, snapshot = max(after, each.upper - 1), False
                            self._positions[me] = after
                    return
                except WaterclockError as error:
                    if not error.sqlstate.startswith(_LOST):
                        raise
                self._closing.wait(_LEAST_PAUSE_S)
                self._require_held()
        finally:
            self._positions.pop(me, None)

    def close(self) -> None:
        """Release the history. Idempotent."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._thread.join()
        try:
            if self._failure is None:
                self._run(f"DROP READ HOLD IF EXISTS {self._quoted}")
        except WaterclockError as error:
            if not error.sqlstate.startswith(_LOST):  # else it ends with its lease
                raise
        finally:
            self._disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Renewing

    def _keep_renewing(self) -> None:
        pause_s = beat_s = self._lease_s / 3
        while not self._closing.wait(pause_s):
            try:
                with self._turn:
                    self._renew(min(self._positions.values(), default=None))
                pause_s = beat_s
            except WaterclockError as error:
                is_over = time.monotonic() > self._renewed_s + self._lease_s
                if is_over or not error.sqlstate.startswith(_LOST):
                    self._failure = error
                    return
                self._disconnect()
                pause_s = min(_LEAST_PAUSE_S, beat_s)

    def _renew(self, to: int | None) -> None:
        """For whoever has the turn."""
        moves = to is not None and to > self._time
        self._run(f"ALTER READ HOLD {self._quoted} {f'ADVANCE TO {to}' if moves else 'RENEW'}")
        self._renewed_s = time.monotonic()
        if to is not None and moves:
            self._time = to

    def _run(self, text: str) -> None:
        if self._statements is None:
            self._statements = self._connect()
        self._statements.sql(text)

    def _disconnect(self) -> None:
        statements, self._statements = self._statements, None
        if statements is not None:
            statements.close()

    def _require_held(self) -> None:
        if self._failure is not None:
            raise HoldLost(
                f'read hold "{self.name}" is lost: {self._failure.message}',
                detail=self._failure.detail,
                hint="Its history may be forgotten already. Create another hold.",
            ) from self._failure


class HeldSubscription:
    """Implements `client.api.Subscription` by a hold of its own: what was not received yet is kept
    for as long as the lease says, also while there is no connection.
    """

    def __init__(self, hold: ReadHold, relation: str, *, snapshot: bool) -> None:
        """Takes the hold over."""
        self._hold = hold
        self._changes = hold.follow(relation, snapshot=snapshot)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Changes:
        return next(self._changes)

    def close(self) -> None:
        self._changes.close()
        self._hold.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
