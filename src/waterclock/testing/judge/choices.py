"""Decisions: drawn from a seed, recorded, and replayed from a record.

Everything random about a case is a whole number below a bound. A record that ends too early goes on
with zeros, and zero is always the simplest choice: so any record, also one with pieces cut out,
gives a case, and smaller records give simpler ones. `smaller` names the records to try.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")
Record = tuple[int, ...]


class Choices:
    """A stream of decisions."""

    def __init__(self, source: int | Record) -> None:
        """From a seed, or from a record."""
        self._random = Random(source) if isinstance(source, int) else None
        self._replayed = () if isinstance(source, int) else source
        self._made: list[int] = []

    @property
    def record(self) -> Record:
        """The decisions so far."""
        return tuple(self._made)

    def below(self, bound: int) -> int:
        """A whole number from 0 to below the bound."""
        place = len(self._made)
        if self._random is not None:
            made = self._random.randrange(bound)
        else:
            made = min(self._replayed[place], bound - 1) if place < len(self._replayed) else 0
        self._made.append(made)
        return made

    def happens(self, percent: int) -> bool:
        """True in so many of a hundred cases; False is the simpler one."""
        return self.below(100) >= 100 - percent

    def pick(self, options: Sequence[T]) -> T:
        """One of the options; the first is the simplest."""
        return options[self.below(len(options))]

    def between(self, least: int, most: int) -> int:
        return least + self.below(most - least + 1)

    def some(self, options: Sequence[T], percent: int) -> list[T]:
        """Each of the options with a probability."""
        return [option for option in options if self.happens(percent)]


def smaller(record: Record) -> Iterator[Record]:
    """Records that are simpler than this one, the boldest first."""
    length = len(record)
    size = max(length // 2, min(length, 1))
    while size:
        for first in range(0, length, size):
            yield record[:first] + record[first + size :]
        size //= 2
    size = max(length // 2, 1)
    while size:
        for first in range(0, length, size):
            zeros = (0,) * len(record[first : first + size])
            if record[first : first + size] != zeros:
                yield record[:first] + zeros + record[first + size :]
        size //= 2
    for place, made in enumerate(record):
        if made > 1:
            yield (*record[:place], made // 2, *record[place + 1 :])
            yield (*record[:place], made - 1, *record[place + 1 :])
