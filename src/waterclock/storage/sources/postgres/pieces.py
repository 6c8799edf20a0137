"""Pieces of tables upstream, and their rows as messages: the same here and on executors.

A large table is cut into ranges of pages, which can be read side by side. Rows come as CSV, which
Arrow reads, with the same text for each value as the replication stream has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql
from pyarrow import csv

from waterclock.storage.sources.api import ConnectionSettings
from waterclock.storage.sources.postgres.connecting import connect, telling
from waterclock.storage.sources.postgres.decoding import rows_of, with_diff
from waterclock.storage.sources.postgres.definition import UpstreamTable, always_quoted

PAGE_BYTES = 8192
"""Page size of a PostgreSQL server with default build options."""
_PAGES = 2048
"""Pages of a table read per query: 16 MiB, about a second."""
_AT_ONCE_BYTES = 16 << 20
_LOCK_MS = 500
"""So long a task waits for a lock; nobody else waits for one for more than a moment."""
_REFUSED = {b"refused": b"a lock"}


@dataclass(frozen=True, slots=True)
class Piece:
    """A table, or the rows in a range of its pages; an end that is None is that of the table."""

    table: UpstreamTable
    first: int = 0
    end: int | None = None

    @property
    def query(self) -> str:
        """What COPY is to write."""
        table = self.table
        columns = ", ".join(always_quoted(column.name) for column in table.columns)
        conditions = [] if table.filter is None else [f"({table.filter})"]
        if self.first:
            conditions.append(f"ctid >= '({self.first},0)'::tid")
        if self.end is not None:
            conditions.append(f"ctid < '({self.end},0)'::tid")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {columns} FROM {table_named(table)}{where}"


def cut(table: UpstreamTable, pages: int) -> list[Piece]:
    """The table in pieces of so many pages; the last has all that is behind, too."""
    firsts = list(range(0, max(pages, 1), _PAGES))
    ends: list[int | None] = [*firsts[1:], None]
    return [Piece(table, first, end) for first, end in zip(firsts, ends, strict=True)]


def copied(
    connection: psycopg.Connection[Any], piece: Piece, offset: int
) -> Iterator[pa.RecordBatch]:
    """The rows of a piece as messages at that source time. Raises what psycopg does."""
    command = f"COPY ({piece.query}) TO STDOUT (FORMAT csv)"
    for lines in _copied(connection, command):
        texts = texts_of(lines, len(piece.table.columns))
        offsets = np.full(len(texts[0]), offset, np.int64)
        yield with_diff(rows_of(piece.table, texts, offsets), 1)


def _copied(connection: psycopg.Connection[Any], command: str) -> Iterator[bytes]:
    """Whole lines that COPY writes, many at once."""
    lines: list[bytes] = []
    size = 0
    with connection.cursor().copy(command) as copy:
        for line in copy:
            lines.append(bytes(line))
            size += len(line)
            if size >= _AT_ONCE_BYTES:
                yield b"".join(lines)
                lines, size = [], 0
    if lines:
        yield b"".join(lines)


def texts_of(lines: bytes, columns: int) -> list[pa.StringArray]:
    """The columns of lines of CSV; what is empty and not in quotes is null."""
    names = [str(i) for i in range(columns)]
    table = csv.read_csv(
        pa.BufferReader(lines),
        read_options=csv.ReadOptions(
            column_names=names, use_threads=False, block_size=max(len(lines), 1)
        ),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return [column.combine_chunks() for column in table.columns]


def table_named(table: UpstreamTable) -> str:
    """The table as FROM names it, without those that inherit from it."""
    return f"ONLY {always_quoted(table.schema)}.{always_quoted(table.name)}"


@dataclass(frozen=True)
class ReadPieces:
    """What a task on an executor does: read the piece of that number, as of the snapshot.

    The tables are locked by whoever exported the snapshot. Somebody may wait for that lock, and
    then a task would have to wait for him, and he for all tasks: it gives up, and gives nothing but
    a batch that says so (`is_refused`). Then the piece is to be read by one who has the lock.
    """

    settings: ConnectionSettings
    snapshot: str
    pieces: tuple[Piece, ...]
    offset: int

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        piece = self.pieces[number]
        with telling(self.settings), connect(self.settings) as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute(f"SET LOCAL lock_timeout = {_LOCK_MS}")
            named = sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(self.snapshot))
            connection.execute(named)
            try:
                connection.execute(f"LOCK TABLE {table_named(piece.table)} IN ACCESS SHARE MODE")
            except psycopg.errors.LockNotAvailable:
                yield pa.record_batch({}).replace_schema_metadata(_REFUSED)
                return
            yield from copied(connection, piece, self.offset)


def is_refused(batch: pa.RecordBatch) -> bool:
    """Whether a task could not read its piece, because somebody waits to change the table."""
    return bool(batch.schema.metadata == _REFUSED)
