"""Results on their way out: in the types that were promised, in pieces that can be sent.

A client reads as slowly as it likes, so a result that is large waits in a file and not in memory:
see `Spool`. What one result may be in all is bounded.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from waterclock.adapter.api import AtHand, Batches
from waterclock.compute.collecting import RESULT_BYTES
from waterclock.compute.faults import RESULT_TOO_LARGE
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import PgType, column_type
from waterclock.persist.rows import arrow_type

_BATCH_ROWS = 8192
_PIECE_BYTES = 1 << 20
"""Bytes sent at a time, unless a single row is larger."""
MEMORY_BYTES = 16 << 20
"""Bytes of a result held in memory before it spills to a file."""


class ResultTooLarge(WaterclockError):
    """A result is larger than the server lets any be."""

    sqlstate: ClassVar[str] = "54000"


class Spool:
    """Keeps large results on disk until they have been sent. Thread-safe.

    A file is unlinked as soon as it is mapped: it is gone when nobody needs the rows any more.
    """

    def __init__(self, folder: Path, most_bytes: int = RESULT_BYTES) -> None:
        self._folder = folder
        self._most_bytes = most_bytes

    async def held(self, table: pa.Table) -> pa.Table:
        """The same rows, on disk if they are many. Raises `ResultTooLarge`."""
        if table.nbytes <= min(MEMORY_BYTES, self._most_bytes):
            return table
        return await asyncio.to_thread(self.hold, table)

    def hold(self, table: pa.Table) -> pa.Table:
        """The same as `held`, in the caller's thread."""
        size = table.nbytes
        if size > self._most_bytes:
            raise ResultTooLarge(
                RESULT_TOO_LARGE.message,
                detail=f"It has {size} bytes; the limit is {self._most_bytes}.",
                hint=RESULT_TOO_LARGE.hint,
            )
        if size <= MEMORY_BYTES:
            return table
        self._folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._folder)
        os.close(handle)
        try:
            with pa.OSFile(name, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
            with pa.memory_map(name) as source, pa.ipc.open_file(source) as reader:
                return reader.read_all()
        finally:
            os.unlink(name)


def shaped(table: pa.Table, types: Sequence[PgType]) -> pa.Table:
    """The table in the Arrow types in which values of the declared types are held.

    Of a query without columns only the number of its rows is left.
    """
    if not types:
        return table.select([])
    columns = []
    for column, declared in zip(table.columns, types, strict=True):
        held = arrow_type(column_type(declared))
        columns.append(column if column.type == held else column.cast(held))
    names = [f"c{place}" for place in range(len(columns))]
    return pa.Table.from_arrays(columns, names=names)


def in_batches(table: pa.Table) -> Batches:
    """The rows of a table, in pieces that are not too large to send.

    What is one piece is at hand; sending more takes a while, in which it can be stopped.
    """
    if table.num_rows <= _BATCH_ROWS and table.nbytes <= _PIECE_BYTES:
        return AtHand(table.combine_chunks().to_batches())
    return _in_pieces(table)


async def _in_pieces(table: pa.Table) -> Batches:
    for batch in pieces(table):
        yield batch


def pieces(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows in batches of limited size. Nothing of the table is copied."""
    for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
        yield from _small(batch)


def _small(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows <= 1 or batch.nbytes <= _PIECE_BYTES:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _small(batch.slice(0, half))
    yield from _small(batch.slice(half))


async def closed(batches: Batches) -> None:
    """End what feeds the batches, if something does."""
    close = getattr(batches, "aclose", None)
    if close is not None:
        await close()
