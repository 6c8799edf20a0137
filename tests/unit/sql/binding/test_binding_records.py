"""JSON as rows of told columns, paths and patterns that are parameters, and order of documents."""

from __future__ import annotations

import pyarrow as pa
import pytest

from waterclock.errors import WaterclockError
from waterclock.model.pg_types import BOOL, INT4, JSONB, TEXT, PgType
from waterclock.sql.binding import BoundQuery, bind_query
from waterclock.testing.relations import KnownRelations, session_facts

RELATIONS = KnownRelations(
    {"t": {"id": "int", "j": "jsonb", "k": "json", "b": "text", "i": "interval"}}
)


def bound(query: str, values: list[pa.Scalar] | None = None) -> BoundQuery:
    return bind_query(query, 1, RELATIONS, facts=session_facts(), parameters=values)


def sqlstate_of(query: str, values: list[pa.Scalar] | None = None) -> str:
    with pytest.raises(WaterclockError) as caught:
        bound(query, values)
    return caught.value.sqlstate


@pytest.mark.parametrize("name", ["jsonb_to_record(j)", "jsonb_to_recordset(j)"])
def test_columns_are_those_that_are_told(name: str) -> None:
    columns = bound(f"SELECT x.* FROM t, {name} AS x(a int, b text, c int[])").columns
    assert [(each.name, each.type) for each in columns] == [
        *(("a", INT4), ("b", TEXT), ("c", PgType(1007))),
    ]
    assert bound(f"SELECT a FROM t, {name} AS (a jsonb)").columns[0].type == JSONB


@pytest.mark.parametrize(
    ("query", "sqlstate"),
    [
        ("SELECT * FROM jsonb_to_record('{}')", "42601"),
        ("SELECT * FROM generate_series(1, 2) AS x(a int)", "42601"),
        ("SELECT * FROM json_to_record('{}') WITH ORDINALITY AS x(a int)", "42601"),
        ("SELECT * FROM jsonb_to_record('{}') AS x(a int, b)", "42601"),
        ("SELECT * FROM ROWS FROM (json_to_record('{}'), unnest('{1}'::int[])) x(a int)", "0A000"),
        ("SELECT j['a'::bool] FROM t", "22P02"),
        ("SELECT j[1.5] FROM t", "42804"),
        ("SELECT j @? '$.' FROM t", "42601"),
        ("SELECT j @? 'strict $' FROM t", "0A000"),
        ("SELECT j @? b FROM t", "0A000"),
        ("SELECT jsonb_path_exists(j, '$x', '[1]') FROM t", "22023"),
        ("SELECT '[2:3]={1,2}'::int[]", "0A000"),
        ("SELECT rank(id) WITHIN GROUP (ORDER BY id) FROM t", "42803"),
        ("SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY j) FROM t", "0A000"),
    ],
)
def test_mistakes(query: str, sqlstate: str) -> None:
    assert sqlstate_of(query) == sqlstate


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("j @> $1", '{"a": 1}'),
        ("b ~ $1", "^a"),
        ("j @? $1", "$.a"),
        ("jsonb_set(j, $1::text[], '1') IS NULL", None),
    ],
)
def test_what_must_be_constant_may_be_a_parameter(condition: str, value: str | None) -> None:
    """Its value is known when the statement is run, not when it is described."""
    query = f"SELECT {condition} FROM t"
    assert bound(query).columns[0].type == BOOL
    held = pa.scalar(["a"]) if value is None else pa.scalar(value)
    assert "CAST(NULL AS BOOLEAN)" not in bound(query, [held]).sql


def test_a_null_in_place_of_a_constant_gives_null() -> None:
    assert "CAST(NULL AS BOOLEAN)" in bound("SELECT b ~ NULL FROM t").sql
    assert "CAST(NULL AS BOOLEAN)" in bound("SELECT j @? $1 FROM t", [pa.scalar(None)]).sql
    assert sqlstate_of("SELECT b ~ b FROM t") == "0A000"


def test_steps_into_a_document_add_up() -> None:
    """Were the value before a step named several times, each would multiply the text."""
    sizes = [len(bound("SELECT j" + " -> 'a' -> 0" * n + " FROM t").sql) for n in (2, 4, 6)]
    assert sizes[2] - sizes[1] < 1.1 * (sizes[1] - sizes[0])


def test_rows_of_a_window_are_collected_in_queries_alone() -> None:
    query = "SELECT array_agg(id) OVER (ORDER BY id) FROM t"
    assert "COLLECT_LIST(" in bound(query).sql
    with pytest.raises(WaterclockError, match="window function of a view"):
        bind_query(query, 1, RELATIONS, facts=session_facts(), maintained=True)


def test_rows_are_not_picked_in_an_order_that_is_not_of_what_is_held() -> None:
    assert bound("SELECT id FROM t ORDER BY id").simple is not None
    assert bound("SELECT id FROM t ORDER BY j").simple is None
    assert bound("SELECT i FROM t ORDER BY i").simple is None  # a month is longer than 29 days
