"""Views on Spark, seen by a session: how far they are, and what is left of them after a restart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from waterclock.compute.dataflow.attempt import Attempt
from waterclock.testing.adapter_world import AdapterWorld, Client, adapter_world

pytestmark = pytest.mark.slow

SHOWN = (
    "SELECT hydrated, status, rows_read, tasks FROM mz_internal.mz_hydration_statuses h"
    " JOIN mz_objects o ON o.id = h.object_id WHERE o.name = 'slow'"
)


def waiting_for(sign: Path) -> Callable[[Any], Any]:
    """A task that runs until there is a sign."""

    def run(batches: Any) -> Any:
        while not sign.exists():
            time.sleep(0.01)
        yield from batches

    return run


@contextmanager
def held(spark: SparkSession, sign: Path) -> Iterator[None]:
    """Steps of views that begin in here do not end before there is a sign."""
    run = Attempt.run

    def longer(self: Attempt, tick: Any, deltas: Any, contents: Any, job: Callable[[], Any]) -> Any:
        def held_job() -> Any:
            spark.range(0, 1, 1, 1).mapInArrow(waiting_for(sign), "id long").toArrow()
            return job()

        return run(self, tick, deltas, contents, held_job)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Attempt, "run", longer)
        try:
            yield
        finally:
            sign.touch()


async def check_hydration(client: Client, spark: SparkSession, sign: Path) -> None:
    await client.run("CREATE TABLE t (a int)")
    await client.run("INSERT INTO t VALUES (1), (2), (3)")
    seen = set()
    async with asyncio.timeout(600):
        with held(spark, sign):
            await client.run(
                "CREATE MATERIALIZED VIEW slow AS"
                " SELECT sum((a + g) % 7) AS s FROM t, generate_series(1, 3000) AS g"
            )
            while not any(rows == 3 and tasks > 0 for _, _, rows, tasks in seen):
                seen |= set(await client.rows(SHOWN))
                await asyncio.sleep(0.01)
        while (row := (await client.rows(SHOWN))[0]) != (True, "running", None, None):
            seen.add(row)
            await asyncio.sleep(0.01)
    assert {(hydrated, status) for hydrated, status, _, _ in seen} == {(False, "hydrating")}


async def check_finished(client: Client) -> None:
    """A view over nothing that changes has come to its end at once."""
    for query in ("SELECT a, b FROM v", "SELECT a, b FROM v WHERE a = 1"):
        assert await client.rows(query) == [(1, "x")]
    for view in ("bad", "over_bad"):
        error = await client.fails(f"SELECT * FROM {view}")
        assert "could not be computed" in error.message, view


async def check(world: AdapterWorld, spark: SparkSession, sign: Path) -> None:
    client = await world.connect()
    await check_hydration(client, spark, sign)
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
            async with asyncio.timeout(1000):
                await check(world, spark, tmp_path / "sign")

    asyncio.run(inside())
