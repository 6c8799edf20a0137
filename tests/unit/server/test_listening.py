"""Where the server may listen."""

from __future__ import annotations

import socket

import pytest

from waterclock.server.banner import banner, psql_line
from waterclock.server.configuration import Configuration
from waterclock.server.listening import (
    CannotListen,
    NoPassword,
    listen,
    port_of,
    reachable,
    require_password,
)


def test_a_client_may_come_before_anybody_accepts() -> None:
    with listen("127.0.0.1", 0, "--pg-port") as listening:
        socket.create_connection(("127.0.0.1", port_of(listening)), timeout=5).close()


def test_a_port_that_is_taken_is_told_with_the_flag() -> None:
    with (
        listen("127.0.0.1", 0, "--pg-port") as taken,
        pytest.raises(CannotListen, match=r"could not listen on 127\.0\.0\.1:") as told,
    ):
        listen("127.0.0.1", port_of(taken), "--pg-port")
    assert told.value.hint is not None
    assert "--pg-port" in told.value.hint


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(CannotListen):
        listen("192.0.2.1", 0, "--pg-port")
    with pytest.raises(CannotListen, match="could not resolve"):
        listen("no such host", 0, "--pg-port")


def test_others_are_served_only_if_somebody_has_a_password() -> None:
    require_password("127.0.0.1", has_password=False)
    require_password("0.0.0.0", has_password=True)
    with pytest.raises(NoPassword) as told:
        require_password("0.0.0.0", has_password=False)
    assert "ALTER ROLE" in str(told.value.hint)


def test_the_banner_has_a_line_that_connects() -> None:
    everywhere = Configuration(host="0.0.0.0", tls=True)
    assert psql_line(everywhere, 1234) == (
        'psql "host=127.0.0.1 port=1234 user=waterclock dbname=waterclock sslmode=require"'
    )
    shown = banner(Configuration(host="::1"), 1234, 5678, 2.0)
    assert psql_line(Configuration(host="::1"), 1234) in shown
    assert "http://[::1]:5678/ready" in shown
    assert reachable("::") == "::1"
