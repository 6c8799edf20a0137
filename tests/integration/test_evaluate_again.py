"""A query that comes again is answered from the contents it is given then, not from older ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from waterclock.compute.evaluate import Evaluator
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema

pytestmark = pytest.mark.slow

ONE, OTHER = GlobalId.user(1), GlobalId.user(2)
SCHEMA = Schema((Column("k", Int(64)), Column("v", Int(64))))

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


@pytest.mark.parametrize("name", QUERIES)
def test_the_same_text_over_other_contents(name: str, spark: SparkSession, tmp_path: Path) -> None:
    sql, expected = QUERIES[name]
    evaluator = Evaluator(spark, tmp_path / "queries")
    inputs = {ONE: SCHEMA, OTHER: SCHEMA}
    before = {ONE: table((1, 10), (2, 20)), OTHER: table((1, 100))}
    after = {ONE: table((1, 11), (3, 30)), OTHER: table((3, 300), (1, 5))}
    for _ in range(2):
        evaluator.evaluate(sql, inputs, before, "group")
        found = evaluator.evaluate(sql, inputs, after, "group")
        rows = zip(*(column.to_pylist() for column in found.columns), strict=True)
        assert Counter(rows) == Counter(expected)
