"""Reading and planning statements without delaying other sessions.

Most statements are small: what a hop to another thread costs is more than reading them. So work
begins on the event loop with a small allowance of steps. If that is used up, it is begun again in
a thread of the pool, under the budget of the server, and can be given up there at any step. Work
has no effects, so beginning it again is harmless.

This is also the net under the budget: `RecursionError` and `MemoryError` become what PostgreSQL
says of statements that need too much, wherever the recursion was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import ClassVar, TypeVar

from waterclock.errors import WaterclockError
from waterclock.sql.budget import Budget, Meter, TooMuchHere

T = TypeVar("T")
SMALL_TEXT = 4000
"""A text of more characters is not even begun on the event loop."""
_ALLOWANCE = 1500
"""Steps on the event loop: a few milliseconds."""
_THREADS = 8
_MOST_WAITING = 1000
"""As many as there can be sessions. A thread is made when none is idle."""


class OutOfMemory(WaterclockError):
    """There is not enough memory to read or plan the statement."""

    sqlstate: ClassVar[str] = "53200"


class Offload:
    """Where statements are read and planned: on the event loop, or in one of a few threads."""

    def __init__(self, budget: Budget, pool: Callable[[int, str], Executor]) -> None:
        """`pool` makes a pool of so many threads, with a name."""
        self.budget = budget
        self._executor = pool(_THREADS, "waterclock-planning")
        self._waiting = pool(_MOST_WAITING, "waterclock-catalog")

    async def run(self, work: Callable[[Meter], T], size: int = 0) -> T:
        """What the work returns. `size` is that of the text it reads.

        If the caller is cancelled, the work is given up at its next step.
        """
        if size <= SMALL_TEXT:
            try:
                return self.at_once(work)
            except TooMuchHere:
                pass
        meter = Meter(self.budget)
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._executor, within_limits, work, meter)
        except asyncio.CancelledError:
            meter.stop()
            raise

    async def run_long(self, work: Callable[[], T]) -> T:
        """What the work returns, which may take any time and wait for others.

        It keeps no thread from anybody else. Giving it up is the caller's.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._waiting, within_limits, lambda _: work(), Meter(self.budget)
        )

    def at_once(self, work: Callable[[Meter], T]) -> T:
        """What the work returns, here and now; `TooMuchHere` if it is not small."""
        meter = Meter(self.budget, _ALLOWANCE)
        try:
            return work(meter)
        except RecursionError:
            raise TooMuchHere from None

    def close(self) -> None:
        """Take no more work."""
        for executor in (self._executor, self._waiting):
            executor.shutdown(wait=False, cancel_futures=True)


def within_limits(work: Callable[[Meter], T], meter: Meter) -> T:
    """What the work returns; what Python can not do becomes an error of the statement."""
    try:
        return work(meter)
    except RecursionError:
        raise meter.budget.too_deep() from None
    except MemoryError:
        raise OutOfMemory(
            "out of memory",
            detail="The statement could not be read or planned.",
            hint="Make it smaller.",
        ) from None
