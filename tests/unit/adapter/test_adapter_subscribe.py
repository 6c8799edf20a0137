"""SUBSCRIBE over tables, without an engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest

from waterclock.adapter import pumps
from waterclock.adapter.api import CopyOut, Rows
from waterclock.adapter.errors import StatementCancelled, ViewInError
from waterclock.adapter.feeds import Feed
from waterclock.adapter.following import RelationGone
from waterclock.catalog.errors import PermissionDenied
from waterclock.testing.adapter_world import AdapterWorld, Client, in_world, rows_of

SECONDS = 240.0


class Subscriber:
    """A subscription of a session, and all rows that have come."""

    def __init__(self, response: Rows | CopyOut) -> None:
        self.columns = [column.name for column in response.columns]
        self.batches = response.batches
        self.rows: list[tuple[Any, ...]] = []

    async def get(self, count: int) -> list[tuple[Any, ...]]:
        """Wait until so many rows have come in all; the last ones that had not been asked for."""
        known = len(self.rows)
        while len(self.rows) < count:
            batch = await asyncio.wait_for(anext(self.batches), SECONDS)
            self.rows += rows_of(batch)
        return self.rows[known:]

    async def rest(self) -> list[tuple[Any, ...]]:
        """Everything to the end."""
        known = len(self.rows)
        async for batch in self.batches:
            self.rows += rows_of(batch)
        return self.rows[known:]


@asynccontextmanager
async def subscribed(client: Client, text: str) -> AsyncIterator[Subscriber]:
    statements = client.session.run_simple(text)
    response = await anext(statements)
    assert isinstance(response, Rows | CopyOut)
    try:
        yield Subscriber(response)
    finally:
        await response.batches.aclose()  # type: ignore[attr-defined]
        await statements.aclose()  # type: ignore[attr-defined]


async def made(world: AdapterWorld) -> Client:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int NOT NULL, b text)")
    await client.run("INSERT INTO t VALUES (1, 'one'), (2, 'two')")
    return client


def body(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted((row[1:] for row in rows), key=str)


@in_world
async def test_contents_come_first_and_then_changes(world: AdapterWorld) -> None:
    writer, reader = await made(world), await world.connect()
    async with subscribed(reader, "SUBSCRIBE TO t") as stream:
        assert stream.columns == ["mz_timestamp", "mz_diff", "a", "b"]
        first = await stream.get(2)
        assert body(first) == [(1, 1, "one"), (1, 2, "two")]
        await writer.run("INSERT INTO t VALUES (3, 'three')")
        [new] = await stream.get(3)
        assert new[1:] == (1, 3, "three")
        assert new[0] > first[0][0]
        assert isinstance(new[0], Decimal)


@pytest.mark.semantics(171)
@in_world
async def test_everything_that_is_known_and_no_more(world: AdapterWorld) -> None:
    client = await made(world)
    await client.run("INSERT INTO t VALUES (3, 'three')")
    await client.run("DELETE FROM t WHERE a = 1")
    found = await client.rows("TAIL t AS OF EARLIEST UNTIL LATEST")
    assert body(found) == [(-1, 1, "one"), (1, 1, "one"), (1, 2, "two"), (1, 3, "three")]
    assert len({row[0] for row in found}) == 3
    now = await client.rows("SUBSCRIBE t UNTIL LATEST")
    assert body(now) == [(1, 2, "two"), (1, 3, "three")]
    assert await client.rows("SUBSCRIBE t WITH (SNAPSHOT = false) UP TO LATEST") == []
    await client.run("BEGIN")
    await client.rows("SELECT * FROM t")
    other = await world.connect()
    await other.run("INSERT INTO t VALUES (4, 'four')")
    seen = await client.rows("SUBSCRIBE t AS OF EARLIEST UNTIL LATEST")
    assert body(seen) == body(found)  # LATEST is the time that the transaction reads at
    await client.run("COMMIT")


@pytest.mark.semantics(98)
@in_world
async def test_rows_of_one_time_come_together(world: AdapterWorld) -> None:
    writer, reader = await made(world), await world.connect()
    async with subscribed(reader, "SUBSCRIBE t WITH (SNAPSHOT = false)") as stream:
        await writer.run(
            "BEGIN; INSERT INTO t VALUES (3, 'x'); INSERT INTO t VALUES (4, 'y'); COMMIT"
        )
        rows = await stream.get(2)
        assert rows[0][0] == rows[1][0]
        assert body(rows) == [(1, 3, "x"), (1, 4, "y")]


@in_world
async def test_projection_and_conditions(world: AdapterWorld) -> None:
    writer, reader = await made(world), await world.connect()
    async with subscribed(reader, "SUBSCRIBE (SELECT b FROM t WHERE a > 1)") as stream:
        assert stream.columns == ["mz_timestamp", "mz_diff", "b"]
        assert body(await stream.get(1)) == [(1, "two")]
        await writer.run("INSERT INTO t VALUES (0, 'zero'), (5, 'five')")
        assert body(await stream.get(2)) == [(1, "five")]


@in_world
async def test_equal_rows_are_one_row_with_a_larger_diff(world: AdapterWorld) -> None:
    writer, reader = await made(world), await world.connect()
    await writer.run("INSERT INTO t VALUES (1, 'one')")
    async with subscribed(reader, "SUBSCRIBE (SELECT a FROM t)") as stream:
        assert body(await stream.get(2)) == [(1, 2), (2, 1)]


@in_world
async def test_progress_says_up_to_where_all_is_known(world: AdapterWorld) -> None:
    writer, reader = await made(world), await world.connect()
    async with subscribed(reader, "SUBSCRIBE t WITH (PROGRESS)") as stream:
        assert stream.columns == ["mz_timestamp", "mz_progressed", "mz_diff", "a", "b"]
        start, *contents = await stream.get(3)
        assert start[1:] == (True, None, None, None)
        assert [row[1] for row in contents] == [False, False]
        assert {row[0] for row in contents} == {start[0]}
        await writer.run("INSERT INTO t VALUES (3, 'three')")
        while stream.rows[-1][3] != 3:
            await stream.get(len(stream.rows) + 1)
        new = stream.rows[-1]
        await stream.get(len(stream.rows) + 1)
        assert stream.rows[-1][1]
        assert stream.rows[-1][0] > new[0]
        stated = [row[0] for row in stream.rows if row[1]]
        assert stated == sorted(stated)


@in_world
async def test_a_subscription_is_resumed_from_its_progress(world: AdapterWorld) -> None:
    writer, reader = await made(world), await world.connect()
    async with subscribed(reader, "SUBSCRIBE t WITH (PROGRESS)") as stream:
        await stream.get(4)
        upper = int(stream.rows[-1][0])
    await writer.run("INSERT INTO t VALUES (3, 'three')")
    text = f"SUBSCRIBE t WITH (SNAPSHOT = false) AS OF {upper - 1}"
    async with subscribed(await world.connect(), text) as stream:
        assert body(await stream.get(1)) == [(1, 3, "three")]


@in_world
async def test_up_to_ends_it(world: AdapterWorld) -> None:
    client = await made(world)
    time = int((await client.rows("EXPLAIN TIMESTAMP FOR SELECT * FROM t"))[0][0].split(": ")[1])
    async with subscribed(client, f"SUBSCRIBE t AS OF {time} UP TO {time + 1}") as stream:
        assert body(await stream.rest()) == [(1, 1, "one"), (1, 2, "two")]
    async with subscribed(client, f"SUBSCRIBE t AS OF {time} UP TO {time}") as stream:
        assert await stream.rest() == []
    error = await client.fails(f"SUBSCRIBE t AS OF {time} UP TO {time - 1}")
    assert error.sqlstate == "22023"


@in_world
async def test_upserts_by_key(world: AdapterWorld) -> None:
    writer, reader = await made(world), await world.connect()
    async with subscribed(reader, "SUBSCRIBE t ENVELOPE UPSERT (KEY (a))") as stream:
        assert stream.columns == ["mz_timestamp", "mz_state", "a", "b"]
        assert body(await stream.get(2)) == [("upsert", 1, "one"), ("upsert", 2, "two")]
        await writer.run("DELETE FROM t WHERE a = 1")
        assert body(await stream.get(3)) == [("delete", 1, None)]
        await writer.run("INSERT INTO t VALUES (7, 'x'), (7, 'y')")
        assert body(await stream.get(4)) == [("key_violation", 7, None)]


@in_world
async def test_before_and_after_by_key(world: AdapterWorld) -> None:
    writer, reader = await made(world), await world.connect()
    text = "SUBSCRIBE t WITH (SNAPSHOT = false) ENVELOPE DEBEZIUM (KEY (a))"
    async with subscribed(reader, text) as stream:
        assert stream.columns == ["mz_timestamp", "mz_state", "a", "before_b", "after_b"]
        await writer.run("INSERT INTO t VALUES (3, 'x')")
        assert body(await stream.get(1)) == [("insert", 3, None, "x")]
        await writer.run("DELETE FROM t WHERE a = 3")
        assert body(await stream.get(2)) == [("delete", 3, "x", None)]


@in_world
async def test_order_within_a_time(world: AdapterWorld) -> None:
    client = await made(world)
    await client.run("INSERT INTO t VALUES (3, NULL), (0, 'zz')")
    text = "SUBSCRIBE t WITHIN TIMESTAMP ORDER BY b DESC NULLS LAST, mz_diff"
    async with subscribed(client, text) as stream:
        rows = await stream.get(4)
        assert [row[3] for row in rows] == ["zz", "two", "one", None]
    error = await client.fails("SUBSCRIBE t WITHIN TIMESTAMP ORDER BY a + 1")
    assert error.sqlstate == "0A000"
    error = await client.fails("SUBSCRIBE t ENVELOPE UPSERT (KEY (nope))")
    assert error.sqlstate == "42703"


@in_world
async def test_cancel_ends_it_and_the_session_goes_on(world: AdapterWorld) -> None:
    client = await made(world)
    statements = client.session.run_simple("COPY (SUBSCRIBE t) TO STDOUT")
    response = await anext(statements)
    assert isinstance(response, CopyOut)
    await anext(response.batches)
    asyncio.get_running_loop().call_later(0.05, client.session.cancel)
    with pytest.raises(StatementCancelled) as raised:
        await anext(response.batches)
    assert raised.value.sqlstate == "57014"
    await client.session.fail()
    assert await client.rows("SELECT a FROM t ORDER BY a") == [(1,), (2,)]
    assert await all_is_let_go(world)


@in_world
async def test_a_statement_timeout_does_not_end_it(world: AdapterWorld) -> None:
    writer, reader = await made(world), await world.connect()
    await reader.run("SET statement_timeout = '1h'")
    async with subscribed(reader, "SUBSCRIBE t") as stream:
        await stream.get(2)
        assert reader.session.watch._timeout is None, "the clock was stopped"
        await writer.run("INSERT INTO t VALUES (3, 'x')")
        assert body(await stream.get(3)) == [(1, 3, "x")]


@in_world
async def test_dropping_the_table_ends_it(world: AdapterWorld) -> None:
    writer, reader = await made(world), await world.connect()
    async with subscribed(reader, "SUBSCRIBE t") as stream:
        await stream.get(2)
        await writer.run("DROP TABLE t")
        with pytest.raises(RelationGone):
            await stream.get(3)


@in_world
async def test_an_error_of_the_view_ends_it_where_it_begins(world: AdapterWorld) -> None:
    writer, reader = await made(world), await world.connect()
    await writer.run("CREATE TABLE errors (key text NOT NULL, message text NOT NULL)")
    ids = {item.name: item.id for item in world.core.current.items()}
    world.engine.errors[ids["t"]] = (ids["errors"],)
    async with subscribed(reader, "SUBSCRIBE t") as stream:
        await stream.get(2)
        await writer.run("INSERT INTO t VALUES (3, 'x')")
        await stream.get(3)
        change, error = "INSERT INTO t VALUES (4, 'y')", "'(4)', '22012 division by zero'"
        await writer.run(f"BEGIN; {change}; INSERT INTO errors VALUES ({error}); COMMIT")
        with pytest.raises(ViewInError) as raised:
            await stream.get(4)
        assert raised.value.sqlstate == "22012"
        assert len(stream.rows) == 3
    refused = await reader.fails("SUBSCRIBE t")
    assert (refused.sqlstate, refused.detail) == ("22012", "The row is (4), in table t.")


@in_world
async def test_it_is_refused_without_an_engine_if_it_does_more_than_pick(
    world: AdapterWorld,
) -> None:
    client = await made(world)
    assert (await client.fails("SUBSCRIBE (SELECT count(*) FROM t)")).sqlstate == "0A000"
    assert (await client.fails("SUBSCRIBE pg_class")).sqlstate == "0A000"
    assert (await client.fails("SUBSCRIBE (SELECT 1)")).sqlstate == "0A000"
    assert (await client.fails("SUBSCRIBE nowhere")).sqlstate == "42P01"
    assert (await client.fails("SUBSCRIBE t WITH (NONSENSE)")).sqlstate == "42601"
    world.core.holds.allow_compaction(1000)
    assert (await client.fails("SUBSCRIBE t AS OF 1")).sqlstate == "22023"
    assert (await client.fails("SUBSCRIBE t UP TO 'soon'")).sqlstate == "22023"
    await client.run("BEGIN; INSERT INTO t VALUES (3, 'x')")
    assert (await client.fails("SUBSCRIBE t")).sqlstate == "0A000"  # after a write
    assert await all_is_let_go(world)


@in_world
async def test_a_subscription_in_a_transaction_begins_at_its_time(world: AdapterWorld) -> None:
    client, other = await made(world), await world.connect()
    await client.run("BEGIN")
    assert len(await client.rows("SELECT a FROM t")) == 2
    await other.run("INSERT INTO t VALUES (3, 'x')")
    await client.run("DECLARE c CURSOR FOR SUBSCRIBE t")
    rows = await client.rows("FETCH 3 c")
    while len(rows) < 3:
        rows += await client.rows("FETCH ALL c WITH (timeout = '1s')")
    assert [row[1:] for row in sorted(rows)] == [(1, 1, "one"), (1, 2, "two"), (1, 3, "x")]
    assert rows[0][0] < rows[2][0]


async def all_is_let_go(world: AdapterWorld) -> bool:
    """Whether soon nothing is held and nothing pumped any more."""
    deadline = time.monotonic() + SECONDS
    while world.core.holds._open or len(world.front.pumps):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True


@in_world
async def test_two_hundred_subscribers_read_storage_once(world: AdapterWorld) -> None:
    writer = await made(world)
    clients = [await world.connect() for _ in range(200)]
    async with AsyncExit() as stack:
        streams = [await stack.enter(subscribed(each, "SUBSCRIBE t")) for each in clients]
        await asyncio.gather(*(stream.get(2) for stream in streams))
        waiting = [asyncio.create_task(stream.get(12)) for stream in streams]
        while sum(pump.seats for pump in world.front.pumps._pumps.values()) < 200:
            await asyncio.sleep(0.01)
        assert len(world.front.pumps) == 1
        for number in range(10):
            await writer.run(f"INSERT INTO t VALUES ({number}, 'new')")
        await asyncio.gather(*waiting)
        assert len({tuple(stream.rows[2:]) for stream in streams}) == 1
        assert [row[2] for row in streams[0].rows[2:]] == list(range(10))
        assert len(world.front.pumps) == 1
        # What is sent is the same object for all who want the same.
        await writer.run("INSERT INTO t VALUES (100, 'last')")
        batches = await asyncio.gather(*(anext(_feed(stream)) for stream in streams))
        assert len({id(batch) for batch in batches}) == 1
    assert await all_is_let_go(world)


def _feed(stream: Subscriber) -> Feed:
    frame = stream.batches.ag_frame  # type: ignore[attr-defined]
    feed = frame.f_locals["batches"]
    assert isinstance(feed, Feed)
    return feed


class AsyncExit:
    """Many contexts, left in reverse order."""

    def __init__(self) -> None:
        self._open: list[Any] = []

    async def __aenter__(self) -> AsyncExit:
        return self

    async def enter(self, context: Any) -> Any:
        entered = await context.__aenter__()
        self._open.append(context)
        return entered

    async def __aexit__(self, *_: object) -> None:
        for context in reversed(self._open):
            await context.__aexit__(None, None, None)


@in_world
async def test_a_slow_subscriber_loses_its_seat_but_no_rows(world: AdapterWorld) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pumps, "MAX_STEPS", 3)
        writer, slow, quick = await made(world), await world.connect(), await world.connect()
        async with subscribed(slow, "SUBSCRIBE t") as one, subscribed(quick, "SUBSCRIBE t") as two:
            await one.get(2)
            await two.get(2)
            first = asyncio.create_task(one.get(3))
            waiting = asyncio.create_task(two.get(32))
            for number in range(30):
                await writer.run(f"INSERT INTO t VALUES ({number}, 'new')")
            await first  # and from here on it sleeps while the other one goes on
            await waiting
            await one.get(32)
            assert one.rows[2:] == two.rows[2:]


@in_world
async def test_cursors_over_subscribe(world: AdapterWorld) -> None:
    writer, client = await made(world), await world.connect()
    await client.run("BEGIN; DECLARE c CURSOR FOR SUBSCRIBE t")
    assert len(await client.rows("FETCH 1 c")) == 1
    assert len(await client.rows("FETCH ALL c")) == 1
    assert await client.rows("FETCH ALL c WITH (timeout = '50ms')") == []
    assert await client.rows("FETCH ALL c WITH (timeout = 0)") == []
    await writer.run("INSERT INTO t VALUES (3, 'x')")
    assert body(await client.rows("FETCH ALL c")) == [(1, 3, "x")]
    assert await client.tag("CLOSE c") == "CLOSE CURSOR"
    await client.run("COMMIT")
    assert await all_is_let_go(world)


@in_world
async def test_a_subscription_ends_when_its_right_is_revoked(world: AdapterWorld) -> None:
    owner = await made(world)
    await owner.run("CREATE ROLE reader LOGIN; GRANT SELECT ON t TO reader")
    reader, other = await world.connect("reader"), await world.connect()
    async with subscribed(other, "SUBSCRIBE t") as others:
        async with subscribed(reader, "SUBSCRIBE t WITH (SNAPSHOT = false)") as stream:
            await owner.run("INSERT INTO t VALUES (3, 'three')")
            assert body(await stream.get(1)) == [(1, 3, "three")]
            waiting = asyncio.ensure_future(stream.get(2))
            while not waiting.done() and not world.front.pumps:
                await asyncio.sleep(0)
            await owner.run("REVOKE SELECT ON t FROM reader")
            await owner.run("INSERT INTO t VALUES (4, 'secret')")
            with pytest.raises(PermissionDenied):
                await asyncio.wait_for(waiting, SECONDS)
        assert len(await others.get(4)) == 4


@in_world
async def test_a_cursor_over_a_subscription_ends_with_the_right(world: AdapterWorld) -> None:
    owner = await made(world)
    await owner.run("CREATE ROLE readers; GRANT SELECT ON t TO readers")
    await owner.run("CREATE ROLE reader LOGIN; GRANT readers TO reader")
    reader = await world.connect("reader")
    await reader.run("BEGIN; DECLARE c CURSOR FOR SUBSCRIBE t")
    assert len(await reader.rows("FETCH 1 c")) == 1
    await owner.run("REVOKE readers FROM reader")
    assert isinstance(await reader.fails("FETCH 1 c"), PermissionDenied)


@in_world
async def test_a_column_that_is_named_twice_can_not_be_a_key(world: AdapterWorld) -> None:
    client = await made(world)
    for statement in (
        "SUBSCRIBE (SELECT a, a FROM t) ENVELOPE UPSERT (KEY (a))",
        "SUBSCRIBE t ENVELOPE UPSERT (KEY (a, a))",
        "SUBSCRIBE t ENVELOPE DEBEZIUM (KEY (a, b, a))",
    ):
        assert (await client.fails(statement)).sqlstate == "42701"
