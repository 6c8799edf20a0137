"""CREATE of databases, schemas, tables, views, materialized views and indexes.

Each is one commit: the object in the catalog, its collections in storage, and, for what has to be
maintained, its installation in compute. A crash finds all of it or nothing. What compute or the
binder refuse is refused before anything is changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from waterclock.adapter.api import Done, Notice, Response
from waterclock.adapter.changes import Change
from waterclock.adapter.engine_wait import until_up
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planning import Plan, column_named, name_of
from waterclock.adapter.retention import retained_ms
from waterclock.adapter.sequencer import inserts
from waterclock.adapter.sequencer.prepared import prepared
from waterclock.adapter.sequencer.query_plans import planned
from waterclock.adapter.timelines import beginning, common_timeline
from waterclock.catalog import dropping, items, privileges
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.draft import Draft
from waterclock.catalog.durable import Capabilities, Creation
from waterclock.catalog.errors import WrongKind
from waterclock.catalog.items import Site
from waterclock.catalog.objects import (
    AnyRelation,
    Column,
    IndexKey,
    Oid,
    Privilege,
    Query,
    SourceProgress,
    View,
    schema_of,
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
from waterclock.storage.api import Description, Writers

if TYPE_CHECKING:
    from waterclock.adapter.front import SqlFront
    from waterclock.adapter.session import SqlSession

Parameters = Sequence[pa.Scalar]
NOT_FOR_ONE = "Create it in a schema of its own, and drop that with CASCADE at the end."


async def create_database(
    session: SqlSession, statement: ast.CreateDatabase, _: Parameters
) -> Response:
    [name] = statement.name.parts
    async with session.changing() as draft:
        privileges.check_create_database(draft.catalog, session.role.oid)
        if statement.if_not_exists and draft.catalog.try_database(name) is not None:
            return exists(session, "database", name, "CREATE DATABASE")
        items.create_database(draft, name, session.role.oid)
        await session.commit_draft(draft)
    return Done("CREATE DATABASE")


async def create_schema(
    session: SqlSession, statement: ast.CreateSchema, _: Parameters
) -> Response:
    *outer, name = statement.name.parts
    async with session.changing() as draft:
        catalog = draft.catalog
        database = catalog.database(outer[0] if outer else session.startup.database)
        privileges.check(catalog, session.role.oid, database, Privilege.CREATE)
        if statement.if_not_exists and catalog.try_namespace(database.name, name) is not None:
            return exists(session, "schema", name, "CREATE SCHEMA")
        owner = session.role if statement.owner is None else catalog.role(statement.owner)
        items.create_schema(draft, database.oid, name, owner.oid)
        await session.commit_draft(draft)
    return Done("CREATE SCHEMA")


async def create_table(session: SqlSession, statement: ast.CreateTable, _: Parameters) -> Response:
    if statement.temporary:
        raise Unsupported("CREATE TEMPORARY TABLE is not supported", hint=NOT_FOR_ONE)
    constraints = [c for d in statement.columns for c in d.constraints]
    refuse_constraints([*constraints, *statement.constraints])
    if not statement.columns:
        raise Unsupported("a table without columns is not supported")
    session.front.offload.budget.check_columns(len(statement.columns))
    columns = [_column(definition) for definition in statement.columns]
    retain_ms = retained_ms(statement.options)
    if statement.if_not_exists and is_taken(session, session.front.core.current, statement.name):
        return exists(session, "relation", statement.name.parts[-1], "CREATE TABLE")
    for definition in statement.columns:
        if definition.default is not None:
            await inserts.check_default(session, definition.default, definition.type)
    core = session.front.core
    async with session.changing() as draft:
        if statement.if_not_exists and is_taken(session, draft.catalog, statement.name):
            return exists(session, "relation", statement.name.parts[-1], "CREATE TABLE")
        site = site_of(session, draft, statement.name)
        table = items.create_table(draft, site, columns, retain_ms)
        first = EPOCH_MILLIS.frontier(core.oracle.read_ts())
        creation = Creation(table.id, Description(table.schema), first)
        await session.commit_draft(draft, [creation], follow_ups=[core.tables.advance])
    return Done("CREATE TABLE")


async def create_view(session: SqlSession, statement: ast.CreateView, _: Parameters) -> Response:
    if statement.temporary:
        raise Unsupported("CREATE TEMPORARY VIEW is not supported", hint=NOT_FOR_ONE)
    name, tag = statement.name, "CREATE VIEW"
    if statement.if_not_exists and is_taken(session, session.front.core.current, name):
        return exists(session, "relation", name.parts[-1], tag)

    async def resolve() -> tuple[Plan, list[Column]]:
        query = statement.query
        plan = await planned(session, query, maintained=True, for_all=True, is_run=False)
        common_timeline(session.front.core, plan.inputs)
        return plan, columns_of(plan, statement.columns)

    await resolve()  # it is kept, and so quick when it is done again in the turn
    async with session.changing() as draft:
        if statement.if_not_exists and is_taken(session, draft.catalog, name):
            return exists(session, "relation", name.parts[-1], tag)
        plan, columns = await resolve()
        site = site_of(session, draft, name)
        old = draft.catalog.find(name_of(name.parts), session.scope)
        if statement.or_replace and old is not None and old.namespace == site.namespace:
            if not isinstance(old, View):
                raise WrongKind(f'"{old.name}" is not a view')
            privileges.check_owner(draft.catalog, session.role.oid, old)
            items.replace_view(draft, old, columns, plan.query)
        else:
            items.create_view(draft, site, columns, plan.query)
        await session.commit_draft(draft)
    return Done(tag)


# What is maintained


@dataclass(frozen=True, slots=True)
class _Maintainable:
    """What is to be maintained, as far as the catalog decides it."""

    view: Maintained
    query: Query
    columns: tuple[Column, ...]
    relation: AnyRelation | None = None
    """What an index is on."""


async def create_materialized_view(
    session: SqlSession, statement: ast.CreateMaterializedView, _: Parameters
) -> Response:
    if statement.or_replace:
        raise Unsupported(
            "CREATE OR REPLACE MATERIALIZED VIEW is not supported",
            hint="Create it under another name, and use ALTER ... SWAP WITH, which leaves no gap.",
        )
    name, tag = statement.name, "CREATE MATERIALIZED VIEW"
    kept = retained_ms(statement.options)
    if statement.if_not_exists and is_taken(session, session.front.core.current, name):
        return exists(session, "relation", name.parts[-1], tag)

    async def resolve() -> _Maintainable:
        plan = await planned(session, statement.query, maintained=True, for_all=True)
        columns = tuple(columns_of(plan, statement.columns))
        result = Result(plan.bound.sql, schema_of(columns))
        return _maintainable(session, plan, result, columns)

    async with prepared(session, resolve, partial(_check, session)) as (draft, found):
        if statement.if_not_exists and is_taken(session, draft.catalog, name):
            return exists(session, "relation", name.parts[-1], tag)
        site, cluster = site_of(session, draft, name), _cluster(session, draft, statement.cluster)
        made = items.create_materialized_view(draft, site, found.columns, found.query, cluster)
        errors = draft.numbers.id()
        draft.change(made, msgspec.structs.replace(made, collections=(errors,), retain_ms=kept))
        await _install(session, draft, made.id, errors, made.schema, found.view)
    return Done(tag)


async def create_index(session: SqlSession, statement: ast.CreateIndex, _: Parameters) -> Response:
    kept = retained_ms(statement.options)

    async def resolve() -> _Maintainable:
        catalog = session.front.core.current
        relation = catalog.relation(name_of(statement.relation.parts), session.scope)
        privileges.check_owner(catalog, session.role.oid, relation)
        if isinstance(relation, SourceProgress) or not relation.columns:
            raise Unsupported(f"an index on {catalog.described(relation)} is not supported")
        keys = _keys(statement, relation)
        quoted = ".".join(f'"{part}"' for part in statement.relation.parts)
        plan = await planned(session, QueryText(f"SELECT * FROM {quoted}", 1), maintained=True)
        names = tuple(relation.columns[(key.column or 1) - 1].name for key in keys)
        result = Result(plan.bound.sql, relation.schema, names)
        return _maintainable(session, plan, result, relation.columns, relation)

    async with prepared(session, resolve, partial(_check, session)) as (draft, found):
        relation = found.relation
        assert relation is not None, "an index is on something"
        keys = _keys(statement, relation)
        site = _index_site(draft, statement, relation, keys)
        taken = draft.catalog.find(name_of((site.name,)), session.scope)
        if statement.if_not_exists and statement.name is not None and taken is not None:
            return exists(session, "relation", site.name, "CREATE INDEX")
        cluster = _cluster(session, draft, statement.cluster)
        index = items.create_index(draft, site, relation.id, keys, cluster)
        errors = draft.numbers.id()
        draft.change(index, msgspec.structs.replace(index, collections=(errors,), retain_ms=kept))
        await _install(session, draft, index.id, errors, FRONTIERS_ONLY, found.view)
    return Done("CREATE INDEX")


def _maintainable(
    session: SqlSession,
    plan: Plan,
    result: Result,
    columns: tuple[Column, ...],
    relation: AnyRelation | None = None,
) -> _Maintainable:
    common_timeline(session.front.core, plan.inputs)
    return _Maintainable(Maintained(plan.inputs, (result,)), plan.query, columns, relation)


async def _check(session: SqlSession, wanted: _Maintainable) -> None:
    """Raise what compute can not maintain. It asks the engine, which takes long."""
    core = session.front.core
    await until_up(core.engine, core.pace.engine_wait_s)
    await asyncio.to_thread(core.compute.check_view, wanted.view)


async def _install(
    session: SqlSession,
    draft: Draft,
    output: GlobalId,
    errors: GlobalId,
    stored: Schema,
    view: Maintained,
) -> None:
    """Commit an object that compute maintains, and have it begin. If it can not, it is dropped."""
    core, changes = session.front.core, session.front.changes
    failures: list[Exception] = []
    with ExitStack() as stack:
        hold = stack.enter_context(core.holds.take(view.inputs))
        start = beginning(core, view.inputs, hold)
        as_of, timeline = start.only(), start.timeline
        assert as_of is not None, "a view begins at some time"
        creations = [
            Creation(
                each, Description(schema, Writers.CREATOR, timeline), start, keeps_writer=False
            )
            for each, schema in ((output, stored), (errors, ERROR_ROWS))
        ]

        def alongside(given: Mapping[GlobalId, Capabilities]) -> list[Any]:
            return [core.compute.installation(view, as_of, [given[output][1]], given[errors][1])]

        async def work(change: Change[None]) -> None:
            with hold:
                await changes.carry_out(change, draft, creations, alongside=alongside)
            change.succeed(None)
            try:
                await changes.in_thread(core.compute.begin, output)
            except Exception as error:
                if await _withdraw(session.front, output):
                    failures.append(error)
            if core.current.try_item(output) is None:  # it was dropped while it began
                await changes.in_thread(core.compute.end, output)
            core.wake()

        changes.hand_on(draft)
        change = changes.begin(work)
        stack.pop_all()  # the hold is the change's
    await session.watch.outcome_of(change)
    if failures:
        raise failures[0]


async def _withdraw(front: SqlFront, output: GlobalId) -> bool:
    """Drop an object that compute could not begin with, unless something uses it already.

    False if another session has dropped it before.
    """
    core, changes = front.core, front.changes
    async with changes.drafting() as draft:
        item = draft.catalog.try_item(output)
        if item is None:
            return False
        dropping.drop(draft, [item])
        changes.hand_on(draft)
        removal = core.compute.removal(output)
        await changes.carry_out(Change(), draft, alongside=lambda _given: [removal])
    await changes.follow_up([partial(core.compute.end, output)])
    return True


def site_of(session: SqlSession, draft: Draft, name: ObjectName) -> Site:
    """Where the new object goes, if the role may create something there."""
    namespace = draft.catalog.target(name_of(name.parts), session.scope)
    privileges.check(draft.catalog, session.role.oid, namespace, Privilege.CREATE)
    return Site(namespace.oid, name.parts[-1], session.role.oid)


def _index_site(
    draft: Draft, statement: ast.CreateIndex, relation: AnyRelation, keys: Sequence[IndexKey]
) -> Site:
    if statement.name is not None:
        return Site(relation.namespace, statement.name.name, relation.owner)
    del keys
    wanted = f"{relation.name}_primary_idx"
    return Site(
        relation.namespace, items.free_name(draft, relation.namespace, wanted), relation.owner
    )


def _keys(statement: ast.CreateIndex, relation: AnyRelation) -> list[IndexKey]:
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


def _cluster(session: SqlSession, draft: Draft, named: Identifier | None) -> Oid:
    name = session.settings.get("cluster") if named is None else named.name
    return draft.catalog.cluster(name).oid


def _column(definition: ColumnDefinition) -> Column:
    default = None if definition.default is None else definition.default.text
    return Column(definition.name.name, definition.type, not definition.not_null, default)


def columns_of(plan: Plan, names: Sequence[Identifier] | None) -> list[Column]:
    """The columns of a query, under the names given for the first of them."""
    if not plan.bound.columns:
        raise Unsupported("a relation without columns made of a query is not supported")
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


def refuse_constraints(constraints: Sequence[Constraint]) -> None:
    """Raise if there is one: tables have none."""
    for constraint in constraints:
        words = "".join(f" {c}" if c.isupper() else c for c in type(constraint).__name__)
        raise Unsupported(
            f"{words.strip().upper()} constraints are not supported",
            detail="Tables accept any rows of their types; only NOT NULL is enforced.",
            hint="Leave the constraint out. CREATE INDEX makes lookups by a key fast.",
        )


def is_taken(session: SqlSession, catalog: Catalog, name: ObjectName) -> bool:
    """Whether there is something of that name where it would be created."""
    namespace = catalog.target(name_of(name.parts), session.scope)
    scoped = name_of(
        (catalog.database(session.startup.database).name, namespace.name, name.parts[-1])
    )
    return catalog.find(scoped, session.scope) is not None


def exists(session: SqlSession, kind: str, name: str, tag: str) -> Response:
    """The answer to CREATE IF NOT EXISTS of what exists."""
    code = {"schema": "42P06", "database": "42P04"}.get(kind, "42P07")
    session.notify(Notice(f'{kind} "{name}" already exists, skipping', sqlstate=code))
    return Done(tag)


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {
    ast.CreateDatabase: create_database,
    ast.CreateSchema: create_schema,
    ast.CreateTable: create_table,
    ast.CreateView: create_view,
    ast.CreateMaterializedView: create_materialized_view,
    ast.CreateIndex: create_index,
}
