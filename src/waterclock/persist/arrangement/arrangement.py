"""The owner of an arrangement: which runs there are, and when they may go.

There is one owner for each folder, and its knowledge is the upper that its commits have reached. A
step of the operator goes like this. Tasks read through a `trace`, or through its covers in another
process, and each writes a run for the step's times and its own range of hashes. Then the owner
commits the step, outside of here, and calls `advance` with the covers that were written. A step
that wrote nothing leaves the `extent` as it is; the next run then begins where the last one ended.

A crash before the commit leaves runs beyond the committed upper, and opening removes them. A step
that failed without a crash is tried again with the same times and partitions, so that it writes
the same names; or `clear_uncommitted` removes what it wrote, once none of its tasks is running.
An owner whose commits remember the extent gives it to `open`, and so learns of every lost file.

Merging replaces runs by one with the same contents from since on; sharing replaces them by those of
another arrangement that holds the same rows, and is as far. The files then have a name in both
folders, and each owner removes its own. Runs that were replaced are removed when no trace that has
them is open any more. The count is this process's own: others that have a run open keep it, name or
no name, for as long as they like (see `run`).

What this does not do: it has no clock and no thread, and knows nothing of commits, dataflows or
fingerprints. Who owns it decides when to merge, and with which since.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from waterclock.persist.arrangement import files
from waterclock.persist.arrangement.cover import EVERY_HASH, Cover, Extent, live
from waterclock.persist.arrangement.layout import Layout
from waterclock.persist.arrangement.merging import merge, mergeable
from waterclock.persist.arrangement.run import Run
from waterclock.persist.arrangement.trace import Trace
from waterclock.persist.arrangement.writing import PIECE_ROWS, write_run
from waterclock.persist.errors import Damaged


class Arrangement:
    """The runs of one folder, up to `upper`. Safe for use by many threads."""

    def __init__(
        self, folder: Path, layout: Layout, upper: int, extent: Extent, runs: Iterable[Run]
    ) -> None:
        self.folder = folder
        self.layout = layout
        self._upper = upper
        self._extent = extent
        self._runs = {run.cover: run for run in runs}
        self._users: Counter[Cover] = Counter()
        self._replaced: set[Cover] = set()
        self._merging = False
        self._lock = threading.Lock()
        self._advanced = threading.Condition(self._lock)

    @staticmethod
    def open(folder: Path, layout: Layout, upper: int, extent: Extent | None = None) -> Arrangement:
        """The arrangement as of a committed upper; empty if the folder is new, and then it is made.

        Removes runs beyond the upper, runs that were merged into others, and what crashed writers
        left; so nobody may be writing. `Damaged` if runs overlap or do not fit their names or the
        layout, or are not just those that make up the extent, or not what was written; then nothing
        was removed. Without an extent all runs are taken as they are. Reads all of the files.
        """
        files.make_folder(folder)
        files.remove_unfinished(folder)
        files.settle_exchange(folder)
        found = files.listed(folder)
        end = upper if extent is None else extent.tip
        assert end <= upper, f"runs up to {end} can not be committed at {upper}"
        covers = live(cover for cover in found if cover.upper <= end)
        known = _reach(covers) if extent is None else extent
        if extent is not None and not extent.is_covered_by(covers):
            raise _incomplete(folder, extent)
        runs = [Run.open(folder, layout, cover) for cover in covers]
        for run in runs:
            run.verify()
        gone = set(found).difference(covers)
        if gone:
            files.remove(folder, gone, sync=True)
        return Arrangement(folder, layout, upper, known, runs)

    @staticmethod
    def new(folder: Path, layout: Layout, upper: int) -> Arrangement:
        """An empty arrangement, whatever was in the folder before."""
        files.make_folder(folder)
        files.remove_unfinished(folder)
        files.settle_exchange(folder)
        files.remove(folder, files.listed(folder), sync=True)
        return Arrangement(folder, layout, upper, Extent(0, 0), ())

    @property
    def upper(self) -> int:
        """The times from here on are not in the arrangement yet."""
        return self._upper

    @property
    def extent(self) -> Extent:
        """The times that the runs cover."""
        return self._extent

    def check(self) -> None:
        """Read the files again; `Damaged` if one is gone, or not what was written."""
        with self.trace() as trace:
            for cover in trace.covers:
                Run.open(self.folder, self.layout, cover).verify()

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

    def glance(self) -> tuple[int, tuple[Run, ...]]:
        """The upper, and the runs that hold everything before it.

        Unlike a trace it holds nothing: a run may lose its name at once. Whoever has the run open,
        as the caller now has, can go on reading it.
        """
        with self._lock:
            return self._upper, tuple(self._runs.values())

    def advance(self, upper: int, written: Iterable[Cover] = ()) -> None:
        """The step up to `upper` is committed, and these are the runs it wrote.

        They lie between the old extent and the new upper and do not overlap. `Damaged` if one is
        missing or broken, and then the arrangement is as it was.
        """
        covers = live(written)
        tip = self._extent.tip
        assert upper >= self._upper, f"upper can not go back from {self._upper} to {upper}"
        for cover in covers:
            inside = tip <= cover.lower and cover.upper <= upper
            assert inside, f"run {cover.name} is not between {tip} and {upper}"
        runs = [Run.open(self.folder, self.layout, cover) for cover in covers]
        with self._lock:
            self._runs.update({run.cover: run for run in runs})
            self._upper = upper
            self._extent = self.extent_with(covers)
            self._advanced.notify_all()

    def wait_beyond(self, time: int, patience_s: float) -> bool:
        """Wait until the upper is beyond a time; False if it is not so within the patience."""
        with self._lock:
            return self._advanced.wait_for(lambda: self._upper > time, patience_s)

    def extent_with(self, covers: Iterable[Cover]) -> Extent:
        """What the extent will be when these runs are there too."""
        tip = max((cover.upper for cover in covers), default=self._extent.tip)
        return Extent(self._extent.start, tip)

    def fill(self) -> bool:
        """Let the runs reach up to the upper, with one in which nothing happens if need be.

        It counts when a later commit says so: opened before that, the arrangement is as it was.
        False if there was nothing to do.
        """
        if self._extent.tip == self._upper:
            return False
        cover = Cover(self._extent.tip, self._upper)
        write_run(self.folder, self.layout, cover, self.layout.empty(), always=True)
        self.advance(self._upper, [cover])
        return True

    def try_share(self, other: Arrangement) -> bool:
        """Hold the runs of another arrangement, of the same rows, in the place of those here.

        False if the two do not reach equally far, if somebody reads what would have to go at once,
        or if the file system can not do that. What this one is read for must be in the other too,
        which may have been compacted. Steps and merges do not go on meanwhile.
        """
        if other.extent != self._extent:
            return False
        with other.trace() as trace:
            theirs = {run.cover: run.file for run in trace.runs}
            wanted = [c for c, file in theirs.items() if self._file(c) != file]
            old = [run for cover, run in self._runs.items() if cover not in theirs]
            if all(any(cover.contains(run.cover) for cover in wanted) for run in old):
                return self._try_take(other.folder, wanted, old)
            if any(self._users[run.cover] for run in old):
                return False
            with files.exchanging(self.folder, (run.cover for run in old), wanted):
                return self._try_take(other.folder, wanted, old)

    def _file(self, cover: Cover) -> int | None:
        """Which file the run is in, if there is one that covers just that."""
        run = self._runs.get(cover)
        return None if run is None else run.file

    def _try_take(self, folder: Path, wanted: Sequence[Cover], old: Sequence[Run]) -> bool:
        """Have runs of another folder instead of those; False if it can not be."""
        if not wanted:
            return True
        if not files.try_link(folder, self.folder, wanted):
            return False
        files.sync(self.folder)
        self._exchange(old, *(Run.open(self.folder, self.layout, cover) for cover in wanted))
        return True

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

    def _exchange(self, old: Iterable[Run], *new: Run) -> None:
        with self._lock:
            for run in old:
                del self._runs[run.cover]
                self._replaced.add(run.cover)
            self._runs.update({run.cover: run for run in new})
            assert len(live(self._runs)) == len(self._runs), "a run lies within another"
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


def _reach(covers: Sequence[Cover]) -> Extent:
    """What some covers reach up to."""
    return Extent(0, max((cover.upper for cover in covers), default=0))


def _incomplete(folder: Path, extent: Extent) -> Damaged:
    return Damaged(
        f'state of an operator is damaged: runs of "{folder.name}" are missing',
        detail=f"The files do not cover all times from {extent.start} up to {extent.tip}.",
    )
