"""Read holds of programs: they renew themselves, move along, and say when they are lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from waterclock.adapter.coordinator import Pace
from waterclock.client.api import Changes, Result
from waterclock.client.embedded import EmbeddedConnection
from waterclock.client.read_holds import HoldLost, ReadHold
from waterclock.client.remote import ServerError
from waterclock.errors import WaterclockError
from waterclock.server.loop import LoopThread
from waterclock.testing.adapter_world import AdapterWorld

PATIENCE_S = 120.0


@pytest.fixture
def db(tmp_path: Path) -> Iterator[EmbeddedConnection]:
    world = AdapterWorld(tmp_path, Pace(tick_ms=20, retain_ms=50))
    with EmbeddedConnection(world.front, LoopThread(), None, world.close) as connection:
        connection.sql("CREATE TABLE t (a int); CREATE TABLE other (a int)")
        connection.sql("INSERT INTO t VALUES (1)")
        yield connection


def until(holds: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it never came to pass"
        time.sleep(0.02)


def is_forgotten(db: EmbeddedConnection, relation: str, moment: int) -> bool:
    try:
        db.sql(f"SELECT a FROM {relation} AS OF {moment}")
    except WaterclockError as error:
        return error.sqlstate == "22023"
    return False


@pytest.mark.semantics(46, 51, 55)
def test_it_renews_itself_until_it_is_closed(db: EmbeddedConnection) -> None:
    with db.hold("t", lease_s=1.0) as hold:
        moment = hold.time
        db.sql("DELETE FROM t")
        until(lambda: is_forgotten(db, "other", moment))
        time.sleep(2.5)  # longer than the lease
        assert db.sql(f"SELECT a FROM t AS OF {hold.time}").rows == [(1,)]
    until(lambda: is_forgotten(db, "t", moment))
    assert db.sql("SELECT 1 FROM mz_internal.mz_read_holds WHERE kind = 'read hold'").rows == []


def test_a_named_hold_is_taken_up_again(db: EmbeddedConnection) -> None:
    first = db.hold("t", name="Mine", lease_s=30.0)
    db.sql("INSERT INTO t VALUES (2)")
    again = db.hold("t", name="Mine")
    assert again.time == first.time
    with pytest.raises(WaterclockError, match='relation "missing" does not exist'):
        db.hold("missing")


def test_following_moves_the_hold_along(db: EmbeddedConnection) -> None:
    with db.hold("t", lease_s=1.0) as hold:
        began, seen = hold.time, list[int]()
        with closing(hold.follow("t")) as following:
            for changes in following:
                new = changes.updates["a"].to_pylist()
                seen += new
                if new and len(seen) < 3:
                    db.sql(f"INSERT INTO t VALUES ({len(seen) + 1})")
                elif len(seen) == 3 and hold.time > began:
                    break
        assert seen == [1, 2, 3]
        until(lambda: is_forgotten(db, "t", began))


@pytest.mark.semantics(46, 51, 55)
def test_a_subscription_with_a_lease_keeps_what_it_has_not_received(db: EmbeddedConnection) -> None:
    held = "SELECT lease_ms FROM mz_internal.mz_read_holds WHERE kind = 'read hold'"
    with db.subscribe("t", lease_s=30.0) as changes:
        first = next(each for each in changes if each.updates.num_rows)
        assert first.updates["a"].to_pylist() == [1]
        assert db.sql(held).rows == [(30_000,)]
        moment = first.upper - 1
        db.sql("INSERT INTO t VALUES (2)")
        until(lambda: is_forgotten(db, "other", moment))
        assert not is_forgotten(db, "t", moment)
        more = next(each for each in changes if each.updates.num_rows)
        assert more.updates["a"].to_pylist() == [2]
    assert db.sql(held).rows == []
    with db.subscribe("t", snapshot=False, lease_s=30.0) as changes:
        db.sql("INSERT INTO t VALUES (3)")
        more = next(each for each in changes if each.updates.num_rows)
        assert more.updates["a"].to_pylist() == [3]
    with pytest.raises(WaterclockError, match="not the name of a relation"):
        db.subscribe("SELECT a FROM t", lease_s=30.0)


class Server:
    """Statements that fail as a test wants, and a subscription that breaks off once."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.failures: list[WaterclockError] = []
        self.sessions = 0
        self.renewed = threading.Event()

    def sql(self, text: str, *_: object) -> Result:
        self.ran.append(text)
        if text.startswith("ALTER"):
            self.renewed.set()
            if self.failures:
                raise self.failures.pop(0)
        return Result(pa.table({"max": [100]}), "")

    def close(self) -> None:
        pass

    def connect(self) -> Server:
        self.sessions += 1
        return self


def nowhere(*_: object, **__: object) -> Any:
    raise AssertionError("nobody subscribes")


def test_a_lost_connection_is_made_again() -> None:
    server = Server()
    server.failures = [ServerError("gone"), ServerError("gone")]
    with ReadHold(server.connect, nowhere, ("t",), lease_s=0.6) as hold:
        until(lambda: sum(text.endswith("RENEW") for text in server.ran) >= 3)
        assert hold.time == 100
    assert server.sessions == 3
    assert server.ran[-1].startswith("DROP READ HOLD")


def test_a_hold_that_the_server_refuses_is_lost() -> None:
    server = Server()
    refusal = WaterclockError("the lease of read hold x has run out")
    server.failures = [refusal]
    with ReadHold(server.connect, nowhere, ("t",), lease_s=0.3) as hold:
        until(lambda: hold._failure is not None)
        with pytest.raises(HoldLost, match="has run out") as lost:
            hold.renew()
        assert lost.value.hint is not None
    assert not server.ran[-1].startswith("DROP"), "there is nothing left to drop"


def test_following_goes_on_after_a_lost_connection() -> None:
    server = Server()
    asked: list[tuple[bool, int]] = []

    class Part:
        def __init__(self, uppers: list[int], ends: bool) -> None:
            self._uppers, self._ends = iter(uppers), ends

        def __iter__(self) -> Iterator[Changes]:
            return self

        def __next__(self) -> Changes:
            for upper in self._uppers:
                return Changes(None, upper)
            raise StopIteration if self._ends else ServerError("the connection is lost")

        def __enter__(self) -> Part:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    def subscribe(relation: str, *, snapshot: bool = True, as_of: int | None = None) -> Any:
        assert relation == "t"
        assert as_of is not None
        asked.append((snapshot, as_of))
        return [Part([], False), Part([101, 120], False), Part([130], True)][len(asked) - 1]

    with ReadHold(server.connect, subscribe, ("t",), lease_s=60) as hold:
        uppers = [changes.upper for changes in hold.follow("t")]
    assert uppers == [101, 120, 130]
    assert asked == [(True, 100), (True, 100), (False, 119)], "nothing is lost or comes twice"
