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

What SQLite does not tell is that entries are missing at the end: a write-ahead log whose checksums
stop fitting in the middle just ends there, and a broken page may hold fewer rows than it did. So
opening compares the log with its witness (`witness.py`), and has SQLite look through the pages.
That there is a witness is noted in the database itself, so that it can not be lost unnoticed; a log
of an older version gets one when it is opened.

An append that fails has not happened: SQLite has rolled it back, and the next one writes over what
may have reached the file. Only if the process dies before that may opening find the entry after
all.

Does not work on network file systems, where the locks of SQLite do not.
"""

from __future__ import annotations

import contextlib
import os
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
from waterclock.persist.consensus.witness import Witness
from waterclock.persist.errors import (
    FREE_SPACE,
    MAKE_WRITABLE,
    Damaged,
    DiskFull,
    NotWritten,
    ReadOnlyDisk,
    Unavailable,
)

_CREATE = "CREATE TABLE IF NOT EXISTS log (position INTEGER PRIMARY KEY, entry BLOB NOT NULL)"
# At any other position the entry turns to NULL, which the table refuses. To insert from a SELECT
# that may be empty reads better, but is slower by enough to measure.
_APPEND = """
INSERT INTO log (position, entry)
VALUES (?1, iif(?1 = ifnull((SELECT max(position) FROM log), 0) + 1, ?2, NULL))
"""
_READ = "SELECT position, entry FROM log WHERE position >= ? ORDER BY position"
_LAST = "SELECT ifnull(max(position), 0) FROM log"
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

_WITNESSED = 1
"""The user version of a database whose log has a witness."""
# That a statement of ours makes no sense to SQLite (ERROR) says that the schema is not ours.
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
_RESTORE = "Restore the data from a backup."
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
        self._is_closed = False
        with self._translated("open"):
            witness = Witness.open(path)
        try:
            if witness is not None and witness.position and not _has_content(path):
                raise Damaged(f'log "{path}" is missing', hint=_RESTORE)
            with self._translated("open"):
                _make_private(path)
                self._connection = sqlite3.connect(
                    path,
                    timeout=busy_timeout_ms / 1000,
                    isolation_level=None,
                    check_same_thread=False,
                )
        except BaseException:
            if witness is not None:
                witness.close()
            raise
        # An entry that damage has made text of is to be found, and not to fail as it is decoded.
        self._connection.text_factory = lambda data: data.decode(errors="replace")
        try:
            with self._translated("open"):
                self._set_up(time.monotonic() + busy_timeout_ms / 1000)
                self._witness = witness = self._compared(witness)
        except BaseException:
            self._connection.close()
            if witness is not None:
                witness.close()
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
                # The entry is durable, whatever becomes of the witness: that is then behind.
                with contextlib.suppress(OSError):
                    self._witness.advance(position)
        except sqlite3.IntegrityError:
            refuse(position, self.end())
        except sqlite3.Error as error:
            self._raise_for(error, "append to")

    def read(self, start: int) -> Iterator[tuple[int, bytes]]:
        return read_pages(start, self._page)

    def end(self) -> int:
        with self._lock, self._translated("read"):
            (last,) = self._connection.execute(_LAST).fetchone()
        assert isinstance(last, int)
        return last + 1

    def truncate(self, before: int) -> None:
        # The end only grows, so what is checked here still holds when the entries go.
        check_truncation(before, self.end())
        with self._lock, self._translated("truncate"):
            self._connection.execute(_TRUNCATE, (before,))

    def close(self) -> None:
        with self._lock, self._translated("close"):
            if self._is_closed:
                return
            self._is_closed = True
            self._connection.close()
            with contextlib.suppress(OSError):
                self._witness.sync()
            self._witness.close()

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

    def _compared(self, witness: Witness | None) -> Witness:
        """The witness, or a first one for a log that never had any. Raises `Damaged`."""
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        for (found,) in self._connection.execute("PRAGMA quick_check(1)"):
            if found != "ok":
                raise Damaged(f'log "{self._path}" is damaged', detail=found, hint=_RESTORE)
        witness = witness or Witness.open(self._path)  # another process may just have made it
        if witness is None and version:
            path = Witness.path_of(self._path)
            raise Damaged(
                f'file "{path}" is missing',
                detail="It says how far the log was acknowledged.",
                hint=_RESTORE,
            )
        (last,) = self._connection.execute(_LAST).fetchone()
        if witness is None:
            witness = Witness.create(self._path, last)
        elif last < witness.position:
            raise incomplete(self._path, last, witness.position)
        if not version:
            self._connection.execute(f"PRAGMA user_version = {_WITNESSED}")
        return witness

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
                if not isinstance(entry, bytes):
                    raise Damaged(
                        f'log "{self._path}" is damaged: entry {position} is no entry',
                        hint=_RESTORE,
                    )
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
        except OSError as error:
            reason = error.strerror or str(error)
            raise Unavailable(f'could not {action} log "{self._path}": {reason}') from error

    def _raise_for(self, error: sqlite3.Error, action: str) -> NoReturn:
        """Tell `error` in our terms, except misuse of the connection, which is our mistake."""
        code = getattr(error, "sqlite_errorcode", -1) & 0xFF
        message = f'could not {action} log "{self._path}": {error}'
        if code in _DAMAGE:
            raise Damaged(f'log "{self._path}" is damaged: {error}', hint=_RESTORE) from error
        if code == sqlite3.SQLITE_FULL:
            raise DiskFull(message, hint=FREE_SPACE) from error
        if code == sqlite3.SQLITE_READONLY:
            raise ReadOnlyDisk(message, hint=MAKE_WRITABLE) from error
        if isinstance(error, sqlite3.OperationalError):
            raise NotWritten(message) from error
        raise error


def incomplete(path: Path, last: int, acknowledged: int) -> Damaged:
    """The log has lost entries that were acknowledged."""
    return Damaged(
        f'log "{path}" is damaged: acknowledged entries are missing at its end',
        detail=f"It ends with entry {last}, and entry {acknowledged} was acknowledged.",
        hint=_RESTORE,
    )


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _make_private(path: Path) -> None:
    """Make the file, if it is missing, for its owner only; SQLite gives its other files the same
    mode.
    """
    with contextlib.suppress(FileNotFoundError):
        path.chmod(0o600)
        return
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
