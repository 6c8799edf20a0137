"""The Spark session as it is now: the one place where users of the engine ask for it.

The engine is a process of its own and can die. Whoever owns it says so here (`lost`), and puts a
new session in its place (`restarted`). Everybody else asks for the session each time, and keeps
what belongs to one session together with its `Incarnation`, so that an object of a dead JVM is
never handed to its successor: there the same number may stand for something else.

What this does not do: it neither watches nor starts a JVM (see `server.engine_keeper`).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.sql import SparkSession

from waterclock.errors import EngineDown, WaterclockError

RESTARTING = "A new engine is being started. Try again in a moment."
_BROKEN = (Py4JNetworkError, ConnectionError, EOFError)
"""How a connection to the JVM ends when the JVM does."""


def _is_broken(error: Exception) -> bool:
    """Whether the connection to the JVM broke. An answer that is empty, which is an error without a
    trace of a Java exception, is one that was never given.
    """
    is_empty = type(error) is Py4JError and "Trace:" not in str(error)
    return is_empty or isinstance(error, _BROKEN)


class Availability(Protocol):
    """Whether there is an engine."""

    @property
    def is_up(self) -> bool:
        """Whether what needs the engine can be done now."""

    def down(self) -> EngineDown:
        """What to tell whoever needs the engine while there is none."""

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call back, from any thread, whenever that changes. Returns how to stop that."""


class AlwaysUp:
    """Implements `Availability` for an engine that can not die."""

    is_up = True

    def down(self) -> EngineDown:
        return EngineDown("the engine is not running")

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        del changed
        return lambda: None


class Incarnation:
    """One life of the engine: a session, and whether its JVM is still there."""

    def __init__(self, number: int, spark: SparkSession, has_ended: Callable[[], bool]) -> None:
        self.number = number
        self.spark = spark
        self._has_ended = has_ended
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """Whether this engine is gone for good."""
        return self._is_over or self._has_ended()

    def end(self) -> None:
        """This engine is gone, or is given up."""
        self._is_over = True

    @contextmanager
    def guarded(self) -> Iterator[SparkSession]:
        """Whatever goes wrong inside because the engine is gone becomes `EngineDown`."""
        try:
            yield self.spark
        except EngineDown:
            raise
        except Exception as error:
            if self.is_over or _is_broken(error):
                raise EngineDown(
                    "the engine stopped while it was at work",
                    detail="What it computed is lost; nothing was changed.",
                    hint=RESTARTING,
                ) from (None if isinstance(error, WaterclockError) else error)
            raise


class LiveSession:
    """Implements `Availability`. Thread-safe."""

    def __init__(self, remedy: str = RESTARTING) -> None:
        """There is no session at first. `remedy` is the hint to whoever needs one in vain."""
        self._remedy = remedy
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._current: Incarnation | None = None
        self._problem = "The engine has not been started yet."
        self._watchers: dict[int, Callable[[], None]] = {}
        self._watcher_numbers = itertools.count()

    @staticmethod
    def of(spark: SparkSession) -> LiveSession:
        """With a session that nobody watches."""
        live = LiveSession()
        live.restarted(spark)
        return live

    def restarted(
        self, spark: SparkSession, has_ended: Callable[[], bool] = lambda: False
    ) -> Incarnation:
        """There is a new session. `has_ended` tells at once whether its JVM has ended."""
        with self._lock:
            self._current = incarnation = Incarnation(next(self._numbers), spark, has_ended)
        self._tell()
        return incarnation

    def lost(self, why: str) -> None:
        """The session is gone, for the reason given (a sentence)."""
        with self._lock:
            current, self._current = self._current, None
            self._problem = why
        if current is not None:
            current.end()
            self._tell()

    @property
    def is_up(self) -> bool:
        current = self._current
        return current is not None and not current.is_over

    @property
    def problem(self) -> str | None:
        """Why there is no session; None if there is one."""
        return None if self.is_up else self._problem

    def current(self) -> Incarnation:
        """The engine as it is now; `EngineDown` if there is none."""
        current = self._current
        if current is None or current.is_over:
            raise self.down()
        return current

    def try_current(self) -> Incarnation | None:
        """The engine as it is now; None if there is none."""
        current = self._current
        return None if current is None or current.is_over else current

    @contextmanager
    def using(self) -> Iterator[SparkSession]:
        """The session, for a single use of it; `EngineDown` if it goes meanwhile."""
        with self.current().guarded() as spark:
            yield spark

    def down(self) -> EngineDown:
        return EngineDown("the engine is not running", detail=self._problem, hint=self._remedy)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        with self._lock:
            number = next(self._watcher_numbers)
            self._watchers[number] = changed

        def forget() -> None:
            with self._lock:
                self._watchers.pop(number, None)

        return forget

    def _tell(self) -> None:
        with self._lock:
            watchers = list(self._watchers.values())
        for changed in watchers:
            changed()
