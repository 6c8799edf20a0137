"""What there is in a history: servers, the reference, time; and how the two are compared.

The reference is what clients were told has happened. Whenever somebody looks around, the owner must
hold exactly that, except for a command whose outcome nobody knows: it must have happened whole or
not at all. A new owner is read from end to end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from waterclock.persist.blob.api import Blob
from waterclock.persist.consensus.api import Consensus
from waterclock.persist.errors import BlobMissing, Fenced, Unavailable
from waterclock.persist.records import Right
from waterclock.testing.reference import (
    Command,
    Given,
    Reference,
    Violation,
    apply,
    check_contents,
    check_frontiers,
    explain,
    shards_of,
    state_of,
)
from waterclock.testing.simulation.commands import tokens_of
from waterclock.testing.simulation.leases import Deadlines
from waterclock.testing.simulation.servers import Server, Servers

LOST = (Fenced, Unavailable)
"""What a command raises whose outcome is unknown."""
MOST_OPENINGS = 100


class World:
    """Everything there is in one history."""

    def __init__(
        self,
        seed: int,
        blob: Blob,
        consensus: Consensus,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.random = Random(seed)
        self._listener = tell
        self.blob = blob
        self.now = 0
        self.step = 0
        self.history: list[str] = []
        self.counts: Counter[str] = Counter()
        rate = self.random.choice([0.0, 0.03, 0.15, 0.3])
        self.servers = Servers(blob, consensus, lambda: self.now, self.random, rate)
        self.reference: Reference = {}
        self.deadlines = Deadlines()
        self.known_owner = 0
        """The number of the last owner that was looked at."""
        self._numbers = 0

    def tell(self, what: str) -> None:
        """Add a line to the history."""
        line = f"{self.step} @{self.now} {what}"
        self.history.append(line)
        if self._listener is not None:
            self._listener(line)

    def fresh(self) -> int:
        """A number that was not given before."""
        self._numbers += 1
        return self._numbers

    def reopen(self) -> None:
        """Have an owner that works. Faults alone never last for so many attempts."""
        attempts = 0
        while not self.servers.has_owner:
            opened = self.servers.try_open()
            self.tell(f"server {self.servers.opened} opens: {opened is not None}")
            self.counts["opened" if opened else "failed to open"] += 1
            attempts += 1
            if attempts > MOST_OPENINGS:
                raise Violation(f"nobody can open the data: {self.servers.refusal}")
        self.servers.bury()

    def look_around(
        self, doubts: tuple[Command, ...] = (), may_expire: frozenset[str] | set[str] = frozenset()
    ) -> list[tuple[Command, Given]]:
        """Compare the owner with the reference; those of the commands in doubt that happened."""
        self.reopen()
        owner = self.servers.owner
        found = state_of(owner.storage)
        held = {c.id for record in found.shards for c in record.capabilities}
        for record in found.shards:
            shard = self.reference.get(record.id)
            if shard is not None and (gone := may_expire & shard.capabilities.keys() - held):
                shard.expire(gone, record)
                self.counts["expired"] += len(gone)
        happened = explain(self.reference, doubts, found)
        for command, given in happened:
            self.apply(command, given)
        check_frontiers(self.reference, found)
        if owner.number != self.known_owner:
            self.known_owner = owner.number
            for shard in self.reference.values():
                for capability in shard.capabilities.values():
                    self.deadlines.exercised(capability, self.now)
            self.read_everything()
            self.look_around()  # reading gave others time to take over once more
        return happened

    def any_server(self) -> Server:
        """The owner, or now and then one that was the owner."""
        if self.servers.stale and self.random.random() < 0.3:
            return self.random.choice(self.servers.stale)
        return self.servers.owner

    def apply(self, command: Command, given: Given) -> None:
        """The command has happened, and these capabilities came of it."""
        apply(self.reference, command, given)
        for capability in given:
            self.deadlines.exercised(capability, self.now)
        for token in tokens_of(command):
            for name in shards_of(command):
                kept = self.reference[name].capabilities.get(token)
                if kept is not None:
                    self.deadlines.exercised(kept, self.now)

    def read_everything(self) -> None:
        """Every collection at every readable time, at the owner."""
        server = self.servers.owner
        for name, shard in self.reference.items():
            readers = [
                c
                for c in shard.capabilities.values()
                if c.right is Right.READ and not self.deadlines.may_be_over(c.id, self.now)
            ]
            if not readers:
                continue
            lowest = min(readers, key=lambda c: c.frontier or 0)
            assert lowest.frontier is not None
            self.deadlines.perhaps_exercised(lowest, self.now)
            try:
                check_contents(server.storage, name, shard, lowest, lowest.frontier)
            except LOST:
                return
            except BlobMissing:
                if server is self.servers.owner:
                    raise
                return
            self.deadlines.exercised(lowest, self.now)
            self.counts["read at the owner"] += 1
