"""PostgreSQL's side: each call on each row by itself, so that one error hides no other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import psycopg

from waterclock.testing.services import PostgresServer
from waterclock.testing.sql_oracle.arguments import Row

Outcome = str | None
"""A value as text behind `=`, None for null, or an error's SQLSTATE behind `!`."""

_TRY = """
CREATE FUNCTION pg_temp.outcomes(relation text, call text)
RETURNS TABLE (row_id int, outcome text) LANGUAGE plpgsql AS $$
DECLARE
    one text := format(
        'SELECT CASE WHEN v IS NOT NULL THEN ''='' || format(''%%s'', v) END'
        ' FROM (SELECT %s AS v FROM %I WHERE id = $1 OFFSET 0) s', call, relation);
BEGIN
    BEGIN
        RETURN QUERY EXECUTE format(
            'SELECT id, CASE WHEN v IS NOT NULL THEN ''='' || format(''%%s'', v) END'
            ' FROM (SELECT id, %s AS v FROM %I OFFSET 0) s', call, relation);
        RETURN;
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
    FOR row_id IN EXECUTE format('SELECT id FROM %I', relation) LOOP
        BEGIN
            EXECUTE one INTO outcome USING row_id;
        EXCEPTION WHEN OTHERS THEN outcome := '!' || SQLSTATE;
        END;
        RETURN NEXT;
    END LOOP;
END $$
"""


class Oracle:
    """A connection to PostgreSQL with relations of arguments."""

    def __init__(self, connection: psycopg.Connection, timezone: str) -> None:
        self._connection = connection
        connection.execute(f"SET timezone = '{timezone}'".encode())
        connection.execute("SET statement_timeout = '600s'")
        connection.execute(_TRY.encode())

    def create(self, name: str, types: Sequence[str], rows: Sequence[Row]) -> None:
        """A table of arguments: `id` counts from 0, then `a0`, `a1`, ..."""
        self.create_named(name, {f"a{n}": kind for n, kind in enumerate(types)}, rows)

    def create_named(self, name: str, types: Mapping[str, str], rows: Sequence[Row]) -> None:
        """A table, which may take the place of one with the same name."""
        columns = "".join(f", {column} {kind}" for column, kind in types.items())
        self._connection.execute(f"DROP TABLE IF EXISTS {name}".encode())
        self._connection.execute(f"CREATE TEMP TABLE {name} (id int{columns})".encode())
        with self._connection.cursor() as cursor:
            places = "".join(", %s" for _ in types)
            cursor.executemany(
                f"INSERT INTO {name} VALUES (%s{places})".encode(),
                [(number, *row) for number, row in enumerate(rows)],
            )

    def outcomes(self, relation: str, call: str) -> dict[int, Outcome]:
        """What the call gives on each row of a relation."""
        found = self._connection.execute(
            "SELECT row_id, outcome FROM pg_temp.outcomes(%s, %s)", [relation, call]
        )
        return {row[0]: row[1] for row in found}

    def texts(self, query: str) -> list[tuple[str | None, ...]] | str:
        """The rows of a query as text, or the SQLSTATE of its error."""
        try:
            with self._connection.transaction(force_rollback=True):
                cursor = self._connection.execute(query.encode())
                result = cursor.pgresult
                assert result is not None
                return [
                    tuple(_text(result.get_value(row, n)) for n in range(result.nfields))
                    for row in range(result.ntuples)
                ]
        except psycopg.Error as error:
            return f"!{error.sqlstate}"


def _text(value: bytes | None) -> str | None:
    return None if value is None else bytes(value).decode()


@contextmanager
def connected(server: PostgresServer, timezone: str = "UTC") -> Iterator[Oracle]:
    """A database whose letters are those of Unicode and whose order is that of bytes."""
    name = f"oracle_{timezone.lower().replace('/', '_')}"
    with psycopg.connect(server.conninfo(), autocommit=True) as admin:
        admin.execute(f"DROP DATABASE IF EXISTS {name}".encode())
        admin.execute(f"CREATE DATABASE {name} LOCALE 'C.UTF-8' TEMPLATE template0".encode())
    with psycopg.connect(server.conninfo(name), autocommit=True) as connection:
        yield Oracle(connection, timezone)
