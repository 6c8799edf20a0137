"""Remap collections: the history of a source's frontier on the shared timeline.

At each binding the elements of the old frontier are retracted and those of the new one added, all
at the same time, so that the collection holds exactly the frontier as it was known at any time. The
first binding only adds. A message gets the first time whose binding has passed it.

Invariant: bindings are in the order of their times and never go back. What is made here from
updates is the same whether or not they were compacted, from the time of compaction on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from waterclock.storage.reclock.progress import Partition, SourceFrontier

Ints = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.int64] | npt.NDArray[np.object_]
"""Offsets, as objects of Python's if they may be of any length."""


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a frontier: the partition is complete before the offset."""

    partition: Partition
    offset: int


@dataclass(frozen=True, slots=True)
class RemapUpdate:
    """At the time, the element is known to be (+1), or no longer to be (-1), in the frontier."""

    element: Element
    time: int
    diff: int


@dataclass(frozen=True, slots=True)
class Binding:
    """From the time on, the source is known up to the frontier."""

    time: int
    frontier: SourceFrontier


def bound(known: SourceFrontier | None, new: SourceFrontier, time: int) -> list[RemapUpdate]:
    """The updates that bind the new frontier at the time, in the place of what was known.

    An element that stays where it is takes no update. Raises `UpstreamRegressed`.
    """
    if known is not None:
        new.require_after(known)
    before = set() if known is None else _elements(known)
    after = _elements(new)
    gone = [RemapUpdate(element, time, -1) for element in _ordered(before - after)]
    return gone + [RemapUpdate(element, time, 1) for element in _ordered(after - before)]


def _elements(frontier: SourceFrontier) -> set[Element]:
    return {Element(partition, upper) for partition, upper in frontier.uppers.items()}


def _ordered(elements: Iterable[Element]) -> list[Element]:
    return sorted(elements, key=lambda e: (str(e.partition), e.offset))


@dataclass(frozen=True, slots=True)
class Remap:
    """The bindings of a source, in the order of their times."""

    bindings: tuple[Binding, ...] = ()

    @classmethod
    def of_updates(cls, updates: Iterable[RemapUpdate], *, more_may_appear: bool) -> Remap:
        """The bindings that the updates state. It does not matter in which order they come."""
        by_time: dict[int, list[RemapUpdate]] = {}
        for update in updates:
            by_time.setdefault(update.time, []).append(update)
        held: Counter[Element] = Counter()
        found = []
        for time in sorted(by_time):
            for update in by_time[time]:
                held[update.element] += update.diff
            assert all(count in (0, 1) for count in held.values()), "a frontier is a set"
            now = [element for element, count in held.items() if count]
            uppers = {element.partition: element.offset for element in now}
            assert len(uppers) == len(now), "a partition has one element in a frontier"
            found.append(Binding(time, SourceFrontier(uppers, more_may_appear)))
        return cls(tuple(found))

    def at(self, time: int) -> SourceFrontier | None:
        """What was known at the time; None before the first binding."""
        place = bisect_right([binding.time for binding in self.bindings], time)
        return self.bindings[place - 1].frontier if place else None

    def time_of(self, partition: Partition, offset: int) -> int | None:
        """The time that the message is reclocked to; None while no binding has passed it."""
        for binding in self.bindings:
            if binding.frontier.has_passed(partition, offset):
                return binding.time
        return None

    def times_of(self, partition: Partition, offsets: Offsets) -> Ints:
        """The same for many messages, all of which some binding must have passed."""
        times, course = self._course(partition)
        uppers = np.array(course, offsets.dtype)
        places = np.searchsorted(uppers, offsets, side="right")
        assert not len(offsets) or places.max() < len(uppers), "a message is beyond all bindings"
        return times[places]

    def _course(self, partition: Partition) -> tuple[Ints, list[int]]:
        """The offsets up to which the partition was known, and since when."""
        times: list[int] = []
        uppers: list[int] = []
        for binding in self.bindings:
            upper = binding.frontier.uppers.get(partition)
            if upper is not None and upper > (uppers[-1] if uppers else -1):
                times.append(binding.time)
                uppers.append(upper)
        return np.array(times, np.int64), uppers
