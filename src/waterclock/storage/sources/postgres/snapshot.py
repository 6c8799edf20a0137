"""The contents of tables in a snapshot that the server exported, read over several connections.

Every connection sees the same: the server as it was at one place in its log. The pieces of tables
are read side by side (`pieces`): by tasks on executors, each with a connection of its own; or, if
all of it is small, over a few connections here, for then the tasks would take longer to begin than
to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from queue import SimpleQueue
from typing import Any

import psycopg
from psycopg import sql

from waterclock.storage.sources.api import ConnectionSettings, Executors, Messages
from waterclock.storage.sources.postgres.connecting import connect, telling
from waterclock.storage.sources.postgres.definition import UpstreamTable
from waterclock.storage.sources.postgres.pieces import (
    PAGE_BYTES,
    Piece,
    ReadPieces,
    copied,
    cut,
    is_refused,
    table_named,
)

_CONNECTIONS = 4
_LOCK_MS = 10_000
_RANGES_SINCE = 140000
"""Since this version the server reads a range of pages without reading all of them."""


class SnapshotReader:
    """Reads tables as of a snapshot. From the beginning on they stay as they are, but for rows.

    TRUNCATE and its like do not care for snapshots, so all connections lock all tables before there
    is one. Later, one of them could wait for somebody who waits for another.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        tables: Sequence[UpstreamTable],
        executors: Executors | None = None,
        large_bytes: int = 0,
    ) -> None:
        """Tables of so many bytes are read by the executors, if there are any.

        Raises `TransientFault`.
        """
        self._settings = settings
        self._executors = executors
        self._large_bytes = large_bytes
        self._bytes = 0
        self._snapshot = ""
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
        self._snapshot = snapshot
        command = sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot))
        for connection in self._connections:
            with telling(self._settings):
                connection.execute(command)
            self._idle.put(connection)

    def read(self, offset: int) -> Iterator[Messages]:
        """All rows of the tables, at that source time. Raises `TransientFault`."""
        if self._executors is not None and self._bytes >= self._large_bytes:
            yield from self._outside(self._executors, offset)
        else:
            yield from self._here(self._pieces, offset)

    def _outside(self, executors: Executors, offset: int) -> Iterator[Messages]:
        """What the tasks read, and then here what they could not."""
        pieces = tuple(self._pieces)
        refused: list[Piece] = []
        task = ReadPieces(self._settings, self._snapshot, pieces, offset)
        for number, batch in executors.read(task, len(pieces)):
            if is_refused(batch):
                refused.append(pieces[number])
            else:
                yield Messages(pieces[number].table.output, None, batch)
        yield from self._here(refused, offset)

    def _here(self, pieces: Sequence[Piece], offset: int) -> Iterator[Messages]:
        if not pieces:
            return
        pool = ThreadPoolExecutor(len(self._connections), thread_name_prefix="waterclock-snapshot")
        try:
            yield from _as_they_come(pool, partial(self._rows, offset), pieces)
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
                self._bytes += pages * PAGE_BYTES
                self.rows = None if self.rows is None or rows < 0 else self.rows + rows
        return found

    def _locking(self, tables: Sequence[UpstreamTable]) -> psycopg.Connection[Any]:
        connection = connect(self._settings)
        names = ", ".join(table_named(table) for table in tables)
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
                batches = list(copied(connection, piece, offset))
            return [Messages(piece.table.output, None, batch) for batch in batches]
        finally:
            self._idle.put(connection)


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
