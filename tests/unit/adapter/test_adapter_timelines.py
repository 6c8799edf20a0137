"""Sources on timelines of their own: the times of reads, and what can not be mixed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from waterclock.errors import WaterclockError
from waterclock.testing.adapter_world import AdapterWorld, Client, adapter_world

FAST = "TIMESTAMP INTERVAL = '20ms'"


def update(value: str, time: int, diff: int = 1) -> str:
    return json.dumps({"updates": [{"data": {"v": value}, "time": time, "diff": diff}]}) + "\n"


def progress(lower: int, upper: int | None, counts: dict[int, int]) -> str:
    said = [{"time": time, "count": count} for time, count in counts.items()]
    end = [] if upper is None else [upper]
    return json.dumps({"progress": {"lower": [lower], "upper": end, "counts": said}}) + "\n"


FIRST = update("a", 3) + update("b", 5) + update("a", 6, -1) + progress(0, 10, {3: 1, 5: 1, 6: 1})


class Place:
    """A world, and the files that its sources read."""

    def __init__(self, world: AdapterWorld, folder: Path) -> None:
        self.world = world
        self.folder = folder

    async def source(self, client: Client, name: str, timeline: str, text: str = FIRST) -> None:
        """Create a source over a new file with this text."""
        self.append(name, text)
        await client.tag(
            f"CREATE SOURCE {name} (v text) FROM FILE '{self.folder / name}' FORMAT JSON"
            f" ENVELOPE MATERIALIZE WITH ({FAST}, TIMELINE '{timeline}')"
        )

    def append(self, name: str, text: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(text)


def placed(test: Callable[[Place], Awaitable[None]]) -> Callable[[Path], None]:
    """A test that is given a place."""

    def run(tmp_path: Path) -> None:
        async def inside() -> None:
            folder = tmp_path / "in"
            folder.mkdir()
            async with adapter_world(tmp_path / "data") as world:
                await test(Place(world, folder))

        asyncio.run(inside())

    return run


async def explained(client: Client, query: str) -> dict[str, str]:
    """What EXPLAIN TIMESTAMP says."""
    [(text,)] = await client.rows(f"EXPLAIN TIMESTAMP AS JSON FOR {query}")
    found: dict[str, str] = json.loads(text)
    return found


async def until_at(client: Client, query: str, time: int) -> None:
    """Wait until reads of the query are at the time."""
    async with asyncio.timeout(240):
        while (await explained(client, query))["query timestamp"] != str(time):
            await asyncio.sleep(0.02)


@pytest.mark.semantics(10, 103, 143)
@placed
async def test_reads_are_at_the_times_of_the_messages(place: Place) -> None:
    client = await place.world.connect()
    await place.source(client, "s", "game")
    await until_at(client, "SELECT v FROM s", 9)
    assert await client.rows("SELECT v FROM s") == [("b",)]
    facts = await explained(client, "SELECT v FROM s")
    assert facts["timeline"] == "game"
    assert facts["determined by"] == "upper"
    assert facts["oracle read timestamp"] == "none"
    assert facts["can respond immediately"] == "true"
    for time, rows in ((0, []), (3, [("a",)]), (5, [("a",), ("b",)]), (6, [("b",)])):
        assert sorted(await client.rows(f"SELECT v FROM s AS OF {time}")) == rows
    waiting = asyncio.create_task(client.rows("SELECT v FROM s AS OF 12"))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    place.append("s", update("c", 11) + progress(10, 20, {11: 1}))
    assert sorted(await waiting) == [("b",), ("c",)]
    assert (await explained(client, "SELECT v FROM s AS OF 11"))["determined by"] == "AS OF"


@placed
async def test_the_first_read_waits_for_the_first_statement(place: Place) -> None:
    client = await place.world.connect()
    await place.source(client, "s", "game", update("a", 0))
    waiting = asyncio.create_task(client.rows("SELECT v FROM s"))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    place.append("s", progress(0, 1, {0: 1}))
    assert await waiting == [("a",)]


@placed
async def test_a_subscription_has_the_times_of_the_messages(place: Place) -> None:
    client, other = await place.world.connect(), await place.world.connect()
    await place.source(client, "s", "game")
    await until_at(client, "SELECT v FROM s", 9)
    found: list[tuple[Any, ...]] = await client.rows("SUBSCRIBE s AS OF 4 UP TO 10")
    assert found == [(4, 1, "a"), (5, 1, "b"), (6, -1, "a")]
    waiting = asyncio.create_task(other.rows("SUBSCRIBE s AS OF 9 UP TO 15"))
    await asyncio.sleep(0.05)
    place.append("s", update("c", 11) + progress(10, 20, {11: 1}))
    assert await waiting == [(9, 1, "b"), (11, 1, "c")]


@pytest.mark.semantics(2, 152)
@placed
async def test_two_timelines_are_not_read_together(place: Place) -> None:
    client = await place.world.connect()
    await place.source(client, "s", "game")
    await place.source(client, "r", "other")
    await client.tag("CREATE TABLE t (v text)")
    error = await client.fails("SELECT s.v FROM s, t")
    assert error.sqlstate == "0A000"
    assert error.message == "can not read relations of different timelines together"
    assert error.detail is not None
    assert 'source s is on "game"' in error.detail
    assert 'table t is on "epoch_ms"' in error.detail
    assert error.hint is not None
    for query in (
        "SELECT s.v FROM s, r",
        "SELECT s.v FROM s, s_progress",
        "CREATE VIEW w AS SELECT s.v FROM s, t",
        "SUBSCRIBE (SELECT s.v FROM s, t)",
        "EXPLAIN TIMESTAMP FOR SELECT s.v FROM s, t",
    ):
        error = await client.fails(query)
        assert (error.sqlstate, error.message) == (
            "0A000",
            "can not read relations of different timelines together",
        ), query
    error = await client.fails("SELECT s.v FROM s, s_progress")
    assert error.detail is not None
    assert 'progress relation s_progress is on "epoch_ms"' in error.detail


@placed
async def test_a_transaction_is_on_one_timeline(place: Place) -> None:
    client = await place.world.connect()
    await place.source(client, "s", "game")
    await place.source(client, "r", "game", update("x", 1) + progress(0, 8, {1: 1}))
    await client.tag("CREATE TABLE t (v text)")
    await until_at(client, "SELECT v FROM s", 9)
    await until_at(client, "SELECT v FROM r", 7)
    await client.tag("BEGIN")
    assert await client.rows("SELECT v FROM r") == [("x",)]
    place.append("r", update("y", 8) + progress(8, 20, {8: 1}))
    assert await client.rows("SELECT v FROM s") == [("b",)]
    assert (await explained(client, "SELECT v FROM s"))["query timestamp"] == "7"
    error = await client.fails("SELECT v FROM t")
    assert error.detail is not None
    assert 'source r is on "game"' in error.detail
    assert 'table t is on "epoch_ms"' in error.detail
    await client.tag("ROLLBACK")
    await client.tag("BEGIN")
    await client.rows("SELECT v FROM t")
    assert (await client.fails("SELECT v FROM s")).sqlstate == "0A000"
    await client.tag("ROLLBACK")


@placed
async def test_tables_are_not_written_from_another_timeline(place: Place) -> None:
    client = await place.world.connect()
    await place.source(client, "s", "game")
    await client.tag("CREATE TABLE t (v text)")
    for statement in ("INSERT INTO t SELECT v FROM s", "CREATE TABLE u AS SELECT v FROM s"):
        error = await client.fails(statement)
        assert error.message == "can not write to a table what was read on another timeline"
        assert error.sqlstate == "0A000"
        assert error.detail == 'What was read is on "game", and tables are on "epoch_ms".'
    await client.tag("BEGIN")
    await client.rows("SELECT v FROM s")
    assert "another timeline" in (await client.fails("INSERT INTO t VALUES ('x')")).message
    await client.tag("ROLLBACK")
    await client.tag("BEGIN")
    await client.tag("INSERT INTO t VALUES ('y')")
    assert "another timeline" in (await client.fails("SELECT v FROM s")).message
    await client.tag("ROLLBACK")
    await client.tag("INSERT INTO t VALUES ('x')")
    assert await client.rows("SELECT v FROM t") == [("x",)]


def test_a_timeline_outlives_the_server(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()

    async def inside() -> None:
        async with adapter_world(tmp_path / "data") as world:
            place, client = Place(world, folder), await world.connect()
            await place.source(client, "s", "game")
            await until_at(client, "SELECT v FROM s", 9)
            world.close()
            world.open()
            client = await world.connect()
            facts = await explained(client, "SELECT v FROM s")
            assert (facts["timeline"], facts["query timestamp"]) == ("game", "9")
            assert sorted(await client.rows("SELECT v FROM s AS OF 5")) == [("a",), ("b",)]
            place.append("s", update("b", 12, -1) + progress(10, 20, {12: 1}))
            await until_at(client, "SELECT v FROM s", 19)
            assert await client.rows("SELECT v FROM s") == []
            [(_, text)] = await client.rows("SHOW CREATE SOURCE s")
            assert "TIMELINE = 'game'" in text

    asyncio.run(inside())


@placed
async def test_what_can_not_be_read_fails_reads_from_then_on(place: Place) -> None:
    client = await place.world.connect()
    await place.source(client, "s", "game")
    await until_at(client, "SELECT v FROM s", 9)
    place.append("s", "{\n")
    error = None
    async with asyncio.timeout(240):
        while error is None:
            try:
                await client.rows("SELECT v FROM s")
            except WaterclockError as raised:
                error = raised
            await asyncio.sleep(0.02)
    assert getattr(error, "sqlstate", None) == "22P02"
    assert await client.rows("SELECT v FROM s AS OF 9") == [("b",)]


@placed
async def test_a_source_that_has_ended_is_read_for_good(place: Place) -> None:
    client = await place.world.connect()
    await place.source(client, "s", "game", FIRST + progress(10, None, {}))
    status = "SELECT status FROM mz_internal.mz_source_statuses"
    async with asyncio.timeout(240):
        while await client.rows(status) != [("finished",)]:
            await asyncio.sleep(0.02)
    assert await client.rows("SELECT v FROM s") == [("b",)]
    assert sorted(await client.rows("SELECT v FROM s AS OF 5")) == [("a",), ("b",)]
    assert await client.rows("SUBSCRIBE s AS OF 5") == [(5, 1, "a"), (5, 1, "b"), (6, -1, "a")]


@placed
async def test_the_past_is_forgotten_as_far_as_all_of_a_timeline_is(place: Place) -> None:
    client, core = await place.world.connect(), place.world.core
    # The one that holds the timeline back comes first: the other, alone, would run ahead of it.
    await place.source(client, "r", "game", update("x", 1) + progress(0, 200_000, {1: 1}))
    await until_at(client, "SELECT v FROM r", 199_999)
    await place.source(client, "s", "game", update("a", 1) + progress(0, 900_000, {1: 1}))
    await until_at(client, "SELECT v FROM s", 899_999)
    kept = core.pace.retain_ms
    async with asyncio.timeout(240):
        while (await explained(client, "SELECT v FROM s"))["since"] != f"{{{199_999 - kept}}}":
            await asyncio.sleep(0.02)
    error = await client.fails("SELECT v FROM s AS OF 5")
    assert error.sqlstate == "22023"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "CREATE SOURCE s FROM FILE '/x' FORMAT TEXT WITH (TIMELINE 'x')",
            "TIMELINE is supported with ENVELOPE MATERIALIZE only",
        ),
        (
            "CREATE SOURCE s FROM LOAD GENERATOR COUNTER WITH (TIMELINE 'x')",
            "TIMELINE is supported with ENVELOPE MATERIALIZE only",
        ),
        (
            "CREATE SOURCE s FROM FILE '/x' FORMAT JSON ENVELOPE MATERIALIZE"
            " WITH (TIMELINE 'epoch_ms')",
            '"epoch_ms" can not be the name of a timeline of its own',
        ),
    ],
)
def test_wrong_timelines_are_refused(tmp_path: Path, statement: str, message: str) -> None:
    async def inside() -> None:
        async with adapter_world(tmp_path / "data") as world:
            client = await world.connect()
            assert (await client.fails(statement)).message == message
            assert await client.rows("SELECT name FROM mz_sources WHERE name = 's'") == []

    asyncio.run(inside())
