"""Many clients at once, over real sockets: silent ones, wrong passwords, too many sessions."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack

import psycopg
import pytest

from waterclock.adapter.credentials import make_verifier
from waterclock.pgwire.limits import Limits
from waterclock.testing.fake_adapter import FakeAuthenticator, FakeFront
from waterclock.testing.pg_endpoint import PgEndpoint

LIMITS = Limits(
    connections=8,
    connections_of_address=6,
    connecting=20,
    connecting_of_address=15,
    authentication_s=60.0,
)
KNOWN = FakeAuthenticator({"waterclock": make_verifier("right", b"0123456789abcdef")})


def connect(endpoint: PgEndpoint, password: str = "right") -> psycopg.Connection:
    return psycopg.connect(
        host="127.0.0.1",
        port=endpoint.port,
        user="waterclock",
        password=password,
        dbname="waterclock",
        sslmode="disable",
        connect_timeout=60,
        autocommit=True,
    )


def test_silent_sockets_keep_nobody_out() -> None:
    with PgEndpoint(FakeFront(), KNOWN, limits=LIMITS) as endpoint, ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", endpoint.port)))
            for _ in range(300)
        ]
        stack.enter_context(connect(endpoint))
        silent[0].settimeout(30)
        told = silent[0].recv(4096)
        assert b"C53300\0" in told
        assert b"max_unauthenticated_connections" in told
        assert silent[0].recv(1) == b""


def test_sessions_of_one_address_are_limited() -> None:
    with PgEndpoint(FakeFront(), KNOWN, limits=LIMITS) as endpoint, ExitStack() as stack:
        for _ in range(6):
            stack.enter_context(connect(endpoint))
        with pytest.raises(psycopg.OperationalError, match="max_connections_per_address"):
            connect(endpoint)
        stack.close()
        connect(endpoint).close()


def test_wrong_passwords_are_slowed_down_and_the_right_one_is_let_in() -> None:
    with PgEndpoint(FakeFront(), KNOWN, limits=LIMITS) as endpoint:
        began = time.monotonic()
        for _ in range(4):
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                connect(endpoint, "wrong")
        assert time.monotonic() - began >= 0.25 + 0.5 + 1.0
        connect(endpoint).close()
