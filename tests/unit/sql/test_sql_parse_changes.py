"""INSERT, UPDATE, DELETE, TRUNCATE, COPY."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from waterclock.sql.ast import Statement
from waterclock.sql.ast.changes import (
    Assignment,
    Conflict,
    Copy,
    CopyDirection,
    DefaultRow,
    Delete,
    Insert,
    RowAssignment,
    Rows,
    Truncate,
    Update,
)
from waterclock.sql.ast.common import (
    DefaultValue,
    ExpressionText,
    Identifier,
    ListValue,
    NameValue,
    ObjectName,
    Option,
    QueryText,
    StringValue,
)
from waterclock.sql.ast.objects import Unsupported
from waterclock.sql.ast.queries import AsOf, Query, Subscribe
from waterclock.sql.errors import SqlFault
from waterclock.sql.parser import parse_statements

Parse = Callable[[str], Statement]
Refuse = Callable[[str], SqlFault]


def expr(text: str) -> ExpressionText:
    return ExpressionText(text)


def name(*parts: str) -> ObjectName:
    return ObjectName(parts)


def test_insert_values(parse: Parse) -> None:
    assert parse(
        "INSERT INTO s.t (a, \"B\") VALUES (1, DEFAULT), ($1, f('x', (2))) RETURNING a, b AS c"
    ) == Insert(
        name("s", "t"),
        (Identifier("a"), Identifier("B")),
        Rows(((expr("1"), DefaultValue()), (expr("$1"), expr("f('x', (2))")))),
        QueryText("a, b AS c"),
    )


def test_insert_other_sources(parse: Parse) -> None:
    assert parse("insert into t default values") == Insert(name("t"), None, DefaultRow())
    assert parse("insert into t (select 1)") == Insert(name("t"), None, QueryText("(select 1)"))
    assert parse("insert into t (a) select * from u join conflict on conflict.a = u.a") == Insert(
        name("t"),
        (Identifier("a"),),
        QueryText("select * from u join conflict on conflict.a = u.a"),
    )
    assert parse("insert into t values (1) union select 2 returning *") == Insert(
        name("t"), None, QueryText("values (1) union select 2"), QueryText("*")
    )
    assert parse("insert into t select a as returning, u.on from u returning b") == Insert(
        name("t"), None, QueryText("select a as returning, u.on from u"), QueryText("b")
    )
    assert parse("insert into t as x table u") == Insert(
        name("t"), None, QueryText("table u"), alias="x"
    )


def test_insert_on_conflict(parse: Parse, refuse: Refuse) -> None:
    def conflict(text: str) -> Conflict | None:
        found = parse(f"insert into t values (1) on conflict {text}")
        assert isinstance(found, Insert)
        return found.conflict

    assert conflict("do nothing") == Conflict()
    assert conflict("do nothing returning a") == Conflict()
    assert conflict("(a, lower(b)) where c > 1 do nothing") == Conflict(
        (expr("a"), expr("lower(b)"))
    )
    assert conflict("(a) do update set b = 1, (c, d) = (2, 3) where e") == Conflict((expr("a"),))
    assert conflict("on constraint k do update set b = 1") == Conflict(constraint=Identifier("k"))
    assert refuse("insert into t values (1) on conflict do update set a = 1").sqlstate == "42601"
    assert refuse("insert into t values (1) on conflict (a)").sqlstate == "42601"
    assert refuse("insert into t values (1) on conflict (a) do update").sqlstate == "42601"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("INSERT INTO t (a[1]) VALUES (1)", "assigning to a part of a column"),
        ("INSERT INTO t OVERRIDING USER VALUE VALUES (1)", "OVERRIDING"),
        ("UPDATE t SET a = 1 WHERE CURRENT OF c", "WHERE CURRENT OF"),
        ("COPY t FROM '/etc/passwd'", "COPY from a file"),
        ("COPY t TO PROGRAM 'x'", "COPY from or to a program"),
        ("COPY (INSERT INTO t VALUES (1) RETURNING a) TO STDOUT", "COPY of INSERT"),
    ],
)
def test_not_supported(text: str, what: str) -> None:
    first, second = parse_statements(f"{text}; select 1")
    assert first.statement == Unsupported(what)
    assert first.text == text
    assert isinstance(second.statement, Query)


def test_update(parse: Parse) -> None:
    assert parse(
        "UPDATE t AS u SET a = a + 1, b = DEFAULT, (c, d) = (3, DEFAULT), (e, f) = (SELECT 1, 2), "
        "g = x IS DISTINCT FROM y FROM v, (w) WHERE u.a = v.a RETURNING *, a"
    ) == Update(
        name("t"),
        (
            Assignment(Identifier("a"), expr("a + 1")),
            Assignment(Identifier("b"), DefaultValue()),
            Assignment(Identifier("c"), expr("3")),
            Assignment(Identifier("d"), DefaultValue()),
            RowAssignment((Identifier("e"), Identifier("f")), QueryText("SELECT 1, 2")),
            Assignment(Identifier("g"), expr("x IS DISTINCT FROM y")),
        ),
        "u",
        QueryText("v, (w)"),
        expr("u.a = v.a"),
        QueryText("*, a"),
    )
    assert parse("update t set set = 1") == Update(
        name("t"), (Assignment(Identifier("set"), expr("1")),)
    )
    assert parse("update only t x set (a) = row (1)") == Update(
        name("t"), (Assignment(Identifier("a"), expr("1")),), "x"
    )


def test_delete_and_truncate(parse: Parse) -> None:
    assert parse("DELETE FROM t") == Delete(name("t"))
    assert parse("DELETE FROM a.t u USING v, w WHERE x IN (1, 2) RETURNING u.*") == Delete(
        name("a", "t"), "u", QueryText("v, w"), expr("x IN (1, 2)"), QueryText("u.*")
    )
    assert parse("TRUNCATE a, ONLY b.c RESTART IDENTITY CASCADE") == Truncate(
        (name("a"), name("b", "c")), True
    )
    assert parse("truncate table t") == Truncate((name("t"),))


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("INSERT t", 8),
        ("INSERT INTO", 12),
        ("INSERT INTO t", 14),
        ("INSERT INTO t VALUES", 21),
        ("INSERT INTO t VALUES ()", 23),
        ("INSERT INTO t VALUES (1,)", 25),
        ("INSERT INTO t VALUES (1) (2)", 26),
        ("INSERT INTO t (a VALUES (1)", 18),
        ("INSERT INTO t () VALUES (1)", 16),
        ("INSERT INTO t VALUES (1) RETURNING", 35),
        ("INSERT INTO t VALUES (1), (2, 3)", 28),
        ("UPDATE t", 9),
        ("UPDATE t SET", 13),
        ("UPDATE t SET a", 15),
        ("UPDATE t SET a = ", 18),
        ("UPDATE t SET a = WHERE b", 18),
        ("UPDATE t SET a = 1, WHERE b", 21),
        ("UPDATE t SET (a, b) = (1)", 23),
        ("DELETE t", 8),
        ("DELETE FROM t WHERE", 20),
        ("DELETE FROM t WHERE RETURNING a", 21),
        ("TRUNCATE", 9),
        ("TRUNCATE t,", 12),
        ("COPY t", 7),
        ("COPY t FROM", 12),
        ("COPY t FROM STDIN WITH FOO", 24),
        ("COPY t TO STDOUT WHERE a", 18),
        ("COPY (SELECT 1) FROM STDIN", 17),
        ("COPY t FROM STDIN (FORMAT csv", 30),
    ],
)
def test_broken(refuse: Refuse, text: str, position: int) -> None:
    fault = refuse(text)
    assert (fault.sqlstate, fault.position) == ("42601", position)


def test_copy_new_syntax(parse: Parse) -> None:
    assert parse(
        "COPY s.t (a, b) FROM STDIN WITH (FORMAT csv, DELIMITER ';', NULL '', HEADER, "
        "FORCE_NOT_NULL (a, b), FORCE_QUOTE *, ENCODING 'utf8')"
    ) == Copy(
        name("s", "t"),
        CopyDirection.FROM_STDIN,
        (Identifier("a"), Identifier("b")),
        (
            Option("format", NameValue(name("csv"))),
            Option("delimiter", StringValue(";")),
            Option("null", StringValue("")),
            Option("header", None),
            Option("force_not_null", ListValue((NameValue(name("a")), NameValue(name("b"))))),
            Option("force_quote", expr("*")),
            Option("encoding", StringValue("utf8")),
        ),
    )


def test_copy_old_syntax(parse: Parse) -> None:
    assert parse(
        "COPY t TO STDOUT WITH CSV HEADER DELIMITER AS ';' NULL 'x' QUOTE 'q' ESCAPE AS 'e' "
        "FORCE QUOTE a, b FORCE NOT NULL c ENCODING 'utf8'"
    ) == Copy(
        name("t"),
        CopyDirection.TO_STDOUT,
        None,
        (
            Option("format", NameValue(name("csv"))),
            Option("header", NameValue(name("true"))),
            Option("delimiter", StringValue(";")),
            Option("null", StringValue("x")),
            Option("quote", StringValue("q")),
            Option("escape", StringValue("e")),
            Option("force_quote", ListValue((NameValue(name("a")), NameValue(name("b"))))),
            Option("force_not_null", ListValue((NameValue(name("c")),))),
            Option("encoding", StringValue("utf8")),
        ),
    )
    binary = (Option("format", NameValue(name("binary"))),)
    for text in ("COPY BINARY t FROM STDIN", "COPY t FROM STDIN BINARY", "COPY t FROM STDIN "
                 "WITH BINARY", "copy t from stdout (format binary)"):  # fmt: skip
        assert parse(text) == Copy(name("t"), CopyDirection.FROM_STDIN, None, binary)


def test_copy_of_queries(parse: Parse) -> None:
    assert parse("COPY (SELECT 1 AS OF 5) TO STDOUT") == Copy(
        Query(QueryText("SELECT 1"), AsOf(expr("5"))), CopyDirection.TO_STDOUT
    )
    assert parse("COPY (SUBSCRIBE t WITH (PROGRESS) UP TO 5) TO STDOUT") == Copy(
        Subscribe(name("t"), (Option("progress", None),), None, expr("5")),
        CopyDirection.TO_STDOUT,
    )
    assert parse("COPY t FROM STDIN WHERE a > 1") == Copy(
        name("t"), CopyDirection.FROM_STDIN, where=expr("a > 1")
    )


def test_a_table_may_be_called_of(parse: Parse) -> None:
    """AS OF with nothing behind it that could be a time is an alias."""
    for text in ("UPDATE t AS of SET a = 1", "DELETE FROM t AS of", "DELETE FROM t AS of USING u"):
        found = parse(text)
        assert isinstance(found, Update | Delete)
        assert found.alias == "of"
    assert parse("DELETE FROM t AS of WHERE of.a = 1 AS OF 5") == Unsupported("AS OF in DELETE")
