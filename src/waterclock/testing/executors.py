"""Executors for tests.

`AtHand` does without Spark: tasks are pickled, write files, and run here one after the other.
`Telling` is for a process that is to be killed while it reads: it says when.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from waterclock.storage.sources.executors import TOLD, Filed, OnSpark, taken
from waterclock.testing.brief_spark import brief_session


class AtHand:
    """Implements `Executors`. `reads` has how many tasks each read was made of."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.reads: list[int] = []

    def run(
        self,
        make: Callable[[int, int], pa.RecordBatch],
        slices: Sequence[tuple[int, int]],
        schema: pa.Schema,
    ) -> Iterator[pa.RecordBatch]:
        shipped = pickle.loads(pickle.dumps(make))
        for each in slices:
            batch = shipped(*each)
            assert batch.schema == schema
            yield batch

    def read(
        self, read: Callable[[int], Iterable[pa.RecordBatch]], count: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        self.reads.append(count)
        task = pickle.loads(pickle.dumps(Filed(read, str(self._folder))))
        told = pa.Table.from_batches([task.told(number) for number in range(count)], TOLD)
        yield from taken(told, self._folder)
        for file in self._folder.glob("*.arrow"):  # what was taken stays valid
            file.unlink()


class Telling:
    """Implements `Executors` by a Spark session of its own, and prints `reading` at each read."""

    def __init__(self, folder: Path) -> None:
        session = brief_session(settings={"spark.driver.memory": "512m"}, room="")
        self._inner = OnSpark(session, folder)
        self.run = self._inner.run

    def read(
        self, read: Callable[[int], Iterable[pa.RecordBatch]], count: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        print("reading", flush=True)
        return self._inner.read(read, count)
