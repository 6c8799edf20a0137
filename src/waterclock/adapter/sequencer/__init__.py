"""Carrying statements out: one module for each family, found by the kind of the statement.

A module has, for each kind it knows, a coroutine `(session, statement, parameters) -> Response`,
and where the statement returns rows another that describes them without running it. They are
entered in `_RUN` and `_DESCRIBE`; a kind that is missing there can not be carried out, and says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from waterclock.adapter.api import Done, Response, StatementDescription
from waterclock.adapter.errors import CollectionGone
from waterclock.adapter.sequencer import (
    alterations,
    copying,
    cursors,
    deletes,
    explaining,
    external,
    grants,
    ingestion,
    inserts,
    listings,
    objects,
    queries,
    read_holds,
    relations,
    roles,
    sessions,
    subscriptions,
    table_as,
    transactions,
    updates,
    with_changes,
)
from waterclock.adapter.sequencer.prepared import changed_too_often
from waterclock.adapter.sequencer.refusals import refusal
from waterclock.catalog.errors import UnknownObject
from waterclock.model.pg_types import TEXT, PgType
from waterclock.sql import ast
from waterclock.sql.parser import Parsed

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Run = Callable[["SqlSession", Any, Sequence[pa.Scalar]], Awaitable[Response]]
Describe = Callable[["SqlSession", Any, Sequence[PgType | None]], Awaitable[StatementDescription]]

_RUN: dict[type[Any], Run] = {
    **alterations.RUN,
    **copying.RUN,
    **cursors.RUN,
    **deletes.RUN,
    **explaining.RUN,
    **external.RUN,
    **grants.RUN,
    **ingestion.RUN,
    **inserts.RUN,
    **listings.RUN,
    **objects.RUN,
    **queries.RUN,
    **read_holds.RUN,
    **relations.RUN,
    **roles.RUN,
    **sessions.RUN,
    **subscriptions.RUN,
    **table_as.RUN,
    **transactions.RUN,
    **updates.RUN,
    **with_changes.RUN,
}
_TRIES = 10
_AT_ONCE = frozenset(
    kind
    for module in (
        *(alterations, external, grants, ingestion, objects, read_holds, relations, roles),
        table_as,
    )
    for kind in module.RUN
)
"""Statements that change the catalog. They take effect at once, even in a transaction block."""
_DESCRIBE: dict[type[Any], Describe] = {
    **cursors.DESCRIBE,
    **deletes.DESCRIBE,
    **explaining.DESCRIBE,
    **inserts.DESCRIBE,
    **listings.DESCRIBE,
    **queries.DESCRIBE,
    **sessions.DESCRIBE,
    **subscriptions.DESCRIBE,
    **updates.DESCRIBE,
    **with_changes.DESCRIBE,
}


async def run(session: SqlSession, parsed: Parsed, parameters: Sequence[pa.Scalar]) -> Response:
    """Carry the statement out, as part of the session's transaction."""
    statement = parsed.statement
    found = _RUN.get(type(statement))
    if found is None:
        raise refusal(statement)
    response = await _run(session, found, statement, parameters)
    if session.transaction.in_block and type(statement) in _AT_ONCE and isinstance(response, Done):
        is_filled = isinstance(statement, ast.CreateTableAs)  # its tag tells the rows
        session.transaction.lasting.append("CREATE TABLE AS" if is_filled else response.tag)
    return response


async def _run(
    session: SqlSession, found: Run, statement: ast.Statement, parameters: Sequence[pa.Scalar]
) -> Response:
    """Run a statement; outside a transaction block again if what it reads is dropped meanwhile.

    Until it returns it has changed nothing. Its names are resolved anew when the change that has
    dropped something can be seen, and are unknown then, or mean something else.
    """
    for _attempt in range(_TRIES):
        catalog = session.front.core.current
        if session.role.oid not in catalog.objects:
            raise UnknownObject(f'role "{session.role.name}" does not exist')
        try:
            return await found(session, statement, parameters)
        except CollectionGone:
            if session.transaction.in_block or session.transaction.has_written:
                raise
            await session.front.changes.rested()
            if session.front.core.current is catalog:
                raise
    raise changed_too_often()


async def describe(
    session: SqlSession, parsed: Parsed, types: Sequence[PgType | None]
) -> StatementDescription:
    """The types of the statement's parameters, and of its columns if it returns rows."""
    found = _DESCRIBE.get(type(parsed.statement))
    if found is not None:
        return await found(session, parsed.statement, types)
    count = max(parsed.parameters, default=0)
    known = [*types, *[None] * (count - len(types))]
    return StatementDescription(tuple(each or TEXT for each in known), None)
