"""The catalog against itself: what is kept beside it follows from it, whatever was done.

Any run of statements, refused ones among them, restarts in between. After each: the look-ups are
those that a catalog made from scratch has, what is durable is what is current, nothing refers to
what is gone, and storage holds exactly the collections of what is there.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from waterclock.catalog import items, roles
from waterclock.catalog.builtins import DEFAULT_CLUSTER, PUBLIC_SCHEMA, SYSTEM_ROLE
from waterclock.catalog.catalog import catalog_of
from waterclock.catalog.draft import Draft
from waterclock.catalog.dropping import Dropped, drop
from waterclock.catalog.durable import Creation
from waterclock.catalog.grants import change_owner, grant, revoke
from waterclock.catalog.names import IMPLICIT_SCHEMAS, Name, Scope
from waterclock.catalog.objects import (
    PUBLIC,
    AnyItem,
    Item,
    MaterializedView,
    Namespace,
    Owned,
    Relation,
    Role,
    Table,
    View,
)
from waterclock.catalog.privileges import RELATION_PRIVILEGES, has
from waterclock.catalog.sources import SourceDefinition, SubsourceDefinition, create_source
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.storage.api import Description
from waterclock.testing.catalog_world import COLUMNS, CatalogWorld, query
from waterclock.testing.examples import examples

names = st.sampled_from(["a", "b", "c", "pg_x"])


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = CatalogWorld()
        self.ever: set[GlobalId] = set()
        """Every id that some item has had."""
        self.meanings: dict[GlobalId, tuple[Any, ...]] = {}
        """What each view was established as."""

    # Choosing among what is there

    def owned(self, data: st.DataObject) -> Any:
        found = [o for o in self.world.catalog.objects.values() if isinstance(o, Owned)]
        return data.draw(st.sampled_from(found))

    def one(self, data: st.DataObject, kind: type) -> Any:
        found = [o for o in self.world.catalog.objects.values() if isinstance(o, kind)]
        return data.draw(st.sampled_from(found))

    def relations(self, data: st.DataObject) -> list[AnyItem]:
        found = [item for item in self.world.catalog.items() if isinstance(item, Relation)]
        return data.draw(st.lists(st.sampled_from(found), max_size=2, unique=True)) if found else []

    def site(self, data: st.DataObject, name: str) -> items.Site:
        """A schema of users, most of the time."""
        owner, schema = self.one(data, Role).oid, self.one(data, Namespace)
        system = schema.database is None and data.draw(st.integers(0, 9)) != 0
        return items.Site(PUBLIC_SCHEMA if system else schema.oid, name, owner)

    def statement(self, change: Any) -> None:
        """Run a change on a draft and commit it; a user's error must leave everything as it was."""
        before, noted = self.world.catalog, self.world.notes()
        draft = self.world.durable.draft()
        try:
            made = change(draft)
            creations = [
                Creation(
                    item.id,
                    Description(item.schema),
                    keeps_writer=not isinstance(item, MaterializedView),
                )
                for item in (made if isinstance(made, list) else [])
            ]
            if isinstance(made, Dropped):
                self.world.drop(draft)
            elif isinstance(made, list) and isinstance(made[0], MaterializedView):
                self.world.durable.commit(draft, creations, alongside=self.world.maintained)
            else:
                self.world.durable.commit(draft, creations)
        except WaterclockError:
            assert self.world.catalog is before
            assert self.world.notes() == noted
        else:
            assert self.world.catalog.version == before.version + 1

    # Statements

    @rule(name=names, data=st.data())
    def create_table(self, name: str, data: st.DataObject) -> None:
        site = self.site(data, name)
        self.statement(lambda draft: [items.create_table(draft, site, COLUMNS)])

    @rule(name=names, data=st.data())
    def create_view(self, name: str, data: st.DataObject) -> None:
        site, used = self.site(data, name), self.relations(data)
        self.statement(lambda draft: items.create_view(draft, site, COLUMNS, query(*used)))

    @rule(name=names, data=st.data())
    def create_materialized_view(self, name: str, data: st.DataObject) -> None:
        site, used = self.site(data, name), self.relations(data)
        self.statement(
            lambda draft: [
                items.create_materialized_view(draft, site, COLUMNS, query(*used), DEFAULT_CLUSTER)
            ]
        )

    @rule(name=names, other=names, data=st.data())
    def create_source(self, name: str, other: str, data: st.DataObject) -> None:
        site = self.site(data, name)
        defined = SourceDefinition("x", "x", COLUMNS)
        parts = [SubsourceDefinition(items.Site(site.namespace, other, site.owner), "u", COLUMNS)]

        def change(draft: Draft) -> list[Any]:
            made = create_source(
                draft, site, defined, DEFAULT_CLUSTER, progress_columns=COLUMNS, subsources=parts
            )
            return [made.source, *made.subsources]

        self.statement(change)

    @rule(name=names, data=st.data())
    def create_index(self, name: str, data: st.DataObject) -> None:
        site = self.site(data, name)
        for on in self.relations(data)[:1]:
            self.statement(
                lambda draft, on=on: items.create_index(draft, site, on.id, [], DEFAULT_CLUSTER)
            )

    @rule(name=names, data=st.data())
    def create_schema(self, name: str, data: st.DataObject) -> None:
        database = self.world.catalog.database("waterclock").oid
        owner = self.one(data, Role).oid
        self.statement(lambda draft: items.create_schema(draft, database, name, owner))

    @rule(name=names)
    def create_role(self, name: str) -> None:
        self.statement(lambda draft: roles.create_role(draft, name))

    @rule(name=names, data=st.data())
    def rename(self, name: str, data: st.DataObject) -> None:
        found = self.owned(data)
        if found.name not in ("waterclock", "public"):
            self.statement(lambda draft: items.rename(draft, found, name))

    @rule()
    def replace_view(self) -> None:
        views = [item for item in self.world.catalog.items() if isinstance(item, View)]
        tables = [item for item in self.world.catalog.items() if isinstance(item, Table)]
        new = query(*tables[:1])
        if views:
            self.statement(lambda draft: items.replace_view(draft, views[0], COLUMNS, new))

    @rule(data=st.data(), cascade=st.booleans())
    def drop(self, data: st.DataObject, cascade: bool) -> None:
        found = self.owned(data)
        if found.name in ("waterclock", "public", "quickstart"):
            return
        self.statement(lambda draft: drop(draft, [found], cascade=cascade))

    @rule(data=st.data())
    def drop_role(self, data: st.DataObject) -> None:
        role = self.one(data, Role)
        self.statement(lambda draft: roles.drop_role(draft, role))

    @rule(data=st.data())
    def grant_role(self, data: st.DataObject) -> None:
        role, member = self.one(data, Role), self.one(data, Role)
        self.statement(lambda draft: roles.grant_role(draft, role, member, by=SYSTEM_ROLE))

    @rule(data=st.data(), option=st.booleans())
    def grant(self, data: st.DataObject, option: bool) -> None:
        by, to = self.one(data, Role).oid, self.one(data, Role).oid
        privilege = data.draw(st.sampled_from(sorted(RELATION_PRIVILEGES)))
        for on in self.relations(data)[:1]:
            self.statement(
                lambda draft, on=on: grant(draft, on, [privilege], [to], by=by, grant_option=option)
            )

    @rule(data=st.data(), cascade=st.booleans())
    def revoke(self, data: st.DataObject, cascade: bool) -> None:
        by, to = self.one(data, Role).oid, self.one(data, Role).oid
        for on in self.relations(data)[:1]:
            self.statement(
                lambda draft, on=on: revoke(
                    draft, on, RELATION_PRIVILEGES, [to], by=by, cascade=cascade
                )
            )

    @rule(data=st.data())
    def change_owner(self, data: st.DataObject) -> None:
        found, owner = self.owned(data), self.one(data, Role).oid
        self.statement(lambda draft: change_owner(draft, found, owner))

    @rule(data=st.data(), column=st.integers(0, 2), text=st.sampled_from(["x", "y", None]))
    def comment(self, data: st.DataObject, column: int, text: str | None) -> None:
        about = self.owned(data).oid
        self.statement(lambda draft: draft.comment(about, text, column))

    @rule()
    def restart(self) -> None:
        before = self.world.catalog
        self.world.open()
        assert self.world.catalog == before
        assert self.world.durable.release_unreferenced() == ()

    def teardown(self) -> None:
        self.world.close()

    # What always holds

    @invariant()
    def what_follows_is_right(self) -> None:
        now = self.world.catalog
        assert now == catalog_of(
            now.version, now.objects.values(), now.memberships, now.comments, now.settings
        )

    @invariant()
    def nothing_refers_to_what_is_gone(self) -> None:
        now = self.world.catalog
        roles_ = {oid for oid, found in now.objects.items() if isinstance(found, Role)}
        for found in now.objects.values():
            if isinstance(found, Owned):
                assert found.owner in roles_
                for each in found.grants or ():
                    assert {each.grantee, each.grantor} <= roles_ | {PUBLIC}
            if isinstance(found, Item):
                assert isinstance(now.objects[found.namespace], Namespace)
                assert all(now.try_item(used) is not None for used in found.uses)
        assert now.comments.keys() <= now.objects.keys()
        assert {oid for pair in now.memberships for oid in pair} <= roles_

    @invariant()
    def names_lead_to_what_has_them(self) -> None:
        now = self.world.catalog
        for item in now.items():
            schema = now.get(item.namespace, Namespace)
            assert schema.name not in IMPLICIT_SCHEMAS
            scope = Scope("waterclock", "waterclock", (schema.name,))
            assert now.find(Name(item.name), scope) is item

    @invariant()
    def views_mean_what_they_meant(self) -> None:
        for item in self.world.catalog.items():
            if isinstance(item, View):
                meaning = (item.query, item.columns)
                assert self.meanings.setdefault(item.id, meaning) == meaning

    @invariant()
    def ids_are_used_once(self) -> None:
        now = {item.id: item.oid for item in self.world.catalog.items()}
        new = now.keys() - self.ever
        assert not new or not self.ever or min(new) > max(self.ever)
        self.ever |= now.keys()

    @invariant()
    def storage_has_what_the_catalog_has(self) -> None:
        stored = {
            str(item.id)
            for item in self.world.catalog.items()
            if item.kind in ("table", "materialized view", "source", "subsource")
        }
        assert self.world.live_collections() == stored

    @invariant()
    def owners_can_always_be_given_back_their_rights(self) -> None:
        now = self.world.catalog
        for item in now.items():
            if isinstance(item, Relation):
                for privilege in RELATION_PRIVILEGES:
                    assert has(now, SYSTEM_ROLE, item, privilege), "superusers may everything"


CatalogStatements = pytest.mark.semantics(34, 77, 78, 79)(Machine.TestCase)
CatalogStatements.settings = settings(examples(60), stateful_step_count=30)
