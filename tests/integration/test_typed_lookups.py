"""Rows picked from an index by a value, for every type that a column can have."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from waterclock.testing.adapter_world import Client, adapter_world
from waterclock.testing.judge.values import COLUMN_TYPES, EXTREME, ORDINARY, declared_as, literal

pytestmark = pytest.mark.slow


async def check(client: Client) -> None:
    columns = ", ".join(f"c{n} {declared_as(kind)}" for n, kind in enumerate(COLUMN_TYPES))
    await client.run(f"CREATE TABLE t ({columns})")
    values = {kind: [*ORDINARY[kind], *EXTREME.get(kind, ()), None] for kind in COLUMN_TYPES}
    for row in range(max(map(len, values.values()))):
        fields = (literal(texts[row % len(texts)], kind) for kind, texts in values.items())
        await client.run(f"INSERT INTO t VALUES ({', '.join(fields)})")
    await client.run("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
    looked_up = set()
    for n, kind in enumerate(COLUMN_TYPES):
        await client.run(f"CREATE INDEX v_{n} ON v (c{n})")
        for text in values[kind][:-1]:
            value = literal(text, kind)
            plan = await client.rows(f"EXPLAIN SELECT c0 FROM v WHERE c{n} = {value}")
            if any(f"v_{n}" in line for (line,) in plan):
                looked_up.add(kind)
            found = await client.rows(f"SELECT c0 FROM v WHERE c{n} = {value}")
            wanted = await client.rows(f"SELECT c0 FROM t WHERE c{n} = {value}")
            assert len(found) == len(wanted) > 0, (kind, text)
    assert looked_up >= {"int4", "numeric", "text", "date", "timestamptz", "uuid", "time", "bytea"}


def test_values_of_every_type_are_found(spark: SparkSession, tmp_path: Path) -> None:
    async def main() -> None:
        async with adapter_world(tmp_path, spark) as world:
            await check(await world.connect())

    asyncio.run(main())
