"""Tables as Spark writes them, read as files and as objects; and objects read by executors."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from waterclock.compute.live_session import LiveSession
from waterclock.model.schema import Schema
from waterclock.persist.schema_codec import encode_schema
from waterclock.storage.sources.executors import OnSpark
from waterclock.storage.sources.files.parquet import columns_of
from waterclock.testing.adapter_world import Client, adapter_world
from waterclock.testing.s3_source import Clients, S3World, definition, settings
from waterclock.testing.services import S3Server

SECONDS = 120.0
FAST = "WITH (TIMESTAMP INTERVAL = '50ms')"
TABLE = """
SELECT id, timestamp '2024-01-31 12:00:00.123456Z' AS seen, timestamp_ntz '2024-01-31 12:00:00' AS
    clock, map('b', 1.50BD, 'a', null) AS prices, array(1, null) AS list,
    named_struct('x', id, 'at', timestamp '2024-01-31 12:00:00Z') AS inner,
    CAST(9.99 AS decimal(9, 2)) AS price, date '2024-01-31' AS day, 'G/B' AS country
FROM range(2)
"""


def write_table(spark: SparkSession, path: str) -> None:
    """A table as Spark writes it unless it is told otherwise in what form instants are."""
    instants = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(instants)
    spark.conf.set(instants, "INT96")
    try:
        spark.sql(TABLE).coalesce(1).write.partitionBy("day", "country").parquet(path)
    finally:
        spark.conf.set(instants, before)


async def until(client: Client, query: str, expected: list[tuple[Any, ...]]) -> None:
    await client.until(query, lambda rows: sorted(rows, key=str) == sorted(expected, key=str))


@pytest.mark.slow
def test_a_table_of_spark(tmp_path: Path, spark: SparkSession) -> None:
    write_table(spark, str(tmp_path / "t"))

    async def inside() -> None:
        async with adapter_world(tmp_path / "data", spark) as world:
            client = await world.connect()
            await client.run("SET timezone = 'UTC'")
            await client.tag(f"CREATE SOURCE t FROM FILE '{tmp_path}/t' FORMAT PARQUET {FAST}")
            kinds = (
                "SELECT column_name, data_type FROM information_schema.columns "
                "WHERE table_name = 't'"
            )
            assert dict(await client.rows(kinds)) == {
                "id": "bigint",
                "seen": "timestamp with time zone",
                "clock": "timestamp without time zone",
                "prices": "jsonb",
                "list": "ARRAY",
                "inner": "jsonb",
                "price": "numeric",
                "day": "text",
                "country": "text",
            }
            await until(client, "SELECT id FROM t", [(0,), (1,)])
            [row] = await client.rows(
                "SELECT seen::text, clock::text, prices->>'b', list[1], \"inner\"::text, price, "
                "day::date, country FROM t WHERE id = 1"
            )
            assert row == (
                "2024-01-31 12:00:00.123456+00",
                "2024-01-31 12:00:00",
                "1.50",
                1,
                '{"x": 1, "at": "2024-01-31T12:00:00Z"}',
                decimal.Decimal("9.99"),
                datetime.date(2024, 1, 31),
                "G/B",
            )
            await client.tag(
                "CREATE MATERIALIZED VIEW v AS SELECT country, count(*) AS n, max(seen) AS last "
                "FROM t GROUP BY country"
            )
            await until(client, "SELECT country, n FROM v", [("G/B", 2)])

    asyncio.run(inside())


@pytest.mark.slow
@pytest.mark.service
def test_objects_read_by_executors(
    tmp_path: Path, spark: SparkSession, s3_server: S3Server
) -> None:
    """Of a table that Spark has written, and of lines, some of which are no lines."""
    write_table(spark, str(tmp_path / "t"))
    rows, in_path = columns_of(str(tmp_path / "t"), None)
    taken = [column for column in rows.columns if column.name in ("id", "prices")]
    every = encode_schema(Schema((*taken, *in_path.columns)))
    clients = Clients(settings(s3_server.endpoint))
    executors = OnSpark(LiveSession.of(spark), tmp_path / "reads")
    table = S3World(
        clients,
        definition(
            "spark-table", messages=None, columns=every, path_columns=encode_schema(in_path)
        ),
        executors,
    )
    for file in (tmp_path / "t").rglob("*"):
        if file.is_file():
            table.put(str(file.relative_to(tmp_path)), file.read_bytes())
    table.settle()
    assert table.errors() == []
    assert sorted((row[0], json.loads(row[1])["b"], *row[-2:]) for row in table.rows()) == [
        (0, 1.5, "2024-01-31", "G/B"),
        (1, 1.5, "2024-01-31", "G/B"),
    ]
    lines = S3World(clients, definition("spark-lines"), executors)
    lines.put("large", "".join(f"line {i:06}\n" for i in range(1_000_000)))
    lines.put("small", "one\n")
    lines.put("broken.gz", b"\x1f\x8b nothing")
    lines.settle()
    assert lines.rows().total() == 1_000_001
    assert len(lines.errors()) == 1
