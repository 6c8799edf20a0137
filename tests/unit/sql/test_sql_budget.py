"""Statements that are too much: each budget refuses them, and no recursion comes to its end."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from waterclock.errors import WaterclockError
from waterclock.sql.binding import bind_query
from waterclock.sql.binding.binder import NoRelations
from waterclock.sql.budget import (
    DEFAULT_BUDGET,
    Abandoned,
    Budget,
    LimitExceeded,
    Meter,
    TooMuchHere,
)
from waterclock.sql.dialect.facts import SessionFacts
from waterclock.sql.parser import parse_statements

FACTS = SessionFacts("u", "u", "d", ("public",), "UTC", None, None)
DEEP = 20_000


@pytest.fixture(autouse=True)
def _stack() -> Iterator[None]:
    """The recursion that a server allows."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    yield
    sys.setrecursionlimit(before)


def read(text: str, budget: Budget, *, maintained: bool = False) -> None:
    meter = Meter(budget)
    budget.check_text(text)
    parse_statements(text, meter)
    bind_query(text, 1, NoRelations(), facts=FACTS, meter=meter, maintained=maintained)


def refused(
    text: str, budget: Budget = DEFAULT_BUDGET, maintained: bool = False
) -> WaterclockError:
    """What is said of a statement, which must come with a hint."""
    with pytest.raises(WaterclockError) as raised:
        read(text, budget, maintained=maintained)
    assert raised.value.hint is not None
    return raised.value


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * DEEP + "1" + ")" * DEEP,
        "SELECT " + "(" * DEEP,
        "SELECT " + "[" * DEEP,
        "SELECT " + "NOT " * DEEP + "true",
        "SELECT " + "- " * DEEP + "1",
        "SELECT " + "+".join(["1"] * DEEP),
        "SELECT " + "||".join(["'a'"] * DEEP),
        "SELECT " + "1::int" + "::int" * DEEP,
        "SELECT " + "CASE WHEN true THEN " * DEEP + "1" + " END" * DEEP,
        "SELECT " + "coalesce(" * DEEP + "1" + ")" * DEEP,
        "SELECT " + "(SELECT " * DEEP + "1" + ")" * DEEP,
        "SELECT * FROM " + "(SELECT * FROM " * 500 + "(SELECT 1) t" + ") t" * 500,
        "SELECT 1 FROM " + "(" * DEEP + "a CROSS JOIN b" + ")" * DEEP,
        " UNION ".join(["SELECT 1"] * DEEP),
        "SELECT 1 FROM (SELECT 1) a " + "CROSS JOIN (SELECT 1) b " * 3000,
    ],
    ids=lambda text: text[:24],
)
def test_deep_nesting_is_refused(text: str) -> None:
    error = refused(text)
    assert error.sqlstate in ("54001", "54000"), error.message


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 900 + "1" + ")" * 900,
        "SELECT " + "NOT " * 900 + "true",
        "SELECT " + "+".join(["1"] * 900),
        "SELECT " + "CASE WHEN true THEN " * 400 + "1" + " END" * 400,
        "SELECT " + "(SELECT " * 80 + "1" + ")" * 80,
        "SELECT " + " AND ".join(["true"] * 5000),
        "SELECT 1 WHERE 1 IN (" + ",".join(map(str, range(20_000))) + ")",
    ],
    ids=lambda text: text[:24],
)
def test_what_is_within_the_budget_is_bound(text: str) -> None:
    assert bind_query(text, 1, NoRelations(), facts=FACTS).columns


def test_sizes_are_refused() -> None:
    small = Budget(statement_bytes=5000, literal_bytes=1000, statement_tokens=300)
    assert "max_statement_bytes" in str(refused(f"SELECT '{'x' * 6000}'", small).hint)
    assert "max_statement_bytes" in str(refused(f"SELECT '{'ü' * 3000}'", small).hint)
    assert "max_literal_bytes" in str(refused(f"SELECT '{'x' * 2000}'", small).hint)
    assert "max_literal_bytes" in str(refused(f"SELECT $${'x' * 2000}$$", small).hint)
    assert "max_statement_tokens" in str(refused(f"SELECT {'1,' * 400} 1", small).hint)
    steps = Budget(statement_steps=1000)
    assert "max_statement_steps" in str(refused(f"SELECT {'1+1,' * 1000} 1", steps).hint)
    columns = refused("SELECT " + ", ".join(["1"] * 2000))
    assert (columns.sqlstate, "max_columns" in str(columns.hint)) == ("54011", True)


def test_copies_inside_an_expression_are_refused() -> None:
    """A subscript is written twice: thirty inside one another would be 2^30 of the innermost."""
    error = refused("SELECT " + "a[" * 30 + "1" + "]" * 30 + " FROM (SELECT ARRAY[1] AS a) t")
    assert isinstance(error, LimitExceeded)


def test_work_is_given_up_and_begun_again() -> None:
    text = f"SELECT {'1,' * 10_000} 1"
    with pytest.raises(TooMuchHere):
        parse_statements(text, Meter(allowance=100))
    stopped = Meter()
    stopped.stop()
    with pytest.raises(Abandoned):
        parse_statements(text, stopped)


# Parts that are read several times


def chain(levels: int, combined: str = "UNION") -> str:
    """Queries of WITH, each of which reads the one before twice."""
    tables = ["c0 AS (SELECT 1 AS x)"]
    for level in range(1, levels + 1):
        below = f"c{level - 1}"
        if combined == "JOIN":
            query = f"SELECT a.x FROM {below} a JOIN {below} b USING (x)"
        else:
            query = f"SELECT x FROM {below} {combined} SELECT x + 1 FROM {below}"
        tables.append(f"c{level} AS ({query})")
    return f"WITH {', '.join(tables)} SELECT x FROM c{levels}"


@pytest.mark.parametrize("combined", ["UNION", "UNION ALL", "JOIN"])
def test_what_is_read_twice_is_not_copied(combined: str) -> None:
    bound = bind_query(chain(60, combined), 1, NoRelations(), facts=FACTS)
    size = len(bound.sql) + sum(len(part.sql) for part in bound.parts)
    assert 0 < len(bound.parts) < 60
    assert size < 500_000


def test_parts_name_only_parts_before_them() -> None:
    bound = bind_query(chain(60), 1, NoRelations(), facts=FACTS)
    known: list[str] = []
    for sql in (*(part.sql for part in bound.parts), bound.sql):
        ids = {f"`{part.id}`" for part in bound.parts}
        assert {each for each in ids if each in sql} <= set(known)
        known.append(f"`{bound.parts[len(known)].id}`" if len(known) < len(bound.parts) else "")


def test_small_queries_are_written_out_as_a_whole() -> None:
    bound = bind_query(chain(5), 1, NoRelations(), facts=FACTS)
    assert not bound.parts
    assert "`s" not in bound.sql


def test_a_chain_that_is_read_once_each_is_divided_by_depth() -> None:
    tables = ["c0 AS (SELECT 1 AS x)"]
    tables += [f"c{n} AS (SELECT x + 1 AS x FROM c{n - 1})" for n in range(1, 200)]
    text = f"WITH {', '.join(tables)} SELECT x FROM c199"
    bound = bind_query(text, 1, NoRelations(), facts=FACTS)
    assert 2 <= len(bound.parts) <= 10


def test_a_name_in_a_string_is_no_part() -> None:
    bound = bind_query(
        "WITH a AS (SELECT 1 AS x) SELECT x, '(`s2305843009213693952`)' FROM a",
        1,
        NoRelations(),
        facts=FACTS,
    )
    assert "'(`s2305843009213693952`)'" in bound.sql
    assert not bound.parts


def test_a_part_that_differs_each_time_is_computed_once() -> None:
    text = "WITH r AS (SELECT random() AS x) SELECT a.x = b.x FROM r a, r b"
    bound = bind_query(text, 1, NoRelations(), facts=FACTS)
    assert len(bound.parts) == 1


def test_what_is_maintained_has_no_parts() -> None:
    assert not bind_query(chain(4), 1, NoRelations(), facts=FACTS, maintained=True).parts
    error = refused(chain(60), maintained=True)
    assert (error.sqlstate, "max_plan_nodes" in str(error.hint)) == ("54000", True)


def test_many_constant_rows_are_rows_and_no_text() -> None:
    values = ", ".join(f"({n}, 'a{n}', NULL, {n}.5)" for n in range(3000))
    bound = bind_query(f"SELECT * FROM (VALUES {values}) v", 1, NoRelations(), facts=FACTS)
    [part] = bound.parts
    assert part.rows is not None
    assert len(bound.sql) < 1000
    assert part.rows.num_rows == 3000
    assert [column[7].as_py() for column in part.rows.columns[:3]] == [7, "a7", None]
    few = f"SELECT * FROM (VALUES {values}) v LIMIT 5"
    assert not bind_query(few, 1, NoRelations(), facts=FACTS, maintained=True).parts
    computed = values.replace("(7, ", "(3 + 4, ")
    text = f"SELECT * FROM (VALUES {computed}) v"
    assert not bind_query(text, 1, NoRelations(), facts=FACTS).parts
