"""BEGIN, COMMIT, ROLLBACK, SAVEPOINT and SET TRANSACTION.

Writes are kept until the end of the transaction, so going back to a savepoint forgets those that
came after it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from waterclock.adapter.api import Done, Notice, Response
from waterclock.adapter.errors import NotInBlock, UnknownSavepoint
from waterclock.sql import ast
from waterclock.sql.ast.session import Isolation, TransactionModes

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Parameters = Sequence[pa.Scalar]


async def begin(session: SqlSession, statement: ast.Begin, _: Parameters) -> Response:
    if session.transaction.in_block:
        warning = "there is already a transaction in progress"
        session.notify(Notice(warning, "WARNING", "25001"))
    session.transaction.in_block = True
    session.settings.begin()
    _apply(session, statement.modes, local=True)
    if session.settings.get("default_transaction_read_only") == "on":
        session.transaction.read_only = statement.modes.read_only is not False
    return Done("START TRANSACTION" if statement.is_start else "BEGIN")


async def commit(session: SqlSession, statement: ast.Commit, _: Parameters) -> Response:
    failed = session.transaction.has_failed
    _require_block(session)
    await session.commit()
    session.transaction.in_block = statement.chain
    return Done("ROLLBACK" if failed else "COMMIT")


async def rollback(session: SqlSession, statement: ast.Rollback, _: Parameters) -> Response:
    _require_block(session)
    await session.rollback()
    session.transaction.in_block = statement.chain
    return Done("ROLLBACK")


async def savepoint(session: SqlSession, statement: ast.Savepoint, _: Parameters) -> Response:
    if not session.transaction.in_block:
        raise NotInBlock("SAVEPOINT can only be used in transaction blocks")
    session.transaction.set_savepoint(statement.name, session.locks.of_transaction)
    return Done("SAVEPOINT")


async def release(session: SqlSession, statement: ast.ReleaseSavepoint, _: Parameters) -> Response:
    if not session.transaction.in_block:
        raise NotInBlock("RELEASE SAVEPOINT can only be used in transaction blocks")
    if not session.transaction.release_savepoint(statement.name):
        raise UnknownSavepoint(f'savepoint "{statement.name}" does not exist')
    return Done("RELEASE")


async def rollback_to(
    session: SqlSession, statement: ast.RollbackToSavepoint, _: Parameters
) -> Response:
    if not session.transaction.in_block:
        raise NotInBlock("ROLLBACK TO SAVEPOINT can only be used in transaction blocks")
    if not session.transaction.return_to_savepoint(statement.name):
        raise UnknownSavepoint(f'savepoint "{statement.name}" does not exist')
    session.locks.end_transaction(kept=session.transaction.locks_before)
    return Done("ROLLBACK")


async def set_transaction(
    session: SqlSession, statement: ast.SetTransaction, _: Parameters
) -> Response:
    _apply(session, statement.modes, local=not statement.session)
    return Done("SET")


def _require_block(session: SqlSession) -> None:
    if not session.transaction.in_block:
        session.notify(Notice("there is no transaction in progress", "WARNING", "25P01"))


def _apply(session: SqlSession, modes: TransactionModes, *, local: bool) -> None:
    if modes.isolation is not None:
        # What is weaker than serializable gets more than it asks for.
        asked = modes.isolation is Isolation.SERIALIZABLE
        chosen = "serializable" if asked else "strict serializable"
        name = "transaction_isolation" if local else "default_transaction_isolation"
        session.settings.set(name, chosen, local=local)
    if modes.read_only is not None:
        if local:
            session.transaction.read_only = modes.read_only
        else:
            value = "on" if modes.read_only else "off"
            session.settings.set("default_transaction_read_only", value)


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {
    ast.Begin: begin,
    ast.Commit: commit,
    ast.Rollback: rollback,
    ast.Savepoint: savepoint,
    ast.ReleaseSavepoint: release,
    ast.RollbackToSavepoint: rollback_to,
    ast.SetTransaction: set_transaction,
}
