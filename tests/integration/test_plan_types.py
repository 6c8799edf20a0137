"""Columns of types that are made of others: maps, structs; and of types that can not be kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from waterclock.compute.errors import NotMaintainable
from waterclock.testing.views import Views, interpreted

pytestmark = pytest.mark.slow

MADE_OF_OTHERS = {
    "maps as keys, by what is in them": (
        "SELECT CASE WHEN v > 2 THEN map('b', f, 'a', 1.5D) ELSE map('a', 1.5D, 'b', f) END AS m,"
        " count(*), max_by(map(coalesce(v, 0L), array(s)), v) FROM u1 GROUP BY 1"
    ),
    "maps in joins, windows and orders": (
        "SELECT a.k, a.m, b.i, row_number() OVER (PARTITION BY b.i ORDER BY a.k, a.m['v'])"
        " FROM (SELECT k, CASE WHEN v > 0 THEN map('v', v, 'w', k) END AS m FROM u1"
        " ORDER BY v DESC, k, s, d, f, b LIMIT 6) a LEFT JOIN u2 b ON a.k = b.k"
    ),
    "fields that are never null, in structs that may be": (
        "SELECT a.k, b.x, CASE WHEN a.v > 0 THEN struct(1 AS one, map('s', struct(2 AS two)))"
        " END AS y FROM u1 a LEFT JOIN (SELECT k, struct(1 AS one, i) AS x FROM u2) b ON a.k = b.k"
    ),
    "years and months inside of expressions": (
        "SELECT k, d + INTERVAL '1' MONTH * CAST(v AS INT) FROM u1"
    ),
}


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> Iterator[Views]:
    with interpreted(spark):
        yield Views(spark)


@pytest.mark.semantics(44, 112)
@pytest.mark.parametrize("name", MADE_OF_OTHERS)
def test_values_made_of_others_at_every_time(name: str, views: Views, tmp_path: Path) -> None:
    assert views.check(MADE_OF_OTHERS[name], tmp_path) > 0


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT k, INTERVAL '1' MONTH * v FROM u1", "interval year to month"),
        ("SELECT max(INTERVAL '1' MONTH * v) > INTERVAL '2' MONTH FROM u1", "year to month"),
        ("SELECT DISTINCT k, array(make_interval(1)) FROM u1", "interval"),
        ("SELECT k, map(1, named_struct('x', v, 'x', s)) FROM u1", "x:bigint,x:string"),
    ],
)
def test_types_that_can_not_be_kept_are_refused_by_name(sql: str, name: str, views: Views) -> None:
    with pytest.raises(NotMaintainable, match=name) as refused:
        views.planned(sql)
    assert refused.value.hint
