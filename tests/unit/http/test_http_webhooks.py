"""POST to webhook sources over HTTP: paths, statuses, and who is let in."""

from __future__ import annotations

import asyncio
import base64
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from waterclock.adapter.credentials import make_verifier
from waterclock.http.app import Api
from waterclock.http.metrics import Metrics, ServerFacts
from waterclock.server.texts import PgTexts
from waterclock.testing.adapter_world import AdapterWorld, adapter_world
from waterclock.testing.fake_adapter import FakeAuthenticator

PATH = "/api/webhook/waterclock/public/"
Test = Callable[[AdapterWorld, httpx.AsyncClient], Awaitable[None]]


@pytest.fixture(params=[None, "swordfish"], ids=["no password", "password"])
def password(request: pytest.FixtureRequest) -> str | None:
    answer: str | None = request.param
    return answer


def in_server(folder: Path, test: Test, password: str | None = None) -> None:
    """Run a test in a world with a client of its HTTP API."""

    async def inside() -> None:
        async with adapter_world(folder) as world:
            verifiers = (
                {} if password is None else {"waterclock": make_verifier(password, b"s" * 16)}
            )
            api = Api(
                lambda: world.front,
                FakeAuthenticator(verifiers),
                lambda: None,
                Metrics(lambda: ServerFacts(True, 0, (), 0, 0, 0)),
                PgTexts(),
                webhooks=lambda: world.front.webhooks,
            )
            transport = httpx.ASGITransport(api.app())
            base = "http://127.0.0.1:6876"
            async with httpx.AsyncClient(transport=transport, base_url=base) as client:
                await test(world, client)

    asyncio.run(inside())


def test_a_checked_source_needs_no_role(tmp_path: Path, password: str | None) -> None:
    async def test(world: AdapterWorld, client: httpx.AsyncClient) -> None:
        sql = await world.connect()
        await sql.run("CREATE SECRET k AS 'key'")
        await sql.run(
            "CREATE SOURCE s FROM WEBHOOK BODY FORMAT JSON INCLUDE HEADER 'x-n' AS n"
            " CHECK (HMAC 'sha256', KEY SECRET k, HEADER 'X-Signature')"
        )
        body = b'{"a": 1}'
        proof = {"X-Signature": hmac.new(b"key", body, "sha256").hexdigest()}
        headers = [*proof.items(), ("X-N", "1"), ("X-N", "2"), ("Origin", "https://elsewhere")]
        answer = await client.post(PATH + "s", content=body, headers=headers)
        assert (answer.status_code, answer.json()) == (200, {"rows": 1})
        assert await sql.rows("SELECT body, n FROM s") == [('{"a": 1}', "1, 2")]
        refused = await client.post(PATH + "s", content=body + b" ", headers=headers)
        assert refused.status_code == 403
        assert refused.json()["error"]["detail"] == "the signature is wrong"
        bad = {"X-Signature": hmac.new(b"key", b"{", "sha256").hexdigest()}
        refused = await client.post(PATH + "s", content=b"{", headers=bad)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "22P02")
        assert len(await sql.rows("SELECT n FROM s")) == 1

    in_server(tmp_path, test, password)


def test_a_source_without_a_check_asks_for_a_role(tmp_path: Path, password: str | None) -> None:
    async def test(world: AdapterWorld, client: httpx.AsyncClient) -> None:
        sql = await world.connect()
        await sql.run("CREATE SOURCE s FROM WEBHOOK BODY FORMAT TEXT")
        basic = base64.b64encode(b"waterclock:swordfish").decode()
        known = {} if password is None else {"Authorization": f"Basic {basic}"}
        assert (await client.post(PATH + "s", content="x", headers=known)).status_code == 200
        strangers = {} if password else {"Origin": "https://elsewhere"}
        refused = await client.post(PATH + "s", content="x", headers=strangers)
        assert refused.status_code == (401 if password else 403)
        assert await sql.rows("SELECT body FROM s") == [("x",)]

    in_server(tmp_path, test, password)


def test_what_is_not_there_and_what_is_too_large(tmp_path: Path) -> None:
    async def test(world: AdapterWorld, client: httpx.AsyncClient) -> None:
        sql = await world.connect()
        await sql.run("CREATE SOURCE s FROM WEBHOOK BODY FORMAT TEXT; CREATE TABLE t (a int)")
        for name in ("t", "nothing", "s/more"):
            assert (await client.post(PATH + name, content="x")).status_code == 404
        assert (await client.get(PATH + "s")).status_code == 405
        largest = world.front.webhooks.largest_body
        told = await client.post(PATH + "s", content="x", headers={"content-length": str(2**62)})
        assert told.status_code == 413

        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(largest // 65536 + 1):
                yield b"x" * 65536

        assert (await client.post(PATH + "s", content=chunks())).status_code == 413
        answer: Any = await client.post(PATH + "s", content="x" * largest)
        assert answer.status_code == 200

    in_server(tmp_path, test)
