"""A query that comes again is answered from the contents it is given then, not from older ones."""

from __future__ import annotations

import datetime
import decimal
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from waterclock.compute.evaluate import Evaluator
from waterclock.compute.live_session import LiveSession
from waterclock.model.ids import GlobalId
from waterclock.model.schema import (
    Array,
    Bool,
    Bytes,
    Column,
    ColumnType,
    Date,
    Decimal,
    Float,
    Int,
    Interval,
    Json,
    Schema,
    Text,
    TimeOfDay,
    Timestamp,
    Uuid,
)
from waterclock.persist.rows import row_schema

pytestmark = pytest.mark.slow

ONE, OTHER = GlobalId.user(1), GlobalId.user(2)
SCHEMA = Schema((Column("k", Int(64)), Column("v", Int(64))))

SCHEMA_OF_ROWS = pa.schema([("k", pa.int64()), ("v", pa.int64())])

QUERIES = {
    "join": ("SELECT u1.v, u2.v FROM u1 JOIN u2 ON u1.k = u2.k", [(11, 5), (30, 300)]),
    "subquery": ("SELECT v, (SELECT max(v) FROM u2) AS m FROM u1", [(11, 300), (30, 300)]),
    "in": ("SELECT * FROM u1 WHERE k IN (SELECT k FROM u2 WHERE v > 5)", [(3, 30)]),
    "cross join": ("SELECT u1.v, u2.v FROM u1, u2 WHERE u2.v < u1.v", [(11, 5), (30, 5)]),
    "aggregate": ("SELECT k, sum(v) FROM u1 GROUP BY k", [(1, 11), (3, 30)]),
    "filter": ("SELECT * FROM u1 WHERE v > 10", [(1, 11), (3, 30)]),
}


def table(*rows: tuple[int, int]) -> pa.Table:
    keys, values = zip(*rows, strict=True)
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.int64())})


@pytest.fixture(params=["held", "filed"])
def evaluator(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Evaluator:
    """One that holds all contents in the JVM, and one that holds none."""
    small_bytes = 1 << 19 if request.param == "held" else -1
    return Evaluator(LiveSession.of(spark), tmp_path / "queries", small_bytes=small_bytes)


def test_pieces_of_contents_without_rows(evaluator: Evaluator) -> None:
    none = SCHEMA_OF_ROWS.empty_table()
    pieces = [none, none, table((1, 10)), none, none, none, table((2, 20))]
    contents = {ONE: pa.concat_tables(pieces)}
    found = evaluator.evaluate("SELECT * FROM u1 WHERE v > 1", {ONE: SCHEMA}, contents, "g")
    assert found.to_pylist() == [{"k": 1, "v": 10}, {"k": 2, "v": 20}]


@pytest.mark.parametrize("name", QUERIES)
def test_the_same_text_over_other_contents(name: str, evaluator: Evaluator) -> None:
    sql, expected = QUERIES[name]
    inputs = {ONE: SCHEMA, OTHER: SCHEMA}
    before = {ONE: table((1, 10), (2, 20)), OTHER: table((1, 100))}
    after = {ONE: table((1, 11), (3, 30)), OTHER: table((3, 300), (1, 5))}
    for _ in range(2):
        evaluator.evaluate(sql, inputs, before, "group")
        found = evaluator.evaluate(sql, inputs, after, "group")
        rows = zip(*(column.to_pylist() for column in found.columns), strict=True)
        assert Counter(rows) == Counter(expected)


def test_nothing_after_something(evaluator: Evaluator) -> None:
    sql = "SELECT count(*), max(v) FROM u1"
    for rows, expected in ((table((1, 10)), (1, 10)), (table((1, 10)).slice(1), (0, None))):
        found = evaluator.evaluate(sql, {ONE: SCHEMA}, {ONE: rows}, "group")
        assert [column.to_pylist() for column in found.columns] == [[each] for each in expected]


def test_contents_that_grow_beyond_what_is_held(spark: SparkSession, tmp_path: Path) -> None:
    evaluator = Evaluator(LiveSession.of(spark), tmp_path / "queries", small_bytes=1000)
    sql = "SELECT count(*), sum(v) FROM u1"
    for count in (10, 1000, 11, 100_000, 12):
        rows = table(*((n, 2) for n in range(count)))
        found = evaluator.evaluate(sql, {ONE: SCHEMA}, {ONE: rows}, "group")
        assert [column.to_pylist() for column in found.columns] == [[count], [2 * count]]


KINDS: dict[str, tuple[ColumnType, object]] = {
    "b": (Bool(), True),
    "i2": (Int(16), -3),
    "i4": (Int(32), -(2**31)),
    "i8": (Int(64), 2**62),
    "f4": (Float(32), 0.5),
    "f8": (Float(64), -1.25e300),
    "n": (Decimal(38, 18), decimal.Decimal("12345678901234567890.123456789012345678")),
    "t": (Text(), "a\u00e9\U0001f600"),
    "x": (Bytes(), b"\0\xff"),
    "d": (Date(), datetime.date(1969, 12, 31)),
    "s": (Timestamp(zoned=False), datetime.datetime(1900, 1, 1, 1, 2, 3, 456789)),
    "z": (Timestamp(zoned=True), datetime.datetime(2040, 1, 1, 1, 2, 3, 4, datetime.UTC)),
    "u": (Uuid(), bytes(range(16))),
    "j": (Json(), '{"a": 1.50}'),
    "a": (Array(Int(32)), [1, None, 3]),
    "aa": (Array(Text()), []),
}


def test_every_kind_of_column(evaluator: Evaluator) -> None:
    schema = Schema(tuple(Column(name, kind) for name, (kind, _) in KINDS.items()))
    given = [
        {name: value for name, (_, value) in KINDS.items()},
        dict.fromkeys(KINDS),
    ]
    rows = pa.Table.from_pylist(given, schema=row_schema(schema))
    found = evaluator.evaluate("SELECT * FROM u1", {ONE: schema}, {ONE: rows}, "group")
    assert found.to_pylist() == given


def test_times_and_intervals(evaluator: Evaluator) -> None:
    """As they are stored, not as Python has them."""
    schema = Schema((Column("t", TimeOfDay()), Column("i", Interval())))
    shape = row_schema(schema)
    span = {"months": 1, "days": -2, "microseconds": 3}
    clock = pa.array([86_399_999_999, None], pa.int64()).cast(shape.field("t").type)
    columns = [clock, pa.array([span, None], shape.field("i").type)]
    rows = pa.Table.from_arrays(columns, schema=shape)
    found = evaluator.evaluate("SELECT * FROM u1", {ONE: schema}, {ONE: rows}, "group")
    assert found.cast(shape).equals(rows)


def test_fields_that_are_never_null_in_structs_that_may_be(evaluator: Evaluator) -> None:
    """Under names that repeat, too."""
    part = "CASE WHEN v > 15 THEN named_struct('one', 1, 'v', v) END AS x"
    sql = f"SELECT {part}, {part} FROM u1"
    found = evaluator.evaluate(sql, {ONE: SCHEMA}, {ONE: table((1, 10), (2, 20))}, "group")
    assert found.column_names == ["x", "x"]
    assert found.column(0).to_pylist() == [None, {"one": 1, "v": 20}]
