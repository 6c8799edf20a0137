"""Changes of tables inside WITH, and the query or change that follows them.

All parts read at one moment, and none of them sees what the others change: a part knows an earlier
one by the rows that it returns. What they change is kept together when the last part has been
computed, so that nothing is if one of them fails.

A row can be changed once. So no table is updated or deleted from by two parts: PostgreSQL does one
of the two changes then, and does not say which.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, assert_never

import pyarrow as pa

from waterclock.adapter.api import ColumnDescription, Response, Rows, StatementDescription
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planning import AllGiven, Given
from waterclock.adapter.results import in_batches, shaped
from waterclock.adapter.sequencer.deletes import deleted, describe_delete
from waterclock.adapter.sequencer.evaluation import evaluated
from waterclock.adapter.sequencer.inserts import describe_insert, inserted
from waterclock.adapter.sequencer.query_plans import described, planned
from waterclock.adapter.sequencer.updates import describe_update, updated
from waterclock.adapter.sequencer.writing import TRIES, Changed, Parameters, has_landed
from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import TEXT, PgType
from waterclock.sql import ast
from waterclock.sql.ast.changes import Change, NamedChange
from waterclock.sql.binding import BoundColumn
from waterclock.sql.binding.errors import DuplicateAlias, InvalidColumnReference

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

_FIRST_ID = 2**62
"""Rows that are given are read under ids that no collection will ever have."""


async def run(session: SqlSession, statement: ast.WithChanges, parameters: Parameters) -> Response:
    for attempt in range(TRIES):
        response, changes = await _at_one_moment(session, statement, parameters)
        for changed in changes:
            changed.keep(session)
        if await has_landed(session, attempt):
            break
    return response


async def _at_one_moment(
    session: SqlSession, statement: ast.WithChanges, parameters: Parameters
) -> tuple[Response, list[Changed]]:
    """What all parts do, as if they were statements of a block."""
    in_block = session.transaction.in_block
    session.transaction.in_block = True
    try:
        return await _computed(session, statement, parameters)
    finally:
        session.transaction.in_block = in_block


async def _computed(
    session: SqlSession, statement: ast.WithChanges, parameters: Parameters
) -> tuple[Response, list[Changed]]:
    given: dict[str, Given | None] = {}
    changes: list[Changed] = []
    for named in statement.changes:
        found = await _changed(session, named.change, parameters, given)
        _add(changes, found)
        _give(given, named, found.columns, found.shown)
    main = statement.main
    if not isinstance(main, ast.Query):
        last = await _changed(session, main, parameters, given)
        _add(changes, last)
        return last.response(), changes
    if main.as_of is not None:
        raise Unsupported("AS OF beside changes in WITH is not supported")
    plan = await planned(session, main.query, parameters=parameters, given=given)
    table = await evaluated(session, plan)
    held = await session.front.core.spool.held(table)
    return Rows(described(plan), in_batches(held)), changes


async def _changed(
    session: SqlSession, change: Change, parameters: Parameters, given: AllGiven
) -> Changed:
    match change:
        case ast.Insert():
            return await inserted(session, change, parameters, given)
        case ast.Update():
            return await updated(session, change, parameters, given)
        case ast.Delete():
            return await deleted(session, change, parameters, given)
        case _:
            assert_never(change)


def _add(changes: list[Changed], found: Changed) -> None:
    """Add a change, unless it may be of rows that an earlier one has changed."""
    if found.old is not None:
        for other in changes:
            if other.old is not None and other.table.id == found.table.id:
                raise Unsupported(
                    f'two changes of rows of "{found.table.name}" in one statement are not'
                    " supported",
                    hint="Make them two statements of a transaction.",
                )
    changes.append(found)


# What is given to later parts


def _give(
    given: dict[str, Given | None],
    named: NamedChange,
    columns: Sequence[ColumnDescription] | None,
    rows: pa.Table | None = None,
) -> None:
    """Let later parts read what a change returns; without rows, only what columns it has."""
    name, position = named.name.name, named.name.position
    if name in given:
        raise DuplicateAlias(f'WITH query name "{name}" specified more than once', position)
    if columns is None:
        given[name] = None
        return
    if len(named.columns) > len(columns):
        raise InvalidColumnReference(
            f'WITH query "{name}" has {len(columns)} columns available but'
            f" {len(named.columns)} columns specified",
            position,
        )
    own = [column.name for column in columns]
    names = [*(each.name for each in named.columns), *own[len(named.columns) :]]
    if len(set(names)) < len(names):
        raise Unsupported(
            f'two columns of one name in what "{name}" returns are not supported',
            hint="Name them by AS.",
        )
    bound = tuple(BoundColumn(n, c.type) for n, c in zip(names, columns, strict=True))
    held = Given(GlobalId.system(_FIRST_ID + len(given)), bound, pa.table({}))
    if rows is not None:
        made = shaped(rows, [column.type for column in columns])
        held = Given(held.id, bound, made.rename_columns(names))
    given[name] = held


# Describing


async def describe(
    session: SqlSession, statement: ast.WithChanges, types: Sequence[PgType | None]
) -> StatementDescription:
    """The types of the parameters, each as the first part says that names it."""
    known: dict[int, PgType] = {n: each for n, each in enumerate(types, start=1) if each}
    given: dict[str, Given | None] = {}
    for named in statement.changes:
        found = await _described(session, named.change, _in_order(known), given)
        for number in named.parameters:
            known.setdefault(number, found.parameters[number - 1])
        _give(given, named, found.columns)
    last = await _described(session, statement.main, _in_order(known), given)
    for number, each in enumerate(last.parameters, start=1):
        known.setdefault(number, each)
    return StatementDescription(tuple(each or TEXT for each in _in_order(known)), last.columns)


def _in_order(known: dict[int, PgType]) -> list[PgType | None]:
    return [known.get(number) for number in range(1, max(known, default=0) + 1)]


async def _described(
    session: SqlSession,
    part: ast.Query | Change,
    types: Sequence[PgType | None],
    given: AllGiven,
) -> StatementDescription:
    match part:
        case ast.Insert():
            return await describe_insert(session, part, types, given)
        case ast.Update():
            return await describe_update(session, part, types, given)
        case ast.Delete():
            return await describe_delete(session, part, types, given)
        case ast.Query():
            plan = await planned(session, part.query, types=types, given=given)
            return StatementDescription(plan.bound.parameters, described(plan))
        case _:
            assert_never(part)


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {ast.WithChanges: run}
DESCRIBE: dict[type[Any], Callable[..., Awaitable[StatementDescription]]] = {
    ast.WithChanges: describe
}
