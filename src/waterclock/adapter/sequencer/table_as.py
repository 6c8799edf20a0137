"""CREATE TABLE ... AS: a table and its first rows, which appear together.

The query is evaluated first. Then its rows go into a collection that has no name yet, and then the
catalog gives it one: by a crash in between, the next start finds a collection without a name and
forgets it. All of that but the query is a change that cannot be interrupted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from waterclock.adapter.api import Done, Response
from waterclock.adapter.changes import Change
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planning import Plan
from waterclock.adapter.retention import retained_ms
from waterclock.adapter.sequencer import inserts
from waterclock.adapter.sequencer.evaluation import evaluated
from waterclock.adapter.sequencer.prepared import TRIES, changed_too_often, meaning
from waterclock.adapter.sequencer.query_plans import planned
from waterclock.adapter.sequencer.relations import (
    NOT_FOR_ONE,
    columns_of,
    exists,
    is_taken,
    site_of,
)
from waterclock.adapter.timelines import common_timeline, require_of_tables
from waterclock.catalog import items
from waterclock.catalog.draft import Draft
from waterclock.catalog.durable import Creation
from waterclock.catalog.objects import Column, Table
from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import NUMERIC, PgType, array_of
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.sql import ast
from waterclock.storage.api import Description, ReadCapability, Write, WriteCapability
from waterclock.storage.controller import Storage

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Parameters = Sequence[pa.Scalar]
_TAG = "CREATE TABLE AS"
_NUMBERS = frozenset({NUMERIC.oid, array_of(NUMERIC).oid})


async def create_table_as(
    session: SqlSession, statement: ast.CreateTableAs, _: Parameters
) -> Response:
    if statement.temporary:
        raise Unsupported("CREATE TEMPORARY TABLE is not supported", hint=NOT_FOR_ONE)
    name = statement.name.parts[-1]
    if statement.if_not_exists and is_taken(session, session.front.core.current, statement.name):
        return exists(session, "relation", name, _TAG)
    session.transaction.require_unwritten(_TAG)
    for _attempt in range(TRIES):
        session.watch.require_wanted()
        plan = await _planned(session, statement)
        making = partial(_made, session, statement, plan)
        rows = await _evaluated(session, plan) if statement.with_data else None
        async with session.changing() as draft:
            if statement.if_not_exists and is_taken(session, draft.catalog, statement.name):
                return exists(session, "relation", name, _TAG)
            table = await making(draft)
            if table is None:
                continue
            if rows is None:
                await _commit_empty(session, draft, table)
                return Done("SELECT 0")
        if await _commit_filled(session, table, rows, making):
            return Done(f"SELECT {rows.num_rows}")
    raise changed_too_often()


async def _planned(session: SqlSession, statement: ast.CreateTableAs) -> Plan:
    """The query's plan. Numbers get all digits, unless they were declared to have some of them.

    The table may take in others later, which have more digits than follow from the query.
    """
    plan = await planned(session, statement.query)
    columns = plan.bound.columns
    wanted = tuple(
        each.type if each.is_declared or each.type.oid not in _NUMBERS else PgType(each.type.oid)
        for each in columns
    )
    if wanted == tuple(each.type for each in columns):
        return plan
    return await planned(session, statement.query, target_types=wanted)


async def _evaluated(session: SqlSession, plan: Plan) -> pa.Table:
    rows = await evaluated(session, plan)
    require_of_tables(common_timeline(session.front.core, plan.inputs).id)
    return rows


async def _made(
    session: SqlSession,
    statement: ast.CreateTableAs,
    plan: Plan,
    draft: Draft,
    collection: GlobalId | None = None,
) -> Table | None:
    """The table in the draft; None if the query does not mean any more what was evaluated."""
    if meaning(await _planned(session, statement)) != meaning(plan):
        return None
    columns = [Column(each.name, each.type, True) for each in columns_of(plan, statement.columns)]
    kept = retained_ms(statement.options)
    site = site_of(session, draft, statement.name)
    return items.create_table(draft, site, columns, kept, collection=collection)


async def _commit_empty(session: SqlSession, draft: Draft, table: Table) -> None:
    core = session.front.core
    first = EPOCH_MILLIS.frontier(core.oracle.read_ts())
    creation = Creation(table.id, Description(table.schema), first)
    await session.commit_draft(draft, [creation], follow_ups=[core.tables.advance])


async def _commit_filled(
    session: SqlSession,
    table: Table,
    rows: pa.Table,
    making: Callable[[Draft, GlobalId], Awaitable[Table | None]],
) -> bool:
    """First the collection and its rows, then the name; False if that is not what was asked for."""
    core, changes = session.front.core, session.front.changes

    async def work(change: Change[bool]) -> bool:
        kept = await changes.in_thread(_filled, core.storage, table, rows, core.oracle.read_ts())
        is_named = False
        try:
            async with changes.drafting() as draft:
                if await making(draft, table.id) is not None:
                    changes.hand_on(draft)
                    await changes.carry_out(change, draft, adopted={table.id: kept})
                    is_named = True
        finally:
            if not is_named:
                await changes.in_thread(_let_go, core.storage, kept)
        if is_named:
            change.succeed(True)
            await changes.follow_up([core.tables.advance])
        return is_named

    return await session.watch.outcome_of(changes.begin(work))


def _filled(
    storage: Storage, table: Table, rows: pa.Table, time: int
) -> tuple[ReadCapability, WriteCapability]:
    """A collection with these rows, from the time on."""
    first, then = EPOCH_MILLIS.frontier(time), EPOCH_MILLIS.frontier(time + 1)
    reader, writer = storage.create(table.id, Description(table.schema), start=first)
    try:
        [moved] = storage.append(Write(writer, inserts.stamped(table, rows, time), then))
    except BaseException:
        _let_go(storage, (reader, writer))
        raise
    return reader, moved


def _let_go(storage: Storage, kept: tuple[ReadCapability, WriteCapability]) -> None:
    reader, writer = kept
    storage.drop_capability(reader)
    storage.drop_capability(writer)


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {ast.CreateTableAs: create_table_as}
