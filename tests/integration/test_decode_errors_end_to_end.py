"""Messages that can not be read, through a server that is killed: Kafka, PostgreSQL and views.

One server is killed and started again with what was skipped, what is in error, and what is healed
afterwards. What it says of itself is asked over the wire.
"""

from __future__ import annotations

import asyncio
import time
import urllib.request
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from waterclock.testing.adapter_world import adapter_world
from waterclock.testing.kafka import KafkaBroker
from waterclock.testing.postgres_source import drop_slots
from waterclock.testing.server_process import ServerProcess
from waterclock.testing.services import PostgresServer

pytestmark = [pytest.mark.service, pytest.mark.slow]
SECONDS = 240.0
FAST = "WITH (TIMESTAMP INTERVAL = '100ms')"
SETUP = """
CREATE TABLE a (id int PRIMARY KEY, n numeric);
ALTER TABLE a REPLICA IDENTITY FULL;
INSERT INTO a VALUES (1, 1.5), (2, 'NaN');
CREATE PUBLICATION p FOR TABLE a
"""


def connection_to(conninfo: str) -> str:
    given = conninfo_to_dict(conninfo)
    return (
        f"CREATE CONNECTION pg TO POSTGRES (HOST '{given['host']}', PORT {given['port']},"
        f" DATABASE '{given['dbname']}', USER 'postgres', SSL MODE 'disable')"
    )


def until(client: psycopg.Connection[Any], query: str, expected: Sequence[tuple[Any, ...]]) -> None:
    """Wait until the query has these rows, in any order."""
    deadline = time.monotonic() + SECONDS
    found: object = None
    while time.monotonic() < deadline:
        try:
            found = client.execute(query).fetchall()  # type: ignore[call-overload]
            if sorted(map(repr, found)) == sorted(map(repr, expected)):
                return
        except psycopg.Error as error:
            found = error
        time.sleep(0.05)
    raise AssertionError(f"{query} has {found}, not {expected}")


def until_error(client: psycopg.Connection[Any], query: str) -> psycopg.Error:
    """Wait until the query fails; with what."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            client.execute(query)  # type: ignore[call-overload]
        except psycopg.Error as error:
            return error
        time.sleep(0.05)
    raise AssertionError(f"{query} does not fail")


def test_bad_messages_over_a_crash_and_what_heals(
    tmp_path: Path, kafka_broker: KafkaBroker
) -> None:
    broker = kafka_broker
    for topic in ("hits", "users", "strict"):
        broker.create_topic(topic, 1)
    broker.produce("hits", [(None, '{"id": 1}'), (None, "no json"), (None, '{"id": 2}')], 0)
    broker.produce("users", [("ada", '{"age": 36}'), ("bob", '{"age": "old"}')], 0)
    broker.produce("strict", [("ada", '{"age": 36}'), ("bob", '{"age": "old"}')], 0)
    blamed = (
        "SELECT name, status, blamed_name FROM mz_internal.mz_object_statuses"
        " WHERE status <> 'running' AND status <> 'hydrating'"
    )
    with ServerProcess(tmp_path / "data") as server:
        with server.connect() as client:
            client.execute(f"CREATE CONNECTION k TO KAFKA (BROKER '{broker.address}')")
            made = "FROM KAFKA CONNECTION k (TOPIC '{}')"
            client.execute(
                f"CREATE SOURCE hits (id int NOT NULL) {made.format('hits')}"
                f" FORMAT JSON ON DECODE ERROR SKIP {FAST}"
            )
            keyed = "KEY FORMAT TEXT VALUE FORMAT JSON ENVELOPE UPSERT"
            client.execute(
                f"CREATE SOURCE users (age int) {made.format('users')} {keyed}"
                f" ON DECODE ERROR INLINE {FAST}"
            )
            client.execute(f"CREATE SOURCE strict (age int) {made.format('strict')} {keyed} {FAST}")
            client.execute("CREATE MATERIALIZED VIEW total AS SELECT sum(age) AS ages FROM strict")
            client.execute(
                "CREATE MATERIALIZED VIEW worst AS SELECT partition, count(*) AS errors"
                " FROM hits_errors GROUP BY partition"
            )
            until(client, "SELECT id FROM hits", [(1,), (2,)])
            until(client, "SELECT partition, errors FROM worst", [(0, 1)])
            users = "SELECT key, age, error IS NULL FROM users"
            until(client, users, [("ada", 36, True), ("bob", None, False)])
            error = until_error(client, "SELECT * FROM total")
            assert error.sqlstate == "22P02"
            assert error.diag.message_detail is not None
            assert error.diag.message_detail.endswith('["bob"], in source strict.')
            assert error.diag.message_hint is not None
            assert "ON DECODE ERROR SKIP" in error.diag.message_hint
            refused = until_error(client, "ALTER SOURCE hits ADD COLUMN extra int")
            assert refused.diag.message_detail == "It has ON DECODE ERROR SKIP or INLINE."
            in_error = [("strict", "error", "strict"), ("total", "error", "strict")]
            until(client, blamed, in_error)
        server.kill()
        broker.produce("hits", [(None, "[")], 0)
        server.start()
        with server.connect() as client:
            until(client, blamed, in_error)
            until(client, "SELECT partition, errors FROM worst", [(0, 2)])
            bytes_of = "SELECT convert_from(message_value, 'UTF8') FROM hits_errors"
            until(client, bytes_of, [("no json",), ("[",)])
            until(client, users, [("ada", 36, True), ("bob", None, False)])
            with urllib.request.urlopen(f"{server.url}/metrics", timeout=60) as answer:
                metrics = answer.read().decode().splitlines()
            for line in (
                'waterclock_source_skipped_messages{source="public.hits"} 2.0',
                'waterclock_source_health{health="error",source="public.strict"} 1.0',
                'waterclock_view_health{health="error",view="public.total"} 1.0',
            ):
                assert line in metrics, line
            for topic in ("users", "strict"):
                broker.produce(topic, [("bob", '{"age": 41}')], 0)
            until(client, users, [("ada", 36, True), ("bob", 41, True)])
            until(client, "SELECT ages FROM total", [(77,)])
            until(client, blamed, [])
        lines = [line for line in server.output.splitlines() if "in error" in line]
        assert sum("materialized view total is in error:" in line for line in lines) == 2
        assert sum("materialized view total is in error no longer" in line for line in lines) == 1
        assert any("source strict is in error no longer" in line for line in lines)


def test_rows_of_postgresql_that_can_not_be_held(
    tmp_path: Path, logical_server: PostgresServer
) -> None:
    """They are out of the table until they are changed upstream, and then they are back."""
    conninfo = logical_server.create_database(f"d{uuid.uuid4().hex}")

    async def inside(upstream: psycopg.Connection[Any]) -> None:
        async with adapter_world(tmp_path / "data") as world:
            client = await world.connect()
            await client.run(connection_to(conninfo))
            made = "FROM POSTGRES CONNECTION pg (PUBLICATION 'p')"
            await client.run(
                f"CREATE SOURCE one {made} ON DECODE ERROR SKIP FOR TABLES (public.a) {FAST}"
            )
            await client.run(
                f"CREATE SOURCE two {made} ON DECODE ERROR INLINE AS wrong"
                f" FOR TABLES (public.a AS b) {FAST}"
            )
            fine, wrong = (f"SELECT id FROM b WHERE wrong IS {n}NULL" for n in ("", "NOT "))
            skipped = "SELECT relation, subject, sqlstate FROM one_errors"
            await client.until_rows("SELECT id FROM a", [(1,)])
            await client.until_rows(skipped, [("public.a", "(2, NaN)", "22003")])
            await client.until_rows(fine, [(1,)])
            await client.until_rows(f"{wrong} AND n IS NULL", [(2,)])
            [(value, reason)] = await client.rows("SELECT message_value, reason FROM one_errors")
            assert value == b'{"id":"2","n":"NaN"}'
            assert reason.startswith('column "n" of table public.a: ')
            upstream.execute("INSERT INTO a VALUES (3, 'Infinity'), (4, 4)")
            both = [("public.a", "(2, NaN)", "22003"), ("public.a", "(3, Infinity)", "22003")]
            await client.until_rows(skipped, both)
            await asyncio.to_thread(world.close)
            await asyncio.to_thread(world.open)
            client = await world.connect()
            upstream.execute("UPDATE a SET n = 2 WHERE id = 2")
            upstream.execute("INSERT INTO a VALUES (5, 'NaN')")
            upstream.execute("DELETE FROM a WHERE id = 5")
            await client.until_rows(skipped, both[1:])
            await client.until_rows("SELECT id FROM a", [(1,), (2,), (4,)])
            await client.until_rows(fine, [(1,), (2,), (4,)])
            await client.until_rows(wrong, [(3,)])
            upstream.execute("TRUNCATE a")
            await client.until_rows(skipped, [])
            await client.until_rows("SELECT id FROM b", [])
            refused = await client.fails("ALTER SOURCE one ADD TABLE public.a AS more")
            assert refused.detail == "It has ON DECODE ERROR SKIP."
            refused = await client.fails("ALTER SOURCE one DROP TABLE one_errors")
            assert refused.message == 'source "one" has no table "one_errors"'
            upstream.execute("INSERT INTO a VALUES (6, 'NaN')")
            await client.run("ALTER SOURCE two ADD TABLE public.a AS c")
            await client.until_rows("SELECT id FROM c WHERE wrong IS NOT NULL", [(6,)])
            for source in ("one", "two"):
                await client.run(f"DROP SOURCE {source}")

    with psycopg.connect(conninfo, autocommit=True) as upstream:
        upstream.execute(SETUP)
        asyncio.run(inside(upstream))
        drop_slots(upstream)
