"""Sessions that create, fill, read, rename, index and drop the same four names at the same time."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from waterclock.adapter.coordinator import Pace
from waterclock.errors import WaterclockError
from waterclock.testing.adapter_world import AdapterWorld, Client, NotedEngine
from waterclock.testing.changing_statements import check_whole
from waterclock.testing.racing import ALLOWED, NAMES, statement

SESSIONS = 6
EACH = 400
STOPPED = ("57014", "40003")
NO_ENGINE = "0A000"
"""What reading a view gives here."""


async def race(client: Client, chance: Random, told: Counter[str]) -> None:
    """Run statements, some of which are stopped after a while."""
    loop = asyncio.get_running_loop()
    for _ in range(EACH):
        text = statement(chance)
        stop = None
        if chance.random() < 0.2:
            stop = loop.call_later(chance.random() * 0.004, client.session.cancel)
        error = await outcome(client, text)
        answer = "done" if error is None else error.sqlstate
        told[answer] += 1
        allowed = {"done", NO_ENGINE, *ALLOWED, *(() if stop is None else STOPPED)}
        assert answer in allowed, f"{text}: {answer} {error!r}"
        if stop is not None:
            stop.cancel()
        if client.session.transaction.in_block:
            await client.run("ROLLBACK")


async def outcome(client: Client, text: str) -> WaterclockError | None:
    """The error that the text ends in, if it does."""
    try:
        await asyncio.wait_for(client.run(text), 60)
    except WaterclockError as error:
        return error
    return None


async def check_healthy(world: AdapterWorld) -> None:
    """All that there is can be written and read, everything can go, and nothing is left."""
    client = await world.connect()
    for name, *_ in await client.rows("SHOW TABLES"):
        await client.run(f"INSERT INTO {name} VALUES (77)")
        assert (77,) in await client.rows(f"SELECT n FROM {name}")
    for name in NAMES:
        await client.run(f"DROP TABLE IF EXISTS {name} CASCADE")
    await client.run("CREATE TABLE z (n int); INSERT INTO z VALUES (1)")
    assert await client.rows("SELECT n FROM z") == [(1,)]
    await client.session.terminate()
    await world.front.settle()
    assert world.front.changes.is_idle
    assert world.core.holds.taken == 0
    check_whole(world)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_races_end_in_clear_errors(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> Counter[str]:
        world = await asyncio.to_thread(
            AdapterWorld, tmp_path, Pace(tick_ms=20, retain_ms=180_000), engine=NotedEngine()
        )
        told: Counter[str] = Counter()
        clients = [await world.connect() for _ in range(SESSIONS)]
        racing = [
            race(client, Random(seed * 100 + number), told) for number, client in enumerate(clients)
        ]
        await asyncio.gather(*racing)
        for client in clients:
            await client.session.terminate()
        await check_healthy(world)
        await asyncio.to_thread(world.close)
        return told

    told = asyncio.run(run())
    assert told["done"] > SESSIONS * EACH / 5, told
    failed = [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
    assert not failed, failed[:3]
