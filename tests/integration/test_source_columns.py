"""ALTER SOURCE ... ADD COLUMN over a real broker and a schema registry."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from waterclock.adapter.coordinator import Pace
from waterclock.errors import WaterclockError
from waterclock.testing.adapter_world import AdapterWorld, Client, NotedEngine, adapter_world
from waterclock.testing.catalog_world import BreakingConsensus
from waterclock.testing.changing_statements import check_whole
from waterclock.testing.kafka import KafkaBroker
from waterclock.testing.schema_registry import Registry, framed, schema_registry

pytestmark = [pytest.mark.service]
SECONDS = 240.0
Scene = Callable[[AdapterWorld, Client], Awaitable[None]]


def run(folder: Path, broker: KafkaBroker, scene: Scene, spark: SparkSession | None = None) -> None:
    async def inside() -> None:
        async with adapter_world(folder, spark) as world:
            client = await world.connect()
            await client.run(f"CREATE CONNECTION k TO KAFKA (BROKER '{broker.address}')")
            await scene(world, client)

    asyncio.run(inside())


async def rows_in_time(client: Client, query: str, expected: list[tuple[Any, ...]]) -> None:
    wanted = sorted(map(repr, expected))
    found: list[str] = []
    async with asyncio.timeout(SECONDS):
        while (found := sorted(map(repr, await client.rows(query)))) != wanted:
            await asyncio.sleep(0.02)
    assert found == wanted


async def restarted(world: AdapterWorld) -> Client:
    await asyncio.to_thread(world.close)
    await asyncio.to_thread(world.open)
    return await world.connect()


def test_columns_of_json(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    """Rows from before have null; what was made over the source keeps its columns."""
    broker = kafka_broker
    broker.create_topic("events", 2)

    def produce(*lines: Any) -> None:
        messages = [(None, line if isinstance(line, str) else json.dumps(line)) for line in lines]
        broker.produce("events", messages, 0)

    produce({"id": 1, "at": "2024-05-01T10:00:00Z"}, {"id": 2})

    async def scene(world: AdapterWorld, client: Client) -> None:
        await client.run(
            "CREATE SOURCE events (id int, at timestamptz) FROM KAFKA CONNECTION k"
            " (TOPIC 'events') FORMAT JSON INCLUDE OFFSET AS place"
        )
        await client.run("CREATE VIEW everything AS SELECT * FROM events")
        await rows_in_time(client, "SELECT id, place FROM events", [(1, 0), (2, 1)])
        produce({"id": 3, "kind": "not read yet"})
        await rows_in_time(client, "SELECT id, place FROM events", [(1, 0), (2, 1), (3, 2)])
        client.notices.clear()
        done = await client.tag("ALTER SOURCE events ADD COLUMN kind text, ADD COLUMN n float8;")
        assert done == "ALTER SOURCE"
        [notice] = client.notices
        assert 'reads "events_old" from now on' in notice.message
        found = await client.one("SELECT * FROM events")
        assert found.names == ["id", "at", "kind", "n", "place"]
        produce({"id": 4, "kind": "k", "n": 1.5})
        old = [(1, None, None, 0), (2, None, None, 1), (3, None, None, 2)]
        await rows_in_time(
            client,
            "SELECT id, kind, n, place FROM events",
            [*old, (4, "k", 1.5, 3)],
        )
        await rows_in_time(
            client, "SELECT id, place FROM events_old", [(1, 0), (2, 1), (3, 2), (4, 3)]
        )
        assert (await client.one("SELECT * FROM events_old")).names == ["id", "at", "place"]
        client = await restarted(world)
        produce({"id": 5, "kind": "l"})
        await rows_in_time(client, "SELECT id, kind FROM events WHERE id > 3", [(4, "k"), (5, "l")])
        await rows_in_time(client, "SELECT id FROM events_old WHERE id > 3", [(4,), (5,)])
        [(_, text)] = await client.rows("SHOW CREATE SOURCE events")
        assert "kind pg_catalog.text" in text or "kind text" in text
        error = await client.fails("ALTER SOURCE events DROP TABLE events_old")
        assert error.sqlstate == "2BP01"
        await client.run("ALTER SOURCE events DROP TABLE events_old CASCADE")
        await client.run("ALTER SOURCE events ADD COLUMN IF NOT EXISTS n int, ADD COLUMN m jsonb")
        produce({"id": 6, "m": [1]})
        await rows_in_time(client, "SELECT id, m FROM events WHERE id > 4", [(5, None), (6, "[1]")])
        produce("no json")
        async with asyncio.timeout(SECONDS):
            while not await in_error(client, "SELECT * FROM events"):
                await asyncio.sleep(0.02)
        await client.run("ALTER SOURCE events ADD COLUMN late int")
        assert await in_error(client, "SELECT * FROM events")
        await client.run("DROP SOURCE events CASCADE")

    run(tmp_path, broker, scene)


async def in_error(client: Client, query: str) -> bool:
    try:
        await client.rows(query)
    except WaterclockError:
        return True
    return False


@contextmanager
def producing(broker: KafkaBroker, topic: str) -> Iterator[None]:
    """Keys are set, set anew and deleted, all the time."""
    stop = threading.Event()

    def write() -> None:
        for i in count():
            if stop.wait(0.01):
                return
            value = None if i % 7 == 0 else json.dumps({"v": i, "w": f"w{i}"})
            broker.produce(topic, [(f"k{i % 20}", value)], 0)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


@pytest.mark.semantics(113)
def test_upserts_while_others_write(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    """A row from before is retracted as it is held. The same columns are the same at all times."""
    broker = kafka_broker
    broker.create_topic("upserts", 1)
    first = [(f"k{i}", json.dumps({"v": i, "w": "before"})) for i in range(40)]
    broker.produce("upserts", first, 0)

    async def scene(world: AdapterWorld, client: Client) -> None:
        await client.run(
            "CREATE SOURCE u (v int) FROM KAFKA CONNECTION k (TOPIC 'upserts') KEY FORMAT TEXT"
            " VALUE FORMAT JSON ENVELOPE UPSERT WITH (TIMESTAMP INTERVAL '20ms')"
        )
        await rows_in_time(client, "SELECT * FROM u", [(f"k{i}", i) for i in range(40)])
        with producing(broker, "upserts"):
            await client.run("ALTER SOURCE u ADD COLUMN w text")
            assert await client.rows("SELECT * FROM u LIMIT 1")
            [(since,)] = await client.rows("SELECT mz_timestamp FROM u_progress")
            async with asyncio.timeout(SECONDS):
                while len(await client.rows("SELECT * FROM u WHERE w IS NOT NULL")) < 15:
                    await asyncio.sleep(0.02)
        [(last,)] = await client.rows("SELECT mz_timestamp FROM u_progress")
        for time in range(int(since), int(last), max(1, (int(last) - int(since)) // 20)):
            new = await client.rows(f"SELECT key, v FROM u AS OF {time}")
            old = await client.rows(f"SELECT * FROM u_old AS OF {time}")
            assert sorted(new) == sorted(old)
        rest = [row for row in await client.rows("SELECT * FROM u") if row[2] is None]
        assert sorted(rest) == sorted((f"k{i}", i, None) for i in range(20, 40))
        client = await restarted(world)
        again = [(f"k{i}", json.dumps({"v": -i, "w": "after"})) for i in range(40)]
        broker.produce("upserts", again, 0)
        await rows_in_time(client, "SELECT * FROM u", [(f"k{i}", -i, "after") for i in range(40)])
        await rows_in_time(client, "SELECT * FROM u_old", [(f"k{i}", -i) for i in range(40)])

    run(tmp_path, broker, scene)


FIELDS = [{"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"]}]
MORE = [
    *FIELDS,
    {"name": "city", "type": ["null", "string"], "default": None},
    {"name": "stars", "type": "int", "default": 3},
    {"name": "must", "type": "int"},
]


def record(fields: list[Any]) -> dict[str, Any]:
    return {"type": "record", "name": "place", "fields": fields}


def written(registry: Registry, fields: list[Any], **values: Any) -> bytes:
    schema = record(fields)
    identity = registry.register("places-value", schema)
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), values)
    return framed(identity, buffer.getvalue())


def test_fields_of_avro(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    """A new field upstream does no harm; as a column, old rows have its default."""
    broker = kafka_broker
    broker.create_topic("places", 1)

    async def scene(world: AdapterWorld, client: Client) -> None:
        with schema_registry() as registry:
            await client.run(
                f"CREATE CONNECTION r TO CONFLUENT SCHEMA REGISTRY (URL '{registry.url}')"
            )
            broker.produce("places", [(None, written(registry, FIELDS, id=1, name="a"))], 0)
            await client.run(
                "CREATE SOURCE places FROM KAFKA CONNECTION k (TOPIC 'places')"
                " FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION r"
            )
            await rows_in_time(client, "SELECT * FROM places", [(1, "a")])
            new = written(registry, MORE, id=2, name="b", city="Rome", stars=5, must=1)
            broker.produce("places", [(None, new)], 0)
            await rows_in_time(client, "SELECT * FROM places", [(1, "a"), (2, "b")])
            for text, told in (
                ("ADD COLUMN nope", 'has no field "nope"'),
                ("ADD COLUMN must", "has no default"),
                ("ADD COLUMN city text", "can not be given a type"),
                ("ADD COLUMN id", "already exists"),
                ("ADD COLUMN city, RENAME TO x", "cannot be combined"),
            ):
                assert told in (await client.fails(f"ALTER SOURCE places {text}")).message
            await client.run("ALTER SOURCE places ADD COLUMN city, ADD COLUMN stars")
            old = [(1, "a", None, 3), (2, "b", None, 3)]
            await rows_in_time(client, "SELECT * FROM places", old)
            late = [
                (None, written(registry, FIELDS, id=3, name="c")),
                (None, written(registry, MORE, id=4, name="d", city="Oslo", stars=1, must=1)),
            ]
            broker.produce("places", late, 0)
            more = [(3, "c", None, 3), (4, "d", "Oslo", 1)]
            await rows_in_time(client, "SELECT * FROM places", [*old, *more])
            names = [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
            await rows_in_time(client, "SELECT * FROM places_old", names)
            client = await restarted(world)
            await rows_in_time(client, "SELECT * FROM places", [*old, *more])

    run(tmp_path, broker, scene)


@pytest.mark.slow
def test_views_over_both(tmp_path: Path, kafka_broker: KafkaBroker, spark: SparkSession) -> None:
    """What was made over the source is maintained as before; so is what is made over it now."""
    broker = kafka_broker
    broker.create_topic("sales", 1)

    def produce(*numbers: int) -> None:
        lines = [json.dumps({"id": i, "amount": i, "kind": f"k{i % 2}"}) for i in numbers]
        broker.produce("sales", [(f"{i}", line) for i, line in zip(numbers, lines, strict=True)], 0)

    produce(1, 2, 3)

    async def scene(world: AdapterWorld, client: Client) -> None:
        await client.run(
            "CREATE SOURCE sales (id int, amount bigint) FROM KAFKA CONNECTION k (TOPIC 'sales')"
            " KEY FORMAT TEXT VALUE FORMAT JSON ENVELOPE UPSERT"
        )
        await client.run("CREATE VIEW whole AS SELECT * FROM sales")
        await client.run(
            "CREATE MATERIALIZED VIEW total AS SELECT count(*), sum(amount)::bigint FROM whole"
        )
        await client.run("CREATE INDEX ids ON sales (id)")
        await rows_in_time(client, "SELECT * FROM total", [(3, 6)])
        await client.run("ALTER SOURCE sales ADD COLUMN kind text")
        kinds = "SELECT kind, count(*), sum(amount)::bigint FROM sales GROUP BY kind"
        await client.run(f"CREATE MATERIALIZED VIEW kinds AS {kinds}")
        produce(3, 4, 5)
        for _ in range(2):
            await rows_in_time(client, "SELECT * FROM total", [(5, 15)])
            expected = [(None, 2, 3), ("k0", 1, 4), ("k1", 2, 8)]
            await rows_in_time(client, "SELECT * FROM kinds", expected)
            await rows_in_time(client, "SELECT * FROM sales WHERE id = 4", [("4", 4, 4, "k0")])
            await rows_in_time(client, "SELECT * FROM whole WHERE id = 4", [("4", 4, 4)])
            client = await restarted(world)
        broker.produce("sales", [("1", None), ("2", None), ("3", None)], 0)
        await rows_in_time(client, "SELECT * FROM total", [(2, 9)])
        await rows_in_time(client, "SELECT * FROM kinds", [("k0", 1, 4), ("k1", 1, 5)])
        await client.run("ALTER SOURCE sales DROP TABLE sales_old CASCADE")
        produce(6)
        await rows_in_time(client, "SELECT * FROM kinds", [("k0", 2, 10), ("k1", 1, 5)])

    run(tmp_path, broker, scene, spark)


def test_a_crash_anywhere(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    """The log goes out of service at some entry: the source is as it was, or has the column."""
    broker = kafka_broker
    broker.create_topic("crash", 1)
    broker.produce("crash", [("a", '{"v": 1, "w": 1}'), ("b", '{"v": 2}')], 0)

    async def add(world: AdapterWorld, log: BreakingConsensus, step: int) -> bool:
        client = await world.connect()
        await client.run(
            f"CREATE CONNECTION k TO KAFKA (BROKER '{broker.address}');"
            "CREATE SOURCE c (v int) FROM KAFKA CONNECTION k (TOPIC 'crash') KEY FORMAT TEXT"
            " VALUE FORMAT JSON ENVELOPE UPSERT"
        )
        await rows_in_time(client, "SELECT key, v FROM c", [("a", 1), ("b", 2)])
        log.mend()
        log.break_at = step
        with suppress(WaterclockError):
            await client.run("ALTER SOURCE c ADD COLUMN w int")
            return True
        return False

    async def check(world: AdapterWorld, *, was_done: bool) -> bool:
        client = await world.connect()
        names = (await client.one("SELECT * FROM c")).names
        if was_done:
            assert names == ["key", "v", "w"]
        old = [("a", 1), ("b", 2)]
        if names == ["key", "v"]:
            await rows_in_time(client, "SELECT * FROM c", old)
            await client.run("ALTER SOURCE c ADD COLUMN w int")
        await rows_in_time(client, "SELECT * FROM c", [(*row, None) for row in old])
        await rows_in_time(client, "SELECT * FROM c_old", old)
        check_whole(world)
        return len(names) == 3

    outcomes = set()
    for lost_answer in (False, True):
        for step in range(int(lost_answer), 30, 2):
            log = BreakingConsensus()
            log.lost_answer = lost_answer
            engine = NotedEngine()
            world = AdapterWorld(tmp_path, Pace(tick_ms=500), consensus=log, engine=engine)
            done = asyncio.run(add(world, log, step))
            with suppress(WaterclockError):
                world.close()
            log.mend()
            world.open()
            outcomes.add(asyncio.run(check(world, was_done=done)))
            world.close()
            if done:
                break
        else:
            raise AssertionError("the statement takes more entries than were tried")
    assert outcomes == {True, False}, "it has crashed before and after the moment that counts"


def test_what_can_not_get_columns(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    broker = kafka_broker
    broker.create_topic("plain", 1)

    async def scene(_: AdapterWorld, client: Client) -> None:
        source = "FROM KAFKA CONNECTION k (TOPIC 'plain')"
        await client.run(f"CREATE SOURCE whole {source} FORMAT JSON")
        await client.run(f"CREATE SOURCE texts {source} FORMAT TEXT")
        await client.run(f"CREATE SOURCE d (id int) {source} FORMAT JSON ENVELOPE DEBEZIUM")
        await client.run(f"CREATE SOURCE declared (id int) {source} FORMAT JSON")
        await client.run("CREATE SOURCE counter FROM LOAD GENERATOR COUNTER")
        for text, sqlstate in (
            ("whole ADD COLUMN x int", "0A000"),
            ("texts ADD COLUMN x int", "0A000"),
            ("d ADD COLUMN x int", "0A000"),
            ("counter ADD COLUMN x int", "0A000"),
            ("declared ADD COLUMN x", "0A000"),
            ("declared ADD COLUMN x varchar(3)", "0A000"),
            ("declared ADD COLUMN id int", "42701"),
            ("declared ADD COLUMN mz_offset int", "22023"),
            ("declared ADD TABLE t", "0A000"),
            ("nope ADD COLUMN x int", "42P01"),
        ):
            error = await client.fails(f"ALTER SOURCE {text}")
            assert error.sqlstate == sqlstate, (text, error)
        await client.run("ALTER SOURCE IF EXISTS nope ADD COLUMN x int")
        broker.produce("plain", [(None, '{"id": 1}')], 0)
        await rows_in_time(client, "SELECT * FROM declared", [(1,)])

    run(tmp_path, broker, scene)
