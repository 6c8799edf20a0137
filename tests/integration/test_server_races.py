"""A real server under clients that race, time out, cancel and hang up, while another one writes.

The racing clients may only be told what `racing` allows; none of them loses its connection; and the
one that writes steadily must not notice anything.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import psycopg
import pytest

from waterclock.testing.racing import ALLOWED, statement
from waterclock.testing.server_process import ServerProcess

RACING_S = 8.0
STOPPED = {"57014", "40003"}
LONGEST_WRITE_S = 30.0

pytestmark = [pytest.mark.slow, pytest.mark.service]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("races") / "data") as made:
        yield made


class Crowd:
    """Clients in threads of their own, until the time is over."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.told: Counter[str] = Counter()
        self.faults: list[str] = []
        self._end = time.monotonic() + RACING_S
        self._threads: list[threading.Thread] = []

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self._end and not self.faults

    def add(self, work: Callable[[Crowd, Random], None], seed: int) -> None:
        def run() -> None:
            try:
                work(self, Random(seed))
            except Exception as error:
                self.faults.append(f"{work.__name__}: {type(error).__name__}: {error}")

        thread = threading.Thread(target=run, name=work.__name__)
        self._threads.append(thread)
        thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(240)
            assert not thread.is_alive(), f"{thread.name} hangs"
        assert not self.faults, self.faults

    def run(self, connection: psycopg.Connection[Any], text: str, also: set[str]) -> None:
        """Run a text, which may end as it is allowed to, or in what is named `also`."""
        try:
            connection.execute(text.encode())
            self.told["done"] += 1
        except psycopg.Error as error:
            self.told[str(error.sqlstate)] += 1
            if error.sqlstate not in ALLOWED | also:
                self.faults.append(f"{text}: {error.sqlstate} {error}")
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.execute("ROLLBACK")


def racer(crowd: Crowd, chance: Random) -> None:
    with crowd.server.connect() as connection:
        while crowd.goes_on:
            crowd.run(connection, statement(chance), set())


def canceller(crowd: Crowd, chance: Random) -> None:
    """Statements that a request for cancellation follows after a moment."""
    with crowd.server.connect() as connection:
        while crowd.goes_on:
            timer = threading.Timer(chance.random() * 0.01, connection.cancel)
            timer.start()
            crowd.run(connection, statement(chance), STOPPED)
            timer.join()


def impatient(crowd: Crowd, _: Random) -> None:
    """DROP and CREATE that time out almost at once."""
    with crowd.server.connect() as connection:
        connection.execute("SET statement_timeout = 1")
        while crowd.goes_on:
            crowd.run(connection, "CREATE TABLE mine (n int)", STOPPED)
            crowd.run(connection, "INSERT INTO mine VALUES (1)", STOPPED)
            crowd.run(connection, "DROP TABLE mine", STOPPED)


def hanging_up(crowd: Crowd, chance: Random) -> None:
    """Statements whose client is gone before they have ended."""
    while crowd.goes_on:
        connection = crowd.server.connect()
        connection.pgconn.send_query(statement(chance).encode())
        time.sleep(chance.random() * 0.01)
        cut(connection)


def copying(crowd: Crowd, chance: Random) -> None:
    """COPY FROM that is cut off, refused by its client, or cancelled before its end."""
    while crowd.goes_on:
        connection = crowd.server.connect()
        rows = ("1\n" * 1000).encode()
        try:
            with connection.cursor().copy("COPY steady FROM STDIN") as copy:
                copy.write(rows)
                match chance.randrange(3):
                    case 0:
                        cut(connection)
                    case 1:
                        connection.cancel()
                        raise ValueError
                    case _:
                        raise ValueError
        except (ValueError, psycopg.Error):
            pass
        with suppress(psycopg.Error):
            connection.close()


def cut(connection: psycopg.Connection[Any]) -> None:
    """End the connection without a word."""
    with socket.socket(fileno=connection.fileno()) as own:
        own.shutdown(socket.SHUT_RDWR)
        own.detach()
    connection.pgconn.finish()


def writer(crowd: Crowd, _: Random) -> None:
    """Write all the time, and never be told of anything."""
    with crowd.server.connect() as connection:
        while crowd.goes_on:
            began = time.monotonic()
            connection.execute("INSERT INTO steady VALUES (2)")
            assert time.monotonic() - began < LONGEST_WRITE_S, "a write had to wait"
            crowd.told["written"] += 1


def test_nobody_hurts_another(server: ServerProcess) -> None:
    with server.connect() as connection:
        connection.execute("CREATE TABLE steady (n int)")
        crowd = Crowd(server)
        crowd.add(writer, 0)
        for seed, work in enumerate(
            (racer, racer, racer, canceller, impatient, hanging_up, copying)
        ):
            crowd.add(work, seed)
        crowd.join()
        assert crowd.told["written"] > 10, crowd.told
        assert crowd.told["done"] > 50, crowd.told
        rows = connection.execute("SELECT n, count(*) FROM steady GROUP BY n").fetchall()
        assert rows == [(2, crowd.told["written"])], "all that was acknowledged, and nothing else"
        for name in ("a", "b", "c", "d", "mine"):
            connection.execute(f"DROP TABLE IF EXISTS {name} CASCADE")
        connection.execute("CREATE TABLE later (n int)")
        connection.execute("INSERT INTO later VALUES (1), (2)")
        connection.execute("CREATE MATERIALIZED VIEW total AS SELECT sum(n) AS n FROM later")
        assert connection.execute("SELECT n FROM total").fetchall() == [(3,)]
        connection.execute("DROP TABLE later CASCADE")
    assert server.is_ready()
    assert not server.complaints, server.complaints[:5]
