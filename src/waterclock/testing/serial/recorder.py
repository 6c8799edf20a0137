"""Keeps the history of clients in several threads, and the clients themselves.

A client does one operation after the other until it is told to stop. What it is told decides what
is noted: an answer, a refusal, or, if the connection broke, that nobody knows.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import psycopg

from waterclock.testing.serial.history import Kind, Operation, Outcome, Step, Value

_REFUSED = "40001"
_UNKNOWN = "40003"
Work = Callable[[psycopg.Connection[Any]], Sequence[Step]]


class Recorder:
    """All that was done so far. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values = itertools.count(1)
        self.operations: list[Operation] = []
        self.errors: list[BaseException] = []
        """What ended clients that were not told to stop."""
        self.failures: Counter[str] = Counter()
        """How often something was not answered, by what it was and the SQLSTATE."""

    @staticmethod
    def now() -> int:
        return time.monotonic_ns()

    def value(self) -> Value:
        """One that nobody else writes."""
        with self._lock:
            return next(self._values)

    def add(
        self,
        client: str,
        kind: Kind,
        steps: Sequence[Step],
        begun: int,
        outcome: Outcome = Outcome.OK,
    ) -> None:
        """Note an operation that has ended now."""
        ended = None if outcome is Outcome.UNKNOWN else self.now()
        with self._lock:
            number = len(self.operations) + 1
            made = Operation(number, client, kind, tuple(steps), begun, ended, outcome)
            self.operations.append(made)

    def note_failure(self, what: str, error: psycopg.Error) -> None:
        with self._lock:
            self.failures[f"{what}: {error.sqlstate or 'no answer'}"] += 1

    def counts(self) -> Counter[str]:
        """How many operations of each kind have succeeded."""
        with self._lock:
            return Counter(each.kind.value for each in self.operations if each.outcome == "ok")

    def history(self) -> list[Operation]:
        """The operations with moments in microseconds from the first of them on; an operation takes
        no less than it did.
        """
        with self._lock:
            first = min((each.begun for each in self.operations), default=0)
            return [
                replace(
                    each,
                    begun=(each.begun - first) // 1000,
                    ended=None if each.ended is None else -((first - each.ended) // 1000),
                )
                for each in self.operations
            ]


class Here:
    """One client's connection to a server that may go at any time; made again when it is needed."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect = connect
        self._connection: psycopg.Connection[Any] | None = None

    def get(self) -> psycopg.Connection[Any] | None:
        """The connection; None if there is no server now."""
        if self._connection is None or self._connection.closed:
            self.close()
            try:
                self._connection = self._connect()
            except psycopg.OperationalError:
                time.sleep(0.2)
                return None
        return self._connection

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class Client(ABC):
    """One client, in a thread of its own, with randomness of its own."""

    def __init__(self, recorder: Recorder, name: str, seed: int) -> None:
        self.recorder = recorder
        self.name = name
        self.random = random.Random(f"{seed} {name}")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let the operation under way be the last one."""
        self._stop.set()

    def join(self, seconds: float) -> bool:
        """Whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    @abstractmethod
    def act(self) -> None:
        """Do something."""

    @abstractmethod
    def close(self) -> None:
        """Let go of all connections."""

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self.act()
        except BaseException as error:
            self.recorder.errors.append(error)
        finally:
            self.close()

    def read(self, here: Here, kind: Kind, work: Work) -> bool:
        """Note what a read gives; one that fails tells nothing. Whether it was answered."""
        connection = here.get()
        if connection is None:
            return False
        begun = self.recorder.now()
        try:
            steps = work(connection)
        except psycopg.OperationalError as error:  # the server is gone, or upstream for too long
            self.recorder.note_failure(f"{kind} read", error)
            here.close()
            return False
        self.recorder.add(self.name, kind, steps, begun)
        return True

    def write(self, here: Here, kind: Kind, steps: Sequence[Step], work: Work) -> bool:
        """Note a write with all its steps, and what is known of its outcome. `work` gives what it
        has read besides. Whether it was acknowledged.
        """
        connection = here.get()
        if connection is None:
            return False
        begun = self.recorder.now()
        try:
            read = work(connection)
        except psycopg.Error as error:
            is_refused = error.sqlstate == _REFUSED and not connection.closed
            if not is_refused and not (connection.closed or error.sqlstate == _UNKNOWN):
                raise
            self.recorder.note_failure(f"{kind} write", error)
            outcome = Outcome.FAILED if is_refused else Outcome.UNKNOWN
            self.recorder.add(self.name, kind, steps, begun, outcome)
            here.close()
            return False
        self.recorder.add(self.name, kind, [*read, *steps], begun)
        return True
