"""Leases: a capability nobody exercises runs out, and only its own hold goes with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from waterclock.storage.api import ReadCapability, WriteCapability
from waterclock.storage.controller import Storage
from waterclock.storage.errors import (
    CapabilityExpired,
    CapabilityUnknown,
    SubscriptionCancelled,
)
from waterclock.testing.storage_world import (
    TABLE,
    MemoryWorld,
    at,
    contents,
    drain,
    refused,
    shard_in,
    user,
    write,
)

LEASE = 1000
Leased = tuple[ReadCapability, WriteCapability]


@pytest.fixture
def leased(world: MemoryWorld) -> Leased:
    """A table whose two capabilities last a second."""
    return world.storage.create(user(1), TABLE, lease_ms=LEASE)


@pytest.mark.semantics(48, 55)
def test_an_expired_lease_gives_no_right(world: MemoryWorld, leased: Leased) -> None:
    read, written = leased
    storage = world.storage
    world.clock.now += LEASE
    for action in (
        lambda: storage.subscribe_at(read),
        lambda: storage.clone_capability(read),
        lambda: storage.downgrade_capability(read, at(3)),
        lambda: storage.drop_capability(read),
        lambda: storage.append(write(written, 1, ((1, "a"), 0, 1))),
    ):
        with refused(world, CapabilityExpired):
            action()
    assert storage.expire_leases() == 2
    with refused(world, CapabilityUnknown):
        storage.subscribe_at(read)
    with refused(world, CapabilityUnknown):
        storage.append(write(written, 1))
    assert storage.expire_leases() == 0


def test_a_lease_lasts_as_long_as_it_says(world: MemoryWorld, leased: Leased) -> None:
    world.clock.now += LEASE - 1
    assert world.storage.expire_leases() == 0
    world.storage.clone_capability(leased[0])


RENEWALS: dict[str, Callable[[Storage, ReadCapability], object]] = {
    "clone": lambda storage, read: storage.clone_capability(read),
    "downgrade to where it is": lambda storage, read: storage.downgrade_capability(
        read, read.frontier
    ),
    "subscribe": lambda storage, read: storage.subscribe_at(read),
    "receive": lambda storage, read: storage.subscribe_at(read).receive(0),
}


@pytest.mark.semantics(55)
@pytest.mark.parametrize("renew", RENEWALS.values(), ids=RENEWALS.keys())
def test_each_exercise_renews_the_lease(
    world: MemoryWorld, leased: Leased, renew: Callable[[Storage, ReadCapability], object]
) -> None:
    for _ in range(5):
        world.clock.now += LEASE - 1
        renew(world.storage, leased[0])
        world.storage.maintain()
    world.clock.now += LEASE
    with refused(world, CapabilityExpired):
        renew(world.storage, leased[0])


def test_a_writer_renews_by_writing(world: MemoryWorld, leased: Leased) -> None:
    written = leased[1]
    for time in range(5):
        world.clock.now += LEASE - 1
        [written] = world.storage.append(write(written, time + 1))
        world.storage.maintain()
    assert shard_in(world, user(1)).upper == 5


@pytest.mark.semantics(55)
def test_expiry_releases_only_its_own_hold(world: MemoryWorld, leased: Leased) -> None:
    storage = world.storage
    read, written = leased
    other_read, other_write = storage.acquire_capabilities(user(1))
    other_read = storage.downgrade_capability(other_read, at(5))
    [other_write] = storage.append(write(other_write, 9, ((1, "a"), 7, 1)))
    assert (shard_in(world, user(1)).since, shard_in(world, user(1)).upper) == (0, 0)
    world.clock.now += LEASE
    assert storage.maintain()
    assert (shard_in(world, user(1)).since, shard_in(world, user(1)).upper) == (5, 9)
    assert contents(storage, other_read, 8) == {(1, "a"): 1}
    storage.append(write(other_write, 10))
    tokens = {capability.id for capability in shard_in(world, user(1)).capabilities}
    assert tokens == {other_read.token, other_write.token}
    assert read.token not in tokens
    assert written.token not in tokens


@pytest.mark.semantics(55, 57)
def test_expiry_of_the_last_holder_closes_nothing(world: MemoryWorld, leased: Leased) -> None:
    read, written = leased
    world.storage.downgrade_capability(read, at(2))
    world.storage.append(write(written, 4, ((1, "a"), 3, 1)))
    world.clock.now += LEASE
    world.storage.maintain()
    assert not shard_in(world, user(1)).capabilities
    read, written = world.storage.acquire_capabilities(user(1), lease_ms=LEASE)
    assert (read.frontier, written.frontier) == (at(2), at(4))
    assert contents(world.storage, read, 3) == {(1, "a"): 1}
    world.storage.append(write(written, 5))


def test_a_clone_has_as_long_a_lease(world: MemoryWorld, leased: Leased) -> None:
    world.clock.now += LEASE // 2
    clone = world.storage.clone_capability(leased[0])
    world.clock.now += LEASE - 1
    world.storage.clone_capability(clone)
    world.clock.now += LEASE
    with refused(world, CapabilityExpired):
        world.storage.clone_capability(clone)


def test_a_restart_renews_leases(world: MemoryWorld, leased: Leased) -> None:
    world.clock.now += LEASE - 1
    world.reopen()
    world.clock.now += LEASE - 1
    read = world.storage.downgrade_capability(leased[0], at(1))
    world.clock.now += LEASE
    with refused(world, CapabilityExpired):
        world.storage.drop_capability(read)


def test_what_has_no_lease_never_expires(world: MemoryWorld) -> None:
    read, _ = world.storage.create(user(1), TABLE)
    world.clock.now += 10**12
    world.storage.maintain()
    world.storage.clone_capability(read)


def test_a_refused_exercise_does_not_bring_a_lease_back(world: MemoryWorld, leased: Leased) -> None:
    world.clock.now += LEASE
    for _ in range(2):
        with refused(world, CapabilityExpired):
            world.storage.clone_capability(leased[0])
    assert world.storage.expire_leases() == 2


def test_dropped_and_ended_capabilities_leave_no_lease(world: MemoryWorld, leased: Leased) -> None:
    read, written = leased
    world.storage.drop_capability(read)
    world.storage.append(write(written, at(1).timeline.empty()))
    world.clock.now += LEASE
    before = world.durable()
    assert world.storage.expire_leases() == 0
    assert world.durable() == before


@pytest.mark.semantics(55)
def test_a_subscription_ends_with_its_lease(world: MemoryWorld, leased: Leased) -> None:
    read, written = leased
    subscription = world.storage.subscribe_at(read)
    [written] = world.storage.append(write(written, 1, ((1, "a"), 0, 1)))
    assert drain(subscription)
    world.clock.now += LEASE
    with refused(world, SubscriptionCancelled):
        subscription.receive(0)
    with pytest.raises(SubscriptionCancelled):
        next(subscription)


def test_a_subscription_that_is_read_keeps_its_lease(world: MemoryWorld, leased: Leased) -> None:
    subscription = world.storage.subscribe_at(leased[0])
    for _ in range(5):
        world.clock.now += LEASE - 1
        world.storage.maintain()
        assert subscription.receive(0) is None
    assert leased[0].token in {c.id for c in shard_in(world, user(1)).capabilities}
