"""Statements that ask for more than a server should give, and a quiet session beside them.

Each is one that an unfriendly or a careless client may send. The server has to answer it or to
refuse it, keep the session, and let nobody else wait. `quiet_latencies` measures what another
session notices; it runs in a process of its own, for the sender is busy too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

QUIET = {"SELECT 1": "SELECT 1", "point read": "SELECT name FROM quiet WHERE id = 500"}
QUIET_TABLE = (
    "CREATE TABLE quiet (id int NOT NULL, name text)",
    f"INSERT INTO quiet VALUES {','.join(f'({n}, {chr(39)}n{n}{chr(39)})' for n in range(1000))}",
    "CREATE INDEX quiet_by_id ON quiet (id)",
)
_PAUSE_S = 0.002
_ANSWERED = "00000"


@dataclass(frozen=True, slots=True)
class Hostile:
    """A statement, and how it may end: SQLSTATEs, or `00000` for an answer."""

    name: str
    sql: Callable[[], str]
    ends: frozenset[str]
    timeout_ms: int = 20_000


def _one(name: str, sql: Callable[[], str], *ends: str, timeout_ms: int = 20_000) -> Hostile:
    return Hostile(name, sql, frozenset({*ends, "57014"}), timeout_ms)


def shared(levels: int, combined: str = "UNION") -> str:
    """Queries of WITH, each of which reads the one before twice."""
    tables = ["c0 AS (SELECT 1 AS x)"]
    tables += [
        f"c{n} AS (SELECT x FROM c{n - 1} {combined} SELECT x + 1 FROM c{n - 1})"
        for n in range(1, levels + 1)
    ]
    return f"WITH {', '.join(tables)} SELECT count(*) FROM c{levels}"


def _values(count: int) -> str:
    return ",".join(f"({n},'a{n}')" for n in range(count))


_X = "FROM (VALUES (1), (2)) v(x)"
HOSTILE = (
    _one("1,000 parentheses", lambda: f"SELECT {'(' * 1000}1{')' * 1000}", "54001", _ANSWERED),
    _one("10,000 NOT", lambda: f"SELECT {'NOT ' * 10_000}true", "54001"),
    _one("5,000 +", lambda: f"SELECT {'+'.join(['x'] * 5000)} {_X}", "54001", _ANSWERED),
    _one(
        "500 nested subqueries",
        lambda: f"SELECT * FROM {'(SELECT * FROM ' * 500}(SELECT 1 AS a) t{') t' * 500}",
        "54001",
    ),
    _one("500 nested scalars", lambda: f"SELECT {'(SELECT ' * 500}1{')' * 500}", "54001"),
    _one(
        "1,000 nested CASE",
        lambda: f"SELECT {'CASE WHEN x > 1 THEN ' * 1000}1{' END' * 1000} {_X}",
        "54001",
    ),
    _one(
        "3,000 columns", lambda: f"SELECT {','.join(f'{n} AS c{n}' for n in range(3000))}", "54011"
    ),
    _one(
        "30 subscripts inside one another",
        lambda: f"SELECT {'a[' * 30}1{']' * 30} FROM (SELECT ARRAY[1] AS a) t",
        "54000",
    ),
    _one("literal of 50 MB", lambda: f"SELECT length('{'x' * 50_000_000}')", "54000"),
    _one("literal of 5 MB", lambda: f"SELECT length('{'x' * 5_000_000}')", _ANSWERED),
    _one(
        "5,000 AND",
        lambda: f"SELECT 1 {_X} WHERE {' AND '.join(f'x <> {n + 3}' for n in range(5000))}",
        _ANSWERED,
        timeout_ms=60_000,
    ),
    _one(
        "IN with 100,000 values",
        lambda: f"SELECT count(*) FROM quiet WHERE id IN ({','.join(map(str, range(100_000)))})",
        _ANSWERED,
    ),
    _one(
        "100,000 VALUES",
        lambda: f"SELECT count(*) FROM (VALUES {_values(100_000)}) v(a, b)",
        _ANSWERED,
    ),
    _one(
        "INSERT of 100,000 VALUES",
        lambda: f"INSERT INTO heap VALUES {_values(100_000)}",
        _ANSWERED,
    ),
    _one("100,000 VALUES, 0.5 s", lambda: f"VALUES {_values(100_000)}", timeout_ms=500),
    _one("60 shared queries of WITH", lambda: shared(60), _ANSWERED),
    _one("25 shared views", lambda: "SELECT count(*) FROM v25", _ANSWERED, timeout_ms=60_000),
    _one(
        "pg_class times 100,000,000",
        lambda: "SELECT count(*) FROM pg_class, generate_series(1, 100000000)",
        *("54000", "53200"),
    ),
    _one(
        "pg_class to the fifth",
        lambda: f"SELECT count(*) FROM {','.join(f'pg_class p{n}' for n in range(5))}",
        *("54000", "53200", _ANSWERED),
        timeout_ms=1500,
    ),
    _one(
        "pg_class times 1,000,000, all rows",
        lambda: "SELECT * FROM pg_class, generate_series(1, 1000000)",
        "53200",
    ),
    _one(
        "pg_class IN 100,000",
        lambda: f"SELECT 1 FROM pg_class WHERE oid IN ({','.join(map(str, range(100_000)))})",
        "54000",
    ),
)


def set_up(connection: psycopg.Connection[Any], views: int = 25) -> None:
    """Make what these statements, and the quiet session, read and write."""
    for statement in (*QUIET_TABLE, "CREATE TABLE heap (a int, b text)"):
        connection.execute(statement.encode())
    connection.execute("CREATE VIEW v0 AS SELECT id AS x FROM quiet WHERE id < 3")
    for n in range(1, views + 1):
        text = f"CREATE VIEW v{n} AS SELECT x FROM v{n - 1} UNION SELECT x + 1 FROM v{n - 1}"
        connection.execute(text.encode())


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a statement ended, after how many seconds, and whether its session went on."""

    sqlstate: str
    seconds: float
    session_kept: bool
    message: str = ""


def run(dsn: str, hostile: Hostile) -> Outcome:
    """Send the statement in a session of its own."""
    sql = hostile.sql().encode()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"SET statement_timeout = {hostile.timeout_ms}".encode())
        began = time.perf_counter()
        state, message = _ANSWERED, ""
        try:
            connection.execute(sql)
        except psycopg.Error as error:
            state, message = error.sqlstate or "lost", str(error)
        seconds = time.perf_counter() - began
        try:
            kept = connection.execute("SELECT 1").fetchone() == (1,)
        except psycopg.Error:
            kept = False
    return Outcome(state, seconds, kept, message)


class QuietSession:
    """Asks the same again and again, in a process of its own, until `stop`."""

    def __init__(self, dsn: str, query: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, dsn, query],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it has connected

    def latencies_ms(self) -> list[float]:
        """Those since the last call, sorted."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: list[float] = json.loads(self._process.stdout.readline())
        return sorted(found)

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()


def _ask(dsn: str, query: str) -> None:
    """The quiet session: a line on standard input asks for what was measured since the last."""
    import threading

    found: list[float] = []
    ended = threading.Event()

    def report() -> None:
        for _ in sys.stdin:
            taken = found[:]
            del found[: len(taken)]
            print(json.dumps(taken), flush=True)
        ended.set()

    with psycopg.connect(dsn, autocommit=True) as connection:
        print("ready", flush=True)
        threading.Thread(target=report, daemon=True).start()
        while not ended.is_set():
            began = time.perf_counter()
            connection.execute(query.encode()).fetchall()
            found.append((time.perf_counter() - began) * 1e3)
            time.sleep(_PAUSE_S)


if __name__ == "__main__":
    _ask(*sys.argv[1:])
