"""Results of Spark are collected in bounded memory, in their order, and refused beyond a bound."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from waterclock.compute.evaluate import Evaluator
from waterclock.compute.faults import EngineFault
from waterclock.compute.live_session import LiveSession

pytestmark = pytest.mark.slow


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_large_result_comes_through_files_in_its_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    evaluator = Evaluator(LiveSession.of(spark), tmp_path / "queries")
    found = evaluator.evaluate(
        "SELECT id, repeat('x', 50) AS t FROM range(0, 100000, 1, 3) ORDER BY id", {}, {}, "g"
    )
    assert found["id"].to_pylist() == list(range(100_000))
    assert files(tmp_path) == []  # they are unlinked, and stay mapped
    assert found["t"][99_999].as_py() == "x" * 50


def test_few_and_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    evaluator = Evaluator(LiveSession.of(spark), tmp_path / "queries")
    assert evaluator.evaluate("SELECT id FROM range(0)", {}, {}, "g").num_rows == 0
    twice = evaluator.evaluate("SELECT id AS a, id AS a FROM range(2)", {}, {}, "g")
    assert [column.to_pylist() for column in twice.columns] == [[0, 1], [0, 1]]


def test_a_result_beyond_the_bound_is_refused_and_leaves_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    evaluator = Evaluator(LiveSession.of(spark), tmp_path / "queries", result_bytes=1 << 20)
    with pytest.raises(EngineFault, match="the result is too large") as refused:
        evaluator.evaluate(
            "SELECT id, repeat('x', 1000) AS t FROM range(0, 1000000, 1, 2)", {}, {}, "g"
        )
    assert refused.value.sqlstate == "54000"
    assert refused.value.hint is not None
    assert "max_result_bytes" in refused.value.hint
    assert files(tmp_path) == []
    assert evaluator.evaluate("SELECT 1 AS one", {}, {}, "g")["one"].to_pylist() == [1]
