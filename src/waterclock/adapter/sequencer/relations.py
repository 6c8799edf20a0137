"""CREATE of databases, schemas, tables, views, materialized views and indexes.

Each is one commit: the object in the catalog, its collections in storage, and, for what has to be
maintained, its installation in compute. A crash finds all of it or nothing. What compute or the
binder refuse is refused before anything is changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from waterclock.adapter.api import Done, Notice, Response
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planning import Plan, column_named, name_of
from waterclock.adapter.retention import retained_ms
from waterclock.adapter.sequencer import inserts
from waterclock.adapter.sequencer.evaluation import evaluated
from waterclock.adapter.sequencer.query_plans import planned
from waterclock.adapter.timelines import beginning, common_timeline, require_of_tables
from waterclock.catalog import items, privileges
from waterclock.catalog.draft import Draft
from waterclock.catalog.durable import Creation
from waterclock.catalog.errors import WrongKind
from waterclock.catalog.items import Site
from waterclock.catalog.objects import (
    Column,
    IndexKey,
    Privilege,
    Relation,
    SourceProgress,
    View,
)
from waterclock.compute.api import ERROR_ROWS, FRONTIERS_ONLY, Result
from waterclock.compute.api import View as Maintained
from waterclock.model.errors import UnknownColumn
from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import RECORD
from waterclock.model.schema import Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.sql import ast
from waterclock.sql.ast.common import Identifier, ObjectName, QueryText
from waterclock.sql.ast.relations import ColumnDefinition, Constraint
from waterclock.sql.errors import SyntaxFault
from waterclock.storage.api import Description, ReadCapability, Write, WriteCapability

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Parameters = Sequence[pa.Scalar]
_NOT_FOR_ONE = "Create it in a schema of its own, and drop that with CASCADE at the end."


async def create_database(
    session: SqlSession, statement: ast.CreateDatabase, _: Parameters
) -> Response:
    catalog = session.front.core.current
    privileges.check_create_database(catalog, session.role.oid)
    [name] = statement.name.parts
    if statement.if_not_exists and catalog.try_database(name) is not None:
        return _exists(session, "database", name, "CREATE DATABASE")
    async with session.front.changing() as draft:
        items.create_database(draft, name, session.role.oid)
        await session.front.commit(draft)
    return Done("CREATE DATABASE")


async def create_schema(
    session: SqlSession, statement: ast.CreateSchema, _: Parameters
) -> Response:
    catalog = session.front.core.current
    *outer, name = statement.name.parts
    database = catalog.database(outer[0] if outer else session.startup.database)
    privileges.check(catalog, session.role.oid, database, Privilege.CREATE)
    if statement.if_not_exists and catalog.try_namespace(database.name, name) is not None:
        return _exists(session, "schema", name, "CREATE SCHEMA")
    owner = session.role if statement.owner is None else catalog.role(statement.owner)
    async with session.front.changing() as draft:
        items.create_schema(draft, database.oid, name, owner.oid)
        await session.front.commit(draft)
    return Done("CREATE SCHEMA")


async def create_table(session: SqlSession, statement: ast.CreateTable, _: Parameters) -> Response:
    if statement.temporary:
        raise Unsupported("CREATE TEMPORARY TABLE is not supported", hint=_NOT_FOR_ONE)
    constraints = [c for d in statement.columns for c in d.constraints]
    _refuse_constraints([*constraints, *statement.constraints])
    if statement.if_not_exists and _is_taken(session, statement.name):
        return _exists(session, "relation", statement.name.parts[-1], "CREATE TABLE")
    columns = [_column(definition) for definition in statement.columns]
    for definition in statement.columns:
        if definition.default is not None:
            await inserts.check_default(session, definition.default, definition.type)
    await _new_table(session, statement.name, columns, retained_ms(statement.options))
    return Done("CREATE TABLE")


async def create_table_as(
    session: SqlSession, statement: ast.CreateTableAs, _: Parameters
) -> Response:
    if statement.temporary:
        raise Unsupported("CREATE TEMPORARY TABLE is not supported", hint=_NOT_FOR_ONE)
    if statement.if_not_exists and _is_taken(session, statement.name):
        return _exists(session, "relation", statement.name.parts[-1], "CREATE TABLE AS")
    session.transaction.require_unwritten("CREATE TABLE AS")
    plan = await planned(session, statement.query)
    columns = _named(plan, statement.columns)
    rows = await evaluated(session, plan) if statement.with_data else None
    if rows is not None:
        require_of_tables(common_timeline(session.front.core, plan.inputs).id)
    await _new_table(session, statement.name, columns, retained_ms(statement.options), rows)
    return Done(f"SELECT {0 if rows is None else rows.num_rows}")


async def create_view(session: SqlSession, statement: ast.CreateView, _: Parameters) -> Response:
    if statement.temporary:
        raise Unsupported("CREATE TEMPORARY VIEW is not supported", hint=_NOT_FOR_ONE)
    catalog = session.front.core.current
    if statement.if_not_exists and _is_taken(session, statement.name):
        return _exists(session, "relation", statement.name.parts[-1], "CREATE VIEW")
    plan = await planned(session, statement.query, maintained=True, for_all=True)
    common_timeline(session.front.core, plan.inputs)
    columns = _named(plan, statement.columns)
    async with session.front.changing() as draft:
        site = _site(session, draft, statement.name)
        old = catalog.find(name_of(statement.name.parts), session.scope)
        if statement.or_replace and old is not None and old.namespace == site.namespace:
            if not isinstance(old, View):
                raise WrongKind(f'"{old.name}" is not a view')
            privileges.check_owner(draft.catalog, session.role.oid, old)
            items.replace_view(draft, old, columns, plan.query)
        else:
            items.create_view(draft, site, columns, plan.query)
        await session.front.commit(draft)
    return Done("CREATE VIEW")


async def create_materialized_view(
    session: SqlSession, statement: ast.CreateMaterializedView, _: Parameters
) -> Response:
    if statement.or_replace:
        raise Unsupported(
            "CREATE OR REPLACE MATERIALIZED VIEW is not supported",
            hint="Create it under another name, and use ALTER ... SWAP WITH, which leaves no gap.",
        )
    if statement.if_not_exists and _is_taken(session, statement.name):
        what = "CREATE MATERIALIZED VIEW"
        return _exists(session, "relation", statement.name.parts[-1], what)
    plan = await planned(session, statement.query, maintained=True, for_all=True)
    columns = _named(plan, statement.columns)
    async with session.front.changing() as draft:
        site = _site(session, draft, statement.name)
        cluster = _cluster(session, statement.cluster)
        view = items.create_materialized_view(draft, site, columns, plan.query, cluster)
        errors = draft.numbers.id()
        kept = retained_ms(statement.options)
        draft.change(view, msgspec.structs.replace(view, collections=(errors,), retain_ms=kept))
        result = Result(plan.bound.sql, view.schema)
        await _install(session, draft, view.id, errors, view.schema, plan, result)
    return Done("CREATE MATERIALIZED VIEW")


async def create_index(session: SqlSession, statement: ast.CreateIndex, _: Parameters) -> Response:
    catalog = session.front.core.current
    relation = catalog.relation(name_of(statement.relation.parts), session.scope)
    privileges.check_owner(catalog, session.role.oid, relation)
    if isinstance(relation, SourceProgress) or not relation.columns:
        raise Unsupported(f"an index on {catalog.described(relation)} is not supported")
    keys = _keys(statement, relation)
    async with session.front.changing() as draft:
        site = _index_site(draft, statement, relation, keys)
        if statement.if_not_exists and statement.name is not None:
            scope = session.scope
            if draft.catalog.find(name_of((site.name,)), scope) is not None:
                return _exists(session, "relation", site.name, "CREATE INDEX")
        cluster = _cluster(session, statement.cluster)
        index = items.create_index(draft, site, relation.id, keys, cluster)
        errors = draft.numbers.id()
        kept = retained_ms(statement.options)
        draft.change(index, msgspec.structs.replace(index, collections=(errors,), retain_ms=kept))
        quoted = ".".join(f'"{part}"' for part in statement.relation.parts)
        plan = await planned(session, QueryText(f"SELECT * FROM {quoted}", 1), maintained=True)
        names = tuple(relation.columns[(key.column or 1) - 1].name for key in keys)
        result = Result(plan.bound.sql, relation.schema, names)
        await _install(session, draft, index.id, errors, FRONTIERS_ONLY, plan, result)
    return Done("CREATE INDEX")


async def _install(
    session: SqlSession,
    draft: Draft,
    output: GlobalId,
    errors: GlobalId,
    stored: Schema,
    plan: Plan,
    result: Result,
) -> None:
    """Commit an object that compute maintains, and have it begin."""
    core = session.front.core
    common_timeline(core, plan.inputs)
    view = Maintained(plan.inputs, (result,))
    await asyncio.to_thread(core.compute.check_view, view)
    with core.holds.take(plan.inputs) as hold:
        start = beginning(core, plan.inputs, hold)
        as_of, timeline = start.only(), start.timeline
        assert as_of is not None, "a view begins at some time"
        creations = [
            Creation(each, Description(schema, timeline=timeline), start, keeps_writer=False)
            for each, schema in ((output, stored), (errors, ERROR_ROWS))
        ]

        def alongside(given: Any) -> list[Any]:
            return [core.compute.installation(view, as_of, [given[output][1]], given[errors][1])]

        await session.front.commit(draft, creations, alongside)
    core.adopt(output)
    await asyncio.to_thread(core.compute.begin, output)
    core.wake()


async def _new_table(
    session: SqlSession,
    name: ObjectName,
    columns: Sequence[Column],
    retain_ms: int | None,
    rows: pa.Table | None = None,
) -> None:
    """Commit a table, with its first rows if there are any."""
    core = session.front.core
    async with session.front.changing() as draft:
        table = items.create_table(draft, _site(session, draft, name), columns, retain_ms)
        start = core.oracle.read_ts()
        if rows is None:
            first = EPOCH_MILLIS.frontier(start)
            creation = Creation(table.id, Description(table.schema), first)
            await session.front.commit(draft, [creation])
        else:
            updates = inserts.stamped(table, rows, start)
            await _commit_filled(session, draft, table, updates, start)
    core.adopt(table.id)
    await asyncio.to_thread(core.tables.advance)


async def _commit_filled(
    session: SqlSession, draft: Draft, table: Relation, updates: pa.Table, start: int
) -> None:
    """First the collection and its rows, then the name: without that, the next start forgets it."""
    storage = session.front.core.storage

    def fill() -> tuple[ReadCapability, WriteCapability]:
        first, then = EPOCH_MILLIS.frontier(start), EPOCH_MILLIS.frontier(start + 1)
        reader, writer = storage.create(table.id, Description(table.schema), start=first)
        [writer] = storage.append(Write(writer, updates, then))
        return reader, writer

    reader, writer = await asyncio.to_thread(fill)
    try:
        await session.front.commit(draft, adopted={table.id: (reader, writer)})
    except BaseException:
        await asyncio.to_thread(storage.drop_capability, reader)
        await asyncio.to_thread(storage.drop_capability, writer)
        raise


def _site(session: SqlSession, draft: Draft, name: ObjectName) -> Site:
    """Where the new object goes, if the role may create something there."""
    namespace = draft.catalog.target(name_of(name.parts), session.scope)
    privileges.check(draft.catalog, session.role.oid, namespace, Privilege.CREATE)
    return Site(namespace.oid, name.parts[-1], session.role.oid)


def _index_site(
    draft: Draft, statement: ast.CreateIndex, relation: Relation, keys: Sequence[IndexKey]
) -> Site:
    if statement.name is not None:
        return Site(relation.namespace, statement.name.name, relation.owner)
    del keys
    wanted = f"{relation.name}_primary_idx"
    return Site(
        relation.namespace, items.free_name(draft, relation.namespace, wanted), relation.owner
    )


def _keys(statement: ast.CreateIndex, relation: Relation) -> list[IndexKey]:
    places = {column.name: number for number, column in enumerate(relation.columns, start=1)}
    if statement.keys is None:
        return [IndexKey(c.name, c.type, places[c.name]) for c in relation.columns]
    keys = []
    for key in statement.keys:
        name = column_named(key.expression)
        if name is None:
            raise Unsupported(
                "an index on an expression is not supported",
                hint="Create a view with the expression as a column, and index that.",
            )
        if name not in places:
            raise UnknownColumn(f'column "{name}" does not exist')
        keys.append(IndexKey(name, relation.columns[places[name] - 1].type, places[name]))
    return keys


def _cluster(session: SqlSession, named: Identifier | None) -> Any:
    name = session.settings.get("cluster") if named is None else named.name
    return session.front.core.current.cluster(name).oid


def _column(definition: ColumnDefinition) -> Column:
    default = None if definition.default is None else definition.default.text
    return Column(definition.name.name, definition.type, not definition.not_null, default)


def _named(plan: Plan, names: Sequence[Identifier] | None) -> list[Column]:
    """The columns of a query, under the names given for the first of them."""
    given = [identifier.name for identifier in names or ()]
    if len(given) > len(plan.bound.columns):
        raise SyntaxFault("there are more column names than columns")
    shown = [c.name for c in plan.bound.columns]
    shown[: len(given)] = given
    for name, column in zip(shown, plan.bound.columns, strict=True):
        if column.type == RECORD:
            raise Unsupported(
                f'a row as the column "{name}" of a relation is not supported',
                hint="Name its columns, or cast it to text, or make it JSON with to_jsonb().",
            )
    return [
        Column(name, column.type, column.nullable)
        for name, column in zip(shown, plan.bound.columns, strict=True)
    ]


def _refuse_constraints(constraints: Sequence[Constraint]) -> None:
    for constraint in constraints:
        words = "".join(f" {c}" if c.isupper() else c for c in type(constraint).__name__)
        raise Unsupported(
            f"{words.strip().upper()} constraints are not supported",
            detail="Tables accept any rows of their types; only NOT NULL is enforced.",
            hint="Leave the constraint out. CREATE INDEX makes lookups by a key fast.",
        )


def _is_taken(session: SqlSession, name: ObjectName) -> bool:
    catalog = session.front.core.current
    namespace = catalog.target(name_of(name.parts), session.scope)
    scoped = name_of(
        (catalog.database(session.startup.database).name, namespace.name, name.parts[-1])
    )
    return catalog.find(scoped, session.scope) is not None


def _exists(session: SqlSession, kind: str, name: str, tag: str) -> Response:
    code = {"schema": "42P06", "database": "42P04"}.get(kind, "42P07")
    session.notify(Notice(f'{kind} "{name}" already exists, skipping', sqlstate=code))
    return Done(tag)


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {
    ast.CreateDatabase: create_database,
    ast.CreateSchema: create_schema,
    ast.CreateTable: create_table,
    ast.CreateTableAs: create_table_as,
    ast.CreateView: create_view,
    ast.CreateMaterializedView: create_materialized_view,
    ast.CreateIndex: create_index,
}
