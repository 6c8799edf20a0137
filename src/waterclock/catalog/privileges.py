"""Who may do what: superusers, owners, members, grants, and everybody.

As in PostgreSQL: a superuser may everything; the owner of an object, and whoever has the owner's
rights by membership, may everything with it; others may what was granted to them, to a role whose
rights they inherit, or to PUBLIC. An object without grants has those that are usual for its kind.

`check` and its siblings raise; they change nothing. Granting is in `grants`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from waterclock.catalog.catalog import Catalog
from waterclock.catalog.errors import PermissionDenied
from waterclock.catalog.objects import (
    PUBLIC,
    AnyOwned,
    AnyRelation,
    Cluster,
    Connection,
    Database,
    Grant,
    Index,
    MaterializedView,
    Namespace,
    Oid,
    Privilege,
    Relation,
    Role,
    Secret,
    Source,
    SourceProgress,
    Subsource,
    Table,
    View,
)

RELATION_PRIVILEGES = frozenset(
    {Privilege.SELECT, Privilege.INSERT, Privilege.UPDATE, Privilege.DELETE}
)
_PLACE_PRIVILEGES = frozenset({Privilege.USAGE, Privilege.CREATE})
_USAGE = frozenset({Privilege.USAGE})


def privileges_of(kind: AnyOwned) -> frozenset[Privilege]:
    """What can be granted on such an object."""
    match kind:
        case Database() | Namespace() | Cluster():
            return _PLACE_PRIVILEGES
        case Table() | View() | MaterializedView() | Source() | Subsource() | SourceProgress():
            return RELATION_PRIVILEGES
        case Connection() | Secret():
            return _USAGE
        case Index():
            return frozenset()
        case _:
            assert_never(kind)


def grants_of(found: AnyOwned) -> tuple[Grant, ...]:
    """What is granted on the object, be it written down or usual.

    Usually the owner has all there is, and everybody may use a database or a cluster.
    """
    if found.grants is not None:
        return found.grants
    everything = privileges_of(found)
    usual = (Grant(found.owner, found.owner, everything),) if everything else ()
    if isinstance(found, Database | Cluster):
        return (Grant(PUBLIC, found.owner, _USAGE), *usual)
    return usual


def acl_text(catalog: Catalog, found: AnyOwned) -> tuple[str, ...] | None:
    """The grants in PostgreSQL's text form, such as `reader=r/owner`; None if they are usual."""
    if found.grants is None:
        return None
    return tuple(_acl_item(catalog, grant) for grant in found.grants)


def _acl_item(catalog: Catalog, grant: Grant) -> str:
    grantee = "" if grant.grantee == PUBLIC else catalog.get(grant.grantee, Role).name
    letters = "".join(
        privilege.value + ("*" if privilege in grant.grantable else "")
        for privilege in Privilege
        if privilege in grant.privileges
    )
    return f"{grantee}={letters}/{catalog.get(grant.grantor, Role).name}"


def roles_of(catalog: Catalog, role: Oid) -> frozenset[Oid]:
    """The role and all whose rights it has without asking for them."""
    return _reached(catalog, role, only_inherited=True)


def may_become(catalog: Catalog, role: Oid, other: Oid) -> bool:
    """Whether the role is a member of the other, directly or not, so that it can act as it."""
    return catalog.get(role, Role).superuser or other in groups_of(catalog, role)


def groups_of(catalog: Catalog, role: Oid) -> frozenset[Oid]:
    """The role and all that it is a member of, directly or not."""
    return _reached(catalog, role, only_inherited=False)


def _reached(catalog: Catalog, role: Oid, *, only_inherited: bool) -> frozenset[Oid]:
    granted: dict[Oid, list[Oid]] = {}
    for of, member in catalog.memberships:
        granted.setdefault(member, []).append(of)
    reached, rest = {role}, [role]
    while rest:
        member = rest.pop()
        if only_inherited and not catalog.get(member, Role).inherit:
            continue
        new = [of for of in granted.get(member, ()) if of not in reached]
        reached.update(new)
        rest += new
    return frozenset(reached)


def owns(catalog: Catalog, role: Oid, found: AnyOwned) -> bool:
    """Whether the role may do with the object as its owner may."""
    return (
        found.owner == role
        or catalog.get(role, Role).superuser
        or found.owner in roles_of(catalog, role)
    )


def has(catalog: Catalog, role: Oid, found: AnyOwned, privilege: Privilege) -> bool:
    """Whether the role may do that with the object."""
    if catalog.get(role, Role).superuser:
        return True
    mine = roles_of(catalog, role)
    return any(
        privilege in grant.privileges and (grant.grantee == PUBLIC or grant.grantee in mine)
        for grant in grants_of(found)
    )


def check(catalog: Catalog, role: Oid, found: AnyOwned, privilege: Privilege) -> None:
    """Raise `PermissionDenied` unless the role has the privilege.

    For something in a schema, USAGE of the schema is asked for too.
    """
    if not isinstance(found, Database | Namespace | Cluster):
        check(catalog, role, catalog.get(found.namespace, Namespace), Privilege.USAGE)
    if not has(catalog, role, found, privilege):
        raise PermissionDenied(f"permission denied for {found.kind} {found.name}")


def check_read(catalog: Catalog, role: Oid, relations: Iterable[AnyRelation]) -> None:
    """Raise unless the role may read these, and the owners of views what the views read."""
    for relation in relations:
        check(catalog, role, relation, Privilege.SELECT)
        if isinstance(relation, View):
            used = [catalog.item(used) for used in relation.uses]
            check_read(catalog, relation.owner, [u for u in used if isinstance(u, Relation)])


def check_owner(catalog: Catalog, role: Oid, found: AnyOwned) -> None:
    """Raise unless the role may alter and drop the object."""
    if not owns(catalog, role, found):
        raise PermissionDenied(f"must be owner of {found.kind} {found.name}")


def check_create_role(catalog: Catalog, role: Oid) -> None:
    """Raise unless the role may make and change roles that are no superusers."""
    found = catalog.get(role, Role)
    if not (found.superuser or found.create_role):
        raise PermissionDenied("permission denied to create role")


def check_superuser(catalog: Catalog, role: Oid, what: str) -> None:
    """Raise unless the role is a superuser; `what` is what only those may do."""
    if not catalog.get(role, Role).superuser:
        raise PermissionDenied(f"must be superuser to {what}")


def check_create_database(catalog: Catalog, role: Oid) -> None:
    """Raise unless the role may make databases."""
    found = catalog.get(role, Role)
    if not (found.superuser or found.create_database):
        raise PermissionDenied("permission denied to create database")
