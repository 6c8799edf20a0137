"""`waterclock demo`: a whole server in a folder of its own, and a view watched as it changes.

An auction house makes auctions and bids by itself; a materialized view over a join of them says for
each item how many bids there were and how high they went. What a SUBSCRIBE to the view receives is
printed: for each time, what left the view and what came. Nothing stays behind. Of the settings of a
server those of Spark count, if they are in the environment.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import psycopg

from waterclock.server.banner import psql_line
from waterclock.server.configuration import Configuration, load
from waterclock.server.loop import LoopThread
from waterclock.server.process import Server

_STEPS = (
    "CREATE SOURCE house FROM LOAD GENERATOR AUCTION (TICK INTERVAL '700ms', SEED 7)"
    " FOR ALL TABLES",
    "CREATE VIEW large_bids AS SELECT auction_id, buyer, amount FROM bids WHERE amount > 50",
    "CREATE MATERIALIZED VIEW items AS"
    " SELECT a.item, count(*) AS bids, max(b.amount) AS highest"
    " FROM auctions a JOIN large_bids b ON b.auction_id = a.id GROUP BY a.item",
    "CREATE INDEX items_by_name ON items (item)",
)
_READ = "SELECT item, bids, highest FROM items ORDER BY highest DESC LIMIT 3"
_WATCH = "COPY (SUBSCRIBE TO items) TO STDOUT"
_GO_ON = """
Lines with the same time are one change: what left the view and what came, never one without the
other. To go on:

    waterclock serve                  a server of your own, with its data in ./waterclock-data
    waterclock sql                    SQL on it, with psql if that is installed
    waterclock serve --help           all its settings

Paste the four statements above into the shell to have the same there, and then:

    SELECT * FROM items WHERE item = 'Custom Art';
    EXPLAIN SELECT item, count(*) FROM auctions GROUP BY item;
"""


def run(out: TextIO, environ: Mapping[str, str], *, seconds: float = 8.0) -> None:
    """Show it. Raises whatever keeps a server from starting."""
    with tempfile.TemporaryDirectory(prefix="waterclock-demo-") as folder:
        configuration = configured(Path(folder), environ)
        _say(out, "Starting a server, with Spark inside; this takes some seconds.")
        with running(configuration) as server:
            dsn = f"host=127.0.0.1 port={server.pg_port} user=waterclock dbname=waterclock"
            _say(out, f"It is there; while this runs:  {psql_line(configuration, server.pg_port)}")
            _show(dsn, seconds, out)
        _say(out, _GO_ON)


def configured(folder: Path, environ: Mapping[str, str]) -> Configuration:
    """That of a server of its own in the folder, on the Spark that the environment asks for."""
    given = load({}, environ)
    return Configuration(
        data=folder / "data",
        pg_port=0,
        http_port=0,
        tick=200,
        spark_master=given.spark_master,
        spark=given.spark,
    )


def _show(dsn: str, seconds: float, out: TextIO) -> None:
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        psycopg.connect(dsn, autocommit=True) as watching,
    ):
        for step in _STEPS:
            _say(out, f"\n  {step};")
            connection.execute(step.encode())
        connection.execute(_READ)  # waits for the view's first contents
        _say(out, f"\nBids come in; watching for {seconds:.0f} s:  SUBSCRIBE TO items\n")
        watcher = threading.Thread(target=_watch, args=(watching, out), daemon=True)
        watcher.start()
        watcher.join(seconds)
        watching.cancel_safe(timeout=10)
        watcher.join(10)
        _say(out, f"\n  {_READ};")
        for item, bids, highest in connection.execute(_READ).fetchall():
            _say(out, f"  {item:<20} {bids:>5} {highest:>8}")


def _watch(connection: psycopg.Connection[Any], out: TextIO) -> None:
    _say(out, f"  {'time':>13}  {'diff':>4}  {'item':<20}  bids   highest")
    try:
        with connection.cursor() as cursor, cursor.copy(_WATCH.encode()) as copy:
            for at, diff, item, bids, highest in copy.rows():
                _say(out, f"  {at:>13}  {int(diff):>+4}  {item:<20}  {bids:>4}  {highest:>8}")
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
