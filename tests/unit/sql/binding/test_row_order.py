"""The order in which rows come: what LIMIT and aggregates outside of a subquery go by."""

from __future__ import annotations

import pytest

from waterclock.testing.relations import KnownRelations, bound

RELATIONS = KnownRelations({"t": {"a": "int", "b": "text", "c": "int[]"}, "u": {"a": "int"}})
RELATIONS.with_view("v", bound("SELECT b, a FROM t ORDER BY a DESC, b, a + 1", RELATIONS))


def sql(query: str) -> str:
    return bound(query, RELATIONS).sql


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("SELECT * FROM (SELECT a, b FROM t ORDER BY b) x LIMIT 2", "o.c2 ASC NULLS LAST, o.c1 "),
        ("SELECT a FROM (SELECT a, b FROM t ORDER BY b) x LIMIT 2", "o.k1 ASC NULLS LAST, o.c1 "),
        ("SELECT a FROM (SELECT a FROM t ORDER BY b) x LIMIT 2", "o.k1 ASC NULLS LAST, o.c1 "),
        ("WITH x AS (SELECT a FROM t ORDER BY a DESC) SELECT * FROM x LIMIT 2", "o.c1 DESC NULLS "),
        ("SELECT b FROM v LIMIT 2", "o.k1 DESC NULLS FIRST, o.c1 ASC NULLS LAST LIMIT"),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a DESC) x ORDER BY a LIMIT 2", "o.c1 ASC NULLS"),
        ("VALUES (2), (1) LIMIT 1", "o.k1 ASC NULLS LAST, o.c1 "),
        ("SELECT * FROM unnest(ARRAY[2, 1]) LIMIT 1", "o.k1 ASC NULLS LAST, o.c1 "),
        (
            "SELECT e FROM (SELECT * FROM t ORDER BY a) x, unnest(c) e LIMIT 1",
            "o.k1 ASC NULLS LAST, o.k2",
        ),
    ],
)
def test_a_limit_goes_by_the_order_of_what_is_inside(query: str, keys: str) -> None:
    assert f" ORDER BY {keys}" in sql(query)


def test_an_order_inside_is_that_of_the_result() -> None:
    assert bound("SELECT a FROM (SELECT * FROM t ORDER BY b) x WHERE a > 1", RELATIONS).is_ordered
    for unordered in (
        "SELECT DISTINCT a FROM (SELECT * FROM t ORDER BY b) x",
        "SELECT a FROM (SELECT * FROM t ORDER BY b) x GROUP BY a",
        "SELECT count(*) FROM (SELECT * FROM t ORDER BY b) x",
        "SELECT x.a FROM (SELECT * FROM t ORDER BY b) x JOIN u ON u.a = x.a",
        "SELECT a, rank() OVER (ORDER BY a) FROM (SELECT * FROM t ORDER BY b) x",
        "SELECT * FROM generate_series(1, 3)",
        "VALUES (2), (1)",
    ):
        found = bound(unordered, RELATIONS)
        assert not found.is_ordered, unordered
        assert not found.sql.endswith("LAST"), unordered


@pytest.mark.parametrize(
    "query",
    [
        "SELECT array_agg(a) FROM (SELECT a FROM t ORDER BY b) x",
        "SELECT json_agg(b) FROM v",
        "SELECT string_agg(e, '') FROM t, unnest(ARRAY['b', 'a']) e GROUP BY a",
        "SELECT jsonb_object_agg(k, 1) FROM (VALUES ('b'), ('a')) x(k)",
    ],
)
def test_aggregates_collect_in_the_order_of_the_rows(query: str) -> None:
    assert "x.k0 < y.k0" in sql(query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT array_agg(DISTINCT a) FROM (SELECT a FROM t ORDER BY b) x",
        "SELECT array_agg(x.a) FROM (SELECT a FROM t ORDER BY b) x, u",
        "SELECT array_agg(a) FROM t",
    ],
)
def test_where_no_order_is_known_the_values_decide(query: str) -> None:
    assert "k0" not in sql(query)


def test_an_order_of_its_own_comes_first() -> None:
    found = sql("SELECT array_agg(a ORDER BY a) FROM (SELECT a FROM t ORDER BY b) x")
    assert "x.k0" in found
    assert "x.k1" not in found
