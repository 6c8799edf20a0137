"""What a run covers: a range of hashes times a range of times. This is also its name.

A run with the cover (hashes, lower, upper) holds everything the operator's input did at times in
[lower, upper) for keys whose hash is in the range. The first run begins at 0: what it holds is all
that had happened. A step in which nothing happened has no run, and the next run that is written
begins where the last one ended. So the runs of an arrangement lie side by side without a gap, and
whoever remembers how far they reach, their `Extent`, can tell an arrangement apart from one that
has lost a file.

Invariant: the covers of an arrangement's live runs do not overlap. A merge writes one run whose
cover is the hull of those it replaces and overlaps no other, so whatever lies within a larger cover
has been replaced by it. That is how a crash in the middle of an exchange is undone or completed: by
looking at the names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from waterclock.persist.errors import Damaged
from waterclock.persist.hashing import Hashes

HASHES = 2**64

_NAME = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})\.([0-9]{19})-([0-9]{19})\.arrow")


@dataclass(frozen=True, slots=True, order=True)
class HashRange:
    """The hashes from `low` on and below `high`."""

    low: int
    high: int

    def __post_init__(self) -> None:
        assert 0 <= self.low <= self.high <= HASHES, f"{self.low}..{self.high} is no hash range"

    def contains(self, other: HashRange) -> bool:
        return self.low <= other.low and other.high <= self.high

    def overlaps(self, other: HashRange) -> bool:
        return self.low < other.high and other.low < self.high

    def within(self, other: HashRange) -> HashRange:
        """The hashes in both ranges."""
        low = max(self.low, other.low)
        return HashRange(low, max(low, min(self.high, other.high)))


EVERY_HASH = HashRange(0, HASHES)


def partitions(count: int) -> tuple[HashRange, ...]:
    """All hashes in that many ranges of equal size."""
    bounds = [number * HASHES // count for number in range(count + 1)]
    return tuple(map(HashRange, bounds[:-1], bounds[1:]))


def partition_numbers(hashes: Hashes, count: int) -> npt.NDArray[np.int64]:
    """For each hash, which of `partitions(count)` it is in."""
    if count.bit_count() == 1 < count:  # its first bits tell
        return (hashes >> np.uint64(65 - count.bit_length())).view(np.int64)
    lows = np.array([number * HASHES // count for number in range(count)], dtype=np.uint64)
    return np.searchsorted(lows, hashes, side="right") - 1


@dataclass(frozen=True, slots=True, order=True)
class Cover:
    """A rectangle of times and hashes, neither side empty. Covers sort by time."""

    lower: int
    upper: int
    hashes: HashRange = EVERY_HASH

    def __post_init__(self) -> None:
        assert 0 <= self.lower < self.upper < 2**63, f"{self.lower}..{self.upper} is no time range"
        assert self.hashes.low < self.hashes.high, "a cover has at least one hash"

    @property
    def name(self) -> str:
        """The name of the run's file: first and last hash, lower and upper, in fixed width."""
        first, last = self.hashes.low, self.hashes.high - 1
        return f"{first:016x}-{last:016x}.{self.lower:019d}-{self.upper:019d}.arrow"

    @staticmethod
    def try_parse(name: str) -> Cover | None:
        """The cover that has the name; None if it is not the name of a run."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        first, last, lower, upper = match.groups()
        return Cover(int(lower), int(upper), HashRange(int(first, 16), int(last, 16) + 1))

    def contains(self, other: Cover) -> bool:
        times = self.lower <= other.lower and other.upper <= self.upper
        return times and self.hashes.contains(other.hashes)

    def overlaps(self, other: Cover) -> bool:
        times = self.lower < other.upper and other.lower < self.upper
        return times and self.hashes.overlaps(other.hashes)


@dataclass(frozen=True, slots=True)
class Extent:
    """The times that an arrangement's runs cover, for every hash: from `start` up to `tip`.

    That of an arrangement starts at 0. From `tip` on there was nothing to write down.
    """

    start: int
    tip: int

    def is_covered_by(self, covers: Iterable[Cover]) -> bool:
        """Whether these covers, which do not overlap, are all of it and nothing else.

        Areas add up exactly, since none lies on another: one that is missing leaves too little.
        """
        area = 0
        for cover in covers:
            if cover.lower < self.start or cover.upper > self.tip:
                return False
            area += (cover.upper - cover.lower) * (cover.hashes.high - cover.hashes.low)
        return area == (self.tip - self.start) * HASHES


def hull(covers: Iterable[Cover]) -> Cover:
    """The smallest cover that contains them all, of which there is at least one."""
    covers = list(covers)
    hashes = HashRange(min(c.hashes.low for c in covers), max(c.hashes.high for c in covers))
    return Cover(min(c.lower for c in covers), max(c.upper for c in covers), hashes)


def live(covers: Iterable[Cover]) -> tuple[Cover, ...]:
    """Those that lie in no other one, in the order of their times.

    `Damaged` if two of them overlap nevertheless: the updates in both would count twice.
    """
    kept: list[Cover] = []
    recent: list[Cover] = []
    # A cover comes after those that contain it; and in this order few are recent at any moment.
    for cover in sorted(
        set(covers), key=lambda c: (c.lower, -c.upper, c.hashes.low, -c.hashes.high)
    ):
        recent = [other for other in recent if other.upper > cover.lower]
        if any(other.contains(cover) for other in recent):
            continue
        for other in recent:
            if other.overlaps(cover):
                raise Damaged(
                    "state of an operator is inconsistent",
                    detail=f"Runs {other.name} and {cover.name} overlap.",
                )
        recent.append(cover)
        kept.append(cover)
    return tuple(kept)
