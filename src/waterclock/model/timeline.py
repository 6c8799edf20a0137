"""Timelines and their times.

A timeline is a lattice with a name. The name is its identity: milliseconds of one clock and
milliseconds of another are the same numbers but not the same times, and nothing here ever
compares them. A `Time` therefore carries its timeline.

Invariant: times of different timelines are unequal, and putting them in order, joining or
meeting them raises `ForeignTime`. The order on times is partial: both `a <= b` and `b <= a` may
be false, so `not a <= b` does not mean `b < a`.

No clock is read here. Which wall-clock moment a time stands for is decided elsewhere, by the
oracle and by reclocking.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from waterclock.model.errors import ForeignTime
from waterclock.model.frontier import Frontier
from waterclock.model.lattice import EpochMillis, Lattice

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Timeline(Generic[T]):
    """A named set of times. Two timelines are equal when their ids are."""

    id: str
    lattice: Lattice[T] = field(compare=False)

    def time(self, value: object) -> Time[T]:
        """The time with that raw value; `NotATime` if the lattice has no such element."""
        return Time(self, self.lattice.check(value))

    def least(self) -> Time[T]:
        """The time at or before every other."""
        return Time(self, self.lattice.least())

    def frontier(self, *values: object) -> Frontier[T]:
        """The frontier of the minimal ones among raw values."""
        if len(values) == 1:
            return Frontier(self, (self.lattice.check(values[0]),))
        return Frontier.of(self, values)

    def start(self) -> Frontier[T]:
        """The first frontier: every time is at or after it."""
        return Frontier(self, (self.lattice.least(),))

    def empty(self) -> Frontier[T]:
        """The last frontier: no time is at or after it."""
        return Frontier(self, ())


@dataclass(frozen=True, slots=True, repr=False)
class Time(Generic[T]):
    """One time of one timeline. Made by `Timeline.time`, which checks the value."""

    timeline: Timeline[T]
    value: T

    def join(self, other: Time[T]) -> Time[T]:
        """The earliest time at or after both."""
        self._require_same(other)
        return Time(self.timeline, self.timeline.lattice.join(self.value, other.value))

    def meet(self, other: Time[T]) -> Time[T]:
        """The latest time at or before both."""
        self._require_same(other)
        return Time(self.timeline, self.timeline.lattice.meet(self.value, other.value))

    def __le__(self, other: Time[T]) -> bool:
        self._require_same(other)
        return self.timeline.lattice.less_equal(self.value, other.value)

    def __lt__(self, other: Time[T]) -> bool:
        return self <= other and self.value != other.value

    def __ge__(self, other: Time[T]) -> bool:
        return other <= self

    def __gt__(self, other: Time[T]) -> bool:
        return other < self

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return f"Time({self} of {self.timeline.id})"

    def _require_same(self, other: Time[T]) -> None:
        if other.timeline is not self.timeline and other.timeline != self.timeline:
            raise ForeignTime(self.timeline.id, other.timeline.id)


@dataclass(frozen=True, slots=True)
class StatefulTimeline(Generic[T]):
    """A timeline and the latest times of all events that have completed in it.

    `latest` is an antichain of maximal times, the mirror image of a frontier: a time lies in
    the past when it is at or before one of them. Completing an event only ever adds to the
    past, also when the event is older than those already complete.
    """

    timeline: Timeline[T]
    latest: frozenset[Time[T]] = frozenset()

    def complete(self, time: Time[T]) -> StatefulTimeline[T]:
        """The state after an event at the time has completed."""
        if time.timeline != self.timeline:
            raise ForeignTime(self.timeline.id, time.timeline.id)
        if self.is_past(time):
            return self
        still_latest = {other for other in self.latest if not other <= time}
        return StatefulTimeline(self.timeline, frozenset({*still_latest, time}))

    def is_past(self, time: Time[T]) -> bool:
        """Whether some completed event is at or after the time."""
        if time.timeline != self.timeline:
            raise ForeignTime(self.timeline.id, time.timeline.id)
        return any(time <= other for other in self.latest)


EPOCH_MILLIS: Timeline[int] = Timeline("epoch_ms", EpochMillis())
"""The timeline that every table and every reclocked source is on, and what is made from them."""


def timeline_named(name: str) -> Timeline[int]:
    """The timeline of that name, whose times are whole numbers from 0 on."""
    return EPOCH_MILLIS if name == EPOCH_MILLIS.id else Timeline(name, EPOCH_MILLIS.lattice)
