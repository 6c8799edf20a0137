"""CREATE, ALTER and DROP of roles; GRANT and REVOKE; settings that sessions begin with.

Of a password only a verifier is kept, and only the verifier leaves this module.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from waterclock.adapter.api import Done, Notice, Response
from waterclock.adapter.credentials import SALT_BYTES, make_verifier, parse_verifier
from waterclock.adapter.errors import ObjectInUse, Unsupported
from waterclock.adapter.settings import Settings
from waterclock.catalog import privileges
from waterclock.catalog import roles as catalog_roles
from waterclock.catalog.catalog import NOWHERE, Catalog
from waterclock.catalog.draft import Draft
from waterclock.catalog.errors import PermissionDenied, UnknownObject
from waterclock.catalog.objects import Role
from waterclock.sql import ast
from waterclock.sql.ast.common import Identifier, ObjectKind, ObjectName
from waterclock.sql.ast.roles import Password, RoleAttributes, RoleSpec, RoleWord

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Parameters = Sequence[pa.Scalar]


def role_of(session: SqlSession, catalog: Catalog, spec: RoleSpec) -> Role:
    """The role that is named, or meant by a word; `UnknownObject`."""
    match spec:
        case Identifier(name):
            return catalog.role(name)
        case RoleWord.CURRENT_USER:
            return catalog.role(session.role.name)
        case RoleWord.SESSION_USER:
            return catalog.role(session.startup.user)
        case RoleWord.PUBLIC:
            raise UnknownObject('role "public" does not exist')


# Roles


async def create_role(session: SqlSession, statement: ast.CreateRole, _: Parameters) -> Response:
    name, asked = statement.name.name, statement.attributes
    flags = _flags(asked)
    verifier = await _verifier(session, asked.password)
    async with session.changing() as draft:
        catalog = draft.catalog
        privileges.check_create_role(catalog, session.role.oid)
        if asked.superuser:
            privileges.check_superuser(catalog, session.role.oid, "create superusers")
        if statement.if_not_exists and catalog.try_role(name) is not None:
            session.notify(Notice(f'role "{name}" already exists, skipping', sqlstate="42710"))
            return Done("CREATE ROLE")
        role = catalog_roles.create_role(draft, name, **flags, verifier=verifier)
        by = session.role.oid
        for spec in statement.in_roles:
            group = role_of(session, catalog, spec)
            _require_admin(session, catalog, group)
            catalog_roles.grant_role(draft, group, role, by=by)
        for specs, admin in ((statement.members, False), (statement.admins, True)):
            for spec in specs:
                member = role_of(session, catalog, spec)
                catalog_roles.grant_role(draft, role, member, by=by, admin=admin)
        await session.commit_draft(draft)
    return Done("CREATE ROLE")


async def alter_role(session: SqlSession, statement: ast.AlterRole, _: Parameters) -> Response:
    asked = statement.attributes
    changed: dict[str, bool | str | None] = dict(_flags(asked))
    if asked.password is not None:
        changed["verifier"] = await _verifier(session, asked.password)
    async with session.changing() as draft:
        role = role_of(session, draft.catalog, statement.name)
        only_own_password = role.oid == session.role.oid and set(changed) <= {"verifier"}
        if not only_own_password:
            require_right_over(session, draft.catalog, role, "alter superusers")
        if asked.superuser is not None:
            privileges.check_superuser(draft.catalog, session.role.oid, "alter superusers")
        catalog_roles.alter_role(draft, role, **changed)
        await session.commit_draft(draft)
    return Done("ALTER ROLE")


async def drop_roles(session: SqlSession, statement: ast.Drop) -> Response:
    """DROP ROLE of all that are named, or of none."""
    async with session.changing() as draft:
        for name in statement.names:
            role = draft.catalog.try_role(name.parts[-1])
            if role is None:
                missing = f'role "{name.parts[-1]}" does not exist'
                if not statement.if_exists:
                    raise UnknownObject(missing)
                session.notify(Notice(f"{missing}, skipping"))
                continue
            require_right_over(session, draft.catalog, role, "drop superusers")
            _require_unused(session, role)
            catalog_roles.drop_role(draft, role)
        await session.commit_draft(draft)
    return Done("DROP ROLE")


def require_right_over(session: SqlSession, catalog: Catalog, role: Role, what: str) -> None:
    """Raise unless the session may change the role; `what` needs a superuser if that is one."""
    if role.superuser:
        privileges.check_superuser(catalog, session.role.oid, what)
    elif not _may_create_roles(session, catalog):
        raise PermissionDenied("permission denied", detail="The role lacks CREATEROLE.")


def _may_create_roles(session: SqlSession, catalog: Catalog) -> bool:
    mine = catalog.get(session.role.oid, Role)
    return mine.superuser or mine.create_role


def _require_unused(session: SqlSession, role: Role) -> None:
    if role.oid == session.role.oid:
        raise ObjectInUse("current user cannot be dropped")
    if role.name == session.startup.user:
        raise ObjectInUse("session user cannot be dropped")
    if session.front.uses(role=role.name):
        raise ObjectInUse(
            f'role "{role.name}" cannot be dropped because it is logged in',
            hint="End its sessions first.",
        )


def _flags(asked: RoleAttributes) -> dict[str, bool]:
    """What is kept of a role's attributes; raises for those that would have no effect."""
    if asked.replication or asked.bypass_row_security or asked.create_cluster:
        words = "REPLICATION" if asked.replication else "BYPASSRLS"
        raise Unsupported(f"{'CREATECLUSTER' if asked.create_cluster else words} is not supported")
    if asked.connection_limit not in (None, -1):
        raise Unsupported("CONNECTION LIMIT of a role is not supported")
    if asked.valid_until not in (None, "infinity"):
        raise Unsupported("VALID UNTIL of a role is not supported")
    flags = {
        "login": asked.login,
        "superuser": asked.superuser,
        "inherit": asked.inherit,
        "create_role": asked.create_role,
        "create_database": asked.create_database,
    }
    return {name: value for name, value in flags.items() if value is not None}


async def _verifier(session: SqlSession, password: Password | None) -> str | None:
    if password is None or password.value is None:
        return None
    if password.value == "":
        session.notify(Notice("empty string is not a valid password, clearing password"))
        return None
    given = parse_verifier(password.value)
    if given is not None:
        return str(given)
    salt = os.urandom(SALT_BYTES)
    return str(await asyncio.to_thread(make_verifier, password.value, salt))


# Membership


async def grant_role(session: SqlSession, statement: ast.GrantRole, _: Parameters) -> Response:
    async with session.changing() as draft:
        catalog = draft.catalog
        for identifier in statement.roles:
            role = catalog.role(identifier.name)
            _require_admin(session, catalog, role)
            for spec in statement.grantees:
                member = role_of(session, catalog, spec)
                known = catalog.memberships.get((role.oid, member.oid))
                if known is not None and (known.admin or not statement.admin_option):
                    message = f'role "{member.name}" is already a member of role "{role.name}"'
                    session.notify(Notice(message))
                    continue
                by, admin = session.role.oid, statement.admin_option
                catalog_roles.grant_role(draft, role, member, by=by, admin=admin)
        await session.commit_draft(draft)
    return Done("GRANT ROLE")


async def revoke_role(session: SqlSession, statement: ast.RevokeRole, _: Parameters) -> Response:
    async with session.changing() as draft:
        for identifier in statement.roles:
            role = draft.catalog.role(identifier.name)
            _require_admin(session, draft.catalog, role)
            for spec in statement.grantees:
                member = role_of(session, draft.catalog, spec)
                only_admin = statement.only_admin_option
                if not catalog_roles.revoke_role(draft, role, member, only_admin=only_admin):
                    message = f'role "{member.name}" is not a member of role "{role.name}"'
                    session.notify(Notice(message, "WARNING", "01000"))
        await session.commit_draft(draft)
    return Done("REVOKE ROLE")


def _require_admin(session: SqlSession, catalog: Catalog, role: Role) -> None:
    """Raise unless the session may decide who is a member of the role."""
    mine = privileges.groups_of(catalog, session.role.oid)
    admins = {
        membership.member
        for membership in catalog.memberships.values()
        if membership.role == role.oid and membership.admin
    }
    if catalog.get(session.role.oid, Role).superuser or admins & mine:
        return
    if role.superuser or not _may_create_roles(session, catalog):
        raise PermissionDenied(f'must have admin option on role "{role.name}"')


# Settings


async def alter_setting(
    session: SqlSession, statement: ast.AlterSetting, _: Parameters
) -> Response:
    """What sessions of a role, in a database, or all of them begin with."""
    value = None
    if statement.setting is not None and statement.values is not None:
        value = _checked(statement.setting, ", ".join(statement.values))
    elif statement.setting is not None:
        Settings({}).get(statement.setting)
    async with session.changing() as draft:
        role, database, tag = _setting_target(session, draft, statement)
        if statement.setting is None:
            draft.reset_settings(role=role, database=database)
        else:
            name = statement.setting.lower()
            draft.set_setting(name, value, role=role, database=database)
        await session.commit_draft(draft)
    return Done(tag)


def _checked(name: str, value: str) -> str:
    """The value in its usual form; raises if the setting does not exist or can not have it."""
    trial = Settings({})
    trial.set(name, value)
    return trial.get(name)


def _setting_target(
    session: SqlSession, draft: Draft, statement: ast.AlterSetting
) -> tuple[Any, Any, str]:
    catalog, subject = draft.catalog, statement.subject
    if subject is None:
        privileges.check_superuser(catalog, session.role.oid, "change settings of all sessions")
        return NOWHERE, NOWHERE, "ALTER SYSTEM" if statement.kind is None else "ALTER ROLE"
    if statement.kind is ObjectKind.DATABASE:
        assert isinstance(subject, ObjectName)
        database = catalog.database(subject.parts[-1])
        privileges.check_owner(catalog, session.role.oid, database)
        return NOWHERE, database.oid, "ALTER DATABASE"
    assert not isinstance(subject, ObjectName)
    role = role_of(session, catalog, subject)
    if role.oid != session.role.oid:
        require_right_over(session, catalog, role, "alter superusers")
    return role.oid, NOWHERE, "ALTER ROLE"


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {
    ast.CreateRole: create_role,
    ast.AlterRole: alter_role,
    ast.GrantRole: grant_role,
    ast.RevokeRole: revoke_role,
    ast.AlterSetting: alter_setting,
}
