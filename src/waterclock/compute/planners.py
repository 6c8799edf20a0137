"""Threads that have Catalyst plan, so that whoever waits for a plan can stop waiting.

Catalyst can not be stopped from outside for certain: it folds constants and searches for a plan for
as long as that takes. So nobody plans in a thread that is needed for anything else. A plan that is
given up, because the statement was cancelled or the time is over, is left behind: the thread in
the JVM is interrupted, what waited is told at once, and what the thread may still find is dropped.

How many are left behind is bounded. Beyond that, `stuck` is told, for only a new engine gets rid of
threads that do not react to being interrupted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, ClassVar, TypeVar

from waterclock.compute.live_session import Incarnation
from waterclock.errors import WaterclockError
from waterclock.runtime import SYSTEM, Runtime

T = TypeVar("T")
_AT_WORK = 8
"""Threads that plan concurrently."""
_LEFT_BEHIND = 8
"""Limit on abandoned planner threads that are still running."""
PLAN_TIMEOUT_S = 60.0


class PlanningTooLong(WaterclockError):
    """A statement that can not be planned in the time there is."""

    sqlstate: ClassVar[str] = "54001"


class PlanningCancelled(WaterclockError):
    """Nobody waits for the plan any more."""

    sqlstate: ClassVar[str] = "57014"


class Planning:
    """One plan that is being made. Thread-safe."""

    def __init__(self) -> None:
        self.outcome: Future[Any] = Future()
        self._lock = threading.Lock()
        self._thread: Any = None
        self._is_interrupted = False

    @property
    def is_at_work(self) -> bool:
        return self._thread is not None

    def try_begin(self, thread: Any) -> bool:
        """A thread of the JVM begins with it; False if nobody waits any more."""
        with self._lock:
            if self.outcome.done():
                return False
            self._thread = thread
            return True

    def end(self, clear: Callable[[], object]) -> None:
        """The thread is done. What interrupted it must not meet what it does next."""
        with self._lock:
            self._thread = None
            if self._is_interrupted:
                clear()

    def interrupt(self) -> None:
        """Interrupt the thread, if it is still at work."""
        with self._lock:
            if self._thread is not None:
                self._is_interrupted = True
                self._thread.interrupt()

    def settle(self, result: object = None, error: BaseException | None = None) -> bool:
        """Tell whoever waits; False if they were told something else before."""
        try:
            if error is None:
                self.outcome.set_result(result)
            else:
                self.outcome.set_exception(error)
        except InvalidStateError:
            return False
        return True


class Planners:
    """Plans one thing per thread. Thread-safe."""

    def __init__(
        self,
        timeout_s: float = PLAN_TIMEOUT_S,
        stuck: Callable[[str], None] = lambda _why: None,
        runtime: Runtime = SYSTEM,
    ) -> None:
        self._timeout_s = timeout_s
        self._stuck = stuck
        self._runtime = runtime
        self._threads = runtime.pool(_AT_WORK + _LEFT_BEHIND, "waterclock-planner")
        self._interrupting = runtime.pool(1, "waterclock-planner-end")
        self._own = threading.local()
        self._lock = threading.Lock()
        self._left: set[Planning] = set()

    def plan(
        self, incarnation: Incarnation, work: Callable[[], T], planning: Planning | None = None
    ) -> T:
        """What the work gives. Raises what it raises, `PlanningTooLong` if it takes too long, and
        what `give_up` was told, if somebody called that meanwhile.
        """
        planning = planning or Planning()
        self._threads.submit(self._work, incarnation, work, planning)
        self._runtime.wait([planning.outcome], self._timeout_s)
        if not planning.outcome.done():
            error = PlanningTooLong(
                "the statement takes too long to plan",
                detail=f"No plan was found within {self._timeout_s:g} s.",
                hint="Simplify the statement, or raise the server's setting plan_timeout.",
            )
            self.give_up(planning, error)
        result: T = planning.outcome.result()
        return result

    def give_up(self, planning: Planning, error: WaterclockError) -> bool:
        """Have whoever waits for the plan get this error; False if there is a result already."""
        with self._lock:
            if not planning.settle(error=error):
                return False
            if not planning.is_at_work:
                return True
            self._left.add(planning)
            count = len(self._left)
        self._interrupting.submit(self._interrupt, planning)
        if count > _LEFT_BEHIND:
            self._stuck(f"{count} statements that were given up are still being planned")
        return True

    @staticmethod
    def _interrupt(planning: Planning) -> None:
        with suppress(Exception):  # the JVM may be gone, and the thread with it
            planning.interrupt()

    def _work(
        self, incarnation: Incarnation, work: Callable[[], object], planning: Planning
    ) -> None:
        try:
            with incarnation.guarded():
                if not planning.try_begin(self._jvm_thread(incarnation)):
                    return
                try:
                    result = work()
                finally:
                    planning.end(lambda: _threads_of(incarnation).interrupted())
        except BaseException as error:
            planning.settle(error=error)
        else:
            planning.settle(result)
        finally:
            with self._lock:
                self._left.discard(planning)

    def _jvm_thread(self, incarnation: Incarnation) -> Any:
        """The thread in the JVM that does what this thread asks for: always the same one."""
        number, thread = getattr(self._own, "thread", (0, None))
        if number != incarnation.number:
            thread = _threads_of(incarnation).currentThread()
            self._own.thread = incarnation.number, thread
        return thread

    def close(self) -> None:
        """Plan no more. Threads that are left behind end with the JVM."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._interrupting.shutdown(wait=False, cancel_futures=True)


def _threads_of(incarnation: Incarnation) -> Any:
    jvm: Any = incarnation.spark.sparkContext._jvm
    return jvm.java.lang.Thread
