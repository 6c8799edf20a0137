"""Logs in a PostgreSQL database, for servers that do not share a disk.

The entries of a log are rows, and one more row, its head, holds the next free position. An append
moves the head and inserts the entry in one statement. Two appends at a time wait for each other on
the row of the head, and the second looks again after the first has committed; so the head is the
comparison, and it is right for truncated positions too. (The greatest position in the table would
not be: a statement whose snapshot is old could insert at a position that was taken and truncated
since.)

One connection, in autocommit. When it breaks, the call that notices raises `Unavailable` and the
next one connects again. A statement sent before the break may still take effect later, as the
contract allows.

It does not remove logs, and it trusts the database with durability, except that it does not accept
commits that return before they are on disk.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from waterclock.persist.consensus.positions import (
    check_position,
    check_truncation,
    read_pages,
    refuse,
)
from waterclock.persist.errors import Unavailable

# Any number will do as long as it stays the same: whoever makes the tables holds this lock, since
# `IF NOT EXISTS` alone is not safe against another session doing the same.
_CREATION_LOCK = 0x57617465

_EXISTS = "SELECT to_regclass('waterclock_log') IS NOT NULL"
_CREATE = """
CREATE TABLE IF NOT EXISTS waterclock_log_head (
    name text PRIMARY KEY,
    next bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS waterclock_log (
    name text NOT NULL,
    position bigint NOT NULL,
    entry bytea NOT NULL,
    PRIMARY KEY (name, position)
);
"""
_HEAD = "INSERT INTO waterclock_log_head VALUES (%s, 1) ON CONFLICT DO NOTHING"
_WAIT_FOR_DISK = """
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off'
"""
_APPEND = """
WITH moved AS (
    UPDATE waterclock_log_head SET next = next + 1
    WHERE name = %(name)s AND next = %(position)s
    RETURNING name
)
INSERT INTO waterclock_log SELECT name, %(position)s, %(entry)b FROM moved
"""
# The size of an entry is known without fetching it, so a page is cut before its entries are read.
_READ = """
SELECT position, entry FROM (
    SELECT position, entry,
           sum(octet_length(entry)) OVER (ORDER BY position) - octet_length(entry) AS size_before
    FROM (
        SELECT position, entry FROM waterclock_log
        WHERE name = %(name)s AND position >= %(start)s
        ORDER BY position LIMIT %(page_entries)s
    ) AS candidates
) AS sized
WHERE size_before < %(page_bytes)s
ORDER BY position
"""
_END = "SELECT next FROM waterclock_log_head WHERE name = %(name)s"
_TRUNCATE = "DELETE FROM waterclock_log WHERE name = %(name)s AND position < %(before)s"

_PAGE_ENTRIES = 1_000

# A peer that vanished without a word is noticed within about half a minute.
_CONNECTION_DEFAULTS: dict[str, str | int] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "fallback_application_name": "waterclock",
}


class PostgresConsensus:
    """The `Consensus` called `name` in the database that `conninfo` (a libpq string or url) names.

    The tables, in the first schema of the search path, are made on first use, and so is the log.
    Nothing is connected before the first call. Safe for use by many threads, which take turns.
    """

    def __init__(self, conninfo: str, name: str, *, page_bytes: int = 4 << 20) -> None:
        given = conninfo_to_dict(conninfo)
        missing = {key: val for key, val in _CONNECTION_DEFAULTS.items() if key not in given}
        self._conninfo = make_conninfo(conninfo, **missing)
        self._name = name
        self._page_bytes = page_bytes
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def append(self, position: int, entry: bytes) -> None:
        check_position(position)
        with self._cursor("append to") as cursor:
            appended = self._run(cursor, _APPEND, position=position, entry=entry).rowcount
        if not appended:
            refuse(position, self.end())

    def read(self, start: int) -> Iterator[tuple[int, bytes]]:
        return read_pages(start, self._page)

    def end(self) -> int:
        with self._cursor("read") as cursor:
            row = self._run(cursor, _END).fetchone()
        assert row is not None, "the head of the log is gone"
        end = row[0]
        assert isinstance(end, int)
        return end

    def truncate(self, before: int) -> None:
        # The end only grows, so what is checked here still holds when the entries go.
        check_truncation(before, self.end())
        with self._cursor("truncate") as cursor:
            self._run(cursor, _TRUNCATE, before=before)

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    def _page(self, start: int) -> tuple[tuple[Any, ...], ...]:
        with self._cursor("read") as cursor:
            rows = self._run(
                cursor,
                _READ,
                start=start,
                page_entries=_PAGE_ENTRIES,
                page_bytes=self._page_bytes,
            )
            return tuple(rows.fetchall())

    def _run(
        self,
        cursor: psycopg.Cursor[tuple[Any, ...]],
        statement: LiteralString,
        **parameters: object,
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        return cursor.execute(statement, {"name": self._name, **parameters})

    @contextlib.contextmanager
    def _cursor(self, action: str) -> Iterator[psycopg.Cursor[tuple[Any, ...]]]:
        """The connection, for one statement of one thread; its errors become `Unavailable`."""
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                with self._connection.cursor(binary=True) as cursor:
                    yield cursor
            except psycopg.Error as error:
                # Also when the connection seems to be well: a new one is cheap next to a doubt.
                self._disconnect()
                reason = error.diag.message_primary or str(error).strip()
                raise Unavailable(f'could not {action} log "{self._name}": {reason}') from error
            except BaseException:
                # An interrupted statement leaves the connection in no state to go on with.
                self._disconnect()
                raise

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        connection = psycopg.connect(self._conninfo, autocommit=True)
        try:
            connection.execute(_WAIT_FOR_DISK)
            if connection.execute(_EXISTS).fetchone() != (True,):
                with connection.transaction():
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATION_LOCK,))
                    connection.execute(_CREATE)
            connection.execute(_HEAD, (self._name,))
        except BaseException:
            connection.close()
            raise
        return connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()
