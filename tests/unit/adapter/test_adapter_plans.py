"""Queries that come again: what is kept of them is never wrong, and costs are not paid twice."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pyarrow as pa
import pytest

from waterclock.adapter.api import Rows
from waterclock.adapter.errors import StatementCancelled
from waterclock.adapter.plans import Plans, Recent
from waterclock.adapter.sequencer import query_plans
from waterclock.adapter.tables import Waiting
from waterclock.catalog.system.routing import Route
from waterclock.errors import WaterclockError
from waterclock.sql.budget import Meter
from waterclock.testing.adapter_world import AdapterWorld, Client, in_world, taken

INT, TEXT = pa.int32(), pa.string()


async def made(world: AdapterWorld) -> Client:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int NOT NULL, b text, c bigint, d timestamptz)")
    await client.run("INSERT INTO t VALUES (1, 'x', 10), (2, 'y', 20), (3, 'x', NULL)")
    return client


async def asked(client: Client, text: str, *parameters: pa.Scalar) -> list[tuple[Any, ...]]:
    """The rows of a prepared statement."""
    session = client.session
    await session.parse("", text, [])
    await session.bind("", "", list(parameters), ())
    response = await session.execute("", 0)
    assert isinstance(response, Rows)
    rows = (await taken(response)).rows
    await session.sync()
    return rows


@in_world
async def test_other_values_in_the_places_of_parameters(world: AdapterWorld) -> None:
    client = await made(world)
    by_key = "SELECT b FROM t WHERE a = $1"
    for key, found in ((1, [("x",)]), (2, [("y",)]), (9, [])):
        assert await asked(client, by_key, pa.scalar(key, INT)) == found
    assert await asked(client, by_key, pa.scalar(2, pa.int16())) == [("y",)]
    assert await asked(client, by_key, pa.scalar(2, pa.int64())) == [("y",)]
    for unfit in (pa.scalar(None, INT), pa.scalar(2**40, pa.int64())):
        with pytest.raises(WaterclockError):  # it is bound with its value, which picks no rows
            await asked(client, by_key, unfit)
        await client.session.fail()


@in_world
async def test_parameters_in_other_places(world: AdapterWorld) -> None:
    client = await made(world)
    both = "SELECT a FROM t WHERE b = $2 AND a >= $1 ORDER BY a"
    assert await asked(client, both, pa.scalar(2, INT), pa.scalar("x")) == [(3,)]
    limited = "SELECT a FROM t WHERE a > $1 ORDER BY a LIMIT $2"
    for count in (1, 2):
        rows = await asked(client, limited, pa.scalar(0, INT), pa.scalar(count, pa.int64()))
        assert rows == [(n,) for n in range(1, count + 1)]
    some = "SELECT a FROM t WHERE a IN ($1, $2) ORDER BY a"
    assert await asked(client, some, pa.scalar(3, INT), pa.scalar(1, INT)) == [(1,), (3,)]
    assert await asked(client, some, pa.scalar(3, INT), pa.scalar(None, INT)) == [(3,)]
    counted = "SELECT count(*) FROM t WHERE b = $1"
    assert await asked(client, counted, pa.scalar("x")) == [(2,)]


@in_world
async def test_a_query_is_planned_once(world: AdapterWorld) -> None:
    client = await made(world)
    text = "SELECT b FROM t WHERE a = $1"
    await asked(client, text, pa.scalar(1, INT))
    planned, plan_query = 0, query_plans.plan_query

    def counting(*arguments: Any, **options: Any) -> Any:
        nonlocal planned
        planned += 1
        return plan_query(*arguments, **options)

    query_plans.plan_query = counting
    try:
        for key in range(5):
            await asked(client, text, pa.scalar(key, INT))
        assert planned == 0
        await client.run("CREATE TABLE another (a int)")
        await asked(client, text, pa.scalar(1, INT))
        assert planned > 0, "the catalog has changed"
    finally:
        query_plans.plan_query = plan_query


@in_world
async def test_a_text_that_means_something_else_now(world: AdapterWorld) -> None:
    client = await made(world)
    text = "SELECT * FROM t WHERE a = 1"
    assert len((await client.rows(text))[0]) == 4
    await client.run("ALTER TABLE t RENAME TO old; CREATE TABLE t (a int)")
    await client.run("INSERT INTO t VALUES (1)")
    assert await client.rows(text) == [(1,)]
    await client.run("CREATE SCHEMA s; CREATE TABLE s.t (a int, z int)")
    await client.run("INSERT INTO s.t VALUES (1, 2); SET search_path = s")
    assert await client.rows(text) == [(1, 2)]
    await client.run("RESET search_path")
    assert await client.rows(text) == [(1,)]


@in_world
async def test_the_zone_is_part_of_the_meaning(world: AdapterWorld) -> None:
    client = await made(world)
    await client.run("INSERT INTO t (a, d) VALUES (7, '2024-06-01 12:00:00+00')")
    text = "SELECT a FROM t WHERE d = '2024-06-01 12:00:00'"
    assert await client.rows(text) == [(7,)]
    await client.run("SET TimeZone = 'America/New_York'")
    assert await client.rows(text) in ([], [(7,)])
    await client.run("SET TimeZone = 'UTC'")
    assert await client.rows(text) == [(7,)]


@in_world
async def test_what_is_kept_for_one_is_not_for_all(world: AdapterWorld) -> None:
    client = await made(world)
    await client.run("CREATE ROLE ann LOGIN")
    ann = await world.connect("ann")
    text = "SELECT b FROM t WHERE a = $1"
    assert await asked(client, text, pa.scalar(1, INT)) == [("x",)]
    assert (await ann.fails("SELECT b FROM t WHERE a = 1")).sqlstate == "42501"
    await client.run("GRANT SELECT ON t TO ann")
    assert await asked(ann, text, pa.scalar(1, INT)) == [("x",)]
    await client.run("REVOKE SELECT ON t FROM ann")
    assert (await ann.fails("SELECT b FROM t WHERE a = 1")).sqlstate == "42501"


@in_world
async def test_constants_are_known_the_second_time(world: AdapterWorld) -> None:
    client = await world.connect()
    answerer = world.front.answerer
    for text, known in (
        ("SELECT 1", True),
        ("SELECT 'a(b' AS x, 2::bigint", True),
        ("SELECT now()", False),
        ("SELECT random()", False),
        ("SELECT current_user", False),
        ("SELECT 'int4'::regtype", False),
        ("SELECT relname FROM pg_class LIMIT 0", False),
        ("SELECT set_config('application_name', 'n', false)", False),
    ):
        first = answerer.execute(text, [], client.session.catalog_facts())
        again = answerer.known(text)
        assert (again is not None) == known, text
        assert again is None or again.rows == first.rows


def test_what_was_not_asked_for_long_is_forgotten() -> None:
    recent: Recent[int] = Recent(2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert [recent.get(key) for key in "abc"] == [1, None, 3]


# What clients do between Parse and Sync


@in_world
async def test_statements_before_sync_see_each_other(world: AdapterWorld) -> None:
    client = await made(world)
    session = client.session
    for n in (100, 101):
        await session.parse("", f"INSERT INTO t (a) VALUES ({n})", [])
        await session.bind("", "", [], ())
        await session.execute("", 0)
    await session.parse("", "SELECT a FROM t WHERE a >= 100 ORDER BY a", [])
    await session.bind("rest", "", [], ())
    response = await session.execute("rest", 1)
    assert (await taken(response)).rows == [(100,)]
    assert (await taken(await session.execute("rest", 1))).rows == [(101,)]
    await session.sync()


@in_world
async def test_a_portal_that_is_moved_before_it_is_run(world: AdapterWorld) -> None:
    client = await made(world)
    session = client.session
    await client.run("BEGIN")
    await session.parse("", "SELECT a FROM t ORDER BY a", [])
    await session.bind("p", "", [], ())
    assert await client.tag("MOVE FORWARD 2 IN p") == "MOVE 2"
    assert (await taken(await session.execute("p", 0))).rows == [(3,)]
    await client.run("COMMIT")


@in_world
async def test_returning(world: AdapterWorld) -> None:
    client = await made(world)
    result = await client.one("INSERT INTO t (a, b) VALUES (5, 'n') RETURNING b, a AS key")
    assert (result.names, result.rows) == (["b", "key"], [("n", 5)])
    assert await client.rows("INSERT INTO t AS u (a) VALUES (6) RETURNING u.a, c") == [(6, None)]
    assert await client.rows("DELETE FROM t WHERE a = 6 RETURNING a") == [(6,)]
    error = await client.fails("INSERT INTO t (a) VALUES (5) RETURNING nothing")
    assert (error.sqlstate, error.position) == ("42703", 40)
    assert await client.rows("SELECT count(*) FROM t WHERE a = 5") == [(1,)]


@in_world
async def test_dropping_a_schema_with_what_is_in_it(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE SCHEMA s; CREATE TABLE s.t (a int)")
    await client.run("DROP SCHEMA s CASCADE")
    assert client.notices[-1].message == "drop cascades to table s.t"
    await client.run("CREATE DATABASE d")
    await client.run("DROP DATABASE d")
    assert client.notices[-1].message == "drop cascades to table s.t", "nothing more was said"


# Giving up


@in_world
async def test_a_write_that_nobody_waits_for(world: AdapterWorld) -> None:
    """A client that goes in the middle of its commit takes nothing with it."""
    client = await made(world)
    gone = await world.connect()
    tables = world.core.tables
    begun: list[Waiting] = []
    begin = tables.begin

    def beginning(*given: Any) -> Waiting:
        begun.append(begin(*given))
        return begun[-1]

    tables.begin = beginning  # type: ignore[method-assign]
    with tables._commit_lock:  # the writer can not go on now
        for number, is_taken in ((50, True), (49, False)):
            going = asyncio.create_task(gone.run(f"INSERT INTO t (a) VALUES ({number})"))
            while len(begun) < 1 or (is_taken and not begun[0].is_taken):
                await asyncio.sleep(0)
            begun.clear()
            going.cancel()
            with pytest.raises(asyncio.CancelledError):
                await going
    await client.run("INSERT INTO t (a) VALUES (51)")
    rows = await client.rows("SELECT a FROM t WHERE a >= 49 ORDER BY a")
    assert rows == [(50,), (51,)], "one was on its way, one was not, and the writer lives"


@in_world
async def test_a_statement_is_stopped_and_the_session_goes_on(world: AdapterWorld) -> None:
    client = await made(world)
    for stop in (client.session.cancel, None):
        if stop is None:
            await client.run("SET statement_timeout = '50ms'")
        running = asyncio.create_task(client.run("SELECT pg_sleep(600)"))
        while stop is not None and not running.done():  # it may not have begun
            stop()
            await asyncio.sleep(0.001)
        with pytest.raises(StatementCancelled) as told:
            await running
        assert told.value.sqlstate == "57014"
        while client.session.settings.get("statement_timeout") != "0":
            with contextlib.suppress(StatementCancelled):  # it must be done in that time itself
                await client.run("RESET statement_timeout")
        assert await client.rows("SELECT a FROM t WHERE a = 1") == [(1,)]
        assert not running.cancelled()


def is_system(schema: str | None, name: str) -> bool:
    return schema == "pg_catalog" or (schema is None and name.startswith("pg_"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT @ -5", Route.CONSTANT),
        ("SELECT (a, b) OVERLAPS (c, d) FROM t", Route.USER),
        ("WITH t AS (SELECT 1 AS a) SELECT @ a FROM t", Route.CONSTANT),
        ("SELECT @ oid FROM pg_class", Route.CATALOG),
        ("SELECT @ oid FROM pg_class, public.pg_mine", Route.MIXED),
        ("SELECT @ FROM WHERE", Route.USER),
    ],
)
def test_where_a_query_goes_that_only_we_can_read(text: str, expected: Route) -> None:
    assert Plans(is_system).route(text, Meter()) is expected


@in_world
async def test_who_says_what_is_wrong_with_a_constant(world: AdapterWorld) -> None:
    client = await made(world)
    for text, sqlstate in {
        "SELECT 1 || 2": "42883",  # though the catalog's own engine would have an answer
        "SELECT current_setting('nope')": "42704",  # which only the catalog's own engine knows
        "SELECT no_such(@ -5)": "42883",
        "SELECT (1, 2": "42601",
    }.items():
        with pytest.raises(WaterclockError) as caught:
            await client.run(text)
        assert caught.value.sqlstate == sqlstate, text
        if sqlstate in ("42883", "42601"):
            assert getattr(caught.value, "position", None) is not None, text
