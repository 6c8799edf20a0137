"""What a recent read costs: of a source over Kafka and of one over PostgreSQL.

    python bench/recency.py [--rounds 300]

In each round a row is written upstream, and once that is acknowledged it is read here, by its key,
in a recent read, which must find it. Beside it, in the same rounds: a recent read with nothing new
upstream, an ordinary read, a read of a table, and the cheapest question to the system upstream
itself, which is SELECT for PostgreSQL and the end of the topic for a consumer of Kafka. Then the
same through a view that has an index, and a hundred recent reads at once. In the end others read
while recent reads of the source over Kafka go on all the time.

Sources have the default settings: they look upstream once in a second by themselves.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Consumer, TopicPartition
from psycopg.conninfo import conninfo_to_dict
from report import Report

from waterclock.testing.kafka import KafkaBroker, produced
from waterclock.testing.server_process import ServerProcess
from waterclock.testing.services import PostgresServer

LOGICAL = {"wal_level": "logical"}
KEPT = 1000
"""Rows that are there from the beginning."""
BAR_MS = 150.0
AT_ONCE = 100
WARM_UP = 20
Connection = psycopg.Connection[Any]
Timings = dict[str, list[float]]


def timed(timings: Timings, what: str, action: Callable[[], Any]) -> Any:
    began = time.monotonic()
    found = action()
    timings[what].append((time.monotonic() - began) * 1000)
    return found


def rows(connection: Connection, query: str) -> list[Any]:
    return connection.execute(query.encode()).fetchall()


def measure(
    report: Report,
    server: ServerProcess,
    name: str,
    write: Callable[[int], Any],
    ask: Callable[[], Any],
    asked: str,
    rounds: int,
) -> None:
    """The timings of a source with the columns `id` and `v`, over what `write` writes."""
    timings: Timings = defaultdict(list)
    with server.connect() as connection:
        view = f"{name}_totals"
        rows(connection, f"SELECT count(*) FROM {name} AS OF UPSTREAM")
        connection.execute(f"CREATE VIEW {view} AS SELECT v, count(*) AS n FROM {name} GROUP BY v")
        connection.execute(f"CREATE DEFAULT INDEX ON {view}")
        rows(connection, f"SELECT * FROM {view}")
        for number in range(KEPT, KEPT + WARM_UP + rounds):
            if number == KEPT + WARM_UP:
                timings.clear()
            one = f"SELECT v FROM {name} WHERE id = {number}"
            recent = f"{one} AS OF UPSTREAM"
            through = f"SELECT v FROM {view} WHERE v = 'v{number}' AS OF UPSTREAM"
            write(number)
            read = recent if number % 2 else through
            what = "recent read" if number % 2 else "recent read through a view with an index"
            found = timed(timings, what, lambda read=read: rows(connection, read))
            assert found == [(f"v{number}",)], f"{read}: {found}"
            nothing_new = "recent read, nothing new upstream"
            timed(timings, nothing_new, lambda recent=recent: rows(connection, recent))
            timed(timings, "ordinary read", lambda one=one: rows(connection, one))
            timed(timings, "read of a table", lambda: rows(connection, "SELECT a FROM t"))
            timed(timings, asked, ask)
        at_once(server, timings, f"SELECT v FROM {name} WHERE id = {number} AS OF UPSTREAM")
    for what, found in timings.items():
        found.sort()
        p50, p99 = statistics.median(found), found[int(len(found) * 0.99)]
        if what == "recent read":
            report.limit(f"{name}, {what}, p50", p50, BAR_MS, "ms")
        else:
            report.figure(f"{name}, {what}, p50", p50, "ms")
        report.figure("  p99", p99, "ms")


def at_once(server: ServerProcess, timings: Timings, query: str) -> None:
    """The same read of many clients, which begin together."""
    begin = threading.Barrier(AT_ONCE)
    with ExitStack() as opened:
        clients = [opened.enter_context(server.connect()) for _ in range(AT_ONCE)]

        def read(client: Connection) -> None:
            for _ in range(3):
                begin.wait()
                timed(timings, f"recent read, {AT_ONCE} at once", lambda: rows(client, query))

        threads = [threading.Thread(target=read, args=(each,)) for each in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def beside(report: Report, server: ServerProcess, rounds: int) -> None:
    """What others wait while recent reads go on."""
    queries = {
        "a table": "SELECT a FROM t",
        "the source over Kafka": f"SELECT v FROM kafka WHERE id = {KEPT}",
        "the one over PostgreSQL": f"SELECT v FROM postgres WHERE id = {KEPT}",
    }
    is_over = threading.Event()

    def read_recently() -> None:
        with server.connect() as connection:
            while not is_over.is_set():
                rows(connection, f"{queries['the source over Kafka']} AS OF UPSTREAM")

    threads = [threading.Thread(target=read_recently) for _ in range(4)]
    for thread in threads:
        thread.start()
    timings: Timings = defaultdict(list)
    try:
        with server.connect() as connection:
            for number in range(WARM_UP + rounds):
                if number == WARM_UP:
                    timings.clear()
                for what, query in queries.items():
                    timed(timings, what, lambda query=query: rows(connection, query))
                connection.execute("SET transaction_isolation = 'serializable'")
                query = queries["the one over PostgreSQL"]
                timed(
                    timings, "the same, serializable", lambda query=query: rows(connection, query)
                )
                connection.execute("SET transaction_isolation = 'strict serializable'")
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    for what, found in timings.items():
        report.figure(f"beside recent reads: {what}, p50", statistics.median(found), "ms")
        report.figure("  p99", sorted(found)[int(len(found) * 0.99)], "ms")


def over_kafka(report: Report, server: ServerProcess, broker: KafkaBroker, rounds: int) -> None:
    topic = "bench"
    broker.create_topic(topic)
    producer = broker.producer(linger_ms=0)

    def write(first: int, count: int = 1) -> None:
        numbers = range(first, first + count)
        produced(producer, topic, [(str(n), f'{{"id": {n}, "v": "v{n}"}}') for n in numbers])

    write(0, KEPT)
    with server.connect() as connection:
        connection.execute(f"CREATE CONNECTION k TO KAFKA (BROKER '{broker.address}')")
        connection.execute(
            "CREATE SOURCE kafka (id int, v text) FROM KAFKA CONNECTION k (TOPIC 'bench')"
            " FORMAT JSON"
        )
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "bench"})
    end = TopicPartition(topic, 0)
    try:
        measure(
            report,
            server,
            "kafka",
            write,
            lambda: consumer.get_watermark_offsets(end, cached=False),
            "a consumer asks for the end",
            rounds,
        )
    finally:
        consumer.close()


def over_postgres(
    report: Report, server: ServerProcess, postgres: PostgresServer, rounds: int
) -> None:
    given = conninfo_to_dict(postgres.conninfo())
    with psycopg.connect(postgres.conninfo(), autocommit=True) as upstream:
        upstream.execute("CREATE TABLE postgres (id int PRIMARY KEY, v text)")
        upstream.execute("ALTER TABLE postgres REPLICA IDENTITY FULL")
        fill = f"INSERT INTO postgres SELECT i, 'v' || i FROM generate_series(0, {KEPT - 1}) i"
        upstream.execute(fill.encode())
        upstream.execute("CREATE PUBLICATION p FOR TABLE postgres")
        with server.connect() as connection:
            connection.execute(
                f"CREATE CONNECTION pg TO POSTGRES (HOST '{given['host']}', PORT {given['port']},"
                " DATABASE 'postgres', USER 'postgres')"
            )
            connection.execute(
                "CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES"
            )
        measure(
            report,
            server,
            "postgres",
            lambda n: upstream.execute(f"INSERT INTO postgres VALUES ({n}, 'v{n}')".encode()),
            lambda: rows(upstream, f"SELECT v FROM postgres WHERE id = {KEPT}"),
            "SELECT upstream",
            rounds,
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=300)
    arguments = parser.parse_args()
    report = Report("Recent reads, from the statement to the last row")
    with (
        tempfile.TemporaryDirectory(prefix="waterclock-bench-", dir="/var/tmp") as folder,
        KafkaBroker() as broker,
        PostgresServer(LOGICAL, fsync=True) as postgres,
        ServerProcess(Path(folder) / "data") as server,
    ):
        with server.connect() as connection:
            connection.execute("CREATE TABLE t (a int)")
            connection.execute("INSERT INTO t VALUES (1)")
        over_kafka(report, server, broker, arguments.rounds)
        over_postgres(report, server, postgres, arguments.rounds)
        beside(report, server, arguments.rounds)
    report.exit()


if __name__ == "__main__":
    main()
