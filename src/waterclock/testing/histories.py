"""Whether the times of concurrent reads and writes could have come from one after the other.

Each operation is known by when it was called, when it returned, and its timestamp. The laws ask for
one order of all operations in which times never decrease and a write is strictly after every read
before it. That leaves no choice: the order is by time, and at equal times writes first. It is right
if no operation that had returned before another was called comes after it.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Kind(IntEnum):
    """In the order of operations at one time."""

    WRITE = 0
    READ = 1


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that took from `called` to `returned`, in moments that are all different."""

    kind: Kind
    called: int
    returned: int
    time: int

    @property
    def rank(self) -> tuple[int, Kind]:
        """Its place in the only order that the laws allow."""
        return (self.time, self.kind)


class History:
    """Collects operations from many threads, with moments that order calls and returns."""

    def __init__(self) -> None:
        self._moments = itertools.count()
        self._lock = threading.Lock()
        self.operations: list[Operation] = []

    def run(self, kind: Kind, operation: Callable[[], int]) -> int:
        """Run the operation, which tells its time, and note it."""
        called = self._moment()
        time = operation()
        returned = self._moment()
        self.operations.append(Operation(kind, called, returned, time))
        return time

    def _moment(self) -> int:
        with self._lock:
            return next(self._moments)


def violations(history: Sequence[Operation]) -> list[str]:
    """Each operation that contradicts one which had ended before it began; none if all is well."""
    moments: list[tuple[int, bool, Operation]] = sorted(
        itertools.chain(
            ((each.called, True, each) for each in history),
            ((each.returned, False, each) for each in history),
        ),
        key=_moment_of,
    )
    latest: Operation | None = None
    found = []
    for _, is_call, each in moments:
        if is_call:
            if latest is not None and latest.rank > each.rank:
                found.append(f"{each} began after {latest} had ended, and is before it in time")
        elif latest is None or each.rank > latest.rank:
            latest = each
    return found


def _moment_of(entry: tuple[int, bool, Any]) -> int:
    return entry[0]


def together(workers: Sequence[Callable[[], None]]) -> None:
    """Run all workers at once, each in a thread, and raise what one of them raised."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(len(workers))

    def run(worker: Callable[[], None]) -> None:
        barrier.wait(120)
        try:
            worker()
        except BaseException as error:  # told to the test below
            failures.append(error)

    threads = [threading.Thread(target=run, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
