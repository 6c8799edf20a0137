"""What a tick's stages must know, and how it reaches them.

The job of a tick is planned once and run every time, so nothing that changes from tick to tick can
be in the plan. It is in an *inbox* instead: a folder that all executors can read, with the inputs'
changes and a small record of the window and of the runs that make up each arrangement. The driver
writes it before it runs the job. Of an input whose contents are large there is a listing only, and
the tasks read it where it is stored.

Each run of a job has an inbox of its own, and the tasks know which by a property of the job. So a
task of a run that failed, and that goes on for a moment although nobody waits for it any more, can
not take in what was meant for the next.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from waterclock.persist.blob.api import Blob
from waterclock.persist.portions import Listing, portion

ATTEMPT = "spark.jobGroup.id"
"""The property of a job that names its group, and the folder of this run of it."""


class Arranged(msgspec.Struct, frozen=True):
    """An arrangement before a step: where the runs end, and their names."""

    tip: int
    runs: tuple[str, ...]


class Tick(msgspec.Struct, frozen=True):
    """One step: the window of times, and the state it begins from."""

    lower: int
    upper: int
    first: bool
    """Whether nothing was computed before: constants and initial rows are emitted."""
    state: dict[str, Arranged]
    """The arrangements, by the names of their folders."""


class Inbox:
    """A folder that the driver fills for one run of a job, and the stages read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def of_task(folder: Path) -> Inbox:
        """The inbox of the run that this task belongs to."""
        context = TaskContext.get()
        attempt = None if context is None else context.getLocalProperty(ATTEMPT)
        assert attempt is not None, "a stage runs in a task of a job that has an inbox"
        return Inbox(folder / attempt)

    def put(
        self,
        tick: Tick,
        deltas: Mapping[str, pa.Table],
        contents: Mapping[str, Listing],
        parts: int = 1,
    ) -> None:
        """Fill the inbox, which nobody reads yet, for so many tasks.

        Each has a file of its own, and where there are several they are large: they are written
        side by side.
        """
        self.folder.mkdir(parents=True)
        pieces = [
            (self._path(name, part), _part_of(table, part, parts))
            for name, table in deltas.items()
            for part in range(parts)
        ]
        if parts == 1:
            for path, piece in pieces:
                _write(path, piece)
        else:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(lambda piece: _write(*piece), pieces))
        for name, listing in contents.items():
            (self.folder / f"{name}.listing").write_bytes(msgspec.msgpack.encode(listing))
        (self.folder / "tick").write_bytes(msgspec.msgpack.encode(tick))

    def remove(self) -> None:
        """The run is over."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def tick(self) -> Tick:
        return msgspec.msgpack.decode((self.folder / "tick").read_bytes(), type=Tick)

    def delta(self, name: str, schema: pa.Schema, part: int = 0) -> pa.Table:
        """The changes of an input in the tick's window, as far as they are for that task."""
        path = self._path(name, part)
        if not path.exists():
            return schema.empty_table()
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
            return reader.read_all().rename_columns(schema.names).cast(schema)

    def contents(
        self, name: str, schema: pa.Schema, blob: Blob | None, part: int = 0, parts: int = 1
    ) -> Iterator[pa.RecordBatch]:
        """What an input holds at first, or one of several portions of it, if it is listed."""
        path = self.folder / f"{name}.listing"
        if not path.exists():
            return
        assert blob is not None, "objects that are listed can be read"
        listing = msgspec.msgpack.decode(path.read_bytes(), type=Listing)
        for batch in portion(blob, listing, part, parts):
            yield batch.rename_columns(schema.names).cast(schema)

    def _path(self, name: str, part: int) -> Path:
        return self.folder / f"{name}.{part}.arrow"


def _part_of(table: pa.Table, part: int, parts: int) -> pa.Table:
    """One of several equal parts of the rows."""
    first, last = (table.num_rows * bound // parts for bound in (part, part + 1))
    return table.slice(first, last - first)


def _write(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
