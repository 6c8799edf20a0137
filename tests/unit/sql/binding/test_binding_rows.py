"""Rows in SELECT and in FROM: side by side, as JSON, counted; and where they may not be."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from waterclock.errors import WaterclockError
from waterclock.sql.binding import BoundQuery, bind_query
from waterclock.testing.relations import KnownRelations, bound, session_facts

RELATIONS = KnownRelations(
    {
        "t": {"id": "int", "b": "text", "arr": "int[]", "tarr": "text[]", "j": "jsonb"},
        "u": {"id": "int", "d": "date", "tz": "timestamptz"},
        "v": {"id": "int not null", "n": "numeric"},
    }
)


def refusal(query: str) -> tuple[str, int | None]:
    with pytest.raises(WaterclockError) as caught:
        bound(query, RELATIONS)
    return caught.value.sqlstate, getattr(caught.value, "position", None)


def names_and_types(query: str) -> list[tuple[str, int]]:
    return [(each.name, each.type.oid) for each in bound(query, RELATIONS).columns]


# --- Functions that give rows ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT unnest(arr) + 1 FROM t", [("?column?", 23)]),
        ("SELECT (regexp_matches(b, 'x', 'g'))[1] FROM t", [("regexp_matches", 25)]),
        ("SELECT unnest(arr) AS x, unnest(tarr) FROM t", [("x", 23), ("unnest", 25)]),
        ("SELECT x.* FROM t, unnest(arr, tarr) x(a, b)", [("a", 23), ("b", 25)]),
        (
            "SELECT q.* FROM t, ROWS FROM (generate_series(1, 2), unnest(tarr)) WITH ORDINALITY q",
            [("generate_series", 23), ("unnest", 25), ("ordinality", 20)],
        ),
        ("SELECT x, x -> 'k' FROM t, jsonb_array_elements(j) x", [("x", 3802), ("?column?", 3802)]),
        ("SELECT upper(s) FROM t, unnest(tarr) s", [("upper", 25)]),
    ],
)
def test_functions_that_give_rows(query: str, expected: list[tuple[str, int]]) -> None:
    assert names_and_types(query) == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT sum(unnest(arr)) FROM t",
        "SELECT lower(unnest(tarr)), count(*) FROM t GROUP BY id",
        "SELECT unnest(arr) AS x, unnest(tarr), count(*) FROM t GROUP BY x",
        "SELECT unnest(arr) AS arr, count(*) FROM t GROUP BY arr",
        "SELECT *, unnest(arr), rank() OVER (ORDER BY id) FROM t",
        "SELECT CASE WHEN true THEN unnest(arr) END FROM t",
        "SELECT jsonb_each(j) FROM t",
        "SELECT * FROM t, ROWS FROM (jsonb_each(j), unnest(arr))",
    ],
)
def test_what_would_be_computed_in_another_order_is_refused(query: str) -> None:
    assert refusal(query)[0] == "0A000"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT b, unnest(array_agg(id)) FROM t GROUP BY 1", [("b", 25), ("unnest", 23)]),
        ("SELECT row_number() OVER (), unnest(arr) FROM t", [("row_number", 20), ("unnest", 23)]),
        ("SELECT unnest(arr) + 1, max(b) FROM t GROUP BY arr", [("?column?", 23), ("max", 25)]),
        (
            "SELECT unnest(tarr) AS tag, count(*) FROM t GROUP BY tag ORDER BY count(*) DESC, tag",
            [("tag", 25), ("count", 20)],
        ),
        (
            "SELECT unnest(tarr), count(*) FROM t GROUP BY unnest(tarr) ORDER BY unnest(tarr)",
            [("unnest", 25), ("count", 20)],
        ),
    ],
)
def test_rows_are_made_of_groups_or_grouped(query: str, expected: list[tuple[str, int]]) -> None:
    assert names_and_types(query) == expected


def test_what_rows_are_made_of_must_be_grouped_by() -> None:
    assert refusal("SELECT count(*), unnest(arr) FROM t")[0] == "42803"


# --- Whole rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT to_jsonb(u) FROM u", [("to_jsonb", 3802)]),
        ("SELECT row_to_json(u) FROM u", [("row_to_json", 114)]),
        ("SELECT row_to_json(q) FROM (SELECT id FROM u) q", [("row_to_json", 114)]),
        ("SELECT json_agg(u), jsonb_agg(u.*) FROM u", [("json_agg", 114), ("jsonb_agg", 3802)]),
        ("SELECT count(DISTINCT (id, d)) FROM u", [("count", 20)]),
        ("SELECT u, ROW(1, id), (u).d FROM u", [("u", 2249), ("row", 2249), ("d", 1082)]),
        ("SELECT (u).* FROM u", [("id", 23), ("d", 1082), ("tz", 1184)]),
        ("SELECT u::text, NULL::u FROM u", [("u", 25), ("u", 2249)]),
        (
            "SELECT (u.*) IS NULL, u = v, u IS DISTINCT FROM v, u.* < v.* FROM u, u v",
            [("?column?", 16)] * 4,
        ),
        ("SELECT u IS NULL, (u).id FROM t LEFT JOIN u ON true", [("?column?", 16), ("id", 23)]),
        ("SELECT count(v) FROM t LEFT JOIN v ON true", [("count", 20)]),
        (
            "SELECT * FROM jsonb_populate_record(NULL::v, '{}')",
            [("id", 23), ("n", 1700)],
        ),
        ("SELECT (json_populate_record(v, '{}')).n FROM v", [("n", 1700)]),
        ("SELECT 'u'::regclass, 'u'::regclass::oid FROM t", [("regclass", 2205), ("oid", 26)]),
        ("SELECT to_regclass('u'), to_regclass('nope') FROM t", [("to_regclass", 2205)] * 2),
        ("SELECT array(SELECT id FROM u ORDER BY d DESC LIMIT 2)", [("array", 1007)]),
    ],
)
def test_rows_as_one_value(query: str, expected: list[tuple[str, int]]) -> None:
    assert names_and_types(query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT row_to_json(1)", ("42883", 8)),
        ("SELECT u FROM t LEFT JOIN u ON true", ("0A000", 8)),
        ("SELECT DISTINCT v FROM v", ("0A000", 17)),
        ("SELECT v FROM v UNION SELECT v FROM v", ("0A000", 8)),
        ("SELECT (1, 'a') UNION SELECT (1, 2)", ("42804", 30)),
        ("SELECT 1 FROM u GROUP BY ROLLUP (u)", ("0A000", 34)),
        ("SELECT q.r FROM (SELECT u AS r FROM u) q ORDER BY q.r", ("0A000", 8)),
        ("SELECT DISTINCT q.r FROM (SELECT u AS r FROM u) q", ("0A000", 17)),
        ("SELECT DISTINCT u, n FROM u, v ORDER BY u", ("0A000", 17)),
        ("SELECT array_agg(u) FROM u", ("0A000", 18)),
        ("SELECT ARRAY[u] FROM u", ("0A000", 8)),
        ("SELECT greatest(u, u) FROM u", ("0A000", 8)),
        ("SELECT nullif(u, u) FROM u", ("0A000", 8)),
        ("SELECT u IN (SELECT v FROM u v) FROM u", ("0A000", 10)),
        ("SELECT x IS NULL FROM (SELECT u AS x FROM u) q", ("0A000", 10)),
        ("SELECT x = x FROM (SELECT u AS x FROM u) q", ("0A000", 10)),
        ("SELECT count(DISTINCT x) FROM (SELECT u AS x FROM u) q", ("0A000", 23)),
        ("SELECT to_jsonb(q) FROM (SELECT u AS x FROM u) q", ("0A000", 8)),
        ("SELECT (x).id FROM (SELECT u AS x FROM u) q", ("0A000", 9)),
        ("SELECT u < 'x' FROM u", ("0A000", 10)),
        ("SELECT u = ROW(1) FROM u", ("42804", 10)),
        ("SELECT u = ROW(1, '2024-01-01', now()) FROM u", ("42804", 10)),
        ("SELECT (ROW(1, 2)).f3", ("42703", 9)),
        ("SELECT (id).x FROM u", ("42809", 9)),
        ("SELECT ROW(1, 2)::int", ("42846", 17)),
        ("SELECT (1, 2) = (SELECT 1)", ("42601", 15)),
        ("SELECT NULL::nope", ("42704", 14)),
        ("SELECT NULL::u[]", ("0A000", 14)),
        ("SELECT 'nope'::regclass FROM u", ("42P01", 8)),
        ("SELECT 'a b'::regclass FROM u", ("42602", 8)),
        ("SELECT 'pg_class'::regclass FROM u", ("0A000", 8)),
        ("SELECT b::regclass FROM t", ("0A000", 9)),
        ("SELECT inet('1.2.3.4')", ("0A000", 8)),
        ("SELECT (SELECT 1 FROM t WHERE t.id = (SELECT u.id)) FROM u", ("0A000", 46)),
        ("SELECT to_jsonb(u) FROM t LEFT JOIN u ON true", ("0A000", 17)),
        ("SELECT array_agg(arr) FROM t", ("0A000", 8)),
        ("SELECT * FROM nope.t", ("42P01", 15)),
    ],
)
def test_refused_with_a_place(query: str, expected: tuple[str, int]) -> None:
    assert refusal(query) == expected


# --- Frames ---------------------------------------------------------------------------------------


def test_intervals_of_frames_are_constants_of_the_engine() -> None:
    query = "SELECT count(*) OVER (ORDER BY d RANGE '1 day 02:03:04.5' PRECEDING) FROM u"
    assert "INTERVAL '1 02:03:04.500000' DAY TO SECOND PRECEDING" in bound(query, RELATIONS).sql
    query = "SELECT count(*) OVER (ORDER BY tz RANGE '14 months' PRECEDING) FROM u"
    assert "INTERVAL '14' MONTH PRECEDING" in bound(query, RELATIONS).sql


@pytest.mark.parametrize(
    ("frame", "sqlstate"),
    [
        ("ORDER BY d RANGE '-1 day' PRECEDING", "22013"),
        ("ORDER BY d RANGE '1 month 1 day' PRECEDING", "0A000"),
        ("ORDER BY d RANGE BETWEEN '1 month' PRECEDING AND '1 day' FOLLOWING", "0A000"),
    ],
)
def test_frames_that_are_refused(frame: str, sqlstate: str) -> None:
    assert refusal(f"SELECT count(*) OVER ({frame}) FROM u")[0] == sqlstate


def test_days_of_moments_are_not_those_of_every_zone() -> None:
    query = "SELECT count(*) OVER (ORDER BY tz RANGE '1 day' PRECEDING) FROM u"
    with pytest.raises(WaterclockError, match="time zone"):
        bind_query(query, 1, RELATIONS, facts=session_facts("America/New_York"))


# --- Words for times ------------------------------------------------------------------------------


def bound_at(query: str, now: datetime.datetime, zone: str) -> BoundQuery:
    facts = replace(session_facts(zone), now=now)
    return bind_query(query, 1, RELATIONS, facts=facts)


def test_words_for_times_are_those_of_the_transaction() -> None:
    now = datetime.datetime(2024, 11, 3, 3, 30, tzinfo=datetime.UTC)  # still the 2nd in New York
    query = "SELECT 'today'::date, 'tomorrow'::timestamptz, 'now'::timestamp, 'yesterday'::date"
    found = bound_at(query, now, "America/New_York")
    assert found.uses_now
    assert found.row is not None
    today, tomorrow, local, yesterday = (each.as_py() for each in found.row)
    assert today == datetime.date(2024, 11, 2)
    assert tomorrow == datetime.datetime(2024, 11, 3, 4, tzinfo=datetime.UTC)
    assert local == datetime.datetime(2024, 11, 2, 23, 30)
    assert yesterday == datetime.date(2024, 11, 1)


def test_words_for_times_have_no_place_in_what_is_maintained() -> None:
    query = "SELECT id FROM u WHERE d > 'yesterday'"
    with pytest.raises(WaterclockError, match="maintained") as caught:
        bind_query(query, 1, RELATIONS, facts=session_facts(), maintained=True)
    assert caught.value.sqlstate == "0A000"
