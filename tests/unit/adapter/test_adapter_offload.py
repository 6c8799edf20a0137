"""Large statements are read beside the event loop, within budgets, and can be stopped."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from waterclock.adapter.errors import StatementCancelled
from waterclock.adapter.offload import Offload, OutOfMemory
from waterclock.adapter.sequencer.query_plans import planned
from waterclock.errors import WaterclockError
from waterclock.sql.ast.common import QueryText
from waterclock.sql.budget import Abandoned, Budget, Meter
from waterclock.testing.adapter_world import AdapterWorld, in_world

PATIENCE_S = 30.0


def values(count: int) -> str:
    return ", ".join(f"({n}, 'a{n}')" for n in range(count))


def on_a_loop(test: Callable[[Offload], Awaitable[None]]) -> Callable[[], None]:
    """A test that gets a pool of its own, and is a coroutine."""

    def run() -> None:
        work = Offload(Budget(), lambda threads, name: ThreadPoolExecutor(threads, name))
        try:
            asyncio.run(test(work))
        finally:
            work.close()

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@on_a_loop
async def test_small_work_stays_on_the_loop_and_large_work_does_not(work: Offload) -> None:

    def where(steps: int, meter: Meter) -> bool:
        meter.count(steps)
        return threading.current_thread() is threading.main_thread()

    assert await work.run(lambda meter: where(10, meter))
    assert not await work.run(lambda meter: where(1_000_000, meter))
    assert not await work.run(lambda meter: where(10, meter), size=1_000_000)


@on_a_loop
async def test_work_that_nobody_waits_for_ends(work: Offload) -> None:
    begun, ended = threading.Event(), threading.Event()

    def endless(meter: Meter) -> None:
        begun.set()
        try:
            while True:
                meter.count(0)
        except Abandoned:
            ended.set()
            raise

    waiting = asyncio.ensure_future(work.run(endless, size=1_000_000))
    assert await asyncio.to_thread(begun.wait, PATIENCE_S)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await asyncio.to_thread(ended.wait, PATIENCE_S)


@on_a_loop
async def test_what_python_can_not_do_is_an_error_of_the_statement(work: Offload) -> None:

    def deep(_: Meter) -> None:
        deep(_)

    def large(_: Meter) -> None:
        raise MemoryError

    with pytest.raises(WaterclockError) as refused:
        await work.run(deep)
    assert refused.value.sqlstate == "54001"
    with pytest.raises(OutOfMemory):
        await work.run(large, size=1_000_000)


@in_world
async def test_the_loop_goes_on_while_a_large_insert_is_read(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int, b text)")
    gaps: list[float] = []

    async def tick() -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.001)
            gaps.append(time.monotonic() - began)

    ticking = asyncio.ensure_future(tick())
    began = time.monotonic()
    await client.run(f"INSERT INTO t VALUES {values(5000)}")
    taken = time.monotonic() - began
    ticking.cancel()
    assert len(gaps) > 5
    assert max(gaps) < max(taken / 2, 0.3)
    assert await client.rows("SELECT count(*) FROM t") == [(5000,)]


@in_world
async def test_a_timeout_ends_a_statement_that_is_being_planned(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int, b text); SET statement_timeout = 100")
    text = f"INSERT INTO t VALUES {values(60_000)}"
    began = time.monotonic()
    with pytest.raises(StatementCancelled):
        await client.run(text)
    assert time.monotonic() - began < PATIENCE_S
    await client.run("SET statement_timeout = 0")
    assert await client.rows("SELECT count(*) FROM t") == [(0,)]


@in_world
async def test_a_timeout_ends_the_preparation_of_a_statement(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int, b text); SET statement_timeout = 100")
    with pytest.raises(StatementCancelled):
        await client.session.parse("large", f"INSERT INTO t VALUES {values(60_000)}", ())
    with pytest.raises(StatementCancelled):
        await client.session.parse("large", f"VALUES {values(60_000)}", ())
    await client.session.fail()
    await client.session.parse("small", "INSERT INTO t VALUES ($1, $2)", ())
    assert "large" not in client.session.statements


@in_world
async def test_views_that_are_read_twice_are_bound_once(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int); CREATE VIEW v0 AS SELECT a FROM t")
    for n in range(1, 41):
        below = f"v{n - 1}"
        await client.run(f"CREATE VIEW v{n} AS SELECT a FROM {below} UNION SELECT a FROM {below}")
    plan = await planned(client.session, QueryText("SELECT * FROM v40", 1))
    assert plan.bound.parts
    assert len(plan.bound.sql) + sum(len(part.sql) for part in plan.bound.parts) < 500_000
    with pytest.raises(WaterclockError) as refused:
        await planned(client.session, QueryText("SELECT * FROM v40", 1), maintained=True)
    assert (refused.value.sqlstate, "max_plan_nodes" in str(refused.value.hint)) == ("54000", True)


@in_world
async def test_a_deep_chain_of_views_is_planned(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int); CREATE VIEW v0 AS SELECT a FROM t")
    for n in range(1, 31):
        await client.run(f"CREATE VIEW v{n} AS SELECT a + 1 AS a FROM v{n - 1}")
    plan = await planned(client.session, QueryText("SELECT * FROM v30", 1))
    assert not plan.bound.parts
