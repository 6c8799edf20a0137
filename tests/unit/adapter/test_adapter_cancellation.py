"""A statement that is stopped at any moment has happened or has not, and nobody else can tell.

The tasks of the event loop are stepped through a counter, which stops the statement at its n-th
suspension, for each n until the statement gets through: when a task begins to wait, when what it
waits for has just come, or by ending the session as if its client had hung up. Then the catalog is
the one before or the one after, as the client was told; the writers of tables, the holds, the
engine and the log know of just what the catalog has; and another session creates, writes, reads and
drops.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from enum import Enum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from waterclock.adapter.coordinator import Pace
from waterclock.adapter.sources import all_sources
from waterclock.adapter.tables import Waiting
from waterclock.errors import WaterclockError
from waterclock.testing.adapter_world import AdapterWorld, Client, NotedEngine, in_world
from waterclock.testing.changing_statements import (
    SET_UP,
    SOURCE,
    STATEMENTS,
    check_whole,
    contents,
)

QUIET = Pace(tick_ms=500, retain_ms=180_000)
MOST_STEPS = 60
CHANGES = (
    "INSERT INTO base VALUES (7, 'z')",
    "INSERT INTO base SELECT a, b FROM base WHERE a = 1",
    "INSERT INTO base VALUES (7, 'z') RETURNING a, b",
    "DELETE FROM base WHERE a = 1 RETURNING a",
    "BEGIN; INSERT INTO base VALUES (7, 'z'); SELECT a FROM base; COMMIT",
    "COPY base FROM STDIN",
)
READS = (
    "SELECT a FROM base WHERE b = 'x'",
    "BEGIN; DECLARE c CURSOR FOR SUBSCRIBE base; FETCH 2 c; CLOSE c; COMMIT",
    "BEGIN; DECLARE c CURSOR FOR SUBSCRIBE base; FETCH 2 c; COMMIT",
    "BEGIN; SELECT pg_advisory_xact_lock(7); SELECT a FROM base; COMMIT",
)
ENDLESS = "BEGIN; DECLARE c CURSOR FOR SUBSCRIBE (SELECT b, count(*) FROM base GROUP BY b); COMMIT"
"""Nobody maintains what it reads: so it waits, and looks again each second."""
FIRST_STEPS = {ENDLESS: 5}


class When(Enum):
    WAITING = "when it begins to wait"
    WOKEN = "when what it waits for has just come"
    ENDED = "when the session is ended meanwhile"


class Points:
    """Counts the suspensions of tasks, and stops at one of them."""

    def __init__(self, at: int, when: When) -> None:
        self._at = at
        self.when = when
        self.stop: Callable[[], object] = lambda: None
        self.seen = 0

    @property
    def is_through(self) -> bool:
        """Whether the statement ended before the point was reached."""
        return self.seen <= self._at

    def task(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **more: Any
    ) -> asyncio.Task[Any]:
        return asyncio.Task(self.stepped(work), loop=loop, **more)

    async def stepped(self, work: Coroutine[Any, Any, Any]) -> Any:
        return await self._steps(work)

    @types.coroutine
    def _steps(self, work: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        step: Callable[[], Any] = lambda: work.send(None)  # noqa: E731
        while True:
            try:
                waited_for = step()
            except StopIteration as end:
                return end.value
            if self.seen == self._at:
                if self.when is not When.WOKEN or waited_for is None:
                    self.stop()
                else:
                    waited_for.add_done_callback(lambda _: self.stop())
            self.seen += 1
            try:
                sent = yield waited_for
            except BaseException as error:
                step = _thrower(work, error)
            else:
                step = _sender(work, sent)


def _thrower(work: Coroutine[Any, Any, Any], error: BaseException) -> Callable[[], Any]:
    return lambda: work.throw(error)


def _sender(work: Coroutine[Any, Any, Any], value: Any) -> Callable[[], Any]:
    return lambda: work.send(value)


async def prepared(folder: Path, statement: str) -> tuple[AdapterWorld, Client]:
    def made() -> AdapterWorld:
        return AdapterWorld(folder, QUIET, engine=NotedEngine())

    world = await asyncio.to_thread(made)
    client = await world.connect()
    await client.run(SET_UP)
    if statement == "DROP SOURCE counter":
        await client.run(SOURCE)
    return world, await world.connect()


async def run_stopped(world: AdapterWorld, client: Client, statement: str, points: Points) -> str:
    """What the client was told: that it is done, or the SQLSTATE of the error."""
    loop = asyncio.get_running_loop()
    copied = [pa.RecordBatch.from_pydict({"a": pa.array([7], pa.int32()), "b": ["z"]})]
    loop.set_task_factory(points.task)
    try:
        task = loop.create_task(client.run(statement, copied))
        is_ended = points.when is When.ENDED
        points.stop = task.cancel if is_ended else client.session.watch.end
        try:
            await task
        except WaterclockError as error:
            return error.sqlstate
        except asyncio.CancelledError:
            return "gone"
        return "done"
    finally:
        loop.set_task_factory(None)
        if points.when is When.ENDED:
            await client.session.terminate()
        await world.front.settle()


async def rows_of(client: Client) -> list[Any]:
    """What the tables hold that are there in any case, or are new."""
    found: list[Any] = []
    for name in ("base", "renamed", "fresh"):
        shown = await client.rows(f"SHOW TABLES LIKE '{name}'")
        found.append(shown and sorted(await client.rows(f"SELECT * FROM {name}"), key=repr))
    return found


async def check_alive(world: AdapterWorld, client: Client) -> None:
    """The session goes on, and so do others."""
    other = await world.connect()
    for each in (client, other):
        await each.run("CREATE TABLE afterwards (a int); INSERT INTO afterwards VALUES (7)")
        assert await each.rows("SELECT a FROM afterwards") == [(7,)]
        await each.run("DROP TABLE afterwards")
    await other.session.terminate()


async def stop_everywhere(folder: Path, statement: str, when: When) -> None:
    world, client = await prepared(folder, statement)
    before = (contents(world), await rows_of(client))
    await run_stopped(world, client, statement, Points(10**9, When.WAITING))
    after = (contents(world), await rows_of(client))
    assert after != before, "the statement changes something"
    await asyncio.to_thread(world.close)
    told = set()
    for at in range(MOST_STEPS):
        world, client = await prepared(folder, statement)
        points = Points(at, when)
        answer = await run_stopped(world, client, statement, points)
        told.add(answer)
        asking = await world.connect()
        found = (contents(world), await rows_of(asking))
        await asking.session.terminate()
        place = f"stopped at {at}, {when.value}: {answer}"
        assert found in (before, after), place
        assert answer != "done" or found == after, place
        assert answer != "57014" or found == before, place
        assert answer in ("done", "57014", "40003", "gone"), place
        if when is When.ENDED:
            client = await world.connect()
        elif client.session.transaction.in_block:
            await client.run("ROLLBACK")
        await check_alive(world, client)
        await client.session.terminate()
        assert world.core.holds.taken == len(all_sources(world.core.current)), place
        assert world.front.changes.is_idle, place
        check_whole(world)
        await asyncio.to_thread(world.close)
        if points.is_through:
            break
    else:
        raise AssertionError(f"the statement is suspended more than {MOST_STEPS} times")
    assert "done" in told, "it gets through in the end"
    assert at > 0, "it was stopped somewhere"


@pytest.mark.slow
@pytest.mark.semantics(80)
@pytest.mark.parametrize("when", When)
@pytest.mark.parametrize("statement", [*STATEMENTS, *CHANGES])
def test_a_stopped_statement_has_happened_or_not(
    tmp_path: Path, statement: str, when: When
) -> None:
    asyncio.run(stop_everywhere(tmp_path, statement, when))


@pytest.mark.slow
@pytest.mark.parametrize("when", When)
@pytest.mark.parametrize("statement", [*READS, ENDLESS])
def test_a_stopped_read_leaves_nothing(tmp_path: Path, statement: str, when: When) -> None:
    asyncio.run(stop_reading(tmp_path, statement, when))


async def stop_reading(folder: Path, statement: str, when: When) -> None:
    world, client = await prepared(folder, "")
    before = (contents(world), await rows_of(client))
    for at in range(FIRST_STEPS.get(statement, 14)):
        client = await world.connect()
        answer = await run_stopped(world, client, statement, Points(at, when))
        place = f"stopped at {at}, {when.value}: {answer}"
        assert answer in ("done", "57014", "gone"), place
        if client.session.transaction.in_block:
            await client.run("ROLLBACK")
        await client.session.terminate()
        await world.front.settle()
        asking = await world.connect()
        assert (contents(world), await rows_of(asking)) == before, place
        assert await asking.rows("SELECT count(*) FROM pg_locks") == [(0,)], place
        await check_alive(world, asking)
        await asking.session.terminate()
        await until(lambda: len(world.front.pumps) == 0 and world.core.holds.taken == 0)
        check_whole(world)
    await asyncio.to_thread(world.close)


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until it holds: a pump ends by itself when nobody sits at it."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


@in_world
async def test_a_write_that_hangs_keeps_only_its_own_session_waiting(world: AdapterWorld) -> None:
    """It can not be taken back, and nobody knows yet what becomes of it."""
    client, other = await world.connect(), await world.connect()
    await client.run("CREATE TABLE t (a int)")
    tables, begun = world.core.tables, list[Waiting]()
    begin = tables.begin

    def beginning(*given: Any) -> Waiting:
        begun.append(begin(*given))
        return begun[-1]

    tables.begin = beginning  # type: ignore[method-assign]
    with tables._commit_lock:  # as if the disk did not answer
        writing = asyncio.create_task(client.fails("INSERT INTO t VALUES (1)"))
        await until(lambda: any(each.is_taken for each in begun))
        client.session.cancel()
        assert (await writing).sqlstate == "40003"
        reading = asyncio.create_task(client.fails("SELECT a FROM t"))
        while not reading.done():  # it waits for that, until it is stopped too
            client.session.cancel()
            await asyncio.sleep(0.001)
        assert reading.result().sqlstate == "57014"
        assert await other.rows("SELECT 1") == [(1,)]
    assert await client.rows("SELECT a FROM t") == [(1,)], "it has happened"
