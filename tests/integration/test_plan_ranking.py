"""The first rows of groups, limits and offsets; INTERSECT ALL and EXCEPT ALL; refusals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from waterclock.compute.errors import NotMaintainable
from waterclock.compute.plan.nodes import (
    Linear,
    Node,
    Reduce,
    Regroup,
    Threshold,
    TopK,
    walk,
)
from waterclock.testing.views import Views, interpreted

pytestmark = pytest.mark.slow

NUMBERED = "(SELECT *, row_number() OVER (PARTITION BY s ORDER BY v DESC, k, d) AS n FROM u1)"
TOP = {
    "at most": f"SELECT k, v, s, d FROM {NUMBERED} WHERE n <= 2",
    "less than, turned round": f"SELECT k, v, s, d FROM {NUMBERED} WHERE 3 > n AND k > 1",
    "equal, and shown": f"SELECT k, v, s, n FROM {NUMBERED} WHERE n = 2",
    "between": f"SELECT k, v, s, d FROM {NUMBERED} WHERE n BETWEEN 2 AND 3",
    "beyond": f"SELECT k, v, s, d FROM {NUMBERED} WHERE n > 1",
    "none": f"SELECT k, v, s, d FROM {NUMBERED} WHERE n <= 2 AND n > 4",
    "without groups": (
        "SELECT k, v, s, d FROM (SELECT *, row_number() OVER (ORDER BY v DESC NULLS FIRST, k, s, d)"
        " AS n FROM u1) WHERE n <= 3"
    ),
    "qualify": (
        "SELECT k, v, s, d FROM u1"
        " QUALIFY row_number() OVER (PARTITION BY k ORDER BY v, s NULLS LAST, d) = 1"
    ),
    "aggregated above": f"SELECT s, sum(v), count(*) FROM {NUMBERED} WHERE n <= 2 GROUP BY s",
    "joined above": f"SELECT a.k, a.v, b.t FROM {NUMBERED} a JOIN u2 b ON a.k = b.k WHERE n = 1",
    "with a subquery beside it": (
        f"SELECT k, v, s, d FROM {NUMBERED} WHERE n <= 2 AND v > (SELECT min(i) FROM u2)"
    ),
    "lateral": (
        "SELECT u1.k, v, l.w, l.t FROM u1, LATERAL (SELECT w, t FROM u2 WHERE u2.k = u1.k"
        " ORDER BY w DESC, t LIMIT 2) l"
    ),
    "lateral, left, without a key": (
        "SELECT u1.k, v, l.i FROM u1 LEFT JOIN LATERAL (SELECT i FROM u2 WHERE u2.i > u1.v"
        " ORDER BY i LIMIT 1) l"
    ),
    "the first as a value": (
        "SELECT k, (SELECT t FROM u2 WHERE u2.k = u1.k ORDER BY t DESC LIMIT 1) FROM u1"
    ),
}
RANKED = {
    "the number shown": f"SELECT k, v, s, n FROM {NUMBERED} WHERE n <= 2",
    "rank": (
        "SELECT k, v FROM (SELECT k, v, rank() OVER (PARTITION BY s ORDER BY v) AS n FROM u1)"
        " WHERE n <= 2"
    ),
    "a number and a sum": (
        "SELECT k, v FROM (SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v) AS n,"
        " sum(v) OVER (PARTITION BY k ORDER BY v) AS t FROM u1) WHERE n <= 2 AND t > 1"
    ),
    "compared with a column": f"SELECT k, v, s, d FROM {NUMBERED} WHERE n <= k",
}
LIMITS = {
    "limit of a limit": (
        "SELECT k, v, s FROM (SELECT * FROM u1 ORDER BY v, k, s LIMIT 4) ORDER BY k, v, s LIMIT 2"
    ),
    "offset of a limit": (
        "SELECT k, v, s FROM (SELECT k, v, s FROM u1 ORDER BY v, k, s LIMIT 4) OFFSET 2"
    ),
    "offset alone": "SELECT k, v, s FROM u1 ORDER BY v DESC, k, s OFFSET 2",
    "limit over a union": (
        "SELECT * FROM (SELECT k FROM u1 UNION ALL SELECT k FROM u2) ORDER BY k LIMIT 3"
    ),
    "limit over groups": "SELECT s, max(v) AS m FROM u1 GROUP BY s ORDER BY m DESC, s LIMIT 2",
}
SETS = {
    "except all": "SELECT k, s FROM u1 EXCEPT ALL SELECT k, t FROM u2",
    "intersect all": "SELECT k, s FROM u1 INTERSECT ALL SELECT k, t FROM u2",
    "except all, floats": "SELECT f FROM u1 EXCEPT ALL SELECT CAST(g AS DOUBLE) FROM u2",
    "intersect all, floats": "SELECT f FROM u1 INTERSECT ALL SELECT CAST(g AS DOUBLE) FROM u2",
    "except all, over a union": (
        "(SELECT k FROM u1 UNION ALL SELECT v FROM u1) EXCEPT ALL SELECT k FROM u2"
    ),
    "except all, over aggregates": (
        "(SELECT k FROM u1 GROUP BY k) EXCEPT ALL (SELECT DISTINCT k FROM u2)"
    ),
    "except all, from constants": "VALUES (1L), (2L), (2L) EXCEPT ALL SELECT k FROM u2",
    "intersect all, with constants": "SELECT k FROM u2 INTERSECT ALL VALUES (1L), (2L), (2L)",
    "both": "(SELECT k FROM u1 EXCEPT ALL SELECT k FROM u2) INTERSECT ALL SELECT v FROM u1",
    "aggregated above": (
        "SELECT k, count(*) FROM (SELECT k, v FROM u1 EXCEPT ALL SELECT k, i FROM u2) GROUP BY k"
    ),
    "except all of nothing": "SELECT k FROM u1 EXCEPT ALL SELECT k FROM u2 WHERE false",
}
HALF_EMPTY = (
    "SELECT k FROM u1 WHERE k < k INTERSECT ALL SELECT k FROM u2",
    "SELECT k FROM u1 INTERSECT ALL SELECT k FROM u2 WHERE false",
    "SELECT k FROM u1 WHERE k < k EXCEPT ALL SELECT k FROM u2",
)


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> Iterator[Views]:
    with interpreted(spark):
        yield Views(spark)


def kinds(plan: Node) -> set[type]:
    return {type(node) for node in walk(plan)}


@pytest.mark.semantics(44, 112)
@pytest.mark.parametrize("name", TOP)
def test_numbered_rows_are_the_first_of_their_group(
    name: str, views: Views, tmp_path: Path
) -> None:
    assert TopK in kinds(views.planned(TOP[name]))
    assert Regroup not in kinds(views.planned(TOP[name]))
    assert views.check(TOP[name], tmp_path) > 0


@pytest.mark.semantics(44, 112)
@pytest.mark.parametrize("name", RANKED)
def test_other_numbers_stay_windows(name: str, views: Views, tmp_path: Path) -> None:
    assert Regroup in kinds(views.planned(RANKED[name]))
    assert views.check(RANKED[name], tmp_path) > 0


def test_a_window_under_a_limit_looks_at_the_first_rows_only(views: Views) -> None:
    plan = views.planned(RANKED["the number shown"])
    [window] = [node for node in walk(plan) if isinstance(node, Regroup)]
    below = window.input.input if isinstance(window.input, Linear) else window.input
    assert isinstance(below, TopK)
    assert below.limit == 2


def test_the_order_of_a_subquery_counts_though_it_is_not_selected(views: Views) -> None:
    """Catalyst leaves the sort below a window that has no order of its own."""
    plan = views.planned(
        "SELECT k, (SELECT t FROM u2 WHERE u2.k = u1.k ORDER BY i LIMIT 1) FROM u1"
    )
    [top] = {id(node): node for node in walk(plan) if isinstance(node, TopK)}.values()
    assert [top.input.output[order.column].name for order in top.order] == ["i"]
    assert [top.input.output[key].name for key in top.keys] == ["k"]


@pytest.mark.semantics(44, 112)
@pytest.mark.parametrize("name", LIMITS)
def test_limits_at_every_time(name: str, views: Views, tmp_path: Path) -> None:
    assert views.check(LIMITS[name], tmp_path) > 0


@pytest.mark.semantics(44, 112)
@pytest.mark.parametrize("name", SETS)
def test_differences_of_multisets_at_every_time(name: str, views: Views, tmp_path: Path) -> None:
    assert Threshold in kinds(views.planned(SETS[name]))
    assert views.check(SETS[name], tmp_path, size=8) > 0


@pytest.mark.parametrize("sql", HALF_EMPTY)
def test_multisets_one_of_which_is_known_to_be_empty(
    sql: str, views: Views, tmp_path: Path
) -> None:
    assert views.check(sql, tmp_path, size=8) > 0


def test_a_difference_of_multisets_counts_nothing_else(views: Views) -> None:
    for name in ("except all", "intersect all", "except all, from constants"):
        plan = views.planned(SETS[name])
        assert Reduce not in kinds(plan)
        assert len({id(node) for node in walk(plan) if isinstance(node, Threshold)}) == 1


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT rand() FROM u1", r"rand\(\)"),
        ("SELECT k FROM u1 WHERE uuid() > s", r"uuid\(\)"),
        ("SELECT now() FROM u1", r"now\(\)"),
        ("SELECT k FROM u1 WHERE d < current_date", r"current_date\(\)"),
        ("SELECT k FROM u1 WHERE d < current_timestamp - INTERVAL '1' DAY", "current_timestamp"),
        ("SELECT unix_timestamp() FROM u1", "current_timestamp"),
        ("SELECT localtimestamp() FROM u1", "localtimestamp"),
        ("SELECT monotonically_increasing_id() FROM u1", "monotonically_increasing_id"),
        ("SELECT spark_partition_id() FROM u1", "spark_partition_id"),
        ("SELECT input_file_name() FROM u1", "input_file_name"),
        ("SELECT current_user FROM u1", "current_user"),
        ("SELECT current_database() FROM u1", "current_schema"),
        ("SELECT uniform(1, 5) FROM u1", "uniform"),
        ("SELECT shuffle(array(k, v)) FROM u1", "shuffle"),
        ("SELECT k FROM u1 WHERE d = 'today'::date", "the date 'today'"),
        ("SELECT k FROM u1 WHERE v > (SELECT max(i) FROM u2 WHERE rand() > 0.5)", "rand"),
        (
            "SELECT k FROM u1 WHERE EXISTS (SELECT 1 FROM u2 WHERE u2.k = u1.k AND now() > '2020')",
            "now",
        ),
        ("SELECT k FROM u1 WHERE k IN (SELECT k FROM u2 WHERE rand() > 0.5)", "rand"),
        ("SELECT k FROM u1, LATERAL (SELECT now() FROM u2 WHERE u2.k = u1.k)", "now"),
        ("WITH c AS (SELECT k, rand() AS r FROM u1) SELECT k FROM c", "rand"),
        ("SELECT s, sum(v - unix_timestamp()) FROM u1 GROUP BY s", "current_timestamp"),
        ("SELECT k, sum(v) OVER (PARTITION BY rand()) FROM u1", "rand"),
        ("SELECT k FROM u1 TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
    ],
)
def test_what_is_no_function_of_the_inputs_is_refused_by_name(
    sql: str, name: str, views: Views
) -> None:
    with pytest.raises(NotMaintainable, match=name) as refused:
        views.planned(sql)
    assert refused.value.sqlstate == "0A000"
    assert refused.value.hint


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k FROM u1 WHERE v < mz_now()",
        "SELECT sort_array(collect_list(k)), first(v), make_timestamp(2020, 1, 1, 1, 1, 1) FROM u1",
        "SELECT k FROM u1 WHERE d = '2020-01-01'::date OR s = 'now'",
    ],
)
def test_what_is_a_function_of_the_inputs_is_not_refused(sql: str, views: Views) -> None:
    views.planned(sql)
