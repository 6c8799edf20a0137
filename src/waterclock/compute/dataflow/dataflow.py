"""A program with its state: a prepared job, the arrangements it keeps, and how far they are.

A step has two halves. `compute` runs the job over a window of times and writes the state's new
runs; the caller makes the outputs durable; `commit` then counts the runs in. If the process dies in
between, the dataflow is opened again at the upper that was made durable, what lies beyond it is
removed, and the step is computed again with the same result.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from waterclock.compute.arrangement.arrangement import Arrangement
from waterclock.compute.arrangement.cover import Cover
from waterclock.compute.catalyst.trees import Builder
from waterclock.compute.dataflow.job import Job, Ticked
from waterclock.compute.dataflow.program import Program
from waterclock.compute.dataflow.tick import Tick
from waterclock.model.ids import GlobalId


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
    ) -> None:
        """Open the dataflow as of `upper`; `begun` says whether a step was ever committed."""
        self._job = Job(spark, builder, program, folder)
        self._upper = upper
        self._begun = begun
        self._arrangements = {
            name: Arrangement.open(self._job.state / name, layout, upper)
            for name, layout in self._job.layouts.items()
        }

    @property
    def upper(self) -> int:
        """All times before this one are in the outputs and in the state."""
        return self._upper

    @property
    def rows(self) -> int:
        """How many updates the state holds."""
        return sum(arrangement.rows for arrangement in self._arrangements.values())

    def compute(self, upper: int, deltas: Mapping[GlobalId, pa.Table]) -> Ticked:
        """The outputs' changes up to `upper`, from all changes of the inputs since the last step.

        The columns of a delta are those of the collection, then time and diff.
        """
        with ExitStack() as stack:
            traces = {
                name: stack.enter_context(arrangement.trace())
                for name, arrangement in self._arrangements.items()
            }
            runs = {name: tuple(c.name for c in trace.covers) for name, trace in traces.items()}
            tick = Tick(self._upper, upper, not self._begun, runs)
            try:
                return self._job.run(tick, deltas)
            except BaseException:
                for arrangement in self._arrangements.values():
                    arrangement.clear_uncommitted()
                raise

    def commit(self, upper: int, ticked: Ticked) -> None:
        """The outputs of the step up to `upper` are durable: let its state count."""
        for name, arrangement in self._arrangements.items():
            covers = [cover for run in ticked.runs.get(name, ()) if (cover := Cover.try_parse(run))]
            arrangement.advance(upper, covers)
        self._upper = upper
        self._begun = True

    def merge(self) -> None:
        """Merge the state's runs as far as it is worth it."""
        for arrangement in self._arrangements.values():
            while arrangement.is_mergeable:
                for _ in arrangement.merge(self._upper):
                    pass
