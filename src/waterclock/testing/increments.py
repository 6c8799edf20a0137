"""The other form of bindings: how many offsets of each partition were bound at each time.

Storage keeps the elements of the frontier, each until the next one takes its place. Summed up by
partition, with its offset for a weight, an element that goes and the one that comes give an
increment. So the two forms say the same, and increments can be added up over any span of time, as
compaction does. Tests compare the one with the other; storage has no use for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from waterclock.storage.reclock.progress import Partition, SourceFrontier
from waterclock.storage.reclock.remap import Binding, Remap, RemapUpdate


@dataclass(frozen=True, slots=True)
class Increment:
    """How many offsets of a partition were bound at the time."""

    partition: Partition
    time: int
    count: int


def increments(updates: Iterable[RemapUpdate]) -> list[Increment]:
    """The bindings as increments of each partition, which can be added up over any span of time."""
    moved: Counter[tuple[int, str, Partition]] = Counter()
    for update in updates:
        partition = update.element.partition
        moved[update.time, str(partition), partition] += update.diff * update.element.offset
    return [
        Increment(partition, time, count)
        for (time, _, partition), count in sorted(moved.items(), key=lambda each: each[0][:2])
        if count
    ]


def of_increments(given: Sequence[Increment], *, more_may_appear: bool) -> Remap:
    """The bindings that increments state."""
    uppers: dict[Partition, int] = {}
    bindings: list[Binding] = []
    for time in sorted({each.time for each in given}):
        for each in given:
            if each.time == time:
                uppers[each.partition] = uppers.get(each.partition, 0) + each.count
        bindings.append(Binding(time, SourceFrontier(uppers, more_may_appear)))
    return Remap(tuple(bindings))
