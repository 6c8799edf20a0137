"""Views over sources, on Spark: at every time the answer for what had been bound by then."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from waterclock.adapter.api import Rows
from waterclock.compute.live_session import LiveSession
from waterclock.storage.reclock.progress import Range
from waterclock.storage.sources.api import Messages, Surroundings
from waterclock.storage.sources.executors import OnSpark
from waterclock.storage.sources.generators.api import Options
from waterclock.storage.sources.generators.connector import LoadGenerator
from waterclock.testing.adapter_world import AdapterWorld, adapter_world, rows_of

pytestmark = pytest.mark.slow

TIMES = 5
"""How many times are looked at."""
VIEWS = """
CREATE SOURCE transfers FROM LOAD GENERATOR BANK (MAX 1000000, SEED 42, TICK INTERVAL '5ms')
    WITH (TIMESTAMP INTERVAL '200ms');
CREATE VIEW credits AS
    SELECT to_account AS account, sum(amount) AS credits FROM transfers GROUP BY to_account;
CREATE VIEW debits AS
    SELECT from_account AS account, sum(amount) AS debits FROM transfers GROUP BY from_account;
CREATE VIEW balance AS
    SELECT credits.account, credits - debits AS balance FROM credits, debits
    WHERE credits.account = debits.account;
CREATE MATERIALIZED VIEW total AS SELECT sum(balance) AS total, count(*) AS n FROM balance;
CREATE MATERIALIZED VIEW joined AS
    SELECT a.id, b.id AS other FROM transfers a LEFT JOIN transfers b ON a.id = b.id
"""


async def follow(world: AdapterWorld, view: str) -> dict[int, Counter[tuple[Any, ...]]]:
    """What a view holds at some of its times, each complete."""
    client = await world.connect()
    statements = client.session.run_simple(f"SUBSCRIBE {view} WITH (PROGRESS)")
    response = await anext(statements)
    assert isinstance(response, Rows)
    held: Counter[tuple[Any, ...]] = Counter()
    found: dict[int, Counter[tuple[Any, ...]]] = {}
    async for batch in response.batches:
        for time, progressed, diff, *values in rows_of(batch):
            if not progressed:
                held[tuple(values)] += diff
            elif held:
                found[int(time) - 1] = Counter({row: n for row, n in held.items() if n})
        if len(found) >= TIMES:
            break
    await response.batches.aclose()  # type: ignore[attr-defined]
    await statements.aclose()  # type: ignore[attr-defined]
    return found


async def check_bank(world: AdapterWorld) -> None:
    client = await world.connect()
    for statement in VIEWS.split(";"):
        await client.run(statement)
    totals, joined = await asyncio.gather(follow(world, "total"), follow(world, "joined"))
    for time, rows in totals.items():
        [(total, accounts)] = rows
        assert (int(total), accounts) == (0, 10), time
    for time, rows in joined.items():
        assert all(one == other for one, other in rows), time
        progress = f'SELECT mz_timestamp, "offset" FROM transfers_progress AS OF {time}'
        assert await client.rows(progress) == [(time, sum(rows.values()))]


@pytest.mark.semantics(103, 111, 112, 119)
def test_the_bank_never_loses_money(tmp_path: Path, spark: SparkSession) -> None:
    async def inside() -> None:
        async with adapter_world(tmp_path, spark) as world:
            await check_bank(world)

    asyncio.run(inside())


def test_rows_made_on_executors_are_the_same(spark: SparkSession) -> None:
    options = Options(kind="auction", tick_ms=1000, created_ms=0, seed=5)
    clock = lambda: 0  # noqa: E731
    here = LoadGenerator(options, Surroundings(clock))
    there = LoadGenerator(options, Surroundings(clock, OnSpark(LiveSession.of(spark))))
    ticks = [Range(None, 0, 5000)]
    expected, found = (
        {name: pa.Table.from_batches(batches) for name, batches in by_output(each.read(ticks))}
        for each in (here, there)
    )
    assert expected.keys() == found.keys() == here.outputs.keys()
    for name, table in expected.items():
        assert found[name].equals(table), name


def by_output(messages: Iterator[Messages]) -> list[tuple[str, list[pa.RecordBatch]]]:
    found: dict[str, list[pa.RecordBatch]] = {}
    for each in messages:
        found.setdefault(each.output, []).append(each.batch)
    return list(found.items())
