"""SELECT, VALUES, TABLE and WITH.

A query goes one of three ways. Over the system's relations it is answered by the catalog's own
engine: see `catalog_queries`. If it only picks rows of one collection, the rows are fetched and
picked; everything else is evaluated by Spark over the contents of what it reads: see `evaluation`.
All three see the catalog, and the collections, at one moment.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from waterclock.adapter.api import (
    ColumnDescription,
    Response,
    Rows,
    StatementDescription,
)
from waterclock.adapter.planning import Plan
from waterclock.adapter.results import in_batches
from waterclock.adapter.sequencer.catalog_queries import (
    Asked,
    answered,
    asked_of_catalog,
    preferring,
)
from waterclock.adapter.sequencer.evaluation import evaluated
from waterclock.adapter.sequencer.query_plans import Parameters, described, planned
from waterclock.adapter.sequencer.times import as_of_time
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import PgType
from waterclock.sql import ast
from waterclock.sql.ast.common import QueryText
from waterclock.sql.ast.queries import Moment
from waterclock.sql.binding import filled

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession


async def describe_query(
    session: SqlSession, statement: ast.Query, types: Sequence[PgType | None]
) -> StatementDescription:
    """The types of a query's parameters and columns."""
    asked = await asked_of_catalog(session, statement.query, types)
    if asked is not None:
        oids = [0 if each is None else each.oid for each in types]
        answerer = session.front.answerer
        with preferring(asked.refusal):
            found = await session.front.offload.run_long(
                partial(answerer.describe, statement.query.text, oids, session.catalog_facts())
            )
        columns = tuple(ColumnDescription(c.name, c.type) for c in found.columns)
        return StatementDescription(found.parameters, columns)
    plan = await planned(session, statement.query, types=types)
    return StatementDescription(plan.bound.parameters, described(plan))


async def run_query(session: SqlSession, statement: ast.Query, parameters: Parameters) -> Response:
    """Answer a query."""
    asked = await asked_of_catalog(session, statement.query, parameters=parameters)
    if asked is not None:
        return await _from_catalog(session, statement.query, parameters, asked)
    plan = await _filled(session, statement.query, parameters) if parameters else None
    if plan is None:
        plan = await planned(session, statement.query, parameters=parameters)
    is_recent = statement.as_of is Moment.UPSTREAM
    as_of = await as_of_time(session, statement.as_of)
    table = await evaluated(session, plan, as_of, is_recent=is_recent)
    return Rows(described(plan), in_batches(await session.front.core.spool.held(table)))


async def _filled(session: SqlSession, query: QueryText, parameters: Parameters) -> Plan | None:
    """The plan of a query that only picks rows, made before the values were known."""
    try:
        plan = await planned(session, query)
    except WaterclockError:  # the values may make sense of it, and else it is told with them
        return None
    if plan.bound.simple is None:
        return None
    simple = filled(plan.bound.simple, parameters)
    if simple is None:
        return None
    return replace(plan, bound=replace(plan.bound, sql="", simple=simple))


async def _from_catalog(
    session: SqlSession, query: QueryText, parameters: Parameters, asked: Asked
) -> Response:
    with preferring(asked.refusal):
        found = await answered(session, query.text, parameters)
    for change in found.settings:
        session.settings.set(change.name, change.value, local=change.local)
    columns = tuple(ColumnDescription(c.name, c.type) for c in found.columns)
    return Rows(columns, in_batches(await session.front.core.spool.held(found.rows)))


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {ast.Query: run_query}
DESCRIBE: dict[type[Any], Callable[..., Awaitable[StatementDescription]]] = {
    ast.Query: describe_query
}
