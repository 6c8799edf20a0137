"""What the system's relations show of views whose first contents are being computed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from waterclock.compute.api import Health, Progress, Status
from waterclock.model.ids import GlobalId
from waterclock.testing.adapter_world import AdapterWorld, NotedEngine

SHOWN = (
    "SELECT o.name, h.hydrated, h.status, h.rows_read, h.tasks_done, h.tasks, h.error, h.rebuilt"
    " FROM mz_internal.mz_hydration_statuses h JOIN mz_objects o ON o.id = h.object_id ORDER BY 1"
)


async def check(world: AdapterWorld, engine: NotedEngine) -> None:
    client = await world.connect()
    await client.tag("CREATE TABLE t (a int)")
    await client.tag("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    assert await client.rows(SHOWN) == [], "nobody knows of it yet"
    [(id_,)] = await client.rows("SELECT id FROM mz_materialized_views")
    view = GlobalId.parse(str(id_))
    for done in range(3):
        engine.statuses[view] = Status(
            Health.HYDRATING, 5, rows=0, progress=Progress(1000, done, 4)
        )
        assert await client.rows(SHOWN) == [("v", False, "hydrating", 1000, done, 4, None, None)]
    engine.statuses[view] = Status(Health.STALLED, 5, 0, "it broke", Progress(7, 0, 0))
    assert await client.rows(SHOWN) == [("v", False, "stalled", 7, 0, 0, "it broke", None)]
    engine.statuses[view] = Status(Health.RUNNING, 9, rows=10, rebuilt="files were lost")
    settled = [("v", True, "running", None, None, None, None, "files were lost")]
    assert await client.rows(SHOWN) == settled
    image = world.front._image()
    engine.statuses[view] = Status(Health.RUNNING, 99, rows=100, rebuilt="files were lost")
    assert world.front._image() is image, "a step does not make the catalog another one"
    await client.tag("DROP MATERIALIZED VIEW v")
    assert await client.rows(SHOWN) == []


def test_hydration_is_shown_as_it_goes(tmp_path: Path) -> None:
    async def inside() -> None:
        engine = NotedEngine()
        world = await asyncio.to_thread(AdapterWorld, tmp_path, engine=engine)
        try:
            await check(world, engine)
        finally:
            await asyncio.to_thread(world.close)

    asyncio.run(inside())
