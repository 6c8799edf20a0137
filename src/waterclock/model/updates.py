"""Two forms of the same history: a function of time, and a set of updates.

As a function, a time-varying collection gives a version for every time of its timeline. As a set
of updates, it gives the changes; the version at `t` is the sum of the updates at or before `t`.
Only the second form is ever stored. The functions here go back and forth between them, and move
updates to later times where nobody looks any more.

Invariant: going from one form to the other and back changes nothing, as long as updates are
consolidated (one for each data and time, none with diff 0).

Everything here is written to be obviously right, not fast. The stored form has its own code and
is tested against this.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Generic, Protocol, TypeVar

from waterclock.model.collection import EMPTY, CollectionVersion, Update, difference
from waterclock.model.errors import ForeignTime
from waterclock.model.frontier import Frontier
from waterclock.model.timeline import Time, Timeline

D = TypeVar("D", bound=Hashable)
T = TypeVar("T")


class TimeFunction(Protocol[D, T]):
    """A version for every time of one timeline."""

    def __call__(self, time: Time[T], /) -> CollectionVersion[D]: ...


@dataclass(frozen=True, slots=True)
class TimeVaryingCollection(Generic[D, T]):
    """The whole history of a collection: one timeline, and one version for each time of it.

    Such a thing can be thought and tested with but not stored, for it is infinite.
    """

    timeline: Timeline[T]
    versions: TimeFunction[D, T]

    @classmethod
    def of_updates(
        cls, timeline: Timeline[T], updates: Iterable[Update[D, T]]
    ) -> TimeVaryingCollection[D, T]:
        """The collection in which exactly these updates happen."""
        settled = consolidate(updates)
        return cls(timeline, lambda time: read(settled, time))

    def read(self, time: Time[T]) -> CollectionVersion[D]:
        """The version at the time; `ForeignTime` if it is of another timeline."""
        if time.timeline != self.timeline:
            raise ForeignTime(self.timeline.id, time.timeline.id)
        return self.versions(time)


def consolidate(updates: Iterable[Update[D, T]]) -> frozenset[Update[D, T]]:
    """The same changes with one update for each data and time, and none that changes nothing."""
    diffs: dict[tuple[D, Time[T]], int] = {}
    for update in updates:
        place = (update.data, update.time)
        diffs[place] = diffs.get(place, 0) + update.diff
    return frozenset(Update(data, time, diff) for (data, time), diff in diffs.items() if diff)


def read(updates: Iterable[Update[D, T]], time: Time[T]) -> CollectionVersion[D]:
    """The sum of the updates at or before the time. Incomparable ones do not count."""
    empty: CollectionVersion[D] = EMPTY
    return empty.apply(update for update in updates if update.time <= time)


def updates_at(
    function: TimeFunction[D, T], time: Time[T], earlier: Iterable[Update[D, T]]
) -> frozenset[Update[D, T]]:
    """What happens at the time itself, given everything that happens before it.

    `earlier` must hold all updates at times strictly before; others in it are ignored. On a
    total order this is the change since the previous time. On a partial order several earlier
    times contribute, and what two of them inherited from a third must not count twice; taking
    the sum of all updates, rather than of all earlier versions, does exactly that.
    """
    before: CollectionVersion[D] = EMPTY
    before = before.apply(update for update in earlier if update.time < time)
    return difference(time, before, function(time))


def updates_of(function: TimeFunction[D, T], times: Iterable[Time[T]]) -> frozenset[Update[D, T]]:
    """Updates, all at the given finitely many times, that read as the function at each of them.

    If the times are closed downwards (hold every earlier time at which the function changes),
    these are the function's own updates, and they are the only consolidated set that is.
    """
    found: set[Update[D, T]] = set()
    for time in _earlier_first(times):
        found |= updates_at(function, time, found)
    return frozenset(found)


def advance(time: Time[T], since: Frontier[T]) -> Time[T]:
    """The latest time that no reader at or after since can tell from the given one.

    A time already at or after since is left as it is. Since must not be empty: nobody can
    tell any times apart then, and there is no latest time.
    """
    assert not since.is_empty, "no time is the latest for an empty since"
    return reduce(Time.meet, (time.join(reader) for reader in since))


def advance_all(updates: Iterable[Update[D, T]], since: Frontier[T]) -> frozenset[Update[D, T]]:
    """The updates moved up to since and consolidated; none at all if since is empty."""
    if since.is_empty:
        return frozenset()
    return consolidate(
        Update(update.data, advance(update.time, since), update.diff) for update in updates
    )


def _earlier_first(times: Iterable[Time[T]]) -> list[Time[T]]:
    """The times in an order in which none comes before an earlier one."""
    distinct = set(times)

    def rank(time: Time[Any]) -> int:
        return sum(other <= time for other in distinct)

    return sorted(distinct, key=rank)
