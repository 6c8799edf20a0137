"""RETAIN HISTORY: past contents that stay readable, also after a restart, until it is reset."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from waterclock.adapter.coordinator import Pace
from waterclock.adapter.retention import kept_longer
from waterclock.errors import WaterclockError
from waterclock.testing.adapter_world import AdapterWorld, in_world

PATIENCE_S = 120.0


async def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it never came to pass"
        await asyncio.sleep(0.02)


async def _forgotten(world: AdapterWorld, name: str, moment: int) -> None:
    """Wait until the table's past is merged beyond the moment."""
    [collection] = [item.id for item in world.core.current.items() if item.name == name]
    await _until(lambda: (world.core.holds.since([collection]) or 0) > moment)


async def _kept_by(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE plain (a int)")
    await client.run("CREATE TABLE kept (a int) WITH (RETAIN HISTORY FOR '1 hour')")
    await client.run("CREATE TABLE errors (key text NOT NULL, message text NOT NULL)")
    ids = {item.name: item.id for item in world.core.current.items()}
    world.engine.errors[ids["kept"]] = (ids["errors"],)  # as those of a view's inputs are
    await client.run("INSERT INTO plain VALUES (1)")
    await client.run("INSERT INTO kept VALUES (1)")
    moment = world.core.oracle.read_ts()
    await client.run("INSERT INTO kept VALUES (2)")
    await _forgotten(world, "plain", moment)
    await client.fails(f"SELECT a FROM plain AS OF {moment}")
    assert await client.rows(f"SELECT a FROM kept AS OF {moment}") == [(1,)]
    assert await client.rows("SELECT a FROM kept") == [(1,), (2,)]

    await asyncio.to_thread(world.close)
    await asyncio.to_thread(world.open)
    client = await world.connect()
    assert await client.rows(f"SELECT a FROM kept AS OF {moment}") == [(1,)]
    [[_, text]] = await client.rows("SHOW CREATE TABLE kept")
    assert text.endswith("WITH (RETAIN HISTORY = '1h')")

    await client.run("ALTER TABLE kept SET (fillfactor = 70)")
    assert await client.rows(f"SELECT a FROM kept AS OF {moment}") == [(1,)]
    await client.run("ALTER TABLE kept RESET (RETAIN HISTORY)")
    await _forgotten(world, "kept", moment)
    await client.fails(f"SELECT a FROM kept AS OF {moment}")
    await client.run("ALTER TABLE kept SET (RETAIN HISTORY FOR '2 days')")
    [[_, text]] = await client.rows("SHOW CREATE TABLE kept")
    assert "'2d'" in text


def test_history_stays_for_as_long_as_it_was_asked_for(tmp_path: Path) -> None:
    async def run() -> None:
        world = await asyncio.to_thread(AdapterWorld, tmp_path, Pace(tick_ms=20, retain_ms=50))
        try:
            await _kept_by(world)
        finally:
            await asyncio.to_thread(world.close)

    asyncio.run(run())


def test_what_is_made_during_a_tick_keeps_its_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, go_on = threading.Event(), threading.Event()

    def slowly(*asked: Any) -> Any:
        found = kept_longer(*asked)
        looked.set()
        assert go_on.wait(PATIENCE_S)
        return found

    async def run() -> None:
        seldom = Pace(tick_ms=3_600_000, retain_ms=1)
        world = await asyncio.to_thread(AdapterWorld, tmp_path, seldom)
        try:
            client = await world.connect()
            monkeypatch.setattr("waterclock.adapter.coordinator.kept_longer", slowly)
            world.core._advanced = -math.inf
            ticking = asyncio.create_task(asyncio.to_thread(world.core._tick))
            await asyncio.to_thread(looked.wait, PATIENCE_S)
            await client.run("CREATE TABLE kept (a int) WITH (RETAIN HISTORY FOR '1 hour')")
            await client.run("INSERT INTO kept VALUES (1)")
            moment = world.core.oracle.read_ts()
            await asyncio.sleep(0.05)
            go_on.set()
            await ticking
            assert await client.rows(f"SELECT a FROM kept AS OF {moment}") == [(1,)]
        finally:
            go_on.set()
            await asyncio.to_thread(world.close)

    asyncio.run(run())


@in_world
async def test_options_that_mean_nothing_here(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int) WITH (fillfactor = 70, autovacuum_enabled = false)")
    await client.run("CREATE VIEW v AS SELECT a FROM t")
    for text, sqlstate, word in (
        ("CREATE TABLE u (a int) WITH (nope = 1)", "22023", "nope"),
        ("CREATE TABLE u (a int) WITH (RETAIN HISTORY FOR 'long')", "42601", "length of time"),
        (
            "CREATE TABLE u (a int) WITH (RETAIN HISTORY FOR '1s', RETAIN HISTORY FOR '1s')",
            *("42601", "redundant"),
        ),
        (
            "CREATE MATERIALIZED VIEW m WITH (REFRESH EVERY '1 day') AS SELECT a FROM t",
            *("0A000", "REFRESH"),
        ),
        (
            "CREATE MATERIALIZED VIEW m WITH (ASSERT NOT NULL a) AS SELECT a FROM t",
            *("0A000", "ASSERT NOT NULL"),
        ),
        ("ALTER VIEW v SET (RETAIN HISTORY FOR '1s')", "0A000", "ALTER VIEW"),
    ):
        fault: Any = await client.fails(text)
        assert isinstance(fault, WaterclockError)
        assert (fault.sqlstate, word in fault.message) == (sqlstate, True), (text, fault)


@pytest.mark.parametrize("kind", ["TABLE", "SOURCE"])
def test_whatever_has_a_past_can_keep_it(kind: str, tmp_path: Path) -> None:
    made = {
        "TABLE": "CREATE TABLE x (a int) WITH (RETAIN HISTORY FOR '1h')",
        "SOURCE": (
            "CREATE SOURCE x FROM LOAD GENERATOR COUNTER (TICK INTERVAL '1h')"
            " WITH (RETAIN HISTORY FOR '1h')"
        ),
    }

    @in_world
    async def run(world: AdapterWorld) -> None:
        client = await world.connect()
        await client.run(made[kind])
        [[_, text]] = await client.rows(f"SHOW CREATE {kind} x")
        assert "RETAIN HISTORY" in text
        [found] = [item for item in world.core.current.items() if item.name == "x"]
        assert found.retain_ms == 3_600_000
        await client.run(f"ALTER {kind} x SET (RETAIN HISTORY FOR '90 min')")
        [[_, text]] = await client.rows(f"SHOW CREATE {kind} x")
        assert text.count("RETAIN HISTORY") == 1
        assert "'90min'" in text

    run(tmp_path)
