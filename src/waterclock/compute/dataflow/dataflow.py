"""A program with its state: a prepared job, the arrangements it keeps, and how far they are.

A step has two halves. `compute` runs the job over a window of times and writes the state's new
runs; the caller makes the outputs durable; `commit` then counts the runs in. If the process dies in
between, the dataflow is opened again at the upper that was made durable, what lies beyond it is
removed, and the step is computed again with the same result.

With the outputs the caller makes durable what `kept_after` says of the state. Without that, or if
the state is not just what it says, a dataflow can not be opened where it was: it begins anew, from
the inputs' contents.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from waterclock.compute.catalyst.evaluation import FEW_ROWS, evaluating
from waterclock.compute.catalyst.trees import Builder
from waterclock.compute.dataflow.job import Job, Ticked
from waterclock.compute.dataflow.kept import Kept, fingerprint, kept
from waterclock.compute.dataflow.program import Program
from waterclock.compute.dataflow.tick import Arranged, Tick
from waterclock.compute.kernels.step import Window
from waterclock.compute.kernels.temporal import DUE, NEVER, waiting
from waterclock.compute.plan.nodes import Arrange
from waterclock.model.ids import GlobalId
from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.arrangement.cover import Cover, Extent, partitions
from waterclock.persist.arrangement.writing import write_run
from waterclock.persist.blob.api import Blob
from waterclock.persist.errors import Damaged
from waterclock.persist.portions import Listing

WIDE_ROWS = 200_000
"""A step with at least this many changed rows is spread over several tasks."""
WIDE_BYTES = 64 << 20
"""And from so many bytes on, about."""
TASK_ROWS = 500_000
TASK_BYTES = 256 << 20
"""About how much one task takes: a larger step has more tasks than run at a time."""
MOST_TASKS = 64


class Dataflow:
    """Keeps the outputs of a program up to date. One step at a time."""

    def __init__(
        self,
        spark: SparkSession,
        builder: Builder,
        program: Program,
        folder: Path,
        *,
        upper: int = 0,
        kept: Mapping[str, Kept] | None = None,
        opened: Mapping[str, Arrangement] | None = None,
        has_begun: bool = True,
        few_rows: int = FEW_ROWS,
        wide_rows: int = WIDE_ROWS,
        blob: Blob | None = None,
    ) -> None:
        """A new dataflow that begins at `upper`; or one as of `upper`, with the state it had.

        `kept` is what was remembered of that, for each owner: `Damaged` if the state is not that,
        or is of other plans. Or it is open already, and was left as of `upper`, maybe before it
        had begun; `Damaged` if it is that of other operators. `folder` may be shared with other
        dataflows whose owners have other names. `blob` has the objects of listed contents, if there
        will be any.
        """
        self._inbox = folder / f"inbox-{uuid.uuid4().hex}"
        self._evaluating = partial(evaluating, spark.sparkContext, few_rows=few_rows)
        self._wide_rows = wide_rows
        self._tasks = max(2, spark.sparkContext.defaultParallelism)
        self._job = Job(spark, builder, program, folder / "state", self._inbox, blob)
        self._spread = partial(
            Job, spark, builder, program.spread(), folder / "state", self._inbox, blob
        )
        self._wide: dict[int, Job] = {}
        """The job for work that is spread, by the number of tasks."""
        self._running: Job | None = None
        self._upper = upper
        self._begun = kept is not None or (opened is not None and has_begun)
        self._is_apart = False
        self._fingerprints = {
            owner: fingerprint(program.plans_of(owner), f"Spark {spark.version}")
            for owner in program.owners
        }
        self.arrangements: Mapping[str, Arrangement]
        """All that the program keeps, by name."""
        if opened is not None:
            if not self._job.layouts.keys() <= opened.keys():
                raise Damaged("the state is that of other operators")
            self.arrangements = {name: opened[name] for name in self._job.layouts}
        elif kept is not None:
            self.arrangements = self._reopened(kept)
        else:
            self.arrangements = {
                name: Arrangement.new(self._job.state / name, layout, upper)
                for name, layout in self._job.layouts.items()
            }

    def _reopened(self, known: Mapping[str, Kept]) -> dict[str, Arrangement]:
        """The arrangements as they were left."""
        extents: dict[str, tuple[int, int]] = {}
        for owner, own in self._fingerprints.items():
            before = known.get(owner)
            if before is None:
                raise Damaged(f"nothing is known of the state of {owner}")
            if before.fingerprint != own:
                raise Damaged(f"the state of {owner} was made by another plan or version")
            extents |= before.extents
        if extents.keys() != self._job.layouts.keys():
            raise Damaged("the state is that of other operators")
        return {
            name: Arrangement.open(
                self._job.state / name, layout, self._upper, Extent(*extents[name])
            )
            for name, layout in self._job.layouts.items()
        }

    def take_over(self, old: Dataflow) -> None:
        """Go on with the state of another dataflow of the same plans, whose engine is gone.

        It was opened with that state. `Damaged` if the plans are others after all.
        """
        for owner, own in self._fingerprints.items():
            if old._fingerprints.get(owner) != own:
                raise Damaged(f"the state of {owner} was made by another plan or version")
        for name, arrangement in self.arrangements.items():
            if arrangement.upper != self._upper:
                raise Damaged(f"the state of {name} is not that of the last step")
            arrangement.clear_uncommitted()

    @property
    def upper(self) -> int:
        """All times before this one are in the outputs and in the state."""
        return self._upper

    @property
    def rows(self) -> int:
        """How many updates the state holds."""
        return sum(arrangement.rows for arrangement in self.arrangements.values())

    def due_before(self, upper: int) -> bool:
        """Whether time alone changes something before `upper`, without any change of an input.

        Answered from the state on disk, without a job.
        """
        return any(rows.num_rows for rows in self._waiting(upper))

    def last_due(self) -> int | None:
        """The last time at which, by what is known now, time alone changes something."""
        due = [pc.max(rows[DUE]).as_py() for rows in self._waiting(NEVER) if rows.num_rows]
        return max(due, default=None)

    @property
    def has_begun(self) -> bool:
        """Whether a step was ever committed."""
        return self._begun

    def arrangement(self, node: Arrange) -> Arrangement:
        """The rows that a node of the program keeps."""
        return self.arrangements[self._job.arrangement_of(node)]

    def close(self) -> None:
        """Remove what only this object needed. The state stays."""
        shutil.rmtree(self._inbox, ignore_errors=True)

    def unchanged(self) -> Ticked:
        """What a step over times in which nothing happens gives, without a job."""
        return self._job.nothing

    def compute(
        self,
        upper: int,
        deltas: Mapping[GlobalId, pa.Table],
        contents: Mapping[GlobalId, Listing] | None = None,
        *,
        spread: int = 1,
    ) -> Ticked:
        """The outputs' changes up to `upper`, from all changes of the inputs since the last step.

        The columns of a delta are those of the collection, then time and diff. `contents` are
        changes too, where they are stored. With `spread` there are so many times the usual number
        of tasks.
        """
        listed = contents or {}
        with ExitStack() as stack:
            traces = {
                name: stack.enter_context(arrangement.trace())
                for name, arrangement in self.arrangements.items()
            }
            state = {
                name: Arranged(
                    self.arrangements[name].extent.tip, tuple(c.name for c in trace.covers)
                )
                for name, trace in traces.items()
            }
            tick = Tick(self._upper, upper, not self._begun, state)
            try:
                rows, tasks = self._measured(deltas, listed, spread)
                self._running = self._fitting_job(tasks)
                with self._evaluating(rows):
                    ticked = self._running.run(tick, deltas, listed)
                return replace(ticked, runs=self._without_gaps(upper, ticked, tasks))
            except BaseException:
                for arrangement in self.arrangements.values():
                    arrangement.clear_uncommitted()
                raise

    def _measured(
        self, deltas: Mapping[GlobalId, pa.Table], listed: Mapping[GlobalId, Listing], spread: int
    ) -> tuple[int, int]:
        """How many changes there are, and how many tasks they are divided among."""
        rows = sum(each.num_rows for each in deltas.values())
        rows += sum(each.rows for each in listed.values())
        size = sum(each.nbytes for each in deltas.values())
        size += sum(each.size for each in listed.values())
        if spread == 1 and rows < self._wide_rows and size < WIDE_BYTES:
            return rows, 1
        tasks = self._tasks * spread
        while tasks < MOST_TASKS and (rows > tasks * TASK_ROWS or size > tasks * TASK_BYTES):
            tasks *= 2
        return rows, tasks

    def _without_gaps(self, upper: int, ticked: Ticked, tasks: int) -> dict[str, tuple[str, ...]]:
        """The runs that a step wrote, with empty ones for the tasks that had nothing to write.

        A task whose part of the rows is empty may not even be run.
        """
        runs = dict(ticked.runs)
        for name, arrangement in self.arrangements.items():
            covers = _covers(ticked, name)
            step = Extent(arrangement.extent.tip, upper)
            if covers and not step.is_covered_by(covers):
                for hashes in partitions(tasks):
                    cover = Cover(step.start, step.tip, hashes)
                    if cover not in covers:
                        nothing = arrangement.layout.empty()
                        write_run(
                            arrangement.folder, arrangement.layout, cover, nothing, always=True
                        )
                        covers.append(cover)
                assert step.is_covered_by(covers), f"a step left gaps in {name}: {covers}"
                runs[name] = tuple(cover.name for cover in covers)
        return runs

    def kept_after(self, ticked: Ticked | None = None) -> dict[str, Kept]:
        """What to remember of the state of each owner, once a step is committed."""
        extents = {
            name: arrangement.extent_with([] if ticked is None else _covers(ticked, name))
            for name, arrangement in self.arrangements.items()
        }
        return {
            owner: kept(own, {n: e for n, e in extents.items() if n.startswith(f"{owner}_op")})
            for owner, own in self._fingerprints.items()
        }

    def check_state(self) -> None:
        """`Damaged` if files of the state are gone or not what was written. Reads all of them."""
        for arrangement in self.arrangements.values():
            arrangement.check()

    def cancel(self) -> None:
        """Stop the job that is running, if any; its step then raises."""
        running = self._running
        if running is not None:
            running.cancel()

    def tasks(self) -> tuple[int, int]:
        """How many tasks of the step that is going on are done, and of how many."""
        running = self._running
        return (0, 0) if running is None else running.tasks()

    def progress(self) -> object:
        """What changes while a step gets on: tasks that are done, and files that are written."""
        folders = [self._inbox, *(each.folder for each in self.arrangements.values())]
        return self.tasks(), max(map(_last_written, folders), default=0)

    def _fitting_job(self, tasks: int) -> Job:
        """The job of so many tasks."""
        if tasks == 1:
            return self._job
        if tasks not in self._wide:
            self._wide[tasks] = self._spread(tasks)
        return self._wide[tasks]

    def commit(self, upper: int, ticked: Ticked) -> None:
        """The outputs of the step up to `upper` are durable: let its state count."""
        for name, arrangement in self.arrangements.items():
            arrangement.advance(upper, _covers(ticked, name))
        self._upper = upper
        self._begun = True

    def merge(self, since: int | None = None) -> None:
        """Merge the state's runs as far as it is worth it, and share what is there twice.

        What is arranged to be looked up stays readable from `since` on; all else is only ever read
        as of the upper.
        """
        looked_up = self._job.looked_up
        for alike in self._job.alike:
            oldest = self._upper
            if since is not None and not looked_up.isdisjoint(alike):
                oldest = min(since, self._upper)
            first, *others = sorted(alike, key=lambda name: name not in looked_up)
            _merge(self.arrangements[first], oldest)
            for name in others:
                # What is looked up may have to be read as of times that another has forgotten.
                shares = name not in looked_up
                if not shares or not self.arrangements[name].try_share(self.arrangements[first]):
                    _merge(self.arrangements[name], oldest)
        self._is_apart = False

    def bring_together(self) -> bool:
        """Let arrangements that hold the same rows reach equally far, so that they can be shared.

        They are, after the commit that remembers this. False if there is nothing to remember.
        """
        filled = [
            self.arrangements[name].fill()
            for alike in self._job.alike
            if len({self.arrangements[name].extent.tip for name in alike}) > 1
            for name in alike
        ]
        self._is_apart = any(len(alike) > 1 for alike in self._job.alike)
        return any(filled)

    @property
    def is_apart(self) -> bool:
        """Whether there may be something to share."""
        return self._is_apart

    def _waiting(self, upper: int) -> Iterator[pa.Table]:
        """What waits in the operators that watch the time and is due before `upper`."""
        window = Window(self._upper, max(self._upper, upper))
        for arrangement in self.arrangements.values():
            if DUE in arrangement.layout.row_names:
                with arrangement.trace() as trace:
                    yield waiting(trace, window)


def _merge(arrangement: Arrangement, since: int) -> None:
    while arrangement.is_mergeable:
        for _ in arrangement.merge(since):
            pass


def _last_written(folder: Path) -> int:
    """When something below the folder was written last, in nanoseconds; 0 if nothing was."""
    latest = 0
    for inside, _, files in os.walk(folder):
        for name in ("", *files):
            with suppress(FileNotFoundError):  # the step removes what it does not need any more
                latest = max(latest, os.stat(os.path.join(inside, name)).st_mtime_ns)
    return latest


def _covers(ticked: Ticked, name: str) -> list[Cover]:
    """What the runs cover that a step wrote for an arrangement."""
    return [cover for run in ticked.runs.get(name, ()) if (cover := Cover.try_parse(run))]
