"""AcquireCapabilities: getting hold of a collection at its present frontiers, if anybody can."""

from __future__ import annotations

import pytest

from waterclock.storage.api import Description, Writers
from waterclock.storage.errors import CapabilityUnknown, UnknownCollection
from waterclock.testing.storage_world import (
    END,
    SCHEMA,
    TABLE,
    MemoryWorld,
    World,
    at,
    contents,
    refused,
    shard_in,
    user,
    write,
)


@pytest.mark.semantics(35, 57, 68)
def test_it_gives_the_present_frontiers(any_world: World) -> None:
    storage = any_world.storage
    read, written = storage.create(user(1), TABLE)
    storage.append(write(written, 9, ((1, "a"), 4, 1)))
    read = storage.downgrade_capability(read, at(5))
    for _ in range(2):
        read2, write2 = storage.acquire_capabilities(user(1))
        assert (read2.id, read2.frontier) == (user(1), at(5))
        assert (write2.id, write2.frontier) == (user(1), at(9))
        assert contents(storage, read2, 8) == {(1, "a"): 1}
        storage = any_world.reopen()
    storage.append(write(write2, 20))
    assert shard_in(any_world, user(1)).upper == 9, "the first writer is still there"


@pytest.mark.semantics(57)
def test_it_opens_a_collection_one_did_not_create(world: MemoryWorld) -> None:
    world.storage.create(user(1), TABLE)
    read, written = world.storage.acquire_capabilities(user(1))
    original = shard_in(world, user(1)).capabilities
    assert len({c.id for c in original}) == 4
    assert {read.token, written.token} < {c.id for c in original}


@pytest.mark.semantics(40, 53, 57)
def test_what_everybody_released_is_useless(any_world: World) -> None:
    storage = any_world.storage
    read, written = storage.create(user(1), TABLE)
    [written] = storage.append(write(written, 3, ((1, "a"), 0, 1)))
    storage.drop_capability(read)
    read2, write2 = storage.acquire_capabilities(user(1))
    assert (read2.frontier, write2.frontier) == (END, at(3))
    with refused(any_world, CapabilityUnknown):
        storage.subscribe_at(read2)
    storage.drop_capability(written)
    storage.drop_capability(write2)
    before = any_world.durable()
    read3, write3 = storage.acquire_capabilities(user(1))
    assert (read3.frontier, write3.frontier) == (END, END)
    assert any_world.durable() == before, "a useless capability is not worth a record"
    with refused(any_world, CapabilityUnknown):
        storage.append(write(write3, 4))


@pytest.mark.semantics(47, 56, 57)
def test_what_its_creator_writes_nobody_else_can(any_world: World) -> None:
    """The output of a view: the right that its creator was given is the only one there is."""
    storage = any_world.storage
    described = Description(SCHEMA, Writers.CREATOR)
    read, written = storage.create(user(1), described)
    for _ in range(2):
        _, none = storage.acquire_capabilities(user(1))
        assert none.frontier == END
        with refused(any_world, CapabilityUnknown):
            storage.append(write(none, 9))
        storage = any_world.reopen()
    [written] = storage.append(write(written, 3, ((1, "a"), 0, 1)))
    handed_on = storage.clone_capability(written)
    storage.drop_capability(written)
    storage.append(write(handed_on, 5))
    assert contents(storage, read, 4) == {(1, "a"): 1}


def test_unknown_collections_can_not_be_acquired(world: MemoryWorld) -> None:
    with refused(world, UnknownCollection) as caught:
        world.storage.acquire_capabilities(user(7))
    assert str(caught[0]) == "collection u7 does not exist"


@pytest.mark.parametrize(("read", "write_too"), [(True, False), (False, True), (False, False)])
def test_one_may_ask_for_less(world: MemoryWorld, read: bool, write_too: bool) -> None:
    world.storage.create(user(1), TABLE)
    reader, writer = world.storage.acquire_capabilities(user(1), read=read, write=write_too)
    assert (reader.frontier != END) == read
    assert (writer.frontier != END) == write_too
    assert len(shard_in(world, user(1)).capabilities) == 2 + read + write_too


@pytest.mark.semantics(56)
def test_a_source_can_be_read_and_not_written(world: MemoryWorld) -> None:
    world.storage.create(user(1), Description(SCHEMA, Writers.STORAGE), start=at(5))
    reader, writer = world.storage.acquire_capabilities(user(1))
    assert (reader.frontier, writer.frontier) == (at(5), END)


def test_acquiring_holds_the_frontiers(world: MemoryWorld) -> None:
    read, written = world.storage.create(user(1), TABLE)
    world.storage.acquire_capabilities(user(1))
    world.storage.drop_capability(read)
    world.storage.drop_capability(written)
    assert (shard_in(world, user(1)).since, shard_in(world, user(1)).upper) == (0, 0)
