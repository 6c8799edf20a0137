"""SQL evaluated once, over the contents of collections at one time: the slow path of a peek.

A query is planned once and run as often as it comes: its leaves read the contents when the job
runs, so neither Catalyst nor the code generator sees it again. Contents that are small are held in
the JVM (`catalyst.held`); larger ones lie in files of a folder, which a Python worker reads. The
leaves belong to one run at a time; while they are in use, the same query gets another plan.

Not every plan can be run again. One that broadcasts, shuffles or has subqueries keeps what they
gave, and Spark would use that again, whatever the leaves read by then. Such a plan is made anew for
each run from the analysed query.

Planning happens in sessions of its own, where the names of collections mean their contents. Each
is lent to one planner at a time, so that nobody waits for somebody else's plan, and a plan that is
given up holds nothing that others need (`planners`). Everything that decides what an expression
means is as in the session that views are planned in.

Plans belong to one life of the engine: a new one begins without any.
"""

from __future__ import annotations

import shutil
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from waterclock.compute.catalyst.held import HeldRows
from waterclock.compute.catalyst.trees import Builder
from waterclock.compute.catalyst.types import loosened
from waterclock.compute.collecting import RESULT_BYTES, collect
from waterclock.compute.faults import told
from waterclock.compute.live_session import Incarnation, LiveSession
from waterclock.compute.planners import Planners, Planning, PlanningCancelled
from waterclock.compute.spark import for_queries
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Schema
from waterclock.persist.rows import row_schema

_KEPT = 256
"""Size of the cache of planned queries."""
_LONGEST_KEPT = 64_000
"""Characters of a query whose plan is kept: plans of longer ones would fill the JVM."""
_SMALL_BYTES = 1 << 19
"""So much at most is held in the JVM: to start a Python worker costs more than to send it there."""
_CANCELLED = 1000
"""Job groups remembered as cancelled."""
_LEFT_BYTES = 1 << 16
"""So much is left there until the next run, once for each plan that is kept."""


@dataclass(frozen=True)
class _Contents:
    """A leaf: the rows that lie in a file when the job runs."""

    file: Path
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        with pa.memory_map(str(self.file)) as source, pa.ipc.open_file(source) as reader:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number).cast(self.schema)


class Leaf(Protocol):
    """What stands for a collection in a plan."""

    frame: DataFrame

    def put(self, rows: pa.Table) -> None:
        """Have the next run read these rows."""

    def clear(self) -> None:
        """Let go of the rows."""


class FiledRows:
    """A leaf whose rows lie in a file when the job runs, for a Python worker to read."""

    def __init__(self, session: SparkSession, columns: StructType, file: Path) -> None:
        self._file = file
        contents = _Contents(file, to_arrow_schema(columns, timezone="UTC"))
        self.frame = session.range(1).coalesce(1).mapInArrow(contents.__call__, columns)

    def put(self, rows: pa.Table) -> None:
        with (
            pa.OSFile(str(self._file), "wb") as sink,
            pa.ipc.new_file(sink, rows.schema) as writer,
        ):
            writer.write_table(rows)

    def clear(self) -> None:
        self._file.unlink(missing_ok=True)


class Prepared:
    """A query with its plan."""

    def __init__(
        self,
        session: SparkSession,
        sql: str,
        inputs: Mapping[GlobalId, Schema],
        folder: Path | None,
    ) -> None:
        """With a `folder`, which must be new, it is for large contents."""
        self._session = session
        self._folder = folder
        if folder is not None:
            folder.mkdir(parents=True)
        self._leaves: dict[GlobalId, Leaf] = {}
        for collection, schema in inputs.items():
            leaf = self._leaf(collection, from_arrow_schema(row_schema(schema)))
            leaf.frame.createOrReplaceTempView(str(collection))
            self._leaves[collection] = leaf
        self._frame = loosened(session.sql(sql))
        self._is_planned = False
        self.columns: pa.Schema = to_arrow_schema(self._frame.schema, timezone="UTC")

    def _leaf(self, collection: GlobalId, columns: StructType) -> Leaf:
        if self._folder is None:
            return HeldRows(self._session, columns)
        return FiledRows(self._session, columns, self._folder / f"{collection}.arrow")

    def plan(self) -> None:
        """Have the next run's plan ready: it keeps nothing of an earlier run."""
        if not self._is_planned:
            self._frame._jdf.queryExecution().executedPlan()
            self._is_planned = True

    @property
    def is_planned(self) -> bool:
        """Whether the next run has its plan."""
        return self._is_planned

    def run(
        self, contents: Mapping[GlobalId, pa.Table], group: str, scratch: Path, most_bytes: int
    ) -> pa.Table:
        """The result over these contents. The job can be cancelled by its group."""
        assert self._is_planned, "a query is planned before it is run"
        for collection, rows in contents.items():
            self._leaves[collection].put(rows)
        context = self._session.sparkContext
        context.setJobGroup(group, "query", interruptOnCancel=True)
        try:
            return collect(self._executable(), scratch, most_bytes)
        finally:
            context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
            if _size(contents) > _LEFT_BYTES:
                for leaf in self._leaves.values():
                    leaf.clear()

    def _executable(self) -> DataFrame:
        """The query with its plan, which is not kept if it would keep something of this run: what
        was broadcast takes a megabyte at least.
        """
        frame = self._frame
        if not self._keeps_nothing:
            builder = Builder(self._session.sparkContext._jvm)
            analyzed = frame._jdf.queryExecution().analyzed()
            self._frame = builder.frame(analyzed, self._session)
            self._is_planned = False
        return frame

    @cached_property
    def _keeps_nothing(self) -> bool:
        plan: str = self._frame._jdf.queryExecution().executedPlan().toString()
        return not any(kept in plan for kept in ("Exchange", "Subquery", "subquery"))

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Query:
    """What a plan is made for."""

    sql: str
    inputs: tuple[tuple[GlobalId, Schema], ...]
    is_large: bool

    @staticmethod
    def of(sql: str, inputs: Mapping[GlobalId, Schema], *, is_large: bool) -> _Query:
        return _Query(sql, tuple(sorted(inputs.items(), key=lambda each: each[0])), is_large)


class _Life:
    """What belongs to one life of the engine: its query sessions, and plans that may come again."""

    def __init__(self, incarnation: Incarnation, folder: Path) -> None:
        self.incarnation = incarnation
        self._folder = folder
        self._lock = threading.Lock()
        self._count = 0
        self._sessions: list[SparkSession] = []
        self._idle: OrderedDict[_Query, list[Prepared]] = OrderedDict()

    def try_take(self, query: _Query) -> Prepared | None:
        """A plan that was made before and that nobody uses."""
        with self._lock:
            idle = self._idle.get(query)
            if not idle:
                return None
            self._idle.move_to_end(query)
            return idle.pop()

    def keep(self, query: _Query, prepared: Prepared) -> None:
        """Nobody uses the plan any more."""
        if len(query.sql) > _LONGEST_KEPT:
            prepared.close()
            return
        gone: list[Prepared] = []
        with self._lock:
            self._idle.setdefault(query, []).append(prepared)
            while len(self._idle) > _KEPT:
                gone += self._idle.popitem(last=False)[1]
        for each in gone:
            each.close()

    def prepare(self, query: _Query) -> Prepared:
        """A new plan, made in a session that nobody else has meanwhile."""
        with self._lock:
            self._count += 1
            number = f"{self.incarnation.number}-{self._count}"
            folder = self._folder / number if query.is_large else None
            session = self._sessions.pop() if self._sessions else None
        if session is None:
            session = for_queries(self.incarnation.spark.newSession())
        try:
            with told():
                return Prepared(session, query.sql, dict(query.inputs), folder)
        finally:
            with self._lock:
                self._sessions.append(session)

    def close(self) -> None:
        """Forget all plans."""
        with self._lock:
            gone = [each for plans in self._idle.values() for each in plans]
            self._idle.clear()
        for each in gone:
            each.close()


class Evaluator:
    """Plans queries, keeps the plans, and runs them. Safe for use by many threads."""

    def __init__(
        self,
        live: LiveSession,
        folder: Path,
        planners: Planners | None = None,
        *,
        small_bytes: int = _SMALL_BYTES,
        result_bytes: int = RESULT_BYTES,
    ) -> None:
        """`folder` is a scratch folder that all executors can read and write."""
        self._live = live
        self._folder = folder
        self._planners = planners or Planners()
        self._small_bytes = small_bytes
        self._result_bytes = result_bytes
        shutil.rmtree(folder, ignore_errors=True)
        # Now, since a result that is small needs no room on a disk that has become full.
        (folder / "results").mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._life: _Life | None = None
        self._planning: dict[str, Planning] = {}
        self._cancelled: OrderedDict[str, None] = OrderedDict()
        """Groups that were cancelled last; what is asked for in one of them is not begun."""

    def _current(self) -> _Life:
        """The engine as it is now, with what was planned in it; `EngineDown` if there is none."""
        incarnation = self._live.current()
        with self._lock:
            before = self._life
            if before is not None and before.incarnation is incarnation:
                return before
            self._life = life = _Life(incarnation, self._folder)
        if before is not None:
            before.close()
        return life

    @contextmanager
    def _lent(self, life: _Life, query: _Query, group: str) -> Iterator[Prepared]:
        """A plan for the query, which nobody else has meanwhile, and which is kept after that."""
        prepared = life.try_take(query)
        if prepared is None or not prepared.is_planned:
            prepared = self._planned(life, query, prepared, group)
        try:
            yield prepared
        finally:
            life.keep(query, prepared)

    def _planned(self, life: _Life, query: _Query, known: Prepared | None, group: str) -> Prepared:
        """The query with a plan that can be run; it is made by a planner, and can be given up."""

        def work() -> Prepared:
            prepared = life.prepare(query) if known is None else known
            with told():
                prepared.plan()
            return prepared

        planning = Planning()
        with self._lock:
            if group in self._cancelled:
                raise _cancelled()
            self._planning[group] = planning
        try:
            return self._planners.plan(life.incarnation, work, planning)
        finally:
            with self._lock:
                if self._planning.get(group) is planning:
                    del self._planning[group]

    def evaluate(
        self,
        sql: str,
        inputs: Mapping[GlobalId, Schema],
        contents: Mapping[GlobalId, pa.Table],
        group: str,
    ) -> pa.Table:
        """The result of the query over the contents given; `EngineFault` if it has none, and
        `EngineDown` if there is no engine, or not for long enough.
        """
        query = _Query.of(sql, inputs, is_large=_size(contents) > self._small_bytes)
        life = self._current()
        with (
            life.incarnation.guarded(),
            self._lent(life, query, group) as prepared,
            told(),
        ):
            return prepared.run(contents, group, self._folder / "results", self._result_bytes)

    def columns(self, sql: str, inputs: Mapping[GlobalId, Schema]) -> pa.Schema:
        """The columns that the query has; `EngineFault` if it means nothing to the engine."""
        life = self._current()
        query = _Query.of(sql, inputs, is_large=False)
        with life.incarnation.guarded(), self._lent(life, query, "") as prepared:
            return prepared.columns

    def cancel(self, group: str) -> None:
        """Stop what is planned and run in a group. Whoever waits for a plan is told at once."""
        with self._lock:
            self._cancelled[group] = None
            while len(self._cancelled) > _CANCELLED:
                self._cancelled.popitem(last=False)
            planning = self._planning.get(group)
        if planning is not None:
            self._planners.give_up(planning, _cancelled())
        incarnation = self._live.try_current()
        if incarnation is not None:
            with suppress(Exception), incarnation.guarded() as spark:  # gone, and the job with it
                spark.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(group)


def _cancelled() -> PlanningCancelled:
    return PlanningCancelled("canceling statement due to user request")


def _size(contents: Mapping[GlobalId, pa.Table]) -> int:
    """The bytes of all contents."""
    return sum(rows.nbytes for rows in contents.values())
