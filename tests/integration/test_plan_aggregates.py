"""Aggregates at every time: those with kernels, those without, DISTINCT, grouping sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from waterclock.compute.dataflow.kept import fingerprint
from waterclock.compute.plan.nodes import Regroup, walk
from waterclock.testing.views import Views, interpreted

pytestmark = pytest.mark.slow

KERNELS = {
    "booleans": (
        "SELECT s, bool_and(b), every(v > 0), any(b), some(b), bool_or(v > 3) FILTER (WHERE k > 0)"
        " FROM u1 GROUP BY s"
    ),
    "booleans without groups": "SELECT bool_and(b), bool_or(b), count_if(b) FROM u1 WHERE v > 5",
    "variances of integers": (
        "SELECT s, stddev(v), stddev_pop(v), var_samp(v), variance(v), var_pop(v), std(v), avg(v),"
        " sum(v), count(*) FROM u1 GROUP BY s"
    ),
    "variances of decimals": (
        "SELECT t, stddev(w), var_pop(x), var_samp(x * 3) FILTER (WHERE i > 0), stddev_pop(i),"
        " max(w) FROM u2 GROUP BY t"
    ),
    "variances without groups": "SELECT var_pop(v), stddev(v + k), var_samp(k) FROM u1 WHERE v > 4",
    "a variance of distinct values": (
        "SELECT t, var_pop(DISTINCT i), stddev(w), count(*) FROM u2 GROUP BY t"
    ),
    "extremes of every type": (
        "SELECT s, min(b), max(b), min(d), max(v), min(CAST(k AS SMALLINT)), max(CAST(k AS INT)),"
        " CAST(max(CAST(d AS TIMESTAMP)) AS STRING), CAST(min(CAST(d AS TIMESTAMP_NTZ)) AS STRING),"
        " min(s), max(CAST(s AS BINARY)), min(abs(f)), max(CAST(v AS DECIMAL(20, 3)))"
        " FROM u1 GROUP BY s"
    ),
    "extremes of arrays and structs": (
        "SELECT k, min(array(v, k)), max(array(s)), min(struct(d, s)), max(struct(v, b)),"
        " max(CASE WHEN v > 0 THEN array(v) END) FROM u1 GROUP BY k"
    ),
    "extremes of structs with fields that are never null": (
        "SELECT k, max(struct(1 AS one, v)), min(struct(1 AS one, struct(2 AS two, s))),"
        " count(DISTINCT struct(1 AS one, b)) FROM u1 GROUP BY k"
    ),
    "cube, distinct": (
        "SELECT k, s, count(DISTINCT v), sum(DISTINCT v), stddev(v), min(d), grouping_id(k, s)"
        " FROM u1 GROUP BY CUBE (k, s)"
    ),
    "rollup, several distinct, having": (
        "SELECT k, s, count(DISTINCT v), count(DISTINCT d), sum(v), min(d), grouping(s) FROM u1"
        " GROUP BY ROLLUP (k, s) HAVING count(*) > 1"
    ),
    "grouping sets, distinct with a filter": (
        "SELECT k, b, count(DISTINCT s) FILTER (WHERE v > 0), count(*) FROM u1"
        " GROUP BY GROUPING SETS ((k), (b), (k, b), ())"
    ),
    "several distinct, with filters": (
        "SELECT s, count(DISTINCT k) FILTER (WHERE v > 1), avg(DISTINCT v), max(v),"
        " count(DISTINCT d)"
        " FROM u1 GROUP BY s"
    ),
    "distinct pairs": (
        "SELECT s, count(DISTINCT k, b), count(v), sum(v), avg(v), count(k, v) FROM u1 GROUP BY s"
    ),
    "distinct pairs without groups": "SELECT count(DISTINCT k, f) FILTER (WHERE v > 2) FROM u1",
    "a distinct constant": "SELECT s, count(DISTINCT 1), count(1) FROM u1 GROUP BY s",
    "a constant key": "SELECT 'x', sum(v) FROM u1 GROUP BY 1",
    "neither keys nor aggregates": "SELECT 'x' AS c FROM u1 WHERE v > 5 HAVING true",
    "keys alone": "SELECT k + 1 FROM u1 GROUP BY k + 1, s",
}
REGROUPED = {
    "tries": "SELECT s, try_sum(v * 4611686018427387904), try_avg(v), sum(v) FROM u1 GROUP BY s",
    "distinct without a kernel": (
        "SELECT s, sort_array(collect_list(DISTINCT v)), count(DISTINCT k), sum(v) FROM u1"
        " GROUP BY s"
    ),
    "distinct without a kernel, with a filter": (
        "SELECT s, sort_array(collect_list(DISTINCT v) FILTER (WHERE k > 1)), count(*)"
        " FROM u1 GROUP BY s"
    ),
    "distinct without kernel or groups": (
        "SELECT percentile(DISTINCT v, 0.5), count(*), max(k) FROM u1 WHERE v > 4"
    ),
    "several distinct without a kernel": (
        "SELECT k, sort_array(collect_set(DISTINCT s)), percentile(DISTINCT v, 0.5) FROM u1"
        " GROUP BY k"
    ),
    "distinct texts, joined in order": (
        "SELECT k, string_agg(DISTINCT s, ',') WITHIN GROUP (ORDER BY s), max(v) FROM u1 GROUP BY k"
    ),
    "sums that are too large for their type, now and then": (
        "SELECT s, sum(v * 1000000000000000000), median(v), avg(v) FROM u1 WHERE v > 0 GROUP BY s"
    ),
    "running sums that are too large for their type": (
        "SELECT k, v, sum(v * 1000000000000000000) OVER (PARTITION BY k ORDER BY v),"
        " sum(CAST(v AS DECIMAL(38, 37))) FILTER (WHERE b) OVER (PARTITION BY s)"
        " FROM u1 WHERE v BETWEEN 1 AND 6"
    ),
    "floating-point keys": "SELECT f, array(f, -f), median(v), count(*) FROM u1 GROUP BY f",
    "filters before functions that see nulls": (
        "SELECT s, k, first(k) FILTER (WHERE v > 1), any_value(s) FILTER (WHERE v > 1), count(*),"
        " approx_top_k(v) FILTER (WHERE b), size(approx_top_k(s, 2) FILTER (WHERE v > 0)),"
        " last(DISTINCT k) FILTER (WHERE b), median(v) FROM u1 GROUP BY s, k"
    ),
    "filters before functions that see nulls, without groups": (
        "SELECT approx_top_k(s) FILTER (WHERE v > 5), sum(v), first(1) FILTER (WHERE v > 6) FROM u1"
    ),
    "filters of constants": (
        "SELECT s, count(*) FILTER (WHERE v > 3), sum(2) FILTER (WHERE b), median(v),"
        " count(1) FILTER (WHERE v > 100), mode(1) FILTER (WHERE v > 3) FROM u1 GROUP BY s"
    ),
    "filters of distinct constants": (
        "SELECT s, size(collect_list(DISTINCT 1) FILTER (WHERE v > 3)), median(v) FROM u1"
        " GROUP BY s"
    ),
    "every kind of aggregate": (
        "SELECT s, mode(v), percentile_cont(0.5) WITHIN GROUP (ORDER BY v DESC),"
        " percentile_disc(0.3) WITHIN GROUP (ORDER BY v), histogram_numeric(v, 3), kurtosis(v),"
        " skewness(v), corr(v, k), covar_samp(v, k), regr_slope(v, k), regr_r2(v, k), bit_xor(v),"
        " max_by(s, v), listagg(s, ',') WITHIN GROUP (ORDER BY s DESC), approx_count_distinct(v),"
        " hll_sketch_estimate(hll_sketch_agg(v)), theta_sketch_estimate(theta_sketch_agg(v)),"
        " bitmap_count(bitmap_construct_agg(bitmap_bit_position(v))), sum(f),"
        " approx_percentile(v, 0.5), sort_array(collect_set(v)) FROM u1 GROUP BY s"
    ),
    "grouping sets of variances, several distinct": (
        "SELECT k, s, count(DISTINCT v), count(DISTINCT d), var_pop(v) FROM u1"
        " GROUP BY GROUPING SETS ((k), (k, s), ())"
    ),
}


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> Iterator[Views]:
    with interpreted(spark):
        yield Views(spark)


@pytest.mark.semantics(44, 112)
@pytest.mark.parametrize("name", KERNELS)
def test_aggregates_with_kernels_at_every_time(name: str, views: Views, tmp_path: Path) -> None:
    assert not any(isinstance(node, Regroup) for node in walk(views.planned(KERNELS[name])))
    assert views.check(KERNELS[name], tmp_path, tolerance=1e-12) > 0


@pytest.mark.semantics(44, 112)
@pytest.mark.parametrize("name", REGROUPED)
def test_aggregates_without_kernels_at_every_time(name: str, views: Views, tmp_path: Path) -> None:
    assert any(isinstance(node, Regroup) for node in walk(views.planned(REGROUPED[name])))
    assert views.check(REGROUPED[name], tmp_path, tolerance=1e-12) > 0


SEVERAL_DISTINCT = (
    "SELECT count(DISTINCT k), count(DISTINCT v), count(DISTINCT s) FROM u1",
    "SELECT s, count(DISTINCT k), sum(DISTINCT v), count(DISTINCT k, v), max(d) FROM u1 GROUP BY s",
    "SELECT (SELECT count(DISTINCT u2.k) + count(DISTINCT u2.t) FROM u2 WHERE u2.k = u1.k) FROM u1",
    "SELECT k FROM u1 WHERE k < (SELECT count(DISTINCT k) + count(DISTINCT t) FROM u2)",
    "WITH c AS (SELECT s, count(DISTINCT k) AS a, count(DISTINCT v) AS b FROM u1 GROUP BY s)"
    " SELECT x.s, count(DISTINCT x.a), count(DISTINCT y.b) FROM c x JOIN c y ON x.s = y.s"
    " GROUP BY x.s",
)


@pytest.mark.parametrize("sql", SEVERAL_DISTINCT)
def test_a_plan_comes_out_the_same_each_time(sql: str, spark: SparkSession, tmp_path: Path) -> None:
    """Whatever ids Catalyst has come to: state is found again by its plan after a restart."""
    found = {fingerprint([Views(spark).planned(sql)], "an engine") for _ in range(5)}
    assert len(found) == 1
    assert Views(spark).check(sql, tmp_path) > 0
