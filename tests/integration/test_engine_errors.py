"""What the engine raises reaches a user in PostgreSQL's words."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from waterclock.compute.evaluate import Evaluator
from waterclock.compute.faults import EngineFault
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema, Text

pytestmark = pytest.mark.slow

T = GlobalId.user(1)
SCHEMA = Schema((Column("a", Int(32)), Column("s", Text())))
ROWS = pa.table({"a": pa.array([0, 2147483647], pa.int32()), "s": pa.array(["x", "12"])})


@pytest.fixture(scope="module")
def evaluator(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Evaluator:
    folder: Path = tmp_path_factory.mktemp("errors")
    return Evaluator(spark, folder / "scratch")


@pytest.mark.parametrize(
    ("sql", "sqlstate", "message"),
    [
        ("SELECT 1 DIV a FROM u1", "22012", "division by zero"),
        ("SELECT a + 1 FROM u1", "22003", "value out of range"),
        ("SELECT CAST(s AS INT) FROM u1", "22P02", 'invalid input syntax for type integer: "x"'),
        ("SELECT CAST(a * 100000L AS INT) FROM u1", "22003", "integer out of range"),
        ("SELECT RAISE_ERROR('2201E cannot take logarithm of zero') FROM u1", "2201E", None),
        (
            "SELECT (SELECT a FROM u1) FROM u1",
            "21000",
            "more than one row returned by a subquery used as an expression",
        ),
        ("SELECT no_such_column FROM u1", "XX000", "the query could not be computed"),
    ],
)
def test_an_error_of_the_engine(
    evaluator: Evaluator, sql: str, sqlstate: str, message: str | None
) -> None:
    with pytest.raises(EngineFault) as caught:
        evaluator.evaluate(sql, {T: SCHEMA}, {T: ROWS}, "errors")
    assert caught.value.sqlstate == sqlstate
    if message is not None:
        assert str(caught.value) == message
    told = f"{caught.value} {caught.value.detail} {caught.value.hint}"
    assert "spark" not in told.lower()
    assert "u1" not in told
