"""SHOW of objects, and SHOW CREATE.

A list has the names in one place: those of a schema, by default the one in which something new
would be made. LIKE is about the name. WHERE may use any column, and is decided by the catalog's
engine over the rows as constants.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from waterclock.adapter.api import ColumnDescription, Response, Rows, StatementDescription
from waterclock.adapter.planning import name_of
from waterclock.adapter.results import in_batches, shaped
from waterclock.adapter.sequencer.catalog_queries import answered
from waterclock.adapter.sequencer.naming import create_statement, name_in_full
from waterclock.adapter.sequencer.objects import ITEM_KINDS, named
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.errors import UnknownObject
from waterclock.catalog.names import Name
from waterclock.catalog.objects import (
    AnyItem,
    AnyObject,
    Cluster,
    Connection,
    Database,
    Index,
    MaterializedView,
    Namespace,
    Relation,
    Role,
    Secret,
    Source,
    Subsource,
    Table,
    View,
)
from waterclock.model.pg_types import BOOL, TEXT, PgType, array_of, column_type, format_type
from waterclock.persist.rows import arrow_type
from waterclock.sql import ast
from waterclock.sql.ast.common import ExpressionText, ObjectKind, ObjectName
from waterclock.sql.ast.session import Listing
from waterclock.sql.quoting import quote_literal, quote_name

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Parameters = Sequence[pa.Scalar]
_NAMES = array_of(TEXT)


class _Shown(NamedTuple):
    """What is listed: the columns after the name and before the comment."""

    columns: tuple[tuple[str, PgType], ...] = ()
    kinds: tuple[type[Any], ...] = ()


_LISTED: dict[Listing, _Shown] = {
    Listing.DATABASES: _Shown(),
    Listing.SCHEMAS: _Shown(),
    Listing.ROLES: _Shown(),
    Listing.CLUSTERS: _Shown(),
    Listing.TABLES: _Shown(kinds=(Table,)),
    Listing.VIEWS: _Shown(kinds=(View,)),
    Listing.MATERIALIZED_VIEWS: _Shown((("cluster", TEXT),), (MaterializedView,)),
    Listing.INDEXES: _Shown((("on", TEXT), ("cluster", TEXT), ("key", _NAMES)), (Index,)),
    Listing.SOURCES: _Shown((("type", TEXT), ("cluster", TEXT)), (Source, Subsource)),
    Listing.SINKS: _Shown((("type", TEXT), ("cluster", TEXT))),
    Listing.CONNECTIONS: _Shown((("type", TEXT),), (Connection,)),
    Listing.SECRETS: _Shown(kinds=(Secret,)),
    Listing.OBJECTS: _Shown((("type", TEXT),), (Relation, Index, Connection, Secret)),
    Listing.COLUMNS: _Shown((("nullable", BOOL), ("type", TEXT))),
}


@dataclass(frozen=True, slots=True)
class _Lister:
    """Finds the rows of a list."""

    session: SqlSession
    catalog: Catalog
    statement: ast.ShowObjects

    def rows(self) -> list[tuple[Any, ...]]:
        listing = self.statement.listing
        if listing is Listing.COLUMNS:
            return self._columns()
        found = self._found()
        return sorted((self._row(each) for each in found), key=lambda row: str(row[0]))

    def _found(self) -> list[AnyObject]:
        everything = list(self.catalog.objects.values())
        match self.statement.listing:
            case Listing.DATABASES:
                return [each for each in everything if isinstance(each, Database)]
            case Listing.ROLES:
                return [each for each in everything if isinstance(each, Role)]
            case Listing.CLUSTERS:
                return [each for each in everything if isinstance(each, Cluster)]
            case Listing.SCHEMAS:
                return list(self._schemas())
            case Listing.INDEXES:
                return list(self._indexes())
            case listing:
                return self._items(_LISTED[listing].kinds)

    def _schemas(self) -> list[Namespace]:
        within = self.statement.within
        name = self.session.startup.database if within is None else within.parts[-1]
        database = self.catalog.database(name)
        system = [
            each
            for each in self.catalog.objects.values()
            if isinstance(each, Namespace) and each.database is None
        ]
        return [*self.catalog.namespaces(database.oid), *system]

    def _indexes(self) -> list[AnyItem]:
        within = self.statement.within
        if within is not None:
            on = self.catalog.find(name_of(within.parts), self.session.scope)
            if isinstance(on, Relation):
                users = (self.catalog.item(u) for u in self.catalog.users.get(on.id, ()))
                return [user for user in users if isinstance(user, Index)]
        return self._items((Index,))

    def _items(self, kinds: tuple[type[Any], ...]) -> list[Any]:
        cluster = self.statement.cluster
        wanted = None if cluster is None else self.catalog.cluster(cluster.name).oid
        return [
            item
            for item in self.catalog.items(self._schema().oid)
            if isinstance(item, kinds) and wanted in (None, getattr(item, "cluster", None))
        ]

    def _schema(self) -> Namespace:
        within = self.statement.within
        if within is None:
            return self.catalog.target(Name("new"), self.session.scope)
        found = named(self.session, self.catalog, ObjectKind.SCHEMA, within)
        assert isinstance(found, Namespace)
        return found

    def _row(self, found: AnyObject) -> tuple[Any, ...]:
        columns = _LISTED[self.statement.listing].columns
        cells = (self._cell(found, name) for name, _ in columns)
        return (found.name, *cells, self._comment(found))

    def _cell(self, found: AnyObject, name: str) -> Any:
        match name, found:
            case "cluster", MaterializedView() | Index() | Source():
                return self.catalog.get(found.cluster, Cluster).name
            case "on", Index():
                return self.catalog.item(found.on).name
            case "key", Index():
                return [key.sql for key in found.keys]
            case "type", Source() | Connection() if self.statement.listing is not Listing.OBJECTS:
                return found.connector
            case "type", _:
                return found.kind.replace(" ", "-")
            case _:
                return None

    def _columns(self) -> list[tuple[Any, ...]]:
        assert self.statement.within is not None
        name = name_of(self.statement.within.parts)
        relation = self.catalog.relation(name, self.session.scope)
        return [
            (
                column.name,
                column.nullable,
                format_type(column.type),
                self._comment(relation, number),
            )
            for number, column in enumerate(relation.columns, start=1)
        ]

    def _comment(self, found: AnyObject, number: int = 0) -> str:
        known = self.catalog.comments.get(found.oid)
        return "" if known is None else known.texts.get(number, "")


async def show_objects(session: SqlSession, statement: ast.ShowObjects, _: Parameters) -> Response:
    columns = _described(statement)
    rows = _Lister(session, session.front.core.current, statement).rows()
    if statement.like is not None:
        pattern = _like(statement.like)
        rows = [row for row in rows if pattern.fullmatch(row[0])]
    if statement.where is not None:
        rows = await _where(session, columns, rows, statement.where)
    return Rows(columns, in_batches(_table(columns, rows)))


async def describe_show_objects(
    _: SqlSession, statement: ast.ShowObjects, __: Sequence[PgType | None]
) -> StatementDescription:
    return StatementDescription((), _described(statement))


def _described(statement: ast.ShowObjects) -> tuple[ColumnDescription, ...]:
    more = _LISTED[statement.listing].columns
    named_columns = (("name", TEXT), *more, ("comment", TEXT))
    return tuple(ColumnDescription(name, kind) for name, kind in named_columns)


def _table(columns: Sequence[ColumnDescription], rows: Sequence[Sequence[Any]]) -> pa.Table:
    arrays = [
        pa.array([row[place] for row in rows], arrow_type(column_type(column.type)))
        for place, column in enumerate(columns)
    ]
    names = [f"c{place}" for place in range(len(arrays))]
    types = [column.type for column in columns]
    return shaped(pa.Table.from_arrays(arrays, names=names), types)


def _like(pattern: str) -> re.Pattern[str]:
    """LIKE's pattern as a regular expression."""
    found, rest = "", iter(pattern)
    for character in rest:
        if character == "\\":
            found += re.escape(next(rest, "\\"))
        else:
            found += {"%": ".*", "_": "."}.get(character, re.escape(character))
    return re.compile(found, re.DOTALL)


async def _where(
    session: SqlSession,
    columns: Sequence[ColumnDescription],
    rows: Sequence[tuple[Any, ...]],
    condition: ExpressionText,
) -> list[tuple[Any, ...]]:
    """The rows for which the condition is true. A row of nulls tells the types."""
    lines = [f"({place}, {', '.join(map(_literal, row))})" for place, row in enumerate(rows)]
    empty = ", ".join(f"NULL::{format_type(column.type)}" for column in columns)
    names = ", ".join(f'"{column.name}"' for column in columns)
    text = (
        f"SELECT mz_place FROM (VALUES {', '.join([f'(NULL::integer, {empty})', *lines])})"
        f" AS shown(mz_place, {names}) WHERE mz_place IS NOT NULL AND ({condition.text})"
    )
    found = await answered(session, text)
    kept = {place.as_py() for place in found.rows.column(0)}
    return [row for place, row in enumerate(rows) if place in kept]


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case list():
            return f"ARRAY[{', '.join(map(quote_literal, value))}]::text[]"
        case _:
            return quote_literal(str(value))


# SHOW CREATE


async def show_create(session: SqlSession, statement: ast.ShowCreate, _: Parameters) -> Response:
    catalog = session.front.core.current
    found = _created(session, catalog, statement.kind, statement.name)
    name = quote_name(name_in_full(catalog, found).parts)
    columns = _create_columns()
    return Rows(columns, in_batches(_table(columns, [(name, create_statement(catalog, found))])))


async def describe_show_create(
    _: SqlSession, __: ast.ShowCreate, ___: Sequence[PgType | None]
) -> StatementDescription:
    return StatementDescription((), _create_columns())


def _create_columns() -> tuple[ColumnDescription, ...]:
    return (ColumnDescription("name", TEXT), ColumnDescription("create_sql", TEXT))


def _created(
    session: SqlSession, catalog: Catalog, kind: ObjectKind, name: ObjectName
) -> AnyObject:
    if kind is ObjectKind.ROLE:
        return catalog.role(name.parts[-1])
    if kind is ObjectKind.SINK:
        raise UnknownObject(f'sink "{".".join(name.parts)}" does not exist')
    assert kind in ITEM_KINDS or kind in (
        ObjectKind.DATABASE,
        ObjectKind.SCHEMA,
        ObjectKind.CLUSTER,
    )
    return named(session, catalog, kind, name)


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {
    ast.ShowObjects: show_objects,
    ast.ShowCreate: show_create,
}
DESCRIBE: dict[type[Any], Callable[..., Awaitable[StatementDescription]]] = {
    ast.ShowObjects: describe_show_objects,
    ast.ShowCreate: describe_show_create,
}
