"""The small shell: when a statement is complete, and how results look."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from waterclock.server.shell import (
    NotConnected,
    _mark,
    commands,
    dsn_of,
    is_complete,
    statement_of,
    table,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 1;", True),
        ("select 1; -- done", True),
        ("select 1", False),
        ("select ';", False),
        ("select ';';", True),
        ("select $$;", False),
        ("/* ;", False),
        ("\n", True),
        ("-- only a comment\n", True),
    ],
)
def test_a_statement_ends_with_a_semicolon_outside_of_strings(text: str, expected: bool) -> None:
    assert is_complete(text) is expected


def test_a_table() -> None:
    assert list(table(["id", "name"], [["1", "Ada"], ["22", ""]])) == [
        "id | name",
        "---+-----",
        "1  | Ada",
        "22 |",
        "(2 rows)",
    ]
    assert list(table(["n"], [["1"]]))[-1] == "(1 row)"


def test_the_mark_is_below_the_character() -> None:
    line, mark = _mark("select 1,\n  oops from t", 13)
    assert line == "LINE 2:   oops from t"
    assert mark.index("^") == line.index("oops")


@pytest.mark.parametrize(
    ("command", "statement"),
    [
        ("\\d", "SHOW OBJECTS"),
        ("\\dt", "SHOW TABLES"),
        ("\\dm;", "SHOW MATERIALIZED VIEWS"),
        ('\\d shop."Items"', 'SHOW COLUMNS FROM shop."Items"'),
        ("\\dt items", None),
        ("\\?", None),
        ("\\nonsense", None),
    ],
)
def test_commands_stand_for_statements(command: str, statement: str | None) -> None:
    assert statement_of(command) == statement


def test_every_command_is_told_of() -> None:
    told = "\n".join(commands())
    for command in ("\\d ", "\\d name", "\\dt", "\\dv", "\\dm", "\\di", "\\ds", "\\l", "\\q"):
        assert f"  {command}" in told


def where(given: str | None, host: str | None = None, port: str | None = None) -> dict[str, object]:
    environment = {"WATERCLOCK_PG_PORT": "7000"}
    return conninfo_to_dict(dsn_of(given, environment, host=host, port=port))


def test_where_to_connect() -> None:
    """What is given wins over the flags, these over the environment, and that over the default."""
    plain = {"host": "127.0.0.1", "port": "7000", "user": "waterclock", "dbname": "waterclock"}
    assert where(None) == plain
    assert where(None, host="db", port="5433") == {**plain, "host": "db", "port": "5433"}
    assert where("port=5 user=ada", port="6") == {**plain, "port": "5", "user": "ada"}
    assert where("postgresql://ada@db:9/sales") == {
        "host": "db",
        "port": "9",
        "user": "ada",
        "dbname": "sales",
    }
    with pytest.raises(NotConnected) as refused:
        where("nonsense")
    assert refused.value.hint is not None
