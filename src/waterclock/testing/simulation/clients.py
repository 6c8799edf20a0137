"""The clients of a history: they give random commands, and find out what became of them.

A command that the owner acknowledged has happened. One that was refused has not, and there was a
reason. If its outcome is unknown, the client looks at the data itself. A server that lost the data
must not acknowledge any.
"""

from __future__ import annotations

from collections.abc import Callable

from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.records import Capability, Right
from waterclock.storage.api import Description
from waterclock.storage.controller import Storage
from waterclock.storage.errors import CapabilityExpired, CapabilityUnknown
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
    Triple,
    Violation,
    as_write,
    clone,
    downgrade,
    useful,
)
from waterclock.testing.simulation.commands import brief
from waterclock.testing.simulation.servers import Server
from waterclock.testing.simulation.world import LOST, World

CLIENTS = 3


class Clients:
    """Each of them holds some capabilities, by their tokens."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._clients: list[list[str]] = [[] for _ in range(CLIENTS)]

    def any_held(self, right: Right) -> list[tuple[str, Capability]]:
        """All capabilities of that kind of one of the clients."""
        return self._held(self._world.random.choice(self._clients), right)

    def give_command(self) -> None:
        """Have one of the clients do something."""
        client = self._world.random.choice(self._clients)
        if len([s for s in self._world.reference.values() if s.capabilities]) < 3:
            return self._create(client)
        give = [self._append, self._downgrade, self._clone, self._acquire, self._create]
        [chosen] = self._world.random.choices(give, [50, 25, 8, 12, 3])
        return chosen(client)

    def _held(self, client: list[str], right: Right | None) -> list[tuple[str, Capability]]:
        return [
            (name, shard.capabilities[token])
            for name, shard in self._world.reference.items()
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
        is_owner = server is self._world.servers.owner
        name = type(command).__name__
        try:
            given = act(server.storage)
        except LOST as error:
            return self._find_out(server, client, command, uses, is_owner, error)
        except (CapabilityExpired, CapabilityUnknown) as error:
            self._world.tell(f"{brief(command)} at {server.number}: {error}")
            self._world.counts[f"{name} refused"] += 1
            if is_owner:
                self._check_refusal(command, uses)
            return False
        except WaterclockError as error:
            if is_owner:
                raise
            self._world.tell(f"{brief(command)} at {server.number}, which is stale: {error}")
            return False
        if not is_owner and not (isinstance(command, Acquire) and not given):
            raise Violation(f"server {server.number} acknowledged {command} after it was replaced")
        self._world.tell(f"{brief(command)} at {server.number}: {len(given)} given")
        self._world.counts[name] += 1
        if is_owner and server.number == self._world.known_owner:
            self._check_leases(command, uses)
        self._world.apply(command, given)
        client += [c.id for c in given]
        return True

    def _check_refusal(self, command: Command, uses: list[Capability]) -> None:
        if not any(self._world.deadlines.may_be_over(c.id, self._world.now) for c in uses):
            raise Violation(f"{command} was refused although no lease was over")
        for capability in uses:
            self._world.deadlines.perhaps_exercised(capability, self._world.now)

    def _check_leases(self, command: Command, uses: list[Capability]) -> None:
        for capability in uses:
            if self._world.deadlines.must_be_over(capability.id, self._world.now):
                raise Violation(f"{command} used {capability}, whose lease was over")

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
            self._world.deadlines.perhaps_exercised(capability, self._world.now)
        happened = self._world.look_around((command,) if is_owner else ())
        self._world.tell(
            f"{brief(command)} at {server.number}: {error}; happened: {bool(happened)}"
        )
        self._world.counts["unknown, happened" if happened else "unknown, did not happen"] += 1
        for _, given in happened:  # some of what was given is lost, and expires
            client += [
                c.id for c in given if c.lease_ms is None or self._world.random.random() < 0.5
            ]
        if isinstance(command, Append):
            self._client_finds_out(client, command, bool(happened))
        return None

    def _client_finds_out(self, client: list[str], command: Append, happened: bool) -> None:
        """The client sees by the upper whether its append happened, where it writes alone."""
        for write in command.writes:
            shard = self._world.reference[write.shard]
            writers = {c.id for c in shard.capabilities.values() if c.right is Right.WRITE}
            if writers != {write.token}:
                continue
            given = self._acquire_at(self._world.servers.owner, client, write.shard)
            for capability in given:
                expected = write.after if happened else write.before
                if capability.right is Right.WRITE and capability.frontier != expected:
                    raise Violation(f"acquired {capability} after {command}: {happened}")
                self._world.counts["found out by acquiring"] += 1
            return

    def _create(self, client: list[str]) -> None:
        number = self._world.fresh()
        lease_ms = self._world.random.choice([None, 40 + number])
        command = Create(f"u{number}", self._world.random.choice([0, 7]), lease_ms)

        def act(storage: Storage) -> Given:
            start = EPOCH_MILLIS.frontier(command.start)
            made = storage.create(
                GlobalId.user(number), Description(SCHEMA), start=start, lease_ms=lease_ms
            )
            return useful(lease_ms, *made)

        self._ask(self._world.any_server(), client, command, [], act)

    def _append(self, client: list[str]) -> None:
        chosen: dict[str, Capability] = {}
        for name, held in self._world.random.sample(
            writers := self._held(client, Right.WRITE), len(writers)
        ):
            if name not in chosen and (not chosen or self._world.random.random() < 0.5):
                chosen[name] = held
        if not chosen:
            return
        writes = tuple(self._one_write(name, held) for name, held in chosen.items())

        def act(storage: Storage) -> Given:
            storage.append(*(as_write(write) for write in writes))
            return ()

        self._ask(self._world.any_server(), client, Append(writes), list(chosen.values()), act)

    def _one_write(self, name: str, held: Capability) -> OneWrite:
        assert held.frontier is not None
        after = held.frontier + self._world.random.randint(1, 6)
        most = self._world.random.choices([0, 4, 40], [10, 70, 20])[0]
        rows = range(self._world.random.randint(0, most))
        triples = tuple(self._triple(held.frontier, after) for _ in rows)
        closes = self._world.random.random() < 0.02
        return OneWrite(name, held.id, held.frontier, None if closes else after, triples)

    def _triple(self, low: int, high: int) -> Triple:
        random = self._world.random
        key = random.randrange(12)
        value = random.choice([None, "", "v" * key])
        return (key, value), random.randrange(low, high), random.choice([-2, -1, -1, 1, 1, 2])

    def _downgrade(self, client: list[str]) -> None:
        mine = self._held(client, Right.READ if self._world.random.random() < 0.8 else None)
        if not mine:
            return
        name, held = self._world.random.choice(mine)
        assert held.frontier is not None
        upper = self._world.reference[name].upper
        after: int | None = held.frontier + self._world.random.randint(1, 5)
        if self._world.random.random() < 0.4 and upper is not None:
            after = max(held.frontier + 1, upper - self._world.random.randint(0, 3))
        if self._world.random.random() < 0.12:
            after = None
        self.downgrade_to(client, name, held, after)

    def downgrade_to(
        self, client: list[str], name: str, held: Capability, after: int | None
    ) -> None:
        """Move the capability on; on behalf of a client that will get nothing for it."""
        assert held.frontier is not None
        command = Downgrade(name, held.id, held.frontier, after)

        def act(storage: Storage) -> Given:
            downgrade(storage, name, held, after)
            return ()

        self._ask(self._world.any_server(), client, command, [held], act)

    def _clone(self, client: list[str]) -> None:
        mine = self._held(client, None)
        if not mine:
            return
        name, held = self._world.random.choice(mine)
        other = self._world.random.choice(self._clients)
        self._ask(
            self._world.any_server(),
            other,
            Clone(name, held),
            [held],
            lambda storage: clone(storage, name, held),
        )

    def _acquire(self, client: list[str]) -> None:
        self._acquire_at(
            self._world.any_server(), client, self._world.random.choice(list(self._world.reference))
        )

    def _acquire_at(self, server: Server, client: list[str], name: str) -> Given:
        command = Acquire(name, 60 + self._world.fresh())
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
