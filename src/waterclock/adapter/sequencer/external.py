"""CREATE of clusters, secrets and connections, ALTER SECRET, VALIDATE CONNECTION; and REFRESH.

A cluster is a name. REFRESH does nothing. A secret is sealed before it goes anywhere. A connection
is a definition for whoever reads from another system: its options are checked here
(`connection_options`), and used there. Before one is made, the system that it leads to is asked
whether it can be used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import pyarrow as pa

from waterclock.adapter.api import Done, Notice, Response
from waterclock.adapter.connections import settings_from
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planning import name_of
from waterclock.adapter.secrets import SecretBox
from waterclock.adapter.sequencer import connection_options
from waterclock.adapter.sequencer.naming import full_name
from waterclock.adapter.sequencer.secret_options import secret_named
from waterclock.catalog import items, privileges
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.draft import Draft
from waterclock.catalog.items import Site
from waterclock.catalog.objects import Connection, Item, MaterializedView, Privilege, Secret
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import TEXT
from waterclock.sql import ast, options
from waterclock.sql.ast.common import (
    ExpressionText,
    ListValue,
    NameValue,
    NumberValue,
    ObjectName,
    Option,
    OptionValue,
    SecretValue,
    StringValue,
)
from waterclock.sql.binding import bind_values
from waterclock.sql.printing import create_text
from waterclock.storage.sources.validation import ConnectionUnusable, validate

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Parameters = Sequence[pa.Scalar]


class NoKey(WaterclockError):
    """The server has no key to seal secrets with."""

    sqlstate: ClassVar[str] = "55000"


class InvalidSecret(WaterclockError):
    """The value of a secret can not be had from what was written."""

    sqlstate: ClassVar[str] = "22023"


# Clusters

_CLUSTER_OPTIONS = (
    "size",
    "replicas",
    "managed",
    "replication factor",
    "introspection interval",
    "introspection debugging",
    "schedule",
    "disk",
)


async def create_cluster(
    session: SqlSession, statement: ast.CreateCluster, _: Parameters
) -> Response:
    """A name for a place to run things in; there is one place, whatever the options say."""
    options.by_name(statement.options, _CLUSTER_OPTIONS)
    name = statement.name.name
    async with session.changing() as draft:
        privileges.check_superuser(draft.catalog, session.role.oid, "create clusters")
        if statement.if_not_exists and draft.catalog.try_cluster(name) is not None:
            return _exists(session, f'cluster "{name}"', "CREATE CLUSTER")
        items.create_cluster(draft, name, session.role.oid)
        await session.commit_draft(draft)
    return Done("CREATE CLUSTER")


# Secrets


async def create_secret(
    session: SqlSession, statement: ast.CreateSecret, parameters: Parameters
) -> Response:
    box, value = _box(session), _secret_value(session, statement.value, parameters)
    async with session.changing() as draft:
        site = _site(session, draft, statement.name)
        if statement.if_not_exists and _is_taken(session, draft.catalog, statement.name):
            return _exists(session, f'secret "{site.name}"', "CREATE SECRET")
        empty = items.create_secret(draft, site, b"")
        items.alter_secret(draft, empty, box.seal(empty.id, value))
        await session.commit_draft(draft)
    return Done("CREATE SECRET")


async def alter_secret(
    session: SqlSession, statement: ast.AlterSecret, parameters: Parameters
) -> Response:
    box, value = _box(session), _secret_value(session, statement.value, parameters)
    async with session.changing() as draft:
        name = name_of(statement.name.parts)
        if statement.if_exists and draft.catalog.find(name, session.scope) is None:
            session.notify(Notice(f'secret "{name}" does not exist, skipping'))
            return Done("ALTER SECRET")
        secret = draft.catalog.named(Secret, name, session.scope)
        privileges.check_owner(draft.catalog, session.role.oid, secret)
        items.alter_secret(draft, secret, box.seal(secret.id, value))
        await session.commit_draft(draft)
    return Done("ALTER SECRET")


def _box(session: SqlSession) -> SecretBox:
    box = session.front.core.secrets
    if box is None:
        raise NoKey(
            "secrets can not be kept here",
            detail="The server was started without a key file.",
        )
    return box


def _secret_value(session: SqlSession, written: ExpressionText, parameters: Parameters) -> bytes:
    """The value of a constant. It goes nowhere where it could be logged, so not to an engine."""
    try:
        found = bind_values([[written]], [TEXT], facts=session.facts(), parameters=parameters)
    except WaterclockError as error:
        raise InvalidSecret("the value of a secret is not valid") from error.with_traceback(None)
    value = None if found is None else found.column(0)[0].as_py()
    if not isinstance(value, str):
        raise InvalidSecret("the value of a secret must be a string constant")
    return value.encode()


# Connections


async def create_connection(
    session: SqlSession, statement: ast.CreateConnection, _: Parameters
) -> Response:
    if statement.or_replace:
        raise Unsupported("CREATE OR REPLACE CONNECTION is not supported")
    if not connection_options.is_known(statement.kind):
        raise Unsupported(f"CREATE CONNECTION TO {statement.kind.upper()} is not supported")
    connection_options.check(statement)
    if connection_options.wants_validation(statement):
        await _validate_new(session, statement)
    async with session.changing() as draft:
        site = _site(session, draft, statement.name)
        if statement.if_not_exists and _is_taken(session, draft.catalog, statement.name):
            return _exists(session, f'connection "{site.name}"', "CREATE CONNECTION")
        given, definition, used = _definition(session, draft.catalog, statement)
        complete = replace(
            statement,
            name=full_name(draft.catalog, site.namespace, site.name),
            connection_options=given,
            if_not_exists=False,
            options=(),
        )
        kept, sql = msgspec.msgpack.encode(definition), create_text(complete)
        items.create_connection(draft, site, statement.kind, sql, kept, used)
        await session.commit_draft(draft)
    return Done("CREATE CONNECTION")


async def _validate_new(session: SqlSession, statement: ast.CreateConnection) -> None:
    """Ask the system that a connection is about to lead to. Nothing is held meanwhile."""
    core = session.front.core
    catalog, name = core.current, statement.name
    namespace = catalog.target(name_of(name.parts), session.scope)
    privileges.check(catalog, session.role.oid, namespace, Privilege.CREATE)
    if _is_taken(session, catalog, name):
        return  # as the change itself will say
    _, definition, _ = _definition(session, catalog, statement)
    own = settings_from(catalog, name.parts[-1], statement.kind, definition, core.secrets)
    try:
        await asyncio.to_thread(validate, own)
    except ConnectionUnusable as error:
        raise ConnectionUnusable(
            error.message,
            detail=error.detail,
            hint=f"{error.hint} WITH (VALIDATE = false) creates it without asking.",
        ) from None


def _definition(
    session: SqlSession, catalog: Catalog, statement: ast.CreateConnection
) -> tuple[tuple[Option, ...], dict[str, Any], list[GlobalId]]:
    """The options with full names, the same for whoever uses them, and the secrets in them."""
    if connection_options.borrows_identity(statement):
        what = "create connections without keys of their own"
        privileges.check_superuser(catalog, session.role.oid, what)
    secrets: dict[tuple[str, ...], Secret] = {}
    given = tuple(
        replace(each, value=_complete(session, catalog, each.value, secrets))
        for each in statement.connection_options
    )
    ids = {name: secret.id for name, secret in secrets.items()}
    definition = {option.name: _plain(option.value, ids) for option in given}
    return given, definition, list(dict.fromkeys(ids.values()))


async def validate_connection(
    session: SqlSession, statement: ast.ValidateConnection, _: Parameters
) -> Response:
    core = session.front.core
    found = core.current.named(Connection, name_of(statement.name.parts), session.scope)
    privileges.check(core.current, session.role.oid, found, Privilege.USAGE)
    await asyncio.to_thread(validate, core.connection_settings(found.id))
    return Done("VALIDATE CONNECTION")


def _complete(
    session: SqlSession,
    catalog: Catalog,
    value: OptionValue | None,
    secrets: dict[tuple[str, ...], Secret],
) -> OptionValue | None:
    """The value with the full names of secrets, which are found and may be used."""
    match value:
        case SecretValue(name):
            secret, complete_name = secret_named(session, catalog, name)
            secrets[complete_name.name.parts] = secret
            return complete_name
        case ListValue(found):
            complete = (_complete(session, catalog, each, secrets) for each in found)
            return ListValue(tuple(each for each in complete if each is not None))
        case _:
            return value


def _plain(value: OptionValue | None, secrets: Mapping[tuple[str, ...], GlobalId]) -> Any:
    """The value for whoever uses the connection; a secret is its id."""
    match value:
        case None:
            return None
        case StringValue(text) | NumberValue(text) | ExpressionText(text):
            return text
        case NameValue(name):
            return ".".join(name.parts)
        case SecretValue(name):
            return {"secret": str(secrets[name.parts])}
        case ListValue(found):
            return [_plain(each, secrets) for each in found]


# Materialized views


async def refresh(
    session: SqlSession, statement: ast.RefreshMaterializedView, _: Parameters
) -> Response:
    """Nothing is to do: whoever reads the view sees all that was committed before."""
    name = name_of(statement.name.parts)
    session.front.core.current.named(MaterializedView, name, session.scope)
    if not statement.with_data:
        raise Unsupported(
            "REFRESH MATERIALIZED VIEW ... WITH NO DATA is not supported",
            hint="A materialized view is always up to date.",
        )
    return Done("REFRESH MATERIALIZED VIEW")


# Shared


def _site(session: SqlSession, draft: Draft, name: ObjectName) -> Site:
    namespace = draft.catalog.target(name_of(name.parts), session.scope)
    privileges.check(draft.catalog, session.role.oid, namespace, Privilege.CREATE)
    return Site(namespace.oid, name.parts[-1], session.role.oid)


def _is_taken(session: SqlSession, catalog: Catalog, name: ObjectName) -> bool:
    namespace = catalog.target(name_of(name.parts), session.scope)
    full = full_name(catalog, namespace.oid, name.parts[-1])
    return isinstance(catalog.find(name_of(full.parts), session.scope), Item)


def _exists(session: SqlSession, what: str, tag: str) -> Response:
    session.notify(Notice(f"{what} already exists, skipping", sqlstate="42710"))
    return Done(tag)


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {
    ast.CreateCluster: create_cluster,
    ast.CreateSecret: create_secret,
    ast.AlterSecret: alter_secret,
    ast.CreateConnection: create_connection,
    ast.ValidateConnection: validate_connection,
    ast.RefreshMaterializedView: refresh,
}
