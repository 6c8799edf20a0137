"""A program with its state: a prepared job, the arrangements it keeps, and how far they are.

A step has two halves. `compute` runs the job over a window of times and writes the state's new
runs; the caller makes the outputs durable; `commit` then counts the runs in. If the process dies in
between, the dataflow is opened again at the upper that was made durable, what lies beyond it is
removed, and the step is computed again with the same result.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from waterclock.compute.arrangement.arrangement import Arrangement
from waterclock.compute.arrangement.cover import Cover
from waterclock.compute.catalyst.trees import Builder
from waterclock.compute.dataflow.job import Job, Ticked
from waterclock.compute.dataflow.program import Program
from waterclock.compute.dataflow.tick import Tick
from waterclock.compute.kernels.step import Window
from waterclock.compute.kernels.temporal import DUE, NEVER, waiting
from waterclock.compute.plan.nodes import Arrange
from waterclock.model.ids import GlobalId

WIDE_ROWS = 200_000
"""From so many changed rows on, the work is spread over many tasks."""


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
        begun: bool = False,
        opened: Mapping[str, Arrangement] | None = None,
        wide_rows: int = WIDE_ROWS,
    ) -> None:
        """Open the dataflow as of `upper`; `begun` says whether a step was ever committed.

        `folder` may be shared with other dataflows whose owners have other names. Arrangements that
        somebody has `opened`, and left as of `upper`, are taken over.
        """
        self._inbox = folder / f"inbox-{uuid.uuid4().hex}"
        self._wide_rows = wide_rows
        self._tasks = max(2, spark.sparkContext.defaultParallelism)
        self._job = Job(spark, builder, program, folder / "state", self._inbox)
        self._spread = partial(
            Job, spark, builder, program.spread(), folder / "state", self._inbox, self._tasks
        )
        self._wide: Job | None = None
        self._upper = upper
        self._begun = begun
        known = opened or {}
        self.arrangements = {
            name: known.get(name) or Arrangement.open(self._job.state / name, layout, upper)
            for name, layout in self._job.layouts.items()
        }
        """All that the program keeps, by name."""

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
        return self._job.nothing()

    def compute(self, upper: int, deltas: Mapping[GlobalId, pa.Table]) -> Ticked:
        """The outputs' changes up to `upper`, from all changes of the inputs since the last step.

        The columns of a delta are those of the collection, then time and diff.
        """
        with ExitStack() as stack:
            traces = {
                name: stack.enter_context(arrangement.trace())
                for name, arrangement in self.arrangements.items()
            }
            runs = {name: tuple(c.name for c in trace.covers) for name, trace in traces.items()}
            tick = Tick(self._upper, upper, not self._begun, runs)
            try:
                return self._fitting_job(deltas).run(tick, deltas)
            except BaseException:
                for arrangement in self.arrangements.values():
                    arrangement.clear_uncommitted()
                raise

    def _fitting_job(self, deltas: Mapping[GlobalId, pa.Table]) -> Job:
        """The job for changes of that size: in one task, or spread over many."""
        if sum(table.num_rows for table in deltas.values()) < self._wide_rows:
            return self._job
        if self._wide is None:
            self._wide = self._spread()
        return self._wide

    def commit(self, upper: int, ticked: Ticked) -> None:
        """The outputs of the step up to `upper` are durable: let its state count."""
        for name, arrangement in self.arrangements.items():
            covers = [cover for run in ticked.runs.get(name, ()) if (cover := Cover.try_parse(run))]
            arrangement.advance(upper, covers)
        self._upper = upper
        self._begun = True

    def merge(self, since: int | None = None) -> None:
        """Merge the state's runs as far as it is worth it.

        What is arranged to be looked up stays readable from `since` on; all else is only ever read
        as of the upper.
        """
        for name, arrangement in self.arrangements.items():
            looked_up = name in self._job.looked_up
            oldest = self._upper if since is None or not looked_up else min(since, self._upper)
            while arrangement.is_mergeable:
                for _ in arrangement.merge(oldest):
                    pass

    def _waiting(self, upper: int) -> Iterator[pa.Table]:
        """What waits in the operators that watch the time and is due before `upper`."""
        window = Window(self._upper, max(self._upper, upper))
        for arrangement in self.arrangements.values():
            if DUE in arrangement.layout.row_names:
                with arrangement.trace() as trace:
                    yield waiting(trace, window)
