"""Kinesis sources against servers that speak it: from SQL to the service and back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from waterclock.errors import WaterclockError
from waterclock.testing.adapter_world import AdapterWorld, Client, adapter_world
from waterclock.testing.kinesis import StreamWriter, aggregated, door
from waterclock.testing.services import KinesisServer, S3Server

pytestmark = [pytest.mark.service, pytest.mark.slow]
SECONDS = 240.0
Test = Callable[[AdapterWorld, Client], Awaitable[None]]
QUICKLY = "WITH (TIMESTAMP INTERVAL '50ms')"


@pytest.fixture
def writer(kinesis_server: KinesisServer) -> Iterator[StreamWriter]:
    found = StreamWriter(kinesis_server.endpoint)
    yield found
    found.close()


def in_world(folder: Path, endpoint: str, test: Test) -> None:
    """Run a test in a server of its own that has a connection `aws` to the endpoint."""

    async def inside() -> None:
        async with adapter_world(folder, None) as world:
            client = await world.connect()
            await client.run(
                "CREATE SECRET secret AS 'test';"
                "CREATE CONNECTION aws TO AWS (ACCESS KEY ID 'test', REGION 'us-east-1',"
                f" SECRET ACCESS KEY = SECRET secret, ENDPOINT '{endpoint}')"
            )
            await test(world, client)

    asyncio.run(inside())


async def until_rows(client: Client, query: str, expected: list[tuple[Any, ...]]) -> None:
    await client.until(query, lambda found: sorted(found) == sorted(expected))


async def status_of(client: Client, source: str, health: str) -> tuple[Any, ...]:
    """The source's status when it has come to that."""
    query = (
        f"SELECT status, error, details FROM mz_internal.mz_source_statuses WHERE name = '{source}'"
    )
    [found] = await client.until(query, lambda rows: bool(rows) and rows[0][0] == health)
    return found


@pytest.mark.semantics(138, 155, 157, 164, 168, 173)
def test_a_stream_that_is_split_and_merged(
    tmp_path: Path, kinesis_server: KinesisServer, writer: StreamWriter
) -> None:
    [shard] = writer.create("orders")
    numbers = writer.put("orders", [("a", '{"id": 1}'), ("b", '{"id": 2}')])

    async def check(world: AdapterWorld, client: Client) -> None:
        await client.run(
            "CREATE SOURCE orders (id int NOT NULL) FROM KINESIS CONNECTION aws"
            " (STREAM 'orders') FORMAT JSON"
            f" INCLUDE KEY AS k, SHARD, SEQUENCE NUMBER AS n, TIMESTAMP {QUICKLY}"
        )
        query = "SELECT k, id, shard, n FROM orders"
        await until_rows(client, query, [("a", 1, shard, numbers[0]), ("b", 2, shard, numbers[1])])
        assert len(numbers[1]) > 38
        progress = "SELECT shard_id, sequence_number FROM orders_progress"
        await until_rows(client, progress, [(shard, str(int(numbers[1]) + 1))])
        stamps = [row[0].timestamp() for row in await client.rows("SELECT timestamp FROM orders")]
        assert all(abs(time.time() - stamp) < SECONDS for stamp in stamps)

        write = asyncio.to_thread
        children = await write(writer.split, "orders", shard)
        keys = [await write(writer.key_in, "orders", child) for child in children]
        for place, key in enumerate(keys):
            await write(writer.put, "orders", [(key, f'{{"id": {3 + place}}}')])
        await until_rows(client, "SELECT id FROM orders", [(n,) for n in (1, 2, 3, 4)])
        found = dict(await client.rows(progress))
        assert found[shard] == "SHARD_END"
        assert found.keys() == {shard, *children}
        merged = await write(writer.merge, "orders", *children)
        [last] = await write(writer.put, "orders", [("z", '{"id": 5}')])
        await until_rows(client, "SELECT id FROM orders", [(n,) for n in (1, 2, 3, 4, 5)])
        assert dict(await client.rows(progress)) == {
            **dict.fromkeys((shard, *children), "SHARD_END"),
            merged: str(int(last) + 1),
        }
        counts = (
            "SELECT messages_received, updates_committed, offset_known, offset_committed, lag_ms"
            " FROM mz_internal.mz_source_statistics s JOIN mz_sources o ON o.id = s.id"
            " WHERE o.name = 'orders'"
        )
        [(received, updates, known, committed, lag)] = await client.until(
            counts, lambda rows: bool(rows) and rows[0][0] == 5
        )
        assert (received, known, committed) == (5, None, None)
        assert updates >= 5  # and what is noted of the shards
        assert lag is not None
        with pytest.raises(WaterclockError, match="recent reads of source") as told:
            await client.run("SELECT * FROM orders AS OF UPSTREAM")
        assert told.value.sqlstate == "0A000"
        assert "sequence number of the newest record" in (told.value.detail or "")
        [(_, text)] = await client.rows("SHOW CREATE SOURCE orders")
        assert "FROM KINESIS CONNECTION waterclock.public.aws (STREAM = 'orders')" in text
        assert "INCLUDE KEY AS k, SHARD, SEQUENCE NUMBER AS n, TIMESTAMP" in text

        await asyncio.to_thread(world.close)
        await write(writer.put, "orders", [("z", '{"id": 6}')])
        await asyncio.to_thread(world.open)
        client = await world.connect()
        await until_rows(client, "SELECT id FROM orders", [(n,) for n in (1, 2, 3, 4, 5, 6)])

    in_world(tmp_path, kinesis_server.endpoint, check)


def test_upserts_over_a_split_and_records_that_can_not_be_read(
    tmp_path: Path, kinesis_server: KinesisServer, writer: StreamWriter
) -> None:
    [shard] = writer.create("states")
    packed = aggregated([("p", b'{"v": "one"}'), ("q", b'{"v": "two"}')])
    writer.put("states", [("x", '{"v": "old"}'), ("any", packed)])

    async def check(world: AdapterWorld, client: Client) -> None:
        del world
        await client.run(
            "CREATE SOURCE states (v text) FROM KINESIS CONNECTION aws (STREAM 'states')"
            f" FORMAT JSON ENVELOPE UPSERT {QUICKLY}"
        )
        await client.run(
            "CREATE SOURCE calm (v text) FROM KINESIS CONNECTION aws (STREAM 'states')"
            f" FORMAT JSON ENVELOPE UPSERT ON DECODE ERROR SKIP {QUICKLY}"
        )
        everything = "SELECT key, v FROM states"
        await until_rows(client, everything, [("x", "old"), ("p", "one"), ("q", "two")])
        write = asyncio.to_thread
        await write(writer.put, "states", [("x", '{"v": "older"}')])
        await write(writer.split, "states", shard)
        [bad] = await write(writer.put, "states", [("x", "{")])

        async def fails() -> WaterclockError:
            while True:
                try:
                    await client.rows(everything)
                except WaterclockError as error:
                    return error
                await asyncio.sleep(0.05)

        error = await asyncio.wait_for(fails(), SECONDS)
        assert f"offset {bad}" in error.message
        skipped = "SELECT sequence_number, message_value, subject FROM calm_errors"
        await until_rows(client, skipped, [(str(bad), b"{", 'key ["x"]')])
        assert sorted(await client.rows("SELECT key FROM calm")) == [("p",), ("q",)]
        await write(writer.put, "states", [("x", '{"v": "new"}')])

        async def answers() -> None:
            while True:
                try:
                    await until_rows(client, everything, [("x", "new"), ("p", "one"), ("q", "two")])
                    return
                except WaterclockError:
                    await asyncio.sleep(0.05)

        await asyncio.wait_for(answers(), SECONDS)
        await until_rows(client, skipped, [])

    in_world(tmp_path, kinesis_server.endpoint, check)


def test_where_a_source_starts(
    tmp_path: Path, kinesis_server: KinesisServer, writer: StreamWriter
) -> None:
    writer.create("positions", 2)
    writer.put("positions", [(str(n), f"old{n}") for n in range(4)])

    async def check(world: AdapterWorld, client: Client) -> None:
        del world
        create = "CREATE SOURCE {} FROM KINESIS CONNECTION aws (STREAM 'positions'{}) FORMAT TEXT "
        await client.run(create.format("latest", ", START POSITION LATEST") + QUICKLY)
        await client.run(create.format("horizon", ", START POSITION 'trim_horizon'") + QUICKLY)
        since = ", START POSITION AT TIMESTAMP '2020-01-01 00:00:00+00'"
        await client.run(create.format("since", since) + QUICKLY)
        await asyncio.to_thread(writer.put, "positions", [("0", "new"), ("3", "newer")])
        old = [(f"old{n}",) for n in range(4)]
        await until_rows(client, "SELECT text FROM latest", [("new",), ("newer",)])
        await until_rows(client, "SELECT text FROM horizon", [*old, ("new",), ("newer",)])
        await until_rows(client, "SELECT text FROM since", [*old, ("new",), ("newer",)])
        future = ", START POSITION AT TIMESTAMP '2999-01-01'"
        with pytest.raises(WaterclockError, match="must not be in the future"):
            await client.run(create.format("never", future))

    in_world(tmp_path, kinesis_server.endpoint, check)


def test_throttling_and_iterators_that_expire(
    tmp_path: Path, kinesis_server: KinesisServer, writer: StreamWriter
) -> None:
    writer.create("busy")
    writer.put("busy", [("a", "0")])

    async def check(world: AdapterWorld, client: Client) -> None:
        del world
        await client.run(
            "CREATE SOURCE busy FROM KINESIS CONNECTION aws (STREAM 'busy') FORMAT TEXT " + QUICKLY
        )
        await until_rows(client, "SELECT text FROM busy", [("0",)])
        guarded.refusals["GetRecords"] = "ProvisionedThroughputExceededException"
        _, error, details = await status_of(client, "busy", "stalled")
        assert "the service is throttling requests" in error
        assert "less often" in str(details)
        await asyncio.to_thread(writer.put, "busy", [("a", "1")])
        del guarded.refusals["GetRecords"]
        await until_rows(client, "SELECT text FROM busy", [("0",), ("1",)])
        await status_of(client, "busy", "running")
        guarded.once["GetRecords"] = "ExpiredIteratorException"
        await asyncio.to_thread(writer.put, "busy", [("a", "2")])
        await until_rows(client, "SELECT text FROM busy", [("0",), ("1",), ("2",)])
        assert guarded.refused["ExpiredIteratorException"] == 1
        guarded.refusals["GetRecords"] = "AccessDeniedException"
        _, error, _ = await status_of(client, "busy", "stalled")
        assert "access was denied" in error
        del guarded.refusals["GetRecords"]
        await status_of(client, "busy", "running")

    with door(kinesis_server.endpoint) as guarded:
        in_world(tmp_path, guarded.endpoint, check)


def test_records_that_have_expired(
    tmp_path: Path, kinesis_server: KinesisServer, writer: StreamWriter
) -> None:
    """With a retention period of nothing, only records that are still there prove anything."""
    writer.create("short")
    [first] = writer.put("short", [("a", "0")])

    def keeps_nothing(answer: dict[str, Any]) -> None:
        answer["StreamDescriptionSummary"]["RetentionPeriodHours"] = 0

    def without_the_first(answer: dict[str, Any]) -> None:
        answer["Records"] = [r for r in answer["Records"] if r["SequenceNumber"] != first]

    async def check(world: AdapterWorld, client: Client) -> None:
        await client.run(
            "CREATE SOURCE short FROM KINESIS CONNECTION aws (STREAM 'short') FORMAT TEXT"
        )
        await until_rows(client, "SELECT text FROM short", [("0",)])
        guarded.edits["DescribeStreamSummary"] = keeps_nothing
        await asyncio.to_thread(world.close)
        await asyncio.to_thread(world.open)
        client = await world.connect()
        await status_of(client, "short", "running")
        guarded.edits["GetRecords"] = without_the_first
        await asyncio.to_thread(writer.put, "short", [("a", "1")])
        _, error, details = await status_of(client, "short", "failed")
        assert error == 'records of stream "short" have expired upstream before they were read'
        assert f"sequence number {first}" in str(details)
        assert (await client.fails("SELECT * FROM short")).sqlstate == "55000"

    with door(kinesis_server.endpoint) as guarded:
        in_world(tmp_path, guarded.endpoint, check)


def test_a_stream_that_is_gone(
    tmp_path: Path, kinesis_server: KinesisServer, writer: StreamWriter
) -> None:
    writer.create("gone")
    writer.create("again")

    async def check(world: AdapterWorld, client: Client) -> None:
        for name in ("gone", "again"):
            await client.run(
                f"CREATE SOURCE {name} FROM KINESIS CONNECTION aws (STREAM '{name}') FORMAT TEXT"
            )
            await status_of(client, name, "running")
        await asyncio.to_thread(world.close)
        await asyncio.to_thread(writer.delete, "gone")
        await asyncio.to_thread(writer.delete, "again")
        await asyncio.to_thread(writer.create, "again")
        await asyncio.to_thread(world.open)
        client = await world.connect()
        _, error, _ = await status_of(client, "gone", "failed")
        assert error == 'stream "gone" was deleted upstream'
        _, error, _ = await status_of(client, "again", "failed")
        assert error == 'stream "again" was deleted and created again upstream'
        with pytest.raises(WaterclockError, match="created again upstream"):
            await client.rows("SELECT * FROM again")

    in_world(tmp_path, kinesis_server.endpoint, check)


def test_another_server(tmp_path: Path, s3_server: S3Server) -> None:
    writer = StreamWriter(s3_server.endpoint)
    writer.create("elsewhere", 3)
    writer.put_many("elsewhere", [(str(n), str(n)) for n in range(1500)])

    async def check(world: AdapterWorld, client: Client) -> None:
        del world
        arn = "arn:aws:kinesis:us-east-1:123456789012:stream/elsewhere"
        for name, stream in (("by_name", "elsewhere"), ("by_arn", arn)):
            await client.run(
                f"CREATE SOURCE {name} FROM KINESIS CONNECTION aws (STREAM '{stream}')"
                " KEY FORMAT BYTES VALUE FORMAT TEXT INCLUDE KEY"
            )
            found = await client.until(
                f"SELECT key, text FROM {name}", lambda rows: len(rows) == 1500
            )
            assert sorted(found) == sorted((str(n).encode(), str(n)) for n in range(1500))
        await asyncio.to_thread(writer.put, "elsewhere", [("x", "more")])
        await until_rows(client, "SELECT text FROM by_arn WHERE text = 'more'", [("more",)])

    in_world(tmp_path, s3_server.endpoint, check)
    writer.close()


def test_what_is_refused(tmp_path: Path, kinesis_server: KinesisServer) -> None:
    async def check(world: AdapterWorld, client: Client) -> None:
        del world
        await client.run(
            "CREATE CONNECTION k TO KAFKA (BROKER '127.0.0.1:1') WITH (VALIDATE = false)"
        )
        head = "CREATE SOURCE s FROM KINESIS CONNECTION aws"
        for statement, sqlstate, message in (
            (f"{head} (STREAM 'none') FORMAT TEXT", "22023", 'stream "none" does not exist'),
            (f"{head} FORMAT TEXT", "42601", "STREAM option is required"),
            (f"{head} (STREAM 's')", "42601", "this kind of source requires FORMAT"),
            (
                f"{head} (STREAM 's', START POSITION 7) FORMAT TEXT",
                "42601",
                "START POSITION must be TRIM_HORIZON, LATEST or AT TIMESTAMP 'time'",
            ),
            (
                f"{head} (STREAM 's', START POSITION AT TIMESTAMP 'x') FORMAT TEXT",
                "42601",
                "start position at timestamp requires a time",
            ),
            (
                f"{head} (STREAM 's') FORMAT TEXT INCLUDE PARTITION",
                "0A000",
                "INCLUDE PARTITION is not supported for this kind of source",
            ),
            (
                "CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC 't') FORMAT TEXT INCLUDE SHARD",
                "0A000",
                "INCLUDE SHARD is not supported for this kind of source",
            ),
            (
                "CREATE SOURCE s FROM KINESIS CONNECTION k (STREAM 's') FORMAT TEXT",
                "0A000",
                'connection "k" does not lead to AWS',
            ),
            (
                "CREATE SOURCE s FROM KINESIS ARN 'a' FORMAT TEXT",
                "42601",
                "a Kinesis source needs a connection",
            ),
        ):
            with pytest.raises(WaterclockError) as told:
                await client.run(statement)
            assert (told.value.sqlstate, told.value.message) == (sqlstate, message), statement

    in_world(tmp_path, kinesis_server.endpoint, check)
