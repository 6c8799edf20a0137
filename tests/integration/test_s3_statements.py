"""CREATE SOURCE ... FROM S3, from the statement to the rows."""

from __future__ import annotations

import asyncio
import io
import itertools
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from waterclock.errors import WaterclockError
from waterclock.storage.sources.aws.clients import access_of
from waterclock.testing.adapter_world import AdapterWorld, Client, adapter_world
from waterclock.testing.s3_source import settings
from waterclock.testing.services import S3Server

pytestmark = pytest.mark.service
SECONDS = 120.0
FAST = "WITH (TIMESTAMP INTERVAL = '20ms')"
_numbers = itertools.count()


class Bucket:
    """A bucket of a test."""

    def __init__(self, server: S3Server) -> None:
        self.name = f"statements-{next(_numbers)}"
        self.endpoint = server.endpoint
        access = access_of(settings(server.endpoint))
        self.s3, self.sqs = access.open("s3"), access.open("sqs")
        self.s3.create_bucket(Bucket=self.name)

    def put(self, key: str, data: bytes | str) -> None:
        body = data.encode() if isinstance(data, str) else data
        self.s3.put_object(Bucket=self.name, Key=key, Body=body)


async def connected(world: AdapterWorld, bucket: Bucket) -> Client:
    client = await world.connect()
    await client.run("CREATE SECRET k AS 'test'")
    await client.run(
        "CREATE CONNECTION aws TO AWS (ACCESS KEY ID 'test', SECRET ACCESS KEY SECRET k, "
        f"ENDPOINT '{bucket.endpoint}')"
    )
    return client


async def until(client: Client, query: str, expected: list[tuple[Any, ...]]) -> None:
    await client.until(query, lambda rows: sorted(rows, key=str) == sorted(expected, key=str))


async def until_error(client: Client, query: str) -> WaterclockError:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            await client.rows(query)
        except WaterclockError as error:
            return error
        await asyncio.sleep(0.02)
    raise AssertionError(f"{query} does not fail")


def in_world(
    tmp_path: Path, server: S3Server, test: Callable[[Client, Bucket], Coroutine[Any, Any, None]]
) -> None:
    async def inside() -> None:
        bucket = Bucket(server)
        async with adapter_world(tmp_path) as world:
            await test(await connected(world, bucket), bucket)

    asyncio.run(inside())


@pytest.mark.semantics(167, 168, 169)
def test_a_source_over_a_restart(tmp_path: Path, s3_server: S3Server) -> None:
    bucket = Bucket(s3_server)
    bucket.put("in/a.json", '{"id": 1, "name": "x"}\n')

    async def inside() -> None:
        async with adapter_world(tmp_path) as world:
            client = await connected(world, bucket)
            made = await client.tag(
                "CREATE SOURCE s (id int NOT NULL, name text) FROM S3 CONNECTION aws (DISCOVER "
                f"OBJECTS MATCHING 'in/**/*.json' USING BUCKET SCAN '{bucket.name}', COMPRESSION "
                f"AUTO) FORMAT JSON {FAST}"
            )
            assert made == "CREATE SOURCE"
            assert not client.notices
            await until(client, "SELECT id, name FROM s", [(1, "x")])
            progress = "SELECT key, byte_offset FROM s_progress"
            await until(client, progress, [(None, 0), ("in/a.json", 23)])
            [(text,)] = await client.rows("SELECT create_sql FROM mz_catalog.mz_sources")
            assert "DISCOVER OBJECTS MATCHING" in text
            assert f"USING BUCKET SCAN = '{bucket.name}'" in text
            await client.run("SET real_time_recency = on")
            for i in range(5):  # what was written is there at once
                bucket.put(f"in/r{i}.json", f'{{"id": {10 + i}}}\n')
                assert (10 + i,) in await client.rows("SELECT id FROM s")
            world.close()
            world.open()
            client = await world.connect()
            bucket.put("in/0.json", '{"id": 2}\n')
            await until(client, "SELECT id FROM s", [(1,), *((10 + i,) for i in range(5)), (2,)])
            bucket.put("in/a.json", "{}\n")
            error = await until_error(client, "SELECT * FROM s")
            assert error.sqlstate == "55000"
            assert f"s3://{bucket.name}/in/a.json" in error.message

    asyncio.run(inside())


def test_formats_and_columns(tmp_path: Path, s3_server: S3Server) -> None:
    async def inside(client: Client, bucket: Bucket) -> None:
        sink = io.BytesIO()
        pq.write_table(pa.table({"id": [7]}), sink)
        bucket.put("p/day=2024-01-31/x.parquet", sink.getvalue())
        lines = pa.BufferOutputStream()
        with pa.CompressedOutputStream(lines, "gzip") as out:
            out.write(b"a;b\n1;x\n")
        bucket.put("c/x.csv.gz", bytes(lines.getvalue()))
        bucket.put("t/x", "plain\n")

        def source(name: str, prefix: str, rest: str, more: str = "") -> str:
            return (
                f"CREATE SOURCE {name} FROM S3 CONNECTION aws (DISCOVER OBJECTS MATCHING "
                f"'{prefix}/**' USING BUCKET SCAN '{bucket.name}'{more}) FORMAT {rest} {FAST}"
            )

        await client.tag(source("p", "p", "PARQUET"))
        await client.tag(source("c", "c", "CSV WITH HEADER DELIMITED BY ';'"))
        await client.tag(source("t", "t", "TEXT INCLUDE OFFSET", ", HIVE PARTITIONS (day)"))
        await client.tag(source("n", "none", "TEXT"))
        await until(client, "SELECT id, day FROM p", [(7, "2024-01-31")])
        await until(client, "SELECT a, b FROM c", [("1", "x")])
        await until(client, 'SELECT text, "offset", day FROM t', [("plain", 0, None)])
        assert [each.message for each in client.notices] == [
            f'no object in bucket "{bucket.name}" matches "none/**" yet'
        ]

    in_world(tmp_path, s3_server, inside)


def test_a_queue(tmp_path: Path, s3_server: S3Server) -> None:
    async def inside(client: Client, bucket: Bucket) -> None:
        url = bucket.sqs.create_queue(QueueName=bucket.name)["QueueUrl"]
        await client.tag(
            f"CREATE SOURCE s FROM S3 CONNECTION aws (DISCOVER OBJECTS USING BUCKET SCAN "
            f"'{bucket.name}', SQS NOTIFICATIONS '{bucket.name}', SCAN INTERVAL '1 day') "
            f"FORMAT TEXT {FAST}"
        )
        await until(client, "SELECT text FROM s", [])
        arn = bucket.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        bucket.s3.put_bucket_notification_configuration(
            Bucket=bucket.name,
            NotificationConfiguration={
                "QueueConfigurations": [
                    {"QueueArn": arn["Attributes"]["QueueArn"], "Events": ["s3:ObjectCreated:*"]}
                ]
            },
        )
        for key in ("a", "b c/ü+d"):  # which the server tells the queue of
            bucket.put(key, f"{key}\n")
        await until(client, "SELECT text FROM s", [("a",), ("b c/ü+d",)])

    in_world(tmp_path, s3_server, inside)


def test_statements_that_do_not_make_sense(tmp_path: Path, s3_server: S3Server) -> None:
    async def inside(client: Client, bucket: Bucket) -> None:
        scan = f"DISCOVER OBJECTS USING BUCKET SCAN '{bucket.name}'"
        await client.run(
            "CREATE CONNECTION registry TO CONFLUENT SCHEMA REGISTRY (URL 'http://127.0.0.1:1') "
            "WITH (VALIDATE = false)"
        )
        for options, rest, sqlstate, part in (
            ("COMPRESSION AUTO", "FORMAT TEXT", "42601", "USING BUCKET SCAN option is required"),
            (scan, "", "42601", "requires FORMAT"),
            (f"{scan}, COMPRESSION LZ4", "FORMAT TEXT", "42601", "AUTO, NONE, GZIP or ZSTD"),
            (f"{scan}, COMPRESSION GZIP", "FORMAT PARQUET", "0A000", "COMPRESSION"),
            (f"{scan}, SPEED 5", "FORMAT TEXT", "42601", "not recognized"),
            (scan, "KEY FORMAT TEXT VALUE FORMAT TEXT", "0A000", "KEY FORMAT"),
            (scan, "FORMAT TEXT ENVELOPE UPSERT", "0A000", "UPSERT"),
            (scan, "FORMAT PARQUET", "22023", "no object in bucket"),
            (scan, "FORMAT CSV WITH HEADER", "22023", "no object in bucket"),
            (scan.replace(bucket.name, "nobucket"), "FORMAT TEXT", "08000", "list bucket"),
            (f"{scan}, SQS NOTIFICATIONS 'none'", "FORMAT TEXT", "08000", 'queue "none"'),
            (
                f"DISCOVER OBJECTS MATCHING '[a' USING BUCKET SCAN '{bucket.name}'",
                "FORMAT TEXT",
                "22023",
                "bracket",
            ),
        ):
            error = await client.fails(f"CREATE SOURCE s FROM S3 CONNECTION aws ({options}) {rest}")
            assert (error.sqlstate, part in error.message) == (sqlstate, True), error.message
        other = await client.fails(
            f"CREATE SOURCE s FROM S3 CONNECTION registry ({scan}) FORMAT TEXT"
        )
        assert "does not lead to AWS" in other.message
        await client.run("CREATE ROLE bob; SET ROLE bob")
        denied = await client.fails(f"CREATE SOURCE s FROM S3 CONNECTION aws ({scan}) FORMAT TEXT")
        assert denied.sqlstate == "42501"

    in_world(tmp_path, s3_server, inside)
