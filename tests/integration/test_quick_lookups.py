"""Lookups that are answered at once, over indexes that Spark maintains, while the rows change."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from waterclock.testing.adapter_world import Client, adapter_world, taken

pytestmark = pytest.mark.slow

MADE = (
    "CREATE TABLE t (a int NOT NULL, b text)",
    "CREATE INDEX t_a ON t (a)",
    "CREATE VIEW v AS SELECT a, count(*) AS n, max(b) AS last FROM t GROUP BY a",
    "CREATE INDEX v_a ON v (a)",
)
QUERIES = ("SELECT a, b FROM t WHERE a = $1", "SELECT last, n FROM v WHERE a = $1")


class Asking:
    """A session with the queries prepared, which counts the answers that were given at once."""

    def __init__(self, client: Client) -> None:
        self._session = client.session
        self.quick = 0

    async def prepare(self) -> None:
        for number, query in enumerate(QUERIES):
            await self._session.parse(str(number), query, [])

    async def rows(self, number: int, key: int, *, quickly: bool) -> list[tuple[Any, ...]]:
        await self._session.bind("", str(number), [pa.scalar(key, pa.int32())], ())
        portal = self._session.portal("")
        if not quickly:
            portal.shortcut = None
        found = await taken(await self._session.execute("", 0))
        self.quick += quickly and self._session.transaction.moment is None
        await self._session.sync()
        return sorted(found.rows)


async def check(client: Client) -> None:
    for statement in MADE:
        await client.run(statement)
    asking = Asking(client)
    await asking.prepare()
    for step in range(12):
        await client.run(f"INSERT INTO t VALUES ({step % 3}, 'v{step:02}')")
        if step % 4 == 3:
            await client.run(f"UPDATE t SET b = b || '!' WHERE a = {step % 2}")
        if step % 5 == 4:
            await client.run(f"DELETE FROM t WHERE b = 'v{step - 3:02}'")
        for number in range(len(QUERIES)):
            for key in range(4):
                slow = await asking.rows(number, key, quickly=False)
                assert await asking.rows(number, key, quickly=True) == slow, (step, number, key)
    assert asking.quick, "some of the answers were there at once"


@pytest.mark.semantics(84, 93)
def test_at_once_or_not_the_answer_is_the_same(tmp_path: Path, spark: SparkSession) -> None:
    async def inside() -> None:
        async with adapter_world(tmp_path, spark) as world, asyncio.timeout(1000):
            await check(await world.connect())

    asyncio.run(inside())
