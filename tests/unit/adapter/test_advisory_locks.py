"""Advisory locks: the table of them with threads, and sessions that take them by SQL."""

from __future__ import annotations

import asyncio
import datetime
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from waterclock.adapter.advisory_locks import AdvisoryLocks, Lock, Mode, Owner, Patience
from waterclock.adapter.errors import DeadlockDetected, LockTimeout, StatementCancelled
from waterclock.catalog.system.session import LockKey
from waterclock.testing.adapter_world import AdapterWorld, Client, in_world

MOMENT = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


def lock(key: int, mode: Mode = Mode.ALONE) -> Lock:
    return Lock(5, LockKey.of(key), mode)


ONE, TWO, THREE = lock(1), lock(2), lock(3)
SHARED_ONE = lock(1, Mode.SHARED)


class Table:
    """Locks, and threads that wait for them."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self.locks = AdvisoryLocks(now=lambda: MOMENT)
        self._executor = executor

    def tries(self, owner: Owner, wanted: Lock) -> bool:
        return self.locks.acquire(owner, wanted, for_transaction=False, patience=None)

    def has(self, owner: Owner, wanted: Lock) -> None:
        self.locks.acquire(owner, wanted, for_transaction=False, patience=Patience())

    def waits(
        self, owner: Owner, wanted: Lock, is_over: Callable[[], bool] = lambda: False
    ) -> Future[bool]:
        """Begin to wait; it does when this returns."""
        patience = Patience(is_over)
        waiting = self._executor.submit(
            self.locks.acquire, owner, wanted, for_transaction=False, patience=patience
        )
        while owner.wait is None and not waiting.done():
            time.sleep(0.0005)
        return waiting


@contextmanager
def table() -> Iterator[Table]:
    with ThreadPoolExecutor() as executor:
        yield Table(executor)


def owners(count: int) -> list[Owner]:
    return [Owner(pid) for pid in range(1, count + 1)]


def test_one_has_it_alone_or_many_share_it() -> None:
    with table() as t:
        a, b, c = owners(3)
        assert t.tries(a, SHARED_ONE)
        assert t.tries(b, SHARED_ONE)
        assert not t.tries(c, ONE)
        assert not t.tries(a, ONE)
        assert t.locks.release(b, SHARED_ONE)
        assert t.tries(a, ONE)
        assert not t.tries(b, SHARED_ONE)
        assert t.tries(b, TWO)
        assert t.tries(b, Lock(6, ONE.key, Mode.ALONE))


def test_it_is_given_back_as_often_as_it_was_taken() -> None:
    with table() as t:
        a, b = owners(2)
        t.has(a, ONE)
        t.has(a, ONE)
        assert not t.locks.release(a, SHARED_ONE)
        assert t.locks.release(a, ONE)
        assert not t.tries(b, ONE)
        assert t.locks.release(a, ONE)
        assert not t.locks.release(a, ONE)
        assert t.tries(b, ONE)
        t.locks.release_all(b)
        assert t.locks.shown() == []


def test_a_transaction_gives_back_what_it_took() -> None:
    with table() as t:
        a, b = owners(2)
        for each in (ONE, TWO, THREE):
            t.locks.acquire(a, each, for_transaction=True, patience=None)
        t.has(a, ONE)
        assert not t.locks.release(a, TWO)
        t.locks.end_transaction(a, kept=2)
        assert [t.tries(b, each) for each in (ONE, TWO, THREE)] == [False, False, True]
        t.locks.end_transaction(a)
        assert [t.tries(b, each) for each in (ONE, TWO)] == [False, True]
        t.locks.release_all(a)
        assert t.tries(b, ONE)


def test_it_is_handed_on_in_order() -> None:
    with table() as t:
        a, b, c, d = owners(4)
        t.has(a, SHARED_ONE)
        alone = t.waits(b, ONE)
        behind = t.waits(c, SHARED_ONE)
        assert not t.tries(d, SHARED_ONE), "it would go before those who wait"
        assert t.locks.blocking(b.pid) == [a.pid]
        assert t.locks.blocking(c.pid) == [b.pid]
        since = [(each.pid, each.waits_since) for each in t.locks.shown()]
        assert since == [(a.pid, None), (b.pid, MOMENT), (c.pid, MOMENT)]
        t.locks.release(a, SHARED_ONE)
        assert alone.result()
        assert not behind.done()
        t.locks.release(b, ONE)
        assert behind.result()


def test_who_has_it_goes_before_those_who_wait_for_it() -> None:
    with table() as t:
        a, b, c = owners(3)
        t.has(a, SHARED_ONE)
        t.has(b, SHARED_ONE)
        last = t.waits(c, ONE)
        t.has(a, SHARED_ONE)
        first = t.waits(a, ONE)
        t.locks.release(b, SHARED_ONE)
        assert first.result()
        t.locks.release_all(a)
        assert last.result()


def test_circles_are_refused() -> None:
    with table() as t:
        a, b, c = owners(3)
        for owner, held in ((a, ONE), (b, TWO), (c, THREE)):
            t.has(owner, held)
        waiting = [t.waits(a, TWO), t.waits(b, THREE)]
        with pytest.raises(DeadlockDetected) as found:
            t.has(c, ONE)
        assert found.value.detail == (
            "Process 3 waits for ExclusiveLock on advisory lock [5,0,1,1];"
            " blocked by process 1.\n"
            "Process 1 waits for ExclusiveLock on advisory lock [5,0,2,1];"
            " blocked by process 2.\n"
            "Process 2 waits for ExclusiveLock on advisory lock [5,0,3,1];"
            " blocked by process 3."
        )
        t.locks.close(c)
        assert waiting[1].result()
        t.locks.close(b)
        assert waiting[0].result()


def test_two_who_share_it_can_not_both_have_it_alone() -> None:
    with table() as t:
        a, b = owners(2)
        t.has(a, SHARED_ONE)
        t.has(b, SHARED_ONE)
        waiting = t.waits(a, ONE)
        with pytest.raises(DeadlockDetected):
            t.has(b, ONE)
        t.locks.release_all(b)
        assert waiting.result()


def test_waiting_ends_when_patience_does() -> None:
    with table() as t:
        a, b, c = owners(3)
        t.has(a, ONE)
        over = threading.Event()
        waiting, behind = t.waits(b, ONE, over.is_set), t.waits(c, ONE)
        over.set()
        t.locks.release(a, ONE)
        assert behind.result(), "who gave up gets nothing any more"
        with pytest.raises(StatementCancelled):
            waiting.result()
        with pytest.raises(LockTimeout):
            t.locks.acquire(a, ONE, for_transaction=True, patience=Patience(seconds=0.001))
        assert [each.pid for each in t.locks.shown()] == [c.pid]


def test_who_is_gone_gets_nothing() -> None:
    with table() as t:
        a, b, c = owners(3)
        t.has(a, ONE)
        t.has(b, TWO)
        waiting = t.waits(b, ONE)
        t.locks.close(b)
        t.locks.release_all(a)
        with pytest.raises(StatementCancelled):
            waiting.result()
        with pytest.raises(StatementCancelled):
            t.has(b, THREE)
        assert t.tries(c, ONE)
        assert t.tries(c, TWO)


def test_one_at_a_time_under_load() -> None:
    with table() as t:
        inside, counted = 0, 0

        def enter(owner: Owner) -> None:
            nonlocal inside, counted
            for _ in range(50):
                t.has(owner, ONE)
                inside += 1
                assert inside == 1
                counted += 1
                inside -= 1
                t.locks.release(owner, ONE)

        with ThreadPoolExecutor(8) as executor:
            list(executor.map(enter, owners(8)))
        assert counted == 400
        assert t.locks.shown() == []


# By SQL

HELD = (
    "SELECT classid, objid, objsubid, mode, granted FROM pg_locks"
    " WHERE locktype = 'advisory' ORDER BY 1, 2, 3, 4"
)
TRIED = "SELECT pg_try_advisory_lock(1)"


async def until_waiting(asking: Client, pid: int) -> None:
    sql = f"SELECT wait_event_type, wait_event FROM pg_stat_activity WHERE pid = {pid}"
    while await asking.rows(sql) != [("Lock", "advisory")]:
        await asyncio.sleep(0.001)


@in_world
async def test_locks_are_taken_and_shown(world: AdapterWorld) -> None:
    one, other = await world.connect(), await world.connect()
    taken = "SELECT pg_advisory_lock(-2), pg_advisory_lock_shared(3, -4), pg_advisory_lock(NULL)"
    assert await one.rows(taken) == [("", "", None)]
    high = 2**32 - 1
    assert await other.rows(HELD) == [
        (3, high - 3, 2, "ShareLock", True),
        (high, high - 1, 1, "ExclusiveLock", True),
    ]
    mine = "pid = pg_backend_pid() AND d.datname = current_database()"
    joined = (
        f"SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE {mine}"
    )
    assert await one.rows(joined) == [(2,)]
    assert await other.rows("SELECT pg_try_advisory_lock(3, -4), pg_try_advisory_lock(3)") == [
        (False, True)
    ]
    assert await other.rows("SELECT pg_try_advisory_lock_shared(3, -4)") == [(True,)]
    assert await one.rows("SELECT pg_advisory_unlock(-2), pg_advisory_unlock(-2)") == [
        (True, False)
    ]
    assert [(n.message, n.severity, n.sqlstate) for n in one.notices] == [
        ("you don't own a lock of type ExclusiveLock", "WARNING", "01000")
    ]
    await one.run("SELECT pg_advisory_unlock_all()")
    await other.run("DISCARD ALL")
    assert await one.rows(HELD) == []


@in_world
async def test_each_call_counts(world: AdapterWorld) -> None:
    one, other = await world.connect(), await world.connect()
    assert await one.rows("SELECT pg_try_advisory_lock(1), pg_try_advisory_lock(1)") == [
        (True, True)
    ]
    assert (
        await one.rows("SELECT pg_try_advisory_lock(x) FROM generate_series(1, 3) x")
        == [(True,)] * 3
    )
    back = "SELECT pg_advisory_unlock(1), pg_advisory_unlock(1), pg_advisory_unlock(1)"
    assert await one.rows(back) == [(True, True, True)]
    assert await other.rows(TRIED) == [(True,)]


@in_world
async def test_locks_of_a_transaction_end_with_it(world: AdapterWorld) -> None:
    one, other = await world.connect(), await world.connect()
    ids = "SELECT objid FROM pg_locks WHERE locktype = 'advisory' ORDER BY 1"
    await one.run("SELECT pg_advisory_xact_lock(1)")
    assert await other.rows(ids) == []
    await one.run("BEGIN")
    await one.run("SELECT pg_advisory_xact_lock(1), pg_advisory_lock(9)")
    await one.run("SAVEPOINT a")
    await one.run("SELECT pg_try_advisory_xact_lock(2)")
    await one.run("SAVEPOINT b")
    await one.run("SELECT pg_advisory_xact_lock_shared(3)")
    await one.fails("SELECT 1 / 0")
    assert await other.rows(ids) == [(1,), (2,), (9,)]
    await one.run("ROLLBACK TO a")
    assert await other.rows(ids) == [(1,), (9,)]
    await one.fails("SELECT nothing")
    assert await other.rows(ids) == [(1,), (9,)]
    await one.run("ROLLBACK")
    assert await other.rows(ids) == [(9,)]
    await one.run("BEGIN; SELECT pg_advisory_xact_lock(1)")
    await one.fails("SELECT 1 / 0")
    assert await other.rows(ids) == [(9,)]
    await one.session.terminate()
    assert await other.rows(ids) == []


@in_world
async def test_waiting_by_sql(world: AdapterWorld) -> None:
    one, other = await world.connect(), await world.connect()
    await one.run("SELECT pg_advisory_lock(1)")
    pid = other.session.startup.process_id
    waiting = asyncio.create_task(other.rows("SELECT pg_advisory_lock(1)"))
    await until_waiting(one, pid)
    blocking = f"SELECT pg_blocking_pids({pid})"
    assert await one.rows(blocking) == [([one.session.startup.process_id],)]
    waits = "SELECT pid, waitstart IS NOT NULL FROM pg_locks WHERE NOT granted"
    assert await one.rows(waits) == [(pid, True)]
    await one.run("SELECT pg_advisory_unlock(1)")
    assert await waiting == [("",)]
    assert await one.rows(blocking) == [([],)]
    assert await one.rows(TRIED) == [(False,)]


@in_world
async def test_waiting_can_be_stopped(world: AdapterWorld) -> None:
    one, other = await world.connect(), await world.connect()
    await one.run("SELECT pg_advisory_lock(1)")
    pid = other.session.startup.process_id
    waiting = asyncio.create_task(other.fails("SELECT pg_advisory_lock(1)"))
    await until_waiting(one, pid)
    await one.run(f"SELECT pg_cancel_backend({pid})")
    assert (await waiting).sqlstate == "57014"
    for name, sqlstate in (("statement_timeout", "57014"), ("lock_timeout", "55P03")):
        hasty = await world.connect()
        await hasty.run(f"SET {name} = '20ms'")
        fault = await hasty.fails("SELECT pg_advisory_xact_lock_shared(1)")
        assert fault.sqlstate == sqlstate
        assert name.replace("_", " ") in str(fault)
    await one.run("SELECT pg_advisory_unlock(1)")
    while await one.rows("SELECT count(*) FROM pg_locks") != [(0,)]:  # given up, soon
        await asyncio.sleep(0.001)
    assert await other.rows(TRIED) == [(True,)]


@in_world
async def test_one_of_a_deadlock_is_refused(world: AdapterWorld) -> None:
    one, other = await world.connect(), await world.connect()
    for each, key in ((one, 1), (other, 2)):
        await each.run(f"BEGIN; SELECT pg_advisory_xact_lock({key})")
    waiting = asyncio.create_task(one.rows("SELECT pg_advisory_xact_lock(2)"))
    await until_waiting(other, one.session.startup.process_id)
    assert (await other.fails("SELECT pg_advisory_xact_lock(1)")).sqlstate == "40P01"
    assert await waiting == [("",)], "what the other had was given back when it failed"


@in_world
async def test_more_can_wait_than_there_are_threads(world: AdapterWorld) -> None:
    one = await world.connect()
    await one.run("SELECT pg_advisory_lock(1)")
    others = [await world.connect() for _ in range(40)]
    tasks = [asyncio.create_task(each.run("SELECT pg_advisory_xact_lock(1)")) for each in others]
    for each in others:
        await until_waiting(one, each.session.startup.process_id)
    await one.run("SELECT pg_advisory_unlock(1)")
    await asyncio.gather(*tasks)
    assert await one.rows("SELECT count(*) FROM pg_locks") == [(0,)]
