"""A real Debezium between PostgreSQL and Kafka: no transaction is ever seen in part.

Money is moved between two tables, and each move is written down in a third. What all of them hold
together never changes, so whoever sees half a transaction sees another sum.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from waterclock.adapter.api import Rows
from waterclock.testing.adapter_world import AdapterWorld, Client, adapter_world, rows_of
from waterclock.testing.debezium import DebeziumConnect
from waterclock.testing.kafka import KafkaBroker
from waterclock.testing.postgres_source import drop_slots
from waterclock.testing.services import PostgresServer

pytestmark = [pytest.mark.service, pytest.mark.slow]
SECONDS = 400.0
TABLES = ("checking", "savings", "moves")
SETUP = """
CREATE TABLE checking (id int PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE savings (id int PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE moves (id int PRIMARY KEY, amount bigint NOT NULL);
ALTER TABLE checking REPLICA IDENTITY FULL;
ALTER TABLE savings REPLICA IDENTITY FULL;
ALTER TABLE moves REPLICA IDENTITY FULL;
INSERT INTO checking SELECT i, 100 FROM generate_series(0, 9) i;
INSERT INTO savings SELECT i, 100 FROM generate_series(0, 9) i
"""
SOURCE = """
CREATE SOURCE bank FROM KAFKA CONNECTION k (TRANSACTION TOPIC 'bank.transaction') FORMAT JSON
ENVELOPE DEBEZIUM FOR TABLES (
    public.checking (id int NOT NULL, balance bigint NOT NULL),
    public.savings AS saved (id int NOT NULL, balance bigint NOT NULL),
    public.moves (id int NOT NULL, amount bigint NOT NULL)
) WITH (TIMESTAMP INTERVAL '100ms')
"""
VIEW = """
CREATE MATERIALIZED VIEW books AS
SELECT sum(held)::bigint AS held, sum(moved)::bigint AS moved FROM (
    SELECT balance AS held, balance - 100 AS moved FROM checking
    UNION ALL SELECT balance, 0 FROM saved
    UNION ALL SELECT 0, amount FROM moves
) AS u
"""


class Mover:
    """Moves money, from a thread, until it is stopped."""

    def __init__(self, conninfo: str) -> None:
        self._connection = psycopg.connect(conninfo, autocommit=True)
        self._stop = threading.Event()
        self._pick = random.Random(7)
        self._thread = threading.Thread(target=self._run)
        self.count = 0

    def move(self) -> None:
        """One transaction of one to three moves; some are rolled back."""
        with self._connection.transaction() as transaction:
            for _ in range(self._pick.randint(1, 3)):
                self.count += 1
                amount, one, other = self.count % 7, *self._pick.sample(range(10), 2)
                run = self._connection.execute
                run(f"UPDATE checking SET balance = balance - {amount} WHERE id = {one}")
                run(f"INSERT INTO moves VALUES ({self.count}, {amount})")
                run(f"UPDATE savings SET balance = balance + {amount} WHERE id = {other}")
            if self.count % 11 == 0:
                raise psycopg.Rollback(transaction)

    def _run(self) -> None:
        while not self._stop.wait(0.005):
            self.move()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._connection.close()


class Follower:
    """What subscriptions tell, time by time."""

    def __init__(self) -> None:
        self.contents: dict[int, Counter[tuple[Any, ...]]] = {}
        """What there was at each time at which something changed."""
        self.upper = 0

    async def follow(self, world: AdapterWorld, relation: str) -> None:
        client = await world.connect()
        statements = client.session.run_simple(f"SUBSCRIBE {relation} WITH (PROGRESS)")
        response = await anext(statements)
        assert isinstance(response, Rows)
        held: Counter[tuple[Any, ...]] = Counter()
        async for batch in response.batches:
            for at, progressed, diff, *values in rows_of(batch):
                if progressed:
                    self.upper = int(at)
                else:
                    held[tuple(values)] += diff
                    self.contents[int(at)] = Counter({k: n for k, n in held.items() if n})


@pytest.fixture
def upstream(logical_server: PostgresServer) -> Iterator[str]:
    conninfo = logical_server.create_database("debezium")
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(SETUP)
        yield conninfo
        drop_slots(connection)


def wait_for_topics(broker: KafkaBroker) -> None:
    wanted = {"bank.transaction", *(f"bank.public.{table}" for table in TABLES)}
    deadline = time.monotonic() + SECONDS
    while not wanted <= broker.topics().keys():
        assert time.monotonic() < deadline, "the connector has written to all topics"
        time.sleep(0.1)


@pytest.mark.semantics(153, 161, 163)
def test_no_transaction_is_seen_in_part(
    tmp_path: Path, kafka_broker: KafkaBroker, upstream: str, spark: SparkSession
) -> None:
    tables = [f"public.{table}" for table in TABLES]
    mover = Mover(upstream)
    with DebeziumConnect(kafka_broker, upstream, "bank", tables) as connect:
        mover.move()
        wait_for_topics(kafka_broker)
        mover.start()

        async def inside() -> None:
            async with adapter_world(tmp_path, spark) as world:
                client = await world.connect()
                await client.run(f"CREATE CONNECTION k TO KAFKA (BROKER '{kafka_broker.address}')")
                await check(world, client, connect, mover, upstream)

        try:
            asyncio.run(inside())
        finally:
            mover.close()


async def check(
    world: AdapterWorld, client: Client, connect: DebeziumConnect, mover: Mover, upstream: str
) -> None:
    await client.run(SOURCE)
    await client.run(VIEW)
    await until_here(client, mover.count)
    books, checking = Follower(), Follower()
    followers = [
        asyncio.create_task(books.follow(world, "books")),
        asyncio.create_task(checking.follow(world, "checking")),
    ]
    await until_here(client, mover.count + 200)
    connect.stop(immediate=True)  # what it had not noted as sent, it sends again
    await asyncio.sleep(0.5)
    connect.start()  # in the thread that it shall live as long as
    await until_here(client, mover.count + 200)
    while len(checking.contents) <= 5 or not books.contents:  # there is to be much to look at
        assert not any(follower.done() for follower in followers)
        await until_here(client, mover.count + 1)
    await asyncio.to_thread(mover.close)
    expected = await asyncio.to_thread(contents, upstream)
    await until_contents(client, expected)
    assert await client.rows("SELECT held, moved FROM books") == [(2000, 0)]
    for follower in followers:
        follower.cancel()
    await asyncio.gather(*followers, return_exceptions=True)
    assert set(map(repr, books.contents.values())) == {repr(Counter({(2000, 0): 1}))}
    for at, held in checking.contents.items():
        assert sorted(row[0] for row in held.elements()) == list(range(10)), at
    progress = await client.rows('SELECT topic, partition, "offset" FROM bank_progress')
    topics = {"bank.transaction", *(f"bank.public.{table}" for table in TABLES)}
    assert {(topic, partition) for topic, partition, _ in progress} == {(t, 0) for t in topics}
    [(_, kind)] = [row[:2] for row in await client.rows("SHOW SOURCES") if row[0] == "bank"]
    assert kind == "kafka"
    await client.run("DROP SOURCE bank CASCADE")


def contents(upstream: str) -> list[list[tuple[Any, ...]]]:
    with psycopg.connect(upstream, autocommit=True) as connection:
        return [sorted(connection.execute(f"SELECT * FROM {table}").fetchall()) for table in TABLES]


async def until_here(client: Client, count: int) -> None:
    """Until the move of that number has been made, and is seen."""
    deadline = time.monotonic() + SECONDS
    while True:
        [(last,)] = await client.rows("SELECT max(id) FROM moves")
        if last is not None and last >= count:
            return
        assert time.monotonic() < deadline, f"{last} of {count} are here"
        await asyncio.sleep(0.1)


async def until_contents(client: Client, expected: list[list[tuple[Any, ...]]]) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        found = [
            sorted(await client.rows(f"SELECT * FROM {table}"))
            for table in ("checking", "saved", "moves")
        ]
        if found == expected:
            return
        assert time.monotonic() < deadline, "everything that was committed is here"
        await asyncio.sleep(0.1)
