"""Logs in PostgreSQL, against a real server."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from waterclock.persist.consensus.postgres import PostgresConsensus
from waterclock.persist.errors import PositionTaken, Unavailable
from waterclock.testing.conformance.consensus import ConsensusConformance, OpenLog, fill
from waterclock.testing.services import PostgresServer, free_port

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def database(postgres_server: PostgresServer) -> str:
    return postgres_server.create_database("logs")


@pytest.fixture
def log(database: str) -> Iterator[PostgresConsensus]:
    with contextlib.closing(PostgresConsensus(database, uuid.uuid4().hex)) as log:
        yield log


class TestPostgresConsensus(ConsensusConformance):
    @pytest.fixture
    def open_log(self, database: str) -> OpenLog:
        name = uuid.uuid4().hex
        return lambda: PostgresConsensus(database, name, page_bytes=100)


def test_logs_of_one_database_are_apart(database: str) -> None:
    with (
        contextlib.closing(PostgresConsensus(database, "it's one")) as one,
        contextlib.closing(PostgresConsensus(database, "two")) as two,
    ):
        fill(one, 3)
        two.append(1, b"other")
        two.append(2, b"other")
        two.truncate(2)
        assert [position for position, _ in one.read(1)] == [1, 2, 3]
        assert list(two.read(1)) == [(2, b"other")]


def test_a_page_has_a_bounded_number_of_entries(database: str) -> None:
    name = uuid.uuid4().hex
    with contextlib.closing(PostgresConsensus(database, name)) as log:
        log.append(1, b"x")
        with contextlib.closing(psycopg.connect(database, autocommit=True)) as connection:
            connection.execute(
                "INSERT INTO waterclock_log SELECT %s, n, 'x' FROM generate_series(2, 2500) AS n",
                (name,),
            )
        assert [position for position, _ in log.read(1)] == list(range(1, 2501))
        assert len(log._page(1)) == 1000


def test_first_use_under_a_race(postgres_server: PostgresServer) -> None:
    for attempt in range(5):
        database = postgres_server.create_database(f"first_use_{attempt}")
        barrier = threading.Barrier(8)

        def use(racer: int, database: str = database, barrier: threading.Barrier = barrier) -> bool:
            with contextlib.closing(PostgresConsensus(database, "log")) as log:
                barrier.wait(240)
                try:
                    log.append(1, b"%d" % racer)
                except PositionTaken:
                    return False
                return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(use, range(8))) == 1


def test_a_connection_that_is_cut_comes_back(database: str, log: PostgresConsensus) -> None:
    log.append(1, b"a")
    assert log._connection is not None
    backend = log._connection.info.backend_pid
    with contextlib.closing(psycopg.connect(database, autocommit=True)) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 240000)", (backend,))
    with pytest.raises(Unavailable, match="could not append to log"):
        log.append(2, b"b")
    log.append(2, b"b")
    assert list(log.read(1)) == [(1, b"a"), (2, b"b")]


def test_a_reader_of_pages_notices_the_cut(database: str) -> None:
    log = PostgresConsensus(database, uuid.uuid4().hex, page_bytes=1)
    with contextlib.closing(log):
        fill(log, 9)
        reader = log.read(1)
        next(reader)
        assert log._connection is not None
        backend = log._connection.info.backend_pid
        with contextlib.closing(psycopg.connect(database, autocommit=True)) as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 240000)", (backend,))
        with pytest.raises(Unavailable):
            list(reader)
        assert len(list(log.read(1))) == 9


def test_a_server_that_restarts() -> None:
    with PostgresServer() as server:
        log = PostgresConsensus(server.conninfo(), "log")
        with contextlib.closing(log):
            log.append(1, b"a")
            server.stop(immediate=True)
            for _ in range(2):
                with pytest.raises(Unavailable):
                    log.append(2, b"b")
                with pytest.raises(Unavailable):
                    log.end()
            server.start()
            assert list(log.read(1)) == [(1, b"a")]
            log.append(2, b"b")


def test_a_server_that_is_not_there() -> None:
    conninfo = f"host=127.0.0.1 port={free_port()} dbname=postgres user=postgres"
    with contextlib.closing(PostgresConsensus(conninfo, "log")) as log:
        with pytest.raises(Unavailable, match='could not read log "log"'):
            log.end()
        with pytest.raises(Unavailable, match='could not append to log "log"'):
            log.append(1, b"x")


def test_commits_wait_for_the_disk(database: str) -> None:
    conninfo = f"{database} options='-c synchronous_commit=off'"
    with contextlib.closing(PostgresConsensus(conninfo, "careless")) as log:
        log.append(1, b"a")
        assert log._connection is not None
        assert log._connection.execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_a_role_that_may_not_make_tables_can_use_them(
    postgres_server: PostgresServer, database: str, log: PostgresConsensus
) -> None:
    log.append(1, b"a")
    with contextlib.closing(psycopg.connect(database, autocommit=True)) as connection:
        connection.execute("CREATE ROLE humble LOGIN")
        connection.execute("GRANT ALL ON waterclock_log, waterclock_log_head TO humble")
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    conninfo = postgres_server.conninfo("logs").replace("user=postgres", "user=humble")
    with contextlib.closing(PostgresConsensus(conninfo, "humble")) as humble:
        humble.append(1, b"x")
        assert humble.end() == 2
