"""Kafka sources against a real broker: from SQL to the broker and back."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from waterclock.adapter.api import Rows
from waterclock.compute.live_session import LiveSession
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.storage.formats.api import Included, MessageDefinition, TextDefinition
from waterclock.storage.reclock.progress import Range
from waterclock.storage.sources.api import ConnectionSettings, Surroundings
from waterclock.storage.sources.executors import OnSpark
from waterclock.storage.sources.kafka import connector as kafka_module
from waterclock.storage.sources.kafka.connector import Kafka
from waterclock.storage.sources.kafka.creation import Wanted, define
from waterclock.storage.sources.kafka.definition import KafkaDefinition
from waterclock.storage.sources.kafka.reading import Parts, RangeReader
from waterclock.storage.sources.kafka.settings import client_settings
from waterclock.testing.adapter_world import AdapterWorld, Client, adapter_world, rows_of
from waterclock.testing.crash.kafka import opened
from waterclock.testing.crash.lives import Life
from waterclock.testing.kafka import PASSWORD, USER, KafkaBroker, produced
from waterclock.testing.schema_registry import framed, schema_registry

pytestmark = [pytest.mark.service, pytest.mark.slow]
SECONDS = 240.0
Test = Callable[[AdapterWorld, Client], Awaitable[None]]


def in_world(
    folder: Path, broker: KafkaBroker, test: Test, spark: SparkSession | None = None
) -> None:
    """Run a test in a server of its own that has a connection `k` to the broker."""

    async def inside() -> None:
        async with adapter_world(folder, spark) as world:
            client = await world.connect()
            await client.run(f"CREATE CONNECTION k TO KAFKA (BROKER '{broker.address}')")
            await test(world, client)

    asyncio.run(inside())


async def until_rows(client: Client, query: str, expected: list[tuple[Any, ...]]) -> None:
    await client.until(query, lambda found: sorted(found) == sorted(expected))


async def status_of(client: Client, source: str, health: str) -> tuple[Any, ...]:
    """The source's status when it has come to that."""
    query = "SELECT name, status, error, details FROM mz_internal.mz_source_statuses"
    found = await client.until(
        query, lambda rows: any(r[0] == source and r[1] == health for r in rows)
    )
    return next(row for row in found if row[0] == source)


@pytest.mark.semantics(103, 104, 115, 116, 155, 157, 168)
def test_partitions_and_what_is_known_of_records(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    broker = kafka_broker
    broker.create_topic("orders", 2)
    broker.produce("orders", [("a", "1"), ("b", None)], 0, timestamp=1500, headers=[("h", b"v")])
    broker.produce("orders", [(None, "x")], 1, timestamp=2500)

    async def check(world: AdapterWorld, client: Client) -> None:
        del world
        await client.run(
            "CREATE SOURCE orders FROM KAFKA CONNECTION k (TOPIC 'orders')"
            " KEY FORMAT TEXT VALUE FORMAT TEXT"
            " INCLUDE KEY AS k, PARTITION, OFFSET AS at, TIMESTAMP, HEADERS, HEADER 'h' AS one"
        )
        header = '{"key": "h", "value": "\\\\x76"}'
        found = await client.until("SELECT * FROM orders", lambda rows: len(rows) == 3)
        assert sorted(
            (k, text, part, at, stamp.timestamp(), headers, one)
            for k, text, part, at, stamp, headers, one in found
            if k is not None
        ) == [
            ("a", "1", 0, 0, 1.5, [header], b"v"),
            ("b", None, 0, 1, 1.5, [header], b"v"),
        ]
        [other] = [row for row in found if row[0] is None]
        assert other[1:4] == ("x", 1, 0)
        assert other[5:] == (None, None)
        progress = 'SELECT partition, "offset" FROM orders_progress'
        assert sorted(await client.rows(progress)) == [(0, 2), (1, 1)]
        # a partition more, while the source runs
        await asyncio.to_thread(broker.add_partitions, "orders", 3)
        await asyncio.to_thread(broker.produce, "orders", [("n", "new")], 2)
        await until_rows(client, progress, [(0, 2), (1, 1), (2, 1)])
        await until_rows(client, "SELECT text FROM orders WHERE partition = 2", [("new",)])
        shown = await client.rows("SHOW SOURCES")
        assert ("orders", "kafka") in [(row[0], row[1]) for row in shown]
        [(_, text)] = await client.rows("SHOW CREATE SOURCE orders")
        assert "FROM KAFKA CONNECTION waterclock.public.k (TOPIC = 'orders')" in text
        await client.run("DROP SOURCE orders")
        assert await client.rows("SHOW SOURCES") == []

    in_world(tmp_path, broker, check)


@pytest.mark.semantics(104, 114, 161)
def test_transactions_upstream(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    """Aborted records never appear, open ones not yet, and what they leave are gaps."""
    broker = kafka_broker
    broker.create_topic("paid", 1)
    producer = broker.producer("paid-1", transaction_timeout_ms=600_000)

    def transaction(*values: str) -> None:
        producer.begin_transaction()
        produced(producer, "paid", [(None, value) for value in values])

    async def check(world: AdapterWorld, client: Client) -> None:
        del world
        transaction("a", "b")
        producer.abort_transaction()
        transaction("c", "d")
        producer.commit_transaction()
        transaction("e")
        await client.run("CREATE SOURCE paid FROM KAFKA CONNECTION k (TOPIC 'paid') FORMAT TEXT")
        await until_rows(client, "SELECT text FROM paid", [("c",), ("d",)])
        progress = 'SELECT "offset" FROM paid_progress'
        assert await client.rows(progress) == [(6,)]  # up to the transaction that is open
        assert broker.latest("paid") == 7
        producer.commit_transaction()
        await until_rows(client, "SELECT text FROM paid", [("c",), ("d",), ("e",)])
        transaction("f")
        producer.abort_transaction()
        await until_rows(client, progress, [(10,)])  # a range without a single record
        assert len(await client.rows("SELECT text FROM paid")) == 3

    in_world(tmp_path, broker, check)


@pytest.mark.semantics(104)
def test_a_compacted_topic(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    broker = kafka_broker
    broker.create_topic(
        "compacted",
        cleanup_policy="compact",
        segment_bytes=1_048_576,
        segment_ms=100,
        min_cleanable_dirty_ratio=0.01,
        max_compaction_lag_ms=1,
        delete_retention_ms=0,
    )
    for round_ in range(3):
        broker.produce("compacted", [(f"k{n}", f"{round_}.{n}") for n in range(200)])
        time.sleep(0.3)
    end = broker.latest("compacted")
    settings = client_settings(ConnectionSettings("k", "kafka", {"broker": broker.address}))

    def count() -> int:
        reader = RangeReader(settings, "compacted", "counting", Parts(False, False))
        try:
            return sum(batch.num_rows for batch in reader.read([Range(0, 0, end)]))
        finally:
            reader.close()

    deadline = time.monotonic() + SECONDS
    while count() >= 600 and time.monotonic() < deadline:
        broker.produce("compacted", [("tick", str(time.time()))])  # lets the segment be closed
        time.sleep(0.3)
    assert count() < 600, "the broker has compacted the topic"

    async def check(world: AdapterWorld, client: Client) -> None:
        del world
        await client.run(
            "CREATE SOURCE compacted FROM KAFKA CONNECTION k (TOPIC 'compacted')"
            " KEY FORMAT TEXT VALUE FORMAT TEXT ENVELOPE UPSERT"
        )
        expected = {(f"k{n}", f"2.{n}") for n in range(200)}
        query = "SELECT key, text FROM compacted"
        await client.until(query, lambda rows: {r for r in rows if r[0] != "tick"} == expected)
        progress = await client.rows('SELECT "offset" FROM compacted_progress')
        assert progress == [(broker.latest("compacted"),)]

    in_world(tmp_path, broker, check)


@pytest.mark.semantics(113)
def test_ranges_are_exact_however_often_they_are_read(kafka_broker: KafkaBroker) -> None:
    """One reader, ranges to and fro, while others write: never a record too few or too many."""
    broker = kafka_broker
    broker.create_topic("dense", 3)
    held = {p: broker.produce("dense", [(None, str(n)) for n in range(3000)], p) for p in range(3)}
    assert all(offsets == list(range(3000)) for offsets in held.values())
    settings = client_settings(ConnectionSettings("k", "kafka", {"broker": broker.address}))
    reader = RangeReader(settings, "dense", "dense", Parts(False, False))
    writer, pick = broker.producer(), random.Random(5)
    try:
        for turn in range(150):
            writer.produce("dense", str(3000 + turn), partition=turn % 3)
            ranges = []
            for partition in pick.sample(range(3), pick.randint(1, 3)):
                start = pick.randint(0, 2999)
                ranges.append(Range(partition, start, min(3000, start + pick.randint(1, 700))))
            found: dict[Any, list[int]] = {}
            for batch in reader.read(ranges):
                values = [int(value) for value in batch.column("value").to_pylist()]
                assert values == batch.column("offset").to_pylist()
                found.setdefault(batch.column("partition")[0].as_py(), []).extend(values)
            assert found == {r.partition: list(range(r.start, r.end)) for r in ranges}
    finally:
        writer.flush()
        reader.close()


def test_where_to_start(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    broker = kafka_broker
    broker.create_topic("starts", 2)
    for second in range(4):
        broker.produce("starts", [(None, f"p0-{second}")], 0, timestamp=1000 * (second + 1))
    broker.produce("starts", [(None, "p1-0")], 1, timestamp=1000)
    create = "CREATE SOURCE {} FROM KAFKA CONNECTION k (TOPIC 'starts', {}) FORMAT TEXT"

    async def check(world: AdapterWorld, client: Client) -> None:
        del world
        await client.run(create.format("by_offset", "START OFFSET (2, 1)"))
        await client.run(create.format("by_first", "START OFFSET 3"))
        await client.run(create.format("by_time", "START TIMESTAMP 3000"))
        await client.run(create.format("by_age", "START TIMESTAMP -1000"))
        await until_rows(client, "SELECT * FROM by_offset", [("p0-2",), ("p0-3",)])
        await until_rows(client, "SELECT * FROM by_first", [("p0-3",), ("p1-0",)])
        await until_rows(client, "SELECT * FROM by_time", [("p0-2",), ("p0-3",)])
        await asyncio.to_thread(broker.produce, "starts", [(None, "later")], 1)
        await until_rows(client, "SELECT * FROM by_age", [("later",)])
        beyond = await client.fails(create.format("x", "START OFFSET (9)"))
        assert beyond.message == "start offset 9 is beyond the end of partition 0"
        both = await client.fails(create.format("x", "START OFFSET 1, START TIMESTAMP 1"))
        assert both.sqlstate == "42601"
        none = await client.fails(
            "CREATE SOURCE x FROM KAFKA CONNECTION k (TOPIC 'nothing') FORMAT TEXT"
        )
        assert (none.message, none.sqlstate) == ('topic "nothing" does not exist', "22023")
        assert len(await client.rows("SHOW SOURCES")) == 4

    in_world(tmp_path, broker, check)


def test_what_is_gone_upstream_ends_the_source(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    broker = kafka_broker
    for topic in ("again", "expiring"):
        broker.create_topic(topic)
        broker.produce(topic, [(None, "1")])

    async def check(world: AdapterWorld, client: Client) -> None:
        for topic in ("again", "expiring"):
            await client.run(
                f"CREATE SOURCE {topic} FROM KAFKA CONNECTION k (TOPIC '{topic}') FORMAT TEXT"
            )
            await until_rows(client, f"SELECT * FROM {topic}", [("1",)])
        await asyncio.to_thread(world.close)
        broker.delete_topic("again")
        broker.create_topic("again")
        broker.produce("again", [(None, "other 1"), (None, "other 2")])
        broker.produce("expiring", [(None, "2"), (None, "3")])
        broker.delete_records("expiring", 0, 2)
        await asyncio.to_thread(world.open)
        client = await world.connect()
        failed = await status_of(client, "again", "failed")
        assert failed[2] == 'topic "again" was deleted and created again upstream'
        assert "Drop the source and create it again" in failed[3]
        failed = await status_of(client, "expiring", "failed")
        assert failed[2] == 'messages of topic "expiring" are gone upstream before they were read'
        error = await client.fails("SELECT * FROM again")
        assert "deleted and created again" in f"{error.message} {error.detail}"

    in_world(tmp_path, broker, check)


def test_brokers_that_are_away(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    broker = kafka_broker
    broker.create_topic("patient")
    broker.produce("patient", [(None, "1")])
    create = "CREATE SOURCE {} FROM KAFKA CONNECTION k (TOPIC 'patient') FORMAT TEXT"

    async def check(world: AdapterWorld, client: Client) -> None:
        del world
        await client.run(create.format("patient"))
        await until_rows(client, "SELECT * FROM patient", [("1",)])
        await asyncio.to_thread(broker.stop)
        try:
            stalled = await status_of(client, "patient", "stalled")
            assert stalled[2] == 'the brokers of connection "k" can not be reached'
            refused = await client.fails(create.format("x"))
            assert refused.sqlstate == "08000"
        finally:
            broker.start()  # in the thread that it shall live as long as
        await asyncio.to_thread(broker.produce, "patient", [(None, "2")])
        await until_rows(client, "SELECT * FROM patient", [("1",), ("2",)])
        await status_of(client, "patient", "running")

    in_world(tmp_path, broker, check)


def test_logging_in(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    """With SASL over TLS and without, and with a certificate of the client's own."""
    broker = kafka_broker
    broker.create_topic("private")
    broker.produce("private", [(None, "1")])
    create = "CREATE SOURCE p FROM KAFKA CONNECTION private (TOPIC 'private') FORMAT TEXT"

    async def check(world: AdapterWorld, client: Client) -> None:
        del world
        await client.run("CREATE SECRET pass AS 'wrong'")
        connection = (
            f"CREATE CONNECTION private TO KAFKA (BROKERS ('{broker.private_address}'),"
            f" SSL CERTIFICATE AUTHORITY '{broker.authority}', SASL MECHANISMS 'PLAIN',"
            f" SASL USERNAME '{USER}', SASL PASSWORD SECRET pass)"
        )
        unusable = await client.fails(connection)
        assert unusable.sqlstate == "08001"
        assert "uthentication" in f"{unusable.detail}"
        await client.run(f"{connection} WITH (VALIDATE = false)")
        again = await client.fails("VALIDATE CONNECTION private")
        assert "uthentication" in f"{again.detail}"
        refused = await client.fails(create)
        assert "uthentication" in f"{refused.detail}"
        assert "wrong" not in f"{refused.message} {refused.detail} {refused.hint}"
        await client.run(f"ALTER SECRET pass AS '{PASSWORD}'")
        assert await client.tag("VALIDATE CONNECTION private") == "VALIDATE CONNECTION"
        await client.run(create)
        certificate, key = broker.client
        login = f"SASL USERNAME '{USER}', SASL PASSWORD SECRET pass"
        scram = f"SECURITY PROTOCOL 'SASL_PLAINTEXT', {login}, SASL MECHANISMS"
        ways = {
            "sha256": f"{scram} 'SCRAM-SHA-256'",
            "sha512": f"{scram} 'SCRAM-SHA-512'",
            "mutual": f"SSL CERTIFICATE AUTHORITY '{broker.authority}',"
            f" SSL CERTIFICATE '{certificate}', SSL KEY SECRET key",
        }
        await client.run(f"CREATE SECRET key AS '{key}'")
        for name, options in ways.items():
            address = broker.mutual_address if name == "mutual" else broker.scram_address
            await client.run(
                f"CREATE CONNECTION to_{name} TO KAFKA (BROKER '{address}', {options})"
            )
            of = f"FROM KAFKA CONNECTION to_{name} (TOPIC 'private') FORMAT TEXT"
            await client.run(f"CREATE SOURCE {name} {of}")
        for source in ("p", *ways):
            await until_rows(client, f"SELECT * FROM {source}", [("1",)])
        without = f"BROKER '{broker.mutual_address}', SSL CERTIFICATE AUTHORITY"
        nobody = f"CREATE CONNECTION nobody TO KAFKA ({without} '{broker.authority}')"
        assert (await client.fails(nobody)).sqlstate == "08001"
        await client.run(f"{nobody} WITH (VALIDATE = false)")
        stranger = await client.fails(
            create.replace("SOURCE p", "SOURCE q").replace("N private", "N nobody")
        )
        assert stranger.sqlstate == "08000"

    in_world(tmp_path, broker, check)


# Formats and envelopes


@pytest.mark.semantics(144, 148)
def test_formats_and_envelopes(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    broker = kafka_broker
    for topic in ("json", "csv", "users", "dbz"):
        broker.create_topic(topic)
    broker.produce("json", [(None, '{"id": 1, "name": "a"}'), (None, '{"id": 2}')])
    broker.produce("csv", [(None, "1,one"), (None, '2,"t,wo"')])
    broker.produce("users", [("u1", '{"n": 1}'), ("u2", '{"n": 2}'), ("u1", '{"n": 3}')])
    broker.produce("dbz", [(None, change(None, {"id": 1, "v": "a"}))])

    async def check(world: AdapterWorld, client: Client) -> None:
        del world
        source = "FROM KAFKA CONNECTION k (TOPIC '{}')"
        await client.run(
            f"CREATE SOURCE json (id int, name text) {source.format('json')} FORMAT JSON;"
            f"CREATE SOURCE raw {source.format('json')} FORMAT BYTES;"
            f"CREATE SOURCE csv {source.format('csv')} FORMAT CSV WITH 2 COLUMNS;"
            f"CREATE SOURCE users (n int) {source.format('users')}"
            " KEY FORMAT TEXT VALUE FORMAT JSON ENVELOPE UPSERT;"
            f"CREATE SOURCE dbz (id int, v text) {source.format('dbz')}"
            " FORMAT JSON ENVELOPE DEBEZIUM"
        )
        await until_rows(client, "SELECT id, name FROM json WHERE id = 1", [(1, "a")])
        assert (2, None) in await client.rows("SELECT id, name FROM json")
        raw = [(b'{"id": 1, "name": "a"}',), (b'{"id": 2}',)]
        await until_rows(client, "SELECT data FROM raw", raw)
        await until_rows(client, "SELECT * FROM csv", [("1", "one"), ("2", "t,wo")])
        await until_rows(client, "SELECT key, n FROM users", [("u1", 3), ("u2", 2)])
        await until_rows(client, "SELECT * FROM dbz", [(1, "a")])
        write = asyncio.to_thread
        await write(broker.produce, "users", [("u2", None), ("u3", '{"n": 4}')])
        await until_rows(client, "SELECT key, n FROM users", [("u1", 3), ("u3", 4)])
        row = {"id": 1, "v": "a"}
        await write(broker.produce, "dbz", [(None, change(row, {"id": 1, "v": "b"})), (None, None)])
        await until_rows(client, "SELECT * FROM dbz", [(1, "b")])
        await check_errors(broker, client)

    in_world(tmp_path, broker, check)


def change(before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    op = "c" if before is None else "u"
    return json.dumps({"before": before, "after": after, "op": op, "source": {}})


async def check_errors(broker: KafkaBroker, client: Client) -> None:
    """A message that can not be read is an error while it is there, and can be replaced."""
    await asyncio.to_thread(broker.produce, "users", [("u1", "{nonsense")])
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            await client.rows("SELECT key, n FROM users")
        except WaterclockError as error:
            problem = str(error)
            await client.session.fail()
            break
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    assert 'topic "users", partition 0, offset 5' in problem
    await asyncio.to_thread(broker.produce, "users", [("u1", '{"n": 9}')])
    while True:
        try:
            found = await client.rows("SELECT key, n FROM users")
            break
        except WaterclockError as error:
            if str(error) != problem:  # no other error is to be met on the way
                raise
            await client.session.fail()
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    assert sorted(found) == [("u1", 9), ("u3", 4)]


def test_avro_with_a_registry(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    broker = kafka_broker
    broker.create_topic("avro")
    name: dict[str, Any] = {"name": "name", "type": ["null", "string"], "default": None}
    schema: dict[str, Any] = {
        "type": "record",
        "name": "row",
        "fields": [{"name": "id", "type": "long"}, name],
    }
    with schema_registry() as registry:
        identity = registry.register("avro-value", schema)

        async def check(world: AdapterWorld, client: Client) -> None:
            del world
            await client.run(
                f"CREATE CONNECTION r TO CONFLUENT SCHEMA REGISTRY (URL '{registry.url}');"
                "CREATE SOURCE avro FROM KAFKA CONNECTION k (TOPIC 'avro')"
                " FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION r"
            )
            number = schema["fields"][0]
            more = {**schema, "fields": [{"name": "more", "type": "string"}, number, name]}
            less = {**schema, "fields": [number]}
            later = {1: more, 2: less}
            written = [in_avro(schema, identity, {"id": 0, "name": "a", "more": "x"})]
            for n, each in later.items():  # what writers have come to since
                version = registry.register("avro-value", each)
                written.append(in_avro(each, version, {"id": n, "name": None, "more": "x"}))
            await asyncio.to_thread(broker.produce, "avro", [(None, each) for each in written])
            await until_rows(client, "SELECT * FROM avro", [(0, "a"), (1, None), (2, None)])

        in_world(tmp_path, broker, check)


def in_transaction(number: int, order: int, table: str) -> tuple[str, str]:
    """A change as Debezium writes it: the row's number is that of its transaction."""
    body = {
        "op": "c",
        "before": None,
        "after": {"id": number, "v": f"{number}.{order}"},
        "source": {
            "connector": "postgresql",
            "snapshot": "false",
            "sequence": json.dumps([str(100 * number), str(100 * number + order)]),
            "schema": "public",
            "table": table,
        },
        "transaction": {"id": f"{number}:{100 * number + order}", "total_order": order},
    }
    return f"{number}.{order}", json.dumps(body)


def ended(number: int, **counts: int) -> tuple[None, str]:
    tables = [{"data_collection": f"public.{t}", "event_count": n} for t, n in counts.items()]
    told = {"status": "END", "id": f"{number}:{100 * number + 99}", "data_collections": tables}
    return None, json.dumps({"schema": {}, "payload": told})


@pytest.mark.semantics(161, 163)
def test_transactions_over_several_topics(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    broker = kafka_broker
    for topic in ("x.transaction", "x.public.a", "x.public.b", "x.public.late"):
        broker.create_topic(topic)
    broker.produce("x.public.late", [(None, None)])
    broker.delete_records("x.public.late", 0, 1)
    create = (
        "CREATE SOURCE x FROM KAFKA CONNECTION k (TRANSACTION TOPIC 'x.transaction') FORMAT JSON"
        " ENVELOPE DEBEZIUM FOR TABLES (public.a (id int, v text), public.{} AS c (id int, v text))"
    )

    async def check(world: AdapterWorld, client: Client) -> None:
        write = asyncio.to_thread
        await client.run(create.format("b"))
        await write(broker.produce, "x.public.a", [in_transaction(1, 1, "a")])
        await write(broker.produce, "x.transaction", [ended(1, a=1, b=2), ended(2, b=1)])
        later = [in_transaction(1, 2, "b"), in_transaction(1, 3, "b"), in_transaction(2, 1, "b")]
        await write(broker.produce, "x.public.b", later[:1])
        progress = "SELECT \"offset\" FROM x_progress WHERE topic = 'x.public.b'"
        await until_rows(client, progress, [(1,)])
        assert await client.rows("SELECT id FROM a") == []
        assert await client.rows("SELECT id FROM c") == []
        await asyncio.to_thread(world.close)
        await asyncio.to_thread(world.open)
        client = await world.connect()
        await write(broker.produce, "x.public.b", later[1:])
        await until_rows(client, "SELECT v FROM a", [("1.1",)])
        present = sorted(await client.rows("SELECT v FROM c"))
        assert present[:2] == [("1.2",), ("1.3",)]
        assert present[2:] in ([], [("2.1",)]), "the second transaction may be there already"
        await until_rows(client, "SELECT v FROM c", [("1.2",), ("1.3",), ("2.1",)])
        [(_, text)] = await client.rows("SHOW CREATE SOURCE x")
        assert "FOR TABLES (public.a (id integer, v text), public.b AS c" in text
        gone = await client.fails(create.format("late").replace("SOURCE x", "SOURCE y"))
        assert gone.message == 'topic "x.public.late" does not have its beginning any more'
        none = await client.fails(create.format("none").replace("SOURCE x", "SOURCE y"))
        assert none.message == 'topic "x.public.none" does not exist'
        await write(broker.produce, "x.public.a", [in_transaction(3, 1, "elsewhere")])
        failed = await status_of(client, "x", "failed")
        assert 'has those of table "public.elsewhere"' in failed[2]

    in_world(tmp_path, broker, check)


def shown(rows: list[tuple[Any, ...]]) -> list[str]:
    """The values of `v` in rows of JSON."""
    return sorted(json.loads(row[0])["v"] for row in rows)


@pytest.mark.semantics(116, 163)
def test_all_tables_and_partitions_that_are_added(
    tmp_path: Path, kafka_broker: KafkaBroker
) -> None:
    broker = kafka_broker
    for topic in ("all.transaction", "all.public.a", "all.public.b", "all.other.c"):
        broker.create_topic(topic)
    create = (
        "CREATE SOURCE x FROM KAFKA CONNECTION k (TRANSACTION TOPIC 'all.transaction')"
        " FORMAT JSON ENVELOPE DEBEZIUM {} WITH (TIMESTAMP INTERVAL '50ms')"
    )

    async def check(_: AdapterWorld, client: Client) -> None:
        write = asyncio.to_thread
        none = await client.fails(create.format("FOR SCHEMAS (nowhere)"))
        assert none.message == 'there is no topic "all.schema.table"'
        await client.run(create.format("FOR ALL TABLES"))
        tables = "SELECT name FROM mz_sources WHERE type = 'subsource' ORDER BY 1"
        assert await client.rows(tables) == [("a",), ("b",), ("c",)]
        await client.run("DROP SOURCE x CASCADE")
        await client.run(create.format("FOR SCHEMAS (public)"))
        assert await client.rows(tables) == [("a",), ("b",)]
        await write(broker.produce, "all.public.a", [in_transaction(1, 1, "a")])
        await write(broker.produce, "all.transaction", [ended(1, a=1, c=5)])
        await client.until("SELECT data FROM a", lambda rows: shown(rows) == ["1.1"])
        # The first change of the third transaction goes to a partition that is new
        await write(broker.add_partitions, "all.public.a", 2)
        await write(broker.produce, "all.public.a", [in_transaction(3, 1, "a")], 1)
        await write(broker.produce, "all.transaction", [ended(2, a=1), ended(3, a=1)])
        progress = "SELECT \"offset\" FROM x_progress WHERE topic = 'all.transaction'"
        await until_rows(client, progress, [(3,)])
        await asyncio.sleep(0.3)
        assert shown(await client.rows("SELECT data FROM a")) == ["1.1"]
        await write(broker.produce, "all.public.a", [in_transaction(2, 1, "a")], 0)
        all_of_them = ["1.1", "2.1", "3.1"]
        await client.until("SELECT data FROM a", lambda rows: shown(rows) == all_of_them)

    in_world(tmp_path, broker, check)


ROW = {
    "type": "record",
    "name": "Value",
    "fields": [{"name": "id", "type": "int"}, {"name": "v", "type": ["null", "string"]}],
}
CHANGE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "fields": [
                    {"name": "connector", "type": "string"},
                    {"name": "snapshot", "type": ["null", "string"]},
                    {"name": "sequence", "type": ["null", "string"]},
                    {"name": "schema", "type": "string"},
                    {"name": "table", "type": "string"},
                ],
            },
        },
        {"name": "op", "type": "string"},
        {
            "name": "transaction",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "block",
                    "fields": [
                        {"name": "id", "type": "string"},
                        {"name": "total_order", "type": "long"},
                    ],
                },
            ],
        },
    ],
}
COUNT = {
    "type": "record",
    "name": "count",
    "fields": [
        {"name": "data_collection", "type": "string"},
        {"name": "event_count", "type": "long"},
    ],
}
END = {
    "type": "record",
    "name": "TransactionMetadataValue",
    "fields": [
        {"name": "status", "type": "string"},
        {"name": "id", "type": "string"},
        {"name": "event_count", "type": ["null", "long"], "default": None},
        {
            "name": "data_collections",
            "type": ["null", {"type": "array", "items": COUNT}],
            "default": None,
        },
        {"name": "ts_ms", "type": "long"},
    ],
}


def in_avro(schema: Any, identity: int, record: dict[str, Any]) -> bytes:
    sink = pa.BufferOutputStream()
    fastavro.schemaless_writer(sink, schema, record)
    return framed(identity, sink.getvalue().to_pybytes())


@pytest.mark.semantics(161, 163)
def test_transactions_in_avro(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    """The tables' topics and that of the transactions, with schemas of a registry."""
    broker = kafka_broker
    for topic in ("av.transaction", "av.public.a", "av.public.b"):
        broker.create_topic(topic)
    with schema_registry() as registry:
        change, _ = (registry.register(f"av.public.{t}-value", CHANGE) for t in ("a", "b"))
        end = registry.register("av.transaction-value", END)

        def changed(number: int, order: int, table: str) -> tuple[str, bytes]:
            key, text = in_transaction(number, order, table)
            return key, in_avro(CHANGE, change, json.loads(text))

        def done(number: int, **counts: int) -> list[tuple[None, bytes]]:
            told = json.loads(ended(number, **counts)[1])["payload"]
            begin = {"status": "BEGIN", "id": told["id"], "ts_ms": 1}
            total = {**told, "event_count": sum(counts.values()), "ts_ms": 2}
            return [(None, in_avro(END, end, each)) for each in (begin, total)]

        async def check(world: AdapterWorld, client: Client) -> None:
            write = asyncio.to_thread
            await client.run(
                f"CREATE CONNECTION r TO CONFLUENT SCHEMA REGISTRY (URL '{registry.url}');"
                "CREATE SOURCE x FROM KAFKA CONNECTION k (TRANSACTION TOPIC 'av.transaction')"
                " FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION r ENVELOPE DEBEZIUM"
                " FOR ALL TABLES WITH (TIMESTAMP INTERVAL '50ms')"
            )
            await write(broker.produce, "av.public.a", [changed(1, 1, "a"), changed(2, 1, "a")])
            await write(broker.produce, "av.transaction", [*done(1, a=1, b=1), *done(2, a=1)])
            progress = "SELECT \"offset\" FROM x_progress WHERE topic = 'av.transaction'"
            await until_rows(client, progress, [(4,)])
            assert await client.rows("SELECT id, v FROM a") == []
            await asyncio.to_thread(world.close)
            await asyncio.to_thread(world.open)
            client = await world.connect()
            await write(broker.produce, "av.public.b", [changed(1, 2, "b")])
            await until_rows(client, "SELECT id, v FROM a", [(1, "1.1"), (2, "2.1")])
            assert await client.rows("SELECT id, v FROM b") == [(1, "1.2")]

        in_world(tmp_path, broker, check)


# Crashes


def life(folder: Path, broker: KafkaBroker, total: int, *dies: int) -> int | None:
    """A server's life; how it ended."""
    lived = Life("kafka", str(folder), broker.address, str(total), *map(str, dies))
    try:
        return lived.wait(600)
    finally:
        lived.kill()


@pytest.mark.semantics(113, 151, 160)
def test_killed_between_binding_and_append(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    """kill -9 between binding and read, and in the middle of a read."""
    broker = kafka_broker
    broker.create_topic("killed", 3)
    values = {p: [(None, f"{p}-{n}") for n in range(400)] for p in range(3)}
    for partition, records in values.items():
        broker.produce("killed", records, partition)
    (tmp_path / "definition").write_bytes(definition_of(broker, "killed").encoded())
    assert life(tmp_path, broker, 1200, 0) == -signal.SIGKILL
    first = found_after(tmp_path)
    assert life(tmp_path, broker, 1200, 2) == -signal.SIGKILL
    assert found_after(tmp_path) == first  # the same binding is still to be read
    for partition, records in values.items():
        broker.produce("killed", records, partition)
    assert life(tmp_path, broker, 2400) == 0
    server = opened(tmp_path)
    try:
        bindings, rows = server.bindings(), server.rows()
    finally:
        server.close()
    time_of_first = first[0]
    assert len(rows) == 2400  # everything, once
    assert {row[-1] for row in rows} == {1}
    assert len({(part, at) for _, part, at, _, _ in rows}) == 2400
    for text, part, at, stamped, _ in rows:
        assert text == f"{part}-{at % 400}"
        assert stamped == bindings.time_of(part, at)
        assert (stamped == time_of_first) == (at < 400)


def found_after(folder: Path) -> tuple[int, dict[Any, int]]:
    """The last binding, whose data is not there."""
    with closing(opened(folder)) as server:
        return server.last_unread_binding()


def definition_of(broker: KafkaBroker, topic: str) -> KafkaDefinition:
    messages = MessageDefinition(
        origin=f'topic "{topic}"',
        value=TextDefinition(),
        include=(Included("partition", "part"), Included("offset", "at")),
    )
    connection = ConnectionSettings("k", "kafka", {"broker": broker.address})
    return define(GlobalId.user(9), connection, Wanted(topic), messages, lambda: 0)


# On Spark


def test_large_ranges_are_read_on_executors(
    kafka_broker: KafkaBroker, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The same messages, wherever they are read."""
    broker = kafka_broker
    broker.create_topic("large", 2)
    for partition, count in ((0, 12_000), (1, 3_000)):
        records = [(f"k{n}", f"{partition}/{n}") for n in range(count)]
        broker.produce("large", records, partition)
    definition = definition_of(broker, "large")
    ways = {"once": definition.messages, "again": definition.messages}
    definition = msgspec.structs.replace(definition, editions=ways)
    connection = ConnectionSettings("k", "kafka", {"broker": broker.address})
    clock = lambda: 0  # noqa: E731
    ranges = [Range(0, 1000, 12_000), Range(1, 0, 3000)]
    monkeypatch.setattr(kafka_module, "MANY_OFFSETS", 1000)
    found = []
    for executors in (None, OnSpark(LiveSession.of(spark), tmp_path)):
        connector = Kafka(definition, Surroundings(clock, executors, lambda _id: connection))
        tables: dict[Any, list[pa.RecordBatch]] = {}
        for messages in connector.read(ranges):
            key = (messages.output, messages.partition)
            tables.setdefault(key, []).append(messages.batch)
        connector.close()
        found.append({p: pa.Table.from_batches(batches) for p, batches in tables.items()})
    here, there = found
    assert here.keys() == there.keys() == {(way, each) for way in ways for each in (0, 1)}
    for (_, partition), table in here.items():
        assert there["once", partition].equals(table)
        assert there["again", partition].equals(table)
    assert here["once", 0].column("at").to_pylist() == list(range(1000, 12_000))


@pytest.mark.semantics(111, 119)
def test_a_view_over_a_topic_and_a_table(
    tmp_path: Path, kafka_broker: KafkaBroker, spark: SparkSession
) -> None:
    broker = kafka_broker
    broker.create_topic("sales", 2)

    async def check(world: AdapterWorld, client: Client) -> None:
        await client.run(
            "CREATE TABLE items (item text, price int);"
            "INSERT INTO items VALUES ('pen', 2), ('book', 10);"
            "CREATE SOURCE sales (item text, n int) FROM KAFKA CONNECTION k (TOPIC 'sales')"
            " FORMAT JSON WITH (TIMESTAMP INTERVAL '100ms');"
            "CREATE MATERIALIZED VIEW income AS SELECT sum(n * price) AS income, count(*) AS sold"
            " FROM sales JOIN items USING (item)"
        )
        follower = await world.connect()
        for round_ in range(5):
            sold = [(None, '{"item": "pen", "n": 1}'), (None, '{"item": "book", "n": 2}')]
            await asyncio.to_thread(broker.produce, "sales", sold, round_ % 2)
        await until_rows(client, "SELECT income, sold FROM income", [(110, 10)])
        await client.run("UPDATE items SET price = 20 WHERE item = 'book'")
        assert await client.rows("SELECT income, sold FROM income") == [(210, 10)]
        statements = follower.session.run_simple("SUBSCRIBE income AS OF AT LEAST 0")
        response = await anext(statements)
        assert isinstance(response, Rows)
        first = await anext(aiter(response.batches))
        assert rows_of(first)
        await response.batches.aclose()  # type: ignore[attr-defined]
        await statements.aclose()  # type: ignore[attr-defined]

    in_world(tmp_path, broker, check, spark)
