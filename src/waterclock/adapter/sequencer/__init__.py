"""Carrying statements out: one module for each family, found by the kind of the statement.

A module has, for each kind it knows, a coroutine `(session, statement, parameters) -> Response`,
and where the statement returns rows another that describes them without running it. They are
entered in `_RUN` and `_DESCRIBE`; a kind that is missing there can not be carried out, and says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from waterclock.adapter.api import Response, StatementDescription
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.sequencer import (
    alterations,
    changes,
    copying,
    cursors,
    explaining,
    external,
    grants,
    ingestion,
    listings,
    objects,
    queries,
    relations,
    roles,
    sessions,
    subscriptions,
    transactions,
)
from waterclock.model.pg_types import TEXT, PgType
from waterclock.sql import ast
from waterclock.sql.parser import Parsed

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Run = Callable[["SqlSession", Any, Sequence[pa.Scalar]], Awaitable[Response]]
Describe = Callable[["SqlSession", Any, Sequence[PgType | None]], Awaitable[StatementDescription]]

_RUN: dict[type[Any], Run] = {
    **alterations.RUN,
    **changes.RUN,
    **copying.RUN,
    **cursors.RUN,
    **explaining.RUN,
    **external.RUN,
    **grants.RUN,
    **ingestion.RUN,
    **listings.RUN,
    **objects.RUN,
    **queries.RUN,
    **relations.RUN,
    **roles.RUN,
    **sessions.RUN,
    **subscriptions.RUN,
    **transactions.RUN,
}
_DESCRIBE: dict[type[Any], Describe] = {
    **changes.DESCRIBE,
    **cursors.DESCRIBE,
    **explaining.DESCRIBE,
    **listings.DESCRIBE,
    **queries.DESCRIBE,
    **sessions.DESCRIBE,
    **subscriptions.DESCRIBE,
}


async def run(session: SqlSession, parsed: Parsed, parameters: Sequence[pa.Scalar]) -> Response:
    """Carry the statement out, as part of the session's transaction."""
    statement = parsed.statement
    found = _RUN.get(type(statement))
    if found is None:
        raise Unsupported(f"{_named(statement)} is not supported")
    return await found(session, statement, parameters)


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


def _named(statement: ast.Statement) -> str:
    if isinstance(statement, ast.Unsupported):
        return statement.what
    words = type(statement).__name__
    return "".join(f" {c}" if c.isupper() else c.upper() for c in words).strip()
