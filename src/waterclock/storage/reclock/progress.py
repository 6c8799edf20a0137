"""How far a source is complete: one exclusive offset for each of its partitions.

This is the form in which connectors speak of frontiers. It stands for a frontier of the partially
ordered source times (`model.partitioned`), of which it has one element for each partition, and one
for all partitions to come, if any may.

Invariant: offsets are never negative. `{}` with no partition to come is the frontier of a finished
source: nothing will come any more.
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
        return all(self.uppers.get(each, 0) >= upper for each, upper in other.uppers.items())

    def limited(self, limit: SourceFrontier) -> SourceFrontier:
        """As far as this frontier, and in no partition further than the other one."""
        uppers = {p: min(u, limit.uppers[p]) for p, u in self.uppers.items() if p in limit.uppers}
        return SourceFrontier(uppers, self.more_may_appear)

    def as_frontier(self, timeline: Timeline[SourceTime]) -> Frontier[SourceTime]:
        """The same as a frontier of source times."""
        uppers: dict[Hashable, int] = dict(self.uppers.items())
        return progress_frontier(timeline, uppers, more_may_appear=self.more_may_appear)

    def require_after(self, known: SourceFrontier) -> None:
        """Raise `UpstreamRegressed` unless everything known before still is."""
        if self.is_finished:
            return
        for partition, offset in known.uppers.items():
            now = self.uppers.get(partition)
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
        return tuple(
            Range(partition, known.uppers.get(partition, 0), upper)
            for partition, upper in self.uppers.items()
            if upper > known.uppers.get(partition, 0)
        )


FINISHED = SourceFrontier({})
_HINT = "Drop the source and create it again to read what is upstream now."


def _named(partition: Partition) -> str:
    return "the data" if partition is None else f"partition {partition}"
