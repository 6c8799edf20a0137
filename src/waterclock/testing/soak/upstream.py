"""What writes into the systems upstream: a Kafka topic and two tables of a PostgreSQL database."""

from __future__ import annotations

import json
import time
from typing import Any

import psycopg
from confluent_kafka import Consumer, TopicPartition

from waterclock.testing.kafka import KafkaBroker
from waterclock.testing.services import PostgresServer
from waterclock.testing.soak.actors import Actor, Interrupted, Row, World

TOPIC, PARTITIONS = "events", 3
HOLDERS = 20
SETUP_POSTGRES = (
    "CREATE TABLE moves (id bigserial PRIMARY KEY, pair bigint NOT NULL, holder int NOT NULL,"
    " amount int NOT NULL)",
    "CREATE TABLE holders (holder int PRIMARY KEY, name text)",
    "ALTER TABLE moves REPLICA IDENTITY FULL",
    "ALTER TABLE holders REPLICA IDENTITY FULL",
    f"INSERT INTO holders SELECT n, 'holder ' || n FROM generate_series(1, {HOLDERS}) n",
    "CREATE PUBLICATION soak FOR TABLE moves, holders",
)
VIEWS = {
    "event_counts": "SELECT k, count(*) AS n, sum(v)::bigint AS v FROM events GROUP BY k",
    "pg_balances": "SELECT h.holder, h.name, sum(m.amount) AS balance, count(*) AS entries"
    " FROM moves m JOIN holders h ON h.holder = m.holder GROUP BY h.holder, h.name",
    "mixed": "SELECT b.holder, b.balance, e.n, a.region FROM pg_balances b"
    " LEFT JOIN event_counts e ON e.k = b.holder LEFT JOIN accounts a ON a.account = b.holder",
}
"""Views over the sources, and over them with tables."""


def source_statements(kafka: KafkaBroker, postgres: PostgresServer) -> list[str]:
    return [
        f"CREATE CONNECTION kafka TO KAFKA (BROKER '{kafka.address}')",
        f"CREATE SOURCE events (k int, v int) FROM KAFKA CONNECTION kafka (TOPIC '{TOPIC}')"
        " FORMAT JSON WITH (TIMESTAMP INTERVAL = '200ms')",
        f"CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {postgres.port},"
        " DATABASE 'postgres', USER 'postgres')",
        "CREATE SOURCE bank FROM POSTGRES CONNECTION pg (PUBLICATION 'soak') FOR ALL TABLES"
        " WITH (TIMESTAMP INTERVAL = '200ms')",
        *(f"CREATE MATERIALIZED VIEW {name} AS {sql}" for name, sql in VIEWS.items()),
    ]


_REWRITES = ("UPDATE moves SET amount = -amount", "DELETE FROM moves")


class EventProducer(Actor):
    """Writes events; what the broker has in the end is the truth."""

    def __init__(self, world: World, kafka: KafkaBroker, seed: int) -> None:
        super().__init__(world, "event producer", seed)
        self._producer = kafka.producer(enable_idempotence=True, message_timeout_ms=600_000)

    def act(self) -> None:
        for _ in range(self.random.choice((1, 10, 300))):
            event = {"k": self.random.randrange(HOLDERS), "v": self.random.randrange(1000)}
            self._producer.produce(
                TOPIC, json.dumps(event), partition=self.random.randrange(PARTITIONS)
            )
        self._producer.poll(0)

    def flush(self) -> None:
        left = self._producer.flush(120)
        assert left == 0, f"{left} events were not delivered"


class UpstreamBank(Actor):
    """Moves money in the database upstream: always from one holder to another in a transaction."""

    def __init__(self, world: World, postgres: PostgresServer, seed: int) -> None:
        super().__init__(world, "upstream bank", seed)
        self._postgres = postgres

    @property
    def connection(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            try:
                self._connection = psycopg.connect(self._postgres.conninfo(), connect_timeout=10)
            except psycopg.Error as error:
                time.sleep(0.2)
                raise Interrupted from error
        return self._connection

    def act(self) -> None:
        connection, draw = self.connection, self.random
        try:
            for _ in range(draw.choice((1, 1, 20))):
                amount = draw.randrange(1, 100)
                source, target = draw.randrange(1, HOLDERS + 1), draw.randrange(1, HOLDERS + 1)
                pair = draw.getrandbits(60)
                connection.execute(
                    "INSERT INTO moves (pair, holder, amount) VALUES (%s, %s, %s), (%s, %s, %s)",
                    (pair, source, -amount, pair, target, amount),
                )
            if draw.random() < 0.2:
                connection.execute(
                    f"{draw.choice(_REWRITES)} WHERE pair ="
                    " (SELECT pair FROM moves ORDER BY id DESC OFFSET %s LIMIT 1)".encode(),
                    (draw.randrange(50),),
                )
            if draw.random() < 0.9:
                connection.commit()
            else:
                connection.rollback()
        except psycopg.Error as error:  # the database may be killed at any moment
            self.disconnect()
            raise Interrupted from error


def events_upstream(kafka: KafkaBroker) -> list[Row]:
    """All events that the broker has, read by a plain consumer."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.address,
            "group.id": "judge",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    ends = [kafka.latest(TOPIC, partition) for partition in range(PARTITIONS)]
    consumer.assign([TopicPartition(TOPIC, n, 0) for n in range(PARTITIONS) if ends[n]])
    missing = {n: end for n, end in enumerate(ends) if end}
    found: list[Row] = []
    until = time.monotonic() + 120
    while missing:
        assert time.monotonic() < until, f"the broker does not give what it has: {missing}"
        for message in consumer.consume(10_000, 1.0):
            value, partition, offset = message.value(), message.partition(), message.offset()
            assert value is not None, "an event has a value"
            assert partition is not None, "a message that was read has a place"
            assert offset is not None, "a message that was read has a place"
            event = json.loads(value)
            found.append((event["k"], event["v"]))
            if offset + 1 >= missing.get(partition, 0):
                missing.pop(partition, None)
    consumer.close()
    return found
