"""Roles and their memberships: making, changing, dropping."""

from __future__ import annotations

import msgspec

from waterclock.catalog.builtins import SYSTEM_ROLE
from waterclock.catalog.draft import Draft
from waterclock.catalog.errors import DependentsExist, InvalidGrant
from waterclock.catalog.grants import roles_in
from waterclock.catalog.objects import AnyObject, Membership, Oid, Owned, Role
from waterclock.catalog.privileges import groups_of


def create_role(
    draft: Draft,
    name: str,
    *,
    superuser: bool = False,
    login: bool = False,
    inherit: bool = True,
    create_role: bool = False,
    create_database: bool = False,
    verifier: str | None = None,
) -> Role:
    """A new role. Raises `DuplicateObject` and `NameReserved`."""
    role = Role(
        oid=draft.numbers.oid(),
        name=name,
        superuser=superuser,
        login=login,
        inherit=inherit,
        create_role=create_role,
        create_database=create_database,
        verifier=verifier,
    )
    draft.add(role)
    return role


def alter_role(draft: Draft, role: Role, **changed: bool | str | None) -> Role:
    """Change flags or the verifier, named as in `create_role`."""
    new = msgspec.structs.replace(role, **changed)
    assert (new.oid, new.name) == (role.oid, role.name), "a rename is not an alteration"
    draft.change(role, new)
    return new


def drop_role(draft: Draft, role: Role) -> None:
    """Drop the role with its memberships and settings.

    Raises `DependentsExist` while it owns something or takes part in a grant.
    """
    if role.oid == SYSTEM_ROLE:
        raise DependentsExist(
            f"cannot drop role {role.name} because it is required by the database system"
        )
    reasons = [
        line for each in draft.catalog.objects.values() for line in _reason(draft, role, each)
    ]
    if reasons:
        raise DependentsExist(
            f'role "{role.name}" cannot be dropped because some objects depend on it',
            detail="\n".join(reasons),
        )
    draft.remove(role)


def _reason(draft: Draft, role: Role, each: AnyObject) -> list[str]:
    if not isinstance(each, Owned):
        return []
    described = draft.catalog.described(each)
    if each.owner == role.oid:
        return [f"owner of {described}"]
    return [f"privileges for {described}"] if role.oid in roles_in(each) else []


def grant_role(draft: Draft, role: Role, member: Role, *, by: Oid, admin: bool = False) -> None:
    """Make `member` a member of `role`. Raises `InvalidGrant` if that would be circular."""
    if member.oid in groups_of(draft.catalog, role.oid):
        raise InvalidGrant(f'role "{role.name}" is a member of role "{member.name}"')
    known = draft.catalog.memberships.get((role.oid, member.oid))
    keeps_admin = known is not None and known.admin
    draft.set_membership(Membership(role.oid, member.oid, by, admin or keeps_admin))


def revoke_role(draft: Draft, role: Role, member: Role, *, only_admin: bool = False) -> bool:
    """End the membership, or only its right to give it on; False if there was none."""
    known = draft.catalog.memberships.get((role.oid, member.oid))
    if known is None:
        return False
    draft.remove_membership(known)
    if only_admin:
        draft.set_membership(msgspec.structs.replace(known, admin=False))
    return True
