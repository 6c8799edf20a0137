"""Settings, transactions, prepared statements, cursors, channels, SHOW."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from waterclock.model.pg_types import INT4, TEXT, array_of, numeric
from waterclock.sql.ast import Statement
from waterclock.sql.ast.common import (
    ExpressionText,
    Identifier,
    ObjectKind,
    ObjectName,
    Option,
    QueryText,
    StringValue,
)
from waterclock.sql.ast.objects import Unsupported
from waterclock.sql.ast.queries import Query, Subscribe
from waterclock.sql.ast.session import (
    Begin,
    CloseCursor,
    Commit,
    Deallocate,
    DeclareCursor,
    Direction,
    Discard,
    Discarded,
    Execute,
    Fetch,
    Isolation,
    Listen,
    Listing,
    Notify,
    Prepare,
    ReleaseSavepoint,
    ResetSetting,
    Rollback,
    RollbackToSavepoint,
    Savepoint,
    SetSetting,
    SettingScope,
    SetTransaction,
    ShowCreate,
    ShowObjects,
    ShowSetting,
    TransactionModes,
    Unlisten,
)
from waterclock.sql.errors import SqlFault

Parse = Callable[[str], Statement]
Refuse = Callable[[str], SqlFault]

SERIALIZABLE = TransactionModes(Isolation.SERIALIZABLE)
QUERY = Query(QueryText("SELECT 1"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SET x = 1", SetSetting("x", ("1",))),
        ("SET x TO -1.5", SetSetting("x", ("-1.5",))),
        (
            "SET SESSION search_path TO a, 'b c', \"D\"",
            SetSetting("search_path", ("a", "b c", "D")),
        ),
        ("SET LOCAL x.y = on", SetSetting("x.y", ("on",), SettingScope.LOCAL)),
        ("SET x TO DEFAULT", SetSetting("x", None)),
        ("SET TIME ZONE 'UTC'", SetSetting("timezone", ("UTC",))),
        ("SET TIME ZONE -5", SetSetting("timezone", ("-5",))),
        ("SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE", SetSetting("timezone", ("0",))),
        ("SET TIME ZONE INTERVAL '-05:00' HOUR TO MINUTE", SetSetting("timezone", ("-5",))),
        ("SET TIME ZONE INTERVAL '02:00'", SetSetting("timezone", ("2",))),
        ("SET LOCAL TIME ZONE LOCAL", SetSetting("timezone", None, SettingScope.LOCAL)),
        ("SET NAMES 'UTF8'", SetSetting("client_encoding", ("UTF8",))),
        ("SET SCHEMA 'a'", SetSetting("search_path", ("a",))),
        ("SET schema = a", SetSetting("schema", ("a",))),
        ("SET ROLE NONE", SetSetting("role", ("none",))),
        ("SET ROLE 'Bob'", SetSetting("role", ("Bob",))),
        ("SET SESSION AUTHORIZATION DEFAULT", SetSetting("session_authorization", None)),
        ("SET cluster = quickstart", SetSetting("cluster", ("quickstart",))),
        ("RESET ALL", ResetSetting(None)),
        ("RESET TIME ZONE", ResetSetting("timezone")),
        ("RESET a.b", ResetSetting("a.b")),
        ("SHOW ALL", ShowSetting(None)),
        ("SHOW server_version", ShowSetting("server_version")),
        ("SHOW TRANSACTION ISOLATION LEVEL", ShowSetting("transaction_isolation")),
        ("SHOW TIME ZONE", ShowSetting("timezone")),
        ("SHOW cluster", ShowSetting("cluster")),
        ("DISCARD ALL", Discard(Discarded.ALL)),
        ("DISCARD TEMPORARY", Discard(Discarded.TEMP)),
        ("SET TRANSACTION READ ONLY", SetTransaction(TransactionModes(None, True))),
        (
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            SetTransaction(SERIALIZABLE, session=True),
        ),
        ("SET CONSTRAINTS ALL DEFERRED", Unsupported("SET CONSTRAINTS")),
        ("SET TIME ZONE INTERVAL '1' HOUR TO MINUTE", Unsupported("SET TIME ZONE INTERVAL")),
        ("SET TIME ZONE INTERVAL '+05:30' HOUR TO MINUTE", Unsupported("SET TIME ZONE INTERVAL")),
    ],
)
def test_settings(parse: Parse, text: str, expected: Statement) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BEGIN", Begin()),
        ("BEGIN WORK", Begin()),
        ("BEGIN READ ONLY", Begin(TransactionModes(read_only=True))),
        ("START TRANSACTION ISOLATION LEVEL SERIALIZABLE", Begin(SERIALIZABLE, is_start=True)),
        (
            "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE NOT DEFERRABLE",
            Begin(TransactionModes(Isolation.REPEATABLE_READ, False, False)),
        ),
        (
            "BEGIN ISOLATION LEVEL STRICT SERIALIZABLE",
            Begin(TransactionModes(Isolation.STRICT_SERIALIZABLE)),
        ),
        ("COMMIT", Commit()),
        ("END TRANSACTION AND CHAIN", Commit(True)),
        ("ROLLBACK WORK AND NO CHAIN", Rollback()),
        ("ABORT", Rollback()),
        ("SAVEPOINT a", Savepoint("a")),
        ("RELEASE a", ReleaseSavepoint("a")),
        ("RELEASE SAVEPOINT savepoint", ReleaseSavepoint("savepoint")),
        ("ROLLBACK TO a", RollbackToSavepoint("a")),
        ("ROLLBACK TRANSACTION TO SAVEPOINT \"A\"", RollbackToSavepoint("A")),
        ("COMMIT PREPARED 'x'", Unsupported("COMMIT PREPARED")),
        ("PREPARE TRANSACTION 'x'", Unsupported("PREPARE TRANSACTION")),
    ],
)  # fmt: skip
def test_transactions(parse: Parse, text: str, expected: Statement) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PREPARE p AS SELECT 1", Prepare("p", (), QUERY, "SELECT 1")),
        (
            "PREPARE p (int, text[], numeric(10, 2)) AS SELECT 1",
            Prepare("p", (INT4, array_of(TEXT), numeric(10, 2)), QUERY, "SELECT 1"),
        ),
        ("EXECUTE p", Execute("p")),
        ("EXECUTE p (1, f(2, 3))", Execute("p", (ExpressionText("1"), ExpressionText("f(2, 3)")))),
        ("DEALLOCATE PREPARE p", Deallocate("p")),
        ("DEALLOCATE ALL", Deallocate(None)),
        ("DECLARE c CURSOR FOR SELECT 1", DeclareCursor("c", QUERY)),
        (
            "DECLARE c BINARY INSENSITIVE NO SCROLL CURSOR WITH HOLD FOR SELECT 1",
            DeclareCursor("c", QUERY, True, False, True),
        ),
        (
            'DECLARE "C" SCROLL CURSOR WITHOUT HOLD FOR SUBSCRIBE t',
            DeclareCursor("C", Subscribe(ObjectName(("t",))), scroll=True),
        ),
        ("CLOSE ALL", CloseCursor(None)),
        ("CLOSE c", CloseCursor("c")),
        ("LISTEN a", Listen("a")),
        ("UNLISTEN *", Unlisten(None)),
        ("UNLISTEN a", Unlisten("a")),
        ("NOTIFY a, 'b'", Notify("a", "b")),
        ("NOTIFY a", Notify("a")),
    ],
)
def test_prepared_statements_cursors_and_channels(
    parse: Parse, text: str, expected: Statement
) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "direction", "count"),
    [
        ("c", Direction.FORWARD, 1),
        ("FROM c", Direction.FORWARD, 1),
        ("NEXT IN c", Direction.FORWARD, 1),
        ("PRIOR c", Direction.BACKWARD, 1),
        ("FIRST FROM c", Direction.ABSOLUTE, 1),
        ("LAST FROM c", Direction.ABSOLUTE, -1),
        ("ABSOLUTE -3 c", Direction.ABSOLUTE, -3),
        ("RELATIVE 0 FROM c", Direction.RELATIVE, 0),
        ("5 FROM c", Direction.FORWARD, 5),
        ("-5 c", Direction.FORWARD, -5),
        ("ALL c", Direction.FORWARD, None),
        ("FORWARD c", Direction.FORWARD, 1),
        ("FORWARD 7 c", Direction.FORWARD, 7),
        ("FORWARD ALL IN c", Direction.FORWARD, None),
        ("BACKWARD c", Direction.BACKWARD, 1),
        ("BACKWARD 2 c", Direction.BACKWARD, 2),
        ("BACKWARD ALL FROM c", Direction.BACKWARD, None),
    ],
)
def test_fetch_and_move(parse: Parse, text: str, direction: Direction, count: int | None) -> None:
    assert parse(f"FETCH {text}") == Fetch("c", direction, count)
    assert parse(f"MOVE {text}") == Fetch("c", direction, count, move=True)
    timed = (Option("timeout", StringValue("1s")),)
    assert parse(f"FETCH {text} WITH (timeout = '1s')") == Fetch(
        "c", direction, count, options=timed
    )


def test_a_cursor_may_be_called_next(parse: Parse) -> None:
    assert parse("FETCH next") == Fetch("next", Direction.FORWARD, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"SHOW {listing.value}", ShowObjects(listing))
        for listing in Listing
        if listing is not Listing.COLUMNS
    ]
    + [
        ("SHOW TABLES FROM a.b LIKE 'x%'", ShowObjects(Listing.TABLES, ObjectName(("a", "b")),
         like="x%")),
        ("SHOW VIEWS WHERE name = 'x'", ShowObjects(Listing.VIEWS,
         where=ExpressionText("name = 'x'"))),
        ("SHOW INDEXES ON t IN CLUSTER c", ShowObjects(Listing.INDEXES, ObjectName(("t",)),
         Identifier("c"))),
        ("SHOW MATERIALIZED VIEWS IN CLUSTER c", ShowObjects(Listing.MATERIALIZED_VIEWS, None,
         Identifier("c"))),
        ("SHOW COLUMNS FROM t", ShowObjects(Listing.COLUMNS, ObjectName(("t",)))),
    ],
)  # fmt: skip
def test_show_lists(parse: Parse, text: str, expected: Statement) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize("kind", list(ObjectKind))
def test_show_create(parse: Parse, kind: ObjectKind) -> None:
    assert parse(f"show create {kind.value.lower()} a.b") == ShowCreate(
        kind, ObjectName(("a", "b"))
    )


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("SET", 4),
        ("SET x", 6),
        ("SET x =", 8),
        ("SET x = select", 9),
        ("SET x = 1,", 11),
        ("SET x = 1 2", 11),
        ("SET TIME ZONE", 14),
        ("SET TRANSACTION", 16),
        ("SET TRANSACTION READ", 21),
        ("SET SESSION CHARACTERISTICS AS", 31),
        ("RESET", 6),
        ("RESET a b", 9),
        ("SHOW", 5),
        ("SHOW COLUMNS", 13),
        ("SHOW CREATE", 12),
        ("SHOW CREATE FUNCTION f", 13),
        ("DISCARD", 8),
        ("DISCARD FOO", 9),
        ("BEGIN ISOLATION", 16),
        ("BEGIN ISOLATION LEVEL FOO", 23),
        ("BEGIN READ ONLY,", 17),
        ("START", 6),
        ("COMMIT AND", 11),
        ("COMMIT FOO", 8),
        ("SAVEPOINT", 10),
        ("RELEASE", 8),
        ("ROLLBACK TO", 12),
        ("PREPARE p", 10),
        ("PREPARE p AS BEGIN", 14),
        ("PREPARE p () AS SELECT 1", 12),
        ("EXECUTE", 8),
        ("EXECUTE p ()", 12),
        ("DEALLOCATE", 11),
        ("DECLARE c FOR SELECT 1", 11),
        ("DECLARE c CURSOR FOR", 21),
        ("DECLARE c CURSOR FOR INSERT INTO t VALUES (1)", 22),
        ("FETCH", 6),
        ("FETCH FORWARD x y", 17),
        ("FETCH 99999999999 c", 7),
        ("CLOSE", 6),
        ("LISTEN", 7),
        ("LISTEN 'a'", 8),
        ("NOTIFY a,", 10),
        ("NOTIFY a, b", 11),
    ],
)
def test_broken(refuse: Refuse, text: str, position: int) -> None:
    fault = refuse(text)
    assert (fault.sqlstate, fault.position) == ("42601", position)


def test_an_unknown_type_of_a_parameter(refuse: Refuse) -> None:
    fault = refuse("PREPARE p (int, nosuch) AS SELECT 1")
    assert (fault.sqlstate, fault.position) == ("42704", 17)
