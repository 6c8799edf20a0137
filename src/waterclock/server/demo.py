"""`waterclock demo`: a whole server in a folder of its own, and a view watched as it changes.

It makes tables and a materialized view over a join of them, writes to the tables for some seconds,
and prints what a SUBSCRIBE to the view receives: for each time, what left the view and what came.
Nothing stays behind.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import psycopg

from waterclock.server.banner import psql_line
from waterclock.server.configuration import Configuration
from waterclock.server.loop import LoopThread
from waterclock.server.process import Server

_PAUSE_S = 0.7
_STEPS = (
    "CREATE TABLE customers (id int NOT NULL, name text NOT NULL, country text NOT NULL)",
    "CREATE TABLE orders (customer int NOT NULL, amount numeric(10,2) NOT NULL)",
    "INSERT INTO customers VALUES (1, 'Ada', 'GB'), (2, 'Bob', 'US'), (3, 'Chen', 'CN')",
    "CREATE MATERIALIZED VIEW sales AS"
    " SELECT c.country, count(*) AS orders, sum(o.amount) AS total"
    " FROM orders o JOIN customers c ON c.id = o.customer GROUP BY c.country",
)
_READ = "SELECT * FROM sales"
_WATCH = "COPY (SUBSCRIBE TO sales) TO STDOUT"
_GO_ON = """
Lines with the same time are one change: what left the view and what came, never one without the
other. To go on:

    waterclock serve                  a server of your own, with its data in ./waterclock-data
    waterclock sql                    SQL on it, with psql if that is installed
    waterclock serve --help           all its settings
"""


def run(out: TextIO, *, seconds: float = 8.0) -> None:
    """Show it. Raises whatever keeps a server from starting."""
    with tempfile.TemporaryDirectory(prefix="waterclock-demo-") as folder:
        _say(out, "Starting a server, with Spark inside; this takes some seconds.")
        configuration = Configuration(data=Path(folder) / "data", pg_port=0, http_port=0, tick=200)
        with running(configuration) as server:
            dsn = f"host=127.0.0.1 port={server.pg_port} user=waterclock dbname=waterclock"
            _say(out, f"It is there; while this runs:  {psql_line(configuration, server.pg_port)}")
            _show(dsn, seconds, out)
        _say(out, _GO_ON)


def _show(dsn: str, seconds: float, out: TextIO) -> None:
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        psycopg.connect(dsn, autocommit=True) as watching,
    ):
        for step in _STEPS:
            _say(out, f"\n  {step};")
            connection.execute(step.encode())
        _say(out, f"\nWriting orders for {seconds:.0f} s, and watching:  SUBSCRIBE TO sales\n")
        connection.execute(_READ)  # waits for the view's first contents
        watcher = threading.Thread(target=_watch, args=(watching, out), daemon=True)
        watcher.start()
        _write(connection, seconds)
        connection.execute(_READ)  # waits for the view to have followed
        time.sleep(_PAUSE_S)
        watching.cancel_safe(timeout=10)
        watcher.join(10)


def _write(connection: psycopg.Connection[Any], seconds: float) -> None:
    chance = random.Random(7)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        customer, cents = chance.randint(1, 3), chance.randint(100, 9_999)
        connection.execute(f"INSERT INTO orders VALUES ({customer}, {cents / 100})".encode())
        time.sleep(_PAUSE_S)


def _watch(connection: psycopg.Connection[Any], out: TextIO) -> None:
    _say(out, f"  {'time':>13}  {'diff':>4}  country  orders       total")
    try:
        with connection.cursor() as cursor, cursor.copy(_WATCH.encode()) as copy:
            for at, diff, country, orders, total in copy.rows():
                _say(out, f"  {at:>13}  {int(diff):>+4}  {country:<7}  {orders:>6}  {total:>10}")
    except psycopg.errors.QueryCanceled:
        pass  # seen enough


@contextmanager
def running(configuration: Configuration) -> Iterator[Server]:
    """A server in a thread of this process, with an event loop of its own."""
    loop = LoopThread()
    server = Server(configuration)
    try:
        loop.run(server.start())
        yield server
    finally:
        loop.run(server.stop())
        loop.close()


def _say(out: TextIO, text: str) -> None:
    print(text, file=out, flush=True)
