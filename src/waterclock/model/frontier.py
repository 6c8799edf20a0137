"""Frontiers: the edge between what is settled and what is still open.

A frontier is a set of mutually incomparable times. It stands for the region of all times at or
after one of them. As `since` that region is what may still be read; as `upper` it is what may
still be written.

Invariant: `elements` is an antichain, so a region has exactly one frontier and equality of
frontiers is equality of regions. A frontier F is at or before G when F's region contains G's.
The empty frontier has the empty region and is therefore the last one.

The elements are raw lattice values; the timeline is stored once. Times come in as `Time` and are
checked against it. On a total order there is at most one element, and that case is the hot path
of the whole database: loops below are plain on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from waterclock.model.errors import ForeignTime
from waterclock.model.lattice import Lattice

if TYPE_CHECKING:
    from waterclock.model.timeline import Time, Timeline

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Frontier(Generic[T]):
    """An antichain of times of one timeline.

    Made by `Timeline.frontier` or `Frontier.of`. The bare constructor believes its caller that
    the elements are checked values and an antichain. Every method that takes another frontier
    or a time raises `ForeignTime` if that belongs to another timeline.
    """

    timeline: Timeline[T]
    elements: tuple[T, ...]

    @classmethod
    def of(cls, timeline: Timeline[T], values: Iterable[object]) -> Frontier[T]:
        """The minimal ones among raw values; `NotATime` if one is not of the lattice."""
        check = timeline.lattice.check
        return cls(timeline, _minimal(timeline.lattice, [check(value) for value in values]))

    @property
    def is_empty(self) -> bool:
        """Whether no time is left in the region: nothing more to write, or nothing to read."""
        return not self.elements

    def only(self) -> T | None:
        """The single raw value on a total order, None if empty."""
        assert len(self.elements) <= 1, f"frontier {self} has more than one element"
        return self.elements[0] if self.elements else None

    def less_equal(self, time: Time[T]) -> bool:
        """Whether the time is at or after this frontier, that is, in its region."""
        self._require_same(time.timeline)
        less_equal = self.timeline.lattice.less_equal
        value = time.value
        for element in self.elements:  # noqa: SIM110 (a generator would double the cost)
            if less_equal(element, value):
                return True
        return False

    def less_than(self, time: Time[T]) -> bool:
        """Whether the time is strictly after some element."""
        self._require_same(time.timeline)
        less_equal = self.timeline.lattice.less_equal
        value = time.value
        for element in self.elements:  # noqa: SIM110 (as above)
            if element != value and less_equal(element, value):
                return True
        return False

    def insert(self, time: Time[T]) -> Frontier[T]:
        """The frontier of this region together with everything at or after the time."""
        self._require_same(time.timeline)
        return Frontier(
            self.timeline, _minimal(self.timeline.lattice, (*self.elements, time.value))
        )

    def meet(self, other: Frontier[T]) -> Frontier[T]:
        """The latest frontier at or before both: its region is the union of the regions."""
        if self <= other:
            return self
        if other <= self:
            return other
        return Frontier(
            self.timeline, _minimal(self.timeline.lattice, self.elements + other.elements)
        )

    def join(self, other: Frontier[T]) -> Frontier[T]:
        """The earliest frontier at or after both: its region is the intersection."""
        if self <= other:
            return other
        if other <= self:
            return self
        join = self.timeline.lattice.join
        both = [join(mine, theirs) for mine in self.elements for theirs in other.elements]
        return Frontier(self.timeline, _minimal(self.timeline.lattice, both))

    def __le__(self, other: Frontier[T]) -> bool:
        self._require_same(other.timeline)
        less_equal = self.timeline.lattice.less_equal
        for theirs in other.elements:
            for mine in self.elements:
                if less_equal(mine, theirs):
                    break
            else:
                return False
        return True

    def __ge__(self, other: Frontier[T]) -> bool:
        return other <= self

    def __lt__(self, other: Frontier[T]) -> bool:
        return self <= other and self != other

    def __gt__(self, other: Frontier[T]) -> bool:
        return other <= self and self != other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frontier):
            return NotImplemented
        if self.timeline is not other.timeline and self.timeline != other.timeline:
            return False
        mine, theirs = self.elements, other.elements
        if mine == theirs:
            return True
        return len(mine) == len(theirs) > 1 and frozenset(mine) == frozenset(theirs)

    def __hash__(self) -> int:
        return hash((self.timeline, frozenset(self.elements)))

    def __iter__(self) -> Iterator[Time[T]]:
        return (self.timeline.time(element) for element in self.elements)

    def __str__(self) -> str:
        return "{" + ", ".join(sorted(str(element) for element in self.elements)) + "}"

    def __repr__(self) -> str:
        return f"Frontier({self} of {self.timeline.id})"

    def _require_same(self, timeline: Timeline[T]) -> None:
        if timeline is not self.timeline and timeline != self.timeline:
            raise ForeignTime(self.timeline.id, timeline.id)


def _minimal(lattice: Lattice[T], values: Iterable[T]) -> tuple[T, ...]:
    """The values that have no other at or before them, each once, in the order given."""
    less_equal = lattice.less_equal
    kept: list[T] = []
    for value in values:
        for earlier in kept:
            if less_equal(earlier, value):
                break
        else:
            kept = [other for other in kept if not less_equal(value, other)]
            kept.append(value)
    return tuple(kept)
