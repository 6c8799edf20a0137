"""What a program keeps over a restart of the server, over real connections."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from waterclock.adapter.coordinator import Pace
from waterclock.client.api import Changes, Subscription
from waterclock.client.remote import RemoteConnection
from waterclock.errors import WaterclockError
from waterclock.testing.adapter_world import AdapterWorld
from waterclock.testing.pg_endpoint import PgEndpoint


def serve(folder: Path, orders: Connection) -> None:
    """A server in a process of its own, which starts again at its port when it is told to: libpq
    waits for answers without letting other threads run.
    """
    world = AdapterWorld(folder, Pace(tick_ms=20, retain_ms=50))
    port = 0
    while True:
        with PgEndpoint(world.front, world.front, port=port) as endpoint:
            port = endpoint.port
            orders.send(port)
            again = orders.recv()
        world.close()
        if not again:
            return
        world.open()


HELD = "FROM mz_internal.mz_read_holds WHERE kind = 'read hold'"


class Served:
    """The server, as the test sees it."""

    def __init__(self, folder: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._orders, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(folder, theirs), daemon=True)
        self._process.start()
        self.dsn = f"host=127.0.0.1 port={self._answer()} user=waterclock dbname=waterclock"

    def _answer(self) -> int:
        assert self._orders.poll(120), "the server does not start"
        port: int = self._orders.recv()
        return port

    def restart(self) -> None:
        self._orders.send(True)
        self._answer()

    def close(self) -> None:
        self._orders.send(False)
        self._process.join(120)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    made.close()


def received(changes: Subscription, count: int) -> list[int]:
    """The next rows that come, so many."""
    found: list[int] = []
    following: Iterator[Changes] = iter(changes)
    while len(found) < count:
        found += next(following).updates["a"].to_pylist()
    return found


def forgotten(served: Served, moment: int) -> Callable[[], bool]:
    def is_forgotten() -> bool:
        with RemoteConnection(served.dsn) as db:
            try:
                db.sql(f"SELECT a FROM other AS OF {moment}")
            except WaterclockError as error:
                return error.sqlstate == "22023"
        return False

    return is_forgotten


@pytest.mark.semantics(49, 51, 61)
def test_a_subscription_with_a_lease_goes_on_after_a_restart(served: Served) -> None:
    """All that was written while nobody was connected comes, and nothing twice, although the usual
    history is long forgotten.
    """
    with RemoteConnection(served.dsn) as db:
        db.sql("CREATE TABLE t (a int); CREATE TABLE other (a int); INSERT INTO t VALUES (1)")
        with db.subscribe("t", lease_s=60.0) as changes, db.subscribe("t") as without:
            assert received(changes, 1) == [1]
            assert received(without, 1) == [1]
            [[moment]] = db.sql(f"SELECT max(since) {HELD}").rows
            served.restart()
            with RemoteConnection(served.dsn) as later:
                later.sql("INSERT INTO t VALUES (2); INSERT INTO t VALUES (3)")
            is_forgotten = forgotten(served, int(moment))
            while not is_forgotten():
                pass
            assert sorted(received(changes, 2)) == [2, 3]
            with RemoteConnection(served.dsn) as later:
                later.sql("INSERT INTO t VALUES (4)")
            assert received(changes, 1) == [4]
            with pytest.raises(WaterclockError) as lost:
                received(without, 1)
            assert lost.value.sqlstate[:2] in ("08", "57")
