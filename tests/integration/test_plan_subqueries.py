"""Subqueries used as values: correlated or not, in any clause, and the error for a second row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from waterclock.compute.kernels.single import SEVERAL
from waterclock.compute.plan.nodes import Single, walk
from waterclock.persist.rows import DIFF, TIME
from waterclock.testing.views import (
    U1,
    U2,
    Updates,
    Views,
    holding,
    interpreted,
    updates_table,
)

pytestmark = pytest.mark.slow

VIEWS = {
    "correlated": "SELECT k, v, (SELECT w FROM u2 WHERE u2.k = u1.k AND u2.i = u1.v) AS x FROM u1",
    "correlated, with a residual": (
        "SELECT k, (SELECT t FROM u2 WHERE u2.k = u1.k AND u2.i > u1.v + 5) FROM u1"
    ),
    "correlated, without a key": "SELECT k, v, (SELECT w FROM u2 WHERE u2.i > u1.v + 7) FROM u1",
    "correlated, in a filter": (
        "SELECT k, s FROM u1 WHERE v > (SELECT i FROM u2 WHERE u2.k = u1.k AND u2.t = u1.s)"
    ),
    "two of them": (
        "SELECT k, (SELECT w FROM u2 WHERE u2.k = u1.k AND u2.i = 3)"
        " + (SELECT max(w) FROM u2 WHERE u2.i = u1.k) FROM u1"
    ),
    "correlated, distinct": (
        "SELECT k, (SELECT DISTINCT t FROM u2 WHERE u2.k = u1.k AND u2.i = u1.v) FROM u1"
    ),
    "uncorrelated": "SELECT k, (SELECT w FROM u2 WHERE i = 7) AS x FROM u1",
    "uncorrelated, in a filter": "SELECT k, v FROM u1 WHERE v > (SELECT i FROM u2 WHERE k = 3)",
    "over a constant": "SELECT 1 AS one WHERE (SELECT w FROM u2 WHERE i > 6) > 0",
    "exists, uncorrelated": "SELECT k, v FROM u1 WHERE EXISTS (SELECT 1 FROM u2 WHERE i > 5)",
    "not exists, uncorrelated": "SELECT k FROM u1 WHERE NOT EXISTS (SELECT 1 FROM u2 WHERE i > 5)",
    "count of what is greater": "SELECT k, (SELECT count(*) FROM u2 WHERE u2.i > u1.v) FROM u1",
    "merged by the optimizer": "SELECT (SELECT avg(v) FROM u1), (SELECT sum(v) FROM u1), k FROM u2",
    "in the condition of a join": (
        "SELECT u1.k, w FROM u1 LEFT JOIN u2 ON u1.k = u2.k AND u1.v > (SELECT min(i) FROM u2)"
    ),
    "in the condition of a full join": (
        "SELECT u1.k, w, u2.t FROM u1 FULL JOIN u2 ON u1.k = u2.k AND v < (SELECT max(i) FROM u2)"
    ),
    "beside an aggregate": "SELECT s, sum(v) - (SELECT count(*) FROM u2) FROM u1 GROUP BY s",
    "beside a global aggregate": (
        "SELECT count(v) + (SELECT sum(i) FROM u2), collect_set(k) FROM u1 WHERE v > 5"
    ),
    "in an aggregate": "SELECT s, sum(v + (SELECT count(*) FROM u2)), min(v) FROM u1 GROUP BY s",
    "in an aggregate without a kernel": (
        "SELECT s, sort_array(collect_set(v + (SELECT count(*) FROM u2))) FROM u1 GROUP BY s"
    ),
    "in an aggregate without kernel or groups": (
        "SELECT sort_array(collect_set(v + (SELECT count(*) FROM u2))) FROM u1 WHERE v > 5"
    ),
    "in a key": (
        "SELECT k + (SELECT count(*) FROM u2), count(*) FROM u1"
        " GROUP BY k + (SELECT count(*) FROM u2)"
    ),
    "in having": "SELECT s, count(*) FROM u1 GROUP BY s HAVING count(*) > (SELECT min(i) FROM u2)",
    "in an order": (
        "SELECT k, v, s, d FROM u1 ORDER BY abs(v - (SELECT max(i) FROM u2)), v, k, s, d LIMIT 3"
    ),
    "exists inside an aggregate": (
        "SELECT sum(CASE WHEN k IN (SELECT k FROM u2) THEN 1 ELSE 0 END) FROM u1"
    ),
    "lateral, aggregated": (
        "SELECT u1.k, c, m FROM u1, LATERAL (SELECT count(*) AS c, max(i) AS m FROM u2"
        " WHERE u2.k = u1.k) x"
    ),
    "several over one collection, of the same name": (
        "SELECT k, (SELECT sum(v) FROM u1), (SELECT sum(v) FROM u1 WHERE k > 0),"
        " (SELECT max(v) FROM u1 WHERE k > 2) FROM u1"
    ),
    "a subquery that says how many rows to generate": (
        "SELECT k, x FROM u1 LATERAL VIEW"
        " explode(sequence(1L, greatest(1L, (SELECT count(*) FROM u2)), 2L)) t AS x"
        " WHERE v > (SELECT min(i) FROM u2)"
    ),
    "a window in a correlated subquery": (
        "SELECT u1.k, l.i, l.r FROM u1 LEFT JOIN LATERAL (SELECT i, sum(i) OVER (PARTITION BY t"
        " ORDER BY i) AS r FROM u2 WHERE u2.k = u1.k) l ON true"
    ),
}


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> Iterator[Views]:
    with interpreted(spark):
        yield Views(spark)


@pytest.mark.semantics(44, 45, 112)
@pytest.mark.parametrize("name", VIEWS)
def test_subqueries_at_every_time(name: str, views: Views, tmp_path: Path) -> None:
    assert views.check(VIEWS[name], tmp_path) > 0


@pytest.mark.semantics(45)
def test_a_second_row_is_an_error_that_heals(views: Views, tmp_path: Path) -> None:
    """Only if a row asks for it: two rows that no left row matches are none."""
    dataflow = views.dataflow("SELECT k, (SELECT t FROM u2 WHERE u2.k = u1.k) FROM u1", tmp_path)
    asking = (1, 0, "a", None, None, None)
    one, other = ((1, None, t, None, None, None) for t in "xy")
    first: Updates = [(asking, 2, 2), (asking, 5, -2)]
    second: Updates = [(one, 0, 1), (other, 1, 1), (one, 3, -1), (other, 4, 1)]
    ticked = dataflow.compute(6, {U1: updates_table(U1, first), U2: updates_table(U2, second)})
    errors = {(e["key"], e["message"], e[TIME], e[DIFF]) for e in ticked.errors.to_pylist()}
    assert errors == {
        ("(1)", SEVERAL, 2, 1),
        ("(1)", SEVERAL, 3, -1),
        ("(1)", SEVERAL, 4, 1),
        ("(1)", SEVERAL, 5, -1),
    }
    assert holding(ticked.outputs, 1) == Counter()
    assert holding(ticked.outputs, 3) == Counter({(1, "y"): 2})
    assert holding(ticked.outputs, 5) == Counter()


def test_subqueries_that_are_the_same_are_computed_once(views: Views) -> None:
    plan = views.planned("SELECT k + (SELECT i FROM u2), k - (SELECT i FROM u2) FROM u1")
    assert len({id(node) for node in walk(plan) if isinstance(node, Single)}) == 1
