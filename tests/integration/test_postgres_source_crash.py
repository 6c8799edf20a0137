"""A PostgreSQL source that is killed again and again while others write upstream."""

from __future__ import annotations

import random
import signal
import threading
import time
import uuid
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import psycopg
import pytest

from waterclock.storage.api import Progress, Updates
from waterclock.testing.crash.lives import Life
from waterclock.testing.crash.postgres_source import PostgresSourceServer
from waterclock.testing.postgres_source import drop_slots
from waterclock.testing.services import PostgresServer

pytestmark = [pytest.mark.service, pytest.mark.slow]

KILLS = 2
ACCOUNTS = 400
SETUP = f"""
CREATE TABLE a (id int PRIMARY KEY, money bigint);
ALTER TABLE a REPLICA IDENTITY FULL;
CREATE TABLE b (id int PRIMARY KEY, money bigint);
ALTER TABLE b REPLICA IDENTITY FULL;
INSERT INTO a SELECT i, 100 FROM generate_series(1, {ACCOUNTS}) i;
INSERT INTO b SELECT i, 100 FROM generate_series(1, {ACCOUNTS}) i;
CREATE PUBLICATION p FOR TABLE a, b
"""


class Writer:
    """Moves money between the tables, a lot of it in one transaction, from a thread."""

    def __init__(self, conninfo: str) -> None:
        self._connection = psycopg.connect(conninfo, autocommit=True)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._moved = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._connection.close()

    def await_more(self) -> None:
        """Wait until money was moved that had not been moved before."""
        known = self._moved
        while self._moved <= known + 1:  # one may be under way
            assert self._thread.is_alive()
            time.sleep(0.001)

    def _run(self) -> None:
        pick = random.Random(5)
        while not self._stop.wait(0.004):
            one, other = ("a", "b") if self._moved % 2 else ("b", "a")
            first = pick.randrange(1, ACCOUNTS - 20)
            ids = f"WHERE id BETWEEN {first} AND {first + 19}"
            with self._connection.transaction():
                self._connection.execute(f"UPDATE {one} SET money = money - 1 {ids}".encode())
                self._connection.execute(f"UPDATE {other} SET money = money + 1 {ids}".encode())
            self._moved += 1


def run(
    folder: Path,
    conninfo: str,
    *said: str,
    lives_s: float,
    until: int | None = None,
    how: tuple[str, ...] = (),
) -> None:
    """A server's life: until it has said all this and then so long, or up to a place in the log."""
    end = () if until is None else (str(until),)
    life = Life("postgres_source", str(folder), conninfo, *how, *end)
    try:
        for word in said:
            assert life.stdout.readline().decode() == f"{word}\n"
        if until is not None:
            assert life.wait(600) == 0
            return
        assert life.wait(lives_s) is None, "it lives until it is killed"
    finally:
        life.kill()


def updates(server: PostgresSourceServer, table: str) -> Counter[tuple[tuple[Any, ...], int]]:
    """Everything that is known of a table: the diff of each row at each time."""
    collection = server.description.outputs[f"public.{table}"]
    found: Counter[tuple[tuple[Any, ...], int]] = Counter()
    subscription = server.storage.subscribe_at(server.holds.capability(collection))
    for message in subscription:
        match message:
            case Updates(batch):
                *columns, times, diffs = (column.to_pylist() for column in batch.columns)
                rows = zip(*columns, strict=True)
                for row, at, diff in zip(rows, times, diffs, strict=True):
                    found[row, at] += diff
            case Progress():
                break
    subscription.close()
    return found


@pytest.mark.semantics(113, 114, 151, 161)
def test_killed_again_and_again(logical_server: PostgresServer, tmp_path: Path) -> None:
    conninfo = logical_server.create_database(f"d{uuid.uuid4().hex}")
    with closing(psycopg.connect(conninfo, autocommit=True)) as upstream:
        upstream.execute(SETUP)
        with Writer(conninfo) as writer:
            kill_again_and_again(conninfo, tmp_path)
            writer.await_more()
            run(tmp_path, conninfo, "running", lives_s=0, until=end_of_log(upstream))
            writer.await_more()
        run(tmp_path, conninfo, "running", lives_s=0, until=end_of_log(upstream))
        check(PostgresSourceServer(tmp_path, conninfo), upstream)
        drop_slots(upstream)


def end_of_log(upstream: psycopg.Connection[Any]) -> int:
    """How far the log has come; there is something behind."""
    [(end,)] = upstream.execute("SELECT (pg_current_wal_lsn() - '0/0')::bigint").fetchall()
    upstream.execute("SELECT pg_logical_emit_message(true, 'test', 'the log goes on')")
    return int(end)


@pytest.mark.semantics(113, 114, 151, 161)
def test_killed_in_the_middle_of_a_read(logical_server: PostgresServer, tmp_path: Path) -> None:
    """Of the first contents, and of the stream; each before anything and after a part was read."""
    conninfo = logical_server.create_database(f"d{uuid.uuid4().hex}")
    with closing(psycopg.connect(conninfo, autocommit=True)) as upstream:
        upstream.execute(SETUP)
        for is_stream in (False, True):
            if is_stream:
                upstream.execute("UPDATE a SET money = money")
            bound = killed_while_it_reads(tmp_path, conninfo, 0)
            with upstream.transaction():
                upstream.execute("UPDATE a SET money = money - 1 WHERE id < 9")
                upstream.execute("UPDATE b SET money = money + 1 WHERE id < 9")
            assert killed_while_it_reads(tmp_path, conninfo, 1) == bound
            run(tmp_path, conninfo, "running", lives_s=0, until=end_of_log(upstream))
        check(PostgresSourceServer(tmp_path, conninfo), upstream)
        drop_slots(upstream)


def killed_while_it_reads(folder: Path, conninfo: str, batches: int) -> int | None:
    """A server's life, which ends when a read has given so many batches; how far it was bound."""
    life = Life("postgres_source", str(folder), conninfo, f"dies={batches}")
    assert life.wait() == -signal.SIGKILL
    life.kill()
    server = PostgresSourceServer(folder, conninfo)
    uppers = server.uppers()
    server.close()
    remap = uppers.pop(server.description.remap)
    assert {remap} != set(uppers.values()), "a binding waits for its data"
    return remap


@pytest.mark.semantics(113, 114, 151, 161)
def test_killed_while_executors_read(logical_server: PostgresServer, tmp_path: Path) -> None:
    """The first contents are what they were when they were bound, whoever reads them then."""
    conninfo = logical_server.create_database(f"d{uuid.uuid4().hex}")
    with closing(psycopg.connect(conninfo, autocommit=True)) as upstream:
        upstream.execute(SETUP)
        with Writer(conninfo) as writer:
            run(tmp_path, conninfo, "running", "reading", lives_s=0, how=("spark",))
            server = PostgresSourceServer(tmp_path, conninfo)
            uppers = server.uppers()
            remap = uppers.pop(server.description.remap)
            assert {remap} != set(uppers.values()), "it was killed while it read"
            server.close()
            writer.await_more()
        run(tmp_path, conninfo, "running", lives_s=0, until=end_of_log(upstream))
        check(PostgresSourceServer(tmp_path, conninfo), upstream, bindings=1)
        drop_slots(upstream)


def kill_again_and_again(conninfo: str, folder: Path) -> None:
    """While somebody writes: now soon after the start, now after something was durable."""
    pick = random.Random(11)
    pending = 0
    for i in range(KILLS):
        said = ("running", "moved")[: 1 + i % 2]
        run(folder, conninfo, *said, lives_s=pick.uniform(0.0, 0.3))
        server = PostgresSourceServer(folder, conninfo)
        pending += len(set(server.uppers().values())) > 1
        server.close()
    print(f"{pending} bindings were pending after {KILLS} kills")


def check(
    server: PostgresSourceServer, upstream: psycopg.Connection[Any], bindings: int = 2
) -> None:
    """At every time there is all the money, and in the end what is upstream."""
    found = {table: updates(server, table) for table in ("a", "b")}
    server.close()
    by_time: Counter[int] = Counter()
    for changes in found.values():
        for (row, at), diff in changes.items():
            by_time[at] += row[1] * diff
    first, *others = (by_time[at] for at in sorted(by_time))
    assert first == 2 * 100 * ACCOUNTS
    assert len(others) >= bindings
    assert not any(others)
    for table, changes in found.items():
        held: Counter[tuple[Any, ...]] = Counter()
        for (row, _), diff in changes.items():
            held[row] += diff
        assert all(times >= 0 for times in held.values())
        assert held == Counter(upstream.execute(f"SELECT * FROM {table}").fetchall())
