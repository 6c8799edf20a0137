"""The contents of tables in a snapshot that the server exported, read over several connections.

Every connection sees the same: the server as it was at one place in its log. A large table is cut
into ranges of pages, which are read side by side. Rows come as CSV, which Arrow reads, with the
same text for each value as the replication stream has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql
from pyarrow import csv

from waterclock.storage.sources.api import ConnectionSettings, Messages
from waterclock.storage.sources.postgres.connecting import connect, telling
from waterclock.storage.sources.postgres.decoding import rows_of, with_diff
from waterclock.storage.sources.postgres.definition import UpstreamTable, always_quoted

_CONNECTIONS = 4
_PAGES = 8192
"""So many pages of a table are read at once: 64 MiB."""
_AT_ONCE_BYTES = 16 << 20
_LOCK_MS = 10_000
_RANGES_SINCE = 140000
"""Since this version the server reads a range of pages without reading all of them."""


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
        return f"SELECT {columns} FROM {_from(table)}{where}"


class SnapshotReader:
    """Reads tables as of a snapshot. From the beginning on they stay as they are, but for rows.

    TRUNCATE and its like do not care for snapshots, so all connections lock all tables before there
    is one. Later, one of them could wait for somebody who waits for another.
    """

    def __init__(self, settings: ConnectionSettings, tables: Sequence[UpstreamTable]) -> None:
        """Raises `TransientFault`."""
        self._settings = settings
        self._connections: list[psycopg.Connection[Any]] = []
        self._idle: SimpleQueue[psycopg.Connection[Any]] = SimpleQueue()
        self.rows: int | None = 0
        """How many rows the server thinks there are; None if it has not counted all tables."""
        try:
            self._pieces = self._cut(tables)
            for _ in range(min(len(self._pieces), _CONNECTIONS)):
                self._connections.append(self._locking(tables))
        except BaseException:
            self.close()
            raise

    def look_through(self, snapshot: str) -> None:
        """See the snapshot of that name from now on."""
        command = sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot))
        for connection in self._connections:
            with telling(self._settings):
                connection.execute(command)
            self._idle.put(connection)

    def read(self, offset: int) -> Iterator[Messages]:
        """All rows of the tables, at that source time. Raises `TransientFault`."""
        if not self._pieces:
            return
        pool = ThreadPoolExecutor(len(self._connections), thread_name_prefix="waterclock-snapshot")
        try:
            yield from _as_they_come(pool, partial(self._rows, offset), self._pieces)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def _cut(self, tables: Sequence[UpstreamTable]) -> list[Piece]:
        with telling(self._settings), connect(self._settings) as connection:
            whole = connection.info.server_version < _RANGES_SINCE
            found: list[Piece] = []
            for table in tables:
                [(pages, rows)] = connection.execute(_SIZE_OF, [table.oid]).fetchall() or [(0, 0)]
                found += cut(table, 0 if whole else pages)
                self.rows = None if self.rows is None or rows < 0 else self.rows + rows
        return found

    def _locking(self, tables: Sequence[UpstreamTable]) -> psycopg.Connection[Any]:
        connection = connect(self._settings)
        names = ", ".join(_from(table) for table in tables)
        try:
            with telling(self._settings):
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                connection.execute(f"SET LOCAL lock_timeout = {_LOCK_MS}")
                connection.execute(f"LOCK TABLE {names} IN ACCESS SHARE MODE")
        except BaseException:
            connection.close()
            raise
        return connection

    def _rows(self, offset: int, piece: Piece) -> list[Messages]:
        """The rows of one piece."""
        connection = self._idle.get()
        try:
            with telling(self._settings):
                blocks = _copied(connection, f"COPY ({piece.query}) TO STDOUT (FORMAT csv)")
                return [_decoded(piece.table, block, offset) for block in blocks]
        finally:
            self._idle.put(connection)


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


def _decoded(table: UpstreamTable, lines: bytes, offset: int) -> Messages:
    texts = texts_of(lines, len(table.columns))
    offsets = np.full(len(texts[0]), offset, np.int64)
    return Messages(table.output, None, with_diff(rows_of(table, texts, offsets), 1))


def _from(table: UpstreamTable) -> str:
    """The table as FROM names it, without those that inherit from it."""
    return f"ONLY {always_quoted(table.schema)}.{always_quoted(table.name)}"


def cut(table: UpstreamTable, pages: int) -> list[Piece]:
    """The table in pieces of so many pages; the last has all that is behind, too."""
    firsts = list(range(0, max(pages, 1), _PAGES))
    ends: list[int | None] = [*firsts[1:], None]
    return [Piece(table, first, end) for first, end in zip(firsts, ends, strict=True)]


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


def _as_they_come(
    pool: ThreadPoolExecutor, read: Callable[[Piece], list[Messages]], pieces: Sequence[Piece]
) -> Iterator[Messages]:
    """What is read of all pieces, in any order, with little that waits to be taken."""
    ahead = iter(pieces)
    running: set[Future[list[Messages]]] = set()
    while True:
        for piece in ahead:
            running.add(pool.submit(read, piece))
            if len(running) > _CONNECTIONS:
                break
        if not running:
            return
        done, running = wait(running, return_when=FIRST_COMPLETED)
        for each in done:
            yield from each.result()


_SIZE_OF = """
SELECT pg_relation_size(oid) / current_setting('block_size')::bigint, reltuples::bigint
FROM pg_class WHERE oid = %s
"""
