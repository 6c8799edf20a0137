"""Privileges: superusers, owners, members, grants, everybody, and their messages."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from waterclock.catalog import items, roles
from waterclock.catalog.builtins import DEFAULT_DATABASE, PUBLIC_SCHEMA, SYSTEM_ROLE
from waterclock.catalog.draft import Draft
from waterclock.catalog.errors import DependentsExist, InvalidGrant, PermissionDenied
from waterclock.catalog.grants import change_owner, grant, revoke
from waterclock.catalog.objects import PUBLIC, AnyOwned, Namespace, Oid, Privilege, Role, Table
from waterclock.catalog.privileges import (
    acl_text,
    check,
    check_create_database,
    check_create_role,
    check_owner,
    check_read,
    check_superuser,
    has,
    may_become,
)
from waterclock.testing.catalog_world import COLUMNS, fresh_draft, here, query

SELECT, INSERT, USAGE, CREATE = (
    Privilege.SELECT,
    Privilege.INSERT,
    Privilege.USAGE,
    Privilege.CREATE,
)


@dataclass
class People:
    """Some roles, and a table of one of them."""

    draft: Draft
    ann: Role
    bob: Role
    cat: Role
    table: Table

    def now(self, found: AnyOwned) -> AnyOwned:
        """The object as it is by now."""
        return self.draft.catalog.get(found.oid, type(found))

    def can(self, role: Role, privilege: Privilege, found: AnyOwned | None = None) -> bool:
        return has(self.draft.catalog, role.oid, self.now(found or self.table), privilege)

    def grant(self, role: Role | Oid, *privileges: Privilege, **how: object) -> None:
        oid = role.oid if isinstance(role, Role) else role
        how.setdefault("by", SYSTEM_ROLE)
        grant(self.draft, self.now(self.table), privileges, [oid], **how)

    def revoke(self, role: Role | Oid, *privileges: Privilege, **how: object) -> None:
        oid = role.oid if isinstance(role, Role) else role
        how.setdefault("by", SYSTEM_ROLE)
        revoke(self.draft, self.now(self.table), privileges, [oid], **how)


@pytest.fixture
def people() -> People:
    draft = fresh_draft()
    ann, bob, cat = (roles.create_role(draft, name) for name in ("ann", "bob", "cat"))
    table = items.create_table(draft, here("t", owner=ann.oid), COLUMNS)
    return People(draft, ann, bob, cat, table)


def test_the_owner_and_superusers_may_and_others_may_not(people: People) -> None:
    assert people.can(people.ann, SELECT)
    assert not people.can(people.bob, SELECT)
    catalog = people.draft.catalog
    assert has(catalog, SYSTEM_ROLE, people.table, SELECT)
    with pytest.raises(PermissionDenied, match=r"^permission denied for table t$") as raised:
        check(catalog, people.bob.oid, people.table, SELECT)
    assert raised.value.sqlstate == "42501"
    check_owner(catalog, people.ann.oid, people.table)
    check_owner(catalog, SYSTEM_ROLE, people.table)
    with pytest.raises(PermissionDenied, match=r"^must be owner of table t$"):
        check_owner(catalog, people.bob.oid, people.table)


def test_a_grant_gives_just_that(people: People) -> None:
    people.grant(people.bob, SELECT)
    assert people.can(people.bob, SELECT)
    assert not people.can(people.bob, INSERT)
    assert not people.can(people.cat, SELECT)
    people.grant(people.bob, INSERT)
    assert acl_text(people.draft.catalog, people.now(people.table)) == (
        "ann=arwd/ann",
        "bob=ar/ann",
    )
    people.revoke(people.bob, SELECT)
    assert (people.can(people.bob, SELECT), people.can(people.bob, INSERT)) == (False, True)


def test_public_is_everybody(people: People) -> None:
    people.grant(PUBLIC, SELECT)
    assert people.can(people.bob, SELECT)
    assert people.can(people.cat, SELECT)
    assert acl_text(people.draft.catalog, people.now(people.table)) == ("ann=arwd/ann", "=r/ann")
    people.revoke(PUBLIC, SELECT)
    assert not people.can(people.bob, SELECT)
    with pytest.raises(InvalidGrant):
        people.grant(PUBLIC, SELECT, grant_option=True)


def test_an_owner_can_lose_a_privilege_and_take_it_back(people: People) -> None:
    people.revoke(people.ann, INSERT)
    assert not people.can(people.ann, INSERT)
    people.grant(people.ann, INSERT, by=people.ann.oid)
    assert people.can(people.ann, INSERT)


def test_usage_of_the_schema_is_asked_for(people: People) -> None:
    draft = people.draft
    schema = items.create_schema(draft, DEFAULT_DATABASE, "s", people.ann.oid)
    inside = items.create_table(draft, here("u", people.ann.oid, schema.oid), COLUMNS)
    grant(draft, inside, [SELECT], [people.bob.oid], by=people.ann.oid)
    found = people.now(inside)
    with pytest.raises(PermissionDenied, match=r"^permission denied for schema s$"):
        check(draft.catalog, people.bob.oid, found, SELECT)
    grant(draft, schema, [USAGE], [people.bob.oid], by=people.ann.oid)
    check(draft.catalog, people.bob.oid, found, SELECT)


def test_public_schema_may_be_used_by_all_and_filled_by_its_owner(people: People) -> None:
    public = people.draft.catalog.get(PUBLIC_SCHEMA, Namespace)
    assert people.can(people.bob, USAGE, public)
    assert not people.can(people.bob, CREATE, public)
    text = acl_text(people.draft.catalog, public)
    assert text == ("=U/waterclock", "waterclock=UC/waterclock")


def test_a_database_may_be_used_by_all_until_that_is_taken_back(people: People) -> None:
    database = people.draft.catalog.database("waterclock")
    assert people.can(people.bob, USAGE, database)
    revoke(people.draft, database, [USAGE], [PUBLIC], by=SYSTEM_ROLE)
    assert not people.can(people.bob, USAGE, database)


def test_members_have_what_the_group_has_if_they_inherit(people: People) -> None:
    draft = people.draft
    people.grant(people.bob, SELECT)
    roles.grant_role(draft, people.bob, people.cat, by=SYSTEM_ROLE)
    assert people.can(people.cat, SELECT)
    assert may_become(draft.catalog, people.cat.oid, people.bob.oid)
    assert not may_become(draft.catalog, people.bob.oid, people.cat.oid)
    assert may_become(draft.catalog, SYSTEM_ROLE, people.cat.oid)
    roles.alter_role(draft, people.cat, inherit=False)
    assert not people.can(people.cat, SELECT)
    assert may_become(draft.catalog, people.cat.oid, people.bob.oid)
    assert roles.revoke_role(draft, people.bob, draft.catalog.role("cat"))
    assert not roles.revoke_role(draft, people.bob, draft.catalog.role("cat"))
    assert not may_become(draft.catalog, people.cat.oid, people.bob.oid)


def test_a_member_of_the_owner_is_an_owner(people: People) -> None:
    roles.grant_role(people.draft, people.ann, people.bob, by=SYSTEM_ROLE)
    roles.grant_role(people.draft, people.bob, people.cat, by=SYSTEM_ROLE)
    check_owner(people.draft.catalog, people.cat.oid, people.table)
    people.grant(people.cat, SELECT, by=people.cat.oid)
    text = acl_text(people.draft.catalog, people.now(people.table))
    assert text == ("ann=arwd/ann", "cat=r/ann"), "in the owner's name"


def test_memberships_are_not_circular(people: People) -> None:
    roles.grant_role(people.draft, people.ann, people.bob, by=SYSTEM_ROLE)
    roles.grant_role(people.draft, people.bob, people.cat, by=SYSTEM_ROLE, admin=True)
    with pytest.raises(InvalidGrant, match=r'^role "cat" is a member of role "ann"$') as raised:
        roles.grant_role(people.draft, people.cat, people.ann, by=SYSTEM_ROLE)
    assert raised.value.sqlstate == "0LP01"
    with pytest.raises(InvalidGrant):
        roles.grant_role(people.draft, people.cat, people.cat, by=SYSTEM_ROLE)
    pair = (people.bob.oid, people.cat.oid)
    roles.grant_role(people.draft, people.bob, people.cat, by=SYSTEM_ROLE)
    assert people.draft.catalog.memberships[pair].admin, "not taken back by giving again"
    roles.revoke_role(people.draft, people.bob, people.cat, only_admin=True)
    assert not people.draft.catalog.memberships[pair].admin


def test_what_can_be_granted_depends_on_the_kind(people: People) -> None:
    schema = people.draft.catalog.get(PUBLIC_SCHEMA, Namespace)
    message = "^invalid privilege type SELECT for schema$"
    with pytest.raises(InvalidGrant, match=message) as raised:
        grant(people.draft, schema, [SELECT], [people.bob.oid], by=SYSTEM_ROLE)
    assert raised.value.sqlstate == "0LP01"
    with pytest.raises(InvalidGrant, match=r"^invalid privilege type USAGE for table$"):
        people.grant(people.bob, USAGE)


def test_only_who_may_give_gives(people: People) -> None:
    with pytest.raises(PermissionDenied, match=r"^permission denied for table t$"):
        people.grant(people.cat, SELECT, by=people.bob.oid)
    people.grant(people.bob, SELECT, grant_option=True)
    people.grant(people.cat, SELECT, by=people.bob.oid)
    with pytest.raises(PermissionDenied):
        people.grant(people.cat, INSERT, by=people.bob.oid)
    assert acl_text(people.draft.catalog, people.now(people.table)) == (
        "ann=arwd/ann",
        "bob=r*/ann",
        "cat=r/bob",
    )


def test_what_was_given_on_goes_with_the_right_to_give(people: People) -> None:
    people.grant(people.bob, SELECT, grant_option=True)
    people.grant(people.cat, SELECT, by=people.bob.oid, grant_option=True)
    people.grant(people.bob, SELECT, by=people.cat.oid, grant_option=True)
    with pytest.raises(DependentsExist, match=r"^dependent privileges exist$"):
        people.revoke(people.bob, SELECT)
    assert people.can(people.cat, SELECT)
    people.revoke(people.bob, SELECT, cascade=True)
    assert not people.can(people.cat, SELECT)
    assert not people.can(people.bob, SELECT), "a circle keeps nothing alive"
    people.grant(people.bob, SELECT, grant_option=True)
    people.revoke(people.bob, SELECT, only_grant_option=True)
    assert acl_text(people.draft.catalog, people.now(people.table)) == (
        "ann=arwd/ann",
        "bob=r/ann",
    )


def test_a_new_owner_takes_over_what_the_old_one_had_and_gave(people: People) -> None:
    people.grant(people.cat, SELECT)
    change_owner(people.draft, people.now(people.table), people.bob.oid)
    catalog = people.draft.catalog
    assert acl_text(catalog, people.now(people.table)) == ("bob=arwd/bob", "cat=r/bob")
    assert not people.can(people.ann, SELECT)
    check_owner(catalog, people.bob.oid, people.now(people.table))
    plain = items.create_table(people.draft, here("plain", owner=people.ann.oid), COLUMNS)
    change_owner(people.draft, plain, people.bob.oid)
    assert people.can(people.bob, SELECT, plain)
    assert not people.can(people.ann, SELECT, plain)


def test_a_role_in_a_grant_can_not_be_dropped(people: People) -> None:
    people.grant(people.bob, SELECT)
    with pytest.raises(DependentsExist) as raised:
        roles.drop_role(people.draft, people.bob)
    assert raised.value.detail == "privileges for table t"
    people.revoke(people.bob, SELECT)
    roles.drop_role(people.draft, people.bob)


def test_a_view_reads_with_the_rights_of_its_owner(people: People) -> None:
    draft = people.draft
    mine = items.create_view(draft, here("v", owner=people.ann.oid), COLUMNS, query(people.table))
    grant(draft, mine, [SELECT], [people.bob.oid], by=people.ann.oid)
    catalog = draft.catalog
    check_read(catalog, people.bob.oid, [catalog.get(mine.oid, type(mine))])
    theirs = items.create_view(draft, here("w", owner=people.bob.oid), COLUMNS, query(people.table))
    with pytest.raises(PermissionDenied, match=r"^permission denied for table t$"):
        check_read(catalog, people.bob.oid, [theirs])
    with pytest.raises(PermissionDenied, match=r"^permission denied for view w$"):
        check_read(catalog, people.cat.oid, [theirs])


def test_what_only_some_roles_may(people: People) -> None:
    catalog, bob = people.draft.catalog, people.bob.oid
    with pytest.raises(PermissionDenied, match=r"^permission denied to create role$"):
        check_create_role(catalog, bob)
    with pytest.raises(PermissionDenied, match=r"^permission denied to create database$"):
        check_create_database(catalog, bob)
    with pytest.raises(PermissionDenied, match=r"^must be superuser to do that$"):
        check_superuser(catalog, bob, "do that")
    roles.alter_role(people.draft, people.bob, create_role=True, create_database=True)
    check_create_role(catalog, bob)
    check_create_database(catalog, bob)
    check_superuser(catalog, SYSTEM_ROLE, "do that")
