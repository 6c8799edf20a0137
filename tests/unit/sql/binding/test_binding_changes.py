"""What RETURNING shows, where a row would be in a group, and what only a moment or a type tells."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace

import pytest

from waterclock.errors import WaterclockError
from waterclock.model.pg_types import FLOAT8, INT4, INT8, OID, REGTYPE, TEXT, TIME
from waterclock.sql.binding import BoundQuery, bind_query
from waterclock.testing.relations import KnownRelations, session_facts

RELATIONS = KnownRelations(
    {
        "t": {"id": "int", "n": "numeric(10,2)", "s": "text", "j": "jsonb"},
        "u": {"id": "int", "k": "text"},
    }
)


def bound(
    query: str, *, assigned: Sequence[int] | None = None, maintained: bool = False
) -> BoundQuery:
    return bind_query(
        query, 1, RELATIONS, facts=session_facts(), assigned=assigned, maintained=maintained
    )


def refusal(
    query: str, *, assigned: Sequence[int] | None = None, maintained: bool = False
) -> WaterclockError:
    with pytest.raises(WaterclockError) as caught:
        bound(query, assigned=assigned, maintained=maintained)
    return caught.value


# RETURNING


def test_returning_names_the_new_values_of_the_target() -> None:
    found = bound("SELECT t.*, (id + 1), id, t.id * 2 AS d, s FROM t", assigned=[0])
    names = [column.name for column in found.columns]
    assert names == ["id", "n", "s", "j", "?column?", "id", "d", "s"]
    *_, changed, shown, doubled, same = found.sql.split(" FROM ")[0].split(", ")
    assert shown.split(" AS ")[0] == changed.split(" AS ")[0]
    assert changed.split(" AS ")[0] in doubled
    assert same.split(" AS ")[0] == found.sql.split(", ")[2].split(" AS ")[0]
    assert found.simple is None


def test_new_values_are_those_of_the_column() -> None:
    found = bound("SELECT t.*, (5), ('x'), n, s FROM t", assigned=[1, 2])
    assert [column.type for column in found.columns[-2:]] == [
        found.columns[1].type,
        found.columns[2].type,
    ]
    assert refusal("SELECT t.*, (true) FROM t", assigned=[1]).sqlstate == "42804"


def test_all_relations_are_shown_beside_the_target() -> None:
    found = bound("SELECT t.*, (u.k), * FROM t, u WHERE t.id = u.id", assigned=[2])
    assert [column.name for column in found.columns[5:]] == ["id", "n", "s", "j", "id", "k"]


def test_a_value_of_chance_is_computed_once() -> None:
    found = bound("SELECT t.*, (s || random()), s, s FROM t WHERE id > 1", assigned=[2])
    assert found.sql.count("RAND") == 1
    assert found.nondeterministic == ("random",)


@pytest.mark.parametrize(
    ("shown", "sqlstate"),
    [
        ("id", "42702"),
        ("x.id", "42P01"),
        ("count(*)", "42803"),
        ("row_number() OVER ()", "42P20"),
        ("generate_series(1, 2)", "0A000"),
    ],
)
def test_mistakes_in_returning(shown: str, sqlstate: str) -> None:
    query = f"SELECT t.*, {shown} FROM t, u"
    assert refusal(query, assigned=[]).sqlstate == sqlstate


# WITHIN GROUP


def test_places_of_rows_that_are_not_there() -> None:
    found = bound(
        "SELECT rank(1) WITHIN GROUP (ORDER BY id),"
        " dense_rank('a', 2) WITHIN GROUP (ORDER BY s, n),"
        " percent_rank(1) WITHIN GROUP (ORDER BY n),"
        " cume_dist(null) WITHIN GROUP (ORDER BY s) FROM t"
    )
    assert [column.type for column in found.columns] == [INT8, INT8, FLOAT8, FLOAT8]
    assert not any(column.nullable for column in found.columns)


@pytest.mark.parametrize(
    ("call", "sqlstate"),
    [
        ("rank(1, 2) WITHIN GROUP (ORDER BY id)", "42883"),
        ("row_number(1) WITHIN GROUP (ORDER BY id)", "42883"),
        ("rank(id) WITHIN GROUP (ORDER BY id)", "42803"),
        ("rank(count(*)) WITHIN GROUP (ORDER BY id)", "42803"),
        ("rank(1) WITHIN GROUP (ORDER BY id) OVER ()", "0A000"),
        ("rank(true) WITHIN GROUP (ORDER BY id)", "42804"),
        ("sum(rank(1) WITHIN GROUP (ORDER BY id))", "42803"),
    ],
)
def test_mistakes_within_group(call: str, sqlstate: str) -> None:
    assert refusal(f"SELECT {call} FROM t").sqlstate == sqlstate


# Frames of groups


def test_groups_are_counted_before_the_select_list() -> None:
    counted = bound("SELECT sum(id) OVER (ORDER BY s GROUPS 1 PRECEDING) FROM t WHERE id > 1").sql
    assert "|> WHERE" in counted
    assert "DENSE_RANK() OVER (ORDER BY" in counted
    plain = bound("SELECT sum(id) OVER (ORDER BY s GROUPS UNBOUNDED PRECEDING) FROM t").sql
    assert "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW" in plain
    assert "|>" not in plain


@pytest.mark.parametrize(
    ("query", "sqlstate"),
    [
        ("SELECT sum(id) OVER (GROUPS 1 PRECEDING) FROM t", "42P20"),
        ("SELECT s, sum(count(*)) OVER (ORDER BY s GROUPS 1 PRECEDING) FROM t GROUP BY s", "0A000"),
        ("SELECT sum(id) OVER (ORDER BY s ROWS 1 PRECEDING EXCLUDE TIES) FROM t", "0A000"),
    ],
)
def test_frames_that_are_refused(query: str, sqlstate: str) -> None:
    assert refusal(query).sqlstate == sqlstate


# Types and moments


def test_types_of_types() -> None:
    found = bound("SELECT pg_typeof(id), pg_typeof(s)::text, pg_typeof(n)::oid, 23::regtype FROM t")
    assert [column.type for column in found.columns] == [REGTYPE, TEXT, OID, REGTYPE]
    assert refusal("SELECT id FROM t ORDER BY pg_typeof(id)").sqlstate == "0A000"
    assert refusal("SELECT id FROM t WHERE s::regtype = 23::regtype").sqlstate == "0A000"


def test_clocks() -> None:
    found = bound("SELECT clock_timestamp(), localtime, id FROM t")
    assert found.columns[1].type == TIME
    assert found.columns[2].type == INT4
    assert found.nondeterministic == ("clock_timestamp",)
    for call in ("clock_timestamp()", "timeofday()", "statement_timestamp()", "localtime"):
        fault = refusal(f"SELECT id, {call} FROM t", maintained=True)
        assert (fault.sqlstate, "mz_now()" in (fault.hint or "")) == ("0A000", True)
    assert "localtime" in (refusal("SELECT current_time").hint or "")


def test_a_statement_in_a_block_comes_later_than_the_transaction() -> None:
    began = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    came = began + datetime.timedelta(seconds=5)
    query = "SELECT now(), statement_timestamp()"
    facts = replace(session_facts(), now=began, statement_now=came)
    row = bind_query(query, 1, RELATIONS, facts=facts).row
    assert row is not None
    assert [each.as_py() for each in row] == [began, came]
    row = bind_query(query, 1, RELATIONS, facts=replace(facts, statement_now=None)).row
    assert row is not None
    assert [each.as_py() for each in row] == [began, began]


# Matches


@pytest.mark.parametrize(
    ("call", "sqlstate"),
    [
        ("regexp_count(s, 'x', 1, 'g')", "22023"),
        ("regexp_substr(s, s, 1, 2)", "0A000"),
        ("regexp_replace(s, 'x', s, 1, 2)", "0A000"),
        ("unistr(s)", "0A000"),
        (r"unistr('\zz')", "42601"),
        ("jsonb_set_lax(j, '{a}', null, true, 'no')", "22023"),
        ("jsonb_populate_record(null::nosuch, j)", "42704"),
        ("jsonb_populate_record(row(1), j)", "0A000"),
        ("format('%*s', 1)", "22023"),
        ("substring(s similar 'a#\"b' escape '#')", "0A000"),
        ("normalize(s, nfx)", "42601"),
    ],
)
def test_calls_that_are_refused(call: str, sqlstate: str) -> None:
    assert refusal(f"SELECT {call} FROM t").sqlstate == sqlstate


# VALUES of an INSERT


def inserted(query: str) -> BoundQuery:
    return bind_query(
        *(query, 1, RELATIONS),
        facts=session_facts(),
        target_types=[TEXT, INT4],
        target_names=["s", "n"],
    )


def test_each_row_of_values_is_assigned_to_the_columns_on_its_own() -> None:
    found = inserted("VALUES ('abc', 1), (1 + 1, 2.6), (upper('x'), '3'), (NULL, NULL)")
    assert [column.type for column in found.columns] == [TEXT, INT4]
    with pytest.raises(WaterclockError) as caught:
        inserted("VALUES ('abc', 1), ('x', now())")
    assert caught.value.sqlstate == "42804"
    assert str(caught.value).startswith('column "n" is of type integer but expression is of type')


def test_sorted_values_are_one_query_with_one_type_for_each_column() -> None:
    with pytest.raises(WaterclockError) as caught:
        inserted("VALUES ('abc', 1), (1 + 1, 2) ORDER BY 2")
    assert caught.value.sqlstate == "22P02"
