"""CREATE SOURCE ... FROM PUBNUB, from SQL to a service and back."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from waterclock.errors import WaterclockError
from waterclock.testing.adapter_world import AdapterWorld, Client, adapter_world
from waterclock.testing.pubnub import CHANNEL, KEY, PubnubService, pubnub_service

pytestmark = pytest.mark.service
FAST = "WITH (TIMESTAMP INTERVAL = '20ms')"
Test = Callable[[AdapterWorld, PubnubService], Awaitable[None]]


def with_service(test: Test) -> Callable[[Path], None]:
    """A test that is given a world and a service."""

    def run(tmp_path: Path) -> None:
        async def inside() -> None:
            with pubnub_service() as service:
                async with adapter_world(tmp_path) as world:
                    await test(world, service)

        asyncio.run(inside())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def source(service: PubnubService, more: str = "", rest: str = "FORMAT JSON") -> str:
    keys = f"SUBSCRIBE KEY '{KEY}', CHANNEL '{CHANNEL}', ORIGIN '{service.url}'{more}"
    return f"CREATE SOURCE s FROM PUBNUB ({keys}) {rest} {FAST}"


async def until(client: Client, query: str, expected: list[tuple[Any, ...]]) -> None:
    """Wait until the query has these rows, in any order."""
    await client.until(query, lambda found: sorted(found) == sorted(expected))


@pytest.mark.semantics(155, 168)
@with_service
async def test_declared_columns_over_a_restart(world: AdapterWorld, service: PubnubService) -> None:
    client = await world.connect()
    statement = source(service, rest="FORMAT JSON INCLUDE OFFSET AS timetoken, PARTITION AS region")
    await client.run(statement.replace("SOURCE s", "SOURCE s (id int NOT NULL, name text)"))
    first = service.publish({"id": 1, "name": "x"})
    second = service.publish({"id": 2})
    rows = [(1, "x", first, 4), (2, None, second, 4)]
    await until(client, "SELECT * FROM s", rows)
    [(region, timetoken)] = await client.rows("SELECT region, timetoken FROM s_progress")
    assert region == 4
    assert timetoken >= second
    names = [c.name for c in (await client.one("SELECT * FROM s_progress")).columns]
    assert names == ["mz_timestamp", "region", "timetoken"]
    kinds = "SELECT type, envelope_type, value_format FROM mz_sources WHERE name = 's'"
    assert await client.rows(kinds) == [("pubnub", "none", "json")]
    world.close()
    third = service.publish({"id": 3})
    world.open()
    client = await world.connect()
    await until(client, "SELECT * FROM s", [*rows, (3, None, third, 4)])
    shown = (await client.rows("SHOW CREATE SOURCE s"))[0][1]
    assert "FROM PUBNUB" in shown
    await client.run("DROP SOURCE s")
    assert await client.rows("SHOW SOURCES") == []


@with_service
async def test_formats_and_what_is_included(world: AdapterWorld, service: PubnubService) -> None:
    client = await world.connect()
    for name, rest in (
        ("whole", "FORMAT JSON INCLUDE TIMESTAMP AS at"),
        ("texts", "FORMAT TEXT INCLUDE HEADER 'publisher' AS who, HEADER 'type' AS kind"),
        ("bytes", "FORMAT BYTES INCLUDE HEADERS"),
        ("lines", "FORMAT CSV WITH 2 COLUMNS"),
    ):
        await client.run(source(service, rest=rest).replace("SOURCE s", f"SOURCE {name}"))
    began = time.time()
    service.publish("a,b", issuer="me", meta={"m": 1})
    service.publish("é,2", type=1)
    await until(
        client,
        "SELECT text, who, kind FROM texts",
        [("a,b", b"me", b"message"), ("é,2", b"tester", b"signal")],
    )
    await until(client, "SELECT data FROM bytes", [(b"a,b",), ("é,2".encode(),)])
    await until(client, "SELECT * FROM lines", [("a", "b"), ("é", "2")])
    await until(client, "SELECT data FROM whole", [('"a,b"',), ('"é,2"',)])
    [(at,), _] = await client.rows("SELECT at FROM whole ORDER BY at")
    assert abs(at.timestamp() - began) < 60
    headers = await client.rows("SELECT headers FROM bytes ORDER BY data")
    told = [json.loads(each) for each in headers[0][0]]
    assert {"key": "meta", "value": "\\x" + b'{"m": 1}'.hex()} in told


@with_service
async def test_envelopes(world: AdapterWorld, service: PubnubService) -> None:
    client = await world.connect()
    for name, envelope in (("updates", "MATERIALIZE"), ("changes", "DEBEZIUM")):
        made = source(service, rest=f"FORMAT JSON ENVELOPE {envelope}")
        columns = f"{name} (id int NOT NULL, n int)"
        made = made.replace("SOURCE s", f"SOURCE {columns}")
        await client.run(made.replace(f"CHANNEL '{CHANNEL}'", f"CHANNEL '{name}'"))
    update = {"updates": [{"data": {"id": 1, "n": 5}, "time": 3, "diff": 1}]}
    counts = [{"time": 3, "count": 1}]
    progress = {"progress": {"lower": [0], "upper": [4], "counts": counts}}
    service.publish(progress, channel="updates")
    service.publish(update, channel="updates")
    service.publish(update, channel="updates")
    await until(client, "SELECT id, n FROM updates", [(1, 5)])
    first, second = {"id": 1, "n": 1}, {"id": 1, "n": 2}
    service.publish({"before": None, "after": first, "op": "c"}, channel="changes")
    await until(client, "SELECT id, n FROM changes", [(1, 1)])
    service.publish({"before": first, "after": second, "op": "u"}, channel="changes")
    await until(client, "SELECT id, n FROM changes", [(1, 2)])


@with_service
async def test_a_message_that_can_not_be_read(world: AdapterWorld, service: PubnubService) -> None:
    client = await world.connect()
    await client.run(source(service).replace("SOURCE s", "SOURCE s (id int)"))
    timetoken = service.publish({"id": "x"})
    deadline = time.monotonic() + 60
    error: WaterclockError | None = None
    while error is None and time.monotonic() < deadline:
        try:
            await client.rows("SELECT * FROM s")
        except WaterclockError as found:
            error = found
    assert error is not None
    assert error.sqlstate == "22P02"
    assert f'channel "{CHANNEL}", partition 4, offset {timetoken}' in error.message


@pytest.mark.semantics(138, 139)
@with_service
async def test_recent_reads_are_refused_by_name(
    world: AdapterWorld, service: PubnubService
) -> None:
    client = await world.connect()
    await client.run(source(service))
    service.publish(1)
    await until(client, "SELECT data FROM s", [("1",)])
    await client.run("SET real_time_recency = on")
    error = await client.fails("SELECT data FROM s")
    assert error.sqlstate == "0A000"
    assert error.message == 'recent reads of source "s" are not possible'
    assert "PubNub does not tell how far a channel is" in str(error.detail)


@with_service
async def test_the_auth_key_is_a_secret(world: AdapterWorld, service: PubnubService) -> None:
    client = await world.connect()
    service.auth = "right"
    await client.run("CREATE SECRET pn AS 'wrong'")
    more = ", AUTH KEY SECRET pn"
    error = await client.fails(source(service, more))
    assert error.sqlstate == "08000"
    assert "answered with 403: Forbidden" in error.message
    await client.run("ALTER SECRET pn AS 'right'")
    await client.run(source(service, more))
    service.publish(1)
    await until(client, "SELECT data FROM s", [("1",)])
    told = [notice.message for notice in client.notices]
    assert f"the auth key is sent to {service.url} without encryption" in told
    shown = (await client.rows("SHOW CREATE SOURCE s"))[0][1]
    assert "right" not in shown
    assert "pn" in shown
    service.auth = "changed"
    status = "SELECT status FROM mz_internal.mz_source_statuses"
    service.publish(2)
    service.breaks = 1
    await until(client, status, [("stalled",)])
    await client.run("ALTER SECRET pn AS 'changed'")
    await until(client, status, [("running",)])
    await until(client, "SELECT data FROM s", [("1",), ("2",)])
    assert (await client.fails("DROP SECRET pn")).sqlstate == "2BP01"


@with_service
async def test_a_gap_without_history_is_a_warning(
    world: AdapterWorld, service: PubnubService
) -> None:
    client = await world.connect()
    await client.run(source(service, ", HISTORY = false"))
    service.publish_all(*range(150))
    await until(client, "SELECT count(*) FROM s", [(100,)])
    status = "SELECT status, error, details FROM mz_internal.mz_source_statuses"
    [(health, error, details)] = await client.rows(status)
    assert (health, error) == ("running", None)
    told = json.loads(details)
    assert told["warning"] == f'messages of channel "{CHANNEL}" may be missing'
    assert "history is not asked" in told["detail"]
    assert "message persistence" in told["hint"]
    assert service.count("/v3/history") == 0


@with_service
async def test_a_start_in_the_past(world: AdapterWorld, service: PubnubService) -> None:
    service.publish_all(*range(5))
    client = await world.connect()
    await client.run(source(service, ", START TIMESTAMP -60000, USER ID 'etl'"))
    await until(client, "SELECT data FROM s", [(str(n),) for n in range(5)])
    assert all("uuid=etl&" in request for request in service.requests)


@with_service
async def test_what_is_refused(world: AdapterWorld, service: PubnubService) -> None:
    client = await world.connect()
    here = f"ORIGIN '{service.url}'"
    both = f"SUBSCRIBE KEY '{KEY}', CHANNEL '{CHANNEL}', {here}"
    for given, rest, expected in (
        ("CHANNEL 'c'", "FORMAT JSON", ("42601", "SUBSCRIBE KEY option is required")),
        ("SUBSCRIBE KEY 'k'", "FORMAT JSON", ("42601", "CHANNEL option is required")),
        (f"{both}, TOPIC 't'", "FORMAT JSON", ("42601", 'option "topic" not recognized')),
        (both, "", ("42601", "this kind of source requires FORMAT")),
        (f"{both}, AUTH KEY 'x'", "FORMAT JSON", ("42601", "AUTH KEY must be given as a secret")),
        (
            f"{both}, HISTORY = false, START TIMESTAMP 1",
            "FORMAT JSON",
            ("42601", "START TIMESTAMP can not be given with HISTORY = false"),
        ),
        (
            both,
            "KEY FORMAT TEXT VALUE FORMAT JSON",
            ("0A000", "KEY FORMAT is not supported for PubNub, whose messages have no key"),
        ),
        (
            both,
            "FORMAT JSON ENVELOPE UPSERT",
            ("0A000", "ENVELOPE UPSERT is not supported for PubNub, whose messages have no key"),
        ),
        (both, "FORMAT JSON INCLUDE KEY", ("0A000", "INCLUDE KEY is not supported for PubNub")),
        (
            both,
            "FORMAT AVRO USING SCHEMA '{}'",
            ("0A000", "FORMAT AVRO is not supported for PubNub, whose messages are JSON"),
        ),
        (
            f"SUBSCRIBE KEY '{KEY}', CHANNEL 'a,b', {here}",
            "FORMAT JSON",
            ("22023", '"a,b" is not the name of one channel'),
        ),
        (
            f"SUBSCRIBE KEY '{KEY}', CHANNEL 'a.*', {here}",
            "FORMAT JSON",
            ("22023", "channels can not be named by a pattern"),
        ),
        (
            f"SUBSCRIBE KEY '{KEY}', CHANNEL '{CHANNEL}', ORIGIN 'ftp://x'",
            "FORMAT JSON",
            ("22023", '"ftp://x" is not an origin'),
        ),
    ):
        error = await client.fails(f"CREATE SOURCE s FROM PUBNUB ({given}) {rest}")
        assert (error.sqlstate, error.message) == expected
    error = await client.fails(
        f"CREATE SOURCE s FROM PUBNUB (SUBSCRIBE KEY 'k', CHANNEL 'c', {here}) FORMAT JSON"
    )
    assert "answered with 400: Invalid Subscribe Key" in error.message
    assert error.hint == "Check SUBSCRIBE KEY and CHANNEL."
    assert await client.rows("SHOW SOURCES") == []
