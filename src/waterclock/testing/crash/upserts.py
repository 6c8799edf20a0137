"""A server with one upsert source, to be killed around its commits.

    python -m waterclock.testing.crash.upserts DIR [(before|after)=N]

Records are a function of their offset. Each step takes a few more of them, until all are there.
With N it kills itself at its N-th append: `before` it, when the state on disk has the step already
and the log has not, or `after` it, when the log has it and nobody was told. What it did is judged
by whoever opens the data.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from waterclock.adapter.holds import Holds
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.directory import DataDirectory
from waterclock.persist.notes import Notes
from waterclock.persist.schema_codec import encode_schema
from waterclock.persist.store import Store
from waterclock.storage import riders
from waterclock.storage.api import ERROR_ROWS, Description, ReadCapability, Writers
from waterclock.storage.controller import Storage
from waterclock.storage.envelopes.choice import decoding_of, envelope_of
from waterclock.storage.formats.api import (
    JsonDefinition,
    MessageDefinition,
    TextDefinition,
    UpsertDefinition,
)
from waterclock.storage.reclock.progress import Range, SourceFrontier
from waterclock.storage.sources.api import (
    Connector,
    Kind,
    Messages,
    Probe,
    SourceDescription,
    Surroundings,
)
from waterclock.storage.sources.loop import Ingestions
from waterclock.storage.sources.status import Health
from waterclock.testing.record_world import SHAPE, Record, records

TOTAL, STEP, KEYS = 6000, 300, 400
PARTITION, NAME = "t/0", "upserts"
ROWS, REMAP, ERRORS = (GlobalId.user(number) for number in (1, 2, 3))
DEFINITION = MessageDefinition(
    origin='topic "t"',
    value=JsonDefinition(encode_schema(Schema((Column("v", Int(64)),)))),
    key=TextDefinition("key"),
    envelope=UpsertDefinition(),
)
_TOKENS = "tokens"


def record(offset: int) -> Record:
    """The record there: one in ten takes a row away; one in a hundred can not be read, for a key
    of its own.
    """
    chance = random.Random(offset)
    if offset % 100 == 7:
        return f"bad{offset % 1000}".encode(), None if chance.random() < 0.5 else b"no json"
    key = f"key{chance.randrange(KEYS)}".encode()
    return key, None if chance.random() < 0.1 else b'{"v": %d}' % offset


class _Records:
    """Implements `Connector`."""

    outputs: Mapping[str, Schema]
    is_linearizable = True

    def __init__(self) -> None:
        self._decoding = decoding_of(DEFINITION)
        self.outputs = {NAME: self._decoding.schema}
        self._upper = 0

    def start(self) -> SourceFrontier:
        return SourceFrontier({PARTITION: 0}, True)

    def resume(self, frontier: SourceFrontier) -> None:
        self._upper = frontier.uppers.get(PARTITION, 0)

    def probe(self) -> Probe:
        is_final = self._upper == TOTAL
        self._upper = min(self._upper + STEP, TOTAL)
        found = SourceFrontier({PARTITION: self._upper}, True)
        return Probe(found, found, is_final)

    def read(self, ranges: Sequence[Range]) -> Iterator[Messages]:
        for each in ranges:
            batch = records([record(o) for o in range(each.start, each.end)], each.start)
            yield Messages(NAME, each.partition, self._decoding.decode(batch))

    def commit(self, frontier: SourceFrontier) -> None:
        pass

    def close(self) -> None:
        pass


def _opened(definition: bytes, surroundings: Surroundings) -> Connector:
    del definition, surroundings
    return _Records()


KIND = Kind(SHAPE, _opened, lambda _definition, _output: envelope_of(DEFINITION))


class UpsertServer:
    """Storage in a directory, with the one source."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.directory = DataDirectory(folder / "data")
        owner = f"upserts/{time.time_ns()}"
        self.store = Store.open(self.directory.blob, self.directory.consensus, owner)
        self.storage = Storage(self.store)
        self.holds = Holds(self.storage)
        self._notes = Notes(self.store, "test/")
        if _TOKENS not in self._notes.all():
            self._create()
        for token in msgspec.json.decode(self._notes.all()[_TOKENS]):
            reader = riders.held(self.store, token)
            assert isinstance(reader, ReadCapability)
            self.holds.adopt(reader)
        self.description = SourceDescription(
            ROWS, NAME, NAME, b"", REMAP, {NAME: ROWS}, errors={NAME: ERRORS}
        )

    def _create(self) -> None:
        """The collections. A crash in here is not what is tried."""
        schemas = {ROWS: decoding_of(DEFINITION).schema, REMAP: SHAPE.schema, ERRORS: ERROR_ROWS}
        tokens = []
        for collection, schema in schemas.items():
            description = Description(schema, Writers.STORAGE)
            start = EPOCH_MILLIS.frontier(1)
            reader, _ = self.store.commit(riders.create(collection, description, start))
            tokens.append(reader.token)
        self._notes.change({_TOKENS: msgspec.json.encode(tokens)})

    def run(self, when: str, dies_at: int) -> None:
        """Until all is there, or until that append."""
        self._die_around_append(when, dies_at)
        loop = Ingestions(
            self.storage,
            self.store,
            {NAME: KIND},
            Surroundings(lambda: time.time_ns() // 1_000_000, state_folder=self.state),
            self.holds.take,
            interval_ms=5,
        )
        loop.add(self.description)
        while loop.reports()[0].status.health is not Health.FINISHED:
            assert loop.reports()[0].status.health is not Health.FAILED
            self.holds.allow_compaction(time.time_ns() // 1_000_000 - 200)
            time.sleep(0.005)
        loop.close()

    def _die_around_append(self, when: str, dies_at: int) -> None:
        append = self.storage._append
        left = dies_at

        def deadly(*arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if not left and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            moved = append(*arguments)
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return moved

        self.storage._append = deadly  # type: ignore[assignment, method-assign]

    def close(self) -> None:
        self.storage.close()
        self.directory.release()


def main() -> None:
    folder, *dies = sys.argv[1:]
    when, _, number = dies[0].partition("=") if dies else ("", "", "0")
    server = UpsertServer(Path(folder))
    server.run(when, int(number))
    server.close()


if __name__ == "__main__":
    main()
