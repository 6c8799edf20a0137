"""What whole statements promise about order, names and objects, over real storage."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from waterclock.adapter.coordinator import Coordinator
from waterclock.catalog.objects import Source
from waterclock.model.ids import GlobalId
from waterclock.oracle.oracle import Oracle
from waterclock.persist.state import State
from waterclock.storage.api import Write
from waterclock.storage.controller import Storage
from waterclock.testing.adapter_world import (
    AdapterWorld,
    Client,
    NotedEngine,
    SmallEngine,
    adapter_world,
    in_world,
)
from waterclock.testing.frontiers import frontiers
from waterclock.testing.storage_world import HeldConsensus

COUNTER = "CREATE SOURCE {} FROM LOAD GENERATOR COUNTER (TICK INTERVAL '20ms')"


def item(core: Coordinator, name: str) -> Any:
    [found] = [each for each in core.current.items() if each.name == name]
    return found


async def until_rows(client: Client, query: str, least: int = 1) -> list[tuple[Any, ...]]:
    """The rows of a query, once there are so many."""
    deadline = time.monotonic() + 120
    while len(rows := await client.rows(query)) < least:
        assert time.monotonic() < deadline, f"{query} has only {rows}"
        await asyncio.sleep(0.02)
    return rows


# Names and what they mean


@pytest.mark.semantics(76, 77, 78)
def test_a_view_goes_on_reading_what_it_was_made_of(tmp_path: Path) -> None:
    """Whatever its tables are called later, and whatever is called as they were."""

    async def inside() -> None:
        world = await asyncio.to_thread(AdapterWorld, tmp_path, engine=SmallEngine())
        client = await world.connect()
        await client.run("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
        await client.run("CREATE VIEW v AS SELECT a FROM t")
        await client.run("ALTER TABLE t RENAME TO old; CREATE TABLE t (a int)")
        await client.run("INSERT INTO t VALUES (2)")
        assert await client.rows("SELECT a FROM v") == [(1,)]
        assert await client.rows("SELECT a FROM t") == [(2,)], "a query follows the name"
        await client.run("ALTER TABLE t SWAP WITH old; INSERT INTO t VALUES (3)")
        assert sorted(await client.rows("SELECT a FROM v")) == [(1,), (3,)]
        assert await client.rows("SELECT a FROM old") == [(2,)]
        await world.front.settle()
        await asyncio.to_thread(world.close)
        await asyncio.to_thread(world.open)
        client = await world.connect()
        await client.run("ALTER TABLE t SWAP WITH old; INSERT INTO t VALUES (4)")
        assert sorted(await client.rows("SELECT a FROM v")) == [(1,), (3,)]
        await world.front.settle()
        await asyncio.to_thread(world.close)

    asyncio.run(inside())


# One durable order


@pytest.mark.semantics(69, 80)
def test_nothing_is_acknowledged_before_it_is_durable(tmp_path: Path) -> None:
    """Each statement waits for the log; after a crash all that was acknowledged is there."""
    statements = (
        "CREATE TABLE t (a int)",
        "INSERT INTO t VALUES (1)",
        "BEGIN; INSERT INTO t VALUES (2); INSERT INTO t VALUES (3); COMMIT",
        "DELETE FROM t",
        "INSERT INTO t VALUES (4)",
        "ALTER TABLE t RENAME TO u",
        "CREATE READ HOLD h ON u",
    )
    consensus = HeldConsensus()

    def let_through_later() -> None:
        assert consensus.asked.wait(120)
        time.sleep(0.05)
        consensus.let_through.set()

    async def inside() -> None:
        world = await asyncio.to_thread(AdapterWorld, tmp_path, consensus=consensus)
        client = await world.connect()
        for text in statements:
            consensus.hold()
            release = threading.Thread(target=let_through_later)
            release.start()
            await client.run(text)
            assert consensus.let_through.is_set(), f"acknowledged before it was durable: {text}"
            release.join()
        await asyncio.to_thread(world.open)  # the first server is as dead as after kill -9
        again = await world.connect()
        assert await again.rows("SELECT a FROM u") == [(4,)]
        assert len(await again.rows("SELECT 1 FROM mz_internal.mz_read_holds WHERE holder = 'h'"))
        await world.front.settle()
        await asyncio.to_thread(world.close)

    asyncio.run(inside())


@pytest.mark.semantics(76, 80, 83)
@in_world
async def test_every_session_sees_what_was_acknowledged_to_another(world: AdapterWorld) -> None:
    clients = [await world.connect() for _ in range(3)]
    await clients[0].run("CREATE TABLE t (a int)")
    for number in range(30):
        await clients[number % 3].run(f"INSERT INTO t VALUES ({number})")
        rows = await clients[(number + 1) % 3].rows("SELECT a FROM t ORDER BY a")
        assert rows == [(n,) for n in range(number + 1)]


# AS OF


@pytest.mark.semantics(88)
@in_world
async def test_as_of_reads_at_its_time_and_does_not_ask_the_oracle(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int)")
    times = []
    for number in range(3):
        await client.run(f"INSERT INTO t VALUES ({number})")
        times.append(world.core.oracle.read_ts())
    with pytest.MonkeyPatch.context() as patch:
        asked: list[object] = []
        patch.setattr(Oracle, "read_ts", lambda *given: asked.append(given) or 0)
        for number, at in enumerate(times):
            rows = await client.rows(f"SELECT a FROM t ORDER BY a AS OF {at}")
            assert rows == [(n,) for n in range(number + 1)], "all writes up to and including it"
            rows = await client.rows(f"SELECT a FROM t ORDER BY a AS OF {at - 1}")
            assert rows == [(n,) for n in range(number)]
        assert not asked
    assert world.core.oracle.read_ts() >= times[-1]


@pytest.mark.semantics(88)
@in_world
async def test_as_of_the_future_waits_and_sees_what_comes_until_then(world: AdapterWorld) -> None:
    client, other = await world.connect(), await world.connect()
    await client.run("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
    ahead = world.core.runtime.wall_ms() + 700
    waiting = asyncio.create_task(client.rows(f"SELECT a FROM t ORDER BY a AS OF {ahead}"))
    await other.run("INSERT INTO t VALUES (2)")
    assert world.core.oracle.read_ts() <= ahead
    assert not waiting.done()
    assert await waiting == [(1,), (2,)]
    assert world.core.runtime.wall_ms() > ahead


@pytest.mark.semantics(88)
@in_world
async def test_as_of_what_is_no_time_is_an_error(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int)")
    for moment in ("1", "NULL", "'yesterday or so'", "-1", "2.5", "'2020-01-01'"):
        fault = await client.fails(f"SELECT * FROM t AS OF {moment}")
        assert fault.sqlstate == "22023", (moment, fault)


# Transactions


@pytest.mark.semantics(98, 100, 101)
@in_world
async def test_nothing_is_appended_before_the_commit_and_then_all_at_once(
    world: AdapterWorld,
) -> None:
    client, other = await world.connect(), await world.connect()
    await client.run("CREATE TABLE t (a int); CREATE TABLE u (a int)")
    ids = [item(world.core, name).id for name in ("t", "u")]
    appended: list[list[GlobalId]] = []
    right = Storage.append

    def watched(self: Storage, *writes: Write) -> Any:
        filled = [w.capability.id for w in writes if w.updates is not None]
        if filled:
            appended.append(filled)
        return right(self, *writes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Storage, "append", watched)
        await client.run("BEGIN; INSERT INTO t VALUES (1); INSERT INTO u VALUES (1)")
        assert await client.rows("SELECT a FROM t") == [(1,)]
        await client.run("INSERT INTO t VALUES (2); DELETE FROM u")
        assert await other.rows("SELECT a FROM t") == []
        assert appended == []
        assert stored_rows(world, ids) == [0, 0]
        await client.run("INSERT INTO u VALUES (3); COMMIT")
    assert stored_rows(world, ids) == [2, 1]
    time_of_both = world.core.oracle.read_ts()
    for text in ("SELECT a FROM t", "SELECT a FROM u"):
        assert await other.rows(f"{text} AS OF {time_of_both - 1}") == []
    assert sorted(await other.rows("SELECT a FROM t")) == [(1,), (2,)]
    assert await other.rows("SELECT a FROM u") == [(3,)]
    await client.run("BEGIN; INSERT INTO t VALUES (9); INSERT INTO u VALUES (9); ROLLBACK")
    assert stored_rows(world, ids) == [2, 1], "no trace"


@pytest.mark.semantics(100, 101)
@in_world
async def test_a_commit_that_is_refused_leaves_nothing_of_itself(world: AdapterWorld) -> None:
    """One of its tables is dropped meanwhile: the others get nothing either."""
    client, other = await world.connect(), await world.connect()
    await client.run("CREATE TABLE t (a int); CREATE TABLE u (a int)")
    await client.run("BEGIN; INSERT INTO t VALUES (1); INSERT INTO u VALUES (1)")
    await other.run("DROP TABLE u")
    assert (await client.fails("COMMIT")).sqlstate in ("42P01", "40001")
    assert await other.rows("SELECT a FROM t") == []
    assert stored_rows(world, [item(world.core, "t").id]) == [0]


@pytest.mark.semantics(93)
@in_world
async def test_writes_of_one_turn_are_one_append(world: AdapterWorld) -> None:
    clients = [await world.connect() for _ in range(20)]
    await clients[0].run("CREATE TABLE t (a int)")
    table = item(world.core, "t").id
    await asyncio.gather(
        *(client.run(f"INSERT INTO t VALUES ({n})") for n, client in enumerate(clients))
    )
    assert sorted(await clients[0].rows("SELECT a FROM t")) == [(n,) for n in range(20)]

    def look(state: State) -> tuple[int, int]:
        batches = state.shards[str(table)].batches.values()
        return len(batches), len({batch.min_time for batch in batches})

    batches, times = world.core.store.read(look)
    assert batches == times, "all writes of a time to a table are one append"
    assert batches < 20


def stored_rows(world: AdapterWorld, tables: list[GlobalId]) -> list[int]:
    """How many updates storage has of each of the tables."""

    def look(state: State) -> list[int]:
        shards = [state.shards[str(table)] for table in tables]
        return [sum(batch.rows for batch in shard.batches.values()) for shard in shards]

    return world.core.store.read(look)


@pytest.mark.semantics(46, 56, 57, 71, 92)
def test_the_right_to_write_is_to_be_had_for_tables_alone(tmp_path: Path) -> None:
    """Not for the outputs of views, nor for what comes from outside, whoever asks."""

    async def inside() -> None:
        world = await asyncio.to_thread(AdapterWorld, tmp_path, engine=NotedEngine())
        client = await world.connect()
        await client.run("CREATE TABLE t (a int); CREATE VIEW v AS SELECT a FROM t")
        await client.run("CREATE MATERIALIZED VIEW m AS SELECT a FROM t; CREATE INDEX i ON v (a)")
        await client.run(COUNTER.format("s"))
        await client.run("CREATE SOURCE w FROM WEBHOOK BODY FORMAT TEXT")
        for name in ("t", "m", "i", "s", "w"):
            found = item(world.core, name)
            for collection in {found.id, *found.collections}:
                _, writer = await asyncio.to_thread(
                    world.storage.acquire_capabilities, collection, read=False
                )
                assert writer.frontier.is_empty == (name != "t"), name
        await world.front.settle()
        await asyncio.to_thread(world.close)

    asyncio.run(inside())


# Sources


@pytest.mark.semantics(90)
@in_world
async def test_sources_with_the_same_arguments_are_two(world: AdapterWorld) -> None:
    """Each has its own collections, its own contents at a time, and its own life."""
    client = await world.connect()
    await client.run(COUNTER.format("one"))
    await until_rows(client, "SELECT * FROM one", 10)
    await client.run(COUNTER.format("two"))
    await until_rows(client, "SELECT * FROM two")
    one, two = item(world.core, "one"), item(world.core, "two")
    assert not {one.id, *one.collections} & {two.id, *two.collections}
    at = world.core.oracle.read_ts()
    older = await client.rows(f"SELECT * FROM one AS OF {at}")
    younger = await client.rows(f"SELECT * FROM two AS OF {at}")
    assert len(older) > len(younger), "the same arguments, and other contents at the same time"
    await client.run("DROP SOURCE one")
    await until_rows(client, "SELECT * FROM two", len(younger) + 3)


@pytest.mark.semantics(90, 91)
@in_world
async def test_a_source_works_until_it_is_dropped_and_then_lets_go(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run(COUNTER.format("s"))
    source = item(world.core, "s")
    reached = 0
    for _ in range(3):  # nobody reads it
        while (upper := upper_of(world, source.id)) <= reached:
            await asyncio.sleep(0.01)
        reached = upper
    await client.run("DROP SOURCE s")
    found = frontiers(world.core.store, [source.id, *source.collections])
    assert all(since.is_empty and upper.is_empty for since, upper in found.values())
    assert world.core.sources.reports() == ()


SINCE = "SELECT DISTINCT since FROM mz_internal.mz_read_holds WHERE holder = 'h'"


def upper_of(world: AdapterWorld, collection: GlobalId) -> int:
    found = frontiers(world.core.store, [collection])[collection][1].only()
    assert found is not None
    return found


@pytest.mark.semantics(110, 156, 165, 166)
def test_a_source_is_two_definite_collections_and_no_more(tmp_path: Path) -> None:
    """The one of its id has the data, at times; another has the bindings. No other one there is."""

    async def inside() -> None:
        async with adapter_world(tmp_path) as world:
            before = set(world.core.store.read(lambda state: set(state.shards)))
            client = await world.connect()
            await client.run(COUNTER.format("s"))
            await until_rows(client, "SELECT * FROM s", 5)
            source = item(world.core, "s")
            assert isinstance(source, Source)
            made = world.core.store.read(lambda state: set(state.shards)) - before
            assert made == {str(source.id), *map(str, source.collections)}
            [remap] = source.collections
            columns = world.core.store.read(
                lambda state: {each: state.shards[each].schema.names for each in made}
            )
            assert columns == {str(source.id): ("counter",), str(remap): ("offset",)}
            await client.run("CREATE READ HOLD h ON s, s_progress")
            [(since,)] = await client.rows(SINCE)
            while upper_of(world, source.id) < since + 200:
                await asyncio.sleep(0.02)
            moments = range(since, since + 200, 20)
            told = [await both(client, at) for at in moments]
            assert all(len(rows) == bound for rows, [(bound,)] in told if bound), "one binding each"
            await asyncio.to_thread(world.close)
            await asyncio.to_thread(world.open)
            client = await world.connect()
            again = [await both(client, at) for at in moments]
            assert again == told, "definite: the same at the same time, also after a restart"

    async def both(client: Client, at: int) -> tuple[list[Any], list[Any]]:
        rows = sorted(await client.rows(f"SELECT * FROM s AS OF {at}"))
        progress = await client.rows(f'SELECT "offset" FROM s_progress AS OF {at}')
        return rows, progress or [(0,)]

    asyncio.run(inside())


@pytest.mark.semantics(166)
@in_world
async def test_what_is_held_by_the_id_of_a_source_is_its_data(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run(COUNTER.format("s"))
    await until_rows(client, "SELECT * FROM s", 3)
    source = item(world.core, "s")
    moved = world.core.holds.capability(source.id)
    assert moved.id == source.id
    upper = upper_of(world, source.id)
    with world.core.holds.take([source.id]) as hold:
        kept = hold.times[source.id]
        world.core.holds.allow_compaction(upper - 1)
        [(data, _), (bindings, _)] = frontiers(
            world.core.store, [source.id, *source.collections]
        ).values()
        assert data.only() == kept
        assert bindings.only() != kept, "the bindings are another collection, with its own since"


# Indexes


REFUSED = (
    "random()",
    "gen_random_uuid()",
    "now()",
    "current_timestamp",
    "current_date",
    "localtimestamp",
    "clock_timestamp()",
    "'now'::timestamptz",
    "current_user",
    "session_user",
    "current_database()",
)


@pytest.mark.semantics(94)
def test_only_deterministic_definitions_can_be_indexed(tmp_path: Path) -> None:
    """A view that is not one is refused already when it is made, so there is nothing to index."""

    async def inside() -> None:
        world = await asyncio.to_thread(AdapterWorld, tmp_path, engine=NotedEngine())
        client = await world.connect()
        await client.run("CREATE TABLE t (a int, b text); CREATE VIEW v AS SELECT a, b FROM t")
        assert await client.tag("CREATE INDEX ON v (a)") == "CREATE INDEX"
        assert await client.tag("CREATE INDEX ON t (b)") == "CREATE INDEX"
        for call in REFUSED:
            for text in (
                f"CREATE VIEW w AS SELECT a, {call} AS x FROM t",
                f"CREATE VIEW w AS SELECT a FROM t WHERE {call} IS NOT NULL",
                f"CREATE VIEW w AS SELECT a, (SELECT max({call}::text) FROM t) AS x FROM v",
                f"CREATE MATERIALIZED VIEW w AS SELECT a, {call} AS x FROM t",
            ):
                fault = await client.fails(text)
                assert fault.sqlstate == "0A000", text
                assert fault.hint, text
            assert (await client.fails("CREATE INDEX ON w (a)")).sqlstate == "42P01"
        await world.front.settle()
        await asyncio.to_thread(world.close)

    asyncio.run(inside())
