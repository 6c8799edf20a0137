"""The owner of an arrangement: which runs there are, and when they may go.

There is one owner for each folder, and its knowledge is the upper that its commits have reached. A
step of the operator goes like this. Tasks read through a `trace`, or through its covers in another
process, and each writes a run for the step's times and its own range of hashes. Then the owner
commits the step, outside of here, and calls `advance` with the covers that were written. Since the
runs are durable before the commit, a run is missing after it only if the disk lost it: a gap means
that nothing happened.

A crash before the commit leaves runs beyond the committed upper, and opening removes them. A step
that failed without a crash is tried again with the same times and partitions, so that it writes
the same names; or `clear_uncommitted` removes what it wrote, once none of its tasks is running.
An owner whose commits remember the covers opens with `Trace.open` and knows of every lost file.

Merging replaces runs by one with the same contents from since on. Runs that were replaced are
removed when no trace that has them is open any more. The count is this process's own: others that
have a run open keep it, name or no name, for as long as they like (see `run`).

What this does not do: it has no clock and no thread, and knows nothing of commits, dataflows or
fingerprints. Who owns it decides when to merge, and with which since.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from waterclock.compute.arrangement import files
from waterclock.compute.arrangement.cover import EVERY_HASH, Cover, live
from waterclock.compute.arrangement.layout import Layout
from waterclock.compute.arrangement.merging import merge, mergeable
from waterclock.compute.arrangement.run import Run
from waterclock.compute.arrangement.trace import Trace
from waterclock.compute.arrangement.writing import PIECE_ROWS


class Arrangement:
    """The runs of one folder, up to `upper`. Safe for use by many threads."""

    def __init__(self, folder: Path, layout: Layout, upper: int, runs: Iterable[Run]) -> None:
        self.folder = folder
        self.layout = layout
        self._upper = upper
        self._runs = {run.cover: run for run in runs}
        self._users: Counter[Cover] = Counter()
        self._replaced: set[Cover] = set()
        self._merging = False
        self._lock = threading.Lock()

    @staticmethod
    def open(folder: Path, layout: Layout, upper: int) -> Arrangement:
        """The arrangement as of a committed upper; empty if the folder is new, and then it is made.

        Removes runs beyond the upper, runs that were merged into others, and what crashed writers
        left; so nobody may be writing. `Damaged` if runs overlap or do not fit their names or the
        layout. Reads the names and ends of the files, not their rows.
        """
        files.make_folder(folder)
        files.remove_unfinished(folder)
        found = files.listed(folder)
        covers = live(cover for cover in found if cover.upper <= upper)
        runs = [Run.open(folder, layout, cover) for cover in covers]
        gone = set(found).difference(covers)
        if gone:
            files.remove(folder, gone, sync=True)
        return Arrangement(folder, layout, upper, runs)

    @property
    def upper(self) -> int:
        """The times from here on are not in the arrangement yet."""
        return self._upper

    @property
    def rows(self) -> int:
        """How many updates there are in all runs together."""
        with self._lock:
            return sum(run.rows for run in self._runs.values())

    def trace(self) -> Trace:
        """What the arrangement holds now. To be closed: its runs stay on disk until then."""
        with self._lock:
            runs = [self._runs[cover] for cover in sorted(self._runs)]
            covers = [run.cover for run in runs]
            self._users.update(covers)
        return Trace(self.layout, runs, EVERY_HASH, partial(self._release, covers))

    def advance(self, upper: int, written: Iterable[Cover] = ()) -> None:
        """The step up to `upper` is committed, and these are the runs it wrote.

        They lie between the old upper and the new one and do not overlap. `Damaged` if one is
        missing or broken, and then the arrangement is as it was.
        """
        covers = live(written)
        assert upper >= self._upper, f"upper can not go back from {self._upper} to {upper}"
        for cover in covers:
            inside = self._upper <= cover.lower and cover.upper <= upper
            assert inside, f"run {cover.name} is not between {self._upper} and {upper}"
        runs = [Run.open(self.folder, self.layout, cover) for cover in covers]
        with self._lock:
            self._runs.update({run.cover: run for run in runs})
            self._upper = upper

    def clear_uncommitted(self) -> None:
        """Remove what a failed step wrote. None of its tasks may be running any more."""
        files.remove_unfinished(self.folder)
        beyond = [cover for cover in files.listed(self.folder) if cover.upper > self._upper]
        files.remove(self.folder, beyond, sync=True)

    @property
    def is_mergeable(self) -> bool:
        """Whether `merge` would do something now."""
        return bool(self._candidates())

    def merge(self, since: int, *, piece_rows: int = PIECE_ROWS) -> Iterator[None]:
        """Merge some runs, if it is worth it, pausing after each bounded piece of work.

        Only one merge at a time. Steps may advance during the pauses. Nothing changes before the
        iterator ends, and if it is closed early, nothing ever does.
        """
        with self._lock:
            assert not self._merging, "a merge is going on already"
            self._merging = True
        try:
            runs = [self._runs[cover] for cover in self._candidates()]
            if runs:
                merged = yield from merge(
                    self.folder, self.layout, runs, since, piece_rows=piece_rows
                )
                self._exchange(runs, merged)
        finally:
            self._merging = False

    def _candidates(self) -> tuple[Cover, ...]:
        with self._lock:
            sizes = {cover: run.rows for cover, run in self._runs.items()}
        return mergeable(sizes)

    def _exchange(self, old: Iterable[Run], merged: Run) -> None:
        with self._lock:
            for run in old:
                del self._runs[run.cover]
                self._replaced.add(run.cover)
            assert not any(merged.cover.overlaps(cover) for cover in self._runs)
            self._runs[merged.cover] = merged
            self._remove_unused()

    def _release(self, covers: Iterable[Cover]) -> None:
        with self._lock:
            self._users.subtract(covers)
            self._users += Counter()  # without those that came to nothing
            self._remove_unused()

    def _remove_unused(self) -> None:
        unused = {cover for cover in self._replaced if not self._users[cover]}
        self._replaced -= unused
        files.remove(self.folder, unused)
