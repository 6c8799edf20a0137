"""A crash inside any statement that changes the catalog leaves nothing of it, or all of it.

The log goes out of service at its n-th entry from the beginning of the statement, for every n until
the statement gets through; the entry at which it happens is durable or it is not. Then the server
is started anew on what is durable, and the catalog must be the one before the statement or the one
after it, storage must hold nothing that has no name, and whoever maintains views must know of those
that there are. That the server goes on to work is proven by a write and a read.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from waterclock.adapter.coordinator import Pace
from waterclock.errors import WaterclockError
from waterclock.testing.adapter_world import AdapterWorld, NotedEngine
from waterclock.testing.catalog_world import BreakingConsensus
from waterclock.testing.changing_statements import (
    SET_UP,
    SOURCE,
    STATEMENTS,
    check_whole,
    contents,
)

QUIET = Pace(tick_ms=500, retain_ms=60_000)
MOST_STEPS = 12


class World(AdapterWorld):
    """A world whose log can go out of service."""

    def __init__(self, folder: Path) -> None:
        self.log = BreakingConsensus()
        super().__init__(folder, QUIET, consensus=self.log, engine=NotedEngine())

    async def prepare(self, statement: str) -> None:
        client = await self.connect()
        await client.run(SET_UP)
        if statement == "DROP SOURCE counter":
            await client.run(SOURCE)

    async def run(self, text: str) -> bool:
        """Whether the statement said that it was done."""
        client = await self.connect()
        try:
            await client.run(text)
        except WaterclockError:
            return False
        return True

    def restart(self) -> None:
        with suppress(WaterclockError):
            self.close()
        self.log.mend()
        self.open()


async def check_alive(world: World) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE afterwards (a int); INSERT INTO afterwards VALUES (7)")
    assert await client.rows("SELECT a FROM afterwards") == [(7,)]


@pytest.mark.slow
@pytest.mark.semantics(80)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_crash_leaves_nothing_or_the_whole(tmp_path: Path, statement: str) -> None:
    asyncio.run(_crash_everywhere(tmp_path, statement))


async def _crash_everywhere(folder: Path, statement: str) -> None:
    world = await _prepared(folder, statement)
    before = contents(world)
    assert await world.run(statement)
    after = contents(world)
    assert after != before, "the statement changes the catalog"
    rows = await _rows_of_fresh(world)
    check_whole(world)
    await asyncio.to_thread(world.close)
    outcomes = set()
    for lost_answer in (False, True):
        for step in range(MOST_STEPS):
            world = await _prepared(folder, statement)
            world.log.mend()
            world.log.break_at, world.log.lost_answer = step, lost_answer
            done = await world.run(statement)
            await asyncio.to_thread(world.restart)
            found = contents(world)
            assert found in (before, after), f"half of it, after a crash at entry {step}"
            assert found == after or not done, "what was acknowledged is there"
            check_whole(world)
            if found == after:
                assert await _rows_of_fresh(world) == rows
            outcomes.add(found == after)
            await check_alive(world)
            await asyncio.to_thread(world.close)
            if done:
                break
        else:
            raise AssertionError(f"the statement takes more than {MOST_STEPS} entries")
    assert outcomes == {True, False}, "it has crashed before and after the moment that counts"


async def _prepared(folder: Path, statement: str) -> World:
    world = await asyncio.to_thread(World, folder)
    await world.prepare(statement)
    return world


async def _rows_of_fresh(world: World) -> list[tuple[Any, ...]] | None:
    """The rows of the new table, if there is one."""
    client = await world.connect()
    if not await client.rows("SHOW TABLES LIKE 'fresh'"):
        return None
    return await client.rows("SELECT * FROM fresh ORDER BY 1")
