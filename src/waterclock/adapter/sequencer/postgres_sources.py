"""CREATE SOURCE ... FROM POSTGRES: what the statement says, and what the server says to it.

Everything is asked upstream before anything is created, so it takes as long as the server takes;
whoever plans does so in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from waterclock.adapter.connections import settings_of
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planned_source import PlannedSource
from waterclock.adapter.planning import name_of
from waterclock.adapter.sequencer.decode_errors import (
    decode_errors,
    skips_errors,
    with_error_column,
)
from waterclock.adapter.sequencer.naming import full_name
from waterclock.adapter.sources import KeptSource
from waterclock.catalog import privileges
from waterclock.catalog.objects import Column, Connection, Privilege, Source
from waterclock.sql import ast, options
from waterclock.sql.ast.common import ListValue, NameValue, ObjectName, Option
from waterclock.sql.ast.objects import AddTables
from waterclock.sql.ast.sources import (
    AllTables,
    ExternalConnector,
    TablesOfSchemas,
    TheseTables,
    UpstreamTable,
)
from waterclock.sql.errors import SyntaxFault
from waterclock.sql.parser import parse_statements
from waterclock.storage.sources.postgres import connector as postgres
from waterclock.storage.sources.postgres import definition as postgres_definition
from waterclock.storage.sources.postgres.publications import drop, remove
from waterclock.storage.sources.postgres.requirements import (
    ColumnName,
    Found,
    Wanted,
    define,
    define_more,
)

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

KIND = "postgres"
_COLUMN_OPTIONS = ("text columns", "exclude columns")
_OPTIONS = ("publication", *_COLUMN_OPTIONS)


def planned(session: SqlSession, statement: ast.CreateSource) -> PlannedSource:
    """The source that the statement asks for. Raises what is wrong with it, or upstream."""
    connector = statement.connector
    assert isinstance(connector, ExternalConnector)
    _require_no_clauses(statement)
    wanted = _wanted(connector, statement)
    catalog = session.front.core.current
    if connector.connection is None:
        raise SyntaxFault("a PostgreSQL source needs a connection", hint=_CONNECTION)
    name = name_of(connector.connection.parts)
    connection = catalog.named(Connection, name, session.scope)
    privileges.check(catalog, session.role.oid, connection, Privilege.USAGE)
    settings = settings_of(catalog, connection.id, session.front.core.secrets)
    found = define(str(connection.id), settings, wanted)
    tables = found.chosen
    full = full_name(catalog, connection.namespace, connection.name)
    return PlannedSource(
        postgres.NAME,
        found.definition.encoded(),
        {table.output: table.rows for table in tables},
        is_split=True,
        progress=postgres.KIND.progress,
        connections=(connection.id,),
        is_fallible=True,
        columns={table.output: columns_of(table) for table in tables},
        local_names=_local_names(statement, found),
        connector=replace(connector, connection=full),
        notices=tuple(found.notices),
        undo=partial(drop, settings, found.definition.publication)
        if found.definition.owns_publication
        else None,
    )


def columns_of(table: postgres_definition.UpstreamTable) -> tuple[Column, ...]:
    """The columns of a table as they are shown."""
    columns = tuple(Column(c.name, c.held, c.nullable) for c in table.columns)
    return with_error_column(columns, table.errors) or columns


@dataclass(frozen=True, slots=True)
class MoreTables:
    """Tables that are to join a source. `undo` takes back what was changed upstream for that."""

    found: Found
    undo: Callable[[], None]


def more_tables(session: SqlSession, source: Source, action: AddTables) -> MoreTables:
    """What ALTER SOURCE ... ADD TABLE asks for. Raises what is wrong with it, or upstream."""
    kept = msgspec.msgpack.decode(source.definition, type=KeptSource)
    known = postgres_definition.definition_of(kept.connector)
    core = session.front.core
    connection = core.current.item(known.connection_id)
    privileges.check(core.current, session.role.oid, connection, Privilege.USAGE)
    settings = core.connection_settings(known.connection_id)
    names = [_table_name(table) for table in action.tables]
    asked = options.by_name(action.options, _COLUMN_OPTIONS)
    [made] = parse_statements(source.sql)
    assert isinstance(made.statement, ast.CreateSource)
    connector = made.statement.connector
    assert isinstance(connector, ExternalConnector)
    before = options.by_name(connector.options, _OPTIONS)
    inherited = [_inherited(_columns(before.get(option)), names) for option in _COLUMN_OPTIONS]
    given = [_columns(asked.get(option)) for option in _COLUMN_OPTIONS]
    as_text, excluded = ([*old, *new] for old, new in zip(inherited, given, strict=True))
    may_be_gone = frozenset(column for old in inherited for column in old)
    if skips_errors(made.statement):
        raise Unsupported(
            f"tables cannot be added to source {source.name}",
            detail="It has ON DECODE ERROR SKIP.",
            hint="Create another source for them.",
        )
    errors = decode_errors(made.statement)
    wanted = Wanted(known.publication, names, None, as_text, excluded, may_be_gone, errors)
    found = define_more(settings, known, wanted)
    undo = partial(remove, settings, known.publication, found.published)
    return MoreTables(found, undo)


def _inherited(
    columns: Sequence[ColumnName], tables: Sequence[tuple[str | None, str]]
) -> list[ColumnName]:
    """What was said of columns of these tables when the source was made."""
    return [
        (schema, table, column)
        for schema, table, column in columns
        if any(table == name and (s is None or schema in (None, s)) for s, name in tables)
    ]


_CONNECTION = "Use CREATE CONNECTION, and FROM POSTGRES CONNECTION name."


def _require_no_clauses(statement: ast.CreateSource) -> None:
    for clause, given in (
        ("FORMAT", statement.formats),
        ("INCLUDE", statement.include),
        ("ENVELOPE", statement.envelope),
    ):
        if given:
            raise Unsupported(f"{clause} is not supported for PostgreSQL sources")


def _wanted(connector: ExternalConnector, statement: ast.CreateSource) -> Wanted:
    asked = options.by_name(connector.options, _OPTIONS)
    named = asked.get("publication")
    if named is None and not isinstance(statement.subsources, TheseTables):
        raise SyntaxFault(
            "PUBLICATION option is required",
            hint="Without it the source makes a publication of its own, for tables that are named"
            " with FOR TABLES.",
        )
    wanted = Wanted(
        errors=decode_errors(statement),
        publication=None if named is None else options.text(named),
        as_text=_columns(asked.get("text columns")),
        excluded=_columns(asked.get("exclude columns")),
    )
    match statement.subsources:
        case AllTables():
            return wanted
        case TheseTables(tables):
            return replace(wanted, tables=[_table_name(table) for table in tables])
        case TablesOfSchemas(schemas):
            return replace(wanted, schemas=[schema.name for schema in schemas])
        case None:
            raise SyntaxFault("a PostgreSQL source needs FOR ALL TABLES, FOR SCHEMAS or FOR TABLES")


def _table_name(table: UpstreamTable) -> tuple[str | None, str]:
    parts = table.upstream.parts
    if len(parts) > 2:
        raise SyntaxFault(
            "a table upstream is named by its schema and its name", table.upstream.position
        )
    return (parts[0] if len(parts) == 2 else None, parts[-1])


def _columns(option: Option | None) -> list[ColumnName]:
    """Names of columns: `table.column` or `schema.table.column`."""
    if option is None:
        return []
    items = option.value.items if isinstance(option.value, ListValue) else (option.value,)
    found: list[ColumnName] = []
    for item in items:
        parts = item.name.parts if isinstance(item, NameValue) else ()
        if len(parts) not in (2, 3):
            raise SyntaxFault(
                f"{option.name} requires a list of columns",
                option.position,
                hint="Name each with its table, as in (orders.note, public.users.flags).",
            )
        found.append((parts[0] if len(parts) == 3 else None, parts[-2], parts[-1]))
    return found


def _local_names(statement: ast.CreateSource, found: Found) -> dict[str, ObjectName]:
    """What the tables are called here: as upstream, unless the statement says otherwise."""
    if not isinstance(statement.subsources, TheseTables):
        return {table.output: ObjectName((table.name,)) for table in found.chosen}
    names: dict[str, ObjectName] = {}
    for asked, table in zip(statement.subsources.tables, found.chosen, strict=True):
        if table.output in names:
            raise SyntaxFault(f"table {table.output} is named twice", asked.upstream.position)
        names[table.output] = asked.local or ObjectName((table.name,))
    return names
