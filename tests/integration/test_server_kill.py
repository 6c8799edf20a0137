"""kill -9 of a whole server in the middle of statements that change the catalog, and rows.

A client runs statements of every kind, one after the other, and notes each that was acknowledged.
Another one inserts, updates and deletes rows, alone and in transactions, and keeps book of what the
table must hold. A third posts numbers to a webhook source.
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
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
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


class RowWriter:
    """Changes the rows of one table until the server is gone, and keeps book of them here."""

    def __init__(self, server: ServerProcess, rows: dict[int, int], seed: int) -> None:
        self._server = server
        self._random = random.Random(seed)
        self.rows = rows
        """By id, after all that was acknowledged."""
        self.under_way: dict[int, int] | None = None
        """The same with what was sent and not answered yet, if there is such a thing."""
        self.acknowledged: Counter[str] = Counter()

    def run(self) -> None:
        with suppress(psycopg.OperationalError), self._server.connect() as connection:
            while True:
                kind = self._random.choice(["insert", "insert", "update", "delete", "transaction"])
                statements, after = self._change(kind)
                self.under_way = after
                for statement in statements:
                    connection.execute(statement.encode())
                self.rows, self.under_way = after, None
                self.acknowledged[kind] += 1

    def _change(self, kind: str) -> tuple[list[str], dict[int, int]]:
        """What to say, and the rows after it."""
        rows, one = self.rows, self._random.randrange(3)
        if kind == "insert":
            first = max(rows, default=0) + 1
            fresh = range(first, first + self._random.choice([1, 3, 40]))
            values = ", ".join(f"({each}, {one})" for each in fresh)
            return [f"INSERT INTO ledger VALUES {values}"], rows | dict.fromkeys(fresh, one)
        if kind == "update":
            changed = {id_: v + 1 if id_ % 3 == one else v for id_, v in rows.items()}
            return [f"UPDATE ledger SET v = v + 1 WHERE id % 3 = {one}"], changed
        if kind == "delete":
            left = {id_: v for id_, v in rows.items() if id_ % 5 != one}
            return [f"DELETE FROM ledger WHERE id % 5 = {one}"], left
        kept, (first_said, self.rows) = self.rows, self._change("insert")
        then_said, after = self._change("update")
        self.rows = kept
        return ["BEGIN", *first_said, *then_said, "COMMIT"], after

    def judge(self, connection: psycopg.Connection[Any]) -> dict[int, int]:
        """The rows that are there: what was acknowledged, with what was under way or without."""
        found = connection.execute("SELECT id, v FROM ledger ORDER BY id").fetchall()
        possible = [self.rows, *([self.under_way] if self.under_way is not None else [])]
        assert found in [sorted(each.items()) for each in possible]
        total = connection.execute("SELECT n::int, s::int FROM ledger_total").fetchall()
        assert total == ([(len(found), sum(v for _, v in found))] if found else total)
        return dict(found)


class Poster:
    """Posts the next number to a webhook source until the server is gone."""

    def __init__(self, server: ServerProcess, acknowledged: int) -> None:
        self._url = f"http://127.0.0.1:{server.http_port}/api/webhook/waterclock/public/posted"
        self.acknowledged = acknowledged

    def run(self) -> None:
        with suppress(httpx.TransportError), httpx.Client(timeout=600) as client:
            while True:
                body = f'{{"n": {self.acknowledged + 1}}}'
                client.post(self._url, content=body).raise_for_status()
                self.acknowledged += 1

    def judge(self, connection: psycopg.Connection[Any]) -> int:
        """How many numbers are there: those that were acknowledged, and at most one more."""
        found = connection.execute("SELECT n FROM posted ORDER BY n").fetchall()
        assert found == [(n + 1,) for n in range(len(found))]
        assert self.acknowledged <= len(found) <= self.acknowledged + 1
        return len(found)


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
        connection.execute("CREATE TABLE ledger (id int, v int)")
        connection.execute(
            "CREATE MATERIALIZED VIEW ledger_total AS SELECT count(*) AS n, sum(v) AS s FROM ledger"
        )
        connection.execute("CREATE SOURCE posted (n int) FROM WEBHOOK BODY FORMAT JSON")
    number, posted = 1, 0
    rows: dict[int, int] = {}
    acknowledged: Counter[str] = Counter()
    try:
        for _ in range(ROUNDS):
            writer = Writer(server, number)
            row_writer = RowWriter(server, rows, chance.getrandbits(32))
            poster = Poster(server, posted)
            clients = (writer, row_writer, poster)
            threads = [threading.Thread(target=each.run) for each in clients]
            for thread in threads:
                thread.start()
            assert writer.has_looked.wait(600)
            threads[0].join(chance.uniform(0.5, LONGEST_S))
            server.kill()
            for thread in threads:
                thread.join(240)
                assert not thread.is_alive()
            check(server.data)
            server.start()
            with server.connect() as connection:
                rows = row_writer.judge(connection)
                posted = poster.judge(connection)
            acknowledged += row_writer.acknowledged
            judge(server, writer)
            number = writer.number + 1
        server.stop()
    finally:
        server.kill()
    check(server.data)
    assert acknowledged["insert"], "rows were written before the kills"
    assert posted, "numbers were posted before the kills"


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
