"""The server as clients meet it, beside a PostgreSQL that holds the same data in tables.

    python bench/server.py [--seconds 5] [--only measure|slow]

Each figure is measured on both servers in one run, by the same clients, in a process of their own
(`load.py`). The bars are absolute: they say what a user may expect on two free cores. A machine
that does other things meanwhile shows it in PostgreSQL's figures; what a request takes of the
server's process is told beside, since that does not depend on who else is there.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from load import ROWS, SLOW, Load
from report import Report

from waterclock.compute.spark import open_session
from waterclock.server.java import find_java
from waterclock.testing.server_process import ServerProcess
from waterclock.testing.services import PostgresServer

ITEMS = (
    "CREATE TABLE {} (id int NOT NULL, name text NOT NULL, price numeric(10,2), "
    "at timestamptz, shop int)"
)
SMALL_ROWS = 1_000
STREAM = "stream SELECT * FROM items"
ROUNDS = 3
SUBSCRIBERS = 200


def item_lines() -> bytes:
    """The rows of `items` as COPY has them."""
    file = io.StringIO()
    writer = csv.writer(file)
    for n in range(ROWS):
        at = f"2026-01-{n % 28 + 1:02} {n % 24:02}:00:00+00"
        writer.writerow((n, f"item number {n}", f"{n % 9973}.{n % 100:02}", at, n % 50))
    return file.getvalue().encode()


class Contender:
    """A server with its name, driven by clients in other processes."""

    def __init__(self, name: str, dsn: str, cpu_s: Callable[[], float] | None = None) -> None:
        """`cpu_s` tells how much CPU it has taken, if that can be told."""
        self.name = name
        self.dsn = dsn
        self._cpu_s = cpu_s
        self.cpu_ms = 0.0
        """What a request of the last load took of the server's process."""

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn, autocommit=True)

    def load(self, kind: str, connections: int = 1, seconds: float = 5.0) -> Load:
        command = [sys.executable, str(Path(__file__).with_name("load.py")), self.dsn, kind]
        before = self._cpu_s() if self._cpu_s else 0.0
        done = subprocess.run(
            [*command, str(connections), str(seconds)], check=True, capture_output=True, text=True
        )
        load = Load(**json.loads(done.stdout))
        self.cpu_ms = ((self._cpu_s() if self._cpu_s else 0.0) - before) * 1e3 / load.requests
        return load

    def fill(self, lines: bytes) -> None:
        with self.connect() as connection:
            for table in ("items", "loaded"):
                connection.execute(ITEMS.format(table).encode())
            for table in ("sales", "small"):
                connection.execute(f"CREATE TABLE {table} (shop int NOT NULL, amount int)".encode())
            connection.execute("CREATE TABLE events (id int NOT NULL, what text)")
            connection.execute("CREATE TABLE news (what text)")
            self.copy("items", lines)
            many = ",".join(f"({n},{n * 7 % 100})" for n in range(SMALL_ROWS))
            connection.execute(f"INSERT INTO small VALUES {many}".encode())
            connection.execute("CREATE INDEX items_by_id ON items (id)")
            connection.execute(
                "CREATE MATERIALIZED VIEW totals AS"
                " SELECT shop, count(*) AS n, sum(amount) AS total FROM sales GROUP BY shop"
            )
            connection.execute("SELECT * FROM totals")

    def copy(self, table: str, lines: bytes) -> float:
        """Rows per second of a COPY."""
        with self.connect() as connection, connection.cursor() as cursor:
            began = time.perf_counter()
            with cursor.copy(f"COPY {table} FROM STDIN (FORMAT csv)".encode()) as copy:
                for start in range(0, len(lines), 1 << 16):
                    copy.write(lines[start : start + (1 << 16)])
            assert cursor.rowcount == lines.count(b"\n"), "all rows were taken"
            return cursor.rowcount / (time.perf_counter() - began)


class Bench:
    """Both servers, and what to say of them."""

    def __init__(self, ours: Contender, peer: Contender, seconds: float, report: Report) -> None:
        self.ours, self.peer = ours, peer
        self.seconds = seconds
        self.report = report

    def latency(self, what: str, kind: str, bar_ms: float, seconds: float | None = None) -> None:
        ours = self._both(what, kind, 1, seconds or self.seconds)
        self.report.limit(f"{what}, p50", ours.p50_ms, bar_ms, "ms")

    def rate(self, what: str, kind: str, bar: float, connections: int = 32) -> None:
        ours = self._both(what, kind, connections, self.seconds)
        self._at_least(f"{what}, {connections} connections", ours.rate, bar, "/s")

    def stream(self, what: str, bar: float) -> None:
        rounds = [self._both(what, STREAM, 1, 0) for _ in range(ROUNDS)]
        rate = statistics.median(each.rate for each in rounds)
        self._at_least(what, rate, bar, "rows/s")

    def copy(self, what: str, lines: bytes, bar: float) -> None:
        peer = statistics.median(self.peer.copy("loaded", lines) for _ in range(ROUNDS))
        self.report.figure(f"{what}: {self.peer.name}", peer, "rows/s")
        ours = statistics.median(self.ours.copy("loaded", lines) for _ in range(ROUNDS))
        self._at_least(what, ours, bar, "rows/s")

    def _both(self, what: str, kind: str, connections: int, seconds: float) -> Load:
        loads = []
        for contender in (self.peer, self.ours):
            load = contender.load(kind, connections, seconds)
            loads.append(load)
            taken = f"  server {contender.cpu_ms:.3f} ms each" if contender.cpu_ms else ""
            print(
                f"  {what + ': ' + contender.name:<52} {load.rate:>11,.0f}/s "
                f" p50 {load.p50_ms:8.2f}  p99 {load.p99_ms:8.2f} ms"
                f"  clients {load.client_cores:.2f} cores{taken}",
                flush=True,
            )
        return loads[1]

    def _at_least(self, name: str, value: float, bar: float, unit: str) -> None:
        self.report.floor(name, value, bar, unit)


def planned_frame(rows: list[tuple[Any, ...]], runs: int) -> float:
    """Milliseconds of running a DataFrame that was planned before, over the same rows.

    Spark keeps what the first run has shuffled, so that the others skip that stage. The server
    reads the table again and computes everything each time: the bar is harder than it sounds.
    """
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    spark = open_session("local[2]")
    try:
        frame = spark.createDataFrame(rows, "shop int, amount int")
        frame.createOrReplaceTempView("small")
        query = spark.sql(SLOW)
        return median_ms(query.toArrow, runs)
    finally:
        spark.stop()


def median_ms(run: Callable[[], object], runs: int) -> float:
    took = []
    for _ in range(runs):
        began = time.perf_counter()
        run()
        took.append((time.perf_counter() - began) * 1e3)
    return statistics.median(took[len(took) // 2 :])


def measure(bench: Bench, lines: bytes) -> None:
    bench.latency("SELECT 1", "select 1", 1.0)
    bench.latency("point read on an index", "point", 5.0)
    bench.rate("point read on an index", "point", 1_000)
    bench.stream("full result, 5 columns as text", 200_000)
    bench.latency("INSERT of one row", "insert", 30.0)
    bench.rate("INSERT of one row", "insert", 1_000)
    bench.copy("COPY FROM, 5 columns of csv", lines, 150_000)
    bench.latency("list of relations (pg_catalog)", "listing", 10.0)
    bench.latency("columns of a relation (pg_catalog)", "columns", 10.0)
    with bench.peer.connect() as connection:  # a recompute is what it has
        connection.execute("CREATE INDEX totals_by_shop ON sales (shop)")
        connection.execute("DROP MATERIALIZED VIEW totals")
        connection.execute(
            "CREATE VIEW totals AS SELECT shop, count(*) AS n, sum(amount) AS total"
            " FROM sales GROUP BY shop"
        )
    bench.latency("strict read of a view right after an INSERT", "fresh", 400.0, 20.0)


def subscriptions(bench: Bench) -> None:
    """What many who follow the same cost, beside what one costs."""
    costs = {}
    for count in (1, SUBSCRIBERS):
        load = bench.ours.load("subscribe", count, bench.seconds)
        costs[count] = bench.ours.cpu_ms
        bench.report.figure(f"a row to the last of {count} subscribers, p50", load.p50_ms, "ms")
        bench.report.figure(f"the same, of the server's process, {count}", costs[count], "ms")
    shared = SUBSCRIBERS * costs[1] / costs[SUBSCRIBERS]
    bench.report.bar(f"{SUBSCRIBERS} on their own / {SUBSCRIBERS} that share", shared, 10)


def slow_path(bench: Bench) -> None:
    load = bench.ours.load("slow", 1, 15.0)
    rows = [(n, n * 7 % 100) for n in range(SMALL_ROWS)]
    frame = planned_frame(rows, max(30, load.requests))
    bench.report.figure("a planned DataFrame, run again", frame, "ms")
    bench.report.figure("the same query over the wire, p50", load.p50_ms, "ms")
    bench.report.limit("repeated query / planned DataFrame", load.p50_ms / frame, 1.5, "x")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--only", help="a part: measure or slow")
    arguments = parser.parse_args()
    report = Report("The server, beside PostgreSQL")
    lines = item_lines()
    with (
        tempfile.TemporaryDirectory(prefix="waterclock-bench-", dir="/var/tmp") as folder,
        PostgresServer(fsync=True) as postgres,
        ServerProcess(Path(folder) / "data") as server,
    ):
        report.limit("first start to accepting connections", server.started_in_s, 15, "s")
        bench = Bench(
            Contender("Waterclock", server.dsn, server.cpu_s),
            Contender("PostgreSQL", postgres.conninfo()),
            arguments.seconds,
            report,
        )
        for contender in (bench.peer, bench.ours):
            contender.fill(lines)
        if arguments.only != "slow":
            measure(bench, lines)
            subscriptions(bench)
        if arguments.only != "measure":
            slow_path(bench)
    report.exit()


if __name__ == "__main__":
    main()
