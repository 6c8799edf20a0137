"""A server that only runs sources, to be killed.

    python -m waterclock.testing.crash.sources DIR [dies=N] [MS]

At the first start it makes a counter and a bank of transfers, both quick; then it runs until
somebody kills it, or until both have ended. With N it kills itself when a read has given so many
batches (`mortal`). What it did is judged by whoever opens the data.

Its clock stands still while it is dead, and whenever it has come to MS, so that every life has its
share of the work. The first quarter of the history is compacted on the way.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec

from waterclock.adapter.holds import Holds
from waterclock.model.ids import GlobalId
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.directory import DataDirectory
from waterclock.persist.notes import Notes
from waterclock.persist.store import Store
from waterclock.storage import riders
from waterclock.storage.api import Description, ReadCapability, Writers
from waterclock.storage.controller import Storage
from waterclock.storage.reclock.shape import LOAD_GENERATOR
from waterclock.storage.sources.api import Clock, SourceDescription, Surroundings
from waterclock.storage.sources.generators import connector
from waterclock.storage.sources.generators.api import Options
from waterclock.storage.sources.loop import Ingestions
from waterclock.storage.sources.registry import all_kinds
from waterclock.storage.sources.status import Health
from waterclock.testing.crash.mortal import mortal, taken_from
from waterclock.testing.frontiers import frontiers

COUNT = 4000
TICK_MS = 1.0
COUNTER, COUNTER_REMAP, BANK, BANK_REMAP = (GlobalId.user(number) for number in (1, 2, 3, 4))
_TOKENS = "tokens"


class SourcesServer:
    """Storage in a directory, with the two sources."""

    def __init__(self, folder: Path) -> None:
        self.directory = DataDirectory(folder)
        owner = f"sources/{time.time_ns()}"
        self.store = Store.open(self.directory.blob, self.directory.consensus, owner)
        self.storage = Storage(self.store)
        self.holds = Holds(self.storage)
        self._notes = Notes(self.store, "test/")
        kept = self._notes.all()
        created = int(kept["created"]) if kept else self._create()
        for token in msgspec.json.decode(self._notes.all()[_TOKENS]):
            reader = riders.held(self.store, token)
            assert isinstance(reader, ReadCapability)
            self.holds.adopt(reader)
        self.descriptions = (
            _description("counter", COUNTER, COUNTER_REMAP, created),
            _description("bank", BANK, BANK_REMAP, created),
        )

    def _create(self) -> int:
        """The collections. A crash in here is not what is tried."""
        created = 1
        tokens = []
        start = EPOCH_MILLIS.frontier(created)
        for kind, data, remap in (("counter", COUNTER, COUNTER_REMAP), ("bank", BANK, BANK_REMAP)):
            generator = connector.generator_of(_options(kind, created))
            [rows] = generator.outputs.values()
            for collection, schema in ((data, rows), (remap, LOAD_GENERATOR.schema)):
                description = Description(schema, Writers.STORAGE)
                reader, _ = self.store.commit(riders.create(collection, description, start))
                tokens.append(reader.token)
        self._notes.change({"created": str(created).encode(), _TOKENS: msgspec.json.encode(tokens)})
        return created

    def run(self, dies_after: int | None = None, latest_ms: int | None = None) -> None:
        """Until everything has ended."""
        clock = self._clock(latest_ms)
        loop = Ingestions(
            self.storage,
            self.store,
            {name: mortal(kind, dies_after) for name, kind in all_kinds().items()},
            Surroundings(clock),
            self.holds.take,
            interval_ms=5,
        )
        for description in self.descriptions:
            loop.add(description)
        while any(each.status.health is not Health.FINISHED for each in loop.reports()):
            time.sleep(0.02)
            self.holds.allow_compaction(min(clock() - 50, COUNT // 4))
        loop.close()

    def _clock(self, latest_ms: int | None) -> Clock:
        """Milliseconds that go on from the last time that anything is complete to."""
        last = max(each or 0 for each in self.uppers().values())
        end = max(last, 10**12 if latest_ms is None else latest_ms)
        began = time.monotonic_ns()
        return lambda: min(end, last + (time.monotonic_ns() - began) // 1_000_000)

    def uppers(self) -> dict[GlobalId, int | None]:
        """How far the collections are complete."""
        collections = (COUNTER, COUNTER_REMAP, BANK, BANK_REMAP)
        found = frontiers(self.store, collections)
        return {collection: upper.only() for collection, (_, upper) in found.items()}

    def close(self) -> None:
        self.storage.close()
        self.directory.release()


def _options(kind: str, created: int) -> Options:
    return Options(kind=kind, tick_ms=TICK_MS, created_ms=created, seed=42, maximum=COUNT)


def _description(kind: str, data: GlobalId, remap: GlobalId, created: int) -> SourceDescription:
    options = _options(kind, created)
    [output] = connector.generator_of(options).outputs
    definition = connector.encoded(options)
    return SourceDescription(remap, kind, connector.NAME, definition, remap, {output: data})


def main() -> None:
    server = SourcesServer(Path(sys.argv[1]))
    asked = sys.argv[2:]
    dies_after = taken_from(asked)
    print("running", flush=True)
    server.run(dies_after, int(asked[0]) if asked else None)
    server.close()


if __name__ == "__main__":
    main()
