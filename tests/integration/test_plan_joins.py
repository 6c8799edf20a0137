"""Joins of all kinds at every time: NOT IN, keys of different types, floats, nested outer joins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from waterclock.compute.errors import NotMaintainable
from waterclock.compute.plan.nodes import Distinct, Join, Node, walk
from waterclock.testing.views import Views, interpreted

pytestmark = pytest.mark.slow

NOT_IN = {
    "one column": "SELECT k, v FROM u1 WHERE k NOT IN (SELECT k FROM u2 WHERE i > 3)",
    "one column, a computed one": "SELECT k, v FROM u1 WHERE v + 1 NOT IN (SELECT i FROM u2)",
    "one column, correlated": (
        "SELECT k, v, s FROM u1 WHERE k NOT IN (SELECT k FROM u2 WHERE u2.t = u1.s)"
    ),
    "floats": "SELECT k, f FROM u1 WHERE f NOT IN (SELECT g FROM u2 WHERE i > 2)",
    "two columns": "SELECT k, v, s FROM u1 WHERE (k, s) NOT IN (SELECT k, t FROM u2 WHERE i > 1)",
    "two columns, correlated": (
        "SELECT k, v, s FROM u1 WHERE (k, v) NOT IN (SELECT k, i FROM u2 WHERE u2.t = u1.s)"
    ),
    "under or": "SELECT k, v FROM u1 WHERE k NOT IN (SELECT k FROM u2 WHERE i > 4) OR v > 5",
    "as a column": "SELECT k, k NOT IN (SELECT k FROM u2 WHERE i > 4) FROM u1",
}
OTHERS = {
    "not in, three columns": (
        "SELECT k, v, s FROM u1 WHERE (k, s, v) NOT IN (SELECT k, t, i FROM u2 WHERE i > 1)"
    ),
    "not in, correlated by an inequality": (
        "SELECT k, v FROM u1 WHERE k NOT IN (SELECT k FROM u2 WHERE u2.i > u1.v)"
    ),
    "a condition like that of not in": (
        "SELECT u1.k, u2.k FROM u1 LEFT JOIN u2 ON u1.k = u2.k OR (u1.k = u2.k) IS NULL"
    ),
    "integers of two widths": "SELECT u1.k, v, t FROM u1 JOIN u2 ON u1.v = u2.i",
    "an integer and a decimal": "SELECT u1.k, w FROM u1 LEFT JOIN u2 ON u1.v = u2.w",
    "decimals of two scales": "SELECT a.k, b.k, a.w, b.x FROM u2 a JOIN u2 b ON a.w = b.x",
    "floats of two widths": "SELECT u1.k, f, g FROM u1 JOIN u2 ON u1.f = u2.g",
    "floats, null-safe": "SELECT u1.k, f, g FROM u1 FULL JOIN u2 ON u1.f <=> u2.g AND v > 3",
    "floats, semi": "SELECT k, f FROM u1 WHERE f IN (SELECT g FROM u2)",
    "floats in structs": (
        "SELECT a.k, b.k FROM u1 a JOIN u1 b ON struct(a.f, a.k) = struct(b.f, b.k)"
    ),
    "grouped floats": "SELECT f, count(*), sum(v) FROM u1 GROUP BY f",
    "distinct floats": "SELECT DISTINCT f, g FROM u1 JOIN u2 USING (k)",
    "full, with a residual": (
        "SELECT u1.k, u2.k, s, t FROM u1 FULL JOIN u2 ON u1.k = u2.k AND v < i AND s <> t"
    ),
    "full, without a key": "SELECT u1.v, u2.i FROM u1 FULL JOIN u2 ON u1.v > u2.i + 4",
    "null-safe": "SELECT u1.k, v, w FROM u1 JOIN u2 ON u1.k <=> u2.k AND u1.s <=> u2.t",
    "left joins in a row": (
        "SELECT a.k, b.t, c.v, e.w FROM u1 a LEFT JOIN u2 b ON a.k = b.k"
        " LEFT JOIN u1 c ON b.i = c.v LEFT JOIN u2 e ON c.s = e.t AND e.i > 3"
    ),
    "self join of a CTE": (
        "WITH c AS (SELECT k, max(v) AS m, count(*) AS n FROM u1 GROUP BY k)"
        " SELECT a.k, b.k, a.m FROM c a JOIN c b ON a.m = b.m AND a.n <= b.n"
    ),
    "a CTE over a CTE, used twice": (
        "WITH a AS (SELECT k, s, sum(v) AS x FROM u1 GROUP BY k, s),"
        " b AS (SELECT s, max(x) AS y FROM a GROUP BY s)"
        " SELECT a.k, a.s, x FROM a JOIN b ON a.s = b.s AND a.x = b.y"
        " WHERE y > (SELECT min(x) FROM a)"
    ),
    "anti, with a residual": "SELECT * FROM u1 LEFT ANTI JOIN u2 ON u1.k = u2.k AND u1.v < u2.i",
    "right, nested": (
        "SELECT a.k, b.t, c.s FROM u1 a RIGHT JOIN (u2 b LEFT JOIN u1 c ON b.i = c.v) ON a.k = b.k"
    ),
    "left, one row for each key": (
        "SELECT u1.k, v, c, m FROM u1 LEFT JOIN (SELECT k, count(*) AS c, max(i) AS m FROM u2"
        " GROUP BY k) x ON u1.k = x.k AND m > v"
    ),
    "full, one row for each key": (
        "SELECT a.k, b.k, n, c FROM (SELECT k, count(*) AS n FROM u1 GROUP BY k) a FULL JOIN"
        " (SELECT k, count(*) AS c FROM u2 GROUP BY k) b ON a.k = b.k"
    ),
    "right, the key is computed": (
        "SELECT a.k, b.t, c FROM (SELECT k, count(*) AS c FROM u1 GROUP BY k) a RIGHT JOIN u2 b"
        " ON a.k % 2 = b.k"
    ),
    "semi over an aggregate": (
        "SELECT s, count(*) FROM u1 GROUP BY s HAVING max(k) IN (SELECT k FROM u2)"
    ),
}


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> Iterator[Views]:
    with interpreted(spark):
        yield Views(spark)


@pytest.mark.semantics(44, 112)
@pytest.mark.parametrize("name", OTHERS)
def test_joins_at_every_time(name: str, views: Views, tmp_path: Path) -> None:
    assert views.check(OTHERS[name], tmp_path) > 0


@pytest.mark.semantics(44, 112)
@pytest.mark.parametrize("name", NOT_IN)
def test_not_in_at_every_time(name: str, views: Views, tmp_path: Path) -> None:
    """With and without nulls on either side, and with nothing on the right."""
    for size in (3, 7):
        assert views.check(NOT_IN[name], tmp_path / str(size), size=size) > 0


@pytest.mark.parametrize("name", NOT_IN)
def test_not_in_joins_on_keys_or_with_a_single_row(name: str, views: Views) -> None:
    """No pairs of all rows with all rows: a join without keys has one row at most on the right."""
    for node in walk(views.planned(NOT_IN[name])):
        if isinstance(node, Join) and not node.on:
            assert _has_one_column(node.right)


def _has_one_column(node: Node) -> bool:
    [column] = node.output
    return column.type == '"boolean"'


def test_an_outer_join_with_one_row_for_each_key_is_one_join(views: Views) -> None:
    plan = views.planned("SELECT k, (SELECT max(i) FROM u2 WHERE u2.k = u1.k) FROM u1")
    nodes = {id(node): node for node in walk(plan)}.values()
    assert not any(isinstance(node, Distinct) for node in nodes)
    assert len({node for node in nodes if isinstance(node, Join)}) == 1


@pytest.mark.parametrize(
    ("sql", "collation"),
    [
        ("SELECT s COLLATE UTF8_LCASE, count(*) FROM u1 GROUP BY 1", "UTF8_LCASE"),
        (
            "SELECT u1.k FROM u1 JOIN u2 ON s COLLATE UNICODE_CI = t COLLATE UNICODE_CI",
            "UNICODE_CI",
        ),
        ("SELECT max(s COLLATE UNICODE) FROM u1", "UNICODE"),
        ("SELECT DISTINCT named_struct('x', s COLLATE UTF8_LCASE) FROM u1", "UTF8_LCASE"),
        ("SELECT k FROM u1 ORDER BY s COLLATE UTF8_LCASE LIMIT 1", "UTF8_LCASE"),
    ],
)
def test_collations_that_do_not_compare_bytes_are_refused_by_name(
    sql: str, collation: str, views: Views
) -> None:
    with pytest.raises(NotMaintainable, match=f"collation {collation}"):
        views.planned(sql)


def test_a_collation_inside_a_condition_is_catalysts_own(views: Views, tmp_path: Path) -> None:
    assert views.check("SELECT k, s FROM u1 WHERE s COLLATE UTF8_LCASE = 'A'", tmp_path) > 0
