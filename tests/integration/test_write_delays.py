"""Writes wait while a view over their table is too far behind, and no longer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from waterclock.adapter.backpressure import Backpressure, Bounds
from waterclock.compute.dataflow.dataflow import Dataflow
from waterclock.testing.adapter_world import AdapterWorld, adapter_world

pytestmark = pytest.mark.slow
_ROWS = 2_000


def _rows(count: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_arrays([pa.array(range(count), pa.int32())], names=["a"])]


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(240):
        while not condition():
            await asyncio.sleep(0.02)


async def _check(world: AdapterWorld, patch: pytest.MonkeyPatch) -> None:
    core = world.core
    core.backpressure = Backpressure(Bounds(rows=_ROWS), core.runtime.monotonic_s)
    client = await world.connect()
    await client.run("CREATE TABLE t (a int)")
    await client.run("CREATE MATERIALIZED VIEW v AS SELECT a % 7 AS g, count(*) FROM t GROUP BY 1")
    assert await client.rows("SELECT * FROM v") == []
    may_go_on = threading.Event()
    compute = Dataflow.compute

    def held(dataflow: Dataflow, *given: Any, **more: Any) -> Any:
        assert may_go_on.wait(240)
        return compute(dataflow, *given, **more)

    patch.setattr(Dataflow, "compute", held)
    await client.one("COPY t FROM STDIN", _rows(3 * _ROWS))
    await _until(lambda: core.backpressure.pressure >= 3)
    assert client.notices == []
    small = await world.connect()
    await client.one("COPY t FROM STDIN", _rows(2 * _ROWS))
    [notice] = client.notices
    assert "delayed" in notice.message
    await small.run("INSERT INTO t VALUES (0)")
    assert small.notices == []
    may_go_on.set()
    total = [(5 * _ROWS + 1,)]
    assert await client.rows("SELECT CAST(sum(count) AS bigint) FROM v") == total
    await _until(lambda: core.backpressure.pressure == 0)
    delayed = core.backpressure.delayed_writes
    await client.one("COPY t FROM STDIN", _rows(_ROWS))
    assert core.backpressure.delayed_writes == delayed == 2, "nobody waits any more"


def test_writes_wait_for_a_view_that_is_behind(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def inside() -> None:
        async with adapter_world(tmp_path, spark) as world:
            await _check(world, monkeypatch)

    asyncio.run(inside())
