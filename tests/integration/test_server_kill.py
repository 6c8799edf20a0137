"""kill -9 of a whole server in the middle of statements that change the catalog.

A client runs statements of every kind, one after the other, and notes each that was acknowledged.
The server is killed at a random moment and started again. Then all that was acknowledged is there,
and of the statement that was cut off either nothing or everything; views go on, and the data
directory passes its check. `WATERCLOCK_KILL_ROUNDS` sets how often (2).
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from waterclock.testing.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.service, pytest.mark.timeout(2400)]

ROUNDS = int(os.environ.get("WATERCLOCK_KILL_ROUNDS", "2"))
LONGEST_S = 8.0
STATEMENTS = (
    "CREATE SCHEMA s{n}",
    "CREATE TABLE s{n}.t (a int NOT NULL, b text)",
    "CREATE TABLE s{n}.copied AS SELECT a, b FROM base",
    "CREATE VIEW s{n}.v AS SELECT a FROM base",
    "CREATE MATERIALIZED VIEW s{n}.m AS SELECT b, count(*) AS n FROM base GROUP BY b",
    "CREATE INDEX base_{n} ON base (b)",
    "CREATE SOURCE s{n}.c FROM LOAD GENERATOR COUNTER (TICK INTERVAL '1s')",
    "CREATE ROLE role_{n} LOGIN PASSWORD 'x'",
    "GRANT SELECT ON base TO role_{n}",
    "COMMENT ON TABLE s{n}.t IS 'number {n}'",
    "ALTER TABLE s{n}.t RENAME TO renamed",
    "DROP INDEX base_{n}",
    "DROP SOURCE s{n}.c",
    "DROP MATERIALIZED VIEW s{n}.m",
    "CREATE SECRET s{n}.secret AS 'hidden'",
    "CREATE DATABASE d{n}",
    "DROP DATABASE d{n}",
)
SHOWN = (
    "SELECT nspname FROM pg_namespace WHERE nspname LIKE 's_' OR nspname LIKE 's__'",
    "SELECT n.nspname, c.relname, c.relkind::text, obj_description(c.oid, 'pg_class')"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname LIKE 's_' OR n.nspname LIKE 's__' OR c.relname LIKE 'base%'",
    "SELECT rolname FROM pg_roles WHERE rolname LIKE 'role%'",
    "SELECT datname FROM pg_database",
    "SELECT relacl::text FROM pg_class WHERE relname = 'base'",
    "SELECT s.name, x.name FROM mz_secrets x JOIN mz_schemas s ON s.id = x.schema_id",
)


class Writer:
    """Runs the statements until the server is gone."""

    def __init__(self, server: ServerProcess, first: int) -> None:
        self._server = server
        self.number = first
        self.begun = self.acknowledged = self.looked = 0
        """How many statements of the present number were sent, and were answered, and after how
        many the catalog was looked at.
        """
        self.shown: list[Any] = []
        """What it showed then."""
        self.has_looked = threading.Event()

    def run(self) -> None:
        with suppress(psycopg.OperationalError), self._server.connect() as connection:
            while True:
                self.shown = shown(connection)
                self.begun = self.acknowledged = self.looked = 0
                self.has_looked.set()
                for statement in STATEMENTS:
                    self.begun += 1
                    connection.execute(statement.format(n=self.number).encode())
                    self.acknowledged += 1
                    self.shown = shown(connection)
                    self.looked += 1
                self.number += 1


def shown(connection: psycopg.Connection[Any]) -> list[Any]:
    return [sorted(connection.execute(each.encode()).fetchall(), key=repr) for each in SHOWN]


def check(data: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "waterclock.server.cli", "check", "--data", str(data)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.semantics(80)
def test_kill_inside_statements(tmp_path: Path) -> None:
    seed = int(os.environ.get("WATERCLOCK_KILL_SEED", "7"))
    chance = random.Random(seed)
    server = ServerProcess(tmp_path / "data")
    server.start()
    with server.connect() as connection:
        connection.execute("CREATE TABLE base (a int NOT NULL, b text)")
        connection.execute("INSERT INTO base VALUES (1, 'x'), (2, 'y')")
    number = 1
    try:
        for _ in range(ROUNDS):
            writer = Writer(server, number)
            thread = threading.Thread(target=writer.run)
            thread.start()
            assert writer.has_looked.wait(600)
            thread.join(chance.uniform(0.5, LONGEST_S))
            server.kill()
            thread.join(240)
            assert not thread.is_alive()
            check(server.data)
            server.start()
            judge(server, writer)
            number = writer.number + 1
        server.stop()
    finally:
        server.kill()
    check(server.data)


def judge(server: ServerProcess, writer: Writer) -> None:
    """What is there is what was acknowledged, or that with the statement that was cut off."""
    with server.connect() as connection:
        now = shown(connection)
        if writer.looked < writer.acknowledged:
            assert now != writer.shown, "what was acknowledged is there"
        if now != writer.shown:
            assert writer.begun == writer.looked + 1, "nothing was under way"
            cut_off = STATEMENTS[writer.begun - 1].format(n=writer.number)
            with suppress(psycopg.Error):  # such as that it exists already
                connection.execute(cut_off.encode())
            assert shown(connection) == now, "all of it was done: saying it again changes nothing"
        use(connection, now)


def use(connection: psycopg.Connection[Any], now: list[Any]) -> None:
    """Every relation that is shown can be read, and follows what is written."""
    connection.execute("INSERT INTO base VALUES (3, 'z')")
    expected = connection.execute("SELECT b, count(*) FROM base GROUP BY b").fetchall()
    for schema, name, kind, _ in now[1]:
        if kind == "i" or schema == "public":
            continue
        rows = connection.execute(f"SELECT * FROM {schema}.{name}".encode()).fetchall()
        if name == "m":
            assert sorted(rows) == sorted(expected)
        if name == "copied":
            assert len(rows) >= 2, "a table made of a query has its rows"
