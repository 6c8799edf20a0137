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

import msgspec
import pytest

from waterclock.adapter.coordinator import Pace
from waterclock.catalog.objects import Index, MaterializedView, Secret
from waterclock.errors import WaterclockError
from waterclock.testing.adapter_world import AdapterWorld, NotedEngine
from waterclock.testing.catalog_world import BreakingConsensus

SET_UP = """
    CREATE TABLE base (a int NOT NULL, b text);
    INSERT INTO base VALUES (1, 'x'), (2, 'y');
    CREATE TABLE doomed (a int);
    CREATE VIEW seen AS SELECT a FROM base;
    CREATE MATERIALIZED VIEW kept AS SELECT b, count(*) AS n FROM base GROUP BY b;
    CREATE INDEX base_by_a ON base (a);
    CREATE SCHEMA other;
    CREATE TABLE other.inner_table (a int);
    CREATE DATABASE elsewhere;
    CREATE ROLE alice LOGIN;
    CREATE ROLE staff;
    CREATE SECRET hidden AS 'one'
"""
SOURCE = "CREATE SOURCE counter FROM LOAD GENERATOR COUNTER (TICK INTERVAL '1h')"
STATEMENTS = (
    "CREATE DATABASE fresh",
    "CREATE SCHEMA fresh",
    "CREATE TABLE fresh (a int NOT NULL, b text DEFAULT 'z')",
    "CREATE TABLE fresh AS SELECT a, b FROM base",
    "CREATE VIEW fresh AS SELECT a, b FROM base",
    "CREATE OR REPLACE VIEW seen AS SELECT a, b FROM base",
    "CREATE MATERIALIZED VIEW fresh AS SELECT a, count(*) AS n FROM base GROUP BY a",
    "CREATE INDEX fresh ON base (b)",
    "CREATE SOURCE fresh FROM LOAD GENERATOR COUNTER (TICK INTERVAL '1h')",
    "CREATE SECRET fresh AS 'two'",
    "CREATE CONNECTION fresh TO POSTGRES (HOST 'localhost', DATABASE 'd', USER 'u')",
    "CREATE ROLE fresh LOGIN PASSWORD 'three'",
    "ALTER TABLE base RENAME TO renamed",
    "ALTER TABLE base ALTER COLUMN b SET DEFAULT 'w'",
    "ALTER TABLE base OWNER TO alice",
    "ALTER TABLE base SWAP WITH doomed",
    "ALTER VIEW seen RENAME TO renamed",
    "ALTER SCHEMA other RENAME TO renamed",
    "ALTER ROLE alice PASSWORD 'four'",
    "ALTER ROLE alice SET search_path = other",
    "ALTER SECRET hidden AS 'five'",
    "COMMENT ON TABLE base IS 'what it is for'",
    "COMMENT ON COLUMN base.a IS 'a number'",
    "GRANT SELECT, INSERT ON base TO alice",
    "GRANT staff TO alice",
    "REVOKE USAGE ON SCHEMA public FROM public",
    "DROP TABLE doomed",
    "DROP TABLE base CASCADE",
    "DROP VIEW seen",
    "DROP MATERIALIZED VIEW kept",
    "DROP INDEX base_by_a",
    "DROP SOURCE counter",
    "DROP SECRET hidden",
    "DROP SCHEMA other CASCADE",
    "DROP DATABASE elsewhere",
    "DROP ROLE alice",
)
QUIET = Pace(tick_ms=500, retain_ms=60_000)
MOST_STEPS = 12
RANDOM = {"verifier", "ciphertext", "definition"}
"""What is made with random numbers or the time, and so is different each time."""


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


def contents(world: World) -> Any:
    """All that the catalog holds, secrets open, and without what chance had a part in."""
    catalog = world.core.current
    secrets = [each for each in catalog.items() if isinstance(each, Secret)]
    kept = [
        sorted(catalog.objects.items()),
        sorted(catalog.memberships.items()),
        sorted(catalog.comments.items()),
        sorted(catalog.settings.items()),
        [world.secrets.unseal(each.id, each.ciphertext) for each in secrets],
    ]
    return _without_chance(msgspec.to_builtins(kept, enc_hook=repr))


def _without_chance(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: bool(v) if k in RANDOM else _without_chance(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        items = [_without_chance(each) for each in value]
        is_set = all(isinstance(each, str) for each in items)  # privileges: in no order
        return sorted(items) if is_set else items
    return value


def check_whole(world: World) -> None:
    catalog = world.core.current
    maintained = {str(i.id) for i in catalog.items() if isinstance(i, MaterializedView | Index)}
    assert set(world.engine.notes.all()) == maintained, "the engine knows of just what there is"
    assert world.core.catalog.release_unreferenced() == (), "a collection without a name"


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
