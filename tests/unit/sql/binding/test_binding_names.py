"""Names: scopes, stars, joins, WITH, aliases; and where a mistake is shown."""

from __future__ import annotations

import pytest

from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.sql.errors import SqlFault
from waterclock.testing.relations import KnownRelations, bound

RELATIONS = KnownRelations(
    {
        "t": {"id": "int not null", "a": "int", "b": "text"},
        "u": {"id": "int", "a": "int", "name": "text not null"},
        "Odd Name": {"Mixed Case": "int", "select": "text"},
        "twins": {"a": "int", "A": "int"},
    }
)


def names(query: str) -> list[str]:
    return [column.name for column in bound(query, RELATIONS).columns]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM t", ["id", "a", "b"]),
        ("SELECT t.*, name FROM t, u", ["id", "a", "b", "name"]),
        ("SELECT * FROM t JOIN u USING (id)", ["id", "a", "b", "a", "name"]),
        ("SELECT * FROM t JOIN u USING (a, id)", ["a", "id", "b", "name"]),
        ("SELECT * FROM t NATURAL JOIN u", ["id", "a", "b", "name"]),
        ("SELECT * FROM t x(p, q)", ["p", "q", "b"]),
        ("SELECT * FROM (SELECT 1, 2) AS v(p)", ["p", "?column?"]),
        ("WITH t AS (SELECT 1 AS one) SELECT * FROM t", ["one"]),
        ("WITH c(p) AS (SELECT a, b FROM t) SELECT * FROM c", ["p", "b"]),
        ("WITH x AS (SELECT 1 AS n), y AS (SELECT n + 1 AS m FROM x) SELECT * FROM y", ["m"]),
        ("TABLE u", ["id", "a", "name"]),
        ("VALUES (1, 2)", ["column1", "column2"]),
        ("SELECT a AS x FROM t UNION SELECT id AS y FROM u", ["x"]),
        ("SELECT a + 1, lower(b), a::text, 'x', count(*) OVER () FROM t",
         ["?column?", "lower", "a", "?column?", "count"]),
        ('SELECT "Mixed Case", "select" FROM "Odd Name"', ["Mixed Case", "select"]),
        ('SELECT a, "A" FROM twins', ["a", "A"]),
        ("SELECT g FROM generate_series(1, 2) AS g", ["g"]),
        ("SELECT * FROM generate_series(1, 2) WITH ORDINALITY", ["generate_series", "ordinality"]),
    ],
)  # fmt: skip
def test_output_names(query: str, expected: list[str]) -> None:
    assert names(query) == expected


def test_no_name_of_a_user_is_looked_up_by_the_engine() -> None:
    sql = bound('SELECT a, "A" FROM twins WHERE a = 1 ORDER BY "A"', RELATIONS).sql
    assert "`u4` AS t1(c1, c2)" in sql
    assert "o.c1 AS c1, o.c2 AS c2" in sql, "names that Spark takes for one are replaced"


def test_reads_and_origins() -> None:
    found = bound("SELECT u.name, t.a + 1 FROM t JOIN u ON t.id = u.id", RELATIONS)
    assert found.reads == (GlobalId.user(1), GlobalId.user(2))
    assert [(c.table_oid, c.column_number) for c in found.columns] == [(20_002, 3), (0, 0)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT id, name FROM t JOIN u USING (id)", [False, False]),
        ("SELECT t.id, name FROM t LEFT JOIN u USING (id)", [False, True]),
        ("SELECT t.id, name FROM t RIGHT JOIN u ON true", [True, False]),
        ("SELECT t.id, name FROM t FULL JOIN u ON t.id = u.id", [True, True]),
        ("SELECT id FROM t UNION SELECT id FROM u", [True]),
        ("SELECT count(*), max(id) FROM t", [False, True]),
        ("SELECT id, count(*) FROM t GROUP BY ROLLUP (id)", [True, True]),
    ],
)
def test_nullability(query: str, expected: list[bool]) -> None:
    assert [column.nullable for column in bound(query, RELATIONS).columns] == expected


def test_a_view_is_inlined() -> None:
    relations = KnownRelations({"t": {"a": "int", "b": "text"}})
    view = bound("SELECT b AS x, a FROM t WHERE a > 1", relations)
    relations.with_view("v", view)
    found = bound("SELECT x FROM v WHERE a < 5", relations)
    assert view.sql in found.sql
    assert found.reads == (GlobalId.user(1),)
    assert found.simple is None


@pytest.mark.parametrize(
    ("query", "sqlstate", "position"),
    [
        ("SELECT nope FROM t", "42703", 8),
        ("SELECT t.nope FROM t", "42703", 8),
        ("SELECT x.a FROM t", "42P01", 8),
        ("SELECT a FROM t, u", "42702", 8),
        ("SELECT a FROM nope", "42P01", 15),
        ("SELECT * FROM t, t", "42712", 18),
        ("SELECT (t).nope FROM t", "42703", 9),
        ("SELECT 1 FROM t WHERE a = (SELECT zz FROM u)", "42703", 35),
        ("SELECT * FROM (SELECT a FROM t WHERE t.id = u.id) x, u", "42P01", 45),
        ("SELECT * FROM t JOIN u USING (nope)", "42703", 31),
        ("SELECT foo(a) FROM t", "42883", 8),
        ("SELECT a FROM t GROUP BY b", "42803", 8),
        ("SELECT (SELECT t.a) FROM t GROUP BY b", "42803", 16),
        ("SELECT 1 FROM t WHERE count(*) = 1", "42803", 23),
        ("SELECT a + b FROM t", "42883", 10),
        ("SELECT 'x'::int", "22P02", 8),
        ("SELECT a FROM t WHERE a = 'x'", "22P02", 27),
        ("SELECT $2", "42P02", 8),
        ("SELECT a FROM t LIMIT a", "42703", 23),
        ("SELECT count(*) FROM t FOR UPDATE", "0A000", 24),
        ("SELECT DISTINCT a FROM t FOR SHARE", "0A000", 26),
        ("SELECT a FROM t UNION SELECT a FROM t FOR UPDATE", "0A000", 39),
        ("SELECT a FROM t FOR UPDATE OF u", "42P01", 31),
        ("SELECT a FROM t FOR UPDATE SKIP LOCKED", "0A000", 28),
        ("SELECT a FROM t FOR NOTHING", "42601", 21),
        ("WITH RECURSIVE r AS (SELECT * FROM r) SELECT 1", "42P19", 16),
    ],
)
def test_mistakes_and_their_places(query: str, sqlstate: str, position: int) -> None:
    with pytest.raises(WaterclockError) as caught:
        bound(query, RELATIONS, parameters=[])
    assert isinstance(caught.value, SqlFault)
    assert (caught.value.sqlstate, caught.value.position) == (sqlstate, position)


def test_positions_count_from_the_beginning_of_the_statement() -> None:
    from waterclock.sql.binding import bind_query
    from waterclock.testing.relations import session_facts

    with pytest.raises(SqlFault) as caught:
        bind_query("SELECT nope FROM t", 101, RELATIONS, facts=session_facts())
    assert caught.value.position == 108


def test_the_hint_of_an_unknown_function() -> None:
    with pytest.raises(SqlFault) as caught:
        bound("SELECT lower(a) FROM t", RELATIONS)
    assert caught.value.message == "function lower(integer) does not exist"
    assert caught.value.hint == (
        "No function matches the given name and argument types."
        " You might need to add explicit type casts."
    )


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT a FROM t", False),
        ("SELECT a FROM t FOR READ ONLY", False),
        ("SELECT a FROM t FOR UPDATE", True),
        ("SELECT a FROM t x ORDER BY a FOR NO KEY UPDATE OF x LIMIT 1", True),
        ("SELECT a FROM t LIMIT 1 FOR KEY SHARE FOR SHARE", True),
        ("SELECT * FROM (SELECT a FROM t FOR UPDATE) q", True),
        ("(SELECT a FROM t) FOR UPDATE", True),
    ],
)
def test_queries_that_lock_say_so_and_are_not_simple(query: str, expected: bool) -> None:
    found = bound(query, RELATIONS)
    assert found.locks == expected
    assert not found.locks or found.simple is None


def test_a_name_that_an_alias_hides_is_told_with_the_alias() -> None:
    for query in (
        "SELECT t.id FROM t AS x",
        "SELECT t.* FROM t x",
        "SELECT 1 FROM t x WHERE EXISTS (SELECT t.id)",
    ):
        with pytest.raises(SqlFault) as caught:
            bound(query, RELATIONS)
        assert str(caught.value) == 'invalid reference to FROM-clause entry for table "t"'
        assert caught.value.sqlstate == "42P01"
        assert caught.value.hint == 'Perhaps you meant to reference the table alias "x".'


@pytest.mark.parametrize(
    ("query", "sqlstate"),
    [
        # The engine sees no further than one query around, also through a query of WITH.
        ("SELECT (WITH c AS (SELECT t.a) SELECT (SELECT a FROM c)) FROM t", "0A000"),
        (
            "SELECT * FROM t WHERE EXISTS (WITH c AS (SELECT * FROM u WHERE u.a = t.a)"
            " SELECT (SELECT count(*) FROM c))",
            "0A000",
        ),
        ("SELECT * FROM t JOIN (u JOIN LATERAL (SELECT t.a) s ON true) ON true", "0A000"),
        ("SELECT * FROM t, u FULL JOIN LATERAL (SELECT t.a) s ON true", "0A000"),
        ("SELECT * FROM t RIGHT JOIN LATERAL (SELECT t.a) s ON true", "42P10"),
        ("SELECT * FROM t FULL JOIN LATERAL (SELECT b) s ON true", "42P10"),
        ("SELECT * FROM t RIGHT JOIN generate_series(1, t.a) s ON true", "42P10"),
        ("SELECT * FROM t x RIGHT JOIN LATERAL (SELECT x.*) s ON true", "42P10"),
        (
            "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u JOIN u y ON t.a IN"
            " (SELECT x.a FROM u x WHERE x.id = u.id))",
            "0A000",
        ),
        # What a name of WITH RECURSIVE means is decided by the nearest WITH.
        (
            "WITH RECURSIVE x(n) AS (WITH y AS (SELECT 1 FROM x) SELECT 0 UNION SELECT * FROM y)"
            " SELECT * FROM x",
            "0A000",
        ),
        (
            "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n FROM x WHERE EXISTS"
            " (WITH x AS (SELECT * FROM x) SELECT * FROM x)) SELECT * FROM x",
            "42P19",
        ),
        ("SELECT (SELECT grouping(a)) FROM t GROUP BY a", "0A000"),
        ("SELECT a FROM t GROUP BY a HAVING EXISTS (SELECT FROM u WHERE max(t.id) = u.a)", "0A000"),
        ("SELECT a FROM t GROUP BY a HAVING EXISTS (SELECT FROM u WHERE max(u.id) = 1)", "42803"),
        ("SELECT count(*) OVER w FROM t WINDOW w AS (), w AS (ORDER BY a)", "42P20"),
        ("SELECT rank() OVER (ORDER BY 1) FROM t GROUP BY 1", "42P20"),
        ("SELECT DISTINCT FROM t", "42601"),
        ("SELECT DISTINCT * FROM (SELECT FROM t) x", "42601"),
    ],
)
def test_names_that_mean_nothing_here(query: str, sqlstate: str) -> None:
    with pytest.raises(WaterclockError) as caught:
        bound(query, RELATIONS)
    assert caught.value.sqlstate == sqlstate


@pytest.mark.parametrize(
    ("query", "sql"),
    [
        (
            "SELECT count(*) FROM t, u JOIN LATERAL (SELECT t.a) s ON true",
            "`u1` AS t1(c1, c2, c3) CROSS JOIN `u2` AS t2(c1, c2, c3) INNER JOIN LATERAL",
        ),
        (
            "SELECT * FROM t WHERE EXISTS (SELECT FROM u JOIN u v ON t.a = 1 AND u.a = v.a)",
            "ON TRUE) WHERE ((t1.c2 = 1) AND (t2.c2 = t3.c2))",
        ),
        (
            "WITH RECURSIVE x(n) AS (WITH y AS (SELECT 1) SELECT * FROM y UNION ALL"
            " SELECT n + 1 FROM x WHERE n < 3) SELECT * FROM x",
            "WITH RECURSIVE",
        ),
        (
            "WITH RECURSIVE x AS (WITH x AS (SELECT 1 AS n) SELECT * FROM x) SELECT n FROM x",
            "SELECT 1 AS c1",
        ),
        ("SELECT FROM t UNION SELECT FROM u", "SELECT 1 AS c0"),
    ],
)
def test_names_are_found_where_the_engine_sees_them(query: str, sql: str) -> None:
    assert sql in bound(query, RELATIONS).sql
