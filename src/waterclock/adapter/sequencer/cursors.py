"""PREPARE, EXECUTE, DEALLOCATE; DECLARE, FETCH, MOVE, CLOSE.

Prepared statements and cursors are those of the protocol, under the same names. A cursor's query is
run when it is declared, at the time of the transaction; its rows are taken bit by bit. It goes both
ways, unless it is declared with NO SCROLL.

A cursor over SUBSCRIBE has no last row. FETCH from it waits until there is one, and then takes what
is there; with a timeout, it takes what comes until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from waterclock.adapter import sequencer
from waterclock.adapter.api import (
    AtHand,
    Batches,
    Done,
    Format,
    PortalDescription,
    Response,
    Rows,
    StatementDescription,
)
from waterclock.adapter.errors import (
    DuplicateCursor,
    DuplicateStatement,
    NotInBlock,
    UnknownStatement,
    Unsupported,
)
from waterclock.adapter.feeds import Feed
from waterclock.adapter.portals import Portal, PreparedStatement
from waterclock.adapter.scrolling import Scroll
from waterclock.adapter.sequencer.evaluation import constants
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import PgType
from waterclock.sql import ast, options
from waterclock.sql.ast.common import Option
from waterclock.sql.ast.session import Direction
from waterclock.sql.lexer import lex
from waterclock.sql.parser import Parsed
from waterclock.sql.tokens import Kind

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Parameters = Sequence[pa.Scalar]


class ForwardOnly(WaterclockError):
    """The cursor does not go back."""

    sqlstate: ClassVar[str] = "55000"


class WrongArguments(WaterclockError):
    """EXECUTE does not give what the statement takes."""

    sqlstate: ClassVar[str] = "42601"


# Prepared statements


async def prepare(session: SqlSession, statement: ast.Prepare, _: Parameters) -> Response:
    if statement.name in session.statements:
        raise DuplicateStatement(f'prepared statement "{statement.name}" already exists')
    parsed = await _parsed(session, statement.statement, statement.text)
    prepared = await session.prepared(parsed, statement.types)
    session.statements[statement.name] = replace(prepared, prepare=session.running)
    return Done("PREPARE")


async def describe_prepare(
    _: SqlSession, __: ast.Prepare, ___: Sequence[PgType | None]
) -> StatementDescription:
    """The parameters in it are those of what is prepared."""
    return StatementDescription((), None)


async def _parsed(session: SqlSession, statement: ast.Statement, text: str) -> Parsed:
    tokens = await session.front.offload.run(lambda meter: lex(text, meter), len(text))
    numbers = {int(token.value) for token in tokens if token.kind is Kind.PARAMETER}
    return Parsed(statement, text, 0, tuple(sorted(numbers)))


async def execute(session: SqlSession, statement: ast.Execute, parameters: Parameters) -> Response:
    prepared = prepared_statement(session, statement.name)
    wanted = prepared.description.parameters
    if len(statement.arguments) != len(wanted):
        raise WrongArguments(
            f'wrong number of parameters for prepared statement "{statement.name}"',
            detail=f"Expected {len(wanted)} parameters but got {len(statement.arguments)}.",
        )
    values = await constants(session, statement.arguments, wanted, parameters)
    assert prepared.parsed is not None, "an empty statement is not prepared by name"
    return await sequencer.run(session, prepared.parsed, values)


async def describe_execute(
    session: SqlSession, statement: ast.Execute, _: Sequence[PgType | None]
) -> StatementDescription:
    return StatementDescription((), prepared_statement(session, statement.name).description.columns)


def prepared_statement(session: SqlSession, name: str) -> PreparedStatement:
    """The statement of that name; `UnknownStatement`."""
    found = session.statements.get(name)
    if found is None or found.parsed is None:
        raise UnknownStatement(f'prepared statement "{name}" does not exist')
    return found


async def deallocate(session: SqlSession, statement: ast.Deallocate, _: Parameters) -> Response:
    if statement.name is not None:
        prepared_statement(session, statement.name)
        del session.statements[statement.name]
        return Done("DEALLOCATE")
    for name in [name for name in session.statements if name]:
        del session.statements[name]
    return Done("DEALLOCATE ALL")


# Cursors


async def declare(
    session: SqlSession, statement: ast.DeclareCursor, parameters: Parameters
) -> Response:
    if not statement.hold and not session.transaction.in_block:
        raise NotInBlock("DECLARE CURSOR can only be used in transaction blocks")
    if statement.scroll and isinstance(statement.statement, ast.Subscribe):
        raise Unsupported(
            "a cursor over SUBSCRIBE only goes forward", hint="Leave the word SCROLL out."
        )
    if statement.hold and isinstance(statement.statement, ast.Subscribe):
        raise Unsupported(
            "a cursor WITH HOLD over SUBSCRIBE is not supported",
            hint="Leave WITH HOLD out, and keep the transaction open.",
        )
    if statement.name in session.portals:
        raise DuplicateCursor(f'cursor "{statement.name}" already exists')
    parsed = Parsed(statement.statement, "", 0, ())
    rows = await sequencer.run(session, parsed, parameters)
    assert isinstance(rows, Rows), "a cursor is over something that has rows"
    formats = (Format.BINARY,) if statement.binary else ()
    session.portals[statement.name] = Portal(
        parsed,
        PortalDescription(rows.columns, formats),
        rows=rows,
        scroll=None if statement.scroll is False else await _scroll(rows.batches),
        is_cursor=True,
        is_held=statement.hold,
        is_done=True,
        made=session.now(),
        declare=session.running,
    )
    return Done("DECLARE CURSOR")


async def _scroll(batches: Batches) -> Scroll | None:
    """All the rows, for going both ways; None for those of a subscription, which never end."""
    if isinstance(batches, Feed):
        return None
    kept = [batch async for batch in batches]
    return Scroll(pa.Table.from_batches(kept) if kept else None)


async def describe_declare(
    session: SqlSession, statement: ast.DeclareCursor, types: Sequence[PgType | None]
) -> StatementDescription:
    inner = Parsed(statement.statement, "", 0, ())
    return StatementDescription((await sequencer.describe(session, inner, types)).parameters, None)


async def fetch(session: SqlSession, statement: ast.Fetch, _: Parameters) -> Response:
    portal = session.portal(statement.cursor)
    if portal.rows is None and portal.parsed is not None and not portal.is_done:
        portal.is_done = True  # bound, and not run yet
        response = await sequencer.run(session, portal.parsed, portal.parameters)
        portal.rows = response if isinstance(response, Rows) else None
    if portal.rows is None:
        raise ForwardOnly(f'portal "{statement.cursor}" cannot be run')
    timeout_s = _timeout(statement.options)
    batches: Batches
    if portal.scroll is not None:
        batches = AtHand(portal.scroll.fetch(statement.direction, statement.count))
    else:
        skipped, count = _way(portal, statement)
        batches = _fetched(session, portal, skipped, count, timeout_s)
    if statement.move:
        moved = 0
        async for batch in batches:
            moved += batch.num_rows
        return Done(f"MOVE {moved}")
    if isinstance(portal.rows.batches, Feed) and timeout_s is None:
        session.watch.stop_clock()
    return Rows(portal.rows.columns, batches, "FETCH", formats=portal.description.formats)


async def describe_fetch(
    session: SqlSession, statement: ast.Fetch, _: Sequence[PgType | None]
) -> StatementDescription:
    found = session.portals.get(statement.cursor)
    if statement.move or found is None:
        return StatementDescription((), None)
    return StatementDescription((), found.description.columns)


def _way(portal: Portal, statement: ast.Fetch) -> tuple[int, int | None]:
    """How many rows to pass over, and how many to take then; None takes all."""
    count = statement.count
    match statement.direction:
        case Direction.FORWARD if count is None or count > 0:
            return 0, count
        case Direction.RELATIVE if count is not None and count > 0:
            return count - 1, 1
        case Direction.ABSOLUTE if count is not None and count > portal.position:
            return count - 1 - portal.position, 1
        case _ if count == 0 and portal.position == 0:
            return 0, 0  # there is no row before the first
    raise ForwardOnly(
        "cursor can only scan forward",
        detail="The rows that have been taken are not kept.",
        hint="Declare it with SCROLL option to enable backward scan.",
    )


async def _fetched(
    session: SqlSession,
    portal: Portal,
    skipped: int,
    count: int | None,
    timeout_s: float | None,
) -> Batches:
    if skipped:
        async for _ in _taken(session, portal, skipped, timeout_s):
            pass
    async for batch in _taken(session, portal, count, timeout_s):
        yield batch


def _taken(
    session: SqlSession, portal: Portal, count: int | None, timeout_s: float | None
) -> Batches:
    assert portal.rows is not None
    if isinstance(portal.rows.batches, Feed):
        return _as_they_come(portal, portal.rows.batches, count, timeout_s)
    return session.taken(portal, count)


async def _as_they_come(
    portal: Portal, feed: Feed, count: int | None, timeout_s: float | None
) -> Batches:
    """Rows of a subscription: without a timeout, what is there as soon as there is some."""
    clock = asyncio.get_running_loop().time
    deadline = None if timeout_s is None else clock() + timeout_s
    wait_s = timeout_s
    while count is None or count > 0:
        feed.check_right()
        batch = portal.left.pop(0) if portal.left else await feed.next_within(wait_s)
        if batch is None:
            return
        if count is not None and batch.num_rows > count:
            portal.left.insert(0, batch.slice(count))
            batch = batch.slice(0, count)
        if count is not None:
            count -= batch.num_rows
        portal.position += batch.num_rows
        yield batch
        wait_s = 0.0 if deadline is None else max(0.0, deadline - clock())


def _timeout(asked: tuple[Option, ...]) -> float | None:
    """How many seconds FETCH may wait for rows; None if nothing was said."""
    option = options.by_name(asked, ("timeout",)).get("timeout")
    if option is None:
        return None
    return options.milliseconds(option, bare="s") / 1000


async def close(session: SqlSession, statement: ast.CloseCursor, _: Parameters) -> Response:
    if statement.name is None:
        for name in list(session.portals):
            await session.drop_portal(name)
        return Done("CLOSE CURSOR ALL")
    session.portal(statement.name)
    await session.drop_portal(statement.name)
    return Done("CLOSE CURSOR")


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {
    ast.Prepare: prepare,
    ast.Execute: execute,
    ast.Deallocate: deallocate,
    ast.DeclareCursor: declare,
    ast.Fetch: fetch,
    ast.CloseCursor: close,
}
DESCRIBE: dict[type[Any], Callable[..., Awaitable[StatementDescription]]] = {
    ast.DeclareCursor: describe_declare,
    ast.Execute: describe_execute,
    ast.Fetch: describe_fetch,
    ast.Prepare: describe_prepare,
}
