"""Webhook sources, from CREATE SOURCE to the rows of a request, without a network."""

from __future__ import annotations

import asyncio
import gzip
import hmac
import json
from decimal import Decimal
from typing import Any

import pytest

from waterclock.adapter.webhooks.receiving import (
    Address,
    CheckFailed,
    Request,
    TooManyRequests,
    UnknownWebhook,
)
from waterclock.adapter.webhooks.rows import BadPayload
from waterclock.catalog.errors import PermissionDenied
from waterclock.errors import WaterclockError
from waterclock.testing.adapter_world import AdapterWorld, in_world

SIGNED = (
    "CREATE SOURCE s FROM WEBHOOK BODY FORMAT JSON INCLUDE HEADERS, HEADER 'X-Event' AS event"
    " CHECK (HMAC 'sha256', KEY SECRET k, HEADER 'X-Signature')"
)


async def post(
    world: AdapterWorld,
    body: bytes | str,
    headers: dict[str, str] | None = None,
    *,
    source: str = "s",
    role: str = "waterclock",
    client: str | None = None,
) -> int:
    """Post a body as a server does with a request, and return how many rows there were."""

    async def read() -> bytes:
        return body.encode() if isinstance(body, str) else body

    async def prove() -> str:
        return role

    address = Address("waterclock", "public", source)
    return await world.front.webhooks.receive(address, Request(headers or {}, client, read, prove))


async def refused(world: AdapterWorld, *args: Any, **options: Any) -> WaterclockError:
    with pytest.raises(WaterclockError) as caught:
        await post(world, *args, **options)
    return caught.value


def signature(secret: str, body: str) -> dict[str, str]:
    return {"x-signature": hmac.new(secret.encode(), body.encode(), "sha256").hexdigest()}


@pytest.mark.semantics(156)
@in_world
async def test_what_was_answered_is_there_for_the_next_read(world: AdapterWorld) -> None:
    client = await world.connect()
    assert await client.tag("CREATE SOURCE s FROM WEBHOOK BODY FORMAT JSON") == "CREATE SOURCE"
    for number in range(20):
        assert await post(world, json.dumps({"n": number})) == 1
        found = await client.rows("SELECT body FROM s")
        assert len(found) == number + 1
        assert (f'{{"n": {number}}}',) in found
    relations = "SELECT name FROM mz_objects WHERE id LIKE 'u%' AND name LIKE 's%'"
    assert await client.rows(relations) == [("s",)], "it is one collection, without a progress"


@in_world
async def test_a_signed_request_with_headers(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE SECRET k AS 'swordfish'")
    await client.run(SIGNED)
    body = '{"b": 1, "a": [1.50]}'
    headers = {**signature("swordfish", body), "x-event": "push", "authorization": "Basic eA=="}
    await post(world, body, headers)
    [(shown, all_headers, event)] = await client.rows("SELECT body, headers, event FROM s")
    assert (shown, event) == ('{"a": [1.50], "b": 1}', "push")
    assert json.loads(all_headers) == {k: v for k, v in headers.items() if k != "authorization"}
    error = await refused(world, body + " ", headers)
    assert isinstance(error, CheckFailed)
    assert error.detail == "the signature is wrong"
    assert "swordfish" not in str(error)
    assert len(await client.rows("SELECT event FROM s")) == 1


@in_world
async def test_a_secret_that_is_altered_counts_at_once(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE SECRET k AS 'old'")
    await client.run(SIGNED)
    await post(world, "1", signature("old", "1"))
    await client.run("ALTER SECRET k AS 'new'")
    assert isinstance(await refused(world, "1", signature("old", "1")), CheckFailed)
    await post(world, "1", signature("new", "1"))
    error = await client.fails("DROP SECRET k")
    assert error.sqlstate == "2BP01"
    [(listed,)] = await client.rows("SELECT connection_id FROM mz_sources WHERE name = 's'")
    assert listed is None, "a secret is no connection"


@in_world
async def test_declared_columns(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run(
        "CREATE SOURCE s (id int NOT NULL, at timestamptz, amount numeric(10,2))"
        " FROM WEBHOOK BODY FORMAT JSON"
    )
    await post(world, '{"id": 1, "at": "2026-01-01T00:00:00Z", "amount": 1.005, "other": true}')
    assert await client.rows("SELECT id, amount FROM s") == [(1, Decimal("1.01"))]
    error = await refused(world, '{"at": null}')
    assert isinstance(error, BadPayload)
    assert "required field `id`" in error.message
    assert isinstance(await refused(world, '{"id": "1"}'), BadPayload)
    assert len(await client.rows("SELECT id FROM s")) == 1


@in_world
async def test_batches_are_taken_whole_or_not_at_all(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE SOURCE s FROM WEBHOOK BODY FORMAT JSON")
    await client.run("CREATE SOURCE t FROM WEBHOOK BODY FORMAT JSON ARRAY")
    lines = {"content-type": "application/x-ndjson; charset=utf-8"}
    assert await post(world, '{"n": 1}\n\n{"n": 2}\r\n3', lines) == 3
    error = await refused(world, '{"n": 1}\n{"n": \n3', lines)
    assert "row 2" in error.message
    assert await post(world, '[{"n": 1}, [2], "x"]', source="t") == 3
    assert await post(world, ' {"n": 1}', source="t") == 1
    assert await post(world, "[]", source="t") == 0
    assert isinstance(await refused(world, '[{"n": 1}, ', source="t"), BadPayload)
    assert isinstance(await refused(world, "[" * 100_000, source="t"), BadPayload)
    assert isinstance(await refused(world, b'["\xff"]', source="t"), BadPayload)
    assert await client.rows("SELECT count(*) FROM s") == [(3,)]
    found = await client.rows("SELECT body FROM t")
    assert sorted(found) == [('"x"',), ("[2]",), ('{"n": 1}',), ('{"n": 1}',)]


@in_world
async def test_a_large_body_is_decoded_as_a_small_one(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE SOURCE s (n int) FROM WEBHOOK BODY FORMAT JSON ARRAY")
    body = json.dumps([{"n": number} for number in range(20_000)])
    assert await post(world, body) == 20_000
    assert len(set(await client.rows("SELECT n FROM s"))) == 20_000


@in_world
async def test_bodies_of_text_and_bytes(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE SOURCE s FROM WEBHOOK BODY FORMAT TEXT")
    await client.run("CREATE SOURCE t FROM WEBHOOK BODY FORMAT BYTES")
    await post(world, "two\nlines")
    assert isinstance(await refused(world, b"\xff"), BadPayload)
    packed = gzip.compress(b"x")
    await post(world, packed, source="t")
    assert await client.rows("SELECT body FROM s") == [("two\nlines",)]
    assert await client.rows("SELECT body FROM t") == [(packed,)]


@in_world
async def test_without_a_check_a_role_needs_the_right_to_insert(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE SOURCE s FROM WEBHOOK BODY FORMAT TEXT")
    await client.run("CREATE ROLE sender LOGIN")
    assert isinstance(await refused(world, "x", role="sender"), PermissionDenied)
    await client.run("GRANT INSERT ON s TO sender")
    assert await post(world, "x", role="sender") == 1
    error = await client.fails("INSERT INTO s VALUES ('y')")
    assert error.sqlstate == "42809"


@in_world
async def test_what_is_no_webhook_is_not_there(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int)")
    for name in ("t", "nothing", "pg_class"):
        assert isinstance(await refused(world, "x", source=name), UnknownWebhook)
    address = Address("other", "public", "t")
    never = Request({}, None, lambda: asyncio.sleep(0, b""), lambda: asyncio.sleep(0, ""))
    with pytest.raises(UnknownWebhook):
        await world.front.webhooks.receive(address, never)


@in_world
async def test_a_dropped_source_takes_nothing(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE SOURCE s FROM WEBHOOK BODY FORMAT TEXT")
    await post(world, "x")
    await client.run("CREATE TABLE other (a int); DROP SOURCE s")
    assert isinstance(await refused(world, "x"), UnknownWebhook)
    await client.run("INSERT INTO other VALUES (1)")
    await client.run("CREATE SOURCE s FROM WEBHOOK BODY FORMAT JSON")
    await post(world, "2")
    assert await client.rows("SELECT body FROM s") == [("2",)]


@in_world
async def test_rows_are_there_after_a_restart_and_more_can_come(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE SOURCE s FROM WEBHOOK BODY FORMAT TEXT")
    await post(world, "before")
    await asyncio.to_thread(world.close)
    world.open()
    await post(world, "after")
    client = await world.connect()
    assert sorted(await client.rows("SELECT body FROM s")) == [("after",), ("before",)]
    status = "SELECT name, type, status FROM mz_internal.mz_source_statuses"
    assert await client.rows(status) == [("s", "webhook", "running")]


@in_world
async def test_what_was_received_is_counted(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE SOURCE s FROM WEBHOOK BODY FORMAT JSON ARRAY")
    await post(world, "[1, 2]")
    await refused(world, "[1, 2")
    counted = (
        "SELECT messages_received, bytes_received, updates_committed"
        " FROM mz_internal.mz_source_statistics"
    )
    assert await client.rows(counted) == [(2, 6, 2)]


@in_world
async def test_the_same_time_has_room_for_so_many(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE SOURCE s FROM WEBHOOK BODY FORMAT TEXT")
    limit = world.core.budgets.webhook_requests
    sent = asyncio.Event()

    async def slow() -> bytes:
        await sent.wait()
        return b"x"

    async def role() -> str:
        return "waterclock"

    async def receive(client: str | None) -> int:
        address = Address("waterclock", "public", "s")
        return await world.front.webhooks.receive(address, Request({}, client, slow, role))

    of_one = limit // 4
    strangers = [asyncio.ensure_future(receive("192.0.2.1")) for _ in range(of_one)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequests):
        await receive("192.0.2.1")
    others = [asyncio.ensure_future(receive("127.0.0.1")) for _ in range(limit - of_one)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequests):
        await receive("192.0.2.2")
    sent.set()
    assert sum(await asyncio.gather(*strangers, *others)) == limit
    assert await receive("192.0.2.1") == 1, "their places are free again"


@in_world
async def test_a_change_to_a_webhook_source_refuses_what_depends_on_it(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE SOURCE s FROM WEBHOOK BODY FORMAT TEXT; CREATE TABLE t (a text)")
    await client.run("BEGIN")
    assert await client.rows("SELECT body FROM s") == []
    await client.run("INSERT INTO t VALUES ('nothing was there')")
    await post(world, "x")
    error = await client.fails("COMMIT")
    assert error.sqlstate == "40001"


@in_world
async def test_show_create_source(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE SECRET k AS 'x'")
    await client.run(SIGNED)
    [(_, shown)] = await client.rows("SHOW CREATE SOURCE s")
    assert shown == (
        "CREATE SOURCE waterclock.public.s FROM WEBHOOK BODY FORMAT JSON INCLUDE HEADERS,"
        " HEADER 'X-Event' AS event CHECK (HMAC = 'sha256', KEY = SECRET waterclock.public.k,"
        " HEADER = 'X-Signature')"
    )


@pytest.mark.parametrize(
    ("rest", "sqlstate", "message"),
    [
        ("JSON CHECK (HMAC 'md5', KEY SECRET k, HEADER 'h')", "42601", 'HMAC "md5" is not known'),
        ("JSON CHECK (HMAC 'sha256', HEADER 'h')", "42601", "CHECK requires KEY"),
        ("JSON CHECK (HMAC 'sha256', KEY SECRET k)", "42601", "CHECK requires HEADER"),
        ("JSON CHECK (HMAC 'sha256', KEY 'k', HEADER 'h')", "42601", "must be given as a secret"),
        ("JSON CHECK (TOKEN SECRET k)", "42601", "CHECK requires HEADER"),
        ("JSON CHECK (TOKEN SECRET gone, HEADER 'h')", "42704", "does not exist"),
        ("JSON CHECK (TOKEN SECRET k, HEADER 'h', ENCODING 'hex')", "42601", "not recognized"),
        (
            "JSON CHECK (HMAC 'sha256', KEY SECRET k, HEADER 'h', MESSAGE '{header h}')",
            *("42601", "MESSAGE must contain {body}"),
        ),
        (
            "JSON CHECK (HMAC 'sha256', KEY SECRET k, HEADER 'h', MESSAGE '{body}{')",
            *("42601", "MESSAGE can not be used"),
        ),
        (
            "JSON CHECK (HMAC 'sha256', KEY SECRET k, HEADER 'h', TOLERANCE '1s')",
            *("42601", "TOLERANCE requires TIMESTAMP"),
        ),
        ("PARQUET", "0A000", "a body can not have this format"),
        ("CSV WITH 2 COLUMNS", "0A000", "a body can not have this format"),
        ("JSON INCLUDE KEY", "0A000", "INCLUDE KEY"),
        ("JSON INCLUDE HEADER 'h'", "42601", "requires a name"),
        ("JSON ENVELOPE UPSERT", "0A000", "ENVELOPE"),
        ("JSON FORMAT TEXT", "0A000", "FORMAT"),
        ("JSON EXPOSE PROGRESS AS p", "0A000", "no progress"),
        ("JSON WITH (TIMESTAMP INTERVAL '1s')", "42601", "not recognized"),
        ("JSON INCLUDE HEADERS AS body", "42701", "body"),
    ],
)
def test_what_can_not_be(tmp_path: Any, rest: str, sqlstate: str, message: str) -> None:
    @in_world
    async def ask(world: AdapterWorld) -> None:
        client = await world.connect()
        await client.run("CREATE SECRET k AS 'x'")
        error = await client.fails(f"CREATE SOURCE s FROM WEBHOOK BODY FORMAT {rest}")
        assert (error.sqlstate, message in error.message) == (sqlstate, True), str(error)

    ask(tmp_path)
