"""A whole server on a disk that is full, and one whose data was taken over; who may see its files.

The disk is a small file system in memory, which only root may mount.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.errors import DiskFull

from waterclock.persist.consensus.sqlite import SqliteConsensus
from waterclock.persist.records import Opened, encode_entry
from waterclock.testing.server_process import ServerProcess
from waterclock.testing.small_disk import SmallDisk, can_mount, small_disk

pytestmark = [pytest.mark.slow, pytest.mark.service, pytest.mark.timeout(900)]

PATIENCE_S = 120
TOTALS = "SELECT k, n::int FROM totals ORDER BY k"


def eventually(connection: psycopg.Connection[Any], query: str, expected: list[Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (found := connection.execute(query.encode()).fetchall()) != expected:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def refused(act: Callable[[], Any]) -> None:
    with pytest.raises(DiskFull) as caught:
        act()
    assert caught.value.diag.message_hint is not None
    assert "room" in caught.value.diag.message_hint


def right_or_refused(connection: psycopg.Connection[Any], query: str, expected: list[Any]) -> bool:
    try:
        return connection.execute(query.encode()).fetchall() == expected
    except DiskFull as error:
        return "room" in (error.diag.message_hint or "")


def open_to_others(data: Path) -> list[str]:
    return [
        f"{path} {stat.S_IMODE(path.lstat().st_mode):o}"
        for path in (data, *data.rglob("*"))
        if not path.is_symlink()
        and path.lstat().st_mode & 0o077
        # Spark lets everybody run what it copies there, in a folder that nobody else can enter.
        and not path.parent.name.startswith("userFiles-")
    ]


def test_a_disk_that_is_full_for_a_while(tmp_path: Path) -> None:
    if not can_mount(tmp_path):
        pytest.skip("a disk that is really full is one that is mounted, which only root may do")
    before = os.umask(0o022)
    with small_disk(tmp_path, 96) as disk:
        server = ServerProcess(disk.path / "data")
        server.log = tmp_path / "server.log"
        try:
            server.start()
            with server.connect() as connection, server.connect() as other:
                set_up(connection)
                assert open_to_others(server.data) == []
                for round_ in range(2):
                    fill_and_recover(disk, connection, other, round_)
            assert server.is_ready()
            take_over(server)
        finally:
            server.kill()
            os.umask(before)


def set_up(connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE TABLE t (k int, v text)")
    connection.execute(
        "CREATE MATERIALIZED VIEW totals AS SELECT k, count(*) AS n FROM t GROUP BY k"
    )
    connection.execute("CREATE TABLE few (a int)")
    connection.execute("INSERT INTO few VALUES (1), (2)")
    connection.execute("CREATE SOURCE c FROM LOAD GENERATOR COUNTER (TICK INTERVAL '100ms')")
    for _ in range(70):  # the write-ahead log has its full size after that
        connection.execute("INSERT INTO t VALUES (0, 'x')")
    eventually(connection, TOTALS, [(0, 70)])


def fill_and_recover(
    disk: SmallDisk,
    connection: psycopg.Connection[Any],
    other: psycopg.Connection[Any],
    round_: int,
) -> None:
    rows = 70 + round_
    disk.fill()
    inserted = Inserted(connection)
    refused(inserted.insert_without_end)
    for _ in range(3):
        inserted.try_insert()  # the log may have made a little room for itself
        assert other.execute("SELECT a FROM few ORDER BY a").fetchall() == [(1,), (2,)]
        # These may be behind what was acknowledged last, and can not move on.
        assert right_or_refused(other, "SELECT n::int FROM totals WHERE k = 0", [(rows,)])
        assert right_or_refused(other, "SELECT max(counter) > 0 FROM c", [(True,)])
    disk.make_room()
    [(found,)] = other.execute("SELECT count(*)::int FROM t WHERE k = 1").fetchall()
    assert found == inserted.acknowledged, "what was refused has not happened"
    connection.execute("INSERT INTO t VALUES (0, 'x')")
    connection.execute("DELETE FROM t WHERE k = 1")
    eventually(other, TOTALS, [(0, rows + 1)])
    [(before,)] = other.execute("SELECT max(counter)::int FROM c").fetchall()
    eventually(other, f"SELECT max(counter) > {before} FROM c", [(True,)])


class Inserted:
    """Rows that are written until there is no room for them."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self.acknowledged = 0

    def insert(self) -> None:
        self._connection.execute("INSERT INTO t VALUES (1, repeat('y', 9000))")
        self.acknowledged += 1

    def try_insert(self) -> None:
        with suppress(DiskFull):
            self.insert()

    def insert_without_end(self) -> None:
        while True:
            self.insert()


def take_over(server: ServerProcess) -> None:
    """Another server owns the data from now on: this one can not go on, and does not try to."""
    with closing(SqliteConsensus(server.data / "log.db", busy_timeout_ms=60_000)) as log:
        log.append(log.end(), encode_entry([Opened(1_000, "another server")]))
        deadline = time.monotonic() + PATIENCE_S
        while server.exit_code is None:
            assert time.monotonic() < deadline, server.output
            time.sleep(0.1)
    assert server.exit_code == 1
    assert "ERROR: the data can not be written any more: another server has taken over" in (
        server.output
    )
