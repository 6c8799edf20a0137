"""A maintained view against the same SQL evaluated from scratch, at every single time.

Random changes of two inputs are played through a dataflow in steps that span several times, one of
which is lost and done again. At each time, what the view has become must be what Spark gives for
the contents of the inputs at that time; where Spark raises, an error must hold, and nowhere else.

The rows are few and their values collide: nulls, both zeros, NaN, numbers of different types that
are equal, texts that differ in their case.
"""

from __future__ import annotations

import datetime
import decimal
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from waterclock.compute.catalyst.optimized import optimized
from waterclock.compute.catalyst.trees import Builder, Logical
from waterclock.compute.catalyst.types import arrow_schema
from waterclock.compute.dataflow.dataflow import Dataflow
from waterclock.compute.dataflow.program import Program
from waterclock.compute.plan.determinism import refuse_nondeterministic
from waterclock.compute.plan.nodes import Node
from waterclock.compute.plan.translate import Translation
from waterclock.compute.relations import Relations
from waterclock.model.ids import GlobalId
from waterclock.persist.rows import DIFF, TIME
from waterclock.testing.from_scratch import Answer, FromScratch, Wrong, evaluated

U1, U2 = GlobalId.user(1), GlobalId.user(2)
SCHEMAS = {
    U1: StructType()
    .add("k", LongType())
    .add("v", LongType())
    .add("s", StringType())
    .add("d", DateType())
    .add("f", DoubleType())
    .add("b", BooleanType()),
    U2: StructType()
    .add("k", LongType())
    .add("w", DecimalType(10, 2))
    .add("t", StringType())
    .add("i", IntegerType())
    .add("g", FloatType())
    .add("x", DecimalType(12, 4)),
}
_FLOATS = (0.0, -0.0, 1.0, 2.5, math.nan, math.inf)

Row = tuple[Any, ...]
Updates = list[tuple[Row, int, int]]
Expected = dict[int, Counter[Row] | None]


@contextmanager
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Evaluate expressions without compiling them: for many small queries that is far quicker."""
    settings = {
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
    }
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


class History:
    """Random changes of both inputs. `size` is how many rows an input has, about, in the end."""

    def __init__(self, seed: int, size: int) -> None:
        self._random = random.Random(seed)
        self._size = size
        self._live: dict[GlobalId, list[Row]] = {collection: [] for collection in SCHEMAS}
        self._updates: dict[GlobalId, Updates] = {collection: [] for collection in SCHEMAS}

    def step(self, lower: int, upper: int) -> dict[GlobalId, pa.Table]:
        """The changes in a window of times."""
        return {c: updates_table(c, self._changes(c, lower, upper)) for c in SCHEMAS}

    def at(self, collection: GlobalId, time: int) -> list[Row]:
        """The rows of an input at a time."""
        counts: Counter[Row] = Counter()
        rows: dict[Row, Row] = {}
        for row, when, diff in self._updates[collection]:
            if when <= time:
                rows[_comparable(row)] = row
                counts[_comparable(row)] += diff
        return [rows[row] for row in counts.elements()]

    def _changes(self, collection: GlobalId, lower: int, upper: int) -> Updates:
        live, changes = self._live[collection], Updates()
        for time in range(lower, upper):
            if self._random.random() < 0.1:  # now and then everything goes
                changes += [(row, time, -1) for row in live]
                live.clear()
            for _ in range(self._random.randrange(self._size)):
                if live and self._random.random() < 0.35:
                    row = live.pop(self._random.randrange(len(live)))
                    changes.append((row, time, -1))
                else:
                    row = self._row(collection)
                    changes.append((row, time, 1))
                    live.append(row)
        self._updates[collection] += changes
        return changes

    def _row(self, collection: GlobalId) -> Row:
        pick = self._random
        values: list[Any] = [pick.randrange(4)]
        if collection == U1:
            day = datetime.date(2020, 1, pick.randrange(1, 5))
            values += [pick.randrange(-3, 8), pick.choice("abAx"), day]
            values += [pick.choice(_FLOATS), pick.random() < 0.5]
        else:
            values += [decimal.Decimal(pick.randrange(-4, 8) * 25) / 100, pick.choice("abAx")]
            values += [pick.randrange(-3, 8), pick.choice(_FLOATS)]
            values.append(decimal.Decimal(pick.randrange(-4, 8) * 25) / 100)
        return tuple(None if pick.random() < 0.15 else value for value in values)


class Views:
    """Plans views over the two inputs, and checks them."""

    def __init__(self, spark: SparkSession) -> None:
        jvm = spark.sparkContext._jvm
        self.spark = spark
        self.builder = Builder(jvm)
        relations = Relations(spark)
        for collection, schema in SCHEMAS.items():
            relations.add(collection, schema)
        self._translation = Translation(self.builder, relations)
        self._scratch = FromScratch(spark)

    def planned(self, sql: str) -> Node:
        """The view's plan."""
        [plan] = self.planned_together([sql])
        return plan

    def planned_together(self, results: Sequence[str]) -> tuple[Node, ...]:
        """The plans of several results of one view."""
        trees = []
        for sql in results:
            execution = self.spark.sql(sql)._jdf.queryExecution()
            refuse_nondeterministic(Logical(execution.analyzed()))
            trees.append(optimized(self.spark, self.builder, execution))
        return self._translation.planned(trees)

    def dataflow(self, sql: str, folder: Path) -> Dataflow:
        """A dataflow that maintains the view."""
        program = Program()
        program.add(self.planned(sql))
        return Dataflow(self.spark, self.builder, program, folder)

    def check(
        self, sql: str, folder: Path, *, size: int = 6, tolerance: float = 0.0, seed: object = None
    ) -> int:
        """Maintain the view through a random history; the number of times it had a value at.

        Doubles in its rows may differ by the relative tolerance.
        """
        choose = random.Random(str((sql, seed)))
        history = History(choose.randrange(2**32), size)
        program = Program()
        program.add(self.planned(sql))
        dataflow = Dataflow(self.spark, self.builder, program, folder)
        outputs: list[pa.Table] = []
        errors: list[pa.Table] = []
        for step in range(3):
            lower, upper = dataflow.upper, dataflow.upper + choose.randrange(1, 4)
            deltas = history.step(lower, upper)
            if step == 1:  # a crash after computing: the step is lost, and done again
                dataflow.compute(upper, deltas)
                kept = dataflow.kept_after()
                dataflow = Dataflow(
                    self.spark, self.builder, program, folder, upper=lower, kept=kept
                )
            ticked = dataflow.compute(upper, deltas)
            outputs += ticked.outputs
            errors.append(ticked.errors)
            dataflow.commit(upper, ticked)
            dataflow.merge()
        good = 0
        for time, expected in self._from_scratch(sql, history, range(dataflow.upper)).items():
            wrong = sum(holding(errors, time).values())
            if expected is None:
                assert wrong > 0, f"no error at {time}"
                continue
            assert wrong == 0, f"an error at {time}: {holding(errors, time)}"
            assert_same(holding(outputs, time), expected, tolerance, f"at {time}")
            good += 1
        return good

    def _from_scratch(self, sql: str, history: History, times: Sequence[int]) -> Expected:
        """What Spark gives for the inputs at each of the times; None where it raises."""
        frames = {}
        for time in times:
            for collection, schema in SCHEMAS.items():
                self._scratch.put(str(collection), schema, history.at(collection, time))
            frames[time] = self._scratch.query(sql)
        return {time: _counted(answer) for time, answer in evaluated(frames).items()}


def _counted(answer: Answer) -> Counter[Row] | None:
    if isinstance(answer, Wrong):
        return None
    return Counter(map(_comparable, zip(*(c.to_pylist() for c in answer.columns), strict=True)))


def updates_table(collection: GlobalId, changes: Updates) -> pa.Table:
    """Updates of an input as a delta."""
    schema = arrow_schema(SCHEMAS[collection])
    columns = [
        pa.array([row[place] for row, _, _ in changes], field.type)
        for place, field in enumerate(schema)
    ]
    columns += [pa.array([t for _, t, _ in changes], pa.int64())]
    columns += [pa.array([d for _, _, d in changes], pa.int64())]
    return pa.table(columns, names=[*schema.names, TIME, DIFF])


def holding(tables: Sequence[pa.Table], time: int) -> Counter[Row]:
    """What a collection with these updates holds at a time."""
    counts: Counter[Row] = Counter()
    for table in tables:
        for *row, when, diff in zip(*(c.to_pylist() for c in table.columns), strict=True):
            if when <= time:
                counts[_comparable(tuple(row))] += diff
    return Counter({row: count for row, count in counts.items() if count})


def assert_same(found: Counter[Row], expected: Counter[Row], tolerance: float, when: str) -> None:
    """The same rows as often, up to a relative difference of doubles."""
    if tolerance == 0.0:
        assert found == expected, when
        return
    ours, theirs = (sorted(c.elements(), key=_placed) for c in (found, expected))
    assert len(ours) == len(theirs), when
    for one, other in zip(ours, theirs, strict=True):
        same = all(_close(a, b, tolerance) for a, b in zip(one, other, strict=True))
        assert same, f"{when}: {one} is not {other}"


def _close(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, _Double) and isinstance(other, _Double):
        return math.isclose(float(one), float(other), rel_tol=tolerance) or one == other
    return bool(one == other)


def _placed(row: Row) -> tuple[str, ...]:
    """Rows that are to be compared come in the same place: by what is exact in them first."""
    exact = [repr(v) for v in row if not isinstance(v, _Double)]
    return (*exact, *(f"{float(v):.6e}" for v in row if isinstance(v, _Double)))


class _Double(str):
    """A double by how it prints, so that the sign of a zero counts and NaN equals itself."""

    __slots__ = ()


def _comparable(value: Any) -> Any:
    """The value as something hashable in which scale and sign count."""
    match value:
        case float():
            return _Double(value)
        case decimal.Decimal():
            return str(value)
        case bytearray():
            return bytes(value)
        case dict():
            return tuple(_comparable(v) for v in value.values())
        case list() | tuple():
            return tuple(_comparable(v) for v in value)
        case _:
            return value
