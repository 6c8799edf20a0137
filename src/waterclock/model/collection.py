"""Collection versions, and the updates that lead from one to another.

A collection version is what a collection holds at one time: a multiset, given as a count for
each piece of data. Data is opaque and whole: a row with one changed column is another piece of
data. Two pieces are the same when they are equal as Python values.

Invariant: no count is stored as zero, so equal contents are equal values. Counts may be
negative while updates arrive in whatever order; only `rows`, which is what users see, refuses
them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from waterclock.model.errors import NegativeMultiplicity
from waterclock.model.timeline import Time

D = TypeVar("D", bound=Hashable)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Update(Generic[D, T]):
    """At `time` the count of `data` changes by `diff`."""

    data: D
    time: Time[T]
    diff: int


@dataclass(frozen=True, slots=True)
class CollectionVersion(Generic[D]):
    """A multiset of data with signed counts. The mapping given is copied, its zeros dropped."""

    counts: Mapping[D, int]

    def __post_init__(self) -> None:
        counts = {data: count for data, count in self.counts.items() if count}
        object.__setattr__(self, "counts", MappingProxyType(counts))

    def __hash__(self) -> int:
        return hash(frozenset(self.counts.items()))

    def __reduce__(self) -> tuple[type[CollectionVersion[D]], tuple[dict[D, int]]]:
        return (CollectionVersion, (dict(self.counts),))  # a mapping proxy cannot be pickled

    def multiplicity(self, data: D) -> int:
        """How many times the data is here; 0 if it is not."""
        return self.counts.get(data, 0)

    def apply(self, updates: Update[D, Any] | Iterable[Update[D, Any]]) -> CollectionVersion[D]:
        """The version after one update or several, whatever their order and times."""
        counts = dict(self.counts)
        for update in (updates,) if isinstance(updates, Update) else updates:
            counts[update.data] = counts.get(update.data, 0) + update.diff
        return CollectionVersion(counts)

    def rows(self) -> tuple[D, ...]:
        """Each piece of data as often as it is here, in no order that means anything.

        Raises `NegativeMultiplicity` rather than leave out what it cannot show.
        """
        for data, count in self.counts.items():
            if count < 0:
                raise NegativeMultiplicity(
                    "collection holds some row a negative number of times",
                    detail=f"Row {data!r} is there {count} times.",
                    hint="A source has retracted a row that it never added.",
                )
        return tuple(data for data, count in self.counts.items() for _ in range(count))


EMPTY: CollectionVersion[Any] = CollectionVersion({})
"""The version that holds nothing."""


def difference(
    time: Time[T], before: CollectionVersion[D], after: CollectionVersion[D]
) -> frozenset[Update[D, T]]:
    """The smallest set of updates at the time that turns `before` into `after`."""
    changes = {
        data: after.multiplicity(data) - before.multiplicity(data)
        for data in before.counts.keys() | after.counts.keys()
    }
    return frozenset(Update(data, time, change) for data, change in changes.items() if change)
