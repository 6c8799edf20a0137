"""Stopping a statement from outside: because the client asks, or because its time is over.

Each statement has a `Cancellation` of its own, so that a request to stop that comes too late cannot
stop the next one. The clock runs from the start of a statement until its last row has been taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from waterclock.adapter.api import (
    AtHand,
    Batches,
    CopyIn,
    CopyOut,
    Done,
    EmptyQuery,
    Response,
    Rows,
)
from waterclock.adapter.errors import StatementCancelled
from waterclock.adapter.reading import Cancellation
from waterclock.adapter.results import closed

T = TypeVar("T")


class Watch:
    """Over the statements of one session. Used in its event loop, except for `cancel`."""

    def __init__(self) -> None:
        self.cancellation = Cancellation()
        self._loop = asyncio.get_running_loop()
        self._timeout: asyncio.TimerHandle | None = None
        self._timed_out = False

    def cancel(self) -> None:
        """Stop the statement that runs, if one does. From any thread."""
        self._loop.call_soon_threadsafe(self.end)

    def end(self) -> None:
        """Stop the statement that runs."""
        self.cancellation.set()

    async def run(self, work: Callable[[], Awaitable[T]], millis: int) -> T:
        """Start a statement, which may take so long; 0 is for ever."""
        self.cancellation = Cancellation()
        self._timed_out = False
        if millis:
            self._timeout = self._loop.call_later(millis / 1000, self._time_out)
        return await self._stoppably(work)

    def over(self, response: Response) -> Response:
        """The response, with its rows made stoppable."""
        match response:
            case Rows(batches=AtHand()):
                self.stop_clock()
                return response
            case Rows(columns, batches, tag, counted, formats):
                return Rows(columns, self.stoppable(batches), tag, counted, formats)
            case CopyOut(columns, options, batches):
                return CopyOut(columns, options, self.stoppable(batches))
            case CopyIn() | Done() | EmptyQuery():
                self.stop_clock()
                return response

    async def stoppable(self, batches: Batches) -> Batches:
        """The same rows; an error as soon as somebody wants the statement to stop."""
        try:
            while True:
                try:
                    yield await self._stoppably(partial(anext, batches))
                except StopAsyncIteration:
                    return
        finally:
            self.stop_clock()
            await closed(batches)

    def stop_clock(self) -> None:
        """The statement has ended, or has no end of its own: it may take as long as it likes."""
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    async def _stoppably(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something, and end it as soon as somebody wants the statement to stop.

        It runs in the task that is there: a task of its own would cost more than most statements.
        """
        cancellation = self.cancellation
        if cancellation.is_set:
            raise self._stopped()
        task = asyncio.current_task()
        assert task is not None, "sessions are used by tasks"
        with cancellation.calling(task.cancel):
            try:
                return await work()
            except asyncio.CancelledError:
                if cancellation.is_set and task.cancelling() <= 1:
                    raise self._stopped() from None
                raise
            finally:
                if cancellation.is_set:
                    task.uncancel()

    def _time_out(self) -> None:
        self._timed_out = True
        self.end()

    def _stopped(self) -> StatementCancelled:
        why = "statement timeout" if self._timed_out else "user request"
        return StatementCancelled(f"canceling statement due to {why}")
