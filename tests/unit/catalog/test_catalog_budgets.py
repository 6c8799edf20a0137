"""Catalog queries that ask for too much: bounded in memory, stopped at once, in nobody's way."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from waterclock.catalog.system.answerer import DuckDbAnswerer
from waterclock.catalog.system.errors import CatalogQueryError, QueryCancelled
from waterclock.catalog.system.session import Cancellation, SessionFacts
from waterclock.testing.system_world import IMAGE

PATIENCE_S = 60.0
ENDLESS = f"SELECT count(*) FROM {', '.join(f'pg_proc p{n}' for n in range(5))} WHERE p0.oid > 0"
SESSION = SessionFacts("admin", "admin", "shop", backend_pid=7, application_name="a test")


@pytest.fixture(scope="module")
def answerer() -> Iterator[DuckDbAnswerer]:
    found = DuckDbAnswerer(lambda: IMAGE, memory_mb=64)
    yield found
    found.close()


@pytest.mark.parametrize(
    ("text", "sqlstate"),
    [
        ("SELECT count(*) FROM pg_class, generate_series(1, 100000000)", "54000"),
        ("SELECT count(*) FROM generate_series(1, 9223372036854775807)", "54000"),
        ("SELECT p.*, q.* FROM pg_proc p, pg_proc q", "53200"),
        (
            "SELECT count(DISTINCT (p.proname, q.oid, r.oid)) FROM pg_proc p, pg_proc q, pg_am r",
            "53200",
        ),
        (f"SELECT 1 FROM pg_class WHERE oid IN ({','.join(map(str, range(60_000)))})", "54000"),
    ],
    ids=lambda text: str(text)[:40],
)
def test_what_is_too_much_is_refused(answerer: DuckDbAnswerer, text: str, sqlstate: str) -> None:
    with pytest.raises(CatalogQueryError) as refused:
        answerer.execute(text, (), SESSION)
    assert refused.value.sqlstate == sqlstate, refused.value
    assert refused.value.hint is not None
    assert answerer.execute("SELECT count(*) FROM pg_am", (), SESSION).rows.num_rows == 1


def test_an_endless_query_is_stopped_and_keeps_nobody_waiting(answerer: DuckDbAnswerer) -> None:
    cancellation, ended = Cancellation(), threading.Event()

    def ask() -> None:
        with pytest.raises(QueryCancelled):
            answerer.execute(ENDLESS, (), SESSION, cancellation=cancellation)
        ended.set()

    asking = threading.Thread(target=ask)
    asking.start()
    began = time.monotonic()
    for _ in range(20):
        answerer.execute("SELECT relname FROM pg_class", (), SESSION)
    assert time.monotonic() - began < PATIENCE_S
    assert not ended.is_set()
    cancellation.cancel()
    assert ended.wait(PATIENCE_S)
    asking.join()
