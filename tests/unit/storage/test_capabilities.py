"""Capabilities: what holds the frontiers of a collection, and how each use of one is checked."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from waterclock.errors import WaterclockError
from waterclock.model.errors import ForeignTime, FrontierRegression
from waterclock.model.lattice import EpochMillis
from waterclock.model.timeline import Timeline
from waterclock.storage.api import ReadCapability, Token, WriteCapability
from waterclock.storage.controller import Storage
from waterclock.storage.errors import CapabilityMisstated, CapabilityUnknown
from waterclock.testing.storage_world import (
    END,
    TABLE,
    HeldConsensus,
    MemoryWorld,
    World,
    at,
    contents,
    refused,
    shard_in,
    user,
    write,
)

Table = tuple[ReadCapability, WriteCapability]
Capability = ReadCapability | WriteCapability
OTHER: Timeline[int] = Timeline("other clock", EpochMillis())

ACTIONS: dict[str, Callable[[Storage, Capability], object]] = {
    "clone": lambda storage, capability: storage.clone_capability(capability),
    "downgrade": lambda storage, capability: storage.downgrade_capability(capability, at(50)),
    "drop": lambda storage, capability: storage.drop_capability(capability),
    "use": lambda storage, capability: (
        storage.append(write(capability, 50))
        if isinstance(capability, WriteCapability)
        else storage.subscribe_at(capability)
    ),
}


@pytest.fixture(params=ACTIONS.values(), ids=ACTIONS.keys())
def act(request: pytest.FixtureRequest) -> Callable[[Storage, Capability], object]:
    """Each way to exercise a capability."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=["read", "write"])
def granted(request: pytest.FixtureRequest, table: Table) -> Capability:
    """A capability of either kind, for u1 at 0."""
    return table[0] if request.param == "read" else table[1]


def other_kind(capability: Capability) -> Capability:
    other = WriteCapability if isinstance(capability, ReadCapability) else ReadCapability
    return other(capability.token, capability.id, capability.frontier)


MISSTATED: dict[str, Callable[[Capability], Capability]] = {
    "later frontier": lambda c: replace(c, frontier=at(3)),
    "empty frontier": lambda c: replace(c, frontier=END),
    "other collection": lambda c: replace(c, id=user(2)),
    "unknown collection": lambda c: replace(c, id=user(99)),
    "other timeline": lambda c: replace(c, frontier=OTHER.frontier(0)),
    "other kind": other_kind,
}


@pytest.mark.semantics(48)
@pytest.mark.parametrize("misstate", MISSTATED.values(), ids=MISSTATED.keys())
def test_a_capability_must_be_as_stated(
    world: MemoryWorld,
    granted: Capability,
    act: Callable[[Storage, Capability], object],
    misstate: Callable[[Capability], Capability],
) -> None:
    world.storage.create(user(2), TABLE)
    with refused(world, CapabilityMisstated) as caught:
        act(world.storage, misstate(granted))
    assert str(caught[0]).endswith("is not as stated")
    act(world.storage, granted)


@pytest.mark.semantics(48)
def test_an_outdated_statement_is_refused(
    world: MemoryWorld, granted: Capability, act: Callable[[Storage, Capability], object]
) -> None:
    moved = world.storage.downgrade_capability(granted, at(7))
    with refused(world, CapabilityMisstated):
        act(world.storage, granted)
    act(world.storage, moved)


@pytest.mark.semantics(47, 48)
def test_a_token_that_was_never_granted_gives_no_right(
    world: MemoryWorld, granted: Capability, act: Callable[[Storage, Capability], object]
) -> None:
    with refused(world, CapabilityUnknown):
        act(world.storage, replace(granted, token=Token("0" * 32)))


@pytest.mark.semantics(48, 53)
def test_a_dropped_capability_gives_no_right(
    world: MemoryWorld, granted: Capability, act: Callable[[Storage, Capability], object]
) -> None:
    dropped = world.storage.drop_capability(granted)
    assert dropped.frontier == END
    assert dropped.token == granted.token
    for presented in (granted, dropped):
        with refused(world, CapabilityUnknown):
            act(world.storage, presented)
    world.reopen()
    with refused(world, CapabilityUnknown):
        act(world.storage, granted)


@pytest.mark.semantics(47, 51)
def test_whoever_presents_the_token_has_the_right(world: MemoryWorld, table: Table) -> None:
    read, written = table
    tokens = {read.token, written.token, world.storage.clone_capability(read).token}
    assert len(tokens) == 3, "each is identified by its own"
    handed_over = WriteCapability(Token(str(written.token)), user(1), at(0))
    world.storage.append(write(handed_over, 1, ((1, "a"), 0, 1)))
    received = ReadCapability(Token(str(read.token)), user(1), at(0))
    assert contents(world.storage, received, 0) == {(1, "a"): 1}


@pytest.mark.semantics(50)
def test_a_clone_is_independent(any_world: World) -> None:
    storage = any_world.storage
    read, written = storage.create(user(1), TABLE)
    read2, write2 = storage.clone_capability(read), storage.clone_capability(written)
    assert replace(read2, token=read.token) == read
    assert replace(write2, token=written.token) == written
    read = storage.downgrade_capability(read, at(5))
    written = storage.downgrade_capability(written, at(9))
    assert (shard_in(any_world, user(1)).since, shard_in(any_world, user(1)).upper) == (0, 0)
    storage.drop_capability(read)
    storage.drop_capability(written)
    assert (shard_in(any_world, user(1)).since, shard_in(any_world, user(1)).upper) == (0, 0)
    storage.append(write(write2, 1, ((1, "a"), 0, 1)))
    assert contents(storage, read2, 0) == {(1, "a"): 1}


@pytest.mark.semantics(45, 46)
def test_since_is_the_meet_of_what_readers_hold(world: MemoryWorld, table: Table) -> None:
    storage = world.storage
    first = table[0]
    second, third = storage.clone_capability(first), storage.clone_capability(first)

    def since() -> int | None:
        return shard_in(world, user(1)).since

    second = storage.downgrade_capability(second, at(8))
    storage.maintain()
    assert since() == 0, "nobody else decides"
    first = storage.downgrade_capability(first, at(5))
    assert since() == 0
    storage.drop_capability(third)
    assert since() == 5
    storage.drop_capability(first)
    assert since() == 8
    storage.drop_capability(second)
    assert since() is None


@pytest.mark.semantics(45, 46)
def test_upper_is_the_meet_of_what_writers_hold(world: MemoryWorld, table: Table) -> None:
    storage = world.storage
    first, second = table[1], storage.clone_capability(table[1])
    uppers = []
    for step in (
        lambda: storage.append(write(first, 6, ((1, "a"), 5, 1))),
        lambda: storage.downgrade_capability(second, at(4)),
        lambda: storage.drop_capability(replace(second, frontier=at(4))),
        lambda: storage.drop_capability(replace(first, frontier=at(6))),
    ):
        step()
        uppers.append(shard_in(world, user(1)).upper)
    assert uppers == [0, 4, 6, None]


@pytest.mark.semantics(33, 52)
def test_a_downgrade_goes_forward_only(world: MemoryWorld, granted: Capability) -> None:
    storage = world.storage
    moved = storage.downgrade_capability(granted, at(7))
    assert replace(moved, frontier=at(0)) == granted
    with refused(world, FrontierRegression):
        storage.downgrade_capability(moved, at(6))
    before = world.durable()
    assert storage.downgrade_capability(moved, at(7)) == moved
    assert world.durable() == before, "to stay is no change"
    storage.downgrade_capability(moved, at(8))


@pytest.mark.semantics(10, 52)
def test_a_downgrade_to_another_timeline_is_refused(
    world: MemoryWorld, granted: Capability
) -> None:
    for foreign in (OTHER.frontier(9), OTHER.empty()):
        with refused(world, ForeignTime):
            world.storage.downgrade_capability(granted, foreign)


@pytest.mark.semantics(49, 69)
def test_capabilities_outlive_the_server(any_world: World) -> None:
    storage = any_world.storage
    read, written = storage.create(user(1), TABLE)
    clone = storage.clone_capability(read)
    read = storage.downgrade_capability(read, at(2))
    [written] = storage.append(write(written, 4, ((1, "a"), 3, 1)))
    storage = any_world.reopen()
    assert contents(storage, clone, 3) == {(1, "a"): 1}
    assert contents(storage, read, 3) == {(1, "a"): 1}
    [written] = storage.append(write(written, 5, ((2, "b"), 4, 1)))
    assert contents(storage, read, 4) == {(1, "a"): 1, (2, "b"): 1}
    storage.drop_capability(clone)
    assert shard_in(any_world, user(1)).since == 2


@pytest.mark.semantics(54)
def test_nothing_moves_before_storage_confirms(world: MemoryWorld, table: Table) -> None:
    """Deciding to downgrade, even much later and for many steps at once, changes only freshness."""
    read, written = table
    storage = world.storage
    for time in range(10):
        [written] = storage.append(write(written, time + 1, ((time, "x"), time, 1)))
    assert shard_in(world, user(1)).since == 0
    assert len(contents(storage, read, 0)) == 1
    late = storage.downgrade_capability(read, at(9))
    assert shard_in(world, user(1)).since == 9
    assert len(contents(storage, late, 9)) == 10


@pytest.mark.semantics(45, 54)
def test_an_action_has_no_effect_before_it_is_durable() -> None:
    log = HeldConsensus()
    world = MemoryWorld(consensus=log)
    read, written = world.storage.create(user(1), TABLE)
    subscription = world.storage.subscribe_at(read)
    log.hold()
    change = write(written, 5, ((1, "a"), 0, 1))
    writer = threading.Thread(target=world.storage.append, args=(change,))
    writer.start()
    try:
        assert log.asked.wait(120)
        assert subscription.receive(0.05) is None, "upper has not moved for anybody"
        assert writer.is_alive()
    finally:
        log.let_through.set()
        writer.join(120)
    assert subscription.receive(120) is not None
    world.storage.close()


@pytest.mark.semantics(47)
def test_tokens_can_not_be_guessed(world: MemoryWorld, table: Table) -> None:
    clones = {world.storage.clone_capability(table[0]).token for _ in range(50)}
    assert len(clones) == 50
    assert all(len(token) == 32 for token in clones)


def test_errors_tell_what_to_do(world: MemoryWorld, table: Table) -> None:
    world.storage.drop_capability(table[0])
    with pytest.raises(WaterclockError) as caught:
        world.storage.clone_capability(table[0])
    assert str(caught.value) == "the capability for collection u1 does not exist"
    assert caught.value.detail == "It was dropped, its lease expired, or it was never granted."
    assert caught.value.hint == "Acquire new capabilities for the collection."
    assert caught.value.sqlstate == "42501"
