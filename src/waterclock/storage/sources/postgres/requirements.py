"""What must hold upstream for a source to be created, each with the remedy where it does not.

It is all asked beforehand, so that a source which was created can be read: the server's settings,
our permissions, the publication, and for each table its replica identity and its columns. What
comes out is the definition of the source.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

import msgspec

from waterclock.errors import WaterclockError
from waterclock.model.pg_types import NO_MODIFIER, TEXT, PgType, element_of, type_info
from waterclock.model.schema import MAX_DECIMAL_PRECISION, RESERVED_NAMES
from waterclock.storage.sources.api import ERROR, OFFSET, ConnectionSettings
from waterclock.storage.sources.decode_errors import FAIL, DecodeErrors
from waterclock.storage.sources.errors import InvalidSource, TransientFault
from waterclock.storage.sources.postgres import publications
from waterclock.storage.sources.postgres.connecting import connect, telling
from waterclock.storage.sources.postgres.definition import (
    PostgresDefinition,
    UpstreamColumn,
    UpstreamTable,
    quoted,
)
from waterclock.storage.sources.postgres.envelope import KEY
from waterclock.storage.sources.postgres.replication import Replication
from waterclock.storage.sources.postgres.upstream import (
    FoundColumn,
    FoundTable,
    Publication,
    Server,
    Upstream,
)

_OLDEST = 130000
_OWN_TYPES_BELOW = 16384
"""The server gives numbers from here on to types of its users."""
_NUMERIC, _NUMERIC_ARRAY = 1700, 1231
_WITHOUT_MODIFIER = frozenset({"interval"})
_TAKEN_NAMES = RESERVED_NAMES | {OFFSET, ERROR, KEY}

ColumnName = tuple[str | None, str, str]
"""The schema, if it was given, the table and the column."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a statement asks for. `tables` are pairs of a schema, if given, and a name; without any
    of both, all that is published is wanted. Without a publication, one is made for the tables.
    """

    publication: str | None
    tables: Sequence[tuple[str | None, str]] | None = None
    schemas: Sequence[str] | None = None
    as_text: Sequence[ColumnName] = ()
    excluded: Sequence[ColumnName] = ()
    may_be_gone: frozenset[ColumnName] = frozenset()
    """Those of the columns that need not be there."""
    errors: DecodeErrors = FAIL
    """What becomes of rows that can not be held."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a source will be; `chosen` are its tables in the order of what was wanted."""

    definition: PostgresDefinition
    chosen: tuple[UpstreamTable, ...]
    notices: list[str] = field(default_factory=list)
    published: tuple[tuple[str, str], ...] = ()
    """Tables that were put into the source's own publication for this."""


def define(connection: str, settings: ConnectionSettings, wanted: Wanted) -> Found:
    """The definition of a source over the connection of that id.

    If the source has a publication of its own, that is there from now on. Raises `InvalidSource`
    with a remedy, and `TransientFault` if the server does not answer; then it is not.
    """
    system = _system(settings)
    with closing(connect(settings)) as control, telling(settings), ExitStack() as undo:
        upstream = Upstream(control)
        _require_server(upstream.server())
        name, owns = wanted.publication, wanted.publication is None
        if name is None:
            assert wanted.tables is not None, "a publication is made for tables that are named"
            name = publications.make(control, wanted.tables)
            undo.callback(publications.drop, settings, name)
        publication = _publication(upstream, name)
        tables = _chosen(upstream, name, wanted)
        notices: list[str] = []
        columns = _Columns(wanted, notices)
        chosen = tuple(columns.table(found) for found in tables)
        columns.require_used()
        undo.pop_all()
    definition = PostgresDefinition(
        connection=connection,
        publication=name,
        version=publication.version,
        slot=f"waterclock_{secrets.token_hex(8)}",
        system=system,
        tables=chosen,
        owns_publication=owns,
        own_scales=True,
    )
    return Found(definition, chosen, notices)


def define_more(settings: ConnectionSettings, known: PostgresDefinition, wanted: Wanted) -> Found:
    """The definition of a source that reads nothing but tables that are to join a known source.

    They are tables of the same publication, and may be ones that the known source reads already:
    then they are new editions. A publication that the known source owns has them from now on. The
    definition has a replication slot of its own. Raises as `define` does.
    """
    if _system(settings) != known.system:
        raise InvalidSource("the connection leads to another PostgreSQL server than it did")
    with closing(connect(settings)) as control, telling(settings), ExitStack() as undo:
        upstream = Upstream(control)
        _require_server(upstream.server())
        name = known.publication
        if _publication(upstream, name).version != known.version:
            raise InvalidSource(
                f'publication "{name}" was altered upstream',
                detail="The source can not go on either.",
            )
        added: tuple[tuple[str, str], ...] = ()
        if known.owns_publication:
            assert wanted.tables is not None, "tables that join are named"
            added = publications.add(control, name, wanted.tables)
            undo.callback(publications.remove, settings, name, added)
        tables = _chosen(upstream, name, wanted)
        notices: list[str] = []
        columns = _Columns(wanted, notices)
        chosen = tuple(_next_edition(known, columns.table(found)) for found in tables)
        columns.require_used()
        undo.pop_all()
    definition = msgspec.structs.replace(
        known,
        slot=f"waterclock_{secrets.token_hex(8)}",
        tables=chosen,
        owns_publication=False,
        own_scales=True,
    )
    return Found(definition, chosen, notices, added)


def _next_edition(known: PostgresDefinition, table: UpstreamTable) -> UpstreamTable:
    """The table under the name of an output that the source has not had yet."""
    taken = [each.edition for each in known.tables if each.shown == table.shown]
    return msgspec.structs.replace(table, edition=max(taken, default=0) + 1)


def _system(settings: ConnectionSettings) -> str:
    """The server's identifier; to be told it one needs the right to replicate."""
    try:
        connection = Replication(settings)
    except TransientFault as fault:
        if re.search("wal ?sender", fault.message, re.IGNORECASE):
            raise InvalidSource(
                "the user of the connection may not use replication",
                detail=fault.message,
                hint="Give it the right upstream: ALTER ROLE ... WITH REPLICATION.",
            ) from fault
        raise
    try:
        return connection.system()
    finally:
        connection.close()


def _require_server(server: Server) -> None:
    if server.version < _OLDEST:
        raise InvalidSource(
            "PostgreSQL servers before version 13 are not supported",
            detail=f"The number of the server's version is {server.version}.",
        )
    if server.is_standby:
        raise InvalidSource(
            "the PostgreSQL server is a standby",
            hint="Let the connection lead to the primary server.",
        )
    if server.wal_level != "logical":
        raise InvalidSource(
            "wal_level of the PostgreSQL server is not logical",
            detail=f"It is {server.wal_level}.",
            hint="Set it upstream, and restart the server: ALTER SYSTEM SET wal_level = logical.",
        )
    if server.slots_free < 1:
        raise InvalidSource(
            "the PostgreSQL server has no replication slot left",
            hint="Raise max_replication_slots upstream, or drop slots that nobody uses.",
        )
    if server.encoding == "SQL_ASCII":
        raise InvalidSource(
            "databases with the encoding SQL_ASCII are not supported",
            detail="It is not known what the bytes of their texts mean.",
        )


def _publication(upstream: Upstream, name: str) -> Publication:
    found = upstream.publication(name)
    if found is None:
        raise InvalidSource(
            f'publication "{name}" does not exist upstream',
            hint=f"Create it there: CREATE PUBLICATION {quoted(name)} FOR TABLE ...",
        )
    if found.missing:
        raise InvalidSource(
            f'publication "{name}" does not publish all changes',
            detail=f"It leaves out {', '.join(found.missing)}.",
            hint=f"Let it publish them: ALTER PUBLICATION {quoted(name)}"
            " SET (publish = 'insert, update, delete, truncate').",
        )
    return found


def _chosen(upstream: Upstream, publication: str, wanted: Wanted) -> list[FoundTable]:
    offered = upstream.tables(publication)
    if wanted.tables is not None:
        found = [_named(upstream, publication, offered, *name) for name in wanted.tables]
    elif wanted.schemas is not None:
        found = [table for table in offered if table.schema in wanted.schemas]
        for schema in wanted.schemas:
            if all(table.schema != schema for table in offered):
                raise InvalidSource(
                    f'publication "{publication}" has no table in schema "{schema}"'
                )
    else:
        found = offered
    if not found:
        raise InvalidSource(
            f'publication "{publication}" has no tables',
            hint=f"Add some: ALTER PUBLICATION {quoted(publication)} ADD TABLE ...",
        )
    for table in found:
        _require_readable(table)
    return found


def _named(
    upstream: Upstream,
    publication: str,
    offered: Iterable[FoundTable],
    schema: str | None,
    name: str,
) -> FoundTable:
    found = [t for t in offered if t.name == name and schema in (None, t.schema)]
    shown = quoted(name) if schema is None else f"{quoted(schema)}.{quoted(name)}"
    if len(found) > 1:
        schemas = ", ".join(table.schema for table in found)
        raise InvalidSource(
            f"table {shown} is not unique upstream",
            detail=f"There is one in each of these schemas: {schemas}.",
            hint="Give the name with its schema.",
        )
    if found:
        return found[0]
    if not upstream.exists(schema, name):
        raise InvalidSource(f"table {shown} does not exist upstream")
    raise InvalidSource(
        f'table {shown} is not in publication "{publication}"',
        hint=f"Add it upstream: ALTER PUBLICATION {quoted(publication)} ADD TABLE {shown}.",
    )


def _require_readable(table: FoundTable) -> None:
    name = f"{quoted(table.schema)}.{quoted(table.name)}"
    if not table.may_be_read:
        raise InvalidSource(
            f"permission denied for table {name} upstream",
            hint=f"Grant it: GRANT USAGE ON SCHEMA {quoted(table.schema)} TO ...;"
            f" GRANT SELECT ON {name} TO ...",
        )
    if table.hides_rows:
        raise InvalidSource(
            f"row security hides rows of table {name} upstream",
            hint="Let the connection's user bypass it: ALTER ROLE ... WITH BYPASSRLS.",
        )
    if table.kind == "p":
        raise InvalidSource(
            f"table {name} is partitioned and published as one table",
            detail="PostgreSQL does not publish that a partition was truncated, attached or"
            " detached.",
            hint="Let its partitions be published as tables of their own: ALTER PUBLICATION ..."
            " SET (publish_via_partition_root = false).",
        )
    if table.identity != "f":
        raise InvalidSource(
            f"REPLICA IDENTITY of table {name} is not FULL",
            detail="Without the whole row as it was before a change, it is not known which one"
            " goes.",
            hint=f"Set it upstream: ALTER TABLE {name} REPLICA IDENTITY FULL.",
        )


class _Columns:
    """Which columns of the tables are read, and as what."""

    def __init__(self, wanted: Wanted, notices: list[str]) -> None:
        self._asked: Mapping[str, Sequence[ColumnName]] = {
            "TEXT COLUMNS": wanted.as_text,
            "EXCLUDE COLUMNS": wanted.excluded,
        }
        self._may_be_gone = wanted.may_be_gone
        self._used: set[tuple[str, ColumnName]] = set()
        self._notices = notices
        self._errors = wanted.errors

    def table(self, found: FoundTable) -> UpstreamTable:
        columns = [c for c in (self._column(found, c) for c in found.columns) if c is not None]
        if not columns:
            raise InvalidSource(f"table {_shown(found)} has no columns to read")
        if self._errors.column in [column.name for column in columns]:
            raise InvalidSource(
                f'table {_shown(found)} has a column "{self._errors.column}" already',
                hint="Give the column of errors another name: ON DECODE ERROR INLINE AS name.",
            )
        return UpstreamTable(
            found.oid,
            found.schema,
            found.name,
            tuple(columns),
            found.membership,
            found.filter,
            found.file,
            errors=self._errors,
        )

    def require_used(self) -> None:
        """Every column that was named must be one."""
        for option, names in self._asked.items():
            for name in names:
                if (option, name) not in self._used and name not in self._may_be_gone:
                    shown = ".".join(quoted(part) for part in name if part is not None)
                    raise InvalidSource(f"{option} names a column that is not read: {shown}")

    def _is_in(self, option: str, table: FoundTable, column: str) -> bool:
        for schema, name, asked in self._asked[option]:
            if (name, asked) == (table.name, column) and schema in (None, table.schema):
                self._used.add((option, (schema, name, asked)))
                return True
        return False

    def _column(self, table: FoundTable, column: FoundColumn) -> UpstreamColumn | None:
        if self._is_in("EXCLUDE COLUMNS", table, column.name):
            return None
        if column.is_generated:
            self._notices.append(
                f'generated column "{column.name}" of table {_shown(table)} is left out:'
                " PostgreSQL does not publish it"
            )
            return None
        if table.published is not None and column.name not in table.published:
            return None
        if column.name in _TAKEN_NAMES:
            raise InvalidSource(
                f'column name "{column.name}" of table {_shown(table)} is reserved',
                hint="Leave the column out: EXCLUDE COLUMNS.",
            )
        as_text = self._is_in("TEXT COLUMNS", table, column.name)
        held = TEXT if as_text else _held(table, column)
        return UpstreamColumn(
            column.name,
            column.number,
            column.type,
            column.modifier,
            held,
            column.nullable,
            column.version,
            column.default,
        )


def _held(table: FoundTable, column: FoundColumn) -> PgType:
    """The type that values are held as: that of the server, or text if we do not have it."""
    oid, modifier = column.base, column.base_modifier
    if oid >= _OWN_TYPES_BELOW:
        return TEXT
    element = element_of(oid)
    try:
        name = type_info(oid).name if element is None else element.name
    except WaterclockError:
        return TEXT
    if oid in (_NUMERIC, _NUMERIC_ARRAY) and modifier != NO_MODIFIER:
        _require_numeric(table, column, modifier - 4)
    return PgType(oid, NO_MODIFIER if name in _WITHOUT_MODIFIER else modifier)


def _require_numeric(table: FoundTable, column: FoundColumn, packed: int) -> None:
    precision, scale = packed >> 16, packed & 0x7FF
    if scale >= 0x400:
        scale -= 0x800  # it may be negative
    if precision > MAX_DECIMAL_PRECISION or not 0 <= scale <= precision:
        raise InvalidSource(
            f"type numeric({precision},{scale}) is not supported",
            detail=f'It is that of column "{column.name}" of table {_shown(table)}.',
            hint="Read the column as text, or leave it out: TEXT COLUMNS or EXCLUDE COLUMNS.",
        )


def _shown(table: FoundTable) -> str:
    return f"{quoted(table.schema)}.{quoted(table.name)}"
