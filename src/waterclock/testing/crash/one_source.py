"""Storage in a directory with one source, for a server that is to be killed.

The collections are made at the first start. What lives of the server did is judged by whoever opens
the data: its bindings, its rows, and how far both are complete.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from waterclock.adapter.holds import Holds
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Schema
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
from waterclock.storage.reclock.remap import Remap
from waterclock.storage.reclock.shape import ProgressShape
from waterclock.storage.sources.api import (
    STATE_ROWS,
    ConnectionSettings,
    Kind,
    SourceDescription,
    Surroundings,
)
from waterclock.storage.sources.loop import Ingestions
from waterclock.storage.sources.status import Health, Statistics
from waterclock.testing.crash.mortal import mortal
from waterclock.testing.frontiers import frontiers

ROWS, REMAP, ERRORS, NOTES = (GlobalId.user(number) for number in (1, 2, 3, 4))
_TOKENS = "tokens"


class OneSourceServer:
    """The source of the definition in `folder/definition`."""

    def __init__(self, folder: Path, name: str, kind: Kind, output: str) -> None:
        definition = (folder / "definition").read_bytes()
        self._name, self._kind = name, kind
        self.directory = DataDirectory(folder / "data")
        owner = f"{name}/{time.time_ns()}"
        self.store = Store.open(self.directory.blob, self.directory.consensus, owner)
        self.storage = Storage(self.store)
        self.holds = Holds(self.storage)
        self._notes = Notes(self.store, "test/")
        if _TOKENS not in self._notes.all():
            connector = kind.open(definition, Surroundings(_now_ms))
            self._create(connector.outputs[output])
        for token in msgspec.json.decode(self._notes.all()[_TOKENS]):
            reader = riders.held(self.store, token)
            assert isinstance(reader, ReadCapability)
            self.holds.adopt(reader)
        self.description = SourceDescription(
            ROWS,
            name,
            name,
            definition,
            REMAP,
            {output: ROWS},
            errors={output: ERRORS},
            notes=NOTES,
        )

    def _create(self, rows: Schema) -> None:
        """The collections. A crash in here is not what is tried."""
        shape: ProgressShape = self._kind.progress
        schemas = {ROWS: rows, REMAP: shape.schema, ERRORS: ERROR_ROWS, NOTES: STATE_ROWS}
        tokens = []
        start = EPOCH_MILLIS.frontier(_now_ms())
        for collection, schema in schemas.items():
            description = Description(schema, Writers.STORAGE)
            reader, _ = self.store.commit(riders.create(collection, description, start))
            tokens.append(reader.token)
        self._notes.change({_TOKENS: msgspec.json.encode(tokens)})

    def run(
        self,
        connection: ConnectionSettings | None,
        is_over: Callable[[Statistics], bool],
        dies_after: int | None,
    ) -> None:
        """Until the source has come so far, or has died in a read (see `mortal`)."""
        loop = Ingestions(
            self.storage,
            self.store,
            {self._name: mortal(self._kind, dies_after)},
            Surroundings(_now_ms, None, None if connection is None else lambda _id: connection),
            self.holds.take,
            interval_ms=20,
        )
        loop.add(self.description)
        while True:
            [report] = loop.reports()
            assert report.status.health is not Health.FAILED, report.status.error
            if is_over(report.statistics):
                break
            time.sleep(0.02)
        loop.close()

    def bindings(self) -> Remap:
        """What was bound, and when."""
        batches = [message.batch for message in self._updates(REMAP)]
        shape = self._kind.progress
        return Remap.of_updates(shape.updates(batches), more_may_appear=shape.more_may_appear)

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

    def last_unread_binding(self) -> tuple[int, dict[Any, int]]:
        """The last binding. It is in the log of the remap, beyond what can be read of the source,
        and its data is not there.
        """
        bound, complete = self.uppers()
        assert bound is not None
        assert complete is not None
        assert complete < bound
        last = self.bindings().bindings[-1]
        assert self.rows() == []
        return last.time, dict(last.frontier.uppers)

    def _updates(self, collection: GlobalId) -> Iterator[Updates]:
        since, upper = frontiers(self.store, (collection,))[collection]
        if since == upper:
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


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
