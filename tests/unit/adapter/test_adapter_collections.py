"""What storage has of tables, sources, views and indexes, and who holds it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from waterclock.adapter.coordinator import Pace
from waterclock.compute.api import View
from waterclock.model.ids import GlobalId
from waterclock.persist.records import AnyEvent
from waterclock.persist.rows import DIFF, TIME
from waterclock.persist.state import State
from waterclock.persist.store import Plan
from waterclock.runtime import SYSTEM
from waterclock.storage import riders
from waterclock.storage.api import Progress, Token, WriteCapability
from waterclock.storage.controller import Storage
from waterclock.testing.adapter_world import AdapterWorld, Client, NotedEngine, SmallEngine
from waterclock.testing.control.engine import Machine, engine_of, without_jvm
from waterclock.testing.control.ports import Disk
from waterclock.testing.frontiers import frontiers

COUNTER = "CREATE SOURCE s FROM LOAD GENERATOR COUNTER (TICK INTERVAL '20ms')"


def item(world: AdapterWorld, name: str) -> Any:
    [found] = [each for each in world.core.current.items() if each.name == name]
    return found


def stored(storage: Storage, collection: GlobalId, time: int) -> Counter[tuple[Any, ...]]:
    """What storage itself gives for a collection at a time, to whoever acquires it."""
    reader, _ = storage.acquire_capabilities(collection, write=False)
    rows: Counter[tuple[Any, ...]] = Counter()
    try:
        subscription = storage.subscribe_at(reader, as_of=reader.frontier.timeline.frontier(time))
        while not isinstance(message := next(subscription), Progress):
            names = [name for name in message.batch.schema.names if name not in (TIME, DIFF)]
            columns = [message.batch.column(name).to_pylist() for name in (*names, TIME, DIFF)]
            for *row, at, diff in zip(*columns, strict=True):
                rows[tuple(row)] += diff if at <= time else 0
        subscription.close()
    finally:
        storage.drop_capability(reader)
    return +rows


async def until(client: Client, query: str, least: int) -> None:
    async with asyncio.timeout(120):
        while len(await client.rows(query)) < least:
            await asyncio.sleep(0.02)


def computing() -> Machine:
    """An engine that maintains views over numbers, without a JVM, and never fails."""
    chance = random.Random(1)
    machine = Machine(Disk(chance, SYSTEM), chance)  # type: ignore[arg-type]
    machine.failure_rate = 0.0
    return machine


@pytest.mark.semantics(41, 42, 44, 60)
def test_users_sources_and_the_system_fill_collections_of_storage(tmp_path: Path) -> None:
    """Rows of users, what comes from outside, what compute gives back, and how far sources are: all
    of it is in storage, can be read there alone, and is the same after a crash.
    """

    async def inside() -> None:
        world = await asyncio.to_thread(AdapterWorld, tmp_path, open_engine=engine_of(machine))
        client = await world.connect()
        await client.run("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2), (2)")
        await client.run(COUNTER)
        await client.run("CREATE MATERIALIZED VIEW m AS SELECT a FROM t WHERE a > 1")
        await client.run("CREATE MATERIALIZED VIEW n AS SELECT counter FROM s WHERE counter > 2")
        await client.run("CREATE READ HOLD h ON t, s, s_progress, m, n")
        await until(client, "SELECT * FROM n", 3)
        await client.run("INSERT INTO t VALUES (7); DELETE FROM t WHERE a = 1")
        await client.rows("SELECT * FROM m")
        time = world.core.oracle.read_ts()
        source = item(world, "s")
        collections = {name: item(world, name).id for name in ("t", "s", "m", "n")}
        collections["s_progress"] = source.collections[0]
        found = {name: await read(client, name, time) for name in collections}
        for restart in (False, True):
            if restart:  # the first server is as dead as after kill -9
                await asyncio.to_thread(world.open)
            for name, collection in collections.items():
                given = await asyncio.to_thread(stored, world.storage, collection, time)
                assert given == found[name], name
        assert found["t"] == Counter({(2,): 2, (7,): 1})
        assert found["m"] == found["t"]
        assert found["n"] == Counter(row for row in found["s"] if row[0] > 2)
        assert len(found["n"]) >= 3
        assert len(found["s_progress"]) == 1
        await world.front.settle()
        await asyncio.to_thread(world.close)

    async def read(client: Client, name: str, time: int) -> Counter[tuple[Any, ...]]:
        columns = '"offset"' if name == "s_progress" else "*"
        return Counter(await client.rows(f"SELECT {columns} FROM {name} AS OF {time}"))

    machine = computing()
    with without_jvm():
        asyncio.run(inside())
    machine.close()


class Witness(NotedEngine):
    """Keeps what it is told to maintain, with holds on the inputs as compute has them."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[View, int]] = []

    def installation(
        self, view: View, as_of: int, outputs: Sequence[WriteCapability], errors: WriteCapability
    ) -> Plan[None]:
        self.asked.append((view, as_of))
        tokens = [each.token for each in (*outputs, errors)]

        def plan(state: State) -> tuple[list[AnyEvent], None]:
            events: list[AnyEvent] = []
            held: list[Token] = []
            for collection in view.inputs:
                more, reader = riders.hold(collection, as_of)(state)
                events += more
                held.append(reader.token)
            note = ",".join([*tokens, *held]).encode()
            return events + self.notes.events({str(outputs[0].id): note}), None

        return plan


@pytest.mark.semantics(70, 73, 96)
def test_an_index_is_maintained_from_its_creation_to_its_drop(tmp_path: Path) -> None:
    """From one time at which all inputs can be read; its own history is held and let go as that of
    a table is; and with DROP INDEX everything goes, also what was held of the inputs.
    """
    engine = Witness()

    async def inside() -> None:
        pace = Pace(tick_ms=600_000, retain_ms=0)
        world = await asyncio.to_thread(AdapterWorld, tmp_path, pace, engine=engine)
        client = await world.connect()
        await client.run("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
        await asyncio.to_thread(world.core.holds.allow_compaction, world.core.oracle.read_ts())
        await client.run("CREATE TABLE u (a int)")  # its history begins later
        inputs = [item(world, name).id for name in ("t", "u")]
        await client.run("CREATE VIEW v AS SELECT t.a FROM t JOIN u ON t.a = u.a")
        await client.run("CREATE INDEX i ON v (a)")
        [(view, as_of)] = engine.asked
        assert set(view.inputs) == set(inputs)
        assert view.results[0].keys == ("a",)
        sinces = [since.only() for since, _ in frontiers(world.core.store, inputs).values()]
        assert None not in sinces
        assert as_of >= max(since for since in sinces if since is not None)
        index = item(world, "i")
        later = as_of + 60_000
        await asyncio.to_thread(world.core.holds.allow_compaction, later)
        await asyncio.to_thread(world.core.holds.allow_compaction, later)
        assert world.core.holds.capability(index.id).frontier.only() == later, "and moves it along"
        for each in inputs:
            held = [since for since, _ in frontiers(world.core.store, [each]).values()]
            assert held[0].only() == as_of, "compute holds the inputs as far back as it began"
        await client.run("DROP INDEX i")
        assert not engine.notes.all()
        gone = frontiers(world.core.store, [index.id, *index.collections])
        assert all(since.is_empty and upper.is_empty for since, upper in gone.values())
        await asyncio.to_thread(world.core.holds.allow_compaction, later)
        for since, _ in frontiers(world.core.store, inputs).values():
            assert since.only() == later, "nobody holds them for the index any more"
        await world.front.settle()
        await asyncio.to_thread(world.close)

    asyncio.run(inside())


@pytest.mark.semantics(79)
def test_definitions_have_no_time_and_ids_in_their_order(tmp_path: Path) -> None:
    """As of a time before it was made, a view is what its tables were then: that is the anomaly."""

    async def inside() -> None:
        world = await asyncio.to_thread(AdapterWorld, tmp_path, engine=SmallEngine())
        client = await world.connect()
        await client.run("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
        before = world.core.oracle.read_ts()
        await client.run("INSERT INTO t VALUES (2)")
        await client.run("CREATE VIEW v AS SELECT a FROM t")
        assert await client.rows(f"SELECT a FROM v AS OF {before}") == [(1,)]
        await client.run("CREATE VIEW w AS SELECT a FROM v; DROP VIEW w")
        await client.run("CREATE VIEW w AS SELECT a FROM v")
        ids = [item(world, name).id for name in ("t", "v", "w")]
        assert ids == sorted(ids)
        assert ids[2].number > ids[1].number + 1, "that of the view that was dropped stays its own"
        await world.front.settle()
        await asyncio.to_thread(world.close)

    asyncio.run(inside())
