"""Many pieces of objects at once: side by side in threads here, or by tasks on executors.

Small objects take long to ask for and little time to decode, so here they are asked for together. A
task on an executor reads pieces of some megabytes in all, whether of one object or of many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa

from waterclock.runtime import Runtime
from waterclock.storage.sources.api import Executors
from waterclock.storage.sources.s3.bucket import Bucket, ObjectLost
from waterclock.storage.sources.s3.objects import PIECE, ObjectReader, Piece

_THREADS = 16
_PLACE = b"piece"
T = TypeVar("T")
R = TypeVar("R")


class SideBySide:
    """Threads that are there when they are needed."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._pool: Executor | None = None

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """The work's results in the order of the items."""
        if len(items) < 2:
            return iter([work(item) for item in items])
        if self._pool is None:
            self._pool = self._runtime.pool(_THREADS, "waterclock-s3")
        return self._pool.map(work, items)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True)


@dataclass(frozen=True)
class _ReadPieces:
    """What a task on an executor does: read the pieces of that number.

    The metadata of a batch say of which piece of the task it is.
    """

    reader: ObjectReader
    tasks: tuple[tuple[Piece, ...], ...]

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        for place, piece in enumerate(self.tasks[number]):
            for batch in self.reader.read(piece):
                yield batch.replace_schema_metadata({_PLACE: str(place).encode()})


def read_here(
    reader: ObjectReader, pieces: Sequence[Piece], threads: SideBySide
) -> Iterator[tuple[Piece, pa.RecordBatch]]:
    """The messages of pieces, in their order. Raises `TransientFault`."""
    found = threads.each(lambda piece: list(reader.read(piece)), pieces)
    for piece, batches in zip(pieces, found, strict=True):
        for batch in batches:
            yield piece, batch


def read_outside(
    executors: Executors, reader: ObjectReader, pieces: Sequence[Piece]
) -> Iterator[tuple[Piece, pa.RecordBatch]]:
    """The same by executors, which are given keys that last for now."""
    tasks = _tasks_of([part for piece in pieces for part in _cut(reader, piece)])
    bucket = Bucket(reader.bucket.access.with_keys_of_now(), reader.bucket.name)
    task = _ReadPieces(replace(reader, bucket=bucket), tasks)
    for number, batch in executors.read(task, len(tasks)):
        place = int(batch.schema.metadata[_PLACE])
        yield tasks[number][place], batch.replace_schema_metadata(None)


def _cut(reader: ObjectReader, piece: Piece) -> tuple[Piece, ...]:
    try:
        return reader.cut(piece)
    except (ObjectLost, pa.ArrowInvalid):  # whoever reads it tells what is wrong
        return (piece,)


def _tasks_of(pieces: Sequence[Piece]) -> tuple[tuple[Piece, ...], ...]:
    """Pieces in groups that are about as large as one piece may be."""
    found: list[list[Piece]] = []
    left = 0
    for piece in pieces:
        if left <= 0:
            found.append([])
            left = PIECE
        found[-1].append(piece)
        left -= len(piece)
    return tuple(map(tuple, found))
