"""Views, indexes and subscriptions on a timeline that a source brings with it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from waterclock.errors import WaterclockError
from waterclock.testing.adapter_world import AdapterWorld, Client, adapter_world

FAST = "TIMESTAMP INTERVAL = '50ms'"
Row = tuple[Any, ...]


def update(key: int, value: int, time: int, diff: int = 1) -> str:
    row = {"data": {"k": key, "v": value}, "time": time, "diff": diff}
    return json.dumps({"updates": [row]}) + "\n"


def progress(lower: int, upper: int | None, counts: dict[int, int]) -> str:
    said = [{"time": time, "count": count} for time, count in counts.items()]
    end = [] if upper is None else [upper]
    return json.dumps({"progress": {"lower": [lower], "upper": end, "counts": said}}) + "\n"


def append(file: Path, *messages: str) -> None:
    with file.open("a") as sink:
        sink.write("".join(messages))


async def source(client: Client, file: Path) -> None:
    await client.tag(
        f"CREATE SOURCE {file.stem} (k int, v bigint) FROM FILE '{file}' FORMAT JSON"
        f" ENVELOPE MATERIALIZE WITH ({FAST}, TIMELINE 'game')"
    )


async def at(client: Client, query: str, time: int) -> list[Row]:
    return sorted(await client.rows(f"{query} AS OF {time}"))


async def time_of(client: Client, query: str) -> tuple[str, int]:
    """The timeline of a query, and the time at which it would be read."""
    [(text,)] = await client.rows(f"EXPLAIN TIMESTAMP AS JSON FOR {query}")
    facts = json.loads(text)
    return facts["timeline"], int(facts["query timestamp"])


TOTALS = "SELECT s.k, sum(s.v + r.v) AS total FROM s JOIN r ON s.k = r.k GROUP BY s.k"


async def begin(world: AdapterWorld, folder: Path) -> None:
    client = await world.connect()
    one, two = folder / "s.json", folder / "r.json"
    append(one, update(1, 10, 2), update(2, 20, 4), progress(0, 6, {2: 1, 4: 1}))
    append(two, update(1, 1, 1), update(2, 2, 5), progress(0, 8, {1: 1, 5: 1}))
    await source(client, one)
    await source(client, two)
    while await time_of(client, "SELECT * FROM s, r") != ("game", 5):
        await asyncio.sleep(0.05)
    # What is read at once, from the two sources together
    assert await at(client, TOTALS, 3) == [(1, 11)]
    assert await at(client, TOTALS, 5) == [(1, 11), (2, 22)]
    assert sorted(await client.rows(TOTALS)) == [(1, 11), (2, 22)]
    # What is maintained begins at the last time that both are complete at
    await client.tag(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    await client.tag("CREATE INDEX by_key ON s (k)")
    await client.tag("CREATE MATERIALIZED VIEW lately AS SELECT k FROM s WHERE mz_now() <= v")
    assert sorted(await client.rows("SELECT * FROM totals")) == [(1, 11), (2, 22)]
    assert await time_of(client, "SELECT * FROM totals") == ("game", 5)
    assert await client.rows("SELECT v FROM s WHERE k = 2") == [(20,)]
    assert await at(client, "SELECT mz_now() AS t, count(*) AS n FROM s", 5) == [(5, 2)]
    assert await client.rows("SELECT mz_now() FROM r WHERE k = 1") == [(7,)]
    for query in (
        "CREATE MATERIALIZED VIEW wrong AS SELECT s.k FROM s, t",
        "SELECT count(*) FROM totals, t",
    ):
        await client.tag("CREATE TABLE IF NOT EXISTS t (x int)")
        with pytest.raises(WaterclockError, match="different timelines") as raised:
            await client.run(query)
        assert raised.value.sqlstate == "0A000"


async def go_on(world: AdapterWorld, folder: Path) -> None:
    """After a restart."""
    client = await world.connect()
    assert sorted(await client.rows("SELECT * FROM totals")) == [(1, 11), (2, 22)]
    waiting = asyncio.create_task(
        client.rows("SUBSCRIBE (SELECT sum(total) AS s FROM totals) AS OF 5 UP TO 14")
    )
    append(
        folder / "s.json",
        update(1, 10, 8, -1),
        update(1, 15, 8),
        update(2, 20, 12, -1),
        progress(6, 30, {8: 2, 12: 1}),
    )
    append(folder / "r.json", update(1, 1, 9, -1), update(1, 7, 9), progress(8, 30, {9: 2}))
    assert await waiting == [
        (5, 1, 33),
        (8, -1, 33),
        (8, 1, 38),
        (9, -1, 38),
        (9, 1, 44),
        (12, -1, 44),
        (12, 1, 22),
    ]
    other = await world.connect()
    assert await time_of(other, "SELECT * FROM totals") == ("game", 29)
    assert await at(other, "SELECT * FROM totals", 8) == [(1, 16), (2, 22)]
    assert await at(other, "SELECT * FROM totals", 9) == [(1, 22), (2, 22)]
    assert await at(other, "SELECT * FROM totals", 12) == [(1, 22)]
    assert await other.rows("SELECT v FROM s WHERE k = 1") == [(15,)]
    # A temporal filter is about the times of the messages
    assert await at(other, "SELECT k FROM lately", 10) == [(1,), (2,)]
    assert await at(other, "SELECT k FROM lately", 15) == [(1,)]
    assert await at(other, "SELECT k FROM lately", 16) == []


async def end(world: AdapterWorld, folder: Path) -> None:
    """Both sources end, and with them what is made of them."""
    client = await world.connect()
    append(folder / "s.json", update(3, 5, 40), progress(30, None, {40: 1}))
    append(folder / "r.json", update(3, 6, 41), progress(30, None, {41: 1}))
    while (3, 11) not in await client.rows("SELECT * FROM totals"):
        await asyncio.sleep(0.05)
    found = await client.rows("SUBSCRIBE totals AS OF 40")
    assert found == [(40, 1, 1, 22), (41, 1, 3, 11)]
    while (await time_of(client, "SELECT * FROM s WHERE k = 3"))[1] < 1000:
        await asyncio.sleep(0.05)
    assert await client.rows("SELECT v FROM s WHERE k = 3") == [(5,)]


@pytest.mark.slow
@pytest.mark.semantics(111, 143, 152)
def test_views_over_a_timeline_of_their_own(tmp_path: Path, spark: SparkSession) -> None:
    folder = tmp_path / "in"
    folder.mkdir()

    async def inside() -> None:
        async with adapter_world(tmp_path / "data", spark) as world:
            await begin(world, folder)
            world.close()
            world.open()
            await go_on(world, folder)
            await end(world, folder)

    asyncio.run(asyncio.wait_for(inside(), 1000))
