"""A server with a source of files, to be killed.

    python -m waterclock.testing.crash.files DIR [spark] [dies=N]

It reads the lines of the files in `DIR/in` until somebody kills it, or until it has read the line
`end`. It says `running` when it begins, and `moved` when something new is durable. With `spark`,
executors read; they never come to an end, and it says `reading` when they have begun. With N it
kills itself when a read has given so many batches (`mortal`). What it did is judged by whoever
opens the data.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec
import pyarrow as pa

from waterclock.adapter.holds import Holds
from waterclock.model.ids import GlobalId
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.directory import DataDirectory
from waterclock.persist.notes import Notes
from waterclock.persist.store import Store
from waterclock.storage import riders
from waterclock.storage.api import ERROR_ROWS, Description, Progress, Updates, Writers
from waterclock.storage.api import ReadCapability as Reader
from waterclock.storage.controller import Storage
from waterclock.storage.formats.api import Included, MessageDefinition, TextDefinition
from waterclock.storage.sources.api import (
    STATE_ROWS,
    Executors,
    SourceDescription,
    Surroundings,
)
from waterclock.storage.sources.files.connector import FILES, NAME, OUTPUT, connector_of, encoded
from waterclock.storage.sources.files.definition import FilesDefinition
from waterclock.storage.sources.loop import Ingestions
from waterclock.storage.sources.registry import all_kinds
from waterclock.testing.crash.mortal import mortal, taken_from
from waterclock.testing.executors import Telling
from waterclock.testing.frontiers import frontiers

LINES, REMAP, ERRORS, NOTES = (GlobalId.user(number) for number in (1, 2, 3, 4))
_TOKENS = "tokens"
_INTERVAL_MS = 5


class FilesServer:
    """Storage in a directory, with the one source."""

    def __init__(self, folder: Path) -> None:
        self.directory = DataDirectory(folder / "data")
        owner = f"files/{time.time_ns()}"
        self.store = Store.open(self.directory.blob, self.directory.consensus, owner)
        self.storage = Storage(self.store)
        self.holds = Holds(self.storage)
        self._notes = Notes(self.store, "test/")
        messages = MessageDefinition(
            origin="files", value=TextDefinition(), include=(Included("offset", "at"),)
        )
        definition = FilesDefinition(location=str(folder / "in"), messages=messages)
        self.rows = connector_of(definition, Surroundings(lambda: 0)).outputs[OUTPUT]
        if _TOKENS not in self._notes.all():
            self._create()
        for token in msgspec.json.decode(self._notes.all()[_TOKENS]):
            reader = riders.held(self.store, token)
            assert isinstance(reader, Reader)
            self.holds.adopt(reader)
        self.description = SourceDescription(
            LINES,
            "files",
            NAME,
            encoded(definition),
            REMAP,
            {OUTPUT: LINES},
            errors={OUTPUT: ERRORS},
            notes=NOTES,
        )

    def _create(self) -> None:
        """The collections. A crash in here is not what is tried."""
        schemas = {LINES: self.rows, REMAP: FILES.schema, ERRORS: ERROR_ROWS, NOTES: STATE_ROWS}
        tokens = []
        for collection, schema in schemas.items():
            description = Description(schema, Writers.STORAGE)
            start = EPOCH_MILLIS.frontier(1)
            reader, _ = self.store.commit(riders.create(collection, description, start))
            tokens.append(reader.token)
        self._notes.change({_TOKENS: msgspec.json.encode(tokens)})

    def run(self, executors: Executors | None = None, dies_after: int | None = None) -> None:
        """Until the last line was read."""
        clock = lambda: time.time_ns() // 1_000_000  # noqa: E731
        surroundings = Surroundings(clock, executors, large_bytes=0)
        loop = Ingestions(
            self.storage,
            self.store,
            {name: mortal(kind, dies_after) for name, kind in all_kinds().items()},
            surroundings,
            self.holds.take,
            interval_ms=_INTERVAL_MS,
        )
        loop.add(self.description)
        has_moved = False
        while "end" not in self.updates(LINES)["text"].to_pylist():
            if not has_moved and loop.reports()[0].statistics.updates:
                has_moved = True
                print("moved", flush=True)
            time.sleep(0.05)
        loop.close()

    def updates(self, collection: GlobalId) -> pa.Table:
        """Everything that is known of a collection."""
        schema = {LINES: self.rows, REMAP: FILES.schema}[collection]
        names = [*schema.names, "mz_timestamp", "mz_diff"]
        found: list[pa.RecordBatch] = []
        if self.uppers()[collection] != 1:
            subscription = self.storage.subscribe_at(self.holds.capability(collection))
            for message in subscription:
                match message:
                    case Updates(batch):
                        found.append(batch)
                    case Progress():
                        break
            subscription.close()
        return pa.Table.from_batches(found) if found else pa.table({name: [] for name in names})

    def uppers(self) -> dict[GlobalId, int | None]:
        """How far the collections are complete."""
        found = frontiers(self.store, (LINES, REMAP))
        return {collection: upper.only() for collection, (_, upper) in found.items()}

    def close(self) -> None:
        self.storage.close()
        self.directory.release()


def main() -> None:
    server = FilesServer(Path(sys.argv[1]))
    asked = sys.argv[2:]
    dies_after = taken_from(asked)
    executors = Telling(Path(sys.argv[1]) / "reads") if asked == ["spark"] else None
    print("running", flush=True)
    server.run(executors, dies_after)
    server.close()


if __name__ == "__main__":
    main()
