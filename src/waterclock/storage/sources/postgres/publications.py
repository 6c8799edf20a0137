"""A publication of the source's own, for a statement that names tables and no publication.

It is made before the source is, for what is published decides what the source will be; whoever
does not create the source then has to drop it. It keeps nothing upstream, unlike a slot, so one
that a crash has left does no harm.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import psycopg
from psycopg import sql

from waterclock.storage.sources.api import ConnectionSettings
from waterclock.storage.sources.errors import InvalidSource
from waterclock.storage.sources.postgres.connecting import connect, telling
from waterclock.storage.sources.postgres.definition import quoted

TableName = tuple[str | None, str]
"""The schema, if it was given, and the name."""


def make(control: psycopg.Connection[Any], tables: Sequence[TableName]) -> str:
    """Publish these tables; the name of the publication. Raises `InvalidSource`."""
    found = dict.fromkeys(_found(control, *table) for table in tables)
    name = f"waterclock_{secrets.token_hex(8)}"
    statement = sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(
        sql.Identifier(name), sql.SQL(", ").join(sql.Identifier(*each) for each in found)
    )
    try:
        control.execute(statement)
    except psycopg.errors.InsufficientPrivilege as error:
        raise InvalidSource(
            "the user of the connection may not publish the tables",
            detail=f"{error.diag.message_primary}.",
            hint="Let it own them, and grant it CREATE on the database upstream. Or let somebody"
            " else create a publication, and name that: (PUBLICATION 'name').",
        ) from error
    return name


def add(
    control: psycopg.Connection[Any], name: str, tables: Sequence[TableName]
) -> tuple[tuple[str, str], ...]:
    """Publish these tables as well; those of them that were not published before, by their schema
    and name. Raises `InvalidSource`.
    """
    known = set(control.execute(_PUBLISHED, [name]).fetchall())
    found = dict.fromkeys(_found(control, *table) for table in tables)
    new = tuple(each for each in found if each not in known)
    if new:
        control.execute(_alter("ADD", name, new))
    return new


def remove(settings: ConnectionSettings, name: str, tables: Sequence[tuple[str, str]]) -> None:
    """Do not publish these tables any more, as far as they are. Raises `TransientFault`."""
    with telling(settings), closing(connect(settings)) as control:
        known = set(control.execute(_PUBLISHED, [name]).fetchall())
        gone = [each for each in tables if each in known]
        if gone:
            control.execute(_alter("DROP", name, gone))


def _alter(change: str, name: str, tables: Sequence[tuple[str, str]]) -> sql.Composed:
    return sql.SQL("ALTER PUBLICATION {} {} TABLE {}").format(
        sql.Identifier(name),
        sql.SQL(change),
        sql.SQL(", ").join(sql.Identifier(*each) for each in tables),
    )


def drop(settings: ConnectionSettings, name: str) -> None:
    """Drop a publication; one that is not there is no error. Raises `TransientFault`."""
    with telling(settings):
        control = connect(settings)
        try:
            control.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(name)))
        finally:
            control.close()


def _found(control: psycopg.Connection[Any], schema: str | None, name: str) -> tuple[str, str]:
    """The schema and the name of the only table that is meant."""
    shown = quoted(name) if schema is None else f"{quoted(schema)}.{quoted(name)}"
    rows = control.execute(_TABLES, {"schema": schema, "name": name}).fetchall()
    if not rows:
        raise InvalidSource(f"table {shown} does not exist upstream")
    if len(rows) > 1:
        raise InvalidSource(
            f"table {shown} is not unique upstream",
            detail=f"There is one in each of these schemas: {', '.join(row[0] for row in rows)}.",
            hint="Give the name with its schema.",
        )
    [(found, is_partitioned)] = rows
    if is_partitioned:
        raise InvalidSource(
            f"table {shown} is partitioned",
            hint="Name its partitions, which are tables of their own here.",
        )
    return found, name


_PUBLISHED = (
    "SELECT schemaname::text, tablename::text FROM pg_publication_tables WHERE pubname = %s"
)
_TABLES = """
SELECT n.nspname, c.relkind = 'p' FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND c.relname = %(name)s
    AND (n.nspname = %(schema)s OR %(schema)s::text IS NULL
        AND n.nspname NOT IN ('pg_catalog', 'information_schema'))
ORDER BY 1
"""
