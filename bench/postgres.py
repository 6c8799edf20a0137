"""Changes per second from PostgreSQL, beside pg_recvlogical draining the same changes to a file.

    python bench/postgres.py [--changes 1000000]

A source is created and its server stopped; then rows are inserted, updated and deleted upstream, a
thousand in a transaction. What counts is how long it takes, once there is a connection to the slot,
until the slot is told that everything is durable here. pg_recvlogical reads a copy of the slot.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from report import Report

from waterclock.testing.server_process import ServerProcess
from waterclock.testing.services import PostgresServer, find_postgres_binaries

LOGICAL = {"wal_level": "logical", "max_wal_size": "8GB", "autovacuum": "off"}
SETUP = """
CREATE TABLE items (id bigint PRIMARY KEY, name text, amount numeric(12,2), at timestamptz);
ALTER TABLE items REPLICA IDENTITY FULL;
CREATE PUBLICATION p FOR TABLE items
"""
EACH = 1000
Connection = psycopg.Connection[Any]


def change(upstream: Connection, changes: int) -> None:
    """Of each thousand half are inserts, the others updates and deletes of older rows."""
    half, quarter = EACH // 2, EACH // 4
    for number in range(changes // EACH):
        first, last = number * half, (number + 1) * half - 1
        with upstream.transaction():
            upstream.execute(
                "INSERT INTO items SELECT i, 'item number ' || i, i % 9973 + 0.25, now()"
                f" FROM generate_series({first}, {last}) i"
            )
            upstream.execute(
                "UPDATE items SET amount = amount + 1"
                f" WHERE id BETWEEN {first} AND {first + quarter - 1}"
            )
            upstream.execute(f"DELETE FROM items WHERE id BETWEEN {first + quarter} AND {last}")


def one(upstream: Connection, query: str) -> Any:
    row = upstream.execute(query).fetchone()
    return None if row is None else row[0]


def wait(upstream: Connection, condition: str) -> float:
    """The moment at which something holds of the source's slot."""
    query = f"SELECT bool_or({condition}) FROM pg_replication_slots WHERE slot_name <> 'peer'"
    while not one(upstream, query):
        time.sleep(0.02)
    return time.monotonic()


def received(postgres: PostgresServer, end: str, folder: Path) -> float:
    """Seconds that pg_recvlogical takes."""
    command = [str(find_postgres_binaries() / "pg_recvlogical"), "-d", postgres.conninfo()]
    command += ["-S", "peer", "--start", "-f", str(folder / "received"), "-E", end, "--no-loop"]
    command += ["-o", "proto_version=1", "-o", "publication_names=p"]
    began = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    return time.monotonic() - began


def measure(report: Report, postgres: PostgresServer, folder: Path, changes: int) -> None:
    given = conninfo_to_dict(postgres.conninfo())
    with psycopg.connect(postgres.conninfo(), autocommit=True) as upstream:
        upstream.execute(SETUP)
        with ServerProcess(folder / "data") as server, server.connect() as connection:
            connection.execute(
                f"CREATE CONNECTION pg TO POSTGRES (HOST '{given['host']}', PORT {given['port']},"
                " DATABASE 'postgres', USER 'postgres')"
            )
            connection.execute(
                "CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES"
            )
            connection.execute("SELECT count(*) FROM items")
        slot = one(upstream, "SELECT slot_name FROM pg_replication_slots")
        upstream.execute("SELECT pg_copy_logical_replication_slot(%s, 'peer')", [slot])
        began = time.monotonic()
        change(upstream, changes)
        report.figure("made upstream", changes / (time.monotonic() - began), "changes/s")
        end = one(upstream, "SELECT pg_current_wal_flush_lsn()")
        peer = received(postgres, end, folder)
        with ServerProcess(folder / "data") as server:
            # what happens before the server is ready belongs to its start
            active = wait(upstream, "active")
            there = wait(upstream, f"confirmed_flush_lsn >= '{end}'")
            with server.connect() as connection:
                check(upstream, connection)
        ours = there - active
        report.figure("caught up with a backlog", changes / ours, "changes/s")
        report.figure("pg_recvlogical, to a file", changes / peer, "changes/s")
        report.figure("caught up / pg_recvlogical", peer / ours, "x")


def check(upstream: Connection, connection: Connection) -> None:
    query = "SELECT count(*), sum(amount) FROM items"
    expected = upstream.execute(query).fetchall()
    found = connection.execute(query).fetchall()
    assert found == expected, f"{found} instead of {expected}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--changes", type=int, default=1_000_000)
    arguments = parser.parse_args()
    report = Report(f"PostgreSQL, a backlog of {arguments.changes:,} changes")
    with (
        tempfile.TemporaryDirectory(prefix="waterclock-bench-", dir="/var/tmp") as folder,
        PostgresServer(LOGICAL) as postgres,
    ):
        measure(report, postgres, Path(folder), arguments.changes)
    report.exit()


if __name__ == "__main__":
    main()
