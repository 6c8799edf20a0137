"""A history of clients, servers and failures, drawn from a seed and compared at every step.

Several clients give random commands. Ports fail before or after their effect, servers die in the
middle of anything, others take over from living ones, which go on for a while without knowing,
clocks advance and leases run out, and maintenance is interleaved. After each step the owner must
hold exactly what was acknowledged; a command whose outcome is unknown must have happened whole or
not at all, and its client can find out which by acquiring capabilities; a server that lost the data
must not acknowledge anything, and must not delete what its successor needs. Readers of all servers,
also of those, must be told what is true for ever.

All clients act in one thread, and whoever else works is waited for. Names that would be random come
from the seed as well. So the same seed gives the same history.
"""

from __future__ import annotations

import os
import secrets
import socket
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from unittest import mock

from waterclock.errors import WaterclockError
from waterclock.model.errors import TimeForgotten
from waterclock.model.ids import GlobalId
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.blob.api import Blob
from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.consensus.api import Consensus
from waterclock.persist.consensus.memory import MemoryConsensus
from waterclock.persist.errors import BlobMissing, Fenced, Unavailable
from waterclock.persist.records import Capability, Right
from waterclock.persist.state import State
from waterclock.storage.api import Description, ReadCapability
from waterclock.storage.controller import Storage
from waterclock.storage.errors import (
    CapabilityExpired,
    CapabilityInvalid,
    CapabilityUnknown,
    IdInUse,
    SubscriptionCancelled,
)
from waterclock.testing.reference import (
    SCHEMA,
    Acquire,
    Append,
    Clone,
    Command,
    Create,
    Downgrade,
    Given,
    OneWrite,
    Reference,
    Triple,
    Violation,
    apply,
    as_write,
    capability_of,
    check_answer,
    check_contents,
    check_frontiers,
    clone,
    contents_of,
    downgrade,
    explain,
    shards_of,
    state_of,
    useful,
)
from waterclock.testing.simulation.commands import brief, tokens_of
from waterclock.testing.simulation.follower import Follower
from waterclock.testing.simulation.leases import Deadlines
from waterclock.testing.simulation.servers import Server, Servers
from waterclock.testing.thresholds import small_thresholds

CLIENTS = 3
STEPS = 120
_LOST = (Fenced, Unavailable)
"""What a command raises whose outcome is unknown."""


class SimulationFailed(AssertionError):
    """A history went wrong. Its seed gives it again."""


def simulate(
    seed: int,
    *,
    steps: int = STEPS,
    blob: Blob | None = None,
    consensus: Consensus | None = None,
    tell: Callable[[str], None] | None = None,
) -> World:
    """Live through the history of the seed, telling each step. Raises `SimulationFailed`."""
    with small_thresholds(), _named_by(Random(-1 - seed)):
        world = World(seed, blob or MemoryBlob(), consensus or MemoryConsensus(), tell)
        try:
            world.run(steps)
        except Exception as error:
            tail = "\n".join(f"  {line}" for line in world.history[-12:])
            raise SimulationFailed(
                f"seed {seed} failed in step {world.step}: {error!r}\nthe end of its history:\n"
                f"{tail}\nreplay: python -m waterclock.testing.simulation {seed}"
            ) from error
        finally:
            world.end()
    return world


@contextmanager
def _named_by(random: Random) -> Iterator[None]:
    """Have tokens and names of blobs drawn from the generator, and servers say nothing of this one.

    Names have a length in the log, and its length decides when it is cut.
    """

    def token_hex(count: int) -> str:
        return f"{random.getrandbits(8 * count):0{2 * count}x}"

    def uuid4() -> uuid.UUID:
        return uuid.UUID(int=random.getrandbits(128))

    with (
        mock.patch.object(secrets, "token_hex", token_hex),
        mock.patch.object(uuid, "uuid4", uuid4),
        mock.patch.object(socket, "gethostname", return_value="host"),
        mock.patch.object(os, "getpid", return_value=1),
    ):
        yield


class World:
    """Everything there is in one history."""

    def __init__(
        self,
        seed: int,
        blob: Blob,
        consensus: Consensus,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self._random = Random(seed)
        self._listener = tell
        self._blob = blob
        self.now = 0
        self.step = 0
        self.history: list[str] = []
        self.counts: Counter[str] = Counter()
        rate = self._random.choice([0.0, 0.03, 0.15, 0.3])
        self.servers = Servers(blob, consensus, lambda: self.now, self._random, rate)
        self._reference: Reference = {}
        self._deadlines = Deadlines()
        self._clients: list[list[str]] = [[] for _ in range(CLIENTS)]
        """The tokens each client holds."""
        self._followers: list[Follower] = []
        self._known_owner = 0
        self._numbers = 0

    def run(self, steps: int) -> None:
        actions: list[tuple[Callable[[], None], int]] = [
            (self._give_command, 60),
            (self._maintain, 20),
            (self._read_somewhere, 8),
            (self._follow, 10),
            (self._let_time_pass, 8),
            (self._disturb, 6),
        ]
        self._reopen()
        for self.step in range(1, steps + 1):
            [(action, _)] = self._random.choices(actions, [weight for _, weight in actions])
            action()
            self._look_around()
        self._finish()

    def _tell(self, what: str) -> None:
        line = f"{self.step} @{self.now} {what}"
        self.history.append(line)
        if self._listener is not None:
            self._listener(line)

    def _fresh(self) -> int:
        self._numbers += 1
        return self._numbers

    # Servers

    def _reopen(self) -> None:
        """Have an owner that works."""
        while not self.servers.has_owner:
            opened = self.servers.try_open()
            self._tell(f"server {self.servers.opened} opens: {opened is not None}")
            self.counts["opened" if opened else "failed to open"] += 1
        self.servers.bury()

    def _look_around(
        self, doubts: tuple[Command, ...] = (), may_expire: frozenset[str] | set[str] = frozenset()
    ) -> list[tuple[Command, Given]]:
        """Compare the owner with the reference; those of the commands in doubt that happened."""
        self._reopen()
        owner = self.servers.owner
        found = state_of(owner.storage)
        held = {c.id for record in found.shards for c in record.capabilities}
        for record in found.shards:
            shard = self._reference.get(record.id)
            if shard is not None and (gone := may_expire & shard.capabilities.keys() - held):
                shard.expire(gone, record)
                self.counts["expired"] += len(gone)
        happened = explain(self._reference, doubts, found)
        for command, given in happened:
            self._apply(command, given)
        check_frontiers(self._reference, found)
        if owner.number != self._known_owner:
            self._known_owner = owner.number
            for shard in self._reference.values():
                for capability in shard.capabilities.values():
                    self._deadlines.exercised(capability, self.now)
            self._read_everything()
            self._look_around()  # reading gave others time to take over once more
        return happened

    def _disturb(self) -> None:
        match self._random.randrange(4):
            case 0:
                self._tell("the owner dies")
                self.servers.owner.life.is_over = True
            case 1:
                calls = self._random.randint(1, 12)
                self._tell(f"the owner will die in {calls} calls")
                after = self._random.random() < 0.5
                self.servers.owner.life.end_within(calls, after_effect=after)
            case _:
                opened = self.servers.try_open()
                self._tell(f"server {self.servers.opened} takes over: {opened is not None}")
                self.counts["taken over"] += opened is not None

    def _any_server(self) -> Server:
        if self.servers.stale and self._random.random() < 0.3:
            return self._random.choice(self.servers.stale)
        return self.servers.owner

    def _maintain(self) -> None:
        server = self._any_server()
        tokens = [token for shard in self._reference.values() for token in shard.capabilities]
        may_expire = self._deadlines.over(tokens, self.now)
        try:
            self._work(server)
        except _LOST as error:
            self._tell(f"maintenance of {server.number}: {error}")
            self.counts["maintenance failed"] += 1
        else:
            self._tell(f"maintenance of {server.number}")
            if server is self.servers.owner and server.number == self._known_owner:
                self._check_expired(server, tokens)
        self._look_around(may_expire=may_expire)

    def _work(self, server: Server) -> bool:
        """Do a step of maintenance. A server that lost the data may miss what it needs for that."""
        try:
            return server.storage.maintain()
        except BlobMissing as error:
            if server is self.servers.owner:
                raise
            raise Fenced("the data is gone") from error

    def _check_expired(self, server: Server, tokens: list[str]) -> None:
        found = state_of(server.storage)
        held = {c.id for record in found.shards for c in record.capabilities}
        for token in tokens:
            if token in held and self._deadlines.must_be_over(token, self.now):
                raise Violation(f"the lease of {token} was over and still holds")

    def _let_time_pass(self) -> None:
        self.now += self._random.randint(1, 60)

    # Commands

    def _give_command(self) -> None:
        client = self._random.choice(self._clients)
        if len([s for s in self._reference.values() if s.capabilities]) < 3:
            return self._create(client)
        give = [self._append, self._downgrade, self._clone, self._acquire, self._create]
        [chosen] = self._random.choices(give, [50, 25, 8, 12, 3])
        return chosen(client)

    def _held(self, client: list[str], right: Right | None) -> list[tuple[str, Capability]]:
        return [
            (name, shard.capabilities[token])
            for name, shard in self._reference.items()
            for token in client
            if token in shard.capabilities and right in (None, shard.capabilities[token].right)
        ]

    def _ask(
        self,
        server: Server,
        client: list[str],
        command: Command,
        uses: list[Capability],
        act: Callable[[Storage], Given],
    ) -> bool | None:
        """Give the command. Whether it happened; None if that had to be found out."""
        is_owner = server is self.servers.owner
        name = type(command).__name__
        try:
            given = act(server.storage)
        except _LOST as error:
            return self._find_out(server, client, command, uses, is_owner, error)
        except (CapabilityExpired, CapabilityUnknown) as error:
            self._tell(f"{brief(command)} at {server.number}: {error}")
            self.counts[f"{name} refused"] += 1
            if is_owner:
                self._check_refusal(command, uses)
            return False
        except WaterclockError as error:
            if is_owner:
                raise
            self._tell(f"{brief(command)} at {server.number}, which is stale: {error}")
            return False
        if not is_owner and not (isinstance(command, Acquire) and not given):
            raise Violation(f"server {server.number} acknowledged {command} after it was replaced")
        self._tell(f"{brief(command)} at {server.number}: {len(given)} given")
        self.counts[name] += 1
        if is_owner and server.number == self._known_owner:
            self._check_leases(command, uses)
        self._apply(command, given)
        client += [c.id for c in given]
        return True

    def _check_refusal(self, command: Command, uses: list[Capability]) -> None:
        if not any(self._deadlines.may_be_over(c.id, self.now) for c in uses):
            raise Violation(f"{command} was refused although no lease was over")
        for capability in uses:
            self._deadlines.perhaps_exercised(capability, self.now)

    def _check_leases(self, command: Command, uses: list[Capability]) -> None:
        for capability in uses:
            if self._deadlines.must_be_over(capability.id, self.now):
                raise Violation(f"{command} used {capability}, whose lease was over")

    def _apply(self, command: Command, given: Given) -> None:
        apply(self._reference, command, given)
        for capability in given:
            self._deadlines.exercised(capability, self.now)
        for token in tokens_of(command):
            for name in shards_of(command):
                kept = self._reference[name].capabilities.get(token)
                if kept is not None:
                    self._deadlines.exercised(kept, self.now)

    def _find_out(
        self,
        server: Server,
        client: list[str],
        command: Command,
        uses: list[Capability],
        is_owner: bool,
        error: WaterclockError,
    ) -> bool | None:
        """The outcome is unknown. What a stale server was asked must not have happened."""
        for capability in uses:
            self._deadlines.perhaps_exercised(capability, self.now)
        happened = self._look_around((command,) if is_owner else ())
        self._tell(f"{brief(command)} at {server.number}: {error}; happened: {bool(happened)}")
        self.counts["unknown, happened" if happened else "unknown, did not happen"] += 1
        for _, given in happened:  # some of what was given is lost, and expires
            client += [c.id for c in given if c.lease_ms is None or self._random.random() < 0.5]
        if isinstance(command, Append):
            self._client_finds_out(client, command, bool(happened))
        return None

    def _client_finds_out(self, client: list[str], command: Append, happened: bool) -> None:
        """The client sees by the upper whether its append happened, where it writes alone."""
        for write in command.writes:
            shard = self._reference[write.shard]
            writers = {c.id for c in shard.capabilities.values() if c.right is Right.WRITE}
            if writers != {write.token}:
                continue
            given = self._acquire_at(self.servers.owner, client, write.shard)
            for capability in given:
                expected = write.after if happened else write.before
                if capability.right is Right.WRITE and capability.frontier != expected:
                    raise Violation(f"acquired {capability} after {command}: {happened}")
                self.counts["found out by acquiring"] += 1
            return

    def _create(self, client: list[str]) -> None:
        number = self._fresh()
        lease_ms = self._random.choice([None, 40 + number])
        command = Create(f"u{number}", self._random.choice([0, 7]), lease_ms)

        def act(storage: Storage) -> Given:
            start = EPOCH_MILLIS.frontier(command.start)
            made = storage.create(
                GlobalId.user(number), Description(SCHEMA), start=start, lease_ms=lease_ms
            )
            return useful(lease_ms, *made)

        self._ask(self._any_server(), client, command, [], act)

    def _append(self, client: list[str]) -> None:
        chosen: dict[str, Capability] = {}
        for name, held in self._random.sample(
            writers := self._held(client, Right.WRITE), len(writers)
        ):
            if name not in chosen and (not chosen or self._random.random() < 0.5):
                chosen[name] = held
        if not chosen:
            return
        writes = tuple(self._one_write(name, held) for name, held in chosen.items())

        def act(storage: Storage) -> Given:
            storage.append(*(as_write(write) for write in writes))
            return ()

        self._ask(self._any_server(), client, Append(writes), list(chosen.values()), act)

    def _one_write(self, name: str, held: Capability) -> OneWrite:
        assert held.frontier is not None
        after = held.frontier + self._random.randint(1, 6)
        most = self._random.choices([0, 4, 40], [10, 70, 20])[0]
        rows = range(self._random.randint(0, most))
        triples = tuple(self._triple(held.frontier, after) for _ in rows)
        closes = self._random.random() < 0.02
        return OneWrite(name, held.id, held.frontier, None if closes else after, triples)

    def _triple(self, low: int, high: int) -> Triple:
        random = self._random
        key = random.randrange(12)
        value = random.choice([None, "", "v" * key])
        return (key, value), random.randrange(low, high), random.choice([-2, -1, -1, 1, 1, 2])

    def _downgrade(self, client: list[str]) -> None:
        mine = self._held(client, Right.READ if self._random.random() < 0.8 else None)
        if not mine:
            return
        name, held = self._random.choice(mine)
        assert held.frontier is not None
        upper = self._reference[name].upper
        after: int | None = held.frontier + self._random.randint(1, 5)
        if self._random.random() < 0.4 and upper is not None:
            after = max(held.frontier + 1, upper - self._random.randint(0, 3))
        if self._random.random() < 0.12:
            after = None
        self._downgrade_to(client, name, held, after)

    def _downgrade_to(
        self, client: list[str], name: str, held: Capability, after: int | None
    ) -> None:
        assert held.frontier is not None
        command = Downgrade(name, held.id, held.frontier, after)

        def act(storage: Storage) -> Given:
            downgrade(storage, name, held, after)
            return ()

        self._ask(self._any_server(), client, command, [held], act)

    def _clone(self, client: list[str]) -> None:
        mine = self._held(client, None)
        if not mine:
            return
        name, held = self._random.choice(mine)
        other = self._random.choice(self._clients)
        self._ask(
            self._any_server(),
            other,
            Clone(name, held),
            [held],
            lambda storage: clone(storage, name, held),
        )

    def _acquire(self, client: list[str]) -> None:
        self._acquire_at(self._any_server(), client, self._random.choice(list(self._reference)))

    def _acquire_at(self, server: Server, client: list[str], name: str) -> Given:
        command = Acquire(name, 60 + self._fresh())
        answer: Given = ()

        def act(storage: Storage) -> Given:
            nonlocal answer
            collection = GlobalId.parse(name)
            answer = useful(
                command.lease_ms,
                *storage.acquire_capabilities(collection, lease_ms=command.lease_ms),
            )
            return answer

        return answer if self._ask(server, client, command, [], act) else ()

    # Readers

    def _read_everything(self) -> None:
        """Every collection at every readable time, at the owner."""
        server = self.servers.owner
        for name, shard in self._reference.items():
            readers = [
                c
                for c in shard.capabilities.values()
                if c.right is Right.READ and not self._deadlines.may_be_over(c.id, self.now)
            ]
            if not readers:
                continue
            lowest = min(readers, key=lambda c: c.frontier or 0)
            assert lowest.frontier is not None
            self._deadlines.perhaps_exercised(lowest, self.now)
            try:
                check_contents(server.storage, name, shard, lowest, lowest.frontier)
            except _LOST:
                return
            except BlobMissing:
                if server is self.servers.owner:
                    raise
                return
            self._deadlines.exercised(lowest, self.now)
            self.counts["read at the owner"] += 1

    def _read_somewhere(self) -> None:
        """With any capability of any server, as that server has it."""
        server = self._any_server()
        try:
            found = state_of(server.storage)
        except _LOST:
            return
        held = [(s.id, c) for s in found.shards for c in s.capabilities if c.right is Right.READ]
        if not held:
            return
        name, capability = self._random.choice(held)
        assert capability.frontier is not None
        as_of = capability.frontier + self._random.choice([0, 0, 1, 4])
        self._deadlines.perhaps_exercised(capability, self.now)
        try:
            told = _told(server.storage, name, capability, as_of)
        except _LOST:
            return
        except (BlobMissing, CapabilityInvalid, SubscriptionCancelled, TimeForgotten):
            is_owner = server is self.servers.owner  # by now: it may have lost the data meanwhile
            if is_owner and not self._deadlines.may_be_over(capability.id, self.now):
                raise
            return
        is_owner = server is self.servers.owner
        if is_owner:
            self._deadlines.exercised(capability, self.now)
        if told is not None:
            counts, upper = told
            check_answer(name, self._reference[name], as_of, counts, upper)
            self.counts["read at the owner" if is_owner else "read at a stale server"] += 1

    def _follow(self) -> None:
        if len(self._followers) < 3 and self._random.random() < 0.5:
            mine = self._held(self._random.choice(self._clients), Right.READ)
            if mine:
                self._followers.append(Follower(*self._random.choice(mine)))
        for follower in list(self._followers):
            if not self._poll(follower):
                follower.disconnect()
                self._followers.remove(follower)

    def _poll(self, follower: Follower) -> bool:
        """Let the follower take what there is. False if it is at an end."""
        shard = self._reference[follower.shard]
        held = shard.capabilities.get(follower.token)
        if held is None or held.frontier is None or follower.is_done:
            return False
        self._deadlines.perhaps_exercised(held, self.now)
        try:
            if follower.subscription is None:
                follower.connect(self.servers.owner, held)
                self.counts["followed on" if follower.has_begun else "followed"] += 1
            self.counts["progress followed"] += follower.poll(shard)
        except _LOST:
            follower.disconnect()
            return True
        except BlobMissing:
            if follower.server is self.servers.owner:
                raise
            follower.disconnect()
            return True
        except (CapabilityInvalid, SubscriptionCancelled, TimeForgotten):
            return False
        if follower.is_done:
            return False
        hold = follower.hold_from()
        if hold > held.frontier and self._random.random() < 0.3:
            self._downgrade_to([], follower.shard, held, hold)
        return True

    # The end

    def _finish(self) -> None:
        """When all is calm no id is free, and after maintenance the blobs are those needed.

        A new server is needed for that: what a stale one writes is swept at the next opening.
        """
        self.servers.calm()
        self._look_around()
        self._check_ids()
        tokens = [token for shard in self._reference.values() for token in shard.capabilities]
        may_expire = self._deadlines.over(tokens, self.now)
        self._maintain_fully()
        self._look_around(may_expire=may_expire)
        self._read_everything()
        needed = self.servers.owner.storage._store.read(State.referenced)
        if set(self._blob.list("")) != needed:
            raise Violation(f"blobs: {set(self._blob.list(''))} are there, {needed} are needed")

    def end(self) -> None:
        """Leave nothing behind."""
        for follower in self._followers:
            follower.disconnect()
        self.servers.end()

    def _check_ids(self) -> None:
        for name in self._reference:
            try:
                self.servers.owner.storage.create(GlobalId.parse(name), Description(SCHEMA))
            except IdInUse:
                continue
            raise Violation(f"{name} was used again")

    def _maintain_fully(self) -> None:
        server, idle = self.servers.owner, 0
        while idle < 3:
            idle = 0 if self._work(server) else idle + 1


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
