"""An event loop in a thread of its own, for programs that know nothing of event loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import TimeoutError as NotYet
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")
_GLANCE_S = 0.2


class LoopThread:
    """Runs coroutines for threads that wait for them."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="waterclock-loop", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns. Interrupting the wait (Ctrl-C) cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            while True:
                try:
                    return future.result(_GLANCE_S)  # so that signals are seen meanwhile
                except NotYet:
                    if future.done():
                        raise
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop; what is still running is cancelled first."""
        self.run(_end_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end_all() -> None:
    """Cancel all other tasks of this loop, and wait for their end."""
    loop = asyncio.get_running_loop()
    others = asyncio.all_tasks() - {asyncio.current_task(loop)}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
