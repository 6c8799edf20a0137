"""What a client may take of a real server: connections, and results that are not read."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from waterclock.testing.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.service, pytest.mark.timeout(900)]

LIMITS = (
    *("--max-connections", "40", "--max-connections-per-address", "30"),
    *("--max-unauthenticated-connections", "20"),
    *("--max-unauthenticated-connections-per-address", "15"),
    *("--authentication-timeout", "60000"),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("limits")
    with ServerProcess(folder / "data", *LIMITS) as running:
        yield running


def connect(server: ServerProcess, **more: str) -> psycopg.Connection:
    return psycopg.connect(make_conninfo(server.dsn, **more), autocommit=True)


def memory(server: ServerProcess) -> int:
    """The bytes of the server's own memory that are not backed by files."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    [line] = [each for each in status.splitlines() if each.startswith("RssAnon:")]
    return int(line.split()[1]) * 1024


def raw(server: ServerProcess, query: str) -> socket.socket:
    """A client that asks and then does not read."""
    client = socket.create_connection(("127.0.0.1", server.pg_port))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    parameters = b"user\0waterclock\0database\0waterclock\0\0"
    client.sendall(struct.pack(">II", len(parameters) + 8, 196608) + parameters)
    text = query.encode() + b"\0"
    client.sendall(b"Q" + struct.pack(">I", len(text) + 4) + text)
    return client


def test_silent_sockets_keep_nobody_out(server: ServerProcess) -> None:
    with ExitStack() as stack:
        for port in (server.pg_port, server.http_port):
            for _ in range(150):
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        began = time.monotonic()
        with connect(server) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert httpx.get(f"{server.url}/ready", timeout=60).status_code == 200
        assert time.monotonic() - began < 30


def test_sessions_are_limited_by_address_with_a_hint(server: ServerProcess) -> None:
    with ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(connect(server))
        with pytest.raises(psycopg.OperationalError, match="too many clients from this address"):
            connect(server)
    with connect(server) as connection:
        assert connection.execute("SHOW max_connections").fetchone() == ("40",)


def test_a_result_that_is_never_read_takes_no_memory(server: ServerProcess) -> None:
    with connect(server) as connection:
        connection.execute("SELECT count(*) FROM generate_series(1, 1000)")
        before = memory(server)
        large = "SELECT n, repeat('x', 1000) FROM generate_series(1, 200000) AS s(n)"
        clients = [raw(server, large) for _ in range(2)]
        while connection.execute("SELECT count(*) FROM pg_stat_activity").fetchone() != (3,):
            time.sleep(0.05)
        deadline = time.monotonic() + 120
        for client in clients:
            client.settimeout(120)
            data = b""
            while b"D\x00\x00" not in data and time.monotonic() < deadline:
                data += client.recv(1024)  # the first rows have come, so all are there
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert memory(server) - before < 150 << 20, "two results of 200 MB each"
        for client in clients:
            client.close()
