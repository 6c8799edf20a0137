"""A server with one source of lines, to be killed: what those of files and of objects share.

It reads lines until somebody kills it, or until it has read the line `end`. It says `running` when
it begins, and `moved` when something new is durable. With `spark`, executors read; they never come
to an end, and it says `reading` when they have begun. With `dies=N` it kills itself when a read has
given so many batches (`mortal`). What it did is judged by whoever opens the data.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pyarrow as pa

from waterclock.adapter.holds import Holds
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.directory import DataDirectory
from waterclock.persist.notes import Notes
from waterclock.persist.store import Store
from waterclock.storage import riders
from waterclock.storage.api import ERROR_ROWS, Description, Progress, Updates, Writers
from waterclock.storage.api import ReadCapability as Reader
from waterclock.storage.controller import Storage
from waterclock.storage.formats.api import Included, MessageDefinition, TextDefinition
from waterclock.storage.reclock.shape import ProgressShape
from waterclock.storage.sources.api import STATE_ROWS, SourceDescription, Surroundings
from waterclock.storage.sources.loop import Ingestions
from waterclock.storage.sources.registry import all_kinds
from waterclock.testing.crash.mortal import mortal, taken_from
from waterclock.testing.executors import Telling
from waterclock.testing.frontiers import frontiers

LINES, REMAP, ERRORS, NOTES = (GlobalId.user(number) for number in (1, 2, 3, 4))
MESSAGES = MessageDefinition(
    origin="files", value=TextDefinition(), include=(Included("offset", "at"),)
)
_TOKENS = "tokens"
_INTERVAL_MS = 5


@dataclass(frozen=True, slots=True)
class LinesSource:
    """The source: its kind, definition and only output, and what surrounds it."""

    kind: str
    definition: bytes
    output: str
    rows: Schema
    progress: ProgressShape
    surroundings: Surroundings


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class LinesServer:
    """Storage in a directory, with the one source."""

    def __init__(self, folder: Path, source: LinesSource) -> None:
        self._source = source
        self.directory = DataDirectory(folder / "data")
        owner = f"{source.kind}/{time.time_ns()}"
        self.store = Store.open(self.directory.blob, self.directory.consensus, owner)
        self.storage = Storage(self.store)
        self.holds = Holds(self.storage)
        self._notes = Notes(self.store, "test/")
        self.rows = source.rows
        if _TOKENS not in self._notes.all():
            self._create()
        for token in msgspec.json.decode(self._notes.all()[_TOKENS]):
            reader = riders.held(self.store, token)
            assert isinstance(reader, Reader)
            self.holds.adopt(reader)
        self.description = SourceDescription(
            LINES,
            source.kind,
            source.kind,
            source.definition,
            REMAP,
            {source.output: LINES},
            errors={source.output: ERRORS},
            notes=NOTES,
        )

    def _create(self) -> None:
        """The collections. A crash in here is not what is tried."""
        shape = self._source.progress.schema
        schemas = {LINES: self.rows, REMAP: shape, ERRORS: ERROR_ROWS, NOTES: STATE_ROWS}
        tokens = []
        for collection, schema in schemas.items():
            description = Description(schema, Writers.STORAGE)
            start = EPOCH_MILLIS.frontier(1)
            reader, _ = self.store.commit(riders.create(collection, description, start))
            tokens.append(reader.token)
        self._notes.change({_TOKENS: msgspec.json.encode(tokens)})

    def run(self, arguments: list[str], folder: Path) -> None:
        """Until the last line was read. The arguments are those of the program."""
        dies_after = taken_from(arguments)
        executors = Telling(folder / "reads") if arguments == ["spark"] else None
        surroundings = replace(self._source.surroundings, executors=executors, large_bytes=0)
        print("running", flush=True)
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
        schema = {
            LINES: self.rows,
            REMAP: self._source.progress.schema,
            ERRORS: ERROR_ROWS,
        }[collection]
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
        found = frontiers(self.store, (LINES, REMAP, ERRORS))
        return {collection: upper.only() for collection, (_, upper) in found.items()}

    def close(self) -> None:
        self.storage.close()
        self.directory.release()
