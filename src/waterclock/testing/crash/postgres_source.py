"""A server that only runs one PostgreSQL source, to be killed.

    python -m waterclock.testing.crash.postgres_source DIR CONNINFO [spark] [LSN] [dies=N]

At the first start it makes a source of all that publication `p` has. Then it runs until somebody
kills it, or until everything up to the LSN is durable. It says `running` when it begins, and
`moved` when something new is durable. With `spark`, executors read the first contents; they never
come to an end, and it says `reading` when they have begun. With N it kills itself when a read has
given so many batches (`mortal`).
What it did is judged by whoever opens the data.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec

from waterclock.adapter.holds import Holds
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.directory import DataDirectory
from waterclock.persist.notes import Notes
from waterclock.persist.store import Store
from waterclock.storage import riders
from waterclock.storage.api import ERROR_ROWS, Description, ReadCapability, Writers
from waterclock.storage.controller import Storage
from waterclock.storage.reclock.shape import POSTGRES
from waterclock.storage.sources.api import Executors, SourceDescription, Surroundings
from waterclock.storage.sources.loop import Ingestions
from waterclock.storage.sources.postgres import connector
from waterclock.storage.sources.postgres.definition import definition_of
from waterclock.storage.sources.postgres.requirements import Wanted, define
from waterclock.storage.sources.status import Health
from waterclock.testing.crash.mortal import mortal, taken_from
from waterclock.testing.executors import Telling
from waterclock.testing.frontiers import frontiers
from waterclock.testing.postgres_source import CONNECTION, settings_for

_SOURCE, _REMAP = GlobalId.user(1), GlobalId.user(2)
_FIRST = 3
"""The number of the first output; each is followed by its errors."""


class PostgresSourceServer:
    """Storage in a directory, with the source."""

    def __init__(self, folder: Path, conninfo: str) -> None:
        self.directory = DataDirectory(folder)
        owner = f"postgres/{time.time_ns()}"
        self.store = Store.open(self.directory.blob, self.directory.consensus, owner)
        self.storage = Storage(self.store)
        self.holds = Holds(self.storage)
        self._settings = settings_for(conninfo)
        self._notes = Notes(self.store, "test/")
        if not self._notes.all():
            self._create()
        kept = self._notes.all()
        for token in msgspec.json.decode(kept["tokens"]):
            reader = riders.held(self.store, token)
            assert isinstance(reader, ReadCapability)
            self.holds.adopt(reader)
        self.description = _description(kept["definition"])

    def _create(self) -> None:
        """The collections. A crash in here is not what is tried."""
        found = define(CONNECTION, self._settings, Wanted("p"))
        encoded = found.definition.encoded()
        start = EPOCH_MILLIS.frontier(time.time_ns() // 1_000_000)
        tokens = []
        for collection, schema in _schemas(encoded).items():
            description = Description(schema, Writers.STORAGE)
            reader, _ = self.store.commit(riders.create(collection, description, start))
            tokens.append(reader.token)
        self._notes.change({"definition": encoded, "tokens": msgspec.json.encode(tokens)})

    def run(
        self,
        until: int | None,
        executors: Executors | None = None,
        dies_after: int | None = None,
    ) -> None:
        """Until the source has got so far."""
        clock = lambda: time.time_ns() // 1_000_000  # noqa: E731
        loop = Ingestions(
            self.storage,
            self.store,
            {connector.NAME: mortal(connector.KIND, dies_after)},
            Surroundings(clock, executors, lambda _: self._settings, large_bytes=0),
            self.holds.take,
            interval_ms=5,
        )
        loop.add(self.description)
        has_moved = False
        while True:
            [report] = loop.reports()
            assert report.status.health is not Health.FAILED, report.status.error
            if report.statistics.updates and not has_moved:
                has_moved = True
                print("moved", flush=True)
            if until is not None and (report.statistics.offsets_committed or 0) >= until:
                break
            time.sleep(0.01)
        loop.close()

    def uppers(self) -> dict[GlobalId, int | None]:
        """How far the collections are complete."""
        found = frontiers(self.store, self.description.collections)
        return {collection: upper.only() for collection, (_, upper) in found.items()}

    def close(self) -> None:
        self.storage.close()
        self.directory.release()


def _description(definition: bytes) -> SourceDescription:
    tables = definition_of(definition).tables
    outputs = {t.output: GlobalId.user(_FIRST + 2 * i) for i, t in enumerate(tables)}
    errors = {t.output: GlobalId.user(_FIRST + 2 * i + 1) for i, t in enumerate(tables)}
    return SourceDescription(
        _SOURCE, "s", connector.NAME, definition, _REMAP, outputs, errors=errors
    )


def _schemas(definition: bytes) -> dict[GlobalId, Schema]:
    description = _description(definition)
    found = {_REMAP: POSTGRES.schema} | dict.fromkeys(description.errors.values(), ERROR_ROWS)
    for table in definition_of(definition).tables:
        found[description.outputs[table.output]] = table.rows
    return found


def main() -> None:
    server = PostgresSourceServer(Path(sys.argv[1]), sys.argv[2])
    asked = sys.argv[3:]
    dies_after = taken_from(asked)
    executors = None
    if asked[:1] == ["spark"]:
        executors = Telling(Path(sys.argv[1]) / "reads")
        asked = asked[1:]
    print("running", flush=True)
    server.run(int(asked[0]) if asked else None, executors, dies_after)
    server.close()


if __name__ == "__main__":
    main()
