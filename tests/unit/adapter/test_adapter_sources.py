"""CREATE SOURCE ... FROM LOAD GENERATOR, from the statement to the rows."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from waterclock.adapter.sources import statuses
from waterclock.storage.sources.errors import SourceFault
from waterclock.storage.sources.status import Health, SourceReport, Statistics, Status
from waterclock.testing.adapter_world import AdapterWorld, Client, adapter_world, in_world
from waterclock.testing.frontiers import frontiers

COUNTER = "CREATE SOURCE n FROM LOAD GENERATOR COUNTER (TICK INTERVAL '1ms', MAX 30)"
AUCTION = "CREATE SOURCE house FROM LOAD GENERATOR AUCTION (TICK INTERVAL '1ms', MAX 25)"


async def until(client: Client, query: str, expected: list[tuple[Any, ...]]) -> None:
    """Wait until the query has this answer."""
    deadline = time.monotonic() + 240
    while sorted(found := await client.rows(query)) != sorted(expected):
        assert time.monotonic() < deadline, f"{query} has {found[:5]}, not {expected[:5]}"
        await asyncio.sleep(0.02)


NUMBERS = [(number,) for number in range(1, 31)]


@pytest.mark.semantics(89, 119)
@in_world
async def test_a_counter_counts(world: AdapterWorld) -> None:
    client = await world.connect()
    assert await client.tag(COUNTER) == "CREATE SOURCE"
    await until(client, "SELECT counter FROM n", NUMBERS)
    status = "SELECT name, type, status, error FROM mz_internal.mz_source_statuses"
    await until(client, status, [("n", "load-generator", "finished", None)])
    assert await client.rows("SELECT counter FROM n WHERE counter > 28") == [(29,), (30,)]


@in_world
async def test_what_a_source_has_done_is_shown(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE SOURCE n FROM LOAD GENERATOR COUNTER (TICK INTERVAL '1h')")
    await until(client, "SELECT counter FROM n", [(1,)])
    counts = (
        "SELECT messages_received, bytes_received > 0, updates_committed, offset_known,"
        " offset_committed, lag_ms < 60000, snapshot_records_staged"
        " FROM mz_internal.mz_source_statistics JOIN mz_sources USING (id) WHERE name = 'n'"
    )
    await until(client, counts, [(1, True, 1, 1, 1, True, None)])
    await client.run("DROP SOURCE n")
    await until(client, "SELECT id FROM mz_internal.mz_source_statistics", [])


@in_world
async def test_a_table_that_failed_alone_is_shown(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run(f"{AUCTION} FOR TABLES (users, bids)")
    await until(client, "SELECT count(*) > 0 FROM mz_internal.mz_source_statistics", [(True,)])
    catalog = world.core.current
    report = world.core.sources.reports()[0]
    table = next(i for i in catalog.items() if i.name == "bids")
    failed = {table.id: Status(Health.FAILED, 5000, SourceFault("gone", hint="Mend it."))}
    shown = {each.id: each for each in statuses(catalog, [replace(report, failed=failed)], {})}
    assert shown[str(table.id)].status == "failed"
    assert shown[str(table.id)].error == "gone"
    assert shown[str(report.id)].status != "failed"


@pytest.mark.semantics(167, 170, 171)
@in_world
async def test_progress_is_a_relation(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.tag("CREATE SOURCE n FROM LOAD GENERATOR COUNTER (TICK INTERVAL '1h')")
    await until(client, "SELECT counter FROM n", [(1,)])
    found = await client.one("SELECT * FROM n_progress")
    assert found.names == ["mz_timestamp", "offset"]
    [(time, offset)] = found.rows
    assert offset == 1
    assert await client.rows(f"SELECT * FROM n_progress AS OF {time}") == [(time, 1)]
    later = time + 5
    assert await client.rows(f'SELECT "offset" FROM n_progress AS OF {later}') == [(1,)]
    assert await client.rows(f"SELECT mz_timestamp FROM n_progress AS OF {later}") == [(later,)]


@pytest.mark.semantics(105, 107, 171)
@in_world
async def test_the_history_of_progress_can_be_followed(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.tag(COUNTER.replace("'1ms'", "'10ms'"))
    await until(client, "SELECT counter FROM n", NUMBERS)
    await until(client, "SELECT * FROM n_progress", [])  # a finished source
    [source] = [item.id for item in world.core.current.items() if item.name == "n"]
    [(since, _)] = frontiers(world.core.store, [source]).values()
    found = await client.one(f"SUBSCRIBE n_progress AS OF {since.only()}")
    assert found.names == ["mz_timestamp", "mz_diff", "offset"]
    begin, diff, first = map(int, found.rows[0])
    assert diff == 1
    assert await client.rows(f"SELECT * FROM n_progress AS OF {begin}") == [(begin, first)]
    known = {first}
    for at in sorted({row[0] for row in found.rows[1:]}):
        gone = {row[2] for row in found.rows[1:] if row[0] == at and row[1] == -1}
        come = {row[2] for row in found.rows[1:] if row[0] == at and row[1] == 1}
        assert gone == known  # replaced as a whole, at one time
        known = come
    assert known == set()
    tailed = await client.one("TAIL n_progress AS OF EARLIEST UNTIL LATEST")
    assert tailed.names == found.names
    assert tailed.rows == found.rows


@pytest.mark.semantics(169, 172)
@in_world
async def test_names_of_progress(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.tag("CREATE TABLE n_progress (a int)")
    await client.tag(COUNTER)
    await client.tag(f"{COUNTER.replace(' n ', ' m ')} EXPOSE PROGRESS AS how_far")
    progresses = await client.rows(
        "SELECT p.name, s.name FROM mz_source_progresses p JOIN mz_sources s ON s.id = p.source_id"
    )
    assert sorted(progresses) == [("how_far", "m"), ("n_progress1", "n")]
    kinds = "SELECT name FROM mz_objects WHERE type = 'source_progress'"
    assert sorted(await client.rows(kinds)) == [("how_far",), ("n_progress1",)]
    error = await client.fails(f"{COUNTER.replace(' n ', ' k ')} EXPOSE PROGRESS AS how_far")
    assert error.sqlstate == "42P07"
    assert await client.rows("SHOW SOURCES LIKE 'k'") == []


@pytest.mark.semantics(114, 156)
@in_world
async def test_subsources(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.tag(f"{AUCTION} FOR ALL TABLES WITH (TIMESTAMP INTERVAL '10ms')")
    await until(client, "SELECT count(*) FROM bids", [(25 * 46,)])
    await until(client, "SELECT count(*) FROM auctions", [(25 * 3,)])
    shown = [row[:2] for row in await client.rows("SHOW SOURCES")]
    tables = ("accounts", "auctions", "bids", "organizations", "users")
    assert shown == sorted([("house", "load-generator"), *((t, "subsource") for t in tables)])
    error = await client.fails("SELECT * FROM house")
    assert error.sqlstate == "42809"


@in_world
async def test_some_subsources_under_other_names(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.tag(f"{AUCTION} FOR TABLES (bids AS offers, users)")
    await until(client, "SELECT count(*) FROM offers", [(25 * 46,)])
    await until(client, "SELECT count(*) FROM users", [(125,)])
    assert (await client.fails("SELECT * FROM auctions")).sqlstate == "42P01"


@pytest.mark.semantics(90, 91)
@in_world
async def test_dropping(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.tag(f"{AUCTION} FOR ALL TABLES")
    [house] = [item for item in world.core.current.items() if item.name == "house"]
    await client.tag("DROP SOURCE house")
    assert (await client.fails("SELECT * FROM bids")).sqlstate == "42P01"
    assert (await client.fails("SELECT * FROM house_progress")).sqlstate == "42P01"
    assert world.core.sources.reports() == ()
    found = frontiers(world.core.store, house.collections)
    assert [upper.is_empty for _, upper in found.values()] == [True]
    await client.tag(f"{AUCTION} FOR ALL TABLES")
    await until(client, "SELECT count(*) FROM bids", [(25 * 46,)])


@in_world
async def test_if_not_exists(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.tag(COUNTER)
    assert (await client.fails(COUNTER)).sqlstate == "42P07"
    await client.tag(COUNTER.replace("SOURCE n", "SOURCE IF NOT EXISTS n"))
    assert [notice.sqlstate for notice in client.notices] == ["42P07"]


@pytest.mark.parametrize("crash", [False, True], ids=["closed", "killed"])
def test_sources_go_on_after_a_restart(tmp_path: Path, crash: bool) -> None:
    async def inside() -> None:
        async with adapter_world(tmp_path) as world:
            client = await world.connect()
            await client.tag("CREATE SOURCE n FROM LOAD GENERATOR COUNTER (TICK INTERVAL '40ms')")
            await client.rows("SELECT counter FROM n")
            before = world.core
            if not crash:
                await asyncio.to_thread(world.close)
            await asyncio.to_thread(world.open)
            if crash:
                await asyncio.to_thread(before.sources.close)
            client = await world.connect()
            first = second = await client.rows("SELECT counter FROM n")
            while len(second) <= len(first):
                await asyncio.sleep(0.02)
                second = await client.rows("SELECT counter FROM n")
            assert sorted(second) == [(number,) for number in range(1, len(second) + 1)]
            report = "SELECT status FROM mz_internal.mz_source_statuses"
            assert await client.rows(report) == [("running",)]

    asyncio.run(inside())


@in_world
async def test_columns_can_be_named(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.tag(COUNTER.replace(" n ", " n (k) "))
    await until(client, "SELECT k FROM n WHERE k < 3", [(1,), (2,)])


@in_world
async def test_a_read_of_a_failed_source_says_why(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.tag("CREATE SOURCE n FROM LOAD GENERATOR COUNTER")
    await client.rows("SELECT counter FROM n")
    [report] = world.core.sources.reports()
    status = Status(Health.FAILED, 0, SourceFault("it is gone", hint="Look for it."))
    failed = SourceReport(report.id, status, Statistics())
    world.core.sources.close()
    world.core.sources.failed = lambda _collections: failed  # type: ignore[method-assign]
    world.core.sources.reports = lambda: (failed,)  # type: ignore[method-assign]
    await client.tag("CREATE TABLE t (a int)")
    await client.tag("INSERT INTO t VALUES (1)")
    error = await client.fails("SELECT counter FROM n")
    assert (error.sqlstate, error.message) == ("55000", "source has failed: it is gone")
    assert error.hint == "Look for it."
    shown = await client.rows("SELECT status, error, details FROM mz_internal.mz_source_statuses")
    assert [row[:2] for row in shown] == [("failed", "it is gone")]
    assert "Look for it." in str(shown[0][2])


@pytest.mark.parametrize(
    ("statement", "sqlstate"),
    [
        ("CREATE SOURCE s FROM LOAD GENERATOR CLOCK", "22023"),
        ("CREATE SOURCE s FROM LOAD GENERATOR COUNTER (TICK INTERVAL '0s')", "42601"),
        ("CREATE SOURCE s FROM LOAD GENERATOR COUNTER (TICK INTERVAL 'soon')", "42601"),
        ("CREATE SOURCE s FROM LOAD GENERATOR COUNTER (SCALE FACTOR 1)", "42601"),
        ("CREATE SOURCE s FROM LOAD GENERATOR COUNTER (MAX 0)", "22023"),
        ("CREATE SOURCE s FROM LOAD GENERATOR TPCH (SCALE FACTOR 0) FOR ALL TABLES", "22023"),
        ("CREATE SOURCE s FROM LOAD GENERATOR TPCH (SCALE FACTOR x) FOR ALL TABLES", "42601"),
        ("CREATE SOURCE s FROM LOAD GENERATOR COUNTER FORMAT TEXT", "0A000"),
        ("CREATE SOURCE s FROM LOAD GENERATOR COUNTER ENVELOPE UPSERT", "0A000"),
        ("CREATE SOURCE s FROM LOAD GENERATOR COUNTER FOR ALL TABLES", "0A000"),
        ("CREATE SOURCE s FROM LOAD GENERATOR AUCTION", "42601"),
        ("CREATE SOURCE s FROM LOAD GENERATOR AUCTION FOR TABLES (cars)", "0A000"),
        ("CREATE SOURCE s (a) FROM LOAD GENERATOR AUCTION FOR ALL TABLES", "0A000"),
        ("CREATE SOURCE s (a, b) FROM LOAD GENERATOR COUNTER", "42601"),
        ("CREATE SOURCE s FROM LOAD GENERATOR COUNTER WITH (RETAIN = 1)", "42601"),
        ("CREATE SOURCE s FROM FILE 'a.csv' FORMAT TEXT", "22023"),
    ],
)
def test_refused(tmp_path: Path, statement: str, sqlstate: str) -> None:
    async def inside() -> None:
        async with adapter_world(tmp_path) as world:
            client = await world.connect()
            assert (await client.fails(statement)).sqlstate == sqlstate
            assert await client.rows("SHOW SOURCES") == []

    asyncio.run(inside())
