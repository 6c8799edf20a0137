"""Where large reads are computed: on Spark's executors, a slice in each task.

What makes the rows is shipped to the executors; it must be a pure function of its arguments, so
that a task that is run twice gives the same. There are two ways back. Rows that are made from
nothing come through Spark, as Arrow. What is read from outside comes as files of Arrow that the
tasks write, where the driver maps them: neither Java nor the driver has to hold a copy, and no
schema has to be known before.

A read that takes long must not keep others from the executors. It is done in waves, between which
others get their turn and whoever reads can stop; and where there are more than two slots, it leaves
one free.
"""

from __future__ import annotations

import pickle
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from waterclock.errors import EngineDown, WaterclockError
from waterclock.storage.sources.errors import TransientFault

Make = Callable[[int, int], pa.RecordBatch]
Read = Callable[[int], Iterable[pa.RecordBatch]]
_ROUNDS = 2
"""Slices per executor slot and wave."""
_WORTH_BYTES = 32 << 20
_WORTH_BYTES_OF_FEW = 256 << 20
TOLD = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),
        pa.field("files", pa.list_(pa.string())),
        pa.field("fault", pa.binary()),
    ]
)
"""Report of a task on one slice: the files it wrote, or why there are none."""


@dataclass(frozen=True)
class _Task:
    """What an executor does: the slices whose numbers it is given."""

    make: Make
    slices: tuple[tuple[int, int], ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield self.make(*self.slices[number])


@dataclass(frozen=True)
class Filed:
    """What an executor does that reads: a row of `TOLD` for each number.

    A fault of the world is told and not raised, for Spark would try the task again in vain.
    """

    read: Read
    folder: str
    first: int = 0

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column(0).to_pylist():
                yield self.told(self.first + place)

    def told(self, number: int) -> pa.RecordBatch:
        files: list[str] | None = None
        fault = None
        try:
            files = list(written(self.read(number), Path(self.folder)))
        except (WaterclockError, OSError) as error:
            fault = pickle.dumps(error)
        columns = [[number], [files], [fault]]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, TOLD, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=TOLD)


def written(batches: Iterable[pa.RecordBatch], folder: Path) -> Iterator[str]:
    """Write batches to new files of the folder, one for each run of the same schema; their names.

    A task that is run again writes others, and those of the first run are read by nobody.
    """
    name, schema, writer = "", None, None
    try:
        for batch in batches:
            if writer is None or not batch.schema.equals(schema, check_metadata=True):
                if writer is not None:
                    writer.close()
                    yield name
                name, schema = f"{uuid.uuid4().hex}.arrow", batch.schema
                writer = pa.ipc.new_file(str(folder / name), schema)
            writer.write_batch(batch)
    finally:
        if writer is not None:
            writer.close()
    if writer is not None:
        yield name


def taken(told: pa.Table, folder: Path) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The batches that tasks have written, by their numbers. Raises the first fault there is."""
    rows = sorted(told.to_pylist(), key=lambda row: row["number"])
    for row in rows:
        if row["fault"] is not None:
            raise pickle.loads(row["fault"])
    for row in rows:
        for name in row["files"]:
            with pa.memory_map(str(folder / name)) as source, pa.ipc.open_file(source) as reader:
                for place in range(reader.num_record_batches):
                    yield row["number"], reader.get_batch(place)


class Sessions(Protocol):
    """Where the Spark session is, which may go, and come back as another one."""

    def using(self) -> AbstractContextManager[SparkSession]:
        """The session; `EngineDown` if there is none, or none any more at the end."""


class OnSpark:
    """Implements `Executors` over whatever Spark session there is.

    Without one, and if it goes in the middle, a read raises `TransientFault`: it is tried again.
    """

    def __init__(self, sessions: Sessions, folder: Path | None = None) -> None:
        """`folder` is for files that all executors can write and the driver can read. What is there
        is removed. Without one, nothing can be read there.
        """
        self._sessions = sessions
        with sessions.using() as spark:
            self._parallelism: int = spark.sparkContext.defaultParallelism
        self._folder = folder
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def _slots(self) -> int:
        """How many tasks of a read run side by side."""
        return self._parallelism - 1 if self._parallelism > 2 else self._parallelism

    @property
    def worth_bytes(self) -> int:
        """From this size on, to read something here takes less time than in the server.

        A job takes 0.3 s, in which the server reads some ten megabytes. Then one task reads two
        thirds as fast as the server with all of its threads, for these wait for each other; so few
        tasks only help if there is so much that the server should not hold it in memory.
        """
        return _WORTH_BYTES if self._slots > 2 else _WORTH_BYTES_OF_FEW

    def run(
        self, make: Make, slices: Sequence[tuple[int, int]], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        task = _Task(make, tuple(slices))
        with self._session() as spark:
            numbers = spark.range(0, len(slices), 1, len(slices))
            made = numbers.mapInArrow(task.__call__, from_arrow_schema(schema)).toArrow()
        yield from made.cast(schema).to_batches()

    def read(self, read: Read, count: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        assert self._folder is not None, "who reads on executors has a folder for it"
        folder = self._folder / uuid.uuid4().hex
        folder.mkdir(parents=True)
        slots = self._slots
        try:
            for first in range(0, count, slots * _ROUNDS):
                size = min(slots * _ROUNDS, count - first)
                task = Filed(read, str(folder), first)
                with self._session() as spark:
                    numbers = spark.range(0, size, 1, min(slots, size))
                    told = numbers.mapInArrow(task.__call__, from_arrow_schema(TOLD)).toArrow()
                yield from taken(told, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _session(self) -> Iterator[SparkSession]:
        try:
            with self._sessions.using() as spark:
                yield spark
        except EngineDown as error:
            told = TransientFault(error.message, detail=error.detail, hint=error.hint)
            raise told from error
