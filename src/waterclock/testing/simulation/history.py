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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from unittest import mock

from waterclock.model.ids import GlobalId
from waterclock.persist.blob.api import Blob
from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.consensus.api import Consensus
from waterclock.persist.consensus.memory import MemoryConsensus
from waterclock.persist.errors import BlobMissing, Fenced
from waterclock.persist.state import State
from waterclock.storage.api import Description
from waterclock.storage.errors import IdInUse
from waterclock.testing.reference import SCHEMA, Violation, state_of
from waterclock.testing.simulation.clients import Clients
from waterclock.testing.simulation.readers import Readers
from waterclock.testing.simulation.servers import MOST_WORK, Server
from waterclock.testing.simulation.world import LOST, World
from waterclock.testing.thresholds import small_thresholds

STEPS = 120


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
        history = History(world)
        try:
            history.run(steps)
        except Exception as error:
            tail = "\n".join(f"  {line}" for line in world.history[-12:])
            raise SimulationFailed(
                f"seed {seed} failed in step {world.step}: {error!r}\nthe end of its history:\n"
                f"{tail}\nreplay: python -m waterclock.testing.simulation {seed}"
            ) from error
        finally:
            history.end()
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


class History:
    """Lets things happen in a world, one after the other."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._clients = Clients(world)
        self._readers = Readers(world, self._clients)

    def run(self, steps: int) -> None:
        """Take so many steps, then see that all is well in the end. Raises what goes wrong."""
        world = self._world
        actions: list[tuple[Callable[[], None], int]] = [
            (self._clients.give_command, 60),
            (self._maintain, 20),
            (self._readers.read_somewhere, 8),
            (self._readers.follow, 10),
            (self._let_time_pass, 8),
            (self._disturb, 6),
        ]
        world.reopen()
        for world.step in range(1, steps + 1):
            [(action, _)] = world.random.choices(actions, [weight for _, weight in actions])
            action()
            world.look_around()
        self._finish()

    def _maintain(self) -> None:
        """Several steps, because a step is a piece of one thing only."""
        server = self._world.any_server()
        tokens = self._tokens()
        may_expire = self._world.deadlines.over(tokens, self._world.now)
        try:
            for _ in range(self._world.random.randint(1, MOST_WORK)):
                self._work(server)
        except LOST as error:
            self._world.tell(f"maintenance of {server.number}: {error}")
            self._world.counts["maintenance failed"] += 1
        else:
            self._world.tell(f"maintenance of {server.number}")
            if server is self._world.servers.owner and server.number == self._world.known_owner:
                self._check_expired(server, tokens)
        self._world.look_around(may_expire=may_expire)

    def _tokens(self) -> list[str]:
        """All capabilities that there are."""
        return [token for shard in self._world.reference.values() for token in shard.capabilities]

    def _work(self, server: Server) -> bool:
        """Do a step of maintenance. A server that lost the data may miss what it needs for that."""
        try:
            return server.storage.maintain()
        except BlobMissing as error:
            if server is self._world.servers.owner:
                raise
            raise Fenced("the data is gone") from error

    def _check_expired(self, server: Server, tokens: list[str]) -> None:
        found = state_of(server.storage)
        held = {c.id for record in found.shards for c in record.capabilities}
        for token in tokens:
            if token in held and self._world.deadlines.must_be_over(token, self._world.now):
                raise Violation(f"the lease of {token} was over and still holds")

    def _let_time_pass(self) -> None:
        self._world.now += self._world.random.randint(1, 60)

    def _disturb(self) -> None:
        world = self._world
        match world.random.randrange(4):
            case 0:
                world.tell("the owner dies")
                world.servers.owner.life.is_over = True
            case 1:
                calls = world.random.randint(1, 12)
                world.tell(f"the owner will die in {calls} calls")
                after = world.random.random() < 0.5
                world.servers.owner.life.end_within(calls, after_effect=after)
            case _:  # one, or two in a race: the loser has not done anything as the owner
                for _ in range(world.random.randint(1, 2)):
                    opened = world.servers.try_open()
                    world.tell(f"server {world.servers.opened} takes over: {opened is not None}")
                    world.counts["taken over"] += opened is not None

    def _finish(self) -> None:
        """When all is calm no id is free, and after maintenance the blobs are those needed.

        A new server is needed for that: what a stale one writes is swept at the next opening.
        """
        world = self._world
        world.servers.calm()
        world.look_around()
        self._check_ids()
        may_expire = world.deadlines.over(self._tokens(), world.now)
        self._maintain_fully()
        world.look_around(may_expire=may_expire)
        world.read_everything()
        needed = world.servers.owner.storage._store.read(State.referenced)
        if (there := set(world.blob.list(""))) != needed:
            raise Violation(f"blobs: {there} are there, {needed} are needed")

    def _check_ids(self) -> None:
        for name in self._world.reference:
            try:
                self._world.servers.owner.storage.create(GlobalId.parse(name), Description(SCHEMA))
            except IdInUse:
                continue
            raise Violation(f"{name} was used again")

    def _maintain_fully(self) -> None:
        server, idle = self._world.servers.owner, 0
        while idle < 3:
            idle = 0 if self._work(server) else idle + 1

    def end(self) -> None:
        """Leave nothing behind."""
        self._readers.end()
        self._world.servers.end()
