"""Statements that ask for too much: answered or refused, and nobody else waits for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from decimal import Decimal

import psycopg
import pytest

from waterclock.testing.hostile import HOSTILE, QUIET, Hostile, QuietSession, run, set_up, shared
from waterclock.testing.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.service, pytest.mark.timeout(900)]

PATIENCE_S = 20.0
"""A machine under load may take long; what hangs takes longer."""
_HEAVY = {"100,000 VALUES", "pg_class times 1,000,000, all rows", "literal of 5 MB", "5,000 AND"}
"""Those that a benchmark runs, and that take too long here."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("hostile") / "data") as server:
        with server.connect() as connection:
            set_up(connection)
        yield server


@pytest.fixture(scope="module")
def quiet(server: ServerProcess) -> Iterator[QuietSession]:
    session = QuietSession(server.dsn, QUIET["SELECT 1"])
    yield session
    session.stop()


@pytest.mark.parametrize(
    "hostile", [each for each in HOSTILE if each.name not in _HEAVY], ids=lambda each: each.name
)
def test_it_ends_well_and_nobody_waits(
    server: ServerProcess, quiet: QuietSession, hostile: Hostile
) -> None:
    quiet.latencies_ms()
    outcome = run(server.dsn, hostile)
    assert outcome.sqlstate in hostile.ends, outcome.message
    assert outcome.session_kept
    assert outcome.seconds < hostile.timeout_ms / 1000 + PATIENCE_S
    assert max(quiet.latencies_ms(), default=0.0) < PATIENCE_S * 1000


def test_what_is_shared_is_computed_right(server: ServerProcess) -> None:
    with server.connect() as connection:
        assert connection.execute(shared(14).encode()).fetchall() == [(15,)]
        text = "WITH r AS (SELECT random() AS x) SELECT a.x = b.x FROM r a, r b"
        assert connection.execute(text).fetchall() == [(True,)]


def test_many_constant_rows_are_those_that_were_written(server: ServerProcess) -> None:
    plain = ",".join(f"({n}, 'a{n}', {n}.25, NULL, true)" for n in range(3000))
    with server.connect() as connection:
        shown = "sum(a), max(b), sum(c), count(d), count(e)"
        query = f"SELECT {shown} FROM (VALUES {plain}) v(a, b, c, d, e)"
        expected = (4498500, "a999", Decimal("4499250.00"), 0, 3000)
        assert connection.execute(query.encode()).fetchone() == expected
        ordered = connection.execute(f"VALUES {plain}".encode()).fetchall()
        assert [row[0] for row in ordered] == list(range(3000))
        again = f"WITH v(a) AS (VALUES {plain}) SELECT count(*) FROM v x JOIN v y ON x.a = y.a"
        assert connection.execute(again.encode()).fetchone() == (3000,)


def test_a_view_that_would_be_too_large_is_refused(server: ServerProcess) -> None:
    with server.connect() as connection:
        with pytest.raises(psycopg.errors.ProgramLimitExceeded) as refused:
            connection.execute(f"CREATE MATERIALIZED VIEW large AS {shared(40)}".encode())
        assert "max_plan_nodes" in str(refused.value.diag.message_hint)


def test_a_catalog_query_is_cancelled_and_keeps_nobody_waiting(server: ServerProcess) -> None:
    names = " || ".join(f"p{n}.relname" for n in range(4))
    text = f"SELECT count(*) FROM {','.join(f'pg_class p{n}' for n in range(4))}"
    text += f" WHERE md5({names}) = 'none'"  # hundreds of millions of rows, in little memory
    with server.connect() as busy, server.connect() as other:
        ended = threading.Event()

        def ask() -> None:
            with pytest.raises(psycopg.errors.QueryCanceled):
                busy.execute(text.encode())
            ended.set()

        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(0.5)
        count = other.execute("SELECT count(*) FROM pg_class WHERE relname = 'quiet'").fetchone()
        assert count == (1,)
        assert not ended.is_set()
        busy.cancel_safe()
        assert ended.wait(PATIENCE_S)
        asking.join()
        assert busy.execute("SELECT 1").fetchone() == (1,)


def test_the_log_is_not_flooded(server: ServerProcess) -> None:
    assert not [line for line in server.complaints if "RecursionError" in line]
    assert len(server.output) < 200_000
