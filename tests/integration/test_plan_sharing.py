"""What a view computes several times in the same way is computed and kept once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from waterclock.compute.dataflow.program import Program
from waterclock.compute.plan.nodes import Node
from waterclock.testing.views import Views, interpreted

pytestmark = pytest.mark.slow

SUMS = "(SELECT k, sum(v) AS x FROM u1 WHERE v <> 3 GROUP BY k)"
RANKS = "(SELECT k, v, rank() OVER (PARTITION BY k ORDER BY v DESC) AS r FROM u1)"
REPEATED = {
    "a table expression used twice": (
        f"WITH c AS {SUMS} SELECT a.k, a.x, b.x FROM c a JOIN c b ON a.k = b.k + 1",
        2,
    ),
    "a subquery that repeats the query": (
        f"SELECT k, x FROM {SUMS} WHERE x = (SELECT max(x) FROM {SUMS})",
        3,
    ),
    "a join, in three places": (
        "WITH c AS (SELECT a.k, a.v, b.i FROM u1 a JOIN u2 b ON a.k = b.k)"
        " SELECT k, v + i FROM c UNION ALL SELECT k, v - i FROM c UNION ALL SELECT k, v * i FROM c",
        1,
    ),
    "windows": (f"SELECT a.k, b.v FROM {RANKS} a JOIN {RANKS} b ON a.k = b.k AND a.r = b.r + 1", 2),
    "generated rows": (
        "WITH c AS (SELECT DISTINCT k, x FROM u1 LATERAL VIEW explode(array(v, k)) t AS x)"
        " SELECT k FROM c UNION ALL SELECT x FROM c",
        1,
    ),
}
DIFFERENT = {
    "constants of another type": (
        "SELECT DISTINCT k, hash(1) FROM u1 UNION ALL SELECT DISTINCT k, hash(1L) FROM u1",
        2,
    ),
    "other arguments, other functions": (
        "SELECT k, max(v + 1) FROM u1 GROUP BY k UNION ALL SELECT k, max(v + 2) FROM u1 GROUP BY k"
        " UNION ALL SELECT k, min(v + 1) FROM u1 GROUP BY k",
        3,
    ),
    "sums in another order": (
        "SELECT DISTINCT (f + v) + k FROM u1 UNION ALL SELECT DISTINCT f + (v + k) FROM u1",
        2,
    ),
    "other conditions": (
        "SELECT DISTINCT k FROM u1 WHERE v > 1 UNION ALL SELECT DISTINCT k FROM u1 WHERE v > 2",
        2,
    ),
    "other columns": ("SELECT DISTINCT k FROM u1 UNION ALL SELECT DISTINCT v FROM u1", 2),
}


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> Iterator[Views]:
    with interpreted(spark):
        yield Views(spark)


def operators(plans: Sequence[Node]) -> int:
    program = Program()
    for plan in plans:
        program.add(plan)
    return len(program.operators)


@pytest.mark.semantics(44, 112)
@pytest.mark.parametrize("name", REPEATED)
def test_what_is_repeated_is_computed_once(name: str, views: Views, tmp_path: Path) -> None:
    sql, count = REPEATED[name]
    assert operators([views.planned(sql)]) == count
    assert views.check(sql, tmp_path) > 0


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_is_not_taken_for_the_same(name: str, views: Views) -> None:
    sql, count = DIFFERENT[name]
    assert operators([views.planned(sql)]) == count


def test_results_of_one_view_share_what_they_have_in_common(views: Views) -> None:
    doubled = f"SELECT k, x * 2 FROM {SUMS}"
    assert operators(views.planned_together([doubled, f"SELECT k, x + 1 FROM {SUMS}"])) == 1
    assert operators([views.planned(doubled), views.planned(doubled)]) == 2, "views do not"
