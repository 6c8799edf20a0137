"""Create: an id is bound once, for ever, to a collection that begins empty."""

from __future__ import annotations

import pytest

from waterclock.model.errors import ForeignTime
from waterclock.model.lattice import EpochMillis
from waterclock.model.timeline import Timeline
from waterclock.persist.maintenance import checkpoint
from waterclock.persist.records import Right
from waterclock.storage.api import (
    Description,
    ReadCapability,
    Token,
    Write,
    WriteCapability,
    Writers,
)
from waterclock.storage.errors import CapabilityUnknown, IdInUse, UnknownCollection
from waterclock.testing.storage_world import (
    END,
    SCHEMA,
    TABLE,
    MemoryWorld,
    World,
    at,
    batch,
    contents,
    drain,
    is_readable,
    refused,
    shard_in,
    uppers_of,
    user,
    write,
)

SOURCE = Description(SCHEMA, Writers.STORAGE)
OTHER: Timeline[int] = Timeline("other clock", EpochMillis())


@pytest.mark.semantics(24, 37, 59)
def test_a_new_collection_is_empty_and_has_nothing_to_read(any_world: World) -> None:
    storage = any_world.storage
    read, written = storage.create(user(1), TABLE)
    assert (read.id, written.id) == (user(1), user(1))
    assert read.frontier == written.frontier == at(0)
    shard = shard_in(any_world, user(1))
    assert (shard.since, shard.upper, shard.batches) == (0, 0, ())
    subscription = storage.subscribe_at(read)  # accepted, though nothing is known yet
    assert subscription.receive(0) is None
    storage.append(write(written, 1, ((1, "a"), 0, 1)))
    assert drain(subscription)


@pytest.mark.semantics(59)
def test_a_collection_may_begin_later(world: MemoryWorld) -> None:
    read, written = world.storage.create(user(1), TABLE, start=at(40))
    assert read.frontier == written.frontier == at(40)
    assert not is_readable(world.storage, read, 40)
    world.storage.append(write(written, 41, ((1, "a"), 40, 1)))
    assert contents(world.storage, read, 40) == {(1, "a"): 1}


@pytest.mark.semantics(34, 59)
def test_an_id_is_never_bound_again(any_world: World) -> None:
    read, written = any_world.storage.create(user(1), TABLE)
    with refused(any_world, IdInUse):
        any_world.storage.create(user(1), TABLE)
    any_world.storage.drop_capability(read)
    any_world.storage.drop_capability(written)
    with refused(any_world, IdInUse) as caught:
        any_world.storage.create(user(1), Description(SCHEMA, Writers.STORAGE))
    assert str(caught[0]) == "collection id u1 is already used"
    any_world.storage.maintain()
    any_world.reopen()
    with refused(any_world, IdInUse):
        any_world.storage.create(user(1), TABLE)


@pytest.mark.semantics(34)
def test_an_id_stays_used_after_a_crash_and_a_checkpoint(world: MemoryWorld) -> None:
    for capability in world.storage.create(user(1), TABLE):
        world.storage.drop_capability(capability)
    checkpoint(world.storage._store)
    world.crash()
    with refused(world, IdInUse):
        world.storage.create(user(1), TABLE)


@pytest.mark.semantics(36)
def test_an_id_that_was_never_bound_can_not_be_used(world: MemoryWorld) -> None:
    storage = world.storage
    storage.create(user(1), TABLE)
    with refused(world, UnknownCollection):
        storage.acquire_capabilities(user(2))
    with refused(world, CapabilityUnknown):
        storage.subscribe_at(ReadCapability(Token("made up"), user(2), at(0)))
    made_up = WriteCapability(Token("made up"), user(2), at(0))
    with refused(world, CapabilityUnknown):
        storage.append(write(made_up, 1))
    with refused(world, UnknownCollection) as caught:
        storage.append(write(made_up, 1, ((1, "a"), 0, 1)))
    assert str(caught[0]) == "collection u2 does not exist"


@pytest.mark.semantics(10)
def test_a_start_of_another_timeline_is_refused(world: MemoryWorld) -> None:
    with refused(world, ForeignTime):
        world.storage.create(user(1), TABLE, start=OTHER.frontier(5))
    world.storage.create(user(1), TABLE)


@pytest.mark.semantics(10)
def test_a_collection_keeps_its_own_timeline(world: MemoryWorld) -> None:
    read, written = world.storage.create(user(1), Description(SCHEMA, timeline=OTHER))
    assert read.frontier == OTHER.start()
    [moved] = world.storage.append(Write(written, batch(((1, "a"), 0, 1)), OTHER.frontier(1)))
    world.reopen()
    read2, written2 = world.storage.acquire_capabilities(user(1))
    assert (read2.frontier, written2.frontier) == (OTHER.frontier(0), OTHER.frontier(1))
    with refused(world, ForeignTime):
        world.storage.append(write(moved, 2))
    assert uppers_of(drain(world.storage.subscribe_at(read))) == [OTHER.frontier(1)]


@pytest.mark.semantics(56)
def test_nobody_else_writes_what_storage_fills(any_world: World) -> None:
    storage = any_world.storage
    read, written = storage.create(user(1), SOURCE)
    assert written.frontier == END
    with refused(any_world, CapabilityUnknown):
        storage.append(write(written, 1))
    as_if_open = WriteCapability(written.token, written.id, read.frontier)
    with refused(any_world, CapabilityUnknown):
        storage.append(write(as_if_open, 1))
    _, acquired = storage.acquire_capabilities(user(1))
    assert acquired.frontier == END
    [kept] = [c for c in shard_in(any_world, user(1)).capabilities if c.right is Right.WRITE]
    assert kept.frontier == 0, "the collection itself is open"
    assert kept.id not in (written.token, acquired.token)


@pytest.mark.semantics(56)
def test_a_table_keeps_its_write_capability_and_its_readers_may_go(world: MemoryWorld) -> None:
    read, written = world.storage.create(user(1), TABLE)
    world.storage.drop_capability(read)
    world.storage.append(write(written, 5, ((1, "a"), 0, 1)))
    assert shard_in(world, user(1)).upper == 5
