"""DROP, ALTER, COMMENT; roles and grants; what is refused by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from waterclock.model.pg_types import INT4, TEXT
from waterclock.sql.ast import Statement
from waterclock.sql.ast.common import (
    ExpressionText,
    Identifier,
    ListValue,
    NameValue,
    ObjectKind,
    ObjectName,
    Option,
    StringValue,
)
from waterclock.sql.ast.objects import (
    AddColumn,
    AddConstraint,
    AddSourceColumn,
    AddTables,
    Alter,
    AlterAction,
    CommentOn,
    Drop,
    DropColumn,
    DropConstraint,
    DropTables,
    OwnerTo,
    RenameColumn,
    RenameTo,
    ResetOptions,
    SetCluster,
    SetDefault,
    SetNotNull,
    SetOptions,
    SetSchema,
    SetType,
    SwapWith,
    Unsupported,
)
from waterclock.sql.ast.relations import ColumnDefinition, PrimaryKey
from waterclock.sql.ast.roles import (
    AllInSchemas,
    AlterRole,
    AlterSetting,
    CreateRole,
    GrantPrivileges,
    GrantRole,
    Password,
    Privilege,
    RevokePrivileges,
    RevokeRole,
    RoleAttributes,
    RoleWord,
    TheseObjects,
    WholeSystem,
)
from waterclock.sql.ast.sources import UpstreamTable
from waterclock.sql.errors import FeatureNotSupported, SqlFault
from waterclock.sql.parser import parse_statements

Parse = Callable[[str], Statement]
Refuse = Callable[[str], SqlFault]


def name(*parts: str) -> ObjectName:
    return ObjectName(parts)


@pytest.mark.parametrize("kind", list(ObjectKind))
def test_drop(parse: Parse, kind: ObjectKind) -> None:
    assert parse(f"DROP {kind.value} a") == Drop(kind, (name("a"),))
    assert parse(f"drop {kind.value.lower()} if exists a, b cascade") == Drop(
        kind, (name("a"), name("b")), True, True
    )


def test_drop_of_qualified_names_and_users(parse: Parse) -> None:
    assert parse('DROP TABLE a."B".c RESTRICT') == Drop(ObjectKind.TABLE, (name("a", "B", "c"),))
    assert parse("DROP USER u") == Drop(ObjectKind.ROLE, (name("u"),))


def column(text: str) -> Identifier:
    return Identifier(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RENAME TO x", RenameTo(Identifier("x"))),
        ("RENAME COLUMN a TO b", RenameColumn(column("a"), column("b"))),
        ("RENAME a TO b", RenameColumn(column("a"), column("b"))),
        ("SET SCHEMA s", SetSchema(name("s"))),
        ("OWNER TO r", OwnerTo(Identifier("r"))),
        ("OWNER TO CURRENT_USER", OwnerTo(RoleWord.CURRENT_USER)),
        ("SWAP WITH x", SwapWith(Identifier("x"))),
        ("SET CLUSTER c", SetCluster(Identifier("c"))),
        ("SET (RETAIN HISTORY FOR '1h')",
         SetOptions((Option("retain history", StringValue("1h")),))),
        ("RESET (RETAIN HISTORY, a)", ResetOptions(("retain history", "a"))),
        ("ADD COLUMN IF NOT EXISTS c int NOT NULL",
         AddColumn(ColumnDefinition(column("c"), INT4, True), True)),
        ("ADD c int", AddColumn(ColumnDefinition(column("c"), INT4))),
        ("ADD CONSTRAINT k PRIMARY KEY (a)", AddConstraint(PrimaryKey((column("a"),), "k"))),
        ("DROP COLUMN IF EXISTS c CASCADE", DropColumn(column("c"), True, True)),
        ("DROP CONSTRAINT k", DropConstraint(Identifier("k"))),
        ("ALTER COLUMN c SET DEFAULT 1 + 1", SetDefault(column("c"), ExpressionText("1 + 1"))),
        ("ALTER c DROP DEFAULT", SetDefault(column("c"), None)),
        ("ALTER c SET NOT NULL", SetNotNull(column("c"), True)),
        ("ALTER c DROP NOT NULL", SetNotNull(column("c"), False)),
        ("ALTER c SET DATA TYPE text USING c::text",
         SetType(column("c"), TEXT, ExpressionText("c::text"))),
        ("ALTER c TYPE text", SetType(column("c"), TEXT)),
    ],
)  # fmt: skip
def test_alter_table(parse: Parse, text: str, expected: AlterAction) -> None:
    assert parse(f"ALTER TABLE a.t {text}") == Alter(ObjectKind.TABLE, name("a", "t"), (expected,))
    if "TABLE" not in text and text.startswith(("ADD", "DROP", "ALTER")):
        assert parse(f"ALTER TABLE IF EXISTS t {text}, DROP x") == Alter(
            ObjectKind.TABLE, name("t"), (expected, DropColumn(column("x"))), True
        )


def test_alter_of_other_kinds(parse: Parse) -> None:
    for kind in ObjectKind:
        assert parse(f"ALTER {kind.value} a RENAME TO b") == Alter(
            kind, name("a"), (RenameTo(Identifier("b")),)
        )
    assert parse("ALTER SCHEMA a SWAP WITH b") == Alter(
        ObjectKind.SCHEMA, name("a"), (SwapWith(Identifier("b")),)
    )
    assert parse("ALTER CONNECTION c SET (HOST = 'x')") == Alter(
        ObjectKind.CONNECTION, name("c"), (SetOptions((Option("host", StringValue("x")),)),)
    )
    assert parse("ALTER DATABASE d SET a TO 1, 2") == AlterSetting(
        name("d"), ObjectKind.DATABASE, "a", ("1", "2")
    )
    assert parse("ALTER SYSTEM RESET ALL") == AlterSetting(None, None, None, None)
    assert parse("ALTER SYSTEM SET a = on") == AlterSetting(None, None, "a", ("on",))


def test_tables_of_a_source(parse: Parse) -> None:
    columns = Option("exclude columns", ListValue((NameValue(ObjectName(("t", "c"))),)))
    tables = (
        UpstreamTable(ObjectName(("public", "t")), ObjectName(("wide",))),
        UpstreamTable(ObjectName(("u",))),
    )
    name = ObjectName(("s",))
    text = "ALTER SOURCE s ADD TABLE public.t AS wide, u WITH (EXCLUDE COLUMNS (t.c))"
    assert parse(text) == Alter(ObjectKind.SOURCE, name, (AddTables(tables, (columns,)),))
    text = "ALTER SOURCE s ADD COLUMN IF NOT EXISTS a int, ADD COLUMN b"
    added = (
        AddSourceColumn(Identifier("a"), INT4, True),
        AddSourceColumn(Identifier("b")),
    )
    assert parse(text) == Alter(ObjectKind.SOURCE, name, added)
    gone = DropTables((ObjectName(("wide",)), ObjectName(("x", "u"))), True, True)
    text = "ALTER SOURCE s DROP TABLE IF EXISTS wide, x.u CASCADE"
    assert parse(text) == Alter(ObjectKind.SOURCE, name, (gone,))


def test_comments(parse: Parse) -> None:
    assert parse("COMMENT ON MATERIALIZED VIEW a.v IS $$it's$$") == CommentOn(
        ObjectKind.MATERIALIZED_VIEW, name("a", "v"), "it's"
    )
    assert parse("COMMENT ON COLUMN a.t.c IS NULL") == CommentOn(
        ObjectKind.TABLE, name("a", "t"), None, "c"
    )
    assert parse("COMMENT ON FUNCTION f() IS 'x'") == Unsupported("COMMENT ON FUNCTION")


def test_roles(parse: Parse) -> None:
    assert parse("CREATE ROLE r") == CreateRole(Identifier("r"), RoleAttributes())
    assert parse("CREATE USER u NOINHERIT") == CreateRole(
        Identifier("u"), RoleAttributes(login=True, inherit=False)
    )
    assert parse(
        "CREATE ROLE IF NOT EXISTS r WITH LOGIN SUPERUSER NOCREATEDB CREATEROLE PASSWORD 'x' "
        "CONNECTION LIMIT -1 VALID UNTIL 'infinity' IN ROLE a, b ROLE c ADMIN d, CURRENT_USER"
    ) == CreateRole(
        Identifier("r"),
        RoleAttributes(
            login=True,
            superuser=True,
            create_database=False,
            create_role=True,
            password=Password("x"),
            connection_limit=-1,
            valid_until="infinity",
        ),
        True,
        (Identifier("a"), Identifier("b")),
        (Identifier("c"),),
        (Identifier("d"), RoleWord.CURRENT_USER),
    )
    assert parse("ALTER ROLE r PASSWORD NULL NOLOGIN") == AlterRole(
        Identifier("r"), RoleAttributes(login=False, password=Password(None))
    )
    assert parse("ALTER USER CURRENT_USER ENCRYPTED PASSWORD 'y'") == AlterRole(
        RoleWord.CURRENT_USER, RoleAttributes(password=Password("y"))
    )
    assert parse("ALTER ROLE r SET search_path TO a, b") == AlterSetting(
        Identifier("r"), ObjectKind.ROLE, "search_path", ("a", "b")
    )
    assert parse("ALTER ROLE ALL RESET x") == AlterSetting(None, ObjectKind.ROLE, "x", None)


def test_grants(parse: Parse) -> None:
    assert parse(
        "GRANT SELECT, INSERT (a, b) ON t, s.u TO r, PUBLIC, GROUP g WITH GRANT OPTION"
    ) == GrantPrivileges(
        (Privilege("SELECT"), Privilege("INSERT", (column("a"), column("b")))),
        TheseObjects(ObjectKind.TABLE, (name("t"), name("s", "u"))),
        (Identifier("r"), RoleWord.PUBLIC, Identifier("g")),
        True,
    )
    assert parse("GRANT ALL PRIVILEGES ON ALL TABLES IN SCHEMA a, b TO r") == GrantPrivileges(
        (), AllInSchemas(ObjectKind.TABLE, (name("a"), name("b"))), (Identifier("r"),)
    )
    assert parse("GRANT USAGE ON SCHEMA d.s TO r") == GrantPrivileges(
        (Privilege("USAGE"),),
        TheseObjects(ObjectKind.SCHEMA, (name("d", "s"),)),
        (Identifier("r"),),
    )
    assert parse("GRANT CREATEROLE ON SYSTEM TO r") == GrantPrivileges(
        (Privilege("CREATEROLE"),), WholeSystem(), (Identifier("r"),)
    )
    assert parse("GRANT SELECT ON source TO r") == GrantPrivileges(
        (Privilege("SELECT"),),
        TheseObjects(ObjectKind.TABLE, (name("source"),)),
        (Identifier("r"),),
    )
    assert parse("REVOKE GRANT OPTION FOR CREATE ON DATABASE d FROM r CASCADE") == (
        RevokePrivileges(
            (Privilege("CREATE"),),
            TheseObjects(ObjectKind.DATABASE, (name("d"),)),
            (Identifier("r"),),
            True,
            True,
        )
    )
    assert parse("GRANT a, b TO c WITH ADMIN OPTION") == GrantRole(
        (Identifier("a"), Identifier("b")), (Identifier("c"),), True
    )
    assert parse("REVOKE a FROM b") == RevokeRole((Identifier("a"),), (Identifier("b"),))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("ALTER DEFAULT PRIVILEGES IN SCHEMA s GRANT SELECT ON TABLES TO r",
         "ALTER DEFAULT PRIVILEGES"),
        ("ANALYZE t", "ANALYZE"),
        ("VACUUM FULL t", "VACUUM"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1; SELECT 2; END",
         "CREATE FUNCTION"),
        ("CREATE OR REPLACE FUNCTION f() RETURNS int AS $$ ; $$ LANGUAGE sql", "CREATE FUNCTION"),
        ("CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)", "CREATE RULE"),
        ("CREATE TYPE t AS ENUM ('a')", "CREATE TYPE"),
        ("CREATE EXTENSION IF NOT EXISTS x", "CREATE EXTENSION"),
        ("CREATE SEQUENCE s", "CREATE SEQUENCE"),
        ("CREATE CONSTRAINT TRIGGER t AFTER INSERT ON u EXECUTE FUNCTION f()", "CREATE TRIGGER"),
        ("CREATE PUBLICATION p FOR ALL TABLES", "CREATE PUBLICATION"),
        ("ALTER SEQUENCE s RESTART", "ALTER SEQUENCE"),
        ("DROP FUNCTION f(int)", "DROP FUNCTION"),
        ("DROP OWNED BY r", "DROP OWNED"),
        ("LOCK TABLE t", "LOCK"),
        ("CALL p()", "CALL"),
        ("DO $$ begin end $$", "DO"),
        ("MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE", "MERGE"),
        ("REINDEX TABLE t", "REINDEX"),
        ("CHECKPOINT", "CHECKPOINT"),
        ("CLUSTER t", "CLUSTER"),
        ("ALTER TABLE t ENABLE ROW LEVEL SECURITY", "ALTER TABLE ENABLE"),
        ("ALTER TABLE t RENAME CONSTRAINT a TO b", "RENAME CONSTRAINT"),
        ("ALTER SOURCE s ADD SUBSOURCE t", "ALTER SOURCE ADD"),
        ("ALTER SOURCE s DROP COLUMN t", "ALTER SOURCE DROP"),
        ("GRANT USAGE ON SEQUENCE s TO r", "GRANT ON SEQUENCE"),
        ("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA s TO r", "GRANT ON ALL FUNCTIONS"),
        ("GRANT SELECT ON t TO r GRANTED BY x", "GRANTED BY"),
    ],
)  # fmt: skip
def test_refused_by_name(text: str, what: str) -> None:
    first, second = parse_statements(f"{text}; begin")
    assert first.statement == Unsupported(what)
    assert first.text == text
    assert second.text == "begin"


def test_the_error_of_what_is_not_supported() -> None:
    fault = FeatureNotSupported.of("VACUUM", 1)
    assert (str(fault), fault.sqlstate, fault.position) == ("VACUUM is not supported", "0A000", 1)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("DROP", 5),
        ("DROP FOO x", 6),
        ("DROP TABLE", 11),
        ("DROP TABLE IF x", 15),
        ("DROP TABLE a,", 14),
        ("DROP TABLE a b", 14),
        ("ALTER", 6),
        ("ALTER FOO x", 7),
        ("ALTER TABLE t", 14),
        ("ALTER TABLE t FOO", 15),
        ("ALTER TABLE t RENAME", 21),
        ("ALTER TABLE t RENAME a b", 24),
        ("ALTER TABLE t ADD", 18),
        ("ALTER TABLE t ALTER a SET", 26),
        ("ALTER TABLE t SET foo", 19),
        ("ALTER TABLE t DROP c,", 22),
        ("ALTER VIEW v OWNER r", 20),
        ("COMMENT ON", 11),
        ("COMMENT ON FOO x IS 'y'", 12),
        ("COMMENT ON TABLE t", 19),
        ("COMMENT ON TABLE t IS x", 23),
        ("COMMENT ON COLUMN c IS 'x'", 19),
        ("CREATE ROLE", 12),
        ("CREATE ROLE r LOGIN LOGIN", 21),
        ("CREATE ROLE r LOGIN NOLOGIN", 21),
        ("CREATE ROLE r FOO", 15),
        ("CREATE ROLE r PASSWORD", 23),
        ("CREATE ROLE r IN a", 18),
        ("GRANT", 6),
        ("GRANT x", 8),
        ("GRANT SELECT ON t", 18),
        ("GRANT SELECT ON t TO", 21),
        ("GRANT SELECT (a TO r", 17),
        ("GRANT ALL TO r", 11),
        ("GRANT a TO b WITH GRANT OPTION", 19),
        ("REVOKE GRANT OPTION", 20),
        ("REVOKE SELECT ON t TO r", 20),
    ],
)
def test_broken(refuse: Refuse, text: str, position: int) -> None:
    fault = refuse(text)
    assert (fault.sqlstate, fault.position) == ("42601", position)


@pytest.mark.parametrize("text", ["CREATE ROLE none", "CREATE ROLE public", "DROP ROLE public"])
def test_reserved_roles(refuse: Refuse, text: str) -> None:
    fault = refuse(text)
    assert (fault.sqlstate, fault.position) == ("42939", text.rindex(" ") + 2)


def test_option_values_are_words(parse: Parse) -> None:
    statement = parse("ALTER TABLE t SET (a = b.c)")
    assert statement == Alter(
        ObjectKind.TABLE, name("t"), (SetOptions((Option("a", NameValue(name("b", "c"))),)),)
    )
