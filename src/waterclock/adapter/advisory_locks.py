"""The advisory locks of all sessions: who holds which, and who waits for it.

A lock is two numbers that mean something to clients only. Any number of sessions share one, or one
session has it alone; a session never waits for itself, and holds a lock as often as it took it. It
is held for the session, until it is given back as often, or for the transaction, until that ends.

Whoever waits does so in order of arrival, except that one who holds the lock already goes before
those who wait for it. A lock is handed on by whoever gives it back, so nobody can slip in between.
Waits that would go round in a circle are refused when the last of them begins: no other moment can
close a circle, for one who is given a lock waits for nothing.

Waiting blocks a thread. Everything may be called from any thread, but an owner waits once at a
time. Nothing here is durable, and nothing is told of tables, which have no locks.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from waterclock.adapter.errors import DeadlockDetected, LockTimeout, StatementCancelled
from waterclock.catalog.system.session import LockKey, ShownLock
from waterclock.runtime import SYSTEM, Runtime

T = TypeVar("T")
_CANCELLED = "canceling statement due to user request"


class Mode(Enum):
    """How a lock is held, by the names that PostgreSQL shows."""

    SHARED = "ShareLock"
    ALONE = "ExclusiveLock"

    def excludes(self, other: Mode) -> bool:
        return self is Mode.ALONE or other is Mode.ALONE


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock of a database, by its oid, in a mode."""

    database: int
    key: LockKey
    mode: Mode

    @property
    def place(self) -> tuple[int, LockKey]:
        return (self.database, self.key)

    def __str__(self) -> str:
        numbers = (self.database, self.key.class_id, self.key.object_id, self.key.kind)
        return f"{self.mode.value} on advisory lock [{','.join(map(str, numbers))}]"


@dataclass(eq=False, slots=True)
class Owner:
    """A session, as far as it holds locks: how often for itself, and in order of the transaction.

    Only the table changes it.
    """

    pid: int
    session: Counter[Lock] = field(default_factory=Counter)
    transaction: list[Lock] = field(default_factory=list)
    wait: _Wait | None = None
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait: until it is over, and at most so many seconds."""

    is_over: Callable[[], bool] = lambda: False
    seconds: float | None = None


@dataclass(eq=False, slots=True)
class _Wait:
    owner: Owner
    lock: Lock
    for_transaction: bool
    patience: Patience
    since: datetime.datetime
    is_granted: bool = False

    @property
    def is_over(self) -> bool:
        return self.owner.is_gone or self.patience.is_over()


@dataclass(slots=True)
class _Entry:
    """What is known of a lock that is held."""

    holders: Counter[tuple[Owner, Mode]] = field(default_factory=Counter)
    waits: list[_Wait] = field(default_factory=list)

    def place_for(self, owner: Owner) -> int:
        """Where the owner's wait begins: before those that wait for this owner."""
        mine = [mode for holder, mode in self.holders if holder is owner]
        for place, wait in enumerate(self.waits):
            if any(mode.excludes(wait.lock.mode) for mode in mine):
                return place
        return len(self.waits)

    def blocking(self, owner: Owner, mode: Mode, ahead: int) -> list[Owner]:
        """The others who hold the lock, or are to have it before."""
        holders = [holder for holder, held in self.holders if held.excludes(mode)]
        before = [wait.owner for wait in self.waits[:ahead] if wait.lock.mode.excludes(mode)]
        return [each for each in dict.fromkeys([*holders, *before]) if each is not owner]

    def waited_for(self, wait: _Wait) -> list[Owner]:
        return self.blocking(wait.owner, wait.lock.mode, self.waits.index(wait))


class AdvisoryLocks:
    """The table. `now` is the clock by which waits are shown."""

    def __init__(
        self, runtime: Runtime = SYSTEM, now: Callable[[], datetime.datetime] | None = None
    ) -> None:
        self._now = now or runtime.now
        self._changed = runtime.condition()
        self._entries: dict[tuple[int, LockKey], _Entry] = {}

    def acquire(
        self,
        owner: Owner,
        lock: Lock,
        *,
        for_transaction: bool,
        patience: Patience | None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Take the lock; without patience, tell whether that was possible at once.

        Once `is_over`, nothing is taken any more: the statement was given up, perhaps before this
        thread came here, and nobody would give the lock back.

        Raises `DeadlockDetected`, `LockTimeout`, or `StatementCancelled` when patience is over;
        then nothing was taken.
        """
        with self._changed:
            if owner.is_gone or is_over():
                raise StatementCancelled(_CANCELLED)
            entry = self._entries.setdefault(lock.place, _Entry())
            ahead = len(entry.waits) if patience is None else entry.place_for(owner)
            has_it = (owner, lock.mode) in entry.holders
            if has_it or not entry.blocking(owner, lock.mode, ahead):
                _grant(entry, owner, lock, for_transaction=for_transaction)
            elif patience is None:
                return False
            else:
                wait = _Wait(owner, lock, for_transaction, patience, self._now())
                entry.waits.insert(ahead, wait)
                self._wait(entry, wait)
            return True

    def release(self, owner: Owner, lock: Lock) -> bool:
        """Give a lock of the session back, once; false if it has none."""
        with self._changed:
            if lock not in owner.session:
                return False
            _take_one(owner.session, lock)
            self._let_go(owner, lock)
            return True

    def release_all(self, owner: Owner) -> None:
        """Give all locks of the session back, as often as they were taken."""
        with self._changed:
            for lock in owner.session.elements():
                self._let_go(owner, lock)
            owner.session.clear()

    def close(self, owner: Owner) -> None:
        """The owner is gone: it gives everything back, and will never have anything again."""
        owner.is_gone = True
        self.end_transaction(owner)
        self.release_all(owner)
        self.wake()

    def end_transaction(self, owner: Owner, kept: int = 0) -> None:
        """Give back the locks that the transaction took, except for the first `kept` of them."""
        if len(owner.transaction) > kept:
            with self._changed:
                for lock in owner.transaction[kept:]:
                    self._let_go(owner, lock)
                del owner.transaction[kept:]

    def wake(self) -> None:
        """Let those who wait see whether they still want to."""
        with self._changed:
            self._changed.notify_all()

    def shown(self) -> list[ShownLock]:
        """All locks that are held, and those that are waited for."""
        with self._changed:
            return [shown for place in self._entries for shown in self._shown(place)]

    def blocking(self, pid: int) -> list[int]:
        """The sessions that one waits for, by their numbers."""
        with self._changed:
            waits = [each for entry in self._entries.values() for each in entry.waits]
            owners = [each.owner for each in waits if each.owner.pid == pid]
            return [other.pid for owner in owners for other in self._waited_for(owner)]

    # Inside

    def _let_go(self, owner: Owner, lock: Lock) -> None:
        entry = self._entries[lock.place]
        _take_one(entry.holders, (owner, lock.mode))
        self._hand_on(lock.place)

    def _hand_on(self, place: tuple[int, LockKey]) -> None:
        """Give what is free to those who wait for it; who gave up, gets nothing any more.

        If one can not have it, neither can those behind.
        """
        entry = self._entries[place]
        for wait in [each for each in entry.waits if not each.is_over]:
            if entry.waited_for(wait):
                break
            entry.waits.remove(wait)
            _grant(entry, wait.owner, wait.lock, for_transaction=wait.for_transaction)
            wait.is_granted, wait.owner.wait = True, None
        if not (entry.holders or entry.waits):
            del self._entries[place]
        self._changed.notify_all()

    def _wait(self, entry: _Entry, wait: _Wait) -> None:
        wait.owner.wait = wait
        circle = self._circle(wait.owner)
        if circle:
            deadlock = _deadlock(circle)
            self._give_up(entry, wait)
            raise deadlock
        is_decided = lambda: wait.is_granted or wait.is_over  # noqa: E731
        in_time = self._changed.wait_for(is_decided, wait.patience.seconds)
        if wait.is_granted:
            return
        self._give_up(entry, wait)
        if in_time:
            raise StatementCancelled(_CANCELLED)
        raise LockTimeout("canceling statement due to lock timeout")

    def _give_up(self, entry: _Entry, wait: _Wait) -> None:
        entry.waits.remove(wait)
        wait.owner.wait = None
        self._hand_on(wait.lock.place)

    def _waited_for(self, owner: Owner) -> list[Owner]:
        wait = owner.wait
        return [] if wait is None else self._entries[wait.lock.place].waited_for(wait)

    def _circle(self, first: Owner) -> list[Owner]:
        """Owners each of whom waits for the next one, and the last for the first; or nobody."""
        reached: dict[Owner, Owner] = {}
        open_ = [first]
        while open_:
            owner = open_.pop()
            for other in self._waited_for(owner):
                if other is first:
                    return list(_way(owner, reached))[::-1]
                if other not in reached:
                    reached[other] = owner
                    open_.append(other)
        return []

    def _shown(self, place: tuple[int, LockKey]) -> Iterator[ShownLock]:
        database, key = place
        for owner, mode in self._entries[place].holders:
            yield ShownLock(database, key, owner.pid, mode.value, None)
        for wait in self._entries[place].waits:
            yield ShownLock(database, key, wait.owner.pid, wait.lock.mode.value, wait.since)


def _grant(entry: _Entry, owner: Owner, lock: Lock, *, for_transaction: bool) -> None:
    entry.holders[owner, lock.mode] += 1
    if for_transaction:
        owner.transaction.append(lock)
    else:
        owner.session[lock] += 1


def _take_one(counted: Counter[T], what: T) -> None:
    counted[what] -= 1
    if not counted[what]:
        del counted[what]


def _way(last: Owner, reached: dict[Owner, Owner]) -> Iterator[Owner]:
    """From the last one back to the first, whom nobody reached."""
    yield last
    while last in reached:
        last = reached[last]
        yield last


def _deadlock(circle: Sequence[Owner]) -> DeadlockDetected:
    """The error, which tells who waits for whom; made while they still do."""
    told = []
    for owner, other in zip(circle, [*circle[1:], circle[0]], strict=True):
        assert owner.wait is not None, "those of a circle wait"
        lock = owner.wait.lock
        told.append(f"Process {owner.pid} waits for {lock}; blocked by process {other.pid}.")
    return DeadlockDetected("deadlock detected", detail="\n".join(told))
