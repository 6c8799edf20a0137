"""How far a source is complete: one exclusive offset for each of its partitions.

This is the form in which connectors speak of frontiers. It stands for a frontier of the partially
ordered source times (`model.partitioned`), of which it has one element for each partition, and one
for all partitions to come, if any may.

Invariant: offsets are never negative. `{}` with no partition to come is the frontier of a finished
source: nothing will come any more.

Partitions that come to an end, such as objects in a bucket, must not make a frontier grow for ever.
A frontier that *retires* them has one element more, that of the partition None: when a partition is
complete it may be left out, if its offset is added to that element. So nothing is left out unseen,
and the sum of all offsets never goes back. Which partitions were retired the frontier does not say;
whoever retires them remembers that.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from waterclock.model.frontier import Frontier
from waterclock.model.partitioned import Partitioned, SourceTime, progress_frontier
from waterclock.model.timeline import Timeline
from waterclock.storage.reclock.errors import UpstreamRegressed

Partition: TypeAlias = int | str | None
"""The number or name of a partition; None is the only one of a source that is not split."""


def source_timeline(source: str) -> Timeline[SourceTime]:
    """The timeline of one source, which is its own."""
    return Timeline(f"source/{source}", Partitioned())


@dataclass(frozen=True, slots=True)
class Range:
    """The messages of one partition from `start` up to, and without, `end`."""

    partition: Partition
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class SourceFrontier:
    """Everything before the offset of each partition is known. The mapping given is copied."""

    uppers: Mapping[Partition, int]
    more_may_appear: bool = False
    listed_at: int = 0
    """Everything that was acknowledged upstream before this moment is before the frontier. Told by
    connectors that know that better than by offsets; it is not durable."""

    def __post_init__(self) -> None:
        assert all(offset >= 0 for offset in self.uppers.values()), "offsets are not negative"
        object.__setattr__(self, "uppers", MappingProxyType(dict(self.uppers)))

    def __hash__(self) -> int:
        return hash((frozenset(self.uppers.items()), self.more_may_appear))

    @classmethod
    def single(cls, upper: int) -> SourceFrontier:
        """That of a source that is not split into partitions."""
        return cls({None: upper})

    @property
    def is_finished(self) -> bool:
        """Whether nothing will come any more."""
        return not self.uppers and not self.more_may_appear

    @property
    def retires(self) -> bool:
        """Whether partitions that are complete may be left out, as the sum under None."""
        return self.more_may_appear and None in self.uppers

    def retired_since(self, known: SourceFrontier) -> int:
        """The sum of the offsets of partitions that an earlier frontier had and this one has not;
        0 if this one does not retire any.
        """
        if not self.retires:
            return 0
        return sum(upper for each, upper in known.uppers.items() if each not in self.uppers)

    @property
    def total(self) -> int:
        """The sum of the offsets: a measure of progress to show, not to decide by."""
        return sum(self.uppers.values())

    def has_passed(self, partition: Partition, offset: int) -> bool:
        """Whether the message is before the frontier, that is, known."""
        if partition in self.uppers:
            return offset < self.uppers[partition]
        return not self.more_may_appear

    def covers(self, other: SourceFrontier) -> bool:
        """Whether everything before the other frontier is before this one."""
        if self.is_finished:
            return True
        if other.is_finished:
            return False
        if self.listed_at < other.listed_at:
            return False
        return all(self.uppers.get(each, 0) >= upper for each, upper in other.uppers.items())

    def limited(self, limit: SourceFrontier) -> SourceFrontier:
        """As far as this frontier, and in no partition further than the other one."""
        uppers = {p: min(u, limit.uppers[p]) for p, u in self.uppers.items() if p in limit.uppers}
        return SourceFrontier(uppers, self.more_may_appear)

    def is_at(self, other: SourceFrontier) -> bool:
        """Whether both are complete up to the same offsets."""
        return self.uppers == other.uppers and self.more_may_appear == other.more_may_appear

    def as_frontier(self, timeline: Timeline[SourceTime]) -> Frontier[SourceTime]:
        """The same as a frontier of source times."""
        uppers: dict[Hashable, int] = dict(self.uppers.items())
        return progress_frontier(timeline, uppers, more_may_appear=self.more_may_appear)

    def require_after(self, known: SourceFrontier) -> None:
        """Raise `UpstreamRegressed` unless everything known before still is."""
        if self.is_finished:
            return
        retired = self.retired_since(known)
        for partition, offset in known.uppers.items():
            now = self.uppers.get(partition)
            if now is None and retired:
                continue  # what was added to the sum is compared there
            if partition is None:
                offset += retired
            if now is None:
                raise UpstreamRegressed(
                    f"{_named(partition)} is gone upstream",
                    detail=f"It had been read up to offset {offset}.",
                    hint=_HINT,
                )
            if now < offset:
                raise UpstreamRegressed(
                    f"{_named(partition)} has gone back upstream",
                    detail=f"It had been read up to offset {offset} and now ends at {now}.",
                    hint=_HINT,
                )
        if not known.more_may_appear and self.uppers.keys() - known.uppers.keys():
            raise UpstreamRegressed(
                "a partition has appeared in a source that was said to have no more",
                hint=_HINT,
            )

    def ranges_since(self, known: SourceFrontier) -> tuple[Range, ...]:
        """What lies between an earlier frontier and this one; nothing for a finished source,
        which is not finished before everything in it is known.
        """
        starts = {each: known.uppers.get(each, 0) for each in self.uppers}
        if self.retires:
            starts[None] += self.retired_since(known)  # that was read already
        return tuple(
            Range(partition, starts[partition], upper)
            for partition, upper in self.uppers.items()
            if upper > starts[partition]
        )


FINISHED = SourceFrontier({})
_HINT = "Drop the source and create it again to read what is upstream now."


def _named(partition: Partition) -> str:
    return "the data" if partition is None else f"partition {partition}"
