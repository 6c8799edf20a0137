"""The reference partial time-varying collection: what a shard, a view or an index must answer.

Nobody knows all of a collection's history. Its far past has been compacted away and its future
is not written. A partial collection is the part between two frontiers: `since`, from which on
reads are exact, and `upper`, from which on updates may still come.

Invariant: for every time at or after `since` and not at or after `upper`, `read` gives what the
whole collection holds at that time. Both steps of evolution keep it. `append` adds all updates
between the old upper and the new one; `compact` moves old updates to later times in a way that no
reader at or after the new since can notice. Neither frontier ever moves back, and an answer once
given is the answer for ever, or a refusal.

`since` may overtake `upper`; then nothing can be read until `upper` has caught up. The model
cannot know whether a writer has brought every update of its window. It takes each window once
and whole, so a writer that says it is complete cannot add to it afterwards.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Generic, TypeVar

from waterclock.model.collection import CollectionVersion, Update
from waterclock.model.errors import (
    FrontierRegression,
    NoProgress,
    TimeForgotten,
    TimeUnwritten,
    UpdateOutsideWindow,
)
from waterclock.model.frontier import Frontier
from waterclock.model.timeline import Time, Timeline
from waterclock.model.updates import TimeFunction, advance_all, consolidate, read, updates_of

D = TypeVar("D", bound=Hashable)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PartialCollection(Generic[D, T]):
    """A timeline, consolidated updates, and the two frontiers between which they are exact."""

    timeline: Timeline[T]
    updates: frozenset[Update[D, T]]
    since: Frontier[T]
    upper: Frontier[T]

    @classmethod
    def start(cls, timeline: Timeline[T]) -> PartialCollection[D, T]:
        """The beginning of every collection: correct, since nothing can be read of it yet."""
        return cls(timeline, frozenset(), timeline.start(), timeline.start())

    @classmethod
    def of_function(
        cls,
        function: TimeFunction[D, T],
        times: Iterable[Time[T]],
        *,
        since: Frontier[T],
        upper: Frontier[T],
    ) -> PartialCollection[D, T]:
        """The collection that reads as the function at those of the times that are readable."""
        readable = [time for time in times if since.less_equal(time) and not upper.less_equal(time)]
        return cls(since.timeline, updates_of(function, readable), since, upper)

    def read(self, time: Time[T]) -> CollectionVersion[D]:
        """What the collection holds at the time.

        Raises `TimeForgotten` or `TimeUnwritten` if that is not known any more or not yet; a
        time that is both is forgotten, for waiting would not help.
        """
        if not self.since.less_equal(time):
            raise _forgotten(time, self.since)
        if self.upper.less_equal(time):
            raise TimeUnwritten(
                f"time {time} is not complete yet",
                detail=f"The collection is complete up to, and without, {self.upper}.",
            )
        return read(self.updates, time)

    def append(
        self, upper: Frontier[T], updates: Iterable[Update[D, T]] = ()
    ) -> PartialCollection[D, T]:
        """The collection known up to a later upper, with all updates of the window in between.

        The window is every time at or after the present upper and not at or after the new one.
        No updates means that nothing happened there. Raises `NoProgress` if upper is the present
        one, `FrontierRegression` if it is not after it, `UpdateOutsideWindow` for an update that
        is not in the window.
        """
        if upper == self.upper:
            raise NoProgress(f"append to {upper} leaves upper where it is")
        _require_advance("upper", self.upper, upper)
        window = tuple(updates)
        for update in window:
            if not self.upper.less_equal(update.time) or upper.less_equal(update.time):
                raise UpdateOutsideWindow(
                    f"update at time {update.time} is outside the window being appended",
                    detail=f"The window goes from {self.upper} up to, and without, {upper}.",
                )
        return replace(self, updates=consolidate(chain(self.updates, window)), upper=upper)

    def compact(self, since: Frontier[T]) -> PartialCollection[D, T]:
        """The collection readable only from a later since on, in no more updates than before.

        With an empty since nothing can be read any more and no update is kept. Raises
        `FrontierRegression` if since is not at or after the present one.
        """
        _require_advance("since", self.since, since)
        return replace(self, updates=advance_all(self.updates, since), since=since)


def _forgotten(time: Time[T], since: Frontier[T]) -> TimeForgotten:
    if since.is_empty:
        return TimeForgotten(
            f"time {time} cannot be read", detail="The collection is not readable any more."
        )
    return TimeForgotten(
        f"time {time} is too far in the past",
        detail=f"The collection can be read from {since} on.",
        hint="Read at a later time.",
    )


def _require_advance(name: str, old: Frontier[T], new: Frontier[T]) -> None:
    if not old <= new:
        raise FrontierRegression(f"{name} cannot move from {old} to {new}, which is not after it")
