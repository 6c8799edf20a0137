"""Who is let in and what he may do, through a whole server: TLS, passwords, privileges.

Clients on the loopback interface need no password, so the tests come from this machine's other
address, if it has one.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import asyncpg
import httpx
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from waterclock.adapter.api import Startup
from waterclock.adapter.coordinator import Coordinator, Pace
from waterclock.adapter.front import SqlFront
from waterclock.compute.engine import Engine
from waterclock.pgwire.tls import make_certificate
from waterclock.server.data import Data
from waterclock.testing.adapter_world import Client, NoEngine
from waterclock.testing.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.service, pytest.mark.timeout(1800)]

PASSWORD = "correct horse ½"
SET_UP = f"""
    ALTER ROLE waterclock PASSWORD '{PASSWORD}';
    CREATE ROLE ann LOGIN PASSWORD 'of ann';
    CREATE ROLE nobody LOGIN;
    CREATE TABLE open_to_ann (a int);
    INSERT INTO open_to_ann VALUES (1);
    CREATE TABLE closed (a int);
    GRANT SELECT ON open_to_ann TO ann
"""


def own_address() -> str:
    """An address of this machine that is not the loopback's. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            address = str(probe.getsockname()[0])
        except OSError:
            address = "127.0.0.1"
    if address.startswith("127."):
        pytest.skip("this machine has no address but the loopback's")
    return address


def prepare(path: Path) -> None:
    """Run statements on a data directory without a server: nothing here needs Spark."""

    async def run(core: Coordinator) -> None:
        startup = Startup("waterclock", "waterclock", {}, None, 1)
        session = await SqlFront(core).connect(startup, lambda _: None)
        await Client(session, []).run(SET_UP)

    data = Data(path)
    none = cast(Any, NoEngine())
    core = Coordinator(
        data.storage, data.store, None, path, Pace(), engine=lambda *_: Engine(none, none)
    )
    asyncio.run(run(core))
    core.close()
    data.close()


@dataclass
class Secured:
    server: ServerProcess
    certificate: Path
    address: str

    def dsn(self, user: str, password: str, **more: str) -> str:
        told = {"sslmode": "verify-ca", "sslrootcert": str(self.certificate), **more}
        return make_conninfo(
            self.server.dsn, host=self.address, user=user, password=password, **told
        )

    def post(self, user: str, password: str, query: str) -> httpx.Response:
        context = ssl.create_default_context(cafile=str(self.certificate))
        context.check_hostname = False
        url = f"https://{self.address}:{self.server.http_port}/api/sql"
        return httpx.post(
            url, json={"query": query}, auth=(user, password), verify=context, timeout=240
        )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    address = own_address()
    certificate, key = folder / "given.crt", folder / "given.key"
    for path, pem in zip(
        (certificate, key), make_certificate("localhost", datetime.now(UTC)), strict=True
    ):
        path.write_bytes(pem)
    key.chmod(0o600)
    prepare(folder / "data")
    flags = ("--host", "0.0.0.0", "--tls-cert", str(certificate), "--tls-key", str(key))
    with ServerProcess(folder / "data", *flags) as server:
        yield Secured(server, certificate, address)


def test_a_password_bound_to_the_channel(secured: Secured) -> None:
    bound = secured.dsn("waterclock", PASSWORD, channel_binding="require")
    with psycopg.connect(bound) as connection:
        assert connection.pgconn.ssl_in_use
        assert connection.execute("SELECT current_user").fetchone() == ("waterclock",)
    unbound = secured.dsn("ann", "of ann", channel_binding="disable")
    with psycopg.connect(unbound) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("ann",)


@pytest.mark.parametrize(
    ("user", "password"),
    [("waterclock", "wrong"), ("nobody", "anything"), ("stranger", "of ann"), ("ann", "")],
)
def test_who_is_kept_out(secured: Secured, user: str, password: str) -> None:
    with pytest.raises(psycopg.OperationalError) as refused:
        psycopg.connect(secured.dsn(user, password), connect_timeout=240)
    if password:
        assert f'password authentication failed for user "{user}"' in str(refused.value)
    assert secured.post(user, password, "SELECT 1").status_code == 401


def test_tls_from_the_first_byte(secured: Secured) -> None:
    async def ask() -> str:
        context = ssl.create_default_context(cafile=str(secured.certificate))
        context.check_hostname = False
        context.set_alpn_protocols(["postgresql"])
        connection = await asyncpg.connect(
            host=secured.address,
            port=secured.server.pg_port,
            user="ann",
            password="of ann",
            database="waterclock",
            ssl=context,
            direct_tls=True,
        )
        try:
            return str(await connection.fetchval("SELECT current_user"))
        finally:
            await connection.close()

    assert asyncio.run(ask()) == "ann"


def test_without_tls_the_password_still_counts(secured: Secured) -> None:
    plain = secured.dsn("ann", "of ann", sslmode="disable")
    with psycopg.connect(plain) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(secured.dsn("ann", "wrong", sslmode="disable"))


def test_privileges_hold_in_both_protocols(secured: Secured) -> None:
    allowed = "SELECT a FROM open_to_ann"
    refused = (
        "SELECT * FROM closed",
        "INSERT INTO open_to_ann VALUES (2)",
        "UPDATE open_to_ann SET a = 2",
        "DELETE FROM open_to_ann",
        "COPY closed TO STDOUT",
        "SUBSCRIBE TO closed",
        "CREATE TABLE mine (a int)",
        "DROP TABLE open_to_ann",
        "GRANT SELECT ON closed TO ann",
        "ALTER ROLE ann SUPERUSER",
    )
    with psycopg.connect(secured.dsn("ann", "of ann"), autocommit=True) as connection:
        assert connection.execute(allowed).fetchall() == [(1,)]
        for text in refused:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(text.encode())
    assert secured.post("ann", "of ann", allowed).json()["results"][0]["rows"] == [[1]]
    for text in refused:
        answer = secured.post("ann", "of ann", text)
        assert answer.json()["error"]["code"] == "42501", (text, answer.text)

    with psycopg.connect(secured.dsn("waterclock", PASSWORD), autocommit=True) as owner:
        owner.execute("REVOKE SELECT ON open_to_ann FROM ann")
        answer = secured.post("ann", "of ann", allowed)
        assert answer.json()["error"]["code"] == "42501", "at once"
        owner.execute("GRANT SELECT ON open_to_ann TO ann")
    assert secured.post("ann", "of ann", allowed).status_code == 200


def test_a_certificate_that_the_server_makes(tmp_path: Path) -> None:
    """HTTP answers about health before Spark is there, by the same certificate."""
    server = ServerProcess(tmp_path / "data", "--tls")
    process = server.spawn()
    try:
        deadline = time.monotonic() + 400
        while not server.answers("/health"):
            assert process.poll() is None, server.output
            assert time.monotonic() < deadline
            time.sleep(0.05)
        made = (tmp_path / "data" / "tls" / "server.crt").read_text()
        shown = ssl.get_server_certificate(("127.0.0.1", server.http_port))
        assert shown.split() == made.split()
        key = tmp_path / "data" / "tls" / "server.key"
        assert key.stat().st_mode & 0o077 == 0, "only the owner reads the key"
    finally:
        server.kill()
