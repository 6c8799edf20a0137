"""What an operator reads: all runs of an arrangement at one moment, as one collection of updates.

A trace is immutable. While it is open no run in it loses its name, so its covers can be sent to
another process that opens the same runs by them. That is the only way for a process that does not
own the arrangement: listing a folder while the owner exchanges runs could miss both the old ones
and the new one, and a gap is not an error.

Rows come from several runs, so the same (key, values, time) may come several times with diffs that
add up; `layout.consolidated` adds them, once they are sorted. Lookups are by hash alone. Two keys
may have the same hash, so the answer may have rows of keys nobody asked for: the caller gets whole
rows, and compares keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa

from waterclock.persist.arrangement.cover import EVERY_HASH, HASHES, Cover, HashRange
from waterclock.persist.arrangement.layout import Layout
from waterclock.persist.arrangement.run import Run
from waterclock.persist.hashing import Hashes


class Trace:
    """Open runs, seen within a range of hashes."""

    def __init__(
        self,
        layout: Layout,
        runs: Iterable[Run],
        hashes: HashRange = EVERY_HASH,
        release: Callable[[], None] | None = None,
    ) -> None:
        self.layout = layout
        self.hashes = hashes
        self.runs = tuple(run for run in runs if run.cover.hashes.overlaps(hashes))
        self._release = release

    @staticmethod
    def open(folder: Path, layout: Layout, covers: Iterable[Cover]) -> Trace:
        """The trace that has those covers elsewhere. `Damaged` if a run is missing or broken."""
        return Trace(layout, [Run.open(folder, layout, cover) for cover in covers])

    @property
    def covers(self) -> tuple[Cover, ...]:
        return tuple(run.cover for run in self.runs)

    def within(self, low: int, high: int) -> Trace:
        """The part with hashes in [low, high): one partition's view of the same files.

        It needs no closing, and reads even after this trace was closed.
        """
        return Trace(self.layout, self.runs, self.hashes.within(HashRange(low, high)))

    def lookup(self, hashes: Hashes) -> pa.Table:
        """All updates whose key has one of the hashes, and is in this trace's range.

        The hashes need not be sorted or distinct, and those outside of the range have no rows. The
        answer has the columns of `layout.schema`; it is sorted by hash within each run.
        """
        wanted = self._wanted(hashes)
        found = [batch for run in self.runs for batch in run.lookup(wanted)] if len(wanted) else []
        return pa.Table.from_batches(found, self.layout.schema)

    def lookup_range(self, low: int, high: int) -> pa.Table:
        """All updates whose key has a hash in [low, high), without a copy."""
        found = list(self.scan(HashRange(low, high)))
        return pa.Table.from_batches(found, self.layout.schema)

    @property
    def num_rows(self) -> int:
        """How many updates there are in the runs, of whatever hash."""
        return sum(run.rows for run in self.runs)

    def everything(self) -> pa.Table:
        """All updates in this trace's range, without a copy."""
        return pa.Table.from_batches(self.scan(), self.layout.schema)

    def scan(self, hashes: HashRange = EVERY_HASH) -> Iterator[pa.RecordBatch]:
        """All updates whose hash is in the range and this trace's, run by run, without a copy."""
        hashes = self.hashes.within(hashes)
        for run in self.runs:
            yield from run.scan(hashes)

    def verify(self) -> None:
        """Read everything; `Damaged` if something is not as it was written."""
        for run in self.runs:
            run.verify()

    def close(self) -> None:
        """Let runs that were merged meanwhile go. Batches that came from a scan stay readable."""
        release, self._release = self._release, None
        self.runs = ()
        if release is not None:
            release()

    def __enter__(self) -> Trace:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _wanted(self, hashes: Hashes) -> Hashes:
        """Sorted, distinct, and in this trace's range."""
        wanted = np.sort(hashes)
        if self.hashes.low > 0:
            wanted = wanted[np.searchsorted(wanted, np.uint64(self.hashes.low), side="left") :]
        if self.hashes.high < HASHES:
            wanted = wanted[: np.searchsorted(wanted, np.uint64(self.hashes.high), side="left")]
        return wanted[np.flatnonzero(np.diff(wanted, prepend=wanted[:1] + np.uint64(1)))]
