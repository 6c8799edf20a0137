"""What the server upstream has: its settings, the publication, its tables, the slot.

Asked once when a source is created, to find out what is to be read (`offered`), and again at each
probe, to find out whether that is still so (`changed`): a table that leaves the publication sends
nothing more, and nothing in the stream would tell.

This module only asks. What must hold is said in `requirements`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import namedtuple_row

from waterclock.storage.sources.postgres.definition import UpstreamTable, parsed_lsn

_NAMESPACES_SINCE = 150000


@dataclass(frozen=True, slots=True)
class Server:
    """What a source needs to know of the server."""

    version: int
    wal_level: str
    encoding: str
    is_standby: bool
    slots_free: int


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication: `missing` are the kinds of changes that it leaves out."""

    oid: int
    version: str
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """A column. `base` and `base_modifier` are its type without the domains around it."""

    name: str
    number: int
    type: int
    modifier: int
    base: int
    base_modifier: int
    nullable: bool
    version: str
    default: int
    is_generated: bool


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A published table, and how it is published."""

    oid: int
    schema: str
    name: str
    kind: str
    identity: str
    is_permanent: bool
    may_be_read: bool
    hides_rows: bool
    membership: tuple[int, ...]
    filter: str | None
    published: tuple[str, ...] | None
    """The columns that are published, if not all are."""
    file: int
    columns: tuple[FoundColumn, ...]


@dataclass(frozen=True, slots=True)
class Slot:
    """A replication slot: what was confirmed to it, and whether the log it needs is lost."""

    confirmed: int
    is_lost: bool


class Upstream:
    """Questions to a server, over a connection on which each is a transaction of its own."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def server(self) -> Server:
        row = self._one(_SERVER)
        return Server(*row)

    def flushed(self) -> int | None:
        """How far the server has its log durably; None if it is a standby."""
        found = self._one(
            "SELECT CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_flush_lsn()::text END"
        )
        return None if found[0] is None else parsed_lsn(found[0])

    def slot(self, name: str) -> Slot | None:
        rows = self._all(
            "SELECT confirmed_flush_lsn::text, coalesce(wal_status = 'lost', false) AS is_lost"
            " FROM pg_replication_slots WHERE slot_name = %s",
            [name],
        )
        if not rows:
            return None
        [(confirmed, is_lost)] = rows
        return Slot(parsed_lsn(confirmed) if confirmed else 0, is_lost)

    def publication(self, name: str) -> Publication | None:
        rows = self._all(_PUBLICATION, [name])
        if not rows:
            return None
        [(oid, version, *published)] = rows
        kinds = ("insert", "update", "delete", "truncate")
        missing = tuple(k for k, is_there in zip(kinds, published, strict=True) if not is_there)
        return Publication(oid, version, missing)

    def tables(self, publication: str, oids: Sequence[int] | None = None) -> list[FoundTable]:
        """The published tables, or those of them with these numbers, by schema and name."""
        version = self._connection.info.server_version
        namespaces = _NAMESPACES if version >= _NAMESPACES_SINCE else "NULL::oid"
        query = _TABLES.replace("<namespaces>", namespaces)
        wanted = None if oids is None else list(oids)
        rows = self._all(query, {"publication": publication, "oids": wanted})
        columns = self._columns([row.oid for row in rows])
        return [_table(row, columns.get(row.oid, [])) for row in rows]

    def exists(self, schema: str | None, name: str) -> bool:
        """Whether there is such a table, published or not."""
        rows = self._all(
            "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relkind IN ('r', 'p') AND c.relname = %s"
            " AND (%s::text IS NULL OR n.nspname = %s)",
            [name, schema, schema],
        )
        return bool(rows)

    def _columns(self, oids: Sequence[int]) -> Mapping[int, list[FoundColumn]]:
        found: dict[int, list[FoundColumn]] = {}
        for row in self._all(_COLUMNS, [list(oids), list(oids)]):
            found.setdefault(row.relation, []).append(FoundColumn(*row[1:]))
        return found

    def _one(self, query: str) -> Any:
        [row] = self._all(query, None)
        return row

    def _all(self, query: str, given: Any) -> list[Any]:
        with self._connection.cursor(row_factory=namedtuple_row) as cursor:
            return cursor.execute(sql.SQL(query), given).fetchall()


def _table(row: Any, columns: list[FoundColumn]) -> FoundTable:
    membership = tuple(int(number) for number in row.membership if number is not None)
    published = None if row.published is None else tuple(row.published)
    return FoundTable(
        row.oid,
        row.schema,
        row.name,
        row.kind,
        row.identity,
        row.is_permanent,
        row.may_be_read,
        row.hides_rows,
        membership,
        row.filter,
        published,
        row.file,
        tuple(columns),
    )


def difference(table: UpstreamTable, found: FoundTable | None) -> str | None:
    """Why a table is not any more what the source was created for; None if it still is."""
    if found is None:
        return "it was dropped upstream, or taken out of the publication"
    if found.membership != table.membership or found.filter != table.filter:
        return "it was taken out of the publication and put in again, or its row filter was changed"
    if found.identity != "f":
        return "its REPLICA IDENTITY is not FULL any more"
    if not found.is_permanent:
        return "it is not logged any more"
    columns = {column.number: column for column in found.columns}
    for wanted in table.columns:
        column = columns.get(wanted.number)
        if column is None or column.name != wanted.name:
            return f'column "{wanted.name}" was dropped or renamed upstream'
        if (column.type, column.modifier) != (wanted.type, wanted.modifier):
            return f'the type of column "{wanted.name}" was changed upstream'
        # ALTER COLUMN ... TYPE may change all values and not the type, and tells nobody. It makes
        # the column's default anew, unlike whatever else writes the table anew: that only notes
        # that the default of an added column is in all rows now.
        same_default = wanted.default != 0 and column.default == wanted.default
        if column.version != wanted.version and found.file != table.file and not same_default:
            return f'column "{wanted.name}" was altered and the table written anew upstream'
    return None


_SERVER = """
SELECT current_setting('server_version_num')::int AS version,
    current_setting('wal_level') AS wal_level, current_setting('server_encoding') AS encoding,
    pg_is_in_recovery() AS is_standby,
    current_setting('max_replication_slots')::int
        - (SELECT count(*)::int FROM pg_replication_slots) AS slots_free
"""
_PUBLICATION = """
SELECT oid, xmin::text, pubinsert, pubupdate, pubdelete, pubtruncate
FROM pg_publication WHERE pubname = %s
"""
_NAMESPACES = """
(SELECT pn.oid FROM pg_publication_namespace pn WHERE pn.pnpubid = p.oid AND pn.pnnspid = n.oid)
"""
_TABLES = """
SELECT c.oid, n.nspname AS schema, c.relname AS name, c.relkind AS kind,
    c.relreplident AS identity, c.relfilenode AS file,
    c.relpersistence = 'p' AS is_permanent,
    has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') AS may_be_read,
    row_security_active(c.oid) AS hides_rows,
    ARRAY[p.oid, pr.oid, <namespaces>]::bigint[] AS membership,
    to_jsonb(pt) ->> 'rowfilter' AS filter,
    CASE WHEN to_jsonb(pt) -> 'attnames' IS NOT NULL AND to_jsonb(pt) ->> 'attnames' IS NOT NULL
        THEN ARRAY(SELECT jsonb_array_elements_text(to_jsonb(pt) -> 'attnames')) END AS published
FROM pg_publication p
JOIN pg_publication_tables pt ON pt.pubname = p.pubname
JOIN pg_namespace n ON n.nspname = pt.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = pt.tablename
LEFT JOIN pg_publication_rel pr ON pr.prpubid = p.oid AND pr.prrelid = c.oid
WHERE p.pubname = %(publication)s AND (%(oids)s::oid[] IS NULL OR c.oid = ANY(%(oids)s::oid[]))
ORDER BY n.nspname, c.relname
"""
_COLUMNS = """
WITH RECURSIVE based(type, modifier, base, base_modifier) AS (
    SELECT DISTINCT atttypid, atttypmod, atttypid, atttypmod
    FROM pg_attribute WHERE attrelid = ANY(%s::oid[]) AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT b.type, b.modifier, t.typbasetype, t.typtypmod
    FROM based b JOIN pg_type t ON t.oid = b.base WHERE t.typtype = 'd'
)
SELECT a.attrelid AS relation, a.attname, a.attnum::int, a.atttypid, a.atttypmod,
    b.base, b.base_modifier, NOT a.attnotnull AS nullable, a.xmin::text,
    coalesce(d.oid, 0)::bigint AS default_number, a.attgenerated <> '' AS is_generated
FROM pg_attribute a
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
JOIN based b ON b.type = a.atttypid AND b.modifier = a.atttypmod
JOIN pg_type t ON t.oid = b.base AND t.typtype <> 'd'
WHERE a.attrelid = ANY(%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""
