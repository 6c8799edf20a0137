"""A maintained join over tables of a PostgreSQL source, on Spark, while others write upstream."""

from __future__ import annotations

import asyncio
import threading
import uuid
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import SparkSession

from waterclock.adapter.api import Rows
from waterclock.testing.adapter_world import AdapterWorld, Client, adapter_world, rows_of
from waterclock.testing.services import PostgresServer

pytestmark = [pytest.mark.service, pytest.mark.slow]

TIMES = 5
"""How many times are looked at."""
SETUP = """
CREATE TABLE accounts (id int PRIMARY KEY, owner text);
ALTER TABLE accounts REPLICA IDENTITY FULL;
CREATE TABLE debits (id int PRIMARY KEY, account int, amount bigint);
ALTER TABLE debits REPLICA IDENTITY FULL;
CREATE TABLE credits (id int PRIMARY KEY, account int, amount bigint);
ALTER TABLE credits REPLICA IDENTITY FULL;
INSERT INTO accounts SELECT i, 'owner ' || i % 3 FROM generate_series(0, 9) i;
CREATE PUBLICATION p FOR ALL TABLES
"""
VIEW = """
CREATE MATERIALIZED VIEW balances AS
SELECT count(*) AS n, sum(c.amount) AS credited, sum(d.amount) AS debited
FROM credits c JOIN debits d ON c.id = d.id JOIN accounts a ON a.id = c.account
"""
BALANCES = "SELECT * FROM balances"


def transfer(conninfo: str, stop: threading.Event) -> None:
    """Each transfer is a credit and a debit; an old one is taken back now and then."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for i in count():
            if stop.wait(0.01):
                return
            with connection.transaction():
                values = f"({i}, {i % 10}, {i % 7})"
                connection.execute(f"INSERT INTO credits VALUES {values}")
                connection.execute(f"INSERT INTO debits VALUES {values}")
                if i % 5 == 4:
                    connection.execute(f"DELETE FROM debits WHERE id = {i - 3}")
                    connection.execute(f"DELETE FROM credits WHERE id = {i - 3}")


async def follow(world: AdapterWorld) -> dict[int, list[tuple[Any, ...]]]:
    """What the view holds at some of its times."""
    client = await world.connect()
    statements = client.session.run_simple("SUBSCRIBE balances WITH (PROGRESS)")
    response = await anext(statements)
    assert isinstance(response, Rows)
    held: dict[tuple[Any, ...], int] = {}
    found: dict[int, list[tuple[Any, ...]]] = {}
    async for batch in response.batches:
        for time, progressed, diff, *values in rows_of(batch):
            if not progressed:
                row = tuple(values)
                held[row] = held.get(row, 0) + diff
            elif held:
                found[int(time) - 1] = [row for row, times in held.items() if times]
        if len(found) >= TIMES:
            break
    await response.batches.aclose()  # type: ignore[attr-defined]
    await statements.aclose()  # type: ignore[attr-defined]
    return found


async def check(world: AdapterWorld, client: Client, conninfo: str) -> None:
    given = conninfo_to_dict(conninfo)
    await client.run(
        f"CREATE CONNECTION pg TO POSTGRES (HOST '{given['host']}', PORT {given['port']},"
        f" DATABASE '{given['dbname']}', USER 'postgres')"
    )
    await client.run(
        "CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES"
        " WITH (TIMESTAMP INTERVAL '100ms')"
    )
    await client.run(VIEW)
    for rows in (await follow(world)).values():
        [(_, credited, debited)] = rows
        assert credited == debited


async def settled(client: Client, expected: tuple[Any, ...]) -> None:
    async with asyncio.timeout(400):
        while [tuple(map(int, row)) for row in await client.rows(BALANCES)] != [expected]:
            await asyncio.sleep(0.05)


@pytest.mark.semantics(103, 111, 112, 114, 119, 161)
def test_a_join_is_never_torn(
    logical_server: PostgresServer, tmp_path: Path, spark: SparkSession
) -> None:
    conninfo = logical_server.create_database(f"d{uuid.uuid4().hex}")
    upstream = psycopg.connect(conninfo, autocommit=True)
    upstream.execute(SETUP)
    stop = threading.Event()
    writer = threading.Thread(target=transfer, args=(conninfo, stop))
    writer.start()

    async def inside() -> None:
        async with adapter_world(tmp_path, spark) as world:
            client = await world.connect()
            try:
                await check(world, client, conninfo)
            finally:
                stop.set()
                await asyncio.to_thread(writer.join)
            query = "SELECT count(*), sum(amount)::bigint, sum(amount)::bigint FROM credits"
            await settled(client, upstream.execute(query).fetchall()[0])
            await client.run("DROP SOURCE s CASCADE")

    try:
        asyncio.run(inside())
    finally:
        stop.set()
    [(slots,)] = upstream.execute(
        "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    ).fetchall()
    assert slots == 0
    upstream.close()
