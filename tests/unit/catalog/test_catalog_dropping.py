"""DROP: what stands in its way, what goes along, and in which order."""

from __future__ import annotations

import msgspec
import pytest

from waterclock.catalog import items, roles
from waterclock.catalog.builtins import (
    DEFAULT_CLUSTER,
    DEFAULT_DATABASE,
    SYSTEM_ROLE,
)
from waterclock.catalog.catalog import catalog_of
from waterclock.catalog.draft import Draft
from waterclock.catalog.dropping import drop
from waterclock.catalog.errors import DependentsExist, DuplicateRelation
from waterclock.catalog.names import Name
from waterclock.catalog.objects import AnyItem, AnyOwned, Column, Index, IndexKey, Table, View
from waterclock.catalog.sources import (
    NewSource,
    SourceDefinition,
    SubsourceDefinition,
    create_source,
    supersede,
)
from waterclock.model.pg_types import INT4, INT8, MZ_TIMESTAMP
from waterclock.testing.catalog_world import COLUMNS, SCOPE, fresh_draft, here, query

PROGRESS = (Column("mz_timestamp", MZ_TIMESTAMP), Column("partition", INT4), Column("offset", INT8))


@pytest.fixture
def draft() -> Draft:
    return fresh_draft()


def table(draft: Draft, name: str) -> Table:
    return items.create_table(draft, here(name), COLUMNS)


def view(draft: Draft, name: str, *used: AnyItem) -> View:
    return items.create_view(draft, here(name), COLUMNS, query(*used))


def index(draft: Draft, name: str, on: AnyItem, cluster: int = DEFAULT_CLUSTER) -> Index:
    return items.create_index(draft, here(name), on.id, [IndexKey("a", INT4, 1)], cluster)


def source(draft: Draft, name: str, **options: object) -> NewSource:
    defined = SourceDefinition("kafka", f"CREATE SOURCE {name} ...", COLUMNS)
    options.setdefault("progress_columns", PROGRESS)
    return create_source(draft, here(name), defined, DEFAULT_CLUSTER, **options)


def names(found: tuple[AnyOwned, ...]) -> list[str]:
    return [each.name for each in found]


def test_what_depends_stands_in_the_way_and_is_named(draft: Draft) -> None:
    t = table(draft, "t")
    v = view(draft, "v", t)
    view(draft, "w", v)
    with pytest.raises(DependentsExist) as raised:
        drop(draft, [t])
    error = raised.value
    assert error.sqlstate == "2BP01"
    assert str(error) == "cannot drop table t because other objects depend on it"
    assert error.detail == "view v depends on table t\nview w depends on view v"
    assert error.hint == "Use DROP ... CASCADE to drop the dependent objects too."
    assert draft.catalog.item(t.id) is t, "nothing has gone"


def test_cascade_takes_users_before_what_they_use(draft: Draft) -> None:
    t, u = table(draft, "t"), table(draft, "u")
    v = view(draft, "v", t)
    w = view(draft, "w", v, t, u)
    view(draft, "x", w, v)
    index(draft, "i", v)
    dropped = drop(draft, [t], cascade=True)
    assert set(names(dropped.cascaded)) == {"v", "w", "x", "i"}
    order = names(dropped.everything)
    assert order[-1] == "t"
    assert order.index("x") < order.index("w") < order.index("v")
    assert order.index("i") < order.index("v")
    assert [item.name for item in draft.catalog.items()] == ["u"]
    assert draft.catalog.users == {}


def test_several_named_together_do_not_stand_in_each_others_way(draft: Draft) -> None:
    t = table(draft, "t")
    v = view(draft, "v", t)
    dropped = drop(draft, [t, v])
    assert (names(dropped.everything), dropped.cascaded) == (["v", "t"], ())
    t, u = table(draft, "t"), table(draft, "u")
    view(draft, "v", t)
    with pytest.raises(DependentsExist, match=r"cannot drop desired object\(s\)"):
        drop(draft, [t, u])


def test_indexes_go_with_their_relation_without_being_asked(draft: Draft) -> None:
    t = table(draft, "t")
    i = index(draft, "i", t)
    drop(draft, [i])
    assert draft.catalog.try_item(i.id) is None
    index(draft, "j", t)
    dropped = drop(draft, [t])
    assert (names(dropped.everything), dropped.cascaded) == (["j", "t"], ())


@pytest.mark.semantics(167, 169, 170)
def test_progress_gets_the_name_it_was_given_or_the_first_free_one(draft: Draft) -> None:
    made = source(draft, "k", progress_name="how_far")
    assert made.progress is not None
    assert made.progress.name == "how_far"
    table(draft, "x_progress")
    assert source(draft, "x").progress.name == "x_progress1"  # type: ignore[union-attr]
    table(draft, "y_progress")
    table(draft, "y_progress1")
    assert source(draft, "y").progress.name == "y_progress2"  # type: ignore[union-attr]
    with pytest.raises(DuplicateRelation):
        source(draft, "z", progress_name="how_far")
    made = source(draft, "w")
    assert made.progress is not None
    assert made.remap is not None
    assert made.progress.id != made.remap, "storage knows the bindings by another id"
    assert made.source.collections == (made.remap,)
    assert made.progress.namespace == made.source.namespace
    assert source(draft, "v", progress_columns=None).progress is None


@pytest.mark.semantics(90)
def test_two_sources_with_the_same_definition_are_two_objects(draft: Draft) -> None:
    one, other = source(draft, "one"), source(draft, "other")
    ids = {one.source.id, one.remap, other.source.id, other.remap}
    assert len(ids) == 4


def test_a_source_is_superseded(draft: Draft) -> None:
    """What was made over it keeps the old columns; its parts and its name go with the new ones."""
    made = source(draft, "k")
    v, i = view(draft, "v", made.source), index(draft, "i", made.source)
    columns = (*COLUMNS, Column("more", INT8))
    new = msgspec.structs.replace(made.source, id=draft.numbers.id(), columns=columns)
    former = supersede(draft, made.source, new, "k_old", "messages")
    catalog = draft.catalog
    assert catalog.relation(Name("k"), SCOPE) == new
    assert catalog.relation(Name("k_old"), SCOPE) == former
    assert (former.id, former.columns, former.source) == (made.source.id, COLUMNS, new.id)
    assert catalog.users[former.id] == {v.id, i.id}
    assert made.progress is not None
    assert catalog.users[new.id] == {former.id, made.progress.id}
    assert catalog.item(made.progress.id).part_of == new.id
    again = catalog_of(1, catalog.objects.values(), {}, {}, {})
    assert (again.users, again.oids) == (catalog.users, catalog.oids)
    dropped = drop(draft, [former], cascade=True, leaves_whole=True)
    assert sorted(names(dropped.everything)) == ["i", "k_old", "v"]
    assert names(drop(draft, [new]).everything) == ["k_progress", "k"]


def test_a_sources_parts_go_with_it_and_not_alone(draft: Draft) -> None:
    parts = [SubsourceDefinition(here("k_orders"), "public.orders", COLUMNS)]
    made = source(draft, "k", subsources=parts)
    assert made.progress is not None
    for part in (made.progress, *made.subsources):
        with pytest.raises(DependentsExist) as raised:
            drop(draft, [part], cascade=True)
        assert str(raised.value).endswith("because source k requires it")
        assert raised.value.hint == "You can drop source k instead."
    view(draft, "v", made.subsources[0])
    with pytest.raises(DependentsExist) as raised:
        drop(draft, [made.source])
    assert raised.value.detail == "view v depends on subsource k_orders"
    dropped = drop(draft, [made.source], cascade=True)
    assert names(dropped.cascaded) == ["v"]
    assert set(names(dropped.everything)) == {"v", "k_orders", "k_progress", "k"}


def test_connections_and_secrets_are_needed_by_what_uses_them(draft: Draft) -> None:
    secret = items.create_secret(draft, here("s"), b"x")
    connection = items.create_connection(draft, here("c"), "kafka", "...", secrets=[secret.id])
    defined = SourceDefinition("kafka", "...", COLUMNS, connections=(connection.id,))
    create_source(draft, here("k"), defined, DEFAULT_CLUSTER)
    with pytest.raises(DependentsExist) as raised:
        drop(draft, [secret])
    assert (
        raised.value.detail == "connection c depends on secret s\nsource k depends on connection c"
    )


def test_a_schema_that_is_not_empty_goes_by_cascade_only(draft: Draft) -> None:
    schema = items.create_schema(draft, DEFAULT_DATABASE, "s", SYSTEM_ROLE)
    t = items.create_table(draft, here("t", namespace=schema.oid), COLUMNS)
    i = items.create_index(
        draft, here("i", namespace=schema.oid), t.id, [IndexKey("a", INT4, 1)], DEFAULT_CLUSTER
    )
    view(draft, "outside", t)
    with pytest.raises(DependentsExist) as raised:
        drop(draft, [schema])
    assert raised.value.detail == (
        "table s.t depends on schema s\nindex s.i depends on schema s\n"
        "index s.i depends on table s.t\nview outside depends on table s.t"
    )
    dropped = drop(draft, [schema], cascade=True)
    assert names(dropped.everything)[-1] == "s"
    assert set(names(dropped.cascaded)) == {"t", "i", "outside"}
    assert draft.catalog.try_item(i.id) is None
    assert draft.catalog.try_namespace("waterclock", "s") is None


def test_a_database_goes_with_its_schemas(draft: Draft) -> None:
    database = items.create_database(draft, "d", SYSTEM_ROLE)
    public = draft.catalog.namespace("d", "public")
    t = items.create_table(draft, here("t", namespace=public.oid), COLUMNS)
    draft.set_setting("x", "1", database=database.oid)
    outside = view(draft, "outside", t)
    dropped = drop(draft, [database], cascade=True)
    assert names(dropped.everything) == ["outside", "t", "public", "d"]
    assert draft.catalog.try_item(outside.id) is None
    assert draft.catalog.settings == {}


def test_a_cluster_is_needed_by_what_runs_on_it(draft: Draft) -> None:
    cluster = items.create_cluster(draft, "c", SYSTEM_ROLE)
    t = table(draft, "t")
    index(draft, "i", t, cluster.oid)
    with pytest.raises(DependentsExist) as raised:
        drop(draft, [cluster])
    assert raised.value.detail == "index i depends on cluster c"
    assert names(drop(draft, [cluster], cascade=True).cascaded) == ["i"]
    assert draft.catalog.item(t.id) is t


def test_the_systems_schemas_stay(draft: Draft) -> None:
    system = draft.catalog.namespace("waterclock", "pg_catalog")
    with pytest.raises(DependentsExist, match="required by the database system"):
        drop(draft, [system], cascade=True)


@pytest.mark.semantics(77)
def test_a_dropped_name_is_free_and_means_nothing(draft: Draft) -> None:
    t = table(draft, "t")
    draft.comment(t.oid, "about t")
    drop(draft, [t])
    assert draft.catalog.find(Name("t"), SCOPE) is None
    assert draft.catalog.comments == {}
    again = table(draft, "t")
    assert again.id > t.id
    assert again.oid > t.oid


def test_an_error_names_the_first_hundred_dependents(draft: Draft) -> None:
    t = table(draft, "t")
    for n in range(103):
        view(draft, f"v{n}", t)
    with pytest.raises(DependentsExist) as raised:
        drop(draft, [t])
    assert raised.value.detail is not None
    lines = raised.value.detail.splitlines()
    assert (len(lines), lines[-1]) == (101, "and 3 other dependencies")


def test_a_role_with_possessions_or_grants_stays(draft: Draft) -> None:
    role = roles.create_role(draft, "r")
    t = items.create_table(draft, here("t", owner=role.oid), COLUMNS)
    with pytest.raises(DependentsExist) as raised:
        roles.drop_role(draft, role)
    assert str(raised.value) == 'role "r" cannot be dropped because some objects depend on it'
    assert raised.value.detail == "owner of table t"
    drop(draft, [t])
    member = roles.create_role(draft, "m")
    roles.grant_role(draft, role, member, by=SYSTEM_ROLE)
    draft.set_setting("x", "1", role=role.oid)
    roles.drop_role(draft, role)
    assert draft.catalog.try_role("r") is None
    assert draft.catalog.memberships == {}
    assert draft.catalog.settings == {}
    with pytest.raises(DependentsExist, match="required by the database system"):
        roles.drop_role(draft, draft.catalog.role("waterclock"))
