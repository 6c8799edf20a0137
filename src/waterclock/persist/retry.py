"""Doing an idempotent thing again when the world failed, with growing pauses and a bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from waterclock.persist.errors import NotWritten, Unavailable
from waterclock.runtime import SYSTEM

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how patiently to try. The defaults give the world about half a minute."""

    attempts: int = 12
    first_pause_s: float = 0.02
    longest_pause_s: float = 5.0
    sleep: Callable[[float], None] = SYSTEM.sleep

    def pauses(self) -> Iterator[float]:
        """The pause after each failed attempt but the last."""
        pause = self.first_pause_s
        for _ in range(self.attempts - 1):
            yield pause
            pause = min(2 * pause, self.longest_pause_s)

    def call(self, action: Callable[[], R]) -> R:
        """The result of `action`, which must be idempotent; the last `Unavailable` if none of the
        attempts worked. What a full disk refuses is not tried again: that would keep everybody
        waiting for somebody to make room.
        """
        for pause in self.pauses():
            try:
                return action()
            except NotWritten as error:
                if error.is_lasting:
                    raise
                self.sleep(pause)
            except Unavailable:
                self.sleep(pause)
        return action()
