"""A server as users have it: started, used, stopped, killed, checked, backed up and restored."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pyarrow as pa
import pytest

import waterclock
from waterclock.client.remote import ServerError
from waterclock.testing.server_process import ServerProcess
from waterclock.testing.services import free_port

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.service, pytest.mark.timeout(1800)]

SET_UP = (
    "CREATE TABLE customers (id int NOT NULL, country text)",
    "CREATE TABLE orders (customer int NOT NULL, amount numeric(10,2))",
    "CREATE MATERIALIZED VIEW sales AS SELECT c.country, count(*) AS orders, sum(o.amount) AS total"
    " FROM orders o JOIN customers c ON c.id = o.customer GROUP BY c.country",
    "INSERT INTO customers VALUES (1, 'GB'), (2, 'US')",
    "INSERT INTO orders VALUES (1, 10.50), (1, 1), (2, 7)",
)
SALES = "SELECT country, orders, total::text FROM sales ORDER BY country"


def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "waterclock.server.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def rows(connection: psycopg.Connection[Any], query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query.encode()).fetchall()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all, with two tables and a view. Its life is the last of the tests with it."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as server:
        with server.connect() as connection:
            for statement in SET_UP:
                connection.execute(statement.encode())
        yield server


def test_tables_and_views(server: ServerProcess) -> None:
    with server.connect() as connection:
        assert rows(connection, SALES) == [("GB", 2, "11.50"), ("US", 1, "7.00")]
        connection.execute("UPDATE orders SET amount = amount + 1 WHERE customer = 2")
        assert rows(connection, SALES) == [("GB", 2, "11.50"), ("US", 1, "8.00")]
        connection.execute("DELETE FROM orders WHERE amount = 8")
        assert rows(connection, SALES) == [("GB", 2, "11.50")]
        connection.execute("INSERT INTO orders VALUES (2, 7)")
        assert rows(connection, SALES) == [("GB", 2, "11.50"), ("US", 1, "7.00")]


def test_the_banner_line_connects(server: ServerProcess) -> None:
    psql = shutil.which("psql")
    [line] = [line for line in server.output.splitlines() if line.strip().startswith("psql ")]
    target = line.strip().removeprefix('psql "').removesuffix('"')
    with psycopg.connect(target) as connection:
        assert rows(connection, "SELECT 1") == [(1,)]
    if psql is not None:
        shown = subprocess.run(
            [psql, target, "-At", "-c", SALES], capture_output=True, text=True, timeout=240
        )
        assert shown.stdout.splitlines()[0] == "GB|2|11.50", shown.stderr


def test_sql_from_the_command_line(server: ServerProcess) -> None:
    done = cli("sql", server.dsn, "-c", f"{SALES}; SELECT 1 AS one")
    assert done.returncode == 0, done.stderr
    assert "country | orders | total" in done.stdout
    assert done.stdout.endswith("one\n---\n1\n(1 row)\n")
    failed = cli("sql", server.dsn, "-c", "SELECT nonsense FROM orders")
    assert failed.returncode == 1
    assert "ERROR:" in failed.stderr
    assert "^" in failed.stderr


def test_sql_over_http(server: ServerProcess) -> None:
    query = {"query": "SELECT amount FROM orders WHERE customer = $1 ORDER BY 1", "parameters": [1]}
    answer = httpx.post(f"{server.url}/api/sql", json=query, timeout=240).json()
    assert answer["results"][0]["rows"] == [["1.00"], ["10.50"]], answer
    bad = httpx.post(
        f"{server.url}/api/sql", json={"query": "SELECT oops FROM orders"}, timeout=240
    )
    assert bad.status_code == 400
    assert bad.json()["error"]["position"] == 8


def test_metrics_of_a_view(server: ServerProcess) -> None:
    text = httpx.get(f"{server.url}/metrics", timeout=240).text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    assert float(values['waterclock_view_state_rows{view="public.sales"}']) > 0
    assert 0 <= float(values['waterclock_view_lag_milliseconds{view="public.sales"}']) < 60_000
    assert float(values["waterclock_table_commits_total"]) >= 2
    assert float(values["waterclock_tick_duration_seconds_count"]) > 0
    assert abs(float(values["waterclock_oracle_read_timestamp_milliseconds"]) / 1000 - time.time())


def test_subscribe_by_copy(server: ServerProcess) -> None:
    with server.connect() as connection:
        told = watched(connection, "COPY (SUBSCRIBE TO sales) TO STDOUT", 2)
        assert next(told)[2] in ("GB", "US")
        assert next(told)[2] in ("GB", "US")
        with pytest.raises(psycopg.errors.QueryCanceled):
            next(told)


def watched(
    connection: psycopg.Connection[Any], text: str, count: int
) -> Iterator[tuple[Any, ...]]:
    """The rows of a COPY that does not end by itself; cancelled after so many."""
    with connection.cursor() as cursor, cursor.copy(text.encode()) as copy:
        for number, row in enumerate(copy.rows(), 1):
            yield row
            if number == count:
                connection.cancel_safe(timeout=240)


def test_the_python_client(server: ServerProcess) -> None:
    with waterclock.connect(server.dsn) as connection:
        assert connection.sql("SELECT $1::int + 1", 41).rows == [(42,)]
        assert connection.sql(SALES).arrow().column_names == ["country", "orders", "total"]
        connection.sql("CREATE TABLE fed (n int, t text)")
        given = pa.table({"n": [1, 2, None], "t": ["a\tb\\", None, "é"]})
        with connection.subscribe("fed") as subscription:
            assert connection.append("fed", given) == 3
            told: list[dict[str, Any]] = []
            for changes in subscription:
                told += changes.updates.to_pylist()
                assert all(row["mz_timestamp"] < changes.upper for row in told)
                if len(told) == 3:
                    break
        assert {(row["n"], row["t"], row["mz_diff"]) for row in told} == {
            *((1, "a\tb\\", 1), (2, None, 1), (None, "é", 1)),
        }
        assert len({row["mz_timestamp"] for row in told}) == 1, "all of it at one time"
        with pytest.raises(ServerError) as failed:
            connection.sql("SELECT * FROM nowhere")
        assert failed.value.sqlstate == "42P01"


def test_a_second_server_is_kept_out(server: ServerProcess, tmp_path: Path) -> None:
    ports = ("--pg-port", str(free_port()), "--http-port", str(free_port()))
    second = cli("serve", "--data", str(server.data), *ports)
    assert second.returncode == 1
    assert "is in use by process" in second.stderr
    taken = cli("serve", "--data", str(tmp_path / "d"), "--pg-port", str(server.pg_port))
    assert taken.returncode == 1
    assert f"could not listen on 127.0.0.1:{server.pg_port}" in taken.stderr
    checked = cli("check", "--data", str(server.data))
    assert checked.returncode == 1
    assert "is in use" in checked.stderr


def test_others_need_a_password(tmp_path: Path) -> None:
    ports = ("--pg-port", str(free_port()), "--http-port", str(free_port()))
    refused = cli("serve", "--data", str(tmp_path / "data"), "--host", "0.0.0.0", *ports)
    assert refused.returncode == 1
    assert "no role has a password" in refused.stderr
    assert "ALTER ROLE" in refused.stderr


def test_the_life_of_a_server(server: ServerProcess, tmp_path: Path) -> None:
    """Stop, start, kill, start, back up, restore: the data, and a view that goes on."""
    connection = server.connect()
    assert server.stop() == 0, server.output
    with pytest.raises(psycopg.errors.AdminShutdown):
        connection.execute("SELECT 1")
    assert (cli("check", "--data", str(server.data))).returncode == 0

    server.start()
    with server.connect() as connection:
        assert rows(connection, SALES) == [("GB", 2, "11.50"), ("US", 1, "7.00")]
        connection.execute("INSERT INTO orders VALUES (2, 1)")
    live = _backed_up(server.data, tmp_path / "live")
    assert not server.complaints
    server.kill()
    checked = cli("check", "--data", str(server.data))
    assert checked.returncode == 0, checked.stdout
    at_rest = _backed_up(server.data, tmp_path / "at_rest")
    assert (at_rest / "views").exists()
    assert not (live / "views").exists(), "views are computed again"

    server.start()
    _goes_on(server)
    restored = ServerProcess(live)
    with restored:
        _goes_on(restored)
    assert not restored.complaints


def _goes_on(server: ServerProcess) -> None:
    with server.connect() as connection:
        assert rows(connection, SALES) == [("GB", 2, "11.50"), ("US", 2, "8.00")]
        connection.execute("INSERT INTO orders VALUES (1, 0.5)")
        assert rows(connection, SALES) == [("GB", 3, "12.00"), ("US", 2, "8.00")]


def _backed_up(data: Path, copy: Path) -> Path:
    """The directory after a backup and a restore, checked."""
    file = str(copy.with_suffix(".tar"))
    for words in (
        ("backup", "--data", str(data), "--to", file),
        ("restore", file, "--data", str(copy)),
        ("check", "--data", str(copy)),
    ):
        done = cli(*words)
        assert done.returncode == 0, (done.stdout, done.stderr)
    return copy


def test_a_signal_during_the_start(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data")
    process = server.spawn()
    while not (tmp_path / "data" / "log.db").exists():
        assert process.poll() is None, server.output
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(240) == 0, "before the start is complete nothing is worth waiting for"
    assert cli("check", "--data", str(server.data)).returncode == 0


def test_the_demo() -> None:
    for seconds in (5, 60, 300):  # until something has changed, which takes a slow machine longer
        done = cli("demo", "--seconds", str(seconds))
        assert done.returncode == 0, done.stderr
        assert "CREATE SOURCE house FROM LOAD GENERATOR AUCTION" in done.stdout
        _, _, watched = done.stdout.partition("SUBSCRIBE TO items")
        lines = [line.split() for line in watched.splitlines() if " +1 " in line or " -1 " in line]
        if both := {"+1", "-1"} <= {line[1] for line in lines}:
            break
    assert both, "what left the view and what came"
    assert "waterclock serve" in watched, "and how to go on"
    assert "Traceback" not in done.stderr
    assert " ERROR " not in done.stderr
