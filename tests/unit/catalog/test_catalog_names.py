"""Names: how they are looked up, which are taken or reserved, and what a rename leaves alone."""

from __future__ import annotations

import pytest

from waterclock.catalog import items, roles
from waterclock.catalog.builtins import (
    DEFAULT_CLUSTER,
    DEFAULT_DATABASE,
    PUBLIC_SCHEMA,
    SYSTEM_ROLE,
    SYSTEM_SCHEMAS,
)
from waterclock.catalog.draft import FIRST_OID, Draft
from waterclock.catalog.errors import (
    DependentsExist,
    DuplicateDatabase,
    DuplicateObject,
    DuplicateRelation,
    DuplicateSchema,
    NameEmpty,
    NameReserved,
    OutOfNumbers,
    PermissionDenied,
    UnknownDatabase,
    UnknownObject,
    UnknownRelation,
    UnknownSchema,
    WrongKind,
)
from waterclock.catalog.names import Name, Scope, quoted
from waterclock.catalog.objects import (
    Cluster,
    Column,
    Connection,
    Database,
    Index,
    IndexKey,
    Namespace,
    Role,
    Secret,
    Source,
    Table,
    View,
)
from waterclock.errors import WaterclockError
from waterclock.model.errors import DuplicateColumn, ReservedName
from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import INT4, TYPES
from waterclock.testing.catalog_world import COLUMNS, SCOPE, fresh_draft, here, query


@pytest.fixture
def draft() -> Draft:
    return fresh_draft()


def refused(kind: type[WaterclockError], sqlstate: str, message: str):  # type: ignore[no-untyped-def]
    assert kind.sqlstate == sqlstate
    return pytest.raises(kind, match=f"^{message}$")


# What is there at first


def test_what_is_built_in(draft: Draft) -> None:
    catalog = draft.catalog
    assert catalog.database("waterclock").oid == DEFAULT_DATABASE
    assert catalog.cluster("quickstart").oid == DEFAULT_CLUSTER
    assert catalog.namespace("waterclock", "public").oid == PUBLIC_SCHEMA
    role = catalog.role("waterclock")
    assert (role.oid, role.superuser, role.login) == (SYSTEM_ROLE, True, True)
    for name, oid in SYSTEM_SCHEMAS.items():
        assert catalog.namespace("waterclock", name).oid == oid
    assert all(oid < FIRST_OID for oid in catalog.objects)


# Looking up


def test_a_name_is_looked_for_along_the_search_path(draft: Draft) -> None:
    other = items.create_schema(draft, DEFAULT_DATABASE, "other", SYSTEM_ROLE)
    mine = items.create_schema(draft, DEFAULT_DATABASE, "waterclock", SYSTEM_ROLE)
    tables = {
        schema: items.create_table(draft, here("t", namespace=schema), COLUMNS)
        for schema in (PUBLIC_SCHEMA, other.oid, mine.oid)
    }
    only = items.create_table(draft, here("only", namespace=other.oid), COLUMNS)

    def found(name: Name, *path: str) -> object:
        return draft.catalog.find(name, Scope("waterclock", "waterclock", path))

    assert found(Name("t"), "public", "other") is tables[PUBLIC_SCHEMA]
    assert found(Name("t"), "missing", "other", "public") is tables[other.oid]
    assert found(Name("t"), "$user", "public") is tables[mine.oid]
    assert found(Name("only"), "public") is None
    assert found(Name("only", "other"), "public") is only
    assert found(Name("only", "other", "waterclock"), "public") is only
    assert found(Name("t")) is None, "an empty path finds users' items nowhere"


def test_the_systems_schemas_come_first_unless_named(draft: Draft) -> None:
    def searched(*path: str) -> list[str]:
        scope = Scope("waterclock", "nobody", path)
        return [schema.name for schema in draft.catalog.searched(scope)]

    system = ["pg_catalog", "mz_catalog", "mz_internal"]
    assert searched("public") == [*system, "public"]
    assert searched("public", "pg_catalog") == [*system[1:], "public", "pg_catalog"]
    assert searched("$user", "public", "public") == [*system, "public"]


def test_things_are_created_in_the_first_schema_that_exists(draft: Draft) -> None:
    def target(name: Name, *path: str) -> str:
        return draft.catalog.target(name, Scope("waterclock", "waterclock", path)).name

    assert target(Name("t"), "$user", "missing", "public") == "public"
    assert target(Name("t", "mz_internal"), "public") == "mz_internal"
    with refused(UnknownSchema, "3F000", "no schema has been selected to create in"):
        target(Name("t"), "missing")


def test_databases_have_schemas_of_their_own(draft: Draft) -> None:
    database = items.create_database(draft, "other", SYSTEM_ROLE)
    public = draft.catalog.namespace("other", "public")
    assert public.oid != PUBLIC_SCHEMA
    table = items.create_table(draft, here("t", namespace=public.oid), COLUMNS)
    assert draft.catalog.find(Name("t"), SCOPE) is None
    assert draft.catalog.find(Name("t", "public", "other"), SCOPE) is table
    assert draft.catalog.find(Name("t"), Scope("other", "waterclock")) is table
    assert draft.catalog.namespace("other", "pg_catalog").oid == SYSTEM_SCHEMAS["pg_catalog"]
    assert [schema.name for schema in draft.catalog.namespaces(database.oid)] == ["public"]


def test_what_is_missing_is_told_as_postgresql_does(draft: Draft) -> None:
    catalog = draft.catalog
    with refused(UnknownRelation, "42P01", 'relation "nothing" does not exist'):
        catalog.relation(Name("nothing"), SCOPE)
    with refused(UnknownRelation, "42P01", 'relation "public.nothing" does not exist'):
        catalog.relation(Name("nothing", "public"), SCOPE)
    with refused(UnknownSchema, "3F000", 'schema "s" does not exist'):
        catalog.relation(Name("nothing", "s"), SCOPE)
    with refused(UnknownDatabase, "3D000", 'database "d" does not exist'):
        catalog.relation(Name("nothing", "s", "d"), SCOPE)
    with refused(UnknownObject, "42704", 'role "r" does not exist'):
        catalog.role("r")
    with refused(UnknownObject, "42704", 'cluster "c" does not exist'):
        catalog.cluster("c")
    for kind in (Table, View, Source):
        with refused(UnknownRelation, "42P01", f'{kind.kind} "x" does not exist'):
            catalog.named(kind, Name("x"), SCOPE)
    for other in (Index, Connection, Secret):
        with refused(UnknownObject, "42704", f'{other.kind} "x" does not exist'):
            catalog.named(other, Name("x"), SCOPE)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        *(("t", "t"), ("a_1$", "a_1$"), ("T", '"T"'), ("1a", '"1a"'), ("order", '"order"')),
        *(("", '""'), ('a"b', '"a""b"'), ("a\n", '"a\n"'), ("é", '"é"')),
    ],
)
def test_a_name_is_quoted_where_sql_needs_it(name: str, written: str) -> None:
    assert quoted(name) == written


def test_a_name_of_another_kind_is_told_apart(draft: Draft) -> None:
    table = items.create_table(draft, here("t"), COLUMNS)
    items.create_view(draft, here("v"), COLUMNS, query(table))
    items.create_secret(draft, here("s"), b"")
    assert draft.catalog.named(Table, Name("t"), SCOPE) is table
    with refused(WrongKind, "42809", '"v" is not a table') as raised:
        draft.catalog.named(Table, Name("v"), SCOPE)
    assert raised.value.detail == "It is a view."
    with refused(WrongKind, "42809", '"t" is not an index'):
        draft.catalog.named(Index, Name("t"), SCOPE)
    with refused(WrongKind, "42809", '"s" is a secret, which can not be read'):
        draft.catalog.relation(Name("s"), SCOPE)


def test_an_object_is_found_by_id_and_by_oid(draft: Draft) -> None:
    table = items.create_table(draft, here("t"), COLUMNS)
    assert draft.catalog.item(table.id) is draft.catalog.get(table.oid, Table) is table
    assert draft.catalog.try_item(GlobalId.user(99)) is None


# Taken and reserved


def test_a_name_that_is_taken_is_refused(draft: Draft) -> None:
    table = items.create_table(draft, here("t"), COLUMNS)
    before = draft.changes()
    with refused(DuplicateRelation, "42P07", 'relation "t" already exists'):
        items.create_view(draft, here("t"), COLUMNS, query())
    with refused(DuplicateRelation, "42P07", 'relation "t" already exists'):
        items.create_index(draft, here("t"), table.id, [IndexKey("a", INT4, 1)], DEFAULT_CLUSTER)
    items.create_secret(draft, here("s"), b"")
    with refused(DuplicateObject, "42710", 'secret "s" already exists'):
        items.create_table(draft, here("s"), COLUMNS)
    with refused(DuplicateSchema, "42P06", 'schema "public" already exists'):
        items.create_schema(draft, DEFAULT_DATABASE, "public", SYSTEM_ROLE)
    with refused(DuplicateDatabase, "42P04", 'database "waterclock" already exists'):
        items.create_database(draft, "waterclock", SYSTEM_ROLE)
    with refused(DuplicateObject, "42710", 'role "waterclock" already exists'):
        roles.create_role(draft, "waterclock")
    with refused(DuplicateObject, "42710", 'cluster "quickstart" already exists'):
        items.create_cluster(draft, "quickstart", SYSTEM_ROLE)
    assert len(draft.changes().puts) == len(before.puts) + 1, "only the secret came to be"


def test_names_of_the_system_are_reserved(draft: Draft) -> None:
    for name in ("pg_x", "mz_x"):
        with refused(NameReserved, "42939", f'unacceptable schema name "{name}"'):
            items.create_schema(draft, DEFAULT_DATABASE, name, SYSTEM_ROLE)
        with refused(NameReserved, "42939", f'role name "{name}" is reserved'):
            roles.create_role(draft, name)
        with refused(NameReserved, "42939", f'cluster name "{name}" is reserved'):
            items.create_cluster(draft, name, SYSTEM_ROLE)
    with pytest.raises(NameReserved):
        items.create_schema(draft, DEFAULT_DATABASE, "information_schema", SYSTEM_ROLE)
    for name in ("public", "none"):
        with refused(NameReserved, "42939", f'role name "{name}" is reserved'):
            roles.create_role(draft, name)
    with pytest.raises(NameEmpty):
        items.create_table(draft, here(""), COLUMNS)
    items.create_table(draft, here("pg_x"), COLUMNS)


def test_the_systems_schemas_hold_nothing_of_users(draft: Draft) -> None:
    site = here("t", namespace=SYSTEM_SCHEMAS["pg_catalog"])
    with refused(PermissionDenied, "42501", 'permission denied to create "pg_catalog.t"'):
        items.create_table(draft, site, COLUMNS)
    table = items.create_table(draft, here("t"), COLUMNS)
    with pytest.raises(PermissionDenied):
        items.move(draft, table, SYSTEM_SCHEMAS["mz_catalog"])
    system = draft.catalog.namespace("waterclock", "mz_internal")
    with pytest.raises(PermissionDenied):
        items.rename(draft, system, "mine")


def test_columns_are_checked(draft: Draft) -> None:
    twice = (Column("a", INT4), Column("a", INT4))
    reserved = (Column("mz_timestamp", INT4),)
    with pytest.raises(DuplicateColumn):
        items.create_table(draft, here("t"), twice)
    with pytest.raises(DuplicateColumn):
        items.create_view(draft, here("t"), twice, query())
    with pytest.raises(ReservedName):
        items.create_table(draft, here("t"), reserved)
    items.create_view(draft, here("v"), reserved, query())


# Numbers


@pytest.mark.semantics(79)
def test_ids_are_handed_out_in_order_and_never_again(draft: Draft) -> None:
    tables = [items.create_table(draft, here(f"t{n}"), COLUMNS) for n in range(3)]
    assert [table.id for table in tables] == [GlobalId.user(n) for n in (1, 2, 3)]
    given_up = Draft(draft.catalog, draft.numbers)
    assert items.create_secret(given_up, here("s"), b"").id == GlobalId.user(4)
    assert items.create_secret(draft, here("s"), b"").id == GlobalId.user(5)
    numbers = [n for t in tables for n in (t.oid, t.row_type, t.row_array_type)]
    assert len(set(numbers)) == 9
    assert min(numbers) >= FIRST_OID
    assert max(n for info in TYPES for n in (info.oid, info.array_oid)) < FIRST_OID


def test_oids_end(draft: Draft) -> None:
    draft.numbers._next_oid = 2**32
    with pytest.raises(OutOfNumbers):
        items.create_cluster(draft, "c", SYSTEM_ROLE)


# Renaming and replacing


@pytest.mark.semantics(77, 78)
def test_a_rebound_name_means_something_else_and_changes_no_view(draft: Draft) -> None:
    table = items.create_table(draft, here("t"), COLUMNS)
    view = items.create_view(draft, here("v"), COLUMNS, query(table))
    items.rename(draft, table, "old")
    with pytest.raises(UnknownRelation):
        draft.catalog.relation(Name("t"), SCOPE)
    new = items.create_table(draft, here("t"), COLUMNS)
    assert draft.catalog.relation(Name("t"), SCOPE) is new
    renamed = draft.catalog.relation(Name("old"), SCOPE)
    assert (renamed.id, renamed.oid) == (table.id, table.oid)
    kept = draft.catalog.get(view.oid, View)
    assert kept is view
    assert [(b.name, b.id) for b in kept.query.bindings] == [("t", table.id)]
    assert draft.catalog.users == {table.id: frozenset({view.id})}


def test_what_can_be_renamed(draft: Draft) -> None:
    schema = items.create_schema(draft, DEFAULT_DATABASE, "s", SYSTEM_ROLE)
    database = items.create_database(draft, "d", SYSTEM_ROLE)
    cluster = items.create_cluster(draft, "c", SYSTEM_ROLE)
    role = roles.create_role(draft, "r")
    table = items.create_table(draft, here("t", namespace=schema.oid), COLUMNS)
    for found in (schema, database, cluster, role, table):
        items.rename(draft, found, found.name * 2)
    catalog = draft.catalog
    assert catalog.find(Name("tt", "ss"), SCOPE) == catalog.item(table.id)
    assert isinstance(catalog.database("dd"), Database)
    assert isinstance(catalog.cluster("cc"), Cluster)
    assert isinstance(catalog.role("rr"), Role)
    assert catalog.get(schema.oid, Namespace).name == "ss"
    with pytest.raises(DuplicateSchema):
        items.rename(draft, catalog.namespace("waterclock", "ss"), "public")
    with pytest.raises(NameReserved):
        items.rename(draft, catalog.role("rr"), "pg_r")
    with pytest.raises(NameReserved):
        items.rename(draft, catalog.namespace("waterclock", "ss"), "information_schema")
    items.rename(draft, catalog.role("rr"), "rr")


def test_an_item_moves_between_schemas_with_its_ids(draft: Draft) -> None:
    schema = items.create_schema(draft, DEFAULT_DATABASE, "s", SYSTEM_ROLE)
    table = items.create_table(draft, here("t"), COLUMNS)
    items.move(draft, table, schema.oid)
    assert draft.catalog.find(Name("t"), SCOPE) is None
    moved = draft.catalog.relation(Name("t", "s"), SCOPE)
    assert (moved.id, moved.oid) == (table.id, table.oid)


@pytest.mark.semantics(78)
def test_a_replaced_view_is_another_under_the_same_name_and_oid(draft: Draft) -> None:
    table = items.create_table(draft, here("t"), COLUMNS)
    view = items.create_view(draft, here("v"), COLUMNS, query(table))
    draft.comment(view.oid, "kept")
    new = items.replace_view(draft, view, [Column("x", INT4)], query())
    assert draft.catalog.relation(Name("v"), SCOPE) is new
    assert (new.oid, new.row_type) == (view.oid, view.row_type)
    assert new.id != view.id
    assert draft.catalog.try_item(view.id) is None
    assert draft.catalog.users == {}
    assert draft.catalog.comments[new.oid].texts == {0: "kept"}


@pytest.mark.semantics(78)
def test_a_view_in_use_is_not_replaced(draft: Draft) -> None:
    view = items.create_view(draft, here("v"), COLUMNS, query())
    items.create_view(draft, here("w"), COLUMNS, query(view))
    with pytest.raises(DependentsExist) as raised:
        items.replace_view(draft, view, COLUMNS, query())
    assert raised.value.detail == "view w uses it."
    assert draft.catalog.item(view.id) is view


# What is said about objects


def test_comments_are_about_objects_and_columns(draft: Draft) -> None:
    table = items.create_table(draft, here("t"), COLUMNS)
    draft.comment(table.oid, "all")
    draft.comment(table.oid, "second", column=2)
    assert draft.catalog.comments[table.oid].texts == {0: "all", 2: "second"}
    draft.comment(table.oid, None)
    assert draft.catalog.comments[table.oid].texts == {2: "second"}
    draft.comment(table.oid, None, column=2)
    assert table.oid not in draft.catalog.comments


def test_the_more_specific_setting_counts(draft: Draft) -> None:
    role = roles.create_role(draft, "r").oid
    for n, place in enumerate(
        (
            {},
            {"database": DEFAULT_DATABASE},
            {"role": role},
            {"role": role, "database": DEFAULT_DATABASE},
        )
    ):
        for m in range(n, 4):
            draft.set_setting(f"s{m}", str(n), **place)
    found = draft.catalog.settings_for(role, DEFAULT_DATABASE)
    assert found == {"s0": "0", "s1": "1", "s2": "2", "s3": "3"}
    assert draft.catalog.settings_for(SYSTEM_ROLE, DEFAULT_DATABASE)["s3"] == "1"
    draft.set_setting("s3", None, role=role, database=DEFAULT_DATABASE)
    assert draft.catalog.settings_for(role, DEFAULT_DATABASE)["s3"] == "2"
    draft.reset_settings(role=role)
    assert draft.catalog.settings_for(role, DEFAULT_DATABASE)["s3"] == "1"


def test_secrets_and_verifiers_are_not_printed(draft: Draft) -> None:
    secret = items.create_secret(draft, here("s"), b"ciphertext")
    role = roles.create_role(draft, "r", verifier="SCRAM-SHA-256$4096:salt$keys")
    assert "ciphertext" not in f"{secret!r} {draft.catalog!r}"
    assert "SCRAM" not in f"{role!r} {role} {draft.catalog!r}"
