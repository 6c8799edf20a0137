"""CREATE DATABASE, SCHEMA, TABLE, VIEW, MATERIALIZED VIEW, INDEX; REFRESH."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from waterclock.model.pg_types import INT4, TEXT, PgType, array_of
from waterclock.sql.ast import Statement
from waterclock.sql.ast.common import (
    ExpressionText,
    Identifier,
    NameValue,
    NumberValue,
    ObjectName,
    Option,
    QueryText,
    SortKey,
    StringValue,
)
from waterclock.sql.ast.objects import Unsupported
from waterclock.sql.ast.relations import (
    Check,
    ColumnDefinition,
    CreateDatabase,
    CreateIndex,
    CreateMaterializedView,
    CreateSchema,
    CreateTable,
    CreateTableAs,
    CreateView,
    ForeignKey,
    PrimaryKey,
    RefreshMaterializedView,
    Unique,
)
from waterclock.sql.errors import SqlFault

Parse = Callable[[str], Statement]
Refuse = Callable[[str], SqlFault]


def name(*parts: str) -> ObjectName:
    return ObjectName(parts)


def ids(*names: str) -> tuple[Identifier, ...]:
    return tuple(map(Identifier, names))


def expr(text: str) -> ExpressionText:
    return ExpressionText(text)


def test_create_database_and_schema(parse: Parse) -> None:
    assert parse("CREATE DATABASE IF NOT EXISTS d") == CreateDatabase(name("d"), True)
    assert parse("CREATE DATABASE d WITH OWNER = r ENCODING 'UTF8' CONNECTION LIMIT -1") == (
        CreateDatabase(
            name("d"),
            False,
            (
                Option("owner", NameValue(name("r"))),
                Option("encoding", StringValue("UTF8")),
                Option("connection limit", NumberValue("-1")),
            ),
        )
    )
    assert parse("create schema if not exists d.s") == CreateSchema(name("d", "s"), True)
    assert parse("create schema s authorization r") == CreateSchema(name("s"), False, "r")
    assert parse("create schema authorization r") == CreateSchema(name("r"), False, "r")


def test_create_table(parse: Parse) -> None:
    varchar = PgType(1043, 24)
    assert parse(
        "CREATE TEMP TABLE IF NOT EXISTS s.t (a int PRIMARY KEY DEFAULT 1 + 2 NOT NULL, "
        '"B" varchar(20)[] NULL CONSTRAINT k UNIQUE, c text CHECK (c IN (\'x\', \'y\')) '
        "REFERENCES u (v) ON DELETE CASCADE ON UPDATE SET NULL DEFERRABLE INITIALLY DEFERRED, "
        "d bool DEFAULT a IS NOT DISTINCT FROM b, "
        "PRIMARY KEY (a, c), CONSTRAINT f FOREIGN KEY (a) REFERENCES v, CHECK (a > 0)) "
        "WITH (retain history for '1h')"
    ) == CreateTable(
        name("s", "t"),
        (
            ColumnDefinition(
                Identifier("a"), INT4, True, expr("1 + 2"), (PrimaryKey(ids("a")),)
            ),
            ColumnDefinition(
                Identifier("B"), array_of(varchar), constraints=(Unique(ids("B"), "k"),)
            ),
            ColumnDefinition(
                Identifier("c"),
                TEXT,
                constraints=(
                    Check(expr("c IN ('x', 'y')")),
                    ForeignKey(ids("c"), name("u"), ids("v")),
                ),
            ),
            ColumnDefinition(
                Identifier("d"), PgType(16), default=expr("a IS NOT DISTINCT FROM b")
            ),
        ),
        (
            PrimaryKey(ids("a", "c")),
            ForeignKey(ids("a"), name("v"), (), "f"),
            Check(expr("a > 0")),
        ),
        True,
        True,
        (Option("retain history", StringValue("1h")),),
    )  # fmt: skip
    assert parse("create table t ()") == CreateTable(name("t"), ())
    assert parse("create table if (a int default null)") == CreateTable(
        name("if"), (ColumnDefinition(Identifier("a"), INT4, default=expr("null")),)
    )


def test_create_table_as(parse: Parse) -> None:
    assert parse("CREATE TABLE t AS SELECT 1") == CreateTableAs(name("t"), QueryText("SELECT 1"))
    assert parse(
        "CREATE TEMPORARY TABLE IF NOT EXISTS t (a, b) AS WITH data AS (SELECT 1) TABLE data "
        "WITH NO DATA"
    ) == CreateTableAs(
        name("t"),
        QueryText("WITH data AS (SELECT 1) TABLE data"),
        ids("a", "b"),
        True,
        True,
        False,
    )


def test_create_view(parse: Parse) -> None:
    query = QueryText("SELECT 1 AS x")
    assert parse("CREATE VIEW v AS SELECT 1 AS x") == CreateView(name("v"), query)
    assert parse("CREATE OR REPLACE TEMPORARY VIEW a.v (x) AS SELECT 1 AS x") == CreateView(
        name("a", "v"), query, ids("x"), or_replace=True, temporary=True
    )
    assert parse("CREATE VIEW IF NOT EXISTS v AS SELECT 1 AS x") == CreateView(
        name("v"), query, if_not_exists=True
    )


def test_create_materialized_view(parse: Parse) -> None:
    query = QueryText("SELECT 1")
    assert parse("CREATE MATERIALIZED VIEW v AS SELECT 1 WITH DATA") == CreateMaterializedView(
        name("v"), query
    )
    statement = parse(
        "CREATE MATERIALIZED VIEW IF NOT EXISTS d.s.v (a) IN CLUSTER c "
        "WITH (ASSERT NOT NULL a, RETAIN HISTORY FOR '30 days', REFRESH EVERY '1 day' ALIGNED TO x)"
        " AS SELECT 1"
    )
    assert statement == CreateMaterializedView(
        name("d", "s", "v"),
        query,
        ids("a"),
        False,
        True,
        Identifier("c"),
        (
            Option("assert not null", NameValue(name("a"))),
            Option("retain history", StringValue("30 days")),
            Option("refresh every", expr("'1 day' ALIGNED TO x")),
        ),
    )
    assert isinstance(statement, CreateMaterializedView)
    assert statement.query.position == 157
    replaced = parse("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1")
    assert replaced == CreateMaterializedView(name("v"), query, or_replace=True)


def test_create_index(parse: Parse) -> None:
    assert parse("CREATE INDEX ON t (a)") == CreateIndex(name("t"), (SortKey(expr("a")),))
    assert parse(
        "CREATE INDEX IF NOT EXISTS i IN CLUSTER c ON s.t USING btree "
        "(a DESC NULLS LAST, lower(b), (c + 1) ASC) WITH (x = 1)"
    ) == CreateIndex(
        name("s", "t"),
        (
            SortKey(expr("a"), True, False),
            SortKey(expr("lower(b)")),
            SortKey(expr("(c + 1)")),
        ),
        Identifier("i"),
        True,
        Identifier("c"),
        "btree",
        (Option("x", NumberValue("1")),),
    )
    assert parse("CREATE DEFAULT INDEX IN CLUSTER c ON t") == CreateIndex(
        name("t"), None, cluster=Identifier("c")
    )
    assert parse("CREATE DEFAULT INDEX ON t USING ARRANGEMENT") == CreateIndex(
        name("t"), None, method="arrangement"
    )


def test_refresh(parse: Parse) -> None:
    assert parse("REFRESH MATERIALIZED VIEW CONCURRENTLY a.v WITH NO DATA") == (
        RefreshMaterializedView(name("a", "v"), True, False)
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("CREATE TABLE t (LIKE u)", "LIKE in CREATE TABLE"),
        (
            "CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY)",
            "GENERATED ALWAYS AS IDENTITY of a column",
        ),
        ("CREATE TABLE t (a int, b int GENERATED ALWAYS AS (a) STORED)", "GENERATED of a column"),
        ("CREATE TABLE t (a bigserial)", "BIGSERIAL of a column"),
        ('CREATE TABLE t (a text COLLATE "C")', "COLLATE of a column"),
        ("CREATE TABLE t (a int) INHERITS (u)", "INHERITS in CREATE TABLE"),
        ("CREATE TABLE t (EXCLUDE USING gist (a WITH =))", "EXCLUDE"),
        ("CREATE TABLE t PARTITION OF u DEFAULT", "CREATE TABLE PARTITION"),
        ("CREATE TABLE t (a int) ON COMMIT DROP", "ON COMMIT DROP"),
        ("CREATE TABLE t AS EXECUTE p", "CREATE TABLE AS EXECUTE"),
        ("CREATE UNLOGGED TABLE t (a int)", "CREATE UNLOGGED TABLE"),
        ("CREATE UNIQUE INDEX i ON t (a)", "CREATE UNIQUE INDEX"),
        ("CREATE INDEX i ON t (a) WHERE a > 1", "WHERE in CREATE INDEX"),
        ("CREATE INDEX i ON t (a) INCLUDE (b)", "INCLUDE in CREATE INDEX"),
        ("CREATE VIEW v AS SELECT 1 AS OF 5", "AS OF in a view"),
        ("CREATE VIEW v AS SELECT 1 WITH CHECK OPTION", "WITH CHECK OPTION"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1 AS OF 5", "AS OF in a materialized view"),
        ("CREATE SCHEMA s CREATE TABLE t (a int)", "CREATE SCHEMA with other statements inside"),
    ],
)
def test_not_supported(parse: Parse, text: str, what: str) -> None:
    assert parse(text) == Unsupported(what)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("CREATE", 7),
        ("CREATE FOO", 8),
        ("CREATE OR", 10),
        ("CREATE OR REPLACE TABLE t (a int)", 19),
        ("CREATE TEMPORARY SCHEMA s", 18),
        ("CREATE DATABASE", 16),
        ("CREATE DATABASE a.b", 18),
        ("CREATE SCHEMA IF NOT", 21),
        ("CREATE TABLE", 13),
        ("CREATE TABLE select (a int)", 14),
        ("CREATE TABLE t", 15),
        ("CREATE TABLE t (", 17),
        ("CREATE TABLE t (a", 18),
        ("CREATE TABLE t (a)", 19),
        ("CREATE TABLE t (a int", 22),
        ("CREATE TABLE t (a int,)", 23),
        ("CREATE TABLE t (a int b)", 23),
        ("CREATE TABLE t (a int NOT)", 26),
        ("CREATE TABLE t (a int DEFAULT)", 30),
        ("CREATE TABLE t (a int PRIMARY)", 30),
        ("CREATE TABLE t (a int, PRIMARY KEY a)", 36),
        ("CREATE TABLE t (a int NOT NULL NULL)", 32),
        ("CREATE TABLE t (a int DEFAULT 1 DEFAULT 2)", 33),
        ("CREATE TABLE t (CHECK (a > 1, b int)", 29),
        ("CREATE TABLE t (a int) foo", 24),
        ("CREATE VIEW v", 14),
        ("CREATE VIEW v AS", 17),
        ("CREATE VIEW v AS INSERT INTO t VALUES (1)", 18),
        ("CREATE VIEW v () AS SELECT 1", 16),
        ("CREATE MATERIALIZED v", 21),
        ("CREATE MATERIALIZED VIEW v IN c AS SELECT 1", 31),
        ("CREATE INDEX", 13),
        ("CREATE INDEX i t (a)", 16),
        ("CREATE INDEX i ON t", 20),
        ("CREATE INDEX i ON t ()", 22),
        ("CREATE INDEX i ON t (a DESC NULLS)", 29),
        ("CREATE DEFAULT TABLE t", 16),
        ("CREATE DEFAULT INDEX ON t (a)", 27),
    ],
)
def test_broken(refuse: Refuse, text: str, position: int) -> None:
    fault = refuse(text)
    assert (fault.sqlstate, fault.position) == ("42601", position)


def test_an_unknown_type_has_a_position(refuse: Refuse) -> None:
    fault = refuse("CREATE TABLE t (a int, b public.mood[])")
    assert (fault.sqlstate, fault.position) == ("42704", 26)
    assert str(fault) == 'type "public.mood" does not exist'
