"""Times of a source that is split into partitions, of which more may appear later.

A message is found by its partition and its offset there. Offsets of one partition are ordered;
messages of different partitions say nothing about each other. The number of partitions is not
known in advance, so a time names a *set* of partitions, finite or all but finitely many, and an
offset. A smaller set is a later time: knowing which partition one speaks of is progress.

With this a source's progress is an ordinary frontier: one element for each known partition, and
one co-finite element at offset 0 for all partitions not seen yet. When a new partition appears it
is split off that element. No message changes sides by it, so whatever was said about the past of
the source stays true.

Partition ids are opaque hashable values. There are infinitely many possible ones, hence a finite
set is never equal to a co-finite one.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.model.errors import NotATime, NotPartitionProgress
from waterclock.model.frontier import Frontier

if TYPE_CHECKING:
    from waterclock.model.timeline import Timeline


@dataclass(frozen=True, slots=True)
class PartitionSet:
    """Exactly the partitions in `ids`, or all others if `complement` is set."""

    ids: frozenset[Hashable]
    complement: bool = False

    @classmethod
    def of(cls, *ids: Hashable) -> PartitionSet:
        """The finite set of these partitions."""
        return cls(frozenset(ids))

    @classmethod
    def all(cls) -> PartitionSet:
        """Every partition there is or will be."""
        return cls(frozenset(), complement=True)

    @classmethod
    def all_but(cls, *ids: Hashable) -> PartitionSet:
        """Every partition except these."""
        return cls(frozenset(ids), complement=True)

    @property
    def is_empty(self) -> bool:
        return not self.complement and not self.ids

    def __contains__(self, partition: Hashable) -> bool:
        return (partition in self.ids) is not self.complement

    def intersection(self, other: PartitionSet) -> PartitionSet:
        if self.complement and other.complement:
            return PartitionSet(self.ids | other.ids, complement=True)
        if self.complement:
            return PartitionSet(other.ids - self.ids)
        if other.complement:
            return PartitionSet(self.ids - other.ids)
        return PartitionSet(self.ids & other.ids)

    def union(self, other: PartitionSet) -> PartitionSet:
        return self._inverse().intersection(other._inverse())._inverse()

    def issubset(self, other: PartitionSet) -> bool:
        if self.complement:
            return other.complement and other.ids <= self.ids
        if other.complement:
            return self.ids.isdisjoint(other.ids)
        return self.ids <= other.ids

    def __str__(self) -> str:
        if self.complement and not self.ids:
            return "all"
        listed = "{" + ", ".join(sorted(str(partition) for partition in self.ids)) + "}"
        return f"all but {listed}" if self.complement else listed

    def _inverse(self) -> PartitionSet:
        return PartitionSet(self.ids, not self.complement)


@dataclass(frozen=True, slots=True)
class SourceTime:
    """An offset in each of a set of partitions. A message has the time of its one partition."""

    partitions: PartitionSet
    offset: int

    @classmethod
    def of_message(cls, partition: Hashable, offset: int) -> SourceTime:
        """The time of the message at that offset of that partition."""
        return cls(PartitionSet.of(partition), offset)

    def __str__(self) -> str:
        return f"({self.partitions}, {self.offset})"


@dataclass(frozen=True, slots=True)
class Partitioned:
    """The lattice of source times: later means fewer partitions and a higher offset."""

    def least(self) -> SourceTime:
        return SourceTime(PartitionSet.all(), 0)

    def join(self, a: SourceTime, b: SourceTime) -> SourceTime:
        return SourceTime(a.partitions.intersection(b.partitions), max(a.offset, b.offset))

    def meet(self, a: SourceTime, b: SourceTime) -> SourceTime:
        return SourceTime(a.partitions.union(b.partitions), min(a.offset, b.offset))

    def less_equal(self, a: SourceTime, b: SourceTime) -> bool:
        return a.offset <= b.offset and b.partitions.issubset(a.partitions)

    def check(self, value: object) -> SourceTime:
        if isinstance(value, SourceTime) and type(value.offset) is int and value.offset >= 0:
            return value
        raise NotATime(
            f"not a time of a partitioned source: {value!r}",
            detail="Such a time is a set of partitions and an offset of 0 or more.",
        )


def progress_frontier(
    timeline: Timeline[SourceTime], uppers: Mapping[Hashable, int], *, more_may_appear: bool
) -> Frontier[SourceTime]:
    """The frontier of a source that is complete below the given offset of each partition.

    The offsets are exclusive: 0 means that nothing is known to be there. With `more_may_appear`
    every partition not named is complete below 0, that is, wholly open; without it, no further
    partition will exist. No partition and none to come is the frontier of a finished source.
    """
    check = timeline.lattice.check
    elements = [check(SourceTime.of_message(*progress)) for progress in uppers.items()]
    if more_may_appear:
        elements.append(SourceTime(PartitionSet.all_but(*uppers), 0))
    return Frontier(timeline, tuple(elements))  # disjoint sets: an antichain as it stands


def partition_uppers(frontier: Frontier[SourceTime]) -> tuple[dict[Hashable, int], bool]:
    """The arguments from which `progress_frontier` makes this frontier.

    Raises `NotPartitionProgress` for a frontier that it cannot have made.
    """
    uppers: dict[Hashable, int] = {}
    for element in frontier.elements:
        if not element.partitions.complement and len(element.partitions.ids) == 1:
            (partition,) = element.partitions.ids
            uppers[partition] = element.offset
    more_may_appear = any(element.partitions.complement for element in frontier.elements)
    if progress_frontier(frontier.timeline, uppers, more_may_appear=more_may_appear) != frontier:
        raise NotPartitionProgress(
            f"frontier {frontier} does not state the progress of single partitions"
        )
    return uppers, more_may_appear
