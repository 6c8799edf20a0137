"""How long writes wait when views are behind, and that a session's writes do."""

from __future__ import annotations

import asyncio
import itertools
import logging

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.adapter.backpressure import (
    SMALL_ROWS,
    STEADY,
    STRONGEST,
    Backpressure,
    Bounds,
    factor_at,
    pressure_of,
)
from waterclock.adapter.errors import StatementCancelled
from waterclock.compute.api import Backlog
from waterclock.model.ids import GlobalId
from waterclock.testing.adapter_world import AdapterWorld, in_world
from waterclock.testing.examples import examples

VIEW, TABLE, OTHER = GlobalId.user(9), GlobalId.user(1), GlobalId.user(2)
BOUNDS = Bounds(rows=100_000, size=1 << 30, age_ms=60_000, most_delay_s=5.0)


def behind(rows: int, *, size: int = 0, age_ms: int = 0, taken: int = 0) -> Backlog:
    return Backlog(VIEW, frozenset({TABLE}), rows, size, age_ms, taken)


class Time:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_nobody_waits_up_to_the_bounds() -> None:
    policy = Backpressure(BOUNDS, Time())
    assert policy.delay_s([TABLE], 10**6) == 0, "nothing is known yet"
    policy.observe([behind(100_000, size=1 << 30, age_ms=60_000)])
    assert policy.delay_s([TABLE], 10**6) == 0
    assert (policy.delayed_writes, policy.delayed_s) == (0, 0)


@pytest.mark.parametrize(
    "backlog", [behind(200_000), behind(1, size=2 << 30), behind(1, age_ms=120_000)]
)
def test_each_bound_lets_writers_wait(backlog: Backlog) -> None:
    policy = Backpressure(BOUNDS, Time())
    policy.observe([backlog])
    assert pressure_of(backlog, BOUNDS) == 2
    assert policy.delay_s([TABLE], 50_000) == pytest.approx(2.0)
    assert policy.delay_s([OTHER], 50_000) == 0, "only what the view reads"
    assert policy.delayed_writes == 1


@given(st.floats(0, 10), st.floats(0, 0.01))
def test_the_delay_grows_smoothly(pressure: float, more: float) -> None:
    one, other = factor_at(pressure), factor_at(pressure + more)
    assert 0 <= one <= other <= one + 2.001 * more
    assert factor_at(STEADY) == 1
    assert factor_at(STRONGEST) == factor_at(10 * STRONGEST)


def test_a_small_write_does_not_wait_for_large_ones() -> None:
    policy = Backpressure(BOUNDS, Time())
    policy.observe([behind(10**9)])
    large = [policy.delay_s([TABLE], 50_000) for _ in range(3)]
    assert large == [4.0, 5.0, 5.0], "they take turns, and none waits longer than the bound"
    assert policy.delay_s([TABLE], 1) < 0.001
    assert policy.delay_s([TABLE], SMALL_ROWS) < 0.1


def test_large_writes_make_room_for_small_ones() -> None:
    policy = Backpressure(BOUNDS, Time())
    policy.observe([behind(200_000)])
    for _ in range(100):
        policy.delay_s([TABLE], SMALL_ROWS)
    assert policy.delay_s([TABLE], SMALL_ROWS + 1) > 2


@examples(40)
@given(st.integers(2_000, 200_000), st.integers(2, 20), st.integers(1, 60_000))
def test_a_writer_without_rest_keeps_the_backlog_bounded(
    maintained: int, faster: int, commit: int
) -> None:
    """Many times faster than the view: the backlog stays below twice the bound, and flows."""
    time = Time()
    policy = Backpressure(Bounds(2_000_000, 1 << 60, 10**12, 60.0), time)
    waiting, taken, written = 0.0, 0.0, 0
    highest = 0.0
    observed = time.now
    for _ in range(3_000):
        delay_s = policy.delay_s([TABLE], commit)
        assert delay_s <= 60
        passed = delay_s + commit / (maintained * faster)
        time.now += passed
        done = min(waiting, maintained * passed)
        waiting, taken = waiting - done + commit, taken + done
        written += commit
        highest = max(highest, waiting)
        if time.now >= observed + 0.2:
            observed = time.now
            policy.observe([behind(int(waiting), taken=int(taken))])
    assert highest <= 2 * 2_000_000
    assert taken + waiting == pytest.approx(written)
    spent = time.now - 100
    if highest > STEADY * 1_900_000:  # it was held back: at the rate of the view, not below
        assert written / spent > maintained / 2


def test_it_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    policy = Backpressure(BOUNDS, Time())
    with caplog.at_level(logging.INFO):
        for rows in itertools.chain([0], [150_000] * 5, [90_000] * 3, [150_000], [0, 0]):
            policy.observe([behind(rows)])
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING", "INFO"]


def test_views_that_are_gone_hold_nobody_back() -> None:
    policy = Backpressure(BOUNDS, Time())
    policy.observe([behind(10**9)])
    assert policy.pressure > 1
    assert policy.rows_behind(VIEW) == 10**9
    policy.observe([])
    assert policy.delay_s([TABLE], 10**6) == 0
    assert policy.pressure == policy.rows_behind(VIEW) == 0


def test_defaults_are_those_of_the_server() -> None:
    from waterclock.adapter.budgets import Budgets
    from waterclock.persist.cutting import Limit
    from waterclock.server.configuration import Configuration

    told = Configuration()
    assert Budgets().step == Limit(told.max_step_rows, told.max_step_bytes)
    assert Budgets().backlog == Bounds(
        told.max_backlog_rows,
        told.max_backlog_bytes,
        told.max_backlog_age,
        told.max_write_delay / 1000,
    )


def slow_down(world: AdapterWorld) -> None:
    """Let a view over the table t be far behind, and stay so."""
    [table] = [item.id for item in world.core.current.items() if item.name == "t"]
    world.engine.behind = [Backlog(VIEW, frozenset({table}), 10**9, 0, 0, 0)]
    world.core.backpressure.observe(world.engine.behind)


def rows(count: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_arrays([pa.array(range(count), pa.int32())], names=["a"])]


@in_world
async def test_a_large_write_waits_and_the_client_is_told(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int)")
    slow_down(world)
    began = asyncio.get_running_loop().time()
    for _ in range(2):
        await client.one("COPY t FROM STDIN", rows(2_500))
    assert asyncio.get_running_loop().time() - began >= 0.4
    [notice] = client.notices  # not with every write
    assert notice.message == "the write is delayed by 0.2 s because views are behind"
    assert "max_backlog_rows" in str(notice.hint)


@in_world
async def test_others_do_not_wait_meanwhile(world: AdapterWorld) -> None:
    """Whoever writes little, elsewhere, reads, or changes the catalog."""
    large, other = await world.connect(), await world.connect()
    await other.run("CREATE TABLE t (a int); CREATE TABLE elsewhere (a int)")
    slow_down(world)
    waiting = asyncio.ensure_future(large.one("COPY t FROM STDIN", rows(1_000_000)))
    while not large.notices:
        await asyncio.sleep(0)
    await other.run("INSERT INTO t VALUES (1); CREATE TABLE more (a int); DROP TABLE more")
    await other.one("COPY elsewhere FROM STDIN", rows(100_000))
    assert await other.rows("SELECT a FROM t") == [(1,)]
    assert not waiting.done()
    large.session.cancel()
    with pytest.raises(StatementCancelled, match="user request"):
        await waiting


@in_world
async def test_a_write_that_is_stopped_while_it_waits_has_not_happened(
    world: AdapterWorld,
) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int)")
    slow_down(world)
    waiting = asyncio.ensure_future(client.one("COPY t FROM STDIN", rows(1_000_000)))
    while not client.notices:
        await asyncio.sleep(0)
    client.session.cancel()
    with pytest.raises(StatementCancelled):
        await waiting
    assert await client.rows("SELECT a FROM t") == []
    assert await client.tag("INSERT INTO t VALUES (2)") == "INSERT 0 1", "the session goes on"
    assert await client.rows("SELECT a FROM t") == [(2,)]


@in_world
async def test_a_commit_ends_by_the_clock_while_it_waits(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int); SET statement_timeout = 50")
    slow_down(world)
    await client.run("BEGIN")
    await client.one("COPY t FROM STDIN", rows(1_000_000))
    error = await client.fails("COMMIT")
    assert error.sqlstate == "57014"
    assert await client.rows("SELECT a FROM t") == []
