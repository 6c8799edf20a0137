"""Calls that are written in an odd way, and equality that is not that of what is held."""

from __future__ import annotations

from decimal import Decimal

import pytest

from waterclock.errors import WaterclockError
from waterclock.model.exact import Exact
from waterclock.sql.binding import bind_query
from waterclock.sql.dialect.numerics import known_quotient
from waterclock.sql.errors import FeatureNotSupported
from waterclock.testing.relations import KnownRelations, bound, session_facts

RELATIONS = KnownRelations(
    {"t": {"id": "int", "n": "numeric(10,2)", "j": "jsonb", "x": "json", "i": "interval"}}
)


def sql_of(query: str) -> str:
    return bound(query, RELATIONS).sql


def sqlstate_of(query: str) -> str:
    with pytest.raises(WaterclockError) as caught:
        bound(query, RELATIONS)
    return caught.value.sqlstate


# --- Arguments by name ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "plain"),
    [
        ("make_interval(days => 3)", "make_interval(0, 0, 0, 3, 0, 0, 0)"),
        ("make_interval(1, secs := 2.5)", "make_interval(1, 0, 0, 0, 0, 0, 2.5)"),
        ("make_interval(hours => id, days => 1)", "make_interval(0, 0, 0, 1, id, 0, 0)"),
        ("make_date(day => 3, month => 2, year => 2024)", "make_date(2024, 2, 3)"),
        ("make_time(1, sec => 2, min => 3)", "make_time(1, 3, 2)"),
    ],
)
def test_arguments_by_name_are_put_in_their_places(named: str, plain: str) -> None:
    assert sql_of(f"SELECT {named} FROM t") == sql_of(f"SELECT {plain} FROM t")


@pytest.mark.parametrize(
    ("call", "sqlstate"),
    [
        ("make_interval(weekdays => 3)", "42883"),
        ("make_interval(1, years => 3)", "42883"),
        ("make_date(year => 2024, day => 3)", "42883"),
        ("make_interval(days => 3, days => 4)", "42601"),
        ("make_interval(days => 3, 4)", "42601"),
        ("lower(string => 'a')", "0A000"),
    ],
)
def test_wrong_names_are_told(call: str, sqlstate: str) -> None:
    assert sqlstate_of(f"SELECT {call}") == sqlstate


# --- Other forms ----------------------------------------------------------------------------------


def test_overlaps_is_a_function_of_four_times() -> None:
    one = "(timestamp '2024-01-01', interval '1 day')"
    other = "(timestamp '2024-01-02', timestamp '2024-01-03')"
    flat = f"overlaps({one[1:-1]}, {other[1:-1]})"
    assert sql_of(f"SELECT {one} OVERLAPS {other}") == sql_of(f"SELECT {flat}")
    assert sqlstate_of(f"SELECT {one} OVERLAPS (1, 2, 3)") == "42601"
    assert sqlstate_of(f"SELECT {one} OVERLAPS 1") == "42601"
    assert sqlstate_of("SELECT (1, 2) OVERLAPS (3, 4)") == "42883"


def test_a_prefix_operator_before_a_sign() -> None:
    assert sql_of("SELECT @ -5") == sql_of("SELECT @ (-5)")
    assert sqlstate_of("SELECT @-5") == "42883"  # one operator, as in PostgreSQL


def test_what_has_no_type_yet_is_of_none() -> None:
    assert "'unknown'" in sql_of("SELECT pg_typeof('a')")
    assert "'text'" in sql_of("SELECT pg_typeof('a'::text)")


@pytest.mark.parametrize("text", ["24:00", "24:00:00", " 24:00:00.000 "])
def test_the_end_of_a_day_is_refused_by_name(text: str) -> None:
    with pytest.raises(WaterclockError, match="24:00:00") as caught:
        bound(f"SELECT '{text}'::time", RELATIONS)
    assert caught.value.sqlstate == "0A000"


@pytest.mark.parametrize("clause", ["DISTINCT ON", "ORDER BY", "GROUP BY"])
def test_a_place_that_is_none_is_told_with_its_clause(clause: str) -> None:
    query = "SELECT DISTINCT ON (9) id FROM t" if "ON" in clause else f"SELECT id FROM t {clause} 9"
    with pytest.raises(
        WaterclockError, match=f"^{clause} position 9 is not in select list"
    ) as caught:
        bound(query, RELATIONS)
    assert caught.value.sqlstate == "42P10"


def test_recursion_in_what_is_maintained_is_refused_by_name() -> None:
    query = "WITH RECURSIVE r AS (SELECT id FROM t UNION SELECT id + 1 FROM r) SELECT * FROM r"
    with pytest.raises(WaterclockError, match="WITH RECURSIVE") as caught:
        bind_query(query, 1, RELATIONS, facts=session_facts(), maintained=True)
    assert caught.value.sqlstate == "0A000"
    assert caught.value.hint is not None
    assert "NOT ARRAY_CONTAINS(x.p" in sql_of(query)  # a cycle ends there
    sql_of("WITH RECURSIVE r AS (SELECT id FROM t) SELECT * FROM r")  # only the word


@pytest.mark.parametrize("query", ["SELECT n ^ 2.5", "SELECT n ^ -1", "SELECT power(n, 1000)"])
def test_powers_that_do_not_only_multiply_have_scales_of_their_own(query: str) -> None:
    sql = sql_of(f"{query} FROM t")
    assert sql.count(Exact.HELD) == 1
    assert f"{Exact.POWER}({Exact.REAL}({Exact.DEFINED}(" in sql


def test_a_long_exponent_is_written_once() -> None:
    exponent = " + ".join(["n * n"] * 20)
    sql = sql_of(f"SELECT n ^ ({exponent}) FROM t")
    assert sql.count("(t1.c2 * t1.c2)") == 20


def test_encodings_are_checked_while_binding() -> None:
    assert sqlstate_of("SELECT encode('\\x00'::bytea, 'base32')") == "22023"
    assert sqlstate_of("SELECT jsonb_build_object('a')") == "22023"


# --- Quotients of constants -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("1.0", "3", "0.33333333333333333333"),
        ("5.0", "3", "1.6666666666666667"),
        ("7", "7", "1.00000000000000000000"),
        ("100000.0", "3", "33333.333333333333"),
        ("-2", "3", "-0.66666666666666666667"),
        ("0", "3", "0.00000000000000000000"),
        ("1", "100000", "0.000010000000000000000000"),
        ("1.00000000000000000000000", "2", "0.50000000000000000000000"),
        ("99999999999999999999", "7", "14285714285714285714"),
    ],
)
def test_a_quotient_of_constants_has_the_digits_of_postgres(
    left: str, right: str, expected: str
) -> None:
    assert f"{known_quotient(Decimal(left), Decimal(right)):f}" == expected


def test_a_quotient_of_constants_with_too_many_digits_is_an_error() -> None:
    assert sqlstate_of("SELECT 1e-30 / 3") == "22003"


# --- jsonb that is equal and not the same ---------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "SELECT j FROM t GROUP BY j",
        "SELECT j, count(*) FROM t GROUP BY ROLLUP (j)",
        "SELECT j ->> 'a', count(*) FROM t GROUP BY 1, j",
        "SELECT sum((j ->> 'a')::int), j FROM t GROUP BY j HAVING j IS NOT NULL",
        "SELECT DISTINCT j FROM t",
        "SELECT DISTINCT j, id FROM t ORDER BY id",
        "SELECT j FROM t UNION SELECT j FROM t",
        "SELECT j FROM t INTERSECT SELECT j FROM t",
        "SELECT j FROM t EXCEPT SELECT j FROM t",
        "SELECT j FROM t EXCEPT ALL SELECT j FROM t",
        "SELECT j, id FROM t INTERSECT ALL SELECT j, id FROM t",
    ],
)
def test_a_group_of_jsonb_shows_the_least_of_its_values(query: str) -> None:
    sql = sql_of(query)
    assert "MIN(" in sql
    assert "zeros at its end" not in sql


def test_distinct_jsonb_is_sorted_to_find_what_is_equal() -> None:
    sql = sql_of("SELECT jsonb_agg(DISTINCT j) FROM t")
    assert "REVERSE(FILTER(REGEXP_EXTRACT_ALL(" in sql
    assert "i = 0 OR NOT (" in sql


def test_several_columns_are_those_of_one_row() -> None:
    assert sql_of("SELECT DISTINCT j, j -> 'a' FROM t").count("MIN(NAMED_STRUCT(") == 2


def test_an_argument_of_an_aggregate_is_not_replaced() -> None:
    assert "COUNT(t1.c3)" in sql_of("SELECT count(j), j FROM t GROUP BY j")


def test_grouping_of_jsonb_is_refused() -> None:
    with pytest.raises(FeatureNotSupported, match="GROUPING beside a key of type jsonb"):
        sql_of("SELECT GROUPING(j) FROM t GROUP BY ROLLUP (j)")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT j IN ('1', '2') FROM t",
        "SELECT j IS DISTINCT FROM '1' FROM t",
        "SELECT count(DISTINCT j) FROM t",
        "SELECT j IN (SELECT j FROM t) FROM t",
        "SELECT row_number() OVER (PARTITION BY j) FROM t",
        "SELECT DISTINCT ON (j) id FROM t",
    ],
)
def test_comparing_jsonb_does_not_tell_equal_numbers_apart(query: str) -> None:
    assert "RLIKE '[.][0-9]*0'" in sql_of(query)


def test_distinct_intervals_are_counted_by_their_length() -> None:
    assert "months AS DECIMAL" in sql_of("SELECT count(DISTINCT i) FROM t")
    assert sqlstate_of("SELECT sum(DISTINCT i) FROM t") == "0A000"
    assert sqlstate_of("SELECT jsonb_object_agg(DISTINCT id, i) FROM t") == "0A000"


def test_json_has_no_equality() -> None:
    assert sqlstate_of("SELECT x FROM t GROUP BY x") == "42883"
    assert sqlstate_of("SELECT count(DISTINCT x) FROM t") in ("42883", "42804")


ASKED = "coalesce((SELECT max(o.id) FROM t AS o WHERE o.id = t.id), 0)"
"""A query that is asked for each row."""


@pytest.mark.parametrize("key", ["1", "found", ASKED])
def test_a_key_that_asks_for_each_row_is_the_column_that_is_shown(key: str) -> None:
    sql = sql_of(f"SELECT {ASKED} AS found, count(*) FROM t GROUP BY {key}")
    shown, _, grouped = sql.partition(" GROUP BY ")
    assert grouped in shown
    assert "ANY_VALUE" not in sql


@pytest.mark.parametrize("shown", ["count(*)", "i"])
def test_a_key_that_asks_for_each_row_must_be_shown(shown: str) -> None:
    with pytest.raises(FeatureNotSupported, match="GROUP BY a subquery"):
        sql_of(f"SELECT {shown} FROM t GROUP BY i, {ASKED}")
    with pytest.raises(FeatureNotSupported, match="GROUP BY a subquery"):
        sql_of(f"SELECT q.*, {ASKED} FROM t, (SELECT 1 AS x) q GROUP BY 1, 2")


def test_of_a_group_a_query_is_asked_once() -> None:
    assert "ANY_VALUE" in sql_of(f"SELECT {ASKED}, count(*) FROM t GROUP BY t.id")
