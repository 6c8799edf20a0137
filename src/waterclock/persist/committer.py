"""Who commits: whoever is there first, for everybody who waits.

Work is committed in groups, one group at a time, in the order of submission. A group is everything
that waits when the one before is done, so the more callers there are, the larger the groups, and
the fewer syncs to disk.

Handing work to another thread and being woken again takes longer than a sync of a fast disk.
Therefore a caller whose turn it is leads: it commits the group in its own thread, and others find
their work done. An event loop leads at the end of a turn, with all that its tasks submitted in it;
but only while syncs are quick, because it must not be blocked. What nobody leads is left to a
thread of our own, and so is what turns out to take long.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from waterclock.runtime import SYSTEM, Runtime

R = TypeVar("R")

_LARGEST_GROUP = 4096


class Waiting(Generic[R]):
    """Some work on its way, its outcome once it has one, and whoever waits for it."""

    __slots__ = ("answer", "done", "error", "future", "work")

    def __init__(
        self,
        work: Callable[..., Any],
        future: asyncio.Future[R] | None = None,
        runtime: Runtime = SYSTEM,
    ) -> None:
        self.work = work
        self.future = future
        self.answer: Any = None
        self.error: BaseException | None = None
        if future is None:
            self.done = runtime.lock()
            self.done.acquire()

    def wait(self) -> R:
        """The answer, or the error, once the group is committed."""
        self.done.acquire()
        if self.error is not None:
            raise self.error
        answer: R = self.answer
        return answer

    def settle(self) -> None:
        """Tell the waiting coroutine, in its own event loop."""
        future = self.future
        if future is None or future.done():
            return
        if self.error is not None:
            future.set_exception(self.error)
        else:
            future.set_result(self.answer)


Group = list[Waiting[Any]]


class Committer:
    """Runs groups of work one after the other. Thread-safe.

    `commit(group, patient)` does a group's work and gives every member its outcome. If it is not
    patient and would have to wait for long, it may return False instead; it is then called again
    for the same group, patiently, and nothing comes in between. It must not raise.
    """

    def __init__(self, commit: Callable[[Group, bool], bool], runtime: Runtime = SYSTEM) -> None:
        self._commit = commit
        self._queue: deque[Waiting[Any]] = deque()
        self._leading = runtime.lock()
        """Held by whoever commits."""
        self._unfinished: Group | None = None
        """A group that needs patience. It comes before all others."""
        self._wake = runtime.event()
        self._turning: set[asyncio.AbstractEventLoop] = set()
        self._closing = False
        self._thread = runtime.start_thread(self._run, "committer")

    def submit(self, waiting: Waiting[Any]) -> None:
        """Commit the work, here if nobody else is committing; `waiting.wait` gives its outcome."""
        self._queue.append(waiting)
        self._lead(patient=True)

    def submit_from(
        self, loop: asyncio.AbstractEventLoop, waiting: Waiting[Any], is_quick: Callable[[], bool]
    ) -> None:
        """Commit the work after this turn of the event loop, together with all others of it."""
        self._queue.append(waiting)
        if loop not in self._turning:
            self._turning.add(loop)
            loop.call_soon(self._end_turn, loop, is_quick)

    def _end_turn(self, loop: asyncio.AbstractEventLoop, is_quick: Callable[[], bool]) -> None:
        self._turning.discard(loop)
        if is_quick() and not self._closing:
            self._lead(patient=False)
        else:
            self._wake.set()

    def _lead(self, *, patient: bool) -> None:
        """Commit one group, unless somebody else is at it."""
        if self._leading.acquire(blocking=False):
            try:
                self._commit_next(patient)
            finally:
                self._leading.release()
        if self._queue or self._unfinished:  # whoever led may have looked before we queued
            self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            while self._queue or self._unfinished:
                with self._leading:
                    self._commit_next(patient=True)
            if self._closing:
                return

    def _commit_next(self, patient: bool) -> None:
        """Commit the group that was left unfinished, else the next one. For whoever leads."""
        group = self._unfinished
        if group is None:
            group = self._taken(_LARGEST_GROUP)
        elif not patient:
            return
        if group:
            self._unfinished = None if self._commit(group, patient) else group
        if self._unfinished is None:
            release(group)

    def close(self) -> None:
        """Commit what was submitted, then stop. Later work stays in the queue: see `refuse`."""
        self._closing = True
        self._wake.set()
        self._thread.join()

    def refuse(self, reason: BaseException) -> None:
        """Answer everybody in the queue with an error."""
        while group := self._taken(_LARGEST_GROUP):
            for waiting in group:
                waiting.error = reason
            release(group)

    def _taken(self, most: int) -> Group:
        """The first in the queue. Somebody else may be taking from it too."""
        group: Group = []
        with suppress(IndexError):
            while len(group) < most:
                group.append(self._queue.popleft())
        return group


def release(group: Group) -> None:
    """Wake everybody, with one call into each other event loop however many wait in it."""
    here = asyncio._get_running_loop()
    elsewhere: defaultdict[asyncio.AbstractEventLoop, Group] = defaultdict(list)
    for waiting in group:
        if waiting.future is None:
            waiting.done.release()
        elif (loop := waiting.future.get_loop()) is here:
            waiting.settle()
        else:
            elsewhere[loop].append(waiting)
    for loop, waiters in elsewhere.items():
        with suppress(RuntimeError):  # the loop is closed, and nobody waits in it any more
            loop.call_soon_threadsafe(_settle, waiters)


def _settle(waiters: Group) -> None:
    for waiting in waiters:
        waiting.settle()
