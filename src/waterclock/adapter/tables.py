"""Writes to tables: many at once, at one time, in one commit.

Whoever writes hands over the changes and waits. One thread takes everything that waits, asks the
oracle for a time, and appends all of it at that time, moving the uppers of all tables beyond it in
the same commit. Then the oracle is told, and the writers are. So a write is visible to every read
that begins after it was acknowledged, and tables are complete together: a read of several of them
never waits for one.

A write that depends on what was read names the time of the read and the tables. It is refused with
`WriteConflict` if one of them has changed since; whoever wrote it reads again.

While nobody writes, `advance` moves all uppers along with the clock, so that views over tables and
sources are not held back by quiet tables.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa

from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.oracle.oracle import Clock, Oracle
from waterclock.persist.rows import DIFF, TIME
from waterclock.storage.api import Write, WriteCapability
from waterclock.storage.controller import Storage


class WriteConflict(WaterclockError):
    """Something that the write depends on has changed since it was read."""

    sqlstate: ClassVar[str] = "40001"


class TableGone(WaterclockError):
    """The table was dropped before the write came to it."""

    sqlstate: ClassVar[str] = "42P01"


@dataclass(frozen=True, slots=True)
class Dependence:
    """A write is only right if these tables are as they were at the time."""

    time: int
    tables: frozenset[GlobalId]


@dataclass(slots=True)
class _Waiting:
    changes: Mapping[GlobalId, pa.Table]
    dependence: Dependence | None
    done: Future[int] = field(default_factory=Future)

    def __post_init__(self) -> None:
        # Whoever waits may give up, but the answer stays ours to give.
        self.done.set_running_or_notify_cancel()


class TableWriter:
    """The right to write all tables. Thread-safe."""

    def __init__(
        self, storage: Storage, oracle: Oracle, clock: Clock, wake: Callable[[], None]
    ) -> None:
        """`wake` is called after each commit that changed a table."""
        self._storage = storage
        self._oracle = oracle
        self._clock = clock
        self._wake = wake
        self._writers: dict[GlobalId, WriteCapability] = {}
        self._changed_at: dict[GlobalId, int] = {}
        self._commit_lock = threading.Lock()
        self._news = threading.Condition()
        self._queue: list[_Waiting] = []
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="waterclock-tables", daemon=True)
        self._thread.start()

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

    async def write(
        self, changes: Mapping[GlobalId, pa.Table], dependence: Dependence | None = None
    ) -> int:
        """Apply the changes, rows with a diff each, and return the time at which they hold.

        Durable, and visible to every later read, on return. Cancelling gives up the answer, not the
        write. Raises `WriteConflict`, `TableGone`, and what storage says of wrong rows.
        """
        waiting = _Waiting(changes, dependence)
        with self._news:
            if self._closed:
                raise TableGone("the server is stopping")
            self._queue.append(waiting)
            self._news.notify()
        return await asyncio.wrap_future(waiting.done)

    def advance(self) -> None:
        """Let all tables be complete up to now."""
        with self._commit_lock:
            frontier = EPOCH_MILLIS.frontier(self._clock() + 1)
            writes = [
                Write(writer, None, frontier)
                for writer in self._writers.values()
                if writer.frontier < frontier
            ]
            if writes:
                self._keep(self._storage.append(*writes))

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
                group, self._queue = self._queue, []
                if not group:
                    return
            self._commit(group)

    def _commit(self, group: list[_Waiting]) -> None:
        with self._commit_lock:
            good = [waiting for waiting in group if self._is_valid(waiting)]
            if not good:
                return
            try:
                time = self._append(good)
            except BaseException as error:
                if len(good) > 1:  # one of them is to blame: each alone
                    self._commit_each(good)
                else:
                    good[0].done.set_exception(error)
                return
        self._wake()
        for waiting in good:
            waiting.done.set_result(time)

    def _commit_each(self, group: list[_Waiting]) -> None:
        for waiting in group:
            if self._is_valid(waiting):
                try:
                    waiting.done.set_result(self._append([waiting]))
                except BaseException as error:
                    waiting.done.set_exception(error)
        self._wake()

    def _is_valid(self, waiting: _Waiting) -> bool:
        missing = [table for table in waiting.changes if table not in self._writers]
        if missing:
            waiting.done.set_exception(TableGone(f"table {missing[0]} was dropped"))
            return False
        needs = waiting.dependence
        if needs and any(
            self._changed_at.get(t, needs.time + 1) > needs.time for t in needs.tables
        ):
            waiting.done.set_exception(
                WriteConflict(
                    "could not serialize access due to concurrent update",
                    hint="Try the statement again.",
                )
            )
            return False
        return True

    def _has_changed(self, needs: Dependence) -> bool:
        """Whether a table is not as it was; one that is gone is not."""
        return any(self._changed_at.get(t, needs.time + 1) > needs.time for t in needs.tables)

    def _append(self, group: list[_Waiting]) -> int:
        least = max(self._upper(writer) for writer in self._writers.values())
        time = self._oracle.write_ts(least)
        changes: dict[GlobalId, list[pa.Table]] = {}
        for waiting in group:
            for table, rows in waiting.changes.items():
                if rows.num_rows:
                    changes.setdefault(table, []).append(rows)
        frontier = EPOCH_MILLIS.frontier(time + 1)
        writes = [
            Write(writer, _stamped(changes[table], time) if table in changes else None, frontier)
            for table, writer in self._writers.items()
        ]
        self._keep(self._storage.append(*writes))
        self._oracle.apply_write(time)
        for table in changes:
            self._changed_at[table] = time
        return time

    def _keep(self, writers: tuple[WriteCapability, ...]) -> None:
        for writer in writers:
            self._writers[writer.id] = writer

    @staticmethod
    def _upper(writer: WriteCapability) -> int:
        upper = writer.frontier.only()
        assert upper is not None, "a table is never finished"
        return upper


def _stamped(rows: list[pa.Table], time: int) -> pa.Table:
    """Rows with diffs as updates at the time."""
    table = pa.concat_tables(rows)
    times = pa.repeat(pa.scalar(time, pa.int64()), table.num_rows)
    place = table.schema.get_field_index(DIFF)
    assert place == table.num_columns - 1, "the diff comes last"
    return table.add_column(place, pa.field(TIME, pa.int64(), nullable=False), times)
