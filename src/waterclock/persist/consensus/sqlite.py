"""The log in one SQLite file.

An append is one statement outside of any transaction, so SQLite commits it by itself: one write to
the write-ahead log and one sync. The statement inserts only if the position follows the greatest
one in the table. SQLite admits one writer at a time, over all processes, and the statement looks
after it has been admitted, so compare and append are one step. Truncation keeps the newest entry;
therefore the greatest position in the table is the greatest there ever was, and truncated positions
stay taken.

A sync of a file that has grown also has to make durable how large the file is now, and where: that
takes two or three times as long as a sync of bytes written over others. So once the log is in use,
the write-ahead log is made as large as it gets, and is only written over after that.

Does not work on network file systems, where the locks of SQLite do not.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from waterclock.persist.consensus.positions import (
    check_position,
    check_truncation,
    read_pages,
    refuse,
)
from waterclock.persist.errors import Damaged, Unavailable

_CREATE = "CREATE TABLE IF NOT EXISTS log (position INTEGER PRIMARY KEY, entry BLOB NOT NULL)"
# At any other position the entry turns to NULL, which the table refuses. To insert from a SELECT
# that may be empty reads better, but is slower by enough to measure.
_APPEND = """
INSERT INTO log (position, entry)
VALUES (?1, iif(?1 = ifnull((SELECT max(position) FROM log), 0) + 1, ?2, NULL))
"""
_READ = "SELECT position, entry FROM log WHERE position >= ? ORDER BY position"
_END = "SELECT ifnull(max(position), 0) + 1 FROM log"
_TRUNCATE = "DELETE FROM log WHERE position < ?"

_PAGE = 8192
_WAL_PAGES = 1000
_PRAGMAS = (
    # The usual entry, some kilobytes, then takes one page and no overflow.
    f"PRAGMA page_size = {_PAGE}",
    "PRAGMA journal_mode = WAL",
    # In this mode only FULL syncs at each commit.
    "PRAGMA synchronous = FULL",
    # On macOS an ordinary sync stops at the cache of the drive; elsewhere this means nothing.
    "PRAGMA fullfsync = ON",
    # Checkpoint at 8 MB: often enough to be short.
    f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}",
    # A reader may have held the checkpoint up; give the space back when it is over.
    "PRAGMA journal_size_limit = 67108864",
)

_GROW_AFTER = 64
"""Appends before it is worth while to grow the write-ahead log, which takes some ten milliseconds.
"""
# What is larger than the cache is written to the write-ahead log before it is committed. This never
# is, so it leaves nothing but the space.
_GROW = (
    "PRAGMA cache_size = 16",
    "BEGIN IMMEDIATE",
    f"INSERT INTO log VALUES (0, zeroblob({_PAGE * (_WAL_PAGES + 32)}))",
    "ROLLBACK",
)

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class SqliteConsensus:
    """A `Consensus` in the file `path`, made if it is missing; its folder must exist.

    Safe for use by many threads, which take turns, and on one file by many processes. A writer that
    waits for another longer than `busy_timeout_ms` gives up (`Unavailable`, nothing changed).
    Raises `Damaged` if the file is not a database or its pages are broken.
    """

    def __init__(
        self, path: Path, *, busy_timeout_ms: int = 5_000, page_bytes: int = 4 << 20
    ) -> None:
        self._path = path
        self._page_bytes = page_bytes
        self._lock = threading.Lock()
        self._appends = 0
        with self._translated("open"):
            self._connection = sqlite3.connect(
                path,
                timeout=busy_timeout_ms / 1000,
                isolation_level=None,
                check_same_thread=False,
            )
        try:
            with self._translated("open"):
                self._set_up(time.monotonic() + busy_timeout_ms / 1000)
        except BaseException:
            self._connection.close()
            raise

    def append(self, position: int, entry: bytes) -> None:
        check_position(position)
        # Without the context manager of the other methods, whose cost one can see next to a commit.
        try:
            with self._lock:
                self._appends += 1
                if self._appends == _GROW_AFTER:
                    self._grow()
                self._connection.execute(_APPEND, (position, entry))
        except sqlite3.IntegrityError:
            refuse(position, self.end())
        except sqlite3.Error as error:
            self._raise_for(error, "append to")

    def read(self, start: int) -> Iterator[tuple[int, bytes]]:
        return read_pages(start, self._page)

    def end(self) -> int:
        with self._lock, self._translated("read"):
            (end,) = self._connection.execute(_END).fetchone()
        assert isinstance(end, int)
        return end

    def truncate(self, before: int) -> None:
        # The end only grows, so what is checked here still holds when the entries go.
        check_truncation(before, self.end())
        with self._lock, self._translated("truncate"):
            self._connection.execute(_TRUNCATE, (before,))

    def close(self) -> None:
        with self._lock, self._translated("close"):
            self._connection.close()

    def _set_up(self, deadline: float) -> None:
        # SQLite does not always wait its turn for the change to a write-ahead log, so we do.
        while True:
            try:
                for pragma in _PRAGMAS:
                    self._connection.execute(pragma)
                self._connection.execute(_CREATE)
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in _BUSY or time.monotonic() >= deadline:
                    raise
                time.sleep(0.005)

    def _grow(self) -> None:
        """Make the write-ahead log as large as it gets, if nobody has done so."""
        wal = self._path.with_name(f"{self._path.name}-wal")
        if wal.exists() and wal.stat().st_size >= _PAGE * _WAL_PAGES:
            return
        try:
            for statement in _GROW:
                self._connection.execute(statement)
        except sqlite3.OperationalError:  # no space, or somebody else writes: then it grows in use
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        finally:
            self._connection.execute("PRAGMA cache_size = -2000")

    def _page(self, start: int) -> tuple[tuple[int, bytes], ...]:
        """Entries from `start` on, until they are `page_bytes` together, but at least one."""
        page = []
        size = 0
        with (
            self._lock,
            self._translated("read"),
            contextlib.closing(self._connection.execute(_READ, (start,))) as rows,
        ):
            for position, entry in rows:
                page.append((position, entry))
                size += len(entry)
                if size >= self._page_bytes:
                    break
        return tuple(page)

    @contextlib.contextmanager
    def _translated(self, action: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            self._raise_for(error, action)

    def _raise_for(self, error: sqlite3.Error, action: str) -> NoReturn:
        """Tell `error` in our terms, except misuse of the connection, which is our mistake."""
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None and code & 0xFF in _DAMAGE:
            raise Damaged(
                f'log "{self._path}" is damaged: {error}', hint="Restore the file from a backup."
            ) from error
        if isinstance(error, sqlite3.OperationalError):
            raise Unavailable(f'could not {action} log "{self._path}": {error}') from error
        raise error
