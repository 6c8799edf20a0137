"""What the engine raises reaches a user in PostgreSQL's words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from waterclock.compute.evaluate import Evaluator
from waterclock.compute.faults import EngineFault
from waterclock.compute.live_session import LiveSession
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema, Text
from waterclock.sql.dialect import json_reading

pytestmark = pytest.mark.slow

T = GlobalId.user(1)
SCHEMA = Schema((Column("a", Int(32)), Column("s", Text())))
ROWS = pa.table({"a": pa.array([0, 2147483647], pa.int32()), "s": pa.array(["x", "12"])})


@pytest.fixture(scope="module")
def evaluator(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Evaluator:
    folder: Path = tmp_path_factory.mktemp("errors")
    return Evaluator(LiveSession.of(spark), folder / "scratch")


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


NOT_JSON = (
    *('{"a":1,}', "[1 2]", "", "01", "1.", "tru", "[1", "1]", "{1:2}", '{"a" 1}', '{"a":}'),
    *("[1,]", "[1}", '{"a":1]', '"\\x"', '"a', '"a\nb"', '"\\ud83d"', "1 1", "{} {}", ",", "+1"),
    *('{"a":1 "b":2}', "[,1]", "{,}", ":", '{"a"}', "nul l", "\u00a01", '"\\ude00"', "[1]]"),
)


@pytest.mark.parametrize(
    ("read", "texts"), [(json_reading.normal, NOT_JSON), (json_reading.checked, NOT_JSON[-4:])]
)
def test_a_text_that_is_no_json(
    evaluator: Evaluator, read: Callable[[str], str], texts: tuple[str, ...]
) -> None:
    """As PostgreSQL has it, but that half a character is no error in `json`."""
    told: dict[str, tuple[str, str] | None] = {}
    for text in texts:
        rows = pa.table({"a": pa.array([1], pa.int32()), "s": pa.array([text])})
        try:
            evaluator.evaluate(f"SELECT {read('s')} FROM u1", {T: SCHEMA}, {T: rows}, "json")
            told[text] = None
        except EngineFault as fault:
            told[text] = (fault.sqlstate, str(fault))
    taken = [text for text, said in told.items() if said is None]
    assert taken == ([] if read is json_reading.normal else ['"\\ude00"'])
    refusals = {said for said in told.values() if said is not None}
    assert refusals == {("22P02", "invalid input syntax for type json")}


def test_a_long_text_as_json(evaluator: Evaluator) -> None:
    """Nothing of it takes stack for every character or element."""
    text = '["' + "x" * 100_000 + '"' + ", 1" * 500 + "]"
    rows = pa.table({"a": pa.array([1], pa.int32()), "s": pa.array([text])})
    sql = f"SELECT {json_reading.normal('s')} AS j FROM u1"
    found = evaluator.evaluate(sql, {T: SCHEMA}, {T: rows}, "json")
    assert found["j"].to_pylist() == [text]


def test_a_character_that_text_has_not(evaluator: Evaluator) -> None:
    rows = pa.table({"a": pa.array([1], pa.int32()), "s": pa.array(['["\\u0000"]'])})
    with pytest.raises(EngineFault) as caught:
        evaluator.evaluate(
            f"SELECT {json_reading.normal('s')} FROM u1", {T: SCHEMA}, {T: rows}, "json"
        )
    assert caught.value.sqlstate == "22P05"
