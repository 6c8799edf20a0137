"""Stopping a statement from outside: because the client asks, or because its time is over.

Each statement has a `Cancellation` of its own, so that a request to stop that comes too late cannot
stop the next one. The clock runs from the start of a statement until its last row has been taken.

A durable change is not stopped but waited for (`outcome_of`): see `changes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from waterclock.adapter.api import (
    AtHand,
    Batches,
    CopyIn,
    CopyOut,
    Done,
    EmptyQuery,
    Notice,
    Response,
    Rows,
)
from waterclock.adapter.changes import Underway
from waterclock.adapter.errors import OutcomeUnknown, StatementCancelled
from waterclock.adapter.reading import Cancellation
from waterclock.adapter.results import closed
from waterclock.adapter.waiting import REMEDY

T = TypeVar("T")
_SOON_S = 0.3
"""Time that a cancelled statement waits for a change past its point of no return."""


class Watch:
    """Over the statements of one session. Used in its event loop, except for `cancel`."""

    def __init__(self, notify: Callable[[Notice], None] = lambda _: None) -> None:
        """`notify` tells the client of the session something."""
        self._notify = notify
        self.cancellation = Cancellation(notify)
        self._loop = asyncio.get_running_loop()
        self._timeout: asyncio.TimerHandle | None = None
        self._timed_out = False
        self._unsettled: Underway[Any] | None = None
        """A change of an earlier statement, whose outcome was not known when that was stopped."""

    def cancel(self) -> None:
        """Stop the statement that runs, if one does. From any thread."""
        self._loop.call_soon_threadsafe(self.end)

    def end(self) -> None:
        """Stop the statement that runs."""
        self.cancellation.set()

    async def run(self, work: Callable[[], Awaitable[T]], millis: int) -> T:
        """Start a statement, which may take so long; 0 is for ever."""
        self.cancellation = Cancellation(self._notify)
        self._timed_out = False
        if millis:
            self._timeout = self._loop.call_later(millis / 1000, self._time_out)
        return await self.stoppably(work)

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
                    yield await self.stoppably(partial(anext, batches))
                except StopAsyncIteration:
                    return
        finally:
            self.stop_clock()
            await closed(batches)

    async def outcome_of(self, change: Underway[T]) -> T:
        """What becomes of a durable change: its answer, or its error.

        A request to stop takes the change back if that is still possible. Else it comes too late,
        and the outcome counts; if that is not known soon, raises `OutcomeUnknown`, and the next
        statement waits for it.
        """
        if not change.finished.done():
            await self.finished_or_stopped(change)
        if not change.outcome.done():
            if change.try_revoke():
                raise self._stopped()
            await asyncio.wait([change.outcome], timeout=_SOON_S)
        if not change.outcome.done():
            self._unsettled = change
            raise OutcomeUnknown(
                f"{self._stopped().message}, but it may have taken effect",
                detail="It was stopped while its changes were being made durable.",
                hint="The next statement of the session waits until that is decided.",
            )
        return change.outcome.result()

    async def settled(self) -> None:
        """Wait until the outcome of the change before is known."""
        change = self._unsettled
        if change is not None:
            await asyncio.wait([change.outcome])
            self._unsettled = None

    def require_wanted(self) -> None:
        """Raise if somebody wants the statement to stop: for one that goes on after a change."""
        if self.cancellation.is_set:
            raise self._stopped()

    async def finished_or_stopped(self, change: Underway[Any]) -> None:
        """Wait until the change is finished, or somebody wants the statement to stop.

        The latter is no error here: what ends a statement must not be interrupted half way.
        """
        waiting = self._loop.create_future()

        def wake(*_: object) -> None:
            if not waiting.done():
                waiting.set_result(None)

        change.finished.add_done_callback(wake)
        try:
            with self.cancellation.calling_only(wake):
                await waiting
        except asyncio.CancelledError:  # the session is being ended
            change.try_revoke()
            raise
        finally:
            change.finished.remove_done_callback(wake)

    async def pause(self, seconds: float) -> None:
        """Wait; an error as soon as somebody wants the statement to stop."""
        await self.stoppably(partial(asyncio.sleep, seconds))

    def stop_clock(self) -> None:
        """The statement has ended, or has no end of its own: it may take as long as it likes."""
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    async def stoppably(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something, and end it as soon as somebody wants the statement to stop.

        It runs in the task that is there: a task of its own would cost more than most statements.
        """
        cancellation = self.cancellation
        if cancellation.is_set:
            raise self._stopped()
        task = asyncio.current_task()
        assert task is not None, "sessions are used by tasks"
        is_cancelled = False

        def interrupt() -> None:
            nonlocal is_cancelled
            is_cancelled = task.cancel()

        with cancellation.calling(interrupt):
            try:
                return await work()
            except asyncio.CancelledError:
                if is_cancelled and task.cancelling() <= 1:
                    raise self._stopped() from None
                raise
            finally:
                if is_cancelled:
                    task.uncancel()

    def _time_out(self) -> None:
        self._timed_out = True
        self.end()

    def _stopped(self) -> StatementCancelled:
        why = "statement timeout" if self._timed_out else "user request"
        waiting = self.cancellation.waiting
        if waiting is None:
            return StatementCancelled(f"canceling statement due to {why}")
        late, reason = waiting.reason()
        return StatementCancelled(
            f"canceling statement due to {why}",
            detail=f"It waited for {late}. {reason}",
            hint=REMEDY,
        )
