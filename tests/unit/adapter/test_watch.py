"""Stopping a statement: by request, by the clock, while it runs or while its rows are taken."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import wraps

import pyarrow as pa
import pytest

from waterclock.adapter.errors import StatementCancelled
from waterclock.adapter.watch import Watch


def in_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        async def started() -> None:
            await test()

        asyncio.run(started())

    return run


_ROW = pa.record_batch({"a": [1]})


async def _endless() -> AsyncIterator[pa.RecordBatch]:
    while True:
        yield _ROW
        await asyncio.sleep(0)


@in_loop
async def test_a_request_from_another_thread_stops_what_runs() -> None:
    watch = Watch()
    threading.Timer(0.01, watch.cancel).start()
    with pytest.raises(StatementCancelled, match="user request"):
        await watch.run(lambda: asyncio.sleep(60), 0)


@in_loop
async def test_the_clock_stops_what_takes_too_long() -> None:
    with pytest.raises(StatementCancelled, match="statement timeout"):
        await Watch().run(lambda: asyncio.sleep(60), 10)


@in_loop
async def test_a_request_that_comes_late_does_not_stop_the_next_statement() -> None:
    watch = Watch()
    await watch.run(lambda: asyncio.sleep(0), 0)
    watch.end()
    assert await watch.run(lambda: asyncio.sleep(0, "done"), 0) == "done"


@in_loop
async def test_the_clock_runs_until_the_last_row_is_taken() -> None:
    watch = Watch()

    async def take() -> None:
        await watch.run(lambda: asyncio.sleep(0), 20)
        async for _ in watch.stoppable(_endless()):
            pass

    with pytest.raises(StatementCancelled, match="statement timeout"):
        await take()


@in_loop
async def test_what_has_no_end_of_its_own_outlasts_the_clock() -> None:
    watch = Watch()
    await watch.run(lambda: asyncio.sleep(0), 3_600_000)
    clock = watch._timeout
    assert clock is not None
    watch.stop_clock()
    assert clock.cancelled()
    assert await anext(watch.stoppable(_endless())) == _ROW


@in_loop
async def test_the_task_is_usable_after_its_statement_was_stopped() -> None:
    watch = Watch()
    with pytest.raises(StatementCancelled):
        await watch.run(lambda: asyncio.sleep(60), 5)
    assert await watch.run(lambda: asyncio.sleep(0.01, "next"), 0) == "next"
