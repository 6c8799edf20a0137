"""A client that follows a collection over the failures of servers, and misses and repeats nothing.

It keeps what it was told up to the last statement of progress. When its subscription breaks, it
throws away what came after that, and goes on from there at another server, without a snapshot.
"""

from __future__ import annotations

from collections import Counter

from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.records import Bound, Capability
from waterclock.storage.api import Progress, ReadCapability, Updates, held_after
from waterclock.storage.subscription import Subscription
from waterclock.testing.reference import (
    ReferenceShard,
    Row,
    bounded,
    capability_of,
    check_answer,
    triples_of,
)
from waterclock.testing.simulation.servers import Server


class Follower:
    """Follows one collection from `held.frontier` on."""

    def __init__(self, shard: str, held: Capability) -> None:
        assert held.frontier is not None
        self.shard = shard
        self.token = held.id
        self.as_of = held.frontier
        self.upper: Bound = held.frontier
        self.has_begun = False
        self.is_done = False
        self.server: Server | None = None
        self.subscription: Subscription | None = None
        self._sure: Counter[tuple[Row, int]] = Counter()
        self._fresh: Counter[tuple[Row, int]] = Counter()

    def connect(self, server: Server, held: Capability) -> None:
        """Begin, or go on, at this server. Raises as `subscribe_at` does."""
        self.disconnect()
        self.server = server
        capability = capability_of(self.shard, held)
        assert isinstance(capability, ReadCapability)
        begin = held_after(bounded(self.upper)) if self.has_begun else bounded(self.as_of)
        self.subscription = server.storage.subscribe_at(
            capability, as_of=begin, snapshot=not self.has_begun
        )

    def disconnect(self) -> None:
        if self.subscription is not None:
            self.subscription.close()
        self.subscription = None
        self._fresh.clear()

    def poll(self, expected: ReferenceShard) -> bool:
        """Take all messages there are, and compare at each statement of progress.

        True if there was one. Raises what the subscription raises.
        """
        assert self.subscription is not None
        progressed = False
        while not self.is_done:
            match self.subscription.receive(0):
                case None:
                    break
                case Updates() as message:
                    for row, time, diff in triples_of(message):
                        self._fresh[row, time] += diff
                case Progress(upper):
                    self._take(upper.only(), expected)
                    progressed = True
        return progressed

    def _take(self, upper: Bound, expected: ReferenceShard) -> None:
        for place, diff in self._fresh.items():
            self._sure[place] += diff
        self._fresh.clear()
        self.upper, self.has_begun, self.is_done = upper, True, upper is None
        told = {place: diff for place, diff in self._sure.items() if diff}
        check_answer(self.shard, expected, self.as_of, told, upper)

    def hold_from(self) -> int:
        """Up to where the capability may be downgraded."""
        bound = held_after(bounded(self.upper)).only() if self.has_begun else self.as_of
        assert bound is not None
        return EPOCH_MILLIS.time(bound).value
