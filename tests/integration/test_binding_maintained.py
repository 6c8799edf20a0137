"""Bound queries as maintained views: compute takes them, and they stay what Spark says they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from waterclock.compute.plan.nodes import Regroup, Temporal, walk
from waterclock.testing.relations import KnownRelations, bound
from waterclock.testing.views import Views, interpreted

pytestmark = pytest.mark.slow

RELATIONS = KnownRelations(
    {
        "one": {
            "k": "bigint",
            "v": "bigint",
            "s": "text",
            "d": "date",
            "f": "float8",
            "b": "bool",
        },
        "two": {
            "k": "bigint",
            "w": "numeric(10,2)",
            "t": "text",
            "i": "int",
            "g": "float4",
            "x": "numeric(12,4)",
        },
    }
)
SCALED = "(SELECT k, i, (w::text || CASE WHEN k > 1 THEN '0' ELSE '' END)::numeric AS n FROM two)"
"""Numbers with scales of their own, of which some are equal and look different."""
SPANS = (
    "(SELECT k, b, make_interval(months => CASE WHEN b THEN v::int % 5 ELSE 0 END,"
    " days => CASE WHEN b THEN 0 ELSE 30 * (v::int % 5) END) AS i FROM one)"
)
"""Intervals, of which some are equal and look different."""
QUERIES = [
    f"SELECT k, sum(n), avg(n), min(n), max(n), count(n) FROM {SCALED} x GROUP BY k",
    f"SELECT n, count(*), sum(DISTINCT n) FROM {SCALED} x GROUP BY n",
    f"SELECT k, count(DISTINCT n), avg(i) FROM {SCALED} x GROUP BY k",
    f"SELECT DISTINCT n FROM {SCALED} x",
    f"SELECT a.n, b.i FROM {SCALED} a JOIN {SCALED} b ON a.n = b.n AND a.k = b.k",
    f"SELECT n / 3 AS q, n * n AS p, n + 1.5 AS s, round(n / 7, 2) AS r FROM {SCALED} x",
    f"SELECT k, sum(CASE WHEN i > 0 THEN n ELSE 0 END) AS s FROM {SCALED} x GROUP BY k",
    f"SELECT n FROM {SCALED} x EXCEPT SELECT v FROM one",
    f"SELECT k, n FROM {SCALED} x ORDER BY n DESC LIMIT 3",
    f"SELECT k, n, count(*) FROM {SCALED} x GROUP BY ROLLUP (k, n)",
    f"SELECT n FROM {SCALED} x EXCEPT ALL SELECT v FROM one",
    f"SELECT n, k FROM {SCALED} x INTERSECT ALL SELECT v, k FROM one",
    f"SELECT k, i, sum(i) OVER (ORDER BY n RANGE BETWEEN 1.5 PRECEDING AND 1 FOLLOWING) AS s"
    f" FROM {SCALED} x",
    f"SELECT ln(n) AS l, power(n, i) AS p, log(n, 7) AS g, exp(n % 9) AS e FROM {SCALED} x",
    f"SELECT k, round(sum(n ^ 0.5), i % 3) AS s FROM {SCALED} x WHERE n > 0 GROUP BY k, i",
    f"SELECT gcd(n, 0.25) AS g, trim_scale(n) AS t, width_bucket(n, -1, 9, 4) AS b FROM {SCALED} x",
    "SELECT k, exp(f) AS e, power(f, v) AS p, sind(f) AS s, cbrt(f) AS c FROM one WHERE f < 9",
    "SELECT k, v + 1 AS n, s || '!' AS m FROM one WHERE v > 0 AND s LIKE 'a%'",
    "SELECT a.k, a.s, b.t, b.w * 2 AS ww FROM one a JOIN two b ON a.k = b.k",
    "SELECT * FROM one LEFT JOIN two USING (k)",
    "SELECT a.v, b.i FROM one a FULL JOIN two b ON a.v = b.i AND b.w > 0",
    "SELECT k, count(*), count(v), sum(v), min(s), max(d) FROM one GROUP BY k",
    "SELECT k, sum(w), avg(w), avg(i), sum(x) / 3 AS third FROM two GROUP BY k",
    "SELECT t, sum(i) FILTER (WHERE w > 0) AS p FROM two GROUP BY t HAVING count(*) > 1",
    "SELECT DISTINCT s, b FROM one",
    "SELECT j, count(*) FROM (SELECT (v || CASE WHEN k > 1 THEN '.0' ELSE '' END)::jsonb AS j"
    " FROM one) x GROUP BY j",
    "SELECT DISTINCT (v || CASE WHEN k > 1 THEN '.0' ELSE '' END)::jsonb AS j, b FROM one",
    "SELECT v::text::jsonb AS j FROM one EXCEPT SELECT (i || '.0')::jsonb FROM two",
    "SELECT DISTINCT ON (s) s, v FROM one ORDER BY s, v DESC",
    "SELECT k, v FROM one ORDER BY v DESC LIMIT 3",
    "SELECT k FROM one UNION SELECT k FROM two",
    "SELECT k FROM one EXCEPT ALL SELECT k FROM two",
    "SELECT k, v FROM one WHERE k IN (SELECT k FROM two WHERE i > 0)",
    "SELECT k, v FROM one WHERE k NOT IN (SELECT k FROM two WHERE i > 5)",
    "SELECT k, v, v IN (SELECT i FROM two) AS found FROM one",
    "SELECT k, (SELECT max(w) FROM two WHERE two.k = one.k) AS most FROM one",
    "SELECT k, v FROM one WHERE EXISTS (SELECT 1 FROM two WHERE two.k = one.k AND two.i > one.v)",
    "SELECT s, string_agg(v::text, ',' ORDER BY v), array_agg(v ORDER BY v) FROM one GROUP BY s",
    "SELECT s, array_agg(v), jsonb_agg(x) FROM (SELECT s, v, d FROM one ORDER BY f DESC, d) x"
    " GROUP BY s",
    "SELECT k, v FROM (SELECT * FROM one ORDER BY v DESC, s) x WHERE b LIMIT 3",
    "SELECT k, v, rank() OVER (PARTITION BY k ORDER BY v) AS r FROM one",
    "WITH q AS (SELECT k, sum(v) AS n FROM one GROUP BY k) SELECT n, t FROM q JOIN two USING (k)",
    "SELECT s, v, sum(v) FROM one GROUP BY ROLLUP (s, v)",
    "SELECT one.k, g FROM one, generate_series(1, one.k) AS g",
    "SELECT date_trunc('month', d::timestamp) AS m, extract(year FROM d) AS y, d + 1 AS e FROM one",
    "SELECT CASE WHEN v > 2 THEN 'big' WHEN v IS NULL THEN 'none' ELSE s END AS c FROM one",
    "SELECT k, v, sum(v) OVER (PARTITION BY k ORDER BY s GROUPS BETWEEN 1 PRECEDING AND"
    " CURRENT ROW) AS n FROM one",
    "SELECT k, v, sum(v) OVER (PARTITION BY k ORDER BY s RANGE UNBOUNDED PRECEDING EXCLUDE CURRENT"
    " ROW) AS n, count(*) OVER (PARTITION BY k ORDER BY s GROUPS BETWEEN 1 PRECEDING AND 1"
    " FOLLOWING EXCLUDE GROUP) AS o FROM one",
    f"SELECT i, count(*), min(k) FROM {SPANS} x GROUP BY i",
    f"SELECT b, min(i), max(i), avg(i), count(DISTINCT i) FROM {SPANS} x GROUP BY b",
    f"SELECT a.k, b.k AS l FROM {SPANS} a JOIN {SPANS} b ON a.i = b.i",
    f"SELECT i FROM {SPANS} x EXCEPT SELECT make_interval(days => i) FROM two",
    "SELECT k, rank(2) WITHIN GROUP (ORDER BY v) AS r, dense_rank(2) WITHIN GROUP (ORDER BY v DESC)"
    " AS d, cume_dist('b') WITHIN GROUP (ORDER BY s) FILTER (WHERE b) AS c FROM one GROUP BY k",
    "SELECT k, regexp_count(s, 'a', 1) AS n, regexp_replace(s, 'a', 'x', 1, 2) AS r,"
    " normalize(s, nfd) AS f FROM one",
    "SELECT a.k, b.i FROM one a JOIN two b ON to_jsonb(a.k) @> to_jsonb(b.k)",
    "SELECT two, count(*) FROM two WHERE w > 0 GROUP BY two ORDER BY two DESC LIMIT 4",
    "SELECT DISTINCT (s, b) FROM one EXCEPT SELECT (t, i > 2) FROM two",
    "SELECT k, v FROM one ORDER BY (v, s), k LIMIT (SELECT count(*) FROM two) OFFSET (SELECT 1)",
    "SELECT (SELECT max(t) FROM two WHERE two.k = one.k) AS most, count(*), sum(v) FROM one"
    " GROUP BY most",
    "SELECT unnest(ARRAY[k, v]) AS x, count(*), sum(v) FROM one GROUP BY x",
    "SELECT s, unnest(array_agg(v ORDER BY v)), count(*) FROM one GROUP BY s",
]


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> Iterator[Views]:
    with interpreted(spark):
        yield Views(spark)


@pytest.mark.parametrize("query", QUERIES)
def test_views_are_maintained(views: Views, tmp_path: Path, query: str) -> None:
    sql = bound(query, RELATIONS, maintained=True).sql
    assert views.check(sql, tmp_path) > 0


@pytest.mark.parametrize("aggregates", ["avg(w), avg(i), sum(w) / count(*)", "sum(n), avg(n)"])
def test_sums_and_means_are_kept_not_computed_anew(views: Views, aggregates: str) -> None:
    source = SCALED if "(n)" in aggregates else "two"
    query = f"SELECT k, {aggregates} FROM {source} x GROUP BY k"
    plan = views.planned(bound(query, RELATIONS, maintained=True).sql)
    assert not any(isinstance(node, Regroup) for node in walk(plan))


@pytest.mark.parametrize(
    "condition",
    [
        "mz_now() <= v + 5000",
        "mz_now() < w",
        "mz_now() BETWEEN v AND v + 1000",
        "mz_now() <= d + interval '1 day'",
        "mz_now() >= timestamptz '2024-01-01' + v * interval '1 second'",
    ],
)
def test_conditions_on_the_time_are_understood(views: Views, condition: str) -> None:
    query = f"SELECT one.k, v FROM one JOIN two USING (k) WHERE {condition}"
    plan = views.planned(bound(query, RELATIONS, maintained=True).sql)
    assert any(isinstance(node, Temporal) for node in walk(plan))
