"""Executors for tests.

`AtHand` does without Spark: tasks are pickled, write files, and run here one after the other.
`Telling` is for a process that is to be killed while it reads: it says when, and does not end.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from waterclock.compute.live_session import LiveSession
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
    """Implements `Executors` by a Spark session of its own, and prints `reading` when tasks have
    read. The last of them never ends.
    """

    def __init__(self, folder: Path) -> None:
        session = brief_session(settings={"spark.driver.memory": "512m"}, room="")
        self._inner = OnSpark(LiveSession.of(session), folder)
        self.run = self._inner.run
        self._sign = folder.with_name(f"{folder.name}.sign")

    def read(
        self, read: Callable[[int], Iterable[pa.RecordBatch]], count: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        self._sign.unlink(missing_ok=True)
        threading.Thread(target=self._tell, daemon=True).start()
        return self._inner.read(_Unending(read, count - 1, self._sign), count)

    def _tell(self) -> None:
        while not self._sign.exists():
            time.sleep(_LOOK_S)
        print("reading", flush=True)


_LOOK_S = 0.02


@dataclass(frozen=True)
class _Unending:
    """Reads what it is asked for; then, at the last number, gives a sign and waits to be killed."""

    read: Callable[[int], Iterable[pa.RecordBatch]]
    last: int
    sign: Path

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        yield from self.read(number)
        if number == self.last:
            parent = os.getppid()
            self.sign.touch()
            while os.getppid() == parent:
                time.sleep(_LOOK_S)
