"""The health of objects, as it is decided from what is known, and as a server shows it."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from waterclock.adapter.object_health import Cause, Known, decide
from waterclock.compute.api import Health, Status
from waterclock.errors import WaterclockError
from waterclock.http.metrics import Metrics
from waterclock.model.ids import GlobalId
from waterclock.server.facts import facts_of
from waterclock.testing.adapter_world import AdapterWorld, NotedEngine, adapter_world, in_world

OWN, OTHER = GlobalId.user(1), GlobalId.user(2)
FAULT = WaterclockError("it is broken")
WRONG, GONE, LATE = (Cause(OTHER, WaterclockError(text)) for text in ("wrong", "gone", "late"))
FAST = "WITH (TIMESTAMP INTERVAL = '20ms')"
BLAMES = (
    "SELECT name, type, status, blamed_name FROM mz_internal.mz_object_statuses"
    " WHERE status <> 'running'"
)
STATUSES = (
    "SELECT name, type, status, error, blamed_name FROM mz_internal.mz_object_statuses"
    " WHERE status <> 'running' AND type <> 'table'"
)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (Known(), ("running", None)),
        (Known("hydrating"), ("hydrating", None)),
        (Known(wrong=WRONG), ("error", WRONG)),
        (Known(failed=[GONE]), ("error", GONE)),
        (Known(wrong=WRONG, failed=[GONE], stalled=[LATE]), ("error", WRONG)),
        (Known("failed", FAULT, wrong=WRONG), ("failed", Cause(OWN, FAULT))),
        (Known("stalled", FAULT, stalled=[LATE]), ("stalled", Cause(OWN, FAULT))),
        (Known("stalled", FAULT, wrong=WRONG), ("error", WRONG)),
        (Known(stalled=[LATE]), ("stalled", LATE)),
        (Known("hydrating", stalled=[LATE]), ("hydrating", None)),
    ],
)
def test_what_fails_reads_comes_before_what_delays_them(
    known: Known, expected: tuple[str, Cause | None]
) -> None:
    assert decide(OWN, known) == expected


def test_sources_and_views_over_them_are_in_error_and_heal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A row in a table that stands for the errors of a view makes it and its index be in error."""

    async def inside() -> None:
        world = await asyncio.to_thread(AdapterWorld, tmp_path, engine=NotedEngine())
        client = await world.connect()
        await client.run(
            "CREATE TABLE t (a int); CREATE VIEW v AS SELECT a FROM t;"
            "CREATE TABLE errors (key text NOT NULL, message text NOT NULL);"
            "CREATE VIEW w AS SELECT a FROM v"
        )
        ids = {item.name: item.id for item in world.core.current.items()}
        world.engine.errors |= {ids["v"]: (ids["errors"],), ids["w"]: (ids["errors"],)}
        await client.until_rows(STATUSES, [])
        await client.run("INSERT INTO errors VALUES ('(4)', '22012 division by zero')")
        shown = [
            ("v", "view", "error", "division by zero", "v"),
            ("w", "view", "error", "division by zero", "v"),
        ]
        await client.until_rows(STATUSES, shown)
        since = "SELECT DISTINCT last_status_change_at FROM mz_internal.mz_object_statuses"
        since += " WHERE status = 'error'"
        first = await client.rows(since)
        assert len(first) == 1
        await client.run("INSERT INTO errors VALUES ('(5)', '22012 division by zero')")
        await client.until_rows(STATUSES, shown)
        assert await client.rows(since) == first, "it has been so since the first"
        await client.run("DELETE FROM errors")
        await client.until_rows(STATUSES, [])
        await world.front.settle()
        await asyncio.to_thread(world.close)

    with caplog.at_level(logging.INFO, "waterclock.adapter.health"):
        asyncio.run(inside())
    told = [each.getMessage() for each in caplog.records if "error" in each.getMessage()]
    assert sorted(told) == [
        "view v is in error no longer",
        "view v is in error: division by zero",
        "view w is in error no longer",
        "view w is in error: division by zero (in view v)",
    ]


def test_a_source_that_can_not_be_read_does_not_run(tmp_path: Path) -> None:
    """Undecodable lines, then a file that has shrunk; over a restart, and in metrics."""
    one = tmp_path / "one.json"
    one.write_text('{"id": 1}\n')

    async def inside() -> None:
        async with adapter_world(tmp_path / "data") as world:
            client = await world.connect()
            await client.tag(f"CREATE SOURCE f (id int) FROM FILE '{one}' FORMAT JSON {FAST}")
            await client.tag("CREATE VIEW v AS SELECT id FROM f")
            await client.until_rows("SELECT id FROM f", [(1,)])
            await client.until_rows(STATUSES, [])
            with one.open("a") as more:
                more.write("no json\n")
            reason = f'can not read the value of file "{one}", offset 10'
            in_error = [("f", "source", "error", "f"), ("v", "view", "error", "f")]
            await client.until_rows(BLAMES, in_error)
            [(status, error)] = await client.rows(
                "SELECT status, error FROM mz_internal.mz_source_statuses WHERE name = 'f'"
            )
            assert status == "error"
            assert error.startswith(reason)
            text, _ = Metrics(lambda: facts_of(world.core, 0)).exposition()
            lines = text.decode().splitlines()
            for line in (
                'waterclock_source_health{health="error",source="public.f"} 1.0',
                'waterclock_source_undecodable_messages_total{source="public.f"} 1.0',
                'waterclock_object_in_error{object="public.f",type="source"} 1.0',
                'waterclock_object_in_error{object="public.v",type="view"} 1.0',
            ):
                assert line in lines, text.decode()
            await asyncio.to_thread(world.close)
            await asyncio.to_thread(world.open)
            client = await world.connect()
            await client.until_rows(BLAMES, in_error)
            one.write_text("")
            failed = [("f", "source", "failed", "f"), ("v", "view", "error", "f")]
            await client.until_rows(BLAMES, failed)

    asyncio.run(inside())


@in_world
async def test_what_is_maintained_does_not_run_while_it_is_in_error(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run(
        "CREATE TABLE t (a int); CREATE TABLE errors (key text NOT NULL, message text NOT NULL)"
    )
    world.engine.__class__ = NotedEngine
    await client.run("CREATE INDEX i ON t (a)")
    ids = {item.name: item.id for item in world.core.current.items()}
    world.engine.statuses[ids["i"]] = Status(Health.RUNNING, 1, rows=0)
    world.engine.errors[ids["i"]] = (ids["errors"],)
    await client.run("INSERT INTO errors VALUES ('(4)', '22012 division by zero')")
    await client.until_rows(
        "SELECT status, error FROM mz_internal.mz_hydration_statuses",
        [("error", "division by zero")],
    )


def test_a_read_that_waits_for_a_stalled_source_says_so(tmp_path: Path) -> None:
    """In a notice after two seconds, and in the error when the time is over."""
    folder = tmp_path / "lines"
    folder.mkdir()
    (folder / "one.txt").write_text("a\n")

    async def inside() -> None:
        async with adapter_world(tmp_path / "data") as world:
            client = await world.connect()
            await client.run(f"CREATE SOURCE f FROM FILE '{folder}' FORMAT TEXT {FAST}")
            await client.until_rows("SELECT text FROM f", [("a",)])
            folder.rename(tmp_path / "away")
            await client.until_rows(BLAMES, [("f", "source", "stalled", "f")])
            await client.run("CREATE TABLE later (a int); INSERT INTO later VALUES (1)")
            await client.run("SET statement_timeout = '200ms'")
            error = await client.fails("SELECT text FROM f")
            assert (error.sqlstate, error.message) == (
                "57014",
                "canceling statement due to statement timeout",
            )
            reason = f'source f is stalled: "{folder}" does not exist.'
            assert error.detail == f"It waited for source f. {reason}"
            assert client.notices == [], "that was too short for a notice"
            await client.run("SET statement_timeout = 0")
            waiting = asyncio.create_task(client.rows("SELECT text FROM f"))
            while not client.notices:
                await asyncio.sleep(0.02)
            [notice] = client.notices
            assert (notice.message, notice.detail) == ("the read waits for source f", reason)
            assert notice.hint is not None
            assert "SET transaction_isolation = serializable" in notice.hint
            await asyncio.sleep(0)
            client.session.cancel()
            with pytest.raises(WaterclockError, match="due to user request") as raised:
                await waiting
            assert raised.value.detail == error.detail
            await client.session.fail()
            await client.run("SET transaction_isolation = serializable")
            assert await client.rows("SELECT text FROM f") == [("a",)], "that is the remedy"
            (tmp_path / "away").rename(folder)
            (folder / "one.txt").write_text("a\nb\n")
            await client.until_rows("SELECT text FROM f", [("a",), ("b",)])

    asyncio.run(inside())


@in_world
async def test_a_read_that_waits_for_something_else_names_that(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int); SET statement_timeout = '200ms'")
    far = world.core.oracle.read_ts() + 600_000
    error = await client.fails(f"SELECT * FROM t AS OF {far}")
    assert error.detail == (
        "It waited for table t. table t is not complete yet at the time of the read."
    )
