"""The readers of a history: they ask any server at any time, and follow collections on their way.

What a reader is told must be true for ever, also if the server that tells it has lost the data.
"""

from __future__ import annotations

from waterclock.model.errors import TimeForgotten
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.errors import BlobMissing
from waterclock.persist.records import Capability, Right
from waterclock.storage.api import ReadCapability
from waterclock.storage.controller import Storage
from waterclock.storage.errors import CapabilityInvalid, SubscriptionCancelled
from waterclock.testing.reference import capability_of, check_answer, contents_of, state_of
from waterclock.testing.simulation.clients import Clients
from waterclock.testing.simulation.follower import Follower
from waterclock.testing.simulation.world import LOST, World


class Readers:
    """Those who read once, and those who follow."""

    def __init__(self, world: World, clients: Clients) -> None:
        self._world = world
        self._clients = clients
        self._followers: list[Follower] = []

    def read_somewhere(self) -> None:
        """With any capability of any server, as that server has it."""
        server = self._world.any_server()
        try:
            found = state_of(server.storage)
        except LOST:
            return
        held = [(s.id, c) for s in found.shards for c in s.capabilities if c.right is Right.READ]
        if not held:
            return
        name, capability = self._world.random.choice(held)
        assert capability.frontier is not None
        as_of = capability.frontier + self._world.random.choice([0, 0, 1, 4])
        self._world.deadlines.perhaps_exercised(capability, self._world.now)
        try:
            told = _told(server.storage, name, capability, as_of)
        except LOST:
            return
        except (BlobMissing, CapabilityInvalid, SubscriptionCancelled, TimeForgotten):
            is_owner = (
                server is self._world.servers.owner
            )  # by now: it may have lost the data meanwhile
            if is_owner and not self._world.deadlines.may_be_over(capability.id, self._world.now):
                raise
            return
        is_owner = server is self._world.servers.owner
        if is_owner:
            self._world.deadlines.exercised(capability, self._world.now)
        if told is not None:
            counts, upper = told
            check_answer(name, self._world.reference[name], as_of, counts, upper)
            self._world.counts["read at the owner" if is_owner else "read at a stale server"] += 1

    def follow(self) -> None:
        if len(self._followers) < 3 and self._world.random.random() < 0.5:
            mine = self._clients.any_held(Right.READ)
            if mine:
                self._followers.append(Follower(*self._world.random.choice(mine)))
        for follower in list(self._followers):
            if not self._poll(follower):
                follower.disconnect()
                self._followers.remove(follower)

    def _poll(self, follower: Follower) -> bool:
        """Let the follower take what there is. False if it is at an end."""
        shard = self._world.reference[follower.shard]
        held = shard.capabilities.get(follower.token)
        if held is None or held.frontier is None or follower.is_done:
            return False
        self._world.deadlines.perhaps_exercised(held, self._world.now)
        try:
            if follower.subscription is None:
                follower.connect(self._world.servers.owner, held)
                self._world.counts["followed on" if follower.has_begun else "followed"] += 1
            self._world.counts["progress followed"] += follower.poll(shard)
        except LOST:
            follower.disconnect()
            return True
        except BlobMissing:
            if follower.server is self._world.servers.owner:
                raise
            follower.disconnect()
            return True
        except (CapabilityInvalid, SubscriptionCancelled, TimeForgotten):
            return False
        if follower.is_done:
            return False
        hold = follower.hold_from()
        if hold > held.frontier and self._world.random.random() < 0.3:
            self._clients.downgrade_to([], follower.shard, held, hold)
        return True

    def end(self) -> None:
        """Let all followers go."""
        for follower in self._followers:
            follower.disconnect()


def _told(
    storage: Storage, name: str, held: Capability, as_of: int
) -> tuple[dict[tuple[tuple[int, str | None], int], int], int | None] | None:
    capability = capability_of(name, held)
    assert isinstance(capability, ReadCapability)
    subscription = storage.subscribe_at(capability, as_of=EPOCH_MILLIS.frontier(as_of))
    try:
        return contents_of(subscription)
    finally:
        subscription.close()
