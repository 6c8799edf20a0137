"""Views on Spark, seen by a session: how far they are, and what is left of them after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from waterclock.testing.adapter_world import AdapterWorld, Client, adapter_world

pytestmark = pytest.mark.slow

SHOWN = (
    "SELECT hydrated, status, rows_read, tasks FROM mz_internal.mz_hydration_statuses h"
    " JOIN mz_objects o ON o.id = h.object_id WHERE o.name = 'slow'"
)


async def check_hydration(client: Client) -> None:
    await client.run("CREATE TABLE t (a int)")
    await client.run("INSERT INTO t VALUES (1), (2), (3)")
    await client.run(
        "CREATE MATERIALIZED VIEW slow AS"
        " SELECT sum((a + g) % 7) AS s FROM t, generate_series(1, 300000) AS g"
    )
    seen = set()
    async with asyncio.timeout(120):
        while (row := (await client.rows(SHOWN))[0]) != (True, "running", None, None):
            seen.add(row)
            await asyncio.sleep(0.01)
    assert {(hydrated, status) for hydrated, status, _, _ in seen} == {(False, "hydrating")}
    assert any(rows == 3 and tasks > 0 for _, _, rows, tasks in seen), seen


async def check_finished(client: Client) -> None:
    """A view over nothing that changes has come to its end at once."""
    for query in ("SELECT a, b FROM v", "SELECT a, b FROM v WHERE a = 1"):
        assert await client.rows(query) == [(1, "x")]
    for view in ("bad", "over_bad"):
        error = await client.fails(f"SELECT * FROM {view}")
        assert "could not be computed" in error.message, view


async def check(world: AdapterWorld) -> None:
    client = await world.connect()
    await check_hydration(client)
    await client.run("CREATE VIEW v AS SELECT 1 AS a, 'x' AS b")
    await client.run("CREATE INDEX v_a ON v (a)")
    await client.run(
        "CREATE MATERIALIZED VIEW bad AS SELECT 1 / g AS y FROM generate_series(0, 1) g"
    )
    await client.run("CREATE MATERIALIZED VIEW over_bad AS SELECT y + 1 AS z FROM bad")
    await check_finished(client)
    await asyncio.to_thread(world.close)
    await asyncio.to_thread(world.open)
    client = await world.connect()
    await check_finished(client)
    assert await client.rows(SHOWN) == [(True, "running", None, None)]
    await client.run("DROP MATERIALIZED VIEW over_bad")
    await client.run("DROP MATERIALIZED VIEW bad")
    await client.run("DROP VIEW v CASCADE")


@pytest.mark.semantics(45)
def test_views_are_told_of_and_stay_what_they_are(tmp_path: Path, spark: SparkSession) -> None:
    async def inside() -> None:
        async with adapter_world(tmp_path, spark) as world:
            async with asyncio.timeout(300):
                await check(world)

    asyncio.run(inside())
