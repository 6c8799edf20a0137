"""Rows picked by a number that has a scale of its own: 1.5 finds 1.50, without a job of Spark's."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from waterclock.persist.numerics import number_of
from waterclock.testing.adapter_world import Client, adapter_world

pytestmark = pytest.mark.slow

_SMALL = f"0.1{'0' * 34}1"
MADE = (
    "CREATE TABLE t (id int NOT NULL, x numeric, g text)",
    "CREATE INDEX t_x ON t (x)",
    "CREATE INDEX t_gx ON t (g, x)",
    "CREATE VIEW v AS SELECT x, count(*) AS n FROM t GROUP BY x",
    "CREATE INDEX v_x ON v (x)",
    "INSERT INTO t VALUES (1, 1.5, 'a'), (2, 1.50, 'a'), (3, 1.500, 'b'), (4, 15, 'b'),"
    " (5, NULL, 'c'), (6, -0.000, 'c'), (7, 0, 'c'), (8, 15.00, 'd'), (9, -1.5, 'd'),"
    " (10, " + _SMALL + ", 'e')",
)
ASKED: dict[str, list[int]] = {
    "x = 1.5": [1, 2, 3],
    "x = 1.50000": [1, 2, 3],
    "1.5 = x": [1, 2, 3],
    "x = 15": [4, 8],
    "x = 0.0": [6, 7],
    "x = -1.5": [9],
    "x = 0.1": [],
    f"x = {_SMALL}": [10],
    "x IN (1.50, 15, NULL)": [1, 2, 3, 4, 8],
    "x = ANY (ARRAY[0, 1.5])": [1, 2, 3, 6, 7],
    "x > 0.1": [1, 2, 3, 4, 8, 10],
    "x >= 1.50": [1, 2, 3, 4, 8],
    "x < -0": [9],
    "x <= 0.1 AND x IS NOT NULL": [6, 7, 9],
    "g = 'b' AND x = 1.5": [3],
    "x IS NULL": [5],
}


async def _ids(client: Client, condition: str) -> list[Any]:
    return [row[0] for row in await client.rows(f"SELECT id FROM t WHERE {condition} ORDER BY id")]


async def check(client: Client) -> None:
    for statement in MADE:
        await client.run(statement)
    for condition, wanted in ASKED.items():
        assert await _ids(client, condition) == wanted, condition
    explained = await client.rows("EXPLAIN SELECT id FROM t WHERE x = 1.5")
    assert "t_x" in "\n".join(row[0] for row in explained)
    assert await client.rows("SELECT n FROM v WHERE x = 1.5") == [(3,)]
    await client.run("DELETE FROM t WHERE x = 1.5 AND id < 3")
    await client.run("UPDATE t SET x = 1.50 WHERE x = 15.0")
    assert await _ids(client, "x = 1.5") == [3, 4, 8]
    found = await client.rows("SELECT x FROM t WHERE x = 1.5 ORDER BY id")
    assert [str(number_of(row[0])) for row in found] == ["1.500", "1.50", "1.50"]
    assert await client.rows("SELECT n FROM v WHERE x = 1.5") == [(3,)]


def test_equal_numbers_are_found_whatever_their_scale(tmp_path: Path, spark: SparkSession) -> None:
    async def inside() -> None:
        async with adapter_world(tmp_path, spark) as world, asyncio.timeout(1000):
            await check(await world.connect())

    asyncio.run(inside())
