"""The small shell at a terminal: several lines, commands, errors, Ctrl-C."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from waterclock.testing.adapter_world import AdapterWorld
from waterclock.testing.pg_endpoint import PgEndpoint

pytestmark = pytest.mark.service
SECONDS = 300.0
RUNNING = "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep(200)%'"


class Terminal:
    """A program at a terminal of its own."""

    def __init__(self, *command: str, home: Path) -> None:
        self._side, other = pty.openpty()
        environment = {**os.environ, "HOME": str(home), "TERM": "dumb"}
        self._process = subprocess.Popen(
            command, stdin=other, stdout=other, stderr=other, env=environment, process_group=0
        )
        os.close(other)
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._side, text.encode())

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def until(self, text: str) -> str:
        """What comes, up to and with the text."""
        end = time.monotonic() + SECONDS
        while text not in self._seen:
            ready, _, _ = select.select([self._side], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{text!r} did not come: {self._seen!r}"
            self._seen += os.read(self._side, 4096).decode(errors="replace")
        found, _, self._seen = self._seen.partition(text)
        return (found + text).replace("\r\n", "\n")

    def until_it_waits(self) -> None:
        """Wait until the program has shown a prompt, and sleeps until a key is pressed."""
        end = time.monotonic() + SECONDS
        status = Path(f"/proc/{self._process.pid}/stat")
        while status.read_text().rpartition(")")[2].split()[0] != "S":
            assert time.monotonic() < end, "it is busy"
            time.sleep(0.01)

    def end(self) -> int:
        code = self._process.wait(SECONDS)
        os.close(self._side)
        return code

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[PgEndpoint]:
    world = AdapterWorld(tmp_path / "world")
    with PgEndpoint(world.front, world.front) as server:
        yield server
    world.close()


def until_it_runs(dsn: str) -> None:
    end = time.monotonic() + SECONDS
    with psycopg.connect(dsn, autocommit=True) as connection:
        own = connection.info.backend_pid
        while not [row for row in connection.execute(RUNNING).fetchall() if row[0] != own]:
            assert time.monotonic() < end, "the statement does not run"
            time.sleep(0.01)


def test_a_conversation(endpoint: PgEndpoint, tmp_path: Path) -> None:
    dsn = f"host=127.0.0.1 port={endpoint.port} user=waterclock dbname=waterclock"
    program = (sys.executable, "-m", "waterclock.server.cli", "sql", "--plain", dsn)
    terminal = Terminal(*program, home=tmp_path)
    try:
        terminal.until("waterclock=> ")
        terminal.type("CREATE TABLE t (a int,\n")
        terminal.until("waterclock-> ")
        terminal.type("b text);\n")
        assert "CREATE TABLE" in terminal.until("waterclock=> ")
        terminal.type("INSERT INTO t VALUES (1, 'one;'); SELECT a, b FROM t;\n")
        assert "a | b\n--+-----\n1 | one;\n(1 row)\n" in terminal.until("waterclock=> ")
        terminal.type("\\dt\n")
        assert "\nt " in terminal.until("waterclock=> ")
        terminal.type("\\d t\n")
        assert "integer" in terminal.until("waterclock=> ")
        terminal.type("SELECT oops FROM t;\n")
        told = terminal.until("waterclock=> ")
        assert 'ERROR:  column "oops" does not exist' in told
        assert "^" in told
        terminal.type("SELECT pg_sleep(200);\n")
        until_it_runs(dsn)
        terminal.interrupt()
        assert "canc" in terminal.until("waterclock=> ")
        terminal.type("SELECT a + 1 AS two FROM t WHERE\n")
        terminal.until("waterclock-> ")
        terminal.until_it_waits()
        terminal.interrupt()
        terminal.until("waterclock=> ")
        terminal.type("SELECT b FROM t;\n")
        assert "one;" in terminal.until("waterclock=> ")
        terminal.type("\\q\n")
        assert terminal.end() == 0
    finally:
        terminal.kill()
    assert "INSERT INTO t" in (tmp_path / ".waterclock_history").read_text()
