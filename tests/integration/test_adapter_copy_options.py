"""The options of COPY, beside PostgreSQL: what it refuses is refused with the same words."""

from __future__ import annotations

import psycopg
import pytest

from waterclock.adapter.copy_options import copy_options
from waterclock.catalog.objects import Column, Oid, Table
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import INT4, TEXT
from waterclock.sql.ast import Copy
from waterclock.sql.parser import parse_statements
from waterclock.testing.services import PostgresServer

TABLE = Table(
    oid=Oid(20000),
    name="t",
    owner=Oid(10),
    id=GlobalId.user(1),
    namespace=Oid(2200),
    columns=(Column("a", INT4), Column("b", TEXT)),
    row_type=Oid(20001),
    row_array_type=Oid(20002),
)

TAILS = [
    "",
    "(FORMAT text)",
    "(FORMAT yaml)",
    "(FORMAT 'csv', FORMAT csv)",
    "(COLOUR 'red')",
    "(FORMAT csv, HEADER)",
    "(FORMAT csv, HEADER true)",
    "(FORMAT csv, HEADER match)",
    "(FORMAT csv, HEADER 'nonsense')",
    "(HEADER)",
    "(FORMAT binary, HEADER)",
    "(FORMAT binary, DELIMITER ',')",
    "(FORMAT binary, NULL 'x')",
    "(DELIMITER 'ab')",
    "(DELIMITER '')",
    "(DELIMITER 'a')",
    "(DELIMITER '.')",
    "(DELIMITER E'\\n')",
    "(DELIMITER 'ä')",
    "(NULL E'a\\nb')",
    "(NULL 'a|b', DELIMITER '|')",
    "(QUOTE 'x')",
    "(FORMAT csv, QUOTE 'xx')",
    "(FORMAT csv, QUOTE ',')",
    "(FORMAT csv, QUOTE 'x', NULL 'xyz')",
    "(ESCAPE 'x')",
    "(FORMAT csv, ESCAPE 'xx')",
    "(FORMAT csv, ESCAPE 'x')",
    "(FORCE_QUOTE *)",
    "(FORMAT csv, FORCE_QUOTE *)",
    "(FORMAT csv, FORCE_QUOTE (a))",
    "(FORMAT csv, FORCE_QUOTE (z))",
    "(FORMAT csv, FORCE_NOT_NULL (a))",
    "(FORMAT csv, FORCE_NOT_NULL (z))",
    "(FORMAT csv, FORCE_NULL (b))",
    "(FORCE_NULL (b))",
    "(ENCODING 'utf-8')",
    "(ENCODING 'nonsense')",
    "(FREEZE false)",
    "(FREEZE 'nonsense')",
    "WITH CSV HEADER",
    "WITH CSV QUOTE ','",
    "WITH BINARY",
    "WITH DELIMITER AS '|' NULL AS 'x'",
    "CSV FORCE QUOTE a",
    "CSV FORCE NOT NULL a",
]
WAYS = ["COPY t FROM STDIN {}", "COPY t TO STDOUT {}", "COPY t (a) FROM STDIN {}"]


@pytest.mark.service
def test_mistakes_are_told_as_postgres_tells_them(postgres_server: PostgresServer) -> None:
    texts = [way.format(tail) for way in WAYS for tail in TAILS]
    with psycopg.connect(postgres_server.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE TEMPORARY TABLE t (a int, b text)")
        different = [
            (text, expected, found)
            for text in texts
            if (expected := _of_postgres(connection, text)) != (found := _ours(text))
        ]
    assert not different, "\n".join(map(str, different))


def _of_postgres(connection: psycopg.Connection, text: str) -> tuple[str, str] | None:
    try:
        with connection.cursor() as cursor, cursor.copy(text) as copy:  # type: ignore[arg-type]
            if " TO " in text:
                for _ in copy:
                    pass
    except psycopg.errors.BadCopyFileFormat:
        return None  # the options were good, it was the data that was missing
    except psycopg.Error as error:
        return error.sqlstate or "", error.diag.message_primary or ""
    return None


def _ours(text: str) -> tuple[str, str] | None:
    try:
        [parsed] = parse_statements(text)
        statement = parsed.statement
        assert isinstance(statement, Copy)
        named = [column.name for column in statement.columns or ()] or ["a", "b"]
        copy_options(statement.options, statement.direction, named, TABLE)
    except WaterclockError as error:
        return error.sqlstate, error.message
    return None
