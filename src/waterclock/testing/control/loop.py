"""An event loop that lives in one thread of a simulation.

It is asyncio's own, with another place to wait: instead of sockets it waits for the scheduler, that
is, for a call from another thread or for its next timer. `asyncio.to_thread` runs in the pool of
the simulation. So coroutines need no change to be simulated.
"""

from __future__ import annotations

import asyncio
from typing import Any

from waterclock.testing.control.scheduler import Pool, Scheduler

_THREADS = 12


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs in the thread that makes it."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._is_woken = False
        self._selector = self
        self._default_executor = Pool(scheduler, _THREADS, "asyncio")

    def time(self) -> float:
        return self._scheduler.now

    def select(self, timeout: float | None) -> list[Any]:
        """Wait, as a selector does."""
        if timeout == 0:
            self._scheduler.point()
        else:
            self._scheduler.wait(lambda: self._is_woken, timeout)
        self._is_woken = False
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        del event_list

    def _write_to_self(self) -> None:
        self._is_woken = True
