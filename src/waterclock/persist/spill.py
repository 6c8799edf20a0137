"""Consolidation in bounded memory, through files where it does not fit.

What does not fit is split by hash into files, which are consolidated one by one.

Equal updates have equal hashes, so they meet in the same file. The files are temporary and
uncompressed; those of a process that was killed are left to the owner of their folder. Each
incoming batch is consolidated by itself first, so that a row repeated a million times does not make
one file large.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa

from waterclock.persist.consolidate import consolidate
from waterclock.persist.hashing import hash_rows
from waterclock.persist.rows import DIFF

IN_MEMORY_ROWS = 500_000
IN_MEMORY_BYTES = 256 * 1024 * 1024
"""About the most rows and bytes consolidated at once."""
MOST_FILES = 256


def consolidated(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    rows: int,
    size: int = 0,
    *,
    folder: Path | None = None,
) -> Iterator[pa.Table]:
    """The consolidation of all batches together, in tables that share no (row, time).

    `rows` and `size` estimate how many they are and how many bytes: that decides how many files are
    made, not what comes out. They are made in `folder`, else where the system has its temporary
    files, and are gone once the iterator ends or is closed.
    """
    with Spill(schema, rows, size, folder=folder) as spill:
        for batch in batches:
            spill.add(batch)
        yield from spill.tables()


class Spill:
    """Updates on their way to being consolidated together. Times below `since` advance to it."""

    def __init__(
        self,
        schema: pa.Schema,
        rows: int,
        size: int = 0,
        *,
        since: int | None = None,
        folder: Path | None = None,
    ) -> None:
        self._schema = schema
        self._since = since
        self._folder = folder
        wanted = max(1, -(-rows // IN_MEMORY_ROWS), -(-size // IN_MEMORY_BYTES))
        self._partitions = min(wanted, MOST_FILES)
        self._stack = ExitStack()
        self._held: list[pa.RecordBatch] = []
        self._files: list[Path] = []
        self._writers: list[pa.ipc.RecordBatchFileWriter] = []
        if self._partitions > 1:
            self._open_files()

    def _open_files(self) -> None:
        folder = self._stack.enter_context(
            tempfile.TemporaryDirectory(prefix="waterclock-spill-", dir=self._folder)
        )
        for number in range(self._partitions):
            path = Path(folder) / f"{number}.arrow"
            sink = self._stack.enter_context(pa.OSFile(str(path), "wb"))
            writer = self._stack.enter_context(pa.ipc.new_file(sink, self._schema))
            self._writers.append(writer)
            self._files.append(path)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take more updates in."""
        if not self._writers:
            self._held.append(batch)
            return
        small = consolidate(pa.Table.from_batches([batch], self._schema), since=self._since)
        for number, piece in _pieces(small, self._partitions):
            self._writers[number].write_table(piece)

    def tables(self) -> Iterator[pa.Table]:
        """The consolidated updates. To be called once, after the last `add`."""
        if not self._writers:
            table = consolidate(pa.Table.from_batches(self._held, self._schema), since=self._since)
            self._held.clear()
            if table.num_rows:
                yield table
            return
        for writer in self._writers:
            writer.close()
        for file in self._files:
            table = consolidate(_load(file))
            file.unlink()
            if table.num_rows:
                yield table

    def __enter__(self) -> Spill:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()


def _pieces(table: pa.Table, count: int) -> Iterator[tuple[int, pa.Table]]:
    """The table cut into one piece for each partition that occurs in it."""
    if table.num_rows == 0:
        return
    table = table.combine_chunks()
    identity = [
        column.chunk(0)
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name != DIFF
    ]
    owners = (hash_rows(identity, table.num_rows) % np.uint64(count)).astype(np.int64)
    order = np.argsort(owners, kind="stable")
    bounds = np.searchsorted(owners[order], np.arange(count + 1))
    table = table.take(pa.array(order))
    for number in range(count):
        low, high = int(bounds[number]), int(bounds[number + 1])
        if low < high:
            yield number, table.slice(low, high - low)


def _load(file: Path) -> pa.Table:
    with pa.OSFile(str(file), "rb") as source, pa.ipc.open_file(source) as reader:
        return reader.read_all()
