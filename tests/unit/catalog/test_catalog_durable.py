"""The durable catalog: in one commit with storage, whole or not at all, and never from the past."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pytest

from waterclock.catalog import codec, items, roles
from waterclock.catalog.builtins import DEFAULT_CLUSTER, DEFAULT_DATABASE, SYSTEM_ROLE
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.draft import Draft
from waterclock.catalog.dropping import drop
from waterclock.catalog.durable import PREFIX, Creation, DurableCatalog
from waterclock.catalog.errors import CatalogChanged, DuplicateRelation
from waterclock.catalog.grants import change_owner, grant
from waterclock.catalog.names import Name
from waterclock.catalog.objects import (
    Column,
    IndexKey,
    Oid,
    Privilege,
    Role,
    Secret,
    Table,
    View,
)
from waterclock.catalog.sources import SourceDefinition, create_source
from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import INT4, INT8, MZ_TIMESTAMP, NUMERIC, array_of, numeric
from waterclock.model.schema import Array, Decimal, Int, Schema
from waterclock.model.schema import Column as StoredColumn
from waterclock.persist.errors import Damaged, FormatTooNew, Unavailable
from waterclock.persist.maintenance import checkpoint
from waterclock.persist.notes import Notes
from waterclock.persist.plans import together
from waterclock.storage import riders
from waterclock.storage.api import Description, Write, Writers
from waterclock.storage.errors import CapabilityUnknown, IdInUse
from waterclock.testing.catalog_world import (
    COLUMNS,
    SCOPE,
    CatalogWorld,
    here,
    query,
)
from waterclock.testing.histories import together as together_in_threads
from waterclock.testing.storage_world import END, at, user

NUMBERS = Description(Schema((StoredColumn("n", Int(64)),)))
PROGRESS = (Column("mz_timestamp", MZ_TIMESTAMP), Column("offset", INT8))


@pytest.fixture
def world() -> Iterator[CatalogWorld]:
    world = CatalogWorld()
    yield world
    world.close()


def test_the_first_start_makes_what_is_built_in_and_later_ones_find_it(world: CatalogWorld) -> None:
    first = world.catalog
    assert (first.version, first.database("waterclock").oid) == (1, DEFAULT_DATABASE)
    world.open()
    assert world.catalog == first


def test_everything_comes_back_after_a_restart_and_a_checkpoint(world: CatalogWorld) -> None:
    draft = world.durable.draft()
    fill(draft)
    world.durable.commit(draft)
    before = world.catalog
    checkpoint(world.store)
    world.open()
    assert world.catalog == before
    secret = world.catalog.named(Secret, Name("secret"), SCOPE)
    assert secret.ciphertext == b"\0cipher"
    assert world.catalog.role("ann").verifier == "SCRAM-SHA-256$x"


def fill(draft: Draft) -> None:
    """One of everything."""
    ann, bob = (
        roles.create_role(draft, "ann", verifier="SCRAM-SHA-256$x"),
        roles.create_role(draft, "bob"),
    )
    roles.grant_role(draft, ann, bob, by=SYSTEM_ROLE, admin=True)
    database = items.create_database(draft, "d", ann.oid)
    items.create_schema(draft, database.oid, "s", SYSTEM_ROLE)
    cluster = items.create_cluster(draft, "c", SYSTEM_ROLE)
    secret = items.create_secret(draft, here("secret"), b"\0cipher")
    connection = items.create_connection(draft, here("con"), "kafka", "C", b"\1", [secret.id])
    defined = SourceDefinition("kafka", "S", COLUMNS, b"\2", (connection.id,), envelope="upsert")
    create_source(draft, here("src"), defined, cluster.oid, progress_columns=PROGRESS)
    table = items.create_table(draft, here("t"), [*COLUMNS, Column("c", INT4, default="1 + 1")])
    view = items.create_view(draft, here("v"), COLUMNS, query(table))
    items.create_materialized_view(draft, here("m"), COLUMNS, query(table, view), cluster.oid)
    items.create_index(draft, here("i"), view.id, [IndexKey("a + 1", INT4)], DEFAULT_CLUSTER)
    grant(draft, table, [Privilege.SELECT], [bob.oid], by=SYSTEM_ROLE, grant_option=True)
    draft.comment(table.oid, "a table")
    draft.comment(table.oid, "a column", column=1)
    draft.set_setting("search_path", "s", role=ann.oid, database=database.oid)


@pytest.mark.semantics(92)
def test_a_table_is_filled_by_appends_and_dropping_it_drops_both_capabilities(
    world: CatalogWorld,
) -> None:
    table = world.create_table("t")
    reader, writer = world.durable.capabilities(table.id)
    assert reader is not None
    assert writer is not None
    world.storage.append(Write(writer, None, at(5)))
    world.open()
    again, moved = world.durable.capabilities(table.id)
    assert again == reader
    assert moved is not None
    assert (moved.token, moved.frontier) == (writer.token, at(5)), "as it is now"
    draft = world.durable.draft()
    drop(draft, [world.item("t")])
    world.durable.commit(draft)
    assert world.durable.capabilities(table.id) == (None, None)
    assert world.live_collections() == set()
    for capability in (reader, moved):
        with pytest.raises(CapabilityUnknown):
            world.storage.clone_capability(capability)
    assert [c.frontier for c in world.storage.acquire_capabilities(table.id)] == [END, END]


@pytest.mark.semantics(89, 91)
def test_a_source_is_active_until_it_is_dropped(world: CatalogWorld) -> None:
    draft = world.durable.draft()
    defined = SourceDefinition("load generator", "S", COLUMNS)
    made = create_source(draft, here("s"), defined, DEFAULT_CLUSTER, progress_columns=PROGRESS)
    assert made.remap is not None
    described = Description(made.source.schema, Writers.STORAGE)
    given = world.durable.commit(
        draft,
        [Creation(made.source.id, described, start=at(70)), Creation(made.remap, NUMBERS)],
    )
    reader, writer = given[made.source.id]
    assert (reader.frontier, writer.frontier) == (at(70), END), "it begins late; storage fills it"
    world.open()
    assert world.durable.capabilities(made.source.id) == (reader, None)
    assert world.live_collections() == {str(made.source.id), str(made.remap)}
    draft = world.durable.draft()
    drop(draft, [world.item("s")])
    world.durable.commit(draft)
    with pytest.raises(CapabilityUnknown):
        world.storage.clone_capability(reader)
    assert world.durable.capabilities(made.remap) == (None, None)
    assert world.find("s_progress") is None


def test_a_draft_that_is_given_up_leaves_no_trace(world: CatalogWorld) -> None:
    before, noted = world.catalog, world.notes()
    draft = world.durable.draft()
    items.create_table(draft, here("t"), COLUMNS)
    assert world.catalog is before
    assert world.notes() == noted
    assert world.find("t") is None


def test_a_snapshot_does_not_change(world: CatalogWorld) -> None:
    before = world.catalog
    objects = dict(before.objects)
    table = world.create_table("t")
    world.create_view("v", table)
    assert before.objects == objects
    assert before.find(Name("t"), SCOPE) is None
    assert world.catalog.version == before.version + 2
    draft = world.durable.draft()
    world.durable.commit(draft)
    with pytest.raises(AssertionError):
        draft.comment(DEFAULT_DATABASE, "too late")


@pytest.mark.semantics(80)
def test_of_two_changes_to_one_version_the_later_is_refused(world: CatalogWorld) -> None:
    one, other = world.durable.draft(), world.durable.draft()
    table = items.create_table(one, here("t"), COLUMNS)
    clash = items.create_table(other, here("t"), COLUMNS)
    world.durable.commit(one, [Creation(table.id, NUMBERS)])
    with pytest.raises(CatalogChanged) as raised:
        world.durable.commit(other, [Creation(clash.id, NUMBERS)])
    assert raised.value.sqlstate == "40001"
    assert world.live_collections() == {str(table.id)}
    assert world.item("t").id == table.id
    with pytest.raises(DuplicateRelation):
        items.create_table(world.durable.draft(), here("t"), COLUMNS)


def test_a_command_that_is_refused_refuses_the_whole_change(world: CatalogWorld) -> None:
    table = world.create_table("t")
    before, noted = world.catalog, world.notes()
    draft = world.durable.draft()
    drop(draft, [world.item("t")])
    new = items.create_table(draft, here("u"), COLUMNS)

    def refuse(_: object) -> None:
        raise IdInUse("no")

    with pytest.raises(IdInUse):
        world.durable.commit(draft, [Creation(new.id, NUMBERS)], alongside=lambda _: [refuse])  # type: ignore[list-item]
    assert (world.catalog, world.notes()) == (before, noted)
    assert world.live_collections() == {str(table.id)}


def test_others_ride_in_the_same_entry(world: CatalogWorld) -> None:
    views = Notes(world.store, "view/")
    entries = world.consensus.end()
    draft = world.durable.draft()
    items.create_secret(draft, here("s"), b"")
    world.durable.commit(draft, alongside=lambda _: [lambda _: (views.events({"u1": b"x"}), None)])
    assert world.consensus.end() == entries + 1
    assert views.all() == {"u1": b"x"}


def test_plans_together_are_all_or_nothing(world: CatalogWorld) -> None:
    first, second = riders.create(user(50), NUMBERS), riders.create(user(51), NUMBERS)
    answers = world.store.commit(together([first, second]))
    assert [reader.id for reader, _ in answers] == [user(50), user(51)]
    with pytest.raises(IdInUse):
        world.store.commit(together([riders.create(user(52), NUMBERS), first]))
    assert world.live_collections() == {"u50", "u51"}


@pytest.mark.semantics(34)
def test_ids_are_never_given_out_again(world: CatalogWorld) -> None:
    table = world.create_table("t")
    draft = world.durable.draft()
    drop(draft, [world.item("t")])
    world.durable.commit(draft)
    left = world.durable.draft().numbers.id()
    world.storage.create(left, NUMBERS)  # a step of an installation that then does not go on
    world.open()
    again = world.create_table("t")
    assert again.id == GlobalId.user(left.number + 1)
    assert again.oid > table.oid


def test_a_server_that_was_interrupted_finds_back(world: CatalogWorld) -> None:
    """Somebody else's view of the durable state counts, not our memory of it."""
    behind = DurableCatalog(world.store)
    table = world.create_table("t")
    with pytest.raises(CatalogChanged):
        behind.commit(behind.draft())
    assert behind.current == world.catalog
    assert behind.current.find(Name("t"), SCOPE) == table


@pytest.mark.semantics(80)
def test_writers_at_once_take_turns(world: CatalogWorld) -> None:
    """Each tries again when another came first; all come through, in one order."""
    first = world.catalog.version

    def worker(name: str) -> None:
        for n in range(10):
            while True:
                try:
                    world.create_table(f"{name}{n}")
                except CatalogChanged:
                    continue
                break

    together_in_threads([lambda name=name: worker(name) for name in "abcd"])  # type: ignore[misc]
    assert world.catalog.version == first + 40
    assert len(world.live_collections()) == 40
    before = world.catalog
    world.open()
    assert world.catalog == before


# Crashes

Statement = Callable[[CatalogWorld], object]


def _drop(*names: str) -> Statement:
    def run(world: CatalogWorld) -> None:
        draft = world.durable.draft()
        drop(draft, [world.item(name) for name in names], cascade=True)
        world.drop(draft)

    return run


def _change(change: Callable[[Draft], object]) -> Statement:
    def run(world: CatalogWorld) -> None:
        draft = world.durable.draft()
        change(draft)
        world.durable.commit(draft)

    return run


def _create_source(world: CatalogWorld) -> None:
    draft = world.durable.draft()
    defined = SourceDefinition("kafka", "S", COLUMNS)
    made = create_source(draft, here("src"), defined, DEFAULT_CLUSTER, progress_columns=PROGRESS)
    assert made.remap is not None
    described = Description(made.source.schema, Writers.STORAGE)
    creations = [Creation(made.source.id, described), Creation(made.remap, NUMBERS)]
    world.durable.commit(draft, creations)


STATEMENTS: dict[str, Statement] = {
    "create table": lambda world: world.create_table("t"),
    "create view": lambda world: world.create_view("v", world.item("base")),
    "create materialized view": lambda world: world.create_materialized_view(
        "m", world.item("base")
    ),
    "create index": _change(
        lambda draft: items.create_index(
            draft,
            here("i"),
            draft.catalog.relation(Name("base"), SCOPE).id,
            [IndexKey("a", INT4, 1)],
            DEFAULT_CLUSTER,
        )
    ),
    "create source": _create_source,
    "create connection": _change(
        lambda draft: items.create_connection(draft, here("c"), "kafka", "C")
    ),
    "create secret": _change(lambda draft: items.create_secret(draft, here("s"), b"x")),
    "create database": _change(lambda draft: items.create_database(draft, "d", SYSTEM_ROLE)),
    "create schema": _change(
        lambda draft: items.create_schema(draft, DEFAULT_DATABASE, "s", SYSTEM_ROLE)
    ),
    "create role": _change(lambda draft: roles.create_role(draft, "r")),
    "create cluster": _change(lambda draft: items.create_cluster(draft, "c", SYSTEM_ROLE)),
    "alter role": _change(
        lambda draft: roles.alter_role(draft, draft.catalog.role("ann"), login=True)
    ),
    "alter owner": _change(
        lambda draft: change_owner(
            draft,
            draft.catalog.relation(Name("base"), SCOPE),
            draft.catalog.role("ann").oid,
        )
    ),
    "rename": _change(
        lambda draft: items.rename(draft, draft.catalog.relation(Name("base"), SCOPE), "x")
    ),
    "create or replace view": _change(
        lambda draft: items.replace_view(
            draft, draft.catalog.named(View, Name("top"), SCOPE), COLUMNS, query()
        )
    ),
    "grant": _change(
        lambda draft: grant(
            draft,
            draft.catalog.relation(Name("base"), SCOPE),
            [Privilege.SELECT],
            [draft.catalog.role("ann").oid],
            by=SYSTEM_ROLE,
        )
    ),
    "grant role": _change(
        lambda draft: roles.grant_role(
            draft, draft.catalog.get(SYSTEM_ROLE, Role), draft.catalog.role("ann"), by=SYSTEM_ROLE
        )
    ),
    "comment": _change(lambda draft: draft.comment(DEFAULT_DATABASE, "said")),
    "alter role set": _change(lambda draft: draft.set_setting("x", "1", role=SYSTEM_ROLE)),
    "drop role": _change(lambda draft: roles.drop_role(draft, draft.catalog.role("ann"))),
    "drop table cascade": _drop("base"),
    "drop materialized view": _drop("mat"),
    "drop view": _drop("top"),
}


def prepared() -> CatalogWorld:
    """A world with something to alter and drop."""
    world = CatalogWorld()
    base = world.create_table("base")
    middle = world.create_view("middle", base)
    world.create_materialized_view("mat", middle)
    world.create_view("top", world.item("mat"))
    _change(lambda draft: roles.create_role(draft, "ann"))(world)
    return world


def consistent(world: CatalogWorld) -> None:
    """What has a collection has it with the capabilities it needs, and nothing else is alive."""
    stored = set()
    for item in world.catalog.items():
        if item.kind not in ("table", "materialized view", "source"):
            continue
        reader, writer = world.durable.capabilities(item.id)
        assert reader is not None, item
        assert (writer is not None) == (item.kind == "table")
        stored |= {str(item.id), *(str(c) for c in getattr(item, "collections", ()))}
    assert world.live_collections() == stored
    noted = {key for key in world.notes() if key.startswith(f"{PREFIX}capability/")}
    assert noted == {f"{PREFIX}capability/{name}" for name in stored}
    views = {str(i.id) for i in world.catalog.items() if i.kind == "materialized view"}
    assert world.views.all().keys() == views, "maintained exactly if it is there"


@pytest.mark.semantics(69, 80)
@pytest.mark.parametrize("lost_answer", [False, True])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_crash_leaves_the_whole_statement_or_nothing(statement: str, lost_answer: bool) -> None:
    """Cut the log off at every entry that the statement writes; it is known how many those are."""
    whole = prepared()
    before = whole.catalog
    entries = whole.consensus.end()
    STATEMENTS[statement](whole)
    steps = whole.consensus.end() - entries
    after = whole.catalog
    assert steps >= 1
    assert after != before
    consistent(whole)
    whole.close()
    for step in range(steps):
        world = prepared()
        assert world.catalog == before
        world.consensus.mend()
        world.consensus.break_at, world.consensus.lost_answer = step, lost_answer
        with pytest.raises(Unavailable):
            STATEMENTS[statement](world)
        world.open()
        done = step == steps - 1 and lost_answer
        assert contents(world.catalog) == contents(after if done else before)
        assert world.durable.release_unreferenced() == (), "nothing was left half-made"
        consistent(world)
        world.close()


def contents(catalog: Catalog) -> tuple[object, ...]:
    return (catalog.objects, catalog.memberships, catalog.comments, catalog.settings)


@pytest.mark.semantics(80)
@pytest.mark.parametrize("lost_answer", [False, True])
def test_an_installation_in_several_steps_can_be_cut_off_anywhere(lost_answer: bool) -> None:
    """First the collection, then whoever maintains it, then the name."""

    def install(world: CatalogWorld) -> None:
        draft = world.durable.draft()
        view = items.create_materialized_view(
            draft, here("m"), COLUMNS, query(world.item("base")), DEFAULT_CLUSTER
        )
        reader, writer = world.storage.create(view.id, Description(view.schema))
        held = world.storage.clone_capability(reader)
        world.views.put(str(view.id), writer.token.encode())
        world.durable.commit(draft, adopted={view.id: (held, None)})
        world.storage.drop_capability(reader)

    def reconcile(world: CatalogWorld) -> None:
        """What a start does: first whoever maintains views, then the collections."""
        for name in world.views.all():
            if world.catalog.try_item(GlobalId.parse(name)) is None:
                world.views.drop(name)
        world.durable.release_unreferenced()

    for step in range(5):
        world = prepared()
        world.consensus.mend()
        world.consensus.break_at, world.consensus.lost_answer = step, lost_answer
        with pytest.raises(Unavailable):
            install(world)
        world.open()
        reconcile(world)
        installed = step + lost_answer > 3
        assert (world.find("m") is not None) == installed
        assert len(world.views.all()) == 1 + installed
        consistent(world)
        world.close()
    world = prepared()
    install(world)
    reconcile(world)
    assert world.find("m") is not None
    consistent(world)
    world.close()


# Records


def test_records_of_a_newer_version_are_refused() -> None:
    note = codec.encode(Role(oid=SYSTEM_ROLE, name="r"))
    assert codec.decode_object(note) == Role(oid=SYSTEM_ROLE, name="r")
    with pytest.raises(FormatTooNew):
        codec.decode_object(bytes([codec.FORMAT + 1]) + note[1:])
    with pytest.raises(Damaged):
        codec.decode_object(note[:-1])


def test_records_without_a_later_field_are_read_with_its_default() -> None:
    old = {"type": "role", "oid": 10, "name": "r"}
    note = bytes([codec.FORMAT]) + msgspec.msgpack.encode(old)
    assert codec.decode_object(note) == Role(oid=SYSTEM_ROLE, name="r")


def test_numbers_of_an_older_format_keep_the_scale_they_were_held_with() -> None:
    columns = (Column("n", NUMERIC), Column("l", array_of(NUMERIC)), Column("m", numeric(8, 2)))
    table = Table(
        oid=Oid(20001),
        name="t",
        owner=SYSTEM_ROLE,
        id=GlobalId.parse("u1"),
        namespace=Oid(20000),
        columns=columns,
        row_type=Oid(20002),
        row_array_type=Oid(20003),
    )
    note = codec.encode(table)
    assert codec.decode_object(note) == table
    older = codec.decode_object(b"\x01" + note[1:])
    assert isinstance(older, Table)
    held = [column.type for column in older.schema.columns]
    assert held == [Decimal(38, 18), Array(Decimal(38, 18)), Decimal(8, 2)]
