"""One thread that does work in the background, step by step, and rests when there is none.

It takes at most a fixed share of a core, so that it never crowds out what users wait for.

A step that fails because the world failed is tried again later, and so is one that met damage: the
rest of the data is looked after all the same. One that fails because the data was taken over or the
store is gone ends the thread. Anything else is a bug of ours: it is logged with its trace, and ends
the thread too.
"""

from __future__ import annotations

import gc
import logging
import sys
import threading
from collections.abc import Callable

from waterclock.errors import WaterclockError
from waterclock.persist.errors import BlobMissing, Damaged, Fenced, Unavailable
from waterclock.runtime import SYSTEM, Runtime

_SWITCH_INTERVAL_S = 0.0005
"""How long one thread may keep Python to itself while another waits. With the usual 5 ms, a caller
that returns from a sync of 0.2 ms may have to wait for the background 25 times as long as for the
disk.
"""
_COLLECT_AFTER = 10_000
"""How many objects are made and not freed before the garbage collector looks at them. With the
usual 700 it goes again and again through what is on its way from many callers to one commit, none
of which is garbage.
"""
_RECURSION = 20_000
"""Calls inside one another. A level of a nested statement takes up to 25 of them; the stack of a
thread would hold more than twice as many.
"""
_STACK_BYTES = 64 << 20
"""The most that the stack of a thread may grow to; only what is used takes memory."""
_REST_S = 0.25
_REST_AFTER_FAILURE_S = 1.0
_REST_AFTER_DAMAGE_S = 60.0
_REST_PER_WORK = 2.0
_log = logging.getLogger(__name__)


def favour_callers() -> None:
    """Set Python so that work in the background delays no caller: for a process to do first.

    Statements that are nested deeply need deep recursion, in threads whose stacks hold it.
    """
    sys.setrecursionlimit(_RECURSION)
    threading.stack_size(_STACK_BYTES)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.set_threshold(_COLLECT_AFTER)


class Background:
    """Runs `step` until stopped, or until a step fails and `is_over` says that all others will.

    `step` says whether there may be more to do at once.
    """

    def __init__(
        self, step: Callable[[], bool], is_over: Callable[[], bool], runtime: Runtime = SYSTEM
    ) -> None:
        self._step = step
        self._is_over = is_over
        self._runtime = runtime
        self._stopping = runtime.event()
        self._thread = runtime.start_thread(self._run, "maintenance")

    def _run(self) -> None:
        while not self._stopping.is_set():
            began = self._runtime.monotonic_s()
            try:
                worked = self._step()
                rest = _REST_PER_WORK * (self._runtime.monotonic_s() - began) if worked else _REST_S
            except Fenced:
                return
            except Unavailable as error:
                if self._is_over():
                    return
                _log.warning("background work failed and will be tried again: %s", error)
                rest = _REST_AFTER_FAILURE_S
            except (Damaged, BlobMissing) as error:
                _log.error("background work met damage and goes on with the rest: %s", error)
                rest = _REST_AFTER_DAMAGE_S
            except WaterclockError:
                _log.exception("background work stopped")
                return
            self._stopping.wait(rest)

    def stop(self) -> None:
        """Stop after the present step and wait for that."""
        self._stopping.set()
        self._thread.join()
