"""GRANT and REVOKE on objects, and what becomes of grants when an owner changes.

Who gives is the owner, or a role that was given the right to give on; a superuser and a member of
the owner give in the owner's name. What rests on a right to give on goes with it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from waterclock.catalog.catalog import Catalog
from waterclock.catalog.draft import Draft
from waterclock.catalog.errors import DependentsExist, InvalidGrant, PermissionDenied
from waterclock.catalog.objects import PUBLIC, AnyOwned, Grant, Oid, Privilege
from waterclock.catalog.privileges import grants_of, owns, privileges_of, roles_of

Rights = dict[tuple[Oid, Oid], tuple[frozenset[Privilege], frozenset[Privilege]]]
"""By grantee and grantor: what may be done, and what of it may be given on."""

_NONE: tuple[frozenset[Privilege], frozenset[Privilege]] = (frozenset(), frozenset())


def grant(
    draft: Draft,
    target: AnyOwned,
    privileges: Iterable[Privilege],
    grantees: Iterable[Oid],
    *,
    by: Oid,
    grant_option: bool = False,
) -> None:
    """Give the privileges on the object to the grantees, of which `PUBLIC` may be one.

    Raises `InvalidGrant` and `PermissionDenied`.
    """
    given = _checked(target, privileges)
    grantor = _grantor(draft.catalog, target, given, by)
    rights = _rights(target)
    for grantee in grantees:
        if grantee == PUBLIC and grant_option:
            raise InvalidGrant("grant options can only be granted to roles")
        had, could_give = rights.get((grantee, grantor), _NONE)
        rights[grantee, grantor] = (had | given, could_give | given if grant_option else could_give)
    _store(draft, target, rights)


def revoke(
    draft: Draft,
    target: AnyOwned,
    privileges: Iterable[Privilege],
    grantees: Iterable[Oid],
    *,
    by: Oid,
    only_grant_option: bool = False,
    cascade: bool = False,
) -> None:
    """Take the privileges, or only the right to give them on, back from the grantees.

    Raises `DependentsExist` if somebody has given one on meanwhile, unless `cascade`.
    """
    taken = _checked(target, privileges)
    grantor = _grantor(draft.catalog, target, taken, by)
    rights = _rights(target)
    for grantee in grantees:
        had, could_give = rights.get((grantee, grantor), _NONE)
        kept = had if only_grant_option else had - taken
        rights[grantee, grantor] = (kept, could_give - taken)
    _settle(target, rights, cascade)
    _store(draft, target, rights)


def change_owner(draft: Draft, target: AnyOwned, owner: Oid) -> AnyOwned:
    """Make another role the owner. What the old one had and gave is the new one's."""
    new = msgspec.structs.replace(target, owner=owner)
    if target.grants is not None:
        moved: Rights = {}
        for each in target.grants:
            key = tuple(owner if role == target.owner else role for role in _key(each))
            had, could_give = moved.get((key[0], key[1]), _NONE)
            moved[key[0], key[1]] = (had | each.privileges, could_give | each.grantable)
        new = msgspec.structs.replace(new, grants=_written(moved))
    draft.change(target, new)
    return new


def roles_in(target: AnyOwned) -> frozenset[Oid]:
    """The roles that what is granted on the object mentions, the owner aside."""
    mentioned = {role for each in target.grants or () for role in _key(each)}
    return frozenset(mentioned - {PUBLIC, target.owner})


def _checked(target: AnyOwned, privileges: Iterable[Privilege]) -> frozenset[Privilege]:
    asked = frozenset(privileges)
    for privilege in Privilege:
        if privilege in asked and privilege not in privileges_of(target):
            raise InvalidGrant(f"invalid privilege type {privilege.name} for {target.kind}")
    return asked


def _grantor(catalog: Catalog, target: AnyOwned, given: frozenset[Privilege], by: Oid) -> Oid:
    """In whose name the grant is made."""
    if owns(catalog, by, target):
        return target.owner
    mine = sorted(roles_of(catalog, by) - {by})
    for role in (by, *mine):
        if all(_may_give(_rights(target), target.owner, role, each) for each in given):
            return role
    raise PermissionDenied(f"permission denied for {target.kind} {target.name}")


def _rights(target: AnyOwned) -> Rights:
    return {_key(each): (each.privileges, each.grantable) for each in grants_of(target)}


def _key(each: Grant) -> tuple[Oid, Oid]:
    return (each.grantee, each.grantor)


def _may_give(rights: Rights, owner: Oid, role: Oid, privilege: Privilege) -> bool:
    return role == owner or any(
        grantee == role and privilege in could_give
        for (grantee, _), (_, could_give) in rights.items()
    )


def _settle(target: AnyOwned, rights: Rights, cascade: bool) -> None:
    """Take back what was given by somebody who may no longer give it, until nothing is left.

    A circle of givers keeps nothing alive: what counts is a path from the owner.
    """
    rooted = _rooted(rights, target.owner)
    for key, (had, could_give) in list(rights.items()):
        kept = frozenset(each for each in had if (key[1], each) in rooted)
        if kept != had and not cascade:
            raise DependentsExist(
                "dependent privileges exist", hint="Use CASCADE to revoke them too."
            )
        rights[key] = (kept, could_give & kept)


def _rooted(rights: Rights, owner: Oid) -> set[tuple[Oid, Privilege]]:
    """Who may give what, counting only rights that lead back to the owner."""
    rooted = {(owner, privilege) for privilege in Privilege}
    grown = True
    while grown:
        new = {
            (grantee, privilege)
            for (grantee, grantor), (_, could_give) in rights.items()
            for privilege in could_give
            if (grantor, privilege) in rooted
        }
        grown = not new <= rooted
        rooted |= new
    return rooted


def _written(rights: Rights) -> tuple[Grant, ...]:
    return tuple(
        Grant(grantee, grantor, had, could_give)
        for (grantee, grantor), (had, could_give) in rights.items()
        if had
    )


def _store(draft: Draft, target: AnyOwned, rights: Rights) -> None:
    draft.change(target, msgspec.structs.replace(target, grants=_written(rights)))
