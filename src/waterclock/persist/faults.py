"""When a call on an unreliable port fails, decided by a seeded generator.

A failure strikes before the effect of the call, or after it, as when an answer is lost on the way;
the caller sees `Unavailable` in both cases and can not tell them apart. Every call made while
failures are on takes the same draws for the same outcome, so one seed and one sequence of calls
give one sequence of failures. With several threads the sequence of calls is the scheduler's, and so
are the failures.

It does not delay, reorder or damage anything.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from random import Random
from typing import TypeVar

from waterclock.persist.errors import Unavailable

T = TypeVar("T")


class Faults:
    """The source of failures of one port; `failure_rate` is the probability that a call fails."""

    def __init__(self, randomness: int | Random, failure_rate: float) -> None:
        assert 0 <= failure_rate <= 1, failure_rate
        self._random = randomness if isinstance(randomness, Random) else Random(randomness)
        self._failure_rate = failure_rate
        self._reliable_depth = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def reliable(self) -> Iterator[None]:
        """No call fails inside the block, whatever the thread. May be nested."""
        with self._lock:
            self._reliable_depth += 1
        try:
            yield
        finally:
            with self._lock:
                self._reliable_depth -= 1

    def call(
        self, name: str, effect: Callable[[], T], undo: Callable[[T], None] | None = None
    ) -> T:
        """Run `effect`, or fail before it or after it.

        `undo` releases a result that the caller is not given.
        """
        chance = self._draw()
        if chance < self._failure_rate / 2:
            raise _lost(name)
        result = effect()
        if chance < self._failure_rate:
            if undo is not None:
                undo(result)
            raise _lost(name)
        return result

    def iterate(self, name: str, effect: Callable[[], Iterator[T]]) -> Iterator[T]:
        """Run `effect`, or fail before it, or after some of its items, perhaps all of them."""
        chance = self._draw()
        if chance < self._failure_rate / 2:
            raise _lost(name)
        if chance >= self._failure_rate:
            return effect()
        items = tuple(effect())
        with self._lock:
            cut = self._random.randint(0, len(items))
        return _broken_off(name, items[:cut])

    def _draw(self) -> float:
        with self._lock:
            return 1.0 if self._reliable_depth else self._random.random()


def _broken_off(name: str, items: tuple[T, ...]) -> Iterator[T]:
    yield from items
    raise _lost(name)


def _lost(name: str) -> Unavailable:
    return Unavailable(f"could not {name}: simulated failure")
