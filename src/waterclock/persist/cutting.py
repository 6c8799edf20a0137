"""Where to cut a history, so that whoever reads it takes a bounded amount at a time.

A cut lies between two times: what happened at one time is never divided, so an amount is exceeded
only by a single time that has more. Where there is more than is wanted, the cut is the latest one
that keeps the limit. It is found from what is known of each chunk (its times, rows and bytes)
without reading it. If that does not tell, because one chunk spans many times and is too large, the
times of its rows are asked for.

Every cut is later than where the reader is, so a reader that goes from cut to cut arrives.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from waterclock.persist.parts import COMPRESSION
from waterclock.persist.records import Batch

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Limit:
    """The most rows and the most bytes to take at once."""

    rows: int
    size: int

    def allows(self, rows: int, size: int) -> bool:
        return rows <= self.rows and size <= self.size


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some updates that lie between two times, both of which may occur."""

    min_time: int
    max_time: int
    rows: int
    size: int
    """About how many bytes they take in memory."""

    @staticmethod
    def of(batch: Batch) -> Chunk:
        return Chunk(batch.min_time, batch.max_time, batch.rows, COMPRESSION * batch.size)


def total(chunks: Iterable[Chunk]) -> tuple[int, int]:
    """The rows and the bytes of all chunks."""
    known = list(chunks)
    return sum(chunk.rows for chunk in known), sum(chunk.size for chunk in known)


def cut(
    chunks: Sequence[Chunk],
    start: int,
    end: int,
    limit: Limit,
    times_before: Callable[[int], Times],
) -> int:
    """The latest time up to `end` before which, from `start` on, there is no more than the limit.

    If a single time exceeds the limit, the time after it. `start` is before `end`. `times_before`
    gives the times of all updates from `start` on and before a time.
    """
    touched = [c for c in chunks if c.max_time >= start and c.min_time < end]
    if limit.allows(*total(touched)):
        return end
    touched.sort(key=lambda chunk: chunk.min_time)
    begins = [chunk.min_time for chunk in touched]
    rows = np.cumsum([chunk.rows for chunk in touched])
    sizes = np.cumsum([chunk.size for chunk in touched])
    best = 0
    ends = sorted({min(chunk.max_time + 1, end) for chunk in touched})
    for candidate in ends:
        begun = bisect_left(begins, candidate) - 1
        if not limit.allows(int(rows[begun]), int(sizes[begun])):
            break
        best = candidate
    first = ends[0]
    begun_first = touched[: bisect_left(begins, first)]
    if best or all(max(chunk.min_time, start) == first - 1 for chunk in begun_first):
        return best or first
    row_bytes = int(sizes[-1]) / max(1, int(rows[-1]))
    return _cut_inside(times_before(first), first, limit, row_bytes)


def _cut_inside(times: Times, end: int, limit: Limit, row_bytes: float) -> int:
    """The cut among these times of updates, all of which are before `end`."""
    if not len(times):
        return end
    moments, counts = np.unique(times, return_counts=True)
    together = np.cumsum(counts)
    most = min(limit.rows, int(limit.size / max(1.0, row_bytes)))
    fitting = int(np.searchsorted(together, most, side="right"))
    return end if fitting >= len(moments) else int(moments[max(fitting - 1, 0)]) + 1
