"""EXPLAIN: how a query is answered, how a view is kept up to date, and which time a read gets.

A plan is that of maintaining the query: the same operators with the same kernels that a
materialized view of it would have. A query that only picks rows says where they are picked from,
for then nothing of the rest is done.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from waterclock.adapter import sequencer
from waterclock.adapter.api import ColumnDescription, Response, Rows, StatementDescription
from waterclock.adapter.engine_wait import until_up
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.picking import looked_up
from waterclock.adapter.planning import Plan, plan_again
from waterclock.adapter.recency import Recent
from waterclock.adapter.results import in_batches
from waterclock.adapter.sequencer import deletes, inserts, updates, writing
from waterclock.adapter.sequencer.catalog_queries import is_for_catalog
from waterclock.adapter.sequencer.cursors import prepared_statement
from waterclock.adapter.sequencer.evaluation import asked_of_sources, heads_of
from waterclock.adapter.sequencer.naming import name_in_full
from waterclock.adapter.sequencer.objects import named
from waterclock.adapter.sequencer.query_plans import planned
from waterclock.adapter.sequencer.times import as_of_time
from waterclock.catalog import privileges
from waterclock.catalog.objects import Index, MaterializedView, Privilege, Relation, View
from waterclock.compute.api import Result
from waterclock.compute.api import View as Maintained
from waterclock.compute.plan.explain import Explained, explained
from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import TEXT, PgType, column_type
from waterclock.model.schema import Column, Schema
from waterclock.oracle import explain as times
from waterclock.sql import ast, options
from waterclock.sql.ast.common import ObjectName, Option, QueryText
from waterclock.sql.ast.queries import ExplainObject, ExplainStage, Moment
from waterclock.sql.binding import Comparison, SimpleQuery
from waterclock.sql.parser import Parsed
from waterclock.sql.quoting import quote_name

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Parameters = Sequence[pa.Scalar]
_JSON = PgType(114)
_OPTIONS = (
    "analyze",
    "verbose",
    "costs",
    "settings",
    "generic_plan",
    "buffers",
    "wal",
    "timing",
    "summary",
    "format",
)


async def explain(session: SqlSession, statement: ast.Explain, parameters: Parameters) -> Response:
    form = _form(statement)
    if statement.stage is ExplainStage.TIMESTAMP:
        lines, tree = await _timestamp(session, statement, parameters)
    elif statement.stage is ExplainStage.RAW_PLAN:
        text = (await _plan_of(session, statement.target, parameters)).bound.sql
        lines, tree = [text], {"sql": text}
    else:
        found = await _explained(session, statement.target, parameters)
        lines, tree = found.lines(), found.tree()
    shown = [json.dumps(tree, indent=2)] if form == "json" else lines
    rows = in_batches(pa.table({"c0": pa.array(shown, pa.string())}))
    return Rows(_columns(statement), rows, "EXPLAIN", counted=False)


async def describe_explain(
    session: SqlSession, statement: ast.Explain, types: Sequence[PgType | None]
) -> StatementDescription:
    target = statement.target
    if isinstance(target, ExplainObject):
        return StatementDescription((), _columns(statement))
    inner = await sequencer.describe(session, Parsed(target, "", 0, ()), types)
    return StatementDescription(inner.parameters, _columns(statement))


def _columns(statement: ast.Explain) -> tuple[ColumnDescription, ...]:
    stage = statement.stage
    name = "QUERY PLAN" if stage is ExplainStage.QUERY else stage.value.title()
    return (ColumnDescription(name, _JSON if _form(statement) == "json" else TEXT),)


def _form(statement: ast.Explain) -> str:
    asked: dict[str, Option] = dict(options.by_name(statement.options, _OPTIONS))
    if "analyze" in asked and options.truth(asked["analyze"]):
        raise Unsupported(
            "EXPLAIN ANALYZE is not supported", hint="Leave the word ANALYZE out to see the plan."
        )
    form = options.text(asked["format"]).lower() if "format" in asked else statement.form
    if form not in ("text", "json"):
        raise Unsupported(
            f"EXPLAIN in the format {form} is not supported", hint="The formats are text and json."
        )
    return form


# Plans


async def _explained(
    session: SqlSession, target: ast.Statement | ExplainObject, parameters: Parameters
) -> Explained:
    match target:
        case ast.Query(query) if await is_for_catalog(session, query):
            return Explained("Catalog", {})
        case ast.Query():
            plan = await planned(session, target.query, parameters=parameters)
            if plan.bound.simple is not None:
                return _picking(session, plan, plan.bound.simple)
            return await _maintained(session, await _plan_of(session, target, parameters))
        case ast.Execute(name):
            prepared = prepared_statement(session, name)
            assert prepared.parsed is not None
            return await _explained(session, prepared.parsed.statement, parameters)
        case ast.DeclareCursor(statement=inner):
            return await _explained(session, inner, parameters)
        case ast.Insert() | ast.Update() | ast.Delete():
            return await _change(session, target, parameters)
        case ExplainObject(_, name):
            return await _object(session, target, name)
        case _:
            return await _maintained(session, await _plan_of(session, target, parameters))


async def _plan_of(
    session: SqlSession, target: ast.Statement | ExplainObject, parameters: Parameters
) -> Plan:
    """The plan of maintaining what is explained."""
    match target:
        case ast.Query(query):
            pass
        case ast.Subscribe(target=ObjectName(parts)):
            query = QueryText(f"SELECT * FROM {quote_name(parts)}", 1)
        case ast.Subscribe(target=QueryText() as query):
            pass
        case ast.CreateView() | ast.CreateMaterializedView() | ast.CreateTableAs():
            query = target.query
        case ExplainObject(_, name):
            return await _plan_of_object(session, target, name)
        case _:
            raise Unsupported(f"EXPLAIN {type(target).__name__.upper()} is not supported")
    for_all = isinstance(target, ast.CreateView | ast.CreateMaterializedView)
    return await planned(
        session, query, parameters=parameters or None, maintained=True, for_all=for_all
    )


async def _maintained(
    session: SqlSession, plan: Plan, keys: tuple[str, ...] | None = None
) -> Explained:
    names = [c.name for c in plan.bound.columns] if keys is not None else None
    schema = Schema(
        tuple(
            Column(names[place] if names else f"c{place}", column_type(c.type), c.nullable)
            for place, c in enumerate(plan.bound.columns)
        )
    )
    view = Maintained(plan.inputs, (Result(plan.bound.sql, schema, keys),))
    core = session.front.core
    await until_up(core.engine, core.pace.engine_wait_s)
    [node] = await asyncio.to_thread(core.compute.check_view, view)
    return explained(node, lambda collection: _shown_name(session, collection))


def _shown_name(session: SqlSession, collection: GlobalId) -> str:
    catalog = session.front.core.current
    found = catalog.try_item(collection)
    return str(collection) if found is None else quote_name(name_in_full(catalog, found).parts)


def _picking(session: SqlSession, plan: Plan, query: SimpleQuery) -> Explained:
    """A query that is answered without the engine."""
    source, wanted = looked_up(session.front, query, plan.inputs[query.source])
    name = _shown_name(session, source)
    facts: dict[str, Any] = {"columns": ["count(*)"] if query.count_star else list(query.columns)}
    if query.conditions:
        facts["filter"] = [_condition(each) for each in query.conditions]
    if query.order:
        decisive = {column: (down, first) for column, down, first in reversed(query.order)}
        facts["order"] = [
            f"{column}{' DESC' if down else ''} NULLS {'FIRST' if first else 'LAST'}"
            for column, (down, first) in reversed(decisive.items())
        ]
    if query.limit is not None:
        facts["limit"] = query.limit
    if query.offset:
        facts["offset"] = query.offset
    if wanted is not None:
        below = Explained("Lookup", {"index": name, "keys": wanted.column_names})
    elif isinstance(session.front.core.current.try_item(source), Index):
        below = Explained("Scan", {"index": name})
    else:
        below = Explained("Read", {"relation": name})
    return Explained("Pick", facts, (below,))


def _condition(each: Comparison) -> str:
    values = ", ".join(map(str, each.values))
    shown = f"({values})" if each.operator == "in" else values
    return f"{each.column} {each.operator} {shown}".strip()


async def _change(
    session: SqlSession, target: ast.Insert | ast.Update | ast.Delete, parameters: Parameters
) -> Explained:
    """What an INSERT, UPDATE or DELETE reads before it writes."""
    table = writing.writable(session, target.table, Privilege.SELECT)
    facts = {"relation": _shown_name(session, table.id)}
    match target:
        case ast.Insert(source=QueryText() as source):
            written = inserts.insert_query(target, source)
            with written.tracing():
                below = await _explained(session, ast.Query(written.query), parameters)
            return Explained("Insert", facts, (below,))
        case ast.Insert():
            return Explained("Insert", facts, (Explained("Constant", {}),))
        case ast.Update():
            made = updates.update_query(table, target, is_whole=False)[0]
        case ast.Delete():
            made = deletes.delete_query(target, is_whole=False)
    with made.tracing():
        below = await _explained(session, ast.Query(made.query), parameters)
    return Explained(type(target).__name__, facts, (below,))


# Objects


async def _object(session: SqlSession, target: ExplainObject, name: ObjectName) -> Explained:
    catalog = session.front.core.current
    found = named(session, catalog, target.kind, name)
    plan = await _plan_of_object(session, target, name)
    if not isinstance(found, Index):
        return await _maintained(session, plan)
    on = catalog.item(found.on)
    assert isinstance(on, Relation)
    keys = tuple(on.columns[(key.column or 1) - 1].name for key in found.keys)
    return await _maintained(session, plan, keys)


async def _plan_of_object(session: SqlSession, target: ExplainObject, name: ObjectName) -> Plan:
    catalog = session.front.core.current
    found = named(session, catalog, target.kind, name)
    if isinstance(found, Index):
        on = catalog.item(found.on)
        privileges.check_read(catalog, session.role.oid, [on] if isinstance(on, Relation) else [])
        parts = name_in_full(catalog, on).parts
        return await planned(
            session, QueryText(f"SELECT * FROM {quote_name(parts)}", 1), maintained=True
        )
    assert isinstance(found, View | MaterializedView)
    privileges.check_read(catalog, session.role.oid, [found])
    return plan_again(catalog, session.facts(), found.query)


# Times


async def _timestamp(
    session: SqlSession, statement: ast.Explain, parameters: Parameters
) -> tuple[list[str], dict[str, Any]]:
    target = statement.target
    if not isinstance(target, ast.Query):
        raise Unsupported("EXPLAIN TIMESTAMP is for queries only")
    inputs: list[GlobalId] = []
    recent: Recent | None = None
    as_of = await as_of_time(session, target.as_of)
    moment = session.transaction.moment if as_of is None else None
    if not await is_for_catalog(session, target.query):
        plan = await planned(session, target.query, parameters=parameters or None)
        inputs = list(plan.inputs)
        is_recent = target.as_of is Moment.UPSTREAM
        asking = asked_of_sources(session, plan, as_of, is_recent=is_recent)
        if asking is not None and moment is None:
            recent = await heads_of(session, asking, plan)
    isolation, staleness_ms = session.settings.isolation
    chosen = moment or session.front.reading.choose(
        inputs,
        isolation,
        as_of,
        recency=None if recent is None else recent.time,
        read_ts=None if recent is None else recent.read_ts,
        staleness_ms=staleness_ms,
    )
    try:
        name_of = partial(_shown_name, session)
        asked = () if recent is None else recent.lines(name_of)
        facts = times.explained(chosen.selection, name_of, asked)
    finally:
        if chosen is not moment:
            chosen.close()
    width = max(len(label) for label, _ in facts)
    return [f"{label.rjust(width)}: {value}" for label, value in facts], dict(facts)


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {ast.Explain: explain}
DESCRIBE: dict[type[Any], Callable[..., Awaitable[StatementDescription]]] = {
    ast.Explain: describe_explain
}
