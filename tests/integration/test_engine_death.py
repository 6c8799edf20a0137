"""The engine dies: the server notices, starts another one and goes on, and nothing is lost."""

from __future__ import annotations

import os
import signal
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from waterclock.testing.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.service, pytest.mark.timeout(1200)]

WAIT_S = 240.0
BRIEFLY = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def java_of(server: ServerProcess) -> int:
    """The process of the engine."""
    [found] = _descendants(server.pid, "(java)")
    return found


def _descendants(of: int, name: str = "") -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        if int(text.rpartition(")")[2].split()[1]) == of and name in text:
            found.append(int(stat.parent.name))
    return found


def await_(what: str, condition: Any) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("engine")
    with ServerProcess(
        folder / "data", "--spark", BRIEFLY, "--engine-deaths", "100", "--step-timeout", "10000"
    ) as running:
        yield running


class Writer:
    """Inserts numbers, one statement each, and notes those that were acknowledged."""

    def __init__(self, server: ServerProcess, table: str) -> None:
        self._server = server
        self._table = table
        self.acknowledged: list[int] = []
        self.errors: list[str] = []
        self.is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._server.connect() as connection:
            number = 0
            while not self.is_over.is_set():
                try:
                    connection.execute(f"INSERT INTO {self._table} VALUES ({number % 7}, {number})")
                    self.acknowledged.append(number)
                except psycopg.Error as error:
                    self.errors.append(f"{error.sqlstate} {error}")
                    return
                number += 1
                self.is_over.wait(0.01)

    def await_more(self, count: int) -> None:
        """Wait until so many more are acknowledged."""
        wanted = len(self.acknowledged) + count
        await_("some are written", lambda: len(self.acknowledged) >= wanted)

    def finish(self) -> list[int]:
        self.is_over.set()
        self._thread.join(WAIT_S)
        assert not self.errors, "writes need no engine"
        return self.acknowledged


class Follower:
    """Adds up what a subscription tells."""

    def __init__(self, server: ServerProcess, relation: str) -> None:
        self.contents: Counter[tuple[str, ...]] = Counter()
        self.time = 0
        self._connection = server.connect()
        self._relation = relation
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        text = f"COPY (SUBSCRIBE TO {self._relation} WITH (PROGRESS)) TO STDOUT"
        try:
            with self._connection.cursor() as cursor, cursor.copy(text.encode()) as copy:
                for row in copy.rows():
                    at, is_progress, diff, *rest = row
                    if is_progress == "f":
                        self.contents[tuple(map(str, rest))] += int(str(diff))
                    self.time = int(str(at))
        except psycopg.errors.QueryCanceled:
            pass

    def finish(self, at_least: int) -> dict[tuple[str, ...], int]:
        """What the relation holds once everything up to a time was told."""
        await_("the subscription catches up", lambda: self.time > at_least)
        self._connection.cancel_safe(timeout=30)
        self._thread.join(WAIT_S)
        self._connection.close()
        assert min(self.contents.values(), default=0) >= 0
        return {row: count for row, count in self.contents.items() if count}


def kill_engine(server: ServerProcess) -> None:
    """Kill it, and wait until its death shows."""
    os.kill(java_of(server), signal.SIGKILL)
    killed = time.monotonic()
    await_("the death shows", lambda: not server.is_ready())
    assert time.monotonic() - killed < 10.0, "loosely: a second on a machine with nothing to do"


class Running:
    """A statement that takes for ever, in a session of its own."""

    SQL = "SELECT count(*) FROM generate_series(1, 4000000) a, generate_series(1, 4000000) b"

    def __init__(self, server: ServerProcess, other: psycopg.Connection[Any]) -> None:
        self.connection = server.connect()
        self.error: psycopg.Error | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        seen = f"SELECT count(*) FROM pg_stat_activity WHERE query = '{self.SQL}'"
        await_("it runs", lambda: other.execute(seen.encode()).fetchone() == (1,))
        time.sleep(1)  # from being known to being at work

    def _run(self) -> None:
        try:
            self.connection.execute(self.SQL.encode())
        except psycopg.Error as error:
            self.error = error

    def check_error(self) -> None:
        """It ended with an error that says what to do, and the session is still there."""
        self._thread.join(WAIT_S)
        assert self.error is not None
        assert self.error.sqlstate == "58000"
        assert self.error.diag.message_hint
        assert self.connection.execute("SELECT 1").fetchone() == (1,)
        self.connection.close()


def work_without_engine(connection: psycopg.Connection[Any]) -> None:
    """What needs no engine works while there is none, and what needs one can be given up."""
    connection.execute("CREATE TABLE quiet (a int)")
    connection.execute("INSERT INTO quiet VALUES (1), (2)")
    assert len(connection.execute("SELECT a FROM quiet").fetchall()) == 2
    connection.execute("SET statement_timeout = 300")
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute("SELECT sum(a) FROM quiet GROUP BY a % 3")
    connection.execute("SET statement_timeout = 0")


def test_two_deaths_under_writes(server: ServerProcess) -> None:
    with server.connect() as connection:
        connection.execute("CREATE TABLE written (k int, v int)")
        connection.execute(
            "CREATE MATERIALIZED VIEW sums AS"
            " SELECT k, count(*) AS n, sum(v) AS s FROM written GROUP BY k"
        )
        connection.execute("CREATE INDEX written_k ON written (k)")
        writer, follower = Writer(server, "written"), Follower(server, "sums")
        running = Running(server, connection)
        writer.await_more(20)
        kill_engine(server)
        work_without_engine(connection)
        running.check_error()
        # Both wait for the new engine.
        connection.execute("CREATE MATERIALIZED VIEW later AS SELECT max(a) AS m FROM quiet")
        assert connection.execute("SELECT m FROM later").fetchone() == (2,)
        assert server.is_ready()
        writer.await_more(20)
        kill_engine(server)
        writer.await_more(20)
        numbers = writer.finish()
        judge(connection, follower, numbers)


def judge(connection: psycopg.Connection[Any], follower: Follower, numbers: list[int]) -> None:
    """All that was acknowledged is there, once, wherever one looks."""
    expected = sorted(
        (k, len(own), sum(own))
        for k in range(7)
        if (own := [number for number in numbers if number % 7 == k])
    )
    rows = connection.execute("SELECT k, n, s FROM sums").fetchall()
    assert sorted(rows) == expected
    [(time_now,)] = connection.execute("SELECT mz_now()::text").fetchall()
    told = follower.finish(int(time_now))
    assert told == {tuple(map(str, row)): 1 for row in expected}
    found = connection.execute("SELECT v FROM written WHERE k = 3").fetchall()
    assert sorted(v for (v,) in found) == [number for number in numbers if number % 7 == 3]
    evaluated = "SELECT k, count(*) AS n, sum(v) AS s FROM written GROUP BY k HAVING sum(v) > -1"
    assert sorted(connection.execute(evaluated.encode()).fetchall()) == expected


def test_a_query_beyond_all_memory_hurts_nobody(server: ServerProcess) -> None:
    with server.connect() as connection, server.connect() as other:
        connection.execute("CREATE TABLE beside (a int)")
        connection.execute("CREATE MATERIALIZED VIEW sum_beside AS SELECT sum(a) AS s FROM beside")
        with pytest.raises(psycopg.Error) as caught:
            other.execute(
                "SELECT length(string_agg(repeat('x', 1000000), '')) FROM generate_series(1, 12000)"
            )
        assert caught.value.sqlstate in ("53200", "54000", "58000")
        assert other.execute("SELECT 1").fetchone() == (1,)
        connection.execute("INSERT INTO beside VALUES (4), (5)")
        assert connection.execute("SELECT s FROM sum_beside").fetchone() == (9,)
        assert other.execute("SELECT sum(i) FROM generate_series(1, 4) i").fetchone() == (10,)


def test_a_step_that_hangs_is_noticed_and_done_again(server: ServerProcess) -> None:
    """Python's workers are stopped: whatever they were given never ends."""
    with server.connect() as connection:
        connection.execute("CREATE TABLE held (a int)")
        connection.execute("CREATE MATERIALIZED VIEW sum_held AS SELECT sum(a) AS s FROM held")
        connection.execute("INSERT INTO held VALUES (1)")
        assert connection.execute("SELECT s FROM sum_held").fetchone() == (1,)
        stopped = [
            worker
            for noted in server.data.glob("spark/*/workers")
            for daemon in noted.read_text().split()
            for worker in _descendants(int(daemon))
        ]
        assert stopped
        for worker in stopped:
            os.kill(worker, signal.SIGSTOP)
        connection.execute("INSERT INTO held VALUES (2)")
        assert connection.execute("SELECT s FROM sum_held").fetchone() == (3,)
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    [line] = [each for each in lines if each.startswith("waterclock_hung_steps_total ")]
    assert float(line.split()[1]) >= 1


def test_the_server_ends_after_as_many_deaths_as_it_may_bear(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", "--spark", BRIEFLY, "--engine-deaths", "1")
    process = server.spawn()
    try:
        await_("it is ready", server.is_ready)
        os.kill(java_of(server), signal.SIGKILL)
        assert process.wait(WAIT_S) == 1
        assert "the engine has died 1 times within 300 s; giving up" in server.output
    finally:
        server.kill()
