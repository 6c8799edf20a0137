"""A server with a Kafka source, to be killed: `python -m ...crash.kafka DIR ADDRESS TOTAL DIES`.

It reads the topic of the definition in `DIR/definition` until everything before TOTAL, a sum of
offsets, has been read. With DIES it kills itself when a read has given so many batches (`mortal`).
What it did is judged by whoever opens the data.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from waterclock.adapter.holds import Holds
from waterclock.model.ids import GlobalId
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.directory import DataDirectory
from waterclock.persist.notes import Notes
from waterclock.persist.store import Store
from waterclock.storage import riders
from waterclock.storage.api import (
    ERROR_ROWS,
    Description,
    Progress,
    ReadCapability,
    Updates,
    Writers,
)
from waterclock.storage.controller import Storage
from waterclock.storage.envelopes.choice import decoding_of
from waterclock.storage.reclock.remap import Remap
from waterclock.storage.reclock.shape import KAFKA
from waterclock.storage.sources.api import ConnectionSettings, SourceDescription, Surroundings
from waterclock.storage.sources.kafka.connector import KIND, NAME, OUTPUT
from waterclock.storage.sources.kafka.definition import decoded
from waterclock.storage.sources.loop import Ingestions
from waterclock.testing.crash.mortal import mortal
from waterclock.testing.frontiers import frontiers

ROWS, REMAP, ERRORS = (GlobalId.user(number) for number in (1, 2, 3))
_TOKENS = "tokens"


class KafkaServer:
    """Storage in a directory, with the one source."""

    def __init__(self, folder: Path) -> None:
        definition = (folder / "definition").read_bytes()
        self.directory = DataDirectory(folder / "data")
        owner = f"kafka/{time.time_ns()}"
        self.store = Store.open(self.directory.blob, self.directory.consensus, owner)
        self.storage = Storage(self.store)
        self.holds = Holds(self.storage)
        self._notes = Notes(self.store, "test/")
        self._rows = decoding_of(decoded(definition).messages).schema
        if _TOKENS not in self._notes.all():
            self._create()
        for token in msgspec.json.decode(self._notes.all()[_TOKENS]):
            reader = riders.held(self.store, token)
            assert isinstance(reader, ReadCapability)
            self.holds.adopt(reader)
        self.description = SourceDescription(
            ROWS, "kafka", NAME, definition, REMAP, {OUTPUT: ROWS}, errors={OUTPUT: ERRORS}
        )

    def _create(self) -> None:
        """The collections. A crash in here is not what is tried."""
        schemas = {ROWS: self._rows, REMAP: KAFKA.schema, ERRORS: ERROR_ROWS}
        tokens = []
        for collection, schema in schemas.items():
            description = Description(schema, Writers.STORAGE)
            start = EPOCH_MILLIS.frontier(1)
            reader, _ = self.store.commit(riders.create(collection, description, start))
            tokens.append(reader.token)
        self._notes.change({_TOKENS: msgspec.json.encode(tokens)})

    def run(self, address: str, total: int, dies_after: int | None) -> None:
        """Until everything before the total was read."""
        connection = ConnectionSettings("k", "kafka", {"broker": address})
        loop = Ingestions(
            self.storage,
            self.store,
            {NAME: mortal(KIND, dies_after)},
            Surroundings(lambda: time.time_ns() // 1_000_000, None, lambda _id: connection),
            self.holds.take,
            interval_ms=20,
        )
        loop.add(self.description)
        while loop.reports()[0].statistics.offsets_committed < total:
            time.sleep(0.02)
        loop.close()

    def bindings(self) -> Remap:
        """What was bound, and when."""
        batches = [message.batch for message in self._updates(REMAP)]
        return Remap.of_updates(KAFKA.updates(batches), more_may_appear=True)

    def rows(self) -> list[tuple[Any, ...]]:
        """All updates of the source's rows, with time and diff last."""
        return [
            row
            for message in self._updates(ROWS)
            for row in zip(*(c.to_pylist() for c in message.batch.columns), strict=True)
        ]

    def uppers(self) -> tuple[int | None, int | None]:
        """How far the bindings and the rows are complete."""
        found = frontiers(self.store, (REMAP, ROWS))
        return found[REMAP][1].only(), found[ROWS][1].only()

    def _updates(self, collection: GlobalId) -> Iterator[Updates]:
        if frontiers(self.store, (collection,))[collection][1].only() == 1:
            return  # nothing can be read yet
        subscription = self.storage.subscribe_at(self.holds.capability(collection))
        for message in subscription:
            match message:
                case Updates():
                    yield message
                case Progress():
                    break
        subscription.close()

    def close(self) -> None:
        self.storage.close()
        self.directory.release()


def main() -> None:
    folder, address, total, *dies = sys.argv[1:]
    server = KafkaServer(Path(folder))
    server.run(address, int(total), int(dies[0]) if dies else None)
    server.close()


if __name__ == "__main__":
    main()
