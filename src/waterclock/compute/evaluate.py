"""SQL evaluated once, over the contents of collections at one time: the slow path of a peek.

A query is planned once and run as often as it comes: its leaves read the contents from a folder
when the job runs, so neither Catalyst nor the code generator sees it again. The folder belongs to
one run at a time; while it is in use, the same query gets another plan with another folder.

Not every plan can be run again. One that broadcasts, shuffles or has subqueries keeps what they
gave, and Spark would use that again, whatever the leaves read by then. Such a plan is made anew for
each run from the analysed query.

The session is one of its own, where the names of collections mean their contents. Everything that
decides what an expression means is as in the session that views are planned in.
"""

from __future__ import annotations

import shutil
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from waterclock.compute.catalyst.trees import Builder
from waterclock.compute.faults import told
from waterclock.compute.spark import with_meaning
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Schema
from waterclock.persist.rows import row_schema

_KEPT = 256
"""How many plans are kept for queries that may come again."""


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


class Prepared:
    """A query with its plan."""

    def __init__(
        self, session: SparkSession, sql: str, inputs: Mapping[GlobalId, Schema], folder: Path
    ) -> None:
        self._session = session
        self._folder = folder
        folder.mkdir(parents=True)
        for collection, schema in inputs.items():
            leaf = self._leaf(collection, from_arrow_schema(row_schema(schema)))
            leaf.createOrReplaceTempView(str(collection))
        self._frame = session.sql(sql)
        self.columns: pa.Schema = to_arrow_schema(self._frame.schema, timezone="UTC")

    def _leaf(self, collection: GlobalId, columns: StructType) -> DataFrame:
        schema = to_arrow_schema(columns, timezone="UTC")
        contents = _Contents(self._file(collection), schema)
        return self._session.range(1).coalesce(1).mapInArrow(contents.__call__, columns)

    def _file(self, collection: GlobalId) -> Path:
        return self._folder / f"{collection}.arrow"

    def run(self, contents: Mapping[GlobalId, pa.Table], group: str) -> pa.Table:
        """The result over these contents. The job can be cancelled by its group."""
        for collection, rows in contents.items():
            with (
                pa.OSFile(str(self._file(collection)), "wb") as sink,
                pa.ipc.new_file(sink, rows.schema) as writer,
            ):
                writer.write_table(rows)
        context = self._session.sparkContext
        context.setJobGroup(group, "query", interruptOnCancel=True)
        try:
            return self._executable().toArrow()
        finally:
            context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]

    def _executable(self) -> DataFrame:
        """The query with a plan that keeps nothing of an earlier run, and is not kept if it would
        keep something of this one: what was broadcast takes a megabyte at least.
        """
        frame = self._frame
        if not self._keeps_nothing:
            builder = Builder(self._session.sparkContext._jvm)
            analyzed = frame._jdf.queryExecution().analyzed()
            self._frame = builder.frame(analyzed, self._session)
        return frame

    @cached_property
    def _keeps_nothing(self) -> bool:
        plan: str = self._frame._jdf.queryExecution().executedPlan().toString()
        return not any(kept in plan for kept in ("Exchange", "Subquery", "subquery"))

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class Evaluator:
    """Plans queries, keeps the plans, and runs them. Safe for use by many threads."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        """`folder` is a scratch folder that all executors can read."""
        self._spark = spark
        self._session = with_meaning(spark.newSession())
        self._folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        self._lock = threading.Lock()
        self._planning = threading.Lock()
        self._count = 0
        self._idle: OrderedDict[tuple[object, ...], list[Prepared]] = OrderedDict()

    def prepare(self, sql: str, inputs: Mapping[GlobalId, Schema]) -> Prepared:
        """A plan for the query that nobody else has; to be given back with `release`."""
        key = _key(sql, inputs)
        with self._lock:
            idle = self._idle.get(key)
            if idle:
                self._idle.move_to_end(key)
                return idle.pop()
            self._count += 1
            folder = self._folder / str(self._count)
        with told(), self._planning:  # names of collections are the session's
            return Prepared(self._session, sql, inputs, folder)

    def release(self, sql: str, inputs: Mapping[GlobalId, Schema], prepared: Prepared) -> None:
        """Keep the plan for the next time."""
        gone: list[Prepared] = []
        with self._lock:
            self._idle.setdefault(_key(sql, inputs), []).append(prepared)
            while len(self._idle) > _KEPT:
                gone += self._idle.popitem(last=False)[1]
        for each in gone:
            each.close()

    def evaluate(
        self,
        sql: str,
        inputs: Mapping[GlobalId, Schema],
        contents: Mapping[GlobalId, pa.Table],
        group: str,
    ) -> pa.Table:
        """The result of the query over the contents given; `EngineFault` if it has none."""
        prepared = self.prepare(sql, inputs)
        try:
            with told():
                return prepared.run(contents, group)
        finally:
            self.release(sql, inputs, prepared)

    def columns(self, sql: str, inputs: Mapping[GlobalId, Schema]) -> pa.Schema:
        """The columns that the query has; `EngineFault` if it means nothing to the engine."""
        prepared = self.prepare(sql, inputs)
        self.release(sql, inputs, prepared)
        return prepared.columns

    def cancel(self, group: str) -> None:
        """Stop the jobs of a group."""
        self._spark.sparkContext.cancelJobGroup(group)


def _key(sql: str, inputs: Mapping[GlobalId, Schema]) -> tuple[object, ...]:
    return (sql, tuple(sorted(inputs.items(), key=lambda each: each[0])))
