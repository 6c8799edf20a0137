"""Subscriptions hold history for as long as somebody asks, and not much longer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from waterclock.adapter.coordinator import Pace
from waterclock.adapter.holds import HoldExpired, Holds
from waterclock.model.ids import GlobalId
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.consensus.memory import MemoryConsensus
from waterclock.persist.store import Store
from waterclock.runtime import Runtime
from waterclock.storage.api import Description
from waterclock.storage.controller import Storage
from waterclock.testing.adapter_world import AdapterWorld, Client, adapter_world
from waterclock.testing.storage_world import SCHEMA

QUICK = Pace(tick_ms=20, retain_ms=50)
HELD = "SELECT lease_ms, expires_at FROM mz_internal.mz_read_holds WHERE kind = 'subscription'"


class Clock(Runtime):
    """Time that a test moves."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


@pytest.mark.semantics(46, 55)
def test_a_lease_that_is_over_releases_its_hold_and_no_other() -> None:
    clock = Clock()
    storage = Storage(Store.open(MemoryBlob(), MemoryConsensus(), "test", runtime=clock))
    reader, _ = storage.create(GlobalId.user(1), Description(SCHEMA), start=at(10))
    holds = Holds(storage)
    holds.adopt(reader)
    leased, waited_for, other = (holds.take([reader.id]) for _ in range(3))
    leased.renew(5000)
    waited_for.renew(5000)
    waited_for.renew(None)  # somebody is asking right now
    other.move(20)
    clock.now_s = 4.9
    holds.allow_compaction(50)
    assert since(holds) == 10
    leased.renew(5000)
    clock.now_s = 9.8
    holds.allow_compaction(50)
    assert since(holds) == 10, "it was renewed"
    clock.now_s = 60.0
    holds.allow_compaction(50)
    with pytest.raises(HoldExpired):
        leased.renew(5000)
    assert since(holds) == 10, "who waits is there"
    waited_for.close()
    holds.allow_compaction(50)
    assert since(holds) == 20
    other.renew(1000)
    assert holds.opened() == [other]
    storage.close()


def at(time: int):  # type: ignore[no-untyped-def]
    return EPOCH_MILLIS.frontier(time)


def since(holds: Holds) -> int | None:
    return holds.capability(GlobalId.user(1)).frontier.only()


async def subscribing(world: AdapterWorld, lease: str) -> Client:
    """A client that has begun to read a subscription."""
    client = await world.connect()
    await client.run(f"SET subscription_lease = '{lease}'; BEGIN")
    await client.run("DECLARE c CURSOR FOR SUBSCRIBE t WITH (PROGRESS)")
    assert await client.rows("FETCH 1 c")
    return client


@pytest.mark.semantics(46, 55)
def test_who_does_not_ask_in_time_is_told_and_keeps_nothing(tmp_path: Path) -> None:
    async def inside() -> None:
        async with adapter_world(tmp_path, pace=QUICK) as world:
            other = await world.connect()
            await other.run("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
            patient = await subscribing(world, "0")
            hasty = await subscribing(world, "200ms")
            shown = await other.rows(HELD)
            assert sorted(lease is None for lease, _ in shown) == [False, True]
            async with asyncio.timeout(120):
                while len(await other.rows(HELD)) > 1:
                    await asyncio.sleep(0.02)
            fault = await hasty.fails("FETCH 1 c")
            assert fault.sqlstate == "55000"
            assert fault.hint is not None
            assert "subscription_lease" in fault.hint
            assert await patient.rows("FETCH 1 c"), "nobody else has noticed"

    asyncio.run(inside())


def test_who_waits_is_there_however_long_nothing_happens(tmp_path: Path) -> None:
    async def inside() -> None:
        async with adapter_world(tmp_path, pace=QUICK) as world:
            other, client = await world.connect(), await world.connect()
            await other.run("CREATE TABLE t (a int)")
            await client.run("SET subscription_lease = '100ms'; BEGIN")
            await client.run("DECLARE c CURSOR FOR SUBSCRIBE t")
            waiting = asyncio.create_task(client.rows("FETCH 1 c WITH (TIMEOUT = '120s')"))
            await asyncio.sleep(0.5)  # several leases
            await other.run("INSERT INTO t VALUES (7)")
            [row] = await waiting
            assert row[-1] == 7

    asyncio.run(inside())
