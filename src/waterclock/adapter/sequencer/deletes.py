"""DELETE and TRUNCATE: the rows to retract are found by a query."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from waterclock.adapter.api import Done, Response, StatementDescription
from waterclock.adapter.planning import NOTHING_GIVEN, AllGiven
from waterclock.adapter.sequencer.composing import Composed, clause, composed
from waterclock.adapter.sequencer.evaluation import evaluated
from waterclock.adapter.sequencer.partners import once_each
from waterclock.adapter.sequencer.query_plans import planned
from waterclock.adapter.sequencer.writing import (
    Changed,
    Parameters,
    described_shown,
    in_table,
    read_then_write,
    returned,
    target_of,
    writable,
)
from waterclock.catalog.objects import Privilege, Table
from waterclock.model.pg_types import PgType
from waterclock.sql import ast
from waterclock.sql.ast.common import QueryText
from waterclock.sql.quoting import quote_ident

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession


_TRUNCATED = "TRUNCATE TABLE"


async def delete(session: SqlSession, statement: ast.Delete, parameters: Parameters) -> Response:
    changed = partial(deleted, session, statement, parameters)
    return (await read_then_write(session, changed)).response()


async def deleted(
    session: SqlSession,
    statement: ast.Delete,
    parameters: Parameters,
    given: AllGiven = NOTHING_GIVEN,
) -> Changed:
    """The rows to delete."""
    table = writable(session, statement.table, Privilege.DELETE)
    query = delete_query(statement)
    width = len(table.columns)
    with query.tracing():
        plan = await planned(session, query.query, parameters=parameters, assigned=(), given=given)
    found = await evaluated(session, plan)
    if statement.using is not None and statement.returning is not None:
        found = await once_each(session, table, statement, found)
    columns, shown = returned(statement, plan, found, width)
    old = in_table(table, found.columns[:width])
    tag = f"DELETE {found.num_rows}"
    return Changed(table, "DELETE", tag, old=old, columns=columns, shown=shown)


async def truncate(session: SqlSession, statement: ast.Truncate, _: Parameters) -> Response:
    for name in statement.tables:
        table = writable(session, name, Privilege.DELETE)
        written = ".".join(quote_ident(part) for part in name.parts)
        query = QueryText(f"SELECT * FROM {written}", 1)

        async def changed(table: Table = table, query: QueryText = query) -> Changed:
            plan = await planned(session, query)
            old = in_table(table, (await evaluated(session, plan)).columns)
            return Changed(table, "TRUNCATE", _TRUNCATED, old=old)

        await read_then_write(session, changed)
    return Done(_TRUNCATED)


async def describe_delete(
    session: SqlSession,
    statement: ast.Delete,
    types: Sequence[PgType | None],
    given: AllGiven = NOTHING_GIVEN,
) -> StatementDescription:
    """The types of the parameters, which are all in conditions."""
    table = writable(session, statement.table, Privilege.SELECT)
    query = delete_query(statement)
    with query.tracing():
        plan = await planned(session, query.query, types=types, assigned=(), given=given)
    shown = described_shown(statement, plan, len(table.columns))
    return StatementDescription(plan.bound.parameters, shown)


def delete_query(statement: ast.Delete, *, is_whole: bool = True) -> Composed:
    """The rows to delete, each as often as it is there, and what RETURNING shows of them.

    With USING and RETURNING a row is there once for each of its partners. If the query is not
    whole, RETURNING is left out.
    """
    name = quote_ident(statement.alias or statement.table.parts[-1])
    where = clause(" WHERE ", statement.where)
    shown = statement.returning if is_whole else None
    partners = clause(", ", statement.using)
    if statement.using is not None and shown is None:
        where = (" WHERE EXISTS (SELECT 1 FROM ", statement.using, *where, ")")
        partners = ()
    select = f" SELECT {name}.*"
    return composed(
        *clause("", statement.ctes),
        select,
        *clause(", ", shown),
        f" FROM {target_of(statement)}",
        *partners,
        *where,
    )


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {
    ast.Delete: delete,
    ast.Truncate: truncate,
}
DESCRIBE: dict[type[Any], Callable[..., Awaitable[StatementDescription]]] = {
    ast.Delete: describe_delete
}
