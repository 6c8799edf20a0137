"""Reclocking: a collection on one timeline, told on another.

A *remap* says for some times of the target timeline up to which frontier the source was complete
then. A piece of data of the source is there at a target time when the frontier known at that time
has passed it. Both timelines may be partially ordered.

Invariant: the frontier known at a time is at or after those known at all earlier times, so what is
there stays there, and what the source orders stays in order. All updates of one source time are
there at exactly the same target times, so no transaction of the source is ever seen in part.

On a total order a message gets one time, the first binding beyond it. On a partial order it may be
passed by two bindings that say nothing about each other; it then appears at both, and is counted
once where both are known. That is why the result is made from what is there at each time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Generic, TypeVar

from waterclock.model.collection import CollectionVersion, Update
from waterclock.model.errors import ForeignTime, FrontierRegression
from waterclock.model.frontier import Frontier
from waterclock.model.timeline import Time, Timeline
from waterclock.model.updates import TimeFunction, updates_of

D = TypeVar("D", bound=Hashable)
S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Remap(Generic[S, T]):
    """Bindings of target times to frontiers of the source.

    Raises `FrontierRegression` if a later binding knows less than an earlier one, and `ForeignTime`
    for a time or frontier of another timeline.
    """

    source: Timeline[S]
    target: Timeline[T]
    bindings: Mapping[Time[T], Frontier[S]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "bindings", MappingProxyType(dict(self.bindings)))
        for time, frontier in self.bindings.items():
            if time.timeline != self.target:
                raise ForeignTime(self.target.id, time.timeline.id)
            if frontier.timeline != self.source:
                raise ForeignTime(self.source.id, frontier.timeline.id)
            for other, known in self.bindings.items():
                if other < time and not known <= frontier:
                    raise FrontierRegression(
                        f"the binding at {time} to {frontier} forgets what was bound at {other}",
                        detail=f"The source was complete up to {known} then.",
                    )

    def at(self, time: Time[T]) -> Frontier[S]:
        """The source frontier that is known at the time: all that was bound at or before it."""
        known = [frontier for bound, frontier in self.bindings.items() if bound <= time]
        return reduce(Frontier.join, known, self.source.start())

    def shows(self, time: Time[T], source_time: Time[S]) -> bool:
        """Whether what happened at the source time is there at the time."""
        return not self.at(time).less_equal(source_time)

    def reclocked(self, updates: Iterable[Update[D, S]]) -> frozenset[Update[D, T]]:
        """The updates on the target timeline. What no binding has passed is not among them."""
        kept = list(updates)
        return updates_of(self._version_of(kept), self._moments())

    def _version_of(self, updates: list[Update[D, S]]) -> TimeFunction[D, T]:
        def version(time: Time[T]) -> CollectionVersion[D]:
            known = self.at(time)
            empty: CollectionVersion[D] = CollectionVersion({})
            return empty.apply(u for u in updates if not known.less_equal(u.time))

        return version

    def _moments(self) -> set[Time[T]]:
        """All times at which something may change: those bound, and where several are first
        known together.
        """
        found = set(self.bindings)
        rest = list(found)
        while rest:
            time = rest.pop()
            for other in list(found):
                both = time.join(other)
                if both not in found:
                    found.add(both)
                    rest.append(both)
        return found
