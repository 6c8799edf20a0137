"""Views over a table whose columns change upstream, beside PostgreSQL, through kill -9.

The server is killed while it reads a table that is to be added: then nothing has been added, and it
goes on. Views over the relation as it was keep their columns and their rows; those over the new one
are what PostgreSQL computes over the table as it is now.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from waterclock.testing.brief_spark import BRIEFLY
from waterclock.testing.postgres_source import drop_slots
from waterclock.testing.server_process import ServerProcess
from waterclock.testing.services import PostgresServer

pytestmark = [pytest.mark.service, pytest.mark.slow]

SECONDS = 240.0
SETUP = """
CREATE TABLE orders (id int PRIMARY KEY, customer int, amount bigint);
ALTER TABLE orders REPLICA IDENTITY FULL;
CREATE TABLE customers (id int PRIMARY KEY, name text);
ALTER TABLE customers REPLICA IDENTITY FULL;
INSERT INTO customers SELECT i, 'name ' || i FROM generate_series(0, 9) i;
INSERT INTO orders SELECT i, i % 10, i FROM generate_series(1, 500) i;
CREATE PUBLICATION p FOR ALL TABLES
"""
OLD = """
SELECT c.name, count(*), sum(o.amount)::bigint FROM {} o JOIN customers c ON c.id = o.customer
GROUP BY c.name
"""
NEW = """
SELECT c.name, o.status, count(*), sum(o.amount)::bigint
FROM {} o JOIN customers c ON c.id = o.customer GROUP BY c.name, o.status
"""


@contextmanager
def writing(conninfo: str, first: int) -> Iterator[None]:
    """Orders change, also those from before the column; `first` keeps the ids of two runs apart."""
    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            for i in count(first):
                if stop.wait(0.02):
                    return
                with connection.transaction():
                    for statement in (
                        f"UPDATE orders SET amount = amount + 1 WHERE id = {i % 400 + 1}",
                        f"DELETE FROM orders WHERE id = {501 - i % 1000}",
                        f"INSERT INTO orders (id, customer, amount) VALUES ({1000 + i}, 1, 1)",
                        f"UPDATE customers SET name = 'other {i}' WHERE id = {i % 10}",
                    ):
                        connection.execute(statement.encode())

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


def same(
    here: psycopg.Connection[Any], view: str, there: psycopg.Connection[Any], query: str
) -> None:
    """The view is soon what PostgreSQL computes, with nobody writing."""
    expected = sorted(there.execute(query.encode()).fetchall())
    until = time.monotonic() + SECONDS
    while (found := sorted(here.execute(f"SELECT * FROM {view}".encode()).fetchall())) != expected:
        assert time.monotonic() < until, f"{view} has {found}, and should have {expected}"
        time.sleep(0.05)


def killed_while_it_adds(
    server: ServerProcess, upstream: psycopg.Connection[Any], conninfo: str
) -> None:
    """A transaction upstream keeps the snapshot from being made until the server is dead."""

    def add() -> None:
        with suppress(psycopg.OperationalError), server.connect() as connection:
            connection.execute("ALTER SOURCE shop ADD TABLE orders AS wide")

    slots = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    with psycopg.connect(conninfo) as holding:
        holding.execute("SELECT pg_current_xact_id()")
        adding = threading.Thread(target=add)
        adding.start()
        until = time.monotonic() + SECONDS
        while upstream.execute(slots).fetchall() != [(2,)]:
            assert time.monotonic() < until, "nothing is read"
            time.sleep(0.02)
        server.kill()
        adding.join()
    server.start()
    while upstream.execute(slots).fetchall() != [(1,)]:
        assert time.monotonic() < until, "the slot is still there"
        time.sleep(0.05)


@pytest.mark.semantics(113, 161)
def test_views_over_both_editions(logical_server: PostgresServer, tmp_path: Path) -> None:
    conninfo = logical_server.create_database(f"d{uuid.uuid4().hex}")
    given = conninfo_to_dict(conninfo)
    with (
        psycopg.connect(conninfo, autocommit=True) as upstream,
        ServerProcess(
            tmp_path / "data", "--spark", f"spark.driver.extraJavaOptions={BRIEFLY}", "--tick", "50"
        ) as server,
    ):
        upstream.execute(SETUP)
        with server.connect() as here:
            here.execute(
                f"CREATE CONNECTION pg TO POSTGRES (HOST '{given['host']}', PORT {given['port']},"
                f" DATABASE '{given['dbname']}', USER 'postgres')".encode()
            )
            here.execute(
                "CREATE SOURCE shop FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES"
                " WITH (TIMESTAMP INTERVAL '50ms')"
            )
            here.execute("CREATE VIEW all_orders AS SELECT * FROM orders")
            here.execute(f"CREATE MATERIALIZED VIEW old AS {OLD.format('all_orders')}".encode())
            here.execute("CREATE INDEX orders_of ON orders (customer)")
        with writing(conninfo, 0):
            upstream.execute("ALTER TABLE orders ADD COLUMN status text DEFAULT 'open'")
            killed_while_it_adds(server, upstream, conninfo)
        with server.connect() as here:
            assert here.execute("SELECT name FROM mz_sources WHERE name = 'wide'").fetchall() == []
            same(here, "old", upstream, OLD.format("orders"))
            with writing(conninfo, 100_000):
                here.execute("ALTER SOURCE shop ADD TABLE orders AS wide")
                here.execute(f"CREATE MATERIALIZED VIEW new AS {NEW.format('wide')}".encode())
                here.execute("ALTER SOURCE orders SWAP WITH wide")
            upstream.execute("UPDATE orders SET status = 'sent' WHERE id % 3 = 0")
            same(here, "new", upstream, NEW.format("orders"))
            same(here, "old", upstream, OLD.format("orders"))
            same(here, "orders", upstream, "SELECT * FROM orders")
            same(here, "all_orders", upstream, "SELECT id, customer, amount FROM orders")
            upstream.execute("DELETE FROM orders WHERE status = 'open' AND id < 250")
            same(here, "new", upstream, NEW.format("orders"))
            same(here, "old", upstream, OLD.format("orders"))
            here.execute("ALTER SOURCE shop DROP TABLE wide CASCADE")
            upstream.execute("UPDATE orders SET status = 'lost' WHERE id < 400")
            same(here, "new", upstream, NEW.format("orders"))
            here.execute("DROP SOURCE shop CASCADE")
        drop_slots(upstream)
