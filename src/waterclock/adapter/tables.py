"""Writes to tables: many at once, at one time, in one commit.

Whoever writes hands over the changes and waits. What the tasks of an event loop write in one turn
goes to the thread together. That takes everything that waits, asks the oracle for a time, and
appends all of it at that time, moving the uppers of all tables beyond it in the same commit. Then
the oracle is told, and the writers are, with one call into each event loop. So a write is visible
to every read that begins after it was acknowledged, and tables are complete together: a read of
several of them never waits for one.

A write that depends on what was read names the time of the read, the tables, and what it read of
sources. It is refused with `WriteConflict` if one of them has an update after that time and not
after the time of the write; whoever wrote it reads again. Sources change while tables are written,
so they are compared in the commit itself, which also makes them complete at the time of the write
(`storage.sources.unchanged`). Of the writes that wait together those that depend on something are
tried first. One that would change what they have read waits for the next commit.

Every commit names all tables, so a right to write that has gone must not fail it. A table that was
dropped is forgotten when its DROP commits (`Coordinator.follow`); and should a commit still name
one, it is made again without it (`_drop_stale`). Only who writes to that table is refused.

While nobody writes, `advance` moves all uppers along with the clock, so that views over tables and
sources are not held back by quiet tables.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Protocol

import pyarrow as pa

from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.oracle.oracle import Clock, Oracle
from waterclock.persist.rows import DIFF, TIME
from waterclock.persist.store import Plan
from waterclock.runtime import Condition, Event
from waterclock.storage import riders
from waterclock.storage.api import Write, WriteCapability
from waterclock.storage.controller import Storage
from waterclock.storage.errors import CapabilityInvalid
from waterclock.storage.sources.unchanged import SourceChanged, SourceMoved

_LOG = logging.getLogger(__name__)


class WriteConflict(WaterclockError):
    """Something that the write depends on has changed since it was read."""

    sqlstate: ClassVar[str] = "40001"


class TableGone(WaterclockError):
    """The table was dropped before the write came to it."""

    sqlstate: ClassVar[str] = "42P01"


@dataclass(frozen=True, slots=True)
class Dependence:
    """A write is only right if all of this is as it was at the time."""

    time: int
    tables: frozenset[GlobalId]
    of_sources: frozenset[GlobalId] = frozenset()
    """Collections that sources fill."""


class Unchanged(Protocol):
    """Knows what sources have done."""

    def has_changed(self, collections: Iterable[GlobalId], after: int) -> bool:
        """Whether one of these has an update after the time, or is gone."""
        ...

    def unchanged(
        self, reads: Sequence[tuple[Collection[GlobalId], int]], until: int
    ) -> Plan[None]:
        """What completes the sources at `until`, for a commit; see `storage.sources.unchanged`."""
        ...


@dataclass(slots=True, eq=False)
class Waiting:
    """A write on its way, and its outcome once it has one. Implements `changes.Underway`."""

    changes: Mapping[GlobalId, pa.Table]
    dependence: Dependence | None
    outcome: asyncio.Future[int]
    """The time at which the changes hold, for whoever waits."""
    taking: Condition
    """Held by whoever takes the write, or takes it back."""
    time: int | None = None
    error: BaseException | None = None
    is_taken: bool = False
    is_revoked: bool = False

    @property
    def finished(self) -> asyncio.Future[int]:
        return self.outcome

    def try_revoke(self) -> bool:
        """Take the write back, if it still waits for its turn."""
        with self.taking:
            self.is_revoked = self.is_revoked or not self.is_taken
            return self.is_revoked

    def settle(self) -> None:
        """Tell the outcome, in the event loop of the future."""
        if self.outcome.done():
            return
        if self.error is not None:
            self.outcome.set_exception(self.error)
            self.outcome.exception()  # it is no error if nobody waits for it any more
        else:
            assert self.time is not None, "a write that did not fail has a time"
            self.outcome.set_result(self.time)


class TableWriter:
    """The right to write all tables. Thread-safe."""

    def __init__(
        self, storage: Storage, oracle: Oracle, clock: Clock, wake: Callable[[], None]
    ) -> None:
        """`wake` is called after each commit that changed a table."""
        self.sources: Unchanged | None = None
        """To be set when there are sources, before anybody writes what depends on one."""
        self._storage = storage
        self._oracle = oracle
        self._clock = clock
        self._wake = wake
        self._writers: dict[GlobalId, WriteCapability] = {}
        self._changed_at: dict[GlobalId, int] = {}
        self._commit_lock = storage.runtime.lock()
        self._news = storage.runtime.condition()
        self._arriving: dict[asyncio.AbstractEventLoop, list[Waiting]] = {}
        """What was written in the present turn of each event loop."""
        self._queue: list[Waiting] = []
        self._closed = False
        self._thread = storage.runtime.start_thread(self._run, "waterclock-tables")

    def add(self, writer: WriteCapability) -> None:
        """Write this table from now on."""
        with self._commit_lock:
            self._writers[writer.id] = writer
            self._changed_at[writer.id] = self._upper(writer) - 1

    def remove(self, table: GlobalId) -> None:
        """The table was dropped, and its capability with it."""
        with self._commit_lock:
            self._writers.pop(table, None)
            self._changed_at.pop(table, None)

    @property
    def written(self) -> frozenset[GlobalId]:
        """The tables that can be written."""
        with self._commit_lock:
            return frozenset(self._writers)

    async def write(
        self, changes: Mapping[GlobalId, pa.Table], dependence: Dependence | None = None
    ) -> int:
        """Apply the changes, rows with a diff each, and return the time at which they hold.

        Durable, and visible to every later read, on return. Cancelling gives up the answer, not the
        write. Raises `WriteConflict`, `TableGone`, and what storage says of wrong rows.
        """
        return await asyncio.shield(self.begin(changes, dependence).outcome)

    def begin(
        self, changes: Mapping[GlobalId, pa.Table], dependence: Dependence | None = None
    ) -> Waiting:
        """`write` for one who may give up: the write, on its way."""
        loop = asyncio.get_running_loop()
        waiting = Waiting(changes, dependence, loop.create_future(), self._news)
        arriving = self._arriving.setdefault(loop, [])
        if not arriving:
            loop.call_soon(self._hand_over, loop)
        arriving.append(waiting)
        return waiting

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        """Queue what was written in a turn of the loop, in which this is called."""
        group = self._arriving.pop(loop)
        with self._news:
            is_closed = self._closed
            if not is_closed:
                self._queue += group
                self._news.notify()
        if is_closed:
            for waiting in group:
                waiting.error = TableGone("the server is stopping")
                waiting.settle()

    def advance(self, at_least: int = 0) -> None:
        """Let all tables be complete up to now, and at the time `at_least`."""
        with self._commit_lock:
            frontier = EPOCH_MILLIS.frontier(max(self._clock(), at_least) + 1)
            is_done = False
            while not is_done:
                behind = [w for w in self._writers.values() if w.frontier < frontier]
                is_done = not behind or self._write([Write(w, None, frontier) for w in behind])

    def changed_at(self, tables: Iterable[GlobalId]) -> int:
        """The last time at which one of the tables was changed; 0 if none is there any more."""
        with self._commit_lock:
            return max((self._changed_at.get(each, 0) for each in tables), default=0)

    def hold(self, begun: Callable[[], object], ended: Event, most_s: float) -> bool:
        """Let all writes wait until the event is set. `begun` is called when they do. False if that
        took so long that they go on before.
        """
        with self._commit_lock:
            begun()
            return ended.wait(most_s)

    def close(self) -> None:
        """Finish what waits, and take nothing more."""
        with self._news:
            self._closed = True
            self._news.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._news:
                while not self._queue and not self._closed:
                    self._news.wait()
                group = [waiting for waiting in self._queue if not waiting.is_revoked]
                is_over = not self._queue
                self._queue = []
                for waiting in group:
                    waiting.is_taken = True
            if is_over:
                return
            if group:
                self._commit(group)

    def _commit(self, group: list[Waiting]) -> None:
        """Carry out a group, and tell everybody in it."""
        with self._commit_lock:
            rest = group
            while rest:
                good, rest = self._valid(rest)
                if len(good) > 1 and not self._commit_together(good):
                    for waiting in good:  # one of them is to blame: each alone
                        if self._valid([waiting])[0]:
                            self._commit_one(waiting)
                elif len(good) == 1:
                    self._commit_one(good[0])
        if any(waiting.time is not None for waiting in group):
            self._wake()
        _settle(group)

    def _commit_together(self, group: list[Waiting]) -> bool:
        """Write all of them at one time; False if that fails."""
        try:
            time = self._append(group)
        except BaseException:
            return False
        for waiting in group:
            waiting.time = time
        return True

    def _commit_one(self, waiting: Waiting) -> None:
        try:
            waiting.time = self._append([waiting])
        except BaseException as error:
            waiting.error = error

    def _valid(self, group: Iterable[Waiting]) -> tuple[list[Waiting], list[Waiting]]:
        """Those that can be written at one time, and those that have to wait for a later one.

        What a write of the first kind has read is changed by no other at that time.
        """
        good: list[Waiting] = []
        later: list[Waiting] = []
        changed: set[GlobalId] = set()
        read: set[GlobalId] = set()
        for waiting in sorted(group, key=lambda each: each.dependence is None):
            waiting.error = self._refusal(waiting, changed)
            if waiting.error is not None:
                continue
            if not read.isdisjoint(waiting.changes):
                later.append(waiting)
                continue
            good.append(waiting)
            changed.update(waiting.changes)
            if waiting.dependence is not None:
                read.update(waiting.dependence.tables)
        return good, later

    def _refusal(self, waiting: Waiting, changed: set[GlobalId]) -> WaterclockError | None:
        """Why a write can not come after others that have changed some tables; None if it can."""
        missing = [table for table in waiting.changes if table not in self._writers]
        if missing:
            return _gone(missing[0])
        needs = waiting.dependence
        if needs and (self._has_changed(needs) or not changed.isdisjoint(needs.tables)):
            return _conflict()
        return None

    def _has_changed(self, needs: Dependence) -> bool:
        """Whether something is not as it was; what is gone is not."""
        if any(self._changed_at.get(t, needs.time + 1) > needs.time for t in needs.tables):
            return True
        if not needs.of_sources:
            return False
        assert self.sources is not None, "who depends on a source is told of its changes"
        return self.sources.has_changed(needs.of_sources, needs.time)

    def _append(self, group: list[Waiting]) -> int:
        """Write all of the group at one time, which is the answer."""
        changes: dict[GlobalId, list[pa.Table]] = {}
        for waiting in group:
            for table, rows in waiting.changes.items():
                if rows.num_rows:
                    changes.setdefault(table, []).append(rows)
        while True:
            uppers = (self._upper(writer) for writer in self._writers.values())
            time = self._oracle.write_ts(max(uppers, default=0))
            frontier = EPOCH_MILLIS.frontier(time + 1)
            if self._write(
                [
                    Write(writer, _stamped(changes.get(table), time), frontier)
                    for table, writer in self._writers.items()
                ],
                self._sources_unchanged(group, time),
            ):
                break
            for table in changes:
                if table not in self._writers:
                    raise _gone(table)
        self._oracle.apply_write(time)
        for table in changes:
            self._changed_at[table] = time
        return time

    def _sources_unchanged(self, group: list[Waiting], time: int) -> Plan[None] | None:
        """What has to hold of sources in a commit at the time; None if nothing has."""
        needed = [waiting.dependence for waiting in group if waiting.dependence is not None]
        reads = [(needs.of_sources, needs.time) for needs in needed if needs.of_sources]
        if not reads:
            return None
        assert self.sources is not None, "who depends on a source is told of its changes"
        try:
            return self.sources.unchanged(reads, time)
        except SourceChanged as changed:
            raise _conflict(str(changed)) from None

    def _write(self, writes: list[Write], along: Plan[None] | None = None) -> bool:
        """Append, in one commit; False if it was refused because a right was stale, or what was
        known of a source.

        That has been found out then, and it may be tried again.
        """
        try:
            if along is None:
                moved = self._storage.append(*writes)
            else:
                moved = riders.append(self._storage, writes, along)
        except SourceMoved:
            return False
        except SourceChanged as changed:
            raise _conflict(str(changed)) from None
        except CapabilityInvalid:
            if not self._drop_stale():
                raise
            return False
        for writer in moved:
            self._writers[writer.id] = writer
        return True

    def _drop_stale(self) -> bool:
        """Forget rights that are gone, and correct those that have moved; whether there were any.

        A DROP that has just been committed leaves such a right for a moment.
        """
        found = riders.writers(self._storage, self._writers.values())
        stale = [each for each in self._writers.values() if found[each.id] != each]
        for each in stale:
            known = found[each.id]
            _LOG.info("the right to write %s at %s is stale: %s", each.id, each.frontier, known)
            if isinstance(known, WriteCapability):
                self._writers[each.id] = known
            else:
                del self._writers[each.id]
                del self._changed_at[each.id]
        return bool(stale)

    @staticmethod
    def _upper(writer: WriteCapability) -> int:
        upper = writer.frontier.only()
        assert upper is not None, "a table is never finished"
        return upper


def _conflict(detail: str | None = None) -> WriteConflict:
    return WriteConflict(
        "could not serialize access due to concurrent update",
        detail=detail,
        hint="Try the statement again.",
    )


def _gone(table: GlobalId) -> TableGone:
    return TableGone(
        "a table that was written to has been dropped before the commit",
        detail=f"Its collection was {table}.",
        hint="Nothing was written. Do the transaction again without that table.",
    )


def _settle(group: Iterable[Waiting]) -> None:
    """Tell everybody, with one call into each event loop."""
    waiting_in: defaultdict[asyncio.AbstractEventLoop, list[Waiting]] = defaultdict(list)
    for waiting in group:
        waiting_in[waiting.outcome.get_loop()].append(waiting)
    for loop, waiters in waiting_in.items():
        with suppress(RuntimeError):  # the loop is closed, and nobody waits in it any more
            loop.call_soon_threadsafe(_settle_all, waiters)


def _settle_all(group: Iterable[Waiting]) -> None:
    for waiting in group:
        waiting.settle()


def _stamped(rows: list[pa.Table] | None, time: int) -> pa.Table | None:
    """Rows with diffs as updates at the time."""
    if rows is None:
        return None
    table = pa.concat_tables(rows)
    times = pa.repeat(pa.scalar(time, pa.int64()), table.num_rows)
    place = table.schema.get_field_index(DIFF)
    assert place == table.num_columns - 1, "the diff comes last"
    return table.add_column(place, pa.field(TIME, pa.int64(), nullable=False), times)
