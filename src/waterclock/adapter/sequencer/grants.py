"""GRANT and REVOKE of privileges on objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from waterclock.adapter.api import Done, Response
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planning import name_of
from waterclock.adapter.sequencer.objects import ITEM_KINDS, named
from waterclock.adapter.sequencer.roles import role_of
from waterclock.catalog import grants
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.objects import PUBLIC, AnyOwned, Item, Oid, Privilege, Relation
from waterclock.catalog.privileges import privileges_of
from waterclock.sql import ast
from waterclock.sql.ast import roles as written
from waterclock.sql.ast.common import ObjectKind, ObjectName
from waterclock.sql.errors import SyntaxFault

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Parameters = Sequence[pa.Scalar]
_KNOWN = {privilege.name: privilege for privilege in Privilege}
_OF_POSTGRES = frozenset(
    {"TRUNCATE", "REFERENCES", "TRIGGER", "CONNECT", "TEMPORARY", "TEMP", "EXECUTE", "SET"}
    | {"ALTER SYSTEM", "MAINTAIN", "CREATEROLE", "CREATEDB", "CREATECLUSTER"}
)


async def grant(session: SqlSession, statement: ast.GrantPrivileges, _: Parameters) -> Response:
    asked = _privileges(statement.privileges)
    async with session.changing() as draft:
        grantees = _grantees(session, draft.catalog, statement.grantees)
        for found in _targets(session, draft.catalog, statement.target):
            target = draft.catalog.get(found.oid, type(found))
            given = asked or privileges_of(target)
            by, option = session.role.oid, statement.grant_option
            grants.grant(draft, target, given, grantees, by=by, grant_option=option)
        await session.commit_draft(draft)
    return Done("GRANT")


async def revoke(session: SqlSession, statement: ast.RevokePrivileges, _: Parameters) -> Response:
    asked = _privileges(statement.privileges)
    async with session.changing() as draft:
        grantees = _grantees(session, draft.catalog, statement.grantees)
        for found in _targets(session, draft.catalog, statement.target):
            target = draft.catalog.get(found.oid, type(found))
            grants.revoke(
                draft,
                target,
                asked or privileges_of(target),
                grantees,
                by=session.role.oid,
                only_grant_option=statement.only_grant_option,
                cascade=statement.cascade,
            )
        await session.commit_draft(draft)
    return Done("REVOKE")


def _privileges(asked: Sequence[written.Privilege]) -> frozenset[Privilege]:
    """What is asked for; nothing stands for all that there is."""
    found = set()
    for each in asked:
        if each.columns:
            raise Unsupported("privileges on columns are not supported")
        if each.name in _OF_POSTGRES:
            raise Unsupported(f"privilege {each.name} is not supported")
        if each.name not in _KNOWN:
            raise SyntaxFault(f'unrecognized privilege type "{each.name.lower()}"')
        found.add(_KNOWN[each.name])
    return frozenset(found)


def _grantees(
    session: SqlSession, catalog: Catalog, specs: Iterable[written.RoleSpec]
) -> list[Oid]:
    return [
        PUBLIC if spec is written.RoleWord.PUBLIC else role_of(session, catalog, spec).oid
        for spec in specs
    ]


def _targets(session: SqlSession, catalog: Catalog, target: written.GrantTarget) -> list[AnyOwned]:
    match target:
        case written.TheseObjects(kind, names):
            return [_object(session, catalog, kind, name) for name in names]
        case written.AllInSchemas(kind, schemas):
            return [
                item
                for schema in schemas
                for item in catalog.items(_schema(session, catalog, schema).oid)
                if isinstance(item, _sort(kind)) and item.part_of is None
            ]
        case written.WholeSystem():
            raise Unsupported("privileges ON SYSTEM are not supported")


def _schema(session: SqlSession, catalog: Catalog, name: ObjectName) -> AnyOwned:
    return named(session, catalog, ObjectKind.SCHEMA, name)


def _object(session: SqlSession, catalog: Catalog, kind: ObjectKind, name: ObjectName) -> AnyOwned:
    if kind is ObjectKind.TABLE:  # as in PostgreSQL it stands for anything that can be read
        return catalog.relation(name_of(name.parts), session.scope)
    return named(session, catalog, kind, name)


def _sort(kind: ObjectKind) -> type[Item]:
    return Relation if kind is ObjectKind.TABLE else ITEM_KINDS[kind]


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {
    ast.GrantPrivileges: grant,
    ast.RevokePrivileges: revoke,
}
