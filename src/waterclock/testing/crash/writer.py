"""The process that is killed: several threads that give all commands to Storage without a pause.

Each thread uses capabilities of its own, several of which may be for the same collection as those
of others, and keeps a journal. None of the commands should fail: what a thread asks for is within
its rights.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random

from waterclock.model.ids import GlobalId
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.records import Capability, Right
from waterclock.storage.api import Description, ReadCapability
from waterclock.storage.controller import Storage
from waterclock.testing.crash.journal import Answered, Asked, Journal, Opened, Refused, Seen
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
    as_write,
    capability_of,
    clone,
    contents_of,
    downgrade,
    useful,
)
from waterclock.testing.thresholds import checkpoint_often

THREADS = 3
CHECKPOINT_BYTES = 20_000
FIRST_LEASE_MS = 10**10
"""Leases are that long, so none runs out, and differ in length."""

Holdings = dict[str, list[Capability]]
"""The capabilities of one thread, by collection."""


def write_until_killed(directory: Path, reference: Reference, numbers: int, seed: int) -> None:
    """Open the data and work on it. `numbers` and what follows it are free for ids and leases."""
    random = Random(seed)
    storage = Storage.open_directory(directory / "data")
    checkpoint_often(storage, CHECKPOINT_BYTES)
    hands = deal(reference, random)
    for number, hand in enumerate(hands):
        journal = Journal(journal_path(directory, number))
        journal.write(Opened())
        fresh = iter(range(numbers + number, 2**62, THREADS))
        worker = Worker(storage, journal, hand, list(reference), fresh.__next__, random.random())
        threading.Thread(target=worker.run, daemon=True).start()
    threading.Event().wait()


def journal_path(directory: Path, thread: int) -> Path:
    return directory / f"journal-{thread}"


def deal(reference: Reference, random: Random) -> list[Holdings]:
    """All capabilities, most collections whole to one thread, the others spread over all."""
    hands: list[Holdings] = [{} for _ in range(THREADS)]
    for shard, held in reference.items():
        owner = random.choice(hands)
        spread = random.random() < 0.3
        for capability in held.capabilities.values():
            hand = random.choice(hands) if spread else owner
            hand.setdefault(shard, []).append(capability)
    return hands


class Worker:
    """One thread's endless work."""

    def __init__(
        self,
        storage: Storage,
        journal: Journal,
        held: Holdings,
        shards: list[str],
        fresh: Callable[[], int],
        seed: float,
    ) -> None:
        self._storage = storage
        self._journal = journal
        self._held = held
        self._shards = shards[-30:]
        self._fresh = fresh
        self._random = Random(seed)

    def run(self) -> None:
        actions = [self._append, self._downgrade, self._clone, self._acquire, self._read]
        weights = [50, 25, 6, 5, 14]
        try:
            while True:
                if len(self._held) < 3:
                    self._create()
                elif self._random.random() < 0.015:
                    self._drop_collection()
                [action] = self._random.choices(actions, weights)
                action()
                self._drop_surplus()
        except BaseException:
            self._journal.write(Refused(traceback.format_exc()))
            raise

    def _ask(self, command: Command, act: Callable[[], Given]) -> Given:
        self._journal.write(Asked(command))
        given = act()
        self._journal.write(Answered(given))
        return given

    def _create(self) -> None:
        number = self._fresh()
        lease_ms = self._random.choice([None, FIRST_LEASE_MS + number])
        start = self._random.choice([0, self._random.randrange(1000)])
        command = Create(f"u{number}", start, lease_ms)

        def act() -> Given:
            made = self._storage.create(
                GlobalId.user(number),
                Description(SCHEMA),
                start=EPOCH_MILLIS.frontier(start),
                lease_ms=lease_ms,
            )
            return useful(lease_ms, *made)

        self._held[command.shard] = list(self._ask(command, act))

    def _append(self) -> None:
        """To all collections at once that a coin chooses, by one of our capabilities for each."""
        chosen: list[OneWrite] = []
        for shard in self._random.sample(list(self._held), len(self._held)):
            writers = [c for c in self._held[shard] if c.right is Right.WRITE]
            if writers and (not chosen or self._random.random() < 0.5):
                chosen.append(self._one_write(shard, self._random.choice(writers)))
        if not chosen:
            return

        def act() -> Given:
            self._storage.append(*(as_write(write) for write in chosen))
            return ()

        self._ask(Append(tuple(chosen)), act)
        for write in chosen:
            self._move(write.shard, write.token, write.after)

    def _one_write(self, shard: str, writer: Capability) -> OneWrite:
        assert writer.frontier is not None
        after = writer.frontier + self._random.randint(1, 8)
        count = self._random.choices([0, 4, 40], [10, 70, 20])[0]
        rows = range(self._random.randint(0, count))
        triples = tuple(self._triple(writer.frontier, after) for _ in rows)
        return OneWrite(shard, writer.id, writer.frontier, after, triples)

    def _triple(self, low: int, high: int) -> Triple:
        random = self._random
        key = random.randrange(25)
        value = random.choice([None, "", "v" * key])
        return (key, value), random.randrange(low, high), random.choice([-2, -1, -1, 1, 1, 2])

    def _downgrade(self) -> None:
        shard, held = self._any(Right.READ if self._random.random() < 0.9 else None)
        if held is None or held.frontier is None:
            return
        known = max((c.frontier or 0) for c in self._held[shard])
        after = known - self._random.choice([-2, 0, 1, 1, 2, 5])
        if after > held.frontier:
            self._downgrade_to(shard, held, after)

    def _downgrade_to(self, shard: str, held: Capability, after: int | None) -> None:
        assert held.frontier is not None
        command = Downgrade(shard, held.id, held.frontier, after)

        def act() -> Given:
            downgrade(self._storage, shard, held, after)
            return ()

        self._ask(command, act)
        self._move(shard, held.id, after)

    def _clone(self) -> None:
        shard, held = self._any(None)
        if held is None:
            return

        def act() -> Given:
            return clone(self._storage, shard, held)

        self._held[shard] += self._ask(Clone(shard, held), act)

    def _acquire(self) -> None:
        shards = [*self._shards, *self._held]
        command = Acquire(self._random.choice(shards), FIRST_LEASE_MS + self._fresh())

        def act() -> Given:
            made = self._storage.acquire_capabilities(
                GlobalId.parse(command.shard), lease_ms=command.lease_ms
            )
            return useful(command.lease_ms, *made)

        given = self._ask(command, act)
        if given:
            self._held.setdefault(command.shard, []).extend(given)

    def _read(self) -> None:
        shard, held = self._any(Right.READ)
        if held is None or held.frontier is None:
            return
        capability = capability_of(shard, held)
        assert isinstance(capability, ReadCapability)
        as_of = held.frontier + self._random.choice([0, 0, 1, 5])
        subscription = self._storage.subscribe_at(capability, as_of=EPOCH_MILLIS.frontier(as_of))
        answer = contents_of(subscription)
        subscription.close()
        if answer is not None:
            counts, upper = answer
            flat = tuple((row, time, diff) for (row, time), diff in counts.items())
            self._journal.write(Seen(shard, as_of, upper, flat))

    def _drop_collection(self) -> None:
        shard = self._random.choice(list(self._held))
        for held in list(self._held[shard]):
            self._downgrade_to(shard, held, None)

    def _drop_surplus(self) -> None:
        """Keep few capabilities, and let the oldest hold go first."""
        for shard in list(self._held):
            if len(self._held[shard]) > 5:
                oldest = min(self._held[shard], key=lambda c: (c.frontier or 0, c.id))
                self._downgrade_to(shard, oldest, None)
                return
        if len(self._held) > 6:
            self._drop_collection()

    def _any(self, right: Right | None) -> tuple[str, Capability | None]:
        shard = self._random.choice(list(self._held))
        held = [c for c in self._held[shard] if right in (None, c.right)]
        return shard, self._random.choice(held) if held else None

    def _move(self, shard: str, token: str, after: int | None) -> None:
        held = self._held[shard]
        place = next(i for i, c in enumerate(held) if c.id == token)
        old = held.pop(place)
        if after is not None:
            held.append(Capability(token, old.right, after, old.lease_ms))
        elif not held:
            del self._held[shard]
