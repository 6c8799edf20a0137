"""SET, RESET, SHOW of settings, DISCARD, and channels, which exist in name only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from waterclock.adapter.api import (
    ColumnDescription,
    Done,
    Notice,
    Response,
    Rows,
    StatementDescription,
)
from waterclock.adapter.errors import NotInBlock, Unsupported
from waterclock.adapter.results import in_batches
from waterclock.catalog import privileges
from waterclock.catalog.errors import PermissionDenied
from waterclock.model.pg_types import TEXT, PgType
from waterclock.sql import ast
from waterclock.sql.ast.session import Discarded, SettingScope

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Parameters = Sequence[pa.Scalar]


async def set_setting(session: SqlSession, statement: ast.SetSetting, _: Parameters) -> Response:
    name, local = statement.name, statement.scope is SettingScope.LOCAL
    if local and not session.transaction.in_block:
        session.notify(
            Notice("SET LOCAL can only be used in transaction blocks", "WARNING", "25P01")
        )
        return Done("SET")
    if name.lower() == "role":
        _become(session, statement.values[0] if statement.values else "none")
    elif statement.values is None:
        session.settings.reset(name)
    elif name.lower() == "session_authorization":
        raise Unsupported("SET SESSION AUTHORIZATION is not supported", hint="Connect anew.")
    else:
        session.settings.set(name, ", ".join(statement.values), local=local)
    return Done("SET")


def _become(session: SqlSession, name: str) -> None:
    """Act as another role that one is a member of; `none` is who logged in."""
    catalog = session.front.core.current
    login = catalog.role(session.startup.user)
    if name == "none":
        session.role = login
        session.settings.set("role", "none")
        return
    role = catalog.role(name)
    if not privileges.may_become(catalog, login.oid, role.oid):
        raise PermissionDenied(f'permission denied to set role "{name}"')
    session.role = role
    session.settings.set("role", name)


async def reset_setting(
    session: SqlSession, statement: ast.ResetSetting, _: Parameters
) -> Response:
    if statement.name is not None and statement.name.lower() == "role":
        _become(session, "none")
        return Done("RESET")
    session.settings.reset(statement.name)
    if session.role.name != session.startup.user:  # RESET ALL does not change who one acts as
        session.settings.set("role", session.role.name)
    return Done("RESET")


async def show_setting(session: SqlSession, statement: ast.ShowSetting, _: Parameters) -> Response:
    columns = _shown(session, statement)
    if statement.name is None:
        values = session.settings.all()
        rows = [list(values), list(values.values()), [""] * len(values)]
    else:
        rows = [[session.settings.get(statement.name)]]
    names = [f"c{place}" for place in range(len(rows))]
    table = pa.table([pa.array(column, pa.string()) for column in rows], names=names)
    return Rows(columns, in_batches(table), "SHOW", counted=False)


async def describe_show(
    session: SqlSession, statement: ast.ShowSetting, _: Sequence[PgType | None]
) -> StatementDescription:
    return StatementDescription((), _shown(session, statement))


def _shown(session: SqlSession, statement: ast.ShowSetting) -> tuple[ColumnDescription, ...]:
    if statement.name is None:
        return tuple(ColumnDescription(name, TEXT) for name in ("name", "setting", "description"))
    return (ColumnDescription(session.settings.shown_name(statement.name), TEXT),)


async def discard(session: SqlSession, statement: ast.Discard, _: Parameters) -> Response:
    if statement.what is Discarded.ALL:
        if session.transaction.in_block:
            raise NotInBlock("DISCARD ALL cannot run inside a transaction block")
        for name in list(session.portals):
            await session.drop_portal(name)
        session.statements.clear()
        session.settings.reset(None)
        session.locks.unlock_all()
        _become(session, "none")
    elif statement.what is Discarded.PLANS:
        pass  # plans are kept by their text and are right whatever happens
    return Done(f"DISCARD {statement.what.value}")


async def unlisten(_: SqlSession, __: ast.Unlisten, ___: Parameters) -> Response:
    return Done("UNLISTEN")  # there is nothing one could have listened to


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {
    ast.SetSetting: set_setting,
    ast.ResetSetting: reset_setting,
    ast.ShowSetting: show_setting,
    ast.Discard: discard,
    ast.Unlisten: unlisten,
}
DESCRIBE: dict[type[Any], Callable[..., Awaitable[StatementDescription]]] = {
    ast.ShowSetting: describe_show
}
