"""SUBSCRIBE over what Spark maintains: at every time it is what a SELECT would have shown."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from waterclock.adapter.api import Rows
from waterclock.errors import WaterclockError
from waterclock.testing.adapter_world import AdapterWorld, Client, adapter_world, rows_of

pytestmark = pytest.mark.slow


async def follow(client: Client, text: str, until: asyncio.Event) -> list[tuple[Any, ...]]:
    """All rows of a subscription up to the first progress after the event was set."""
    statements = client.session.run_simple(text)
    response = await anext(statements)
    assert isinstance(response, Rows)
    rows: list[tuple[Any, ...]] = []
    async for batch in response.batches:
        for row in rows_of(batch):
            rows.append(row)
            if row[1] and until.is_set():
                await response.batches.aclose()  # type: ignore[attr-defined]
                await statements.aclose()  # type: ignore[attr-defined]
                return rows
    raise AssertionError("it ended by itself")


def contents(rows: list[tuple[Any, ...]], time: int) -> Counter[tuple[Any, ...]]:
    """What the rows add up to at the time."""
    found: Counter[tuple[Any, ...]] = Counter()
    for at, progressed, diff, *values in rows:
        if not progressed and at <= time:
            found[tuple(values)] += diff
    return found


QUERY = "SELECT g, count(*) AS n, sum(v) AS total FROM t GROUP BY g"


async def check_views(world: AdapterWorld) -> None:
    writer = await world.connect()
    await writer.run("CREATE TABLE t (g int, v int)")
    await writer.run(f"CREATE MATERIALIZED VIEW mv AS {QUERY}")
    await writer.run("INSERT INTO t VALUES (1, 10), (2, 20)")
    done, random_ = asyncio.Event(), random.Random(7)
    texts = [
        "SUBSCRIBE mv WITH (PROGRESS)",
        f"SUBSCRIBE ({QUERY}) WITH (PROGRESS)",
        "SUBSCRIBE (SELECT g, n FROM mv WHERE n > 2) WITH (PROGRESS)",
    ]
    following = [asyncio.create_task(follow(await world.connect(), text, done)) for text in texts]
    shown: dict[int, Counter[tuple[Any, ...]]] = {}
    reader = await world.connect()
    for _ in range(12):
        rows = ", ".join(f"({random_.randrange(4)}, {random_.randrange(100)})" for _ in range(5))
        await writer.run(f"INSERT INTO t VALUES {rows}")
        if random_.random() < 0.4:
            await writer.run(f"DELETE FROM t WHERE g = {random_.randrange(4)}")
        await reader.run("BEGIN")
        found = Counter(await reader.rows("SELECT * FROM mv"))
        moment = reader.session.transaction.moment
        assert moment is not None
        shown[moment.time] = found
        await reader.run("COMMIT")
    done.set()
    by_view, by_query, picked = await asyncio.wait_for(asyncio.gather(*following), 600)
    for time, expected in shown.items():
        for rows in (by_view, by_query):
            if rows[0][0] <= time < rows[-1][0]:
                assert contents(rows, time) == expected, time
        if picked[0][0] <= time < picked[-1][0]:
            few = Counter({key[:2]: n for key, n in expected.items() if key[1] > 2})
            assert contents(picked, time) == few
    assert sum(by_query[0][0] <= time < by_query[-1][0] for time in shown) >= 3
    for rows in (by_view, by_query, picked):
        times = [row[0] for row in rows]
        assert times == sorted(times), "in the order of time"
    async with asyncio.timeout(240):
        while world.core.holds._open:
            await asyncio.sleep(0.05)


def test_sums_of_diffs_are_what_a_select_shows(spark: SparkSession, tmp_path: Path) -> None:
    async def inside() -> None:
        async with adapter_world(tmp_path, spark) as world:
            await check_views(world)

    asyncio.run(inside())


async def check_errors(world: AdapterWorld) -> None:
    writer, reader = await world.connect(), await world.connect()
    await writer.run("CREATE TABLE t (a int, b int); INSERT INTO t VALUES (6, 2)")
    await writer.run("CREATE MATERIALIZED VIEW ratio AS SELECT a / b AS q FROM t")
    await reader.run("BEGIN; DECLARE c CURSOR FOR SUBSCRIBE ratio")
    assert [row[1:] for row in await reader.rows("FETCH 1 c")] == [(1, 3)]
    await writer.run("INSERT INTO t VALUES (1, 0)")
    error = await reader.fails("FETCH 1 c")
    assert isinstance(error, WaterclockError)
    assert error.sqlstate == "22012"
    await reader.run("ROLLBACK")
    assert (await reader.fails("SUBSCRIBE ratio")).sqlstate == "22012"
    await writer.run("DELETE FROM t WHERE b = 0")
    await reader.run("BEGIN; DECLARE c CURSOR FOR SUBSCRIBE ratio")
    assert [row[1:] for row in await reader.rows("FETCH 1 c")] == [(1, 3)]
    await reader.run("ROLLBACK")


def test_an_error_of_the_view_ends_the_subscription(spark: SparkSession, tmp_path: Path) -> None:
    async def inside() -> None:
        async with adapter_world(tmp_path, spark) as world:
            await check_errors(world)

    asyncio.run(inside())
