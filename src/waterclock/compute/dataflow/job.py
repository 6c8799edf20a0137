"""A program as one Spark job, planned once and run every tick.

The plan is a chain of stages (`chain`). A run of it is given a tick and the inputs' changes, by an
inbox, and its result is collected: the changes of the outputs, those of their errors, and the names
of the runs that the state has gained. What is large lies in files, which are mapped, so neither
Spark's driver nor this process holds it (see `collecting` and `summing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from waterclock.compute.catalyst.trees import Builder
from waterclock.compute.catalyst.types import column_name
from waterclock.compute.collecting import collect
from waterclock.compute.dataflow.attempt import Attempt
from waterclock.compute.dataflow.chain import COUNTED, Chain
from waterclock.compute.dataflow.program import Branch, Program, Sum
from waterclock.compute.dataflow.stage import WRITTEN
from waterclock.compute.dataflow.stream import ERRORS, SOURCE, unpacked
from waterclock.compute.dataflow.summing import summed
from waterclock.compute.dataflow.tick import Tick
from waterclock.compute.kernels.linear import negate, union
from waterclock.compute.plan.nodes import Arrange
from waterclock.model.ids import GlobalId
from waterclock.persist.arrangement.layout import Layout
from waterclock.persist.blob.api import Blob
from waterclock.persist.consolidate import consolidate
from waterclock.persist.portions import Listing
from waterclock.persist.rows import DIFF, TIME
from waterclock.persist.spill import IN_MEMORY_ROWS

_WITHOUT_BOUND = 2**62
"""No limit on result sizes in Spark: step results go through files."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """What a tick computed: each output's changes, its errors' changes, and the runs written."""

    outputs: tuple[pa.Table, ...]
    errors_of: tuple[pa.Table, ...]
    """For each output the changes of what is wrong with the data that it is made from."""
    runs: dict[str, tuple[str, ...]]

    @property
    def errors(self) -> pa.Table:
        """The errors' changes of all outputs together."""
        return pa.concat_tables(self.errors_of)


class Job:
    """A program prepared for running in a Spark session."""

    def __init__(
        self,
        spark: SparkSession,
        builder: Builder,
        program: Program,
        state: Path,
        inbox: Path,
        blob: Blob | None = None,
        parts: int = 1,
    ) -> None:
        """`state` holds the arrangements, `inbox` what a tick is told; both for all executors.

        `blob` is where listed contents are, if there can be any.
        With several `parts` the work is divided among as many tasks; the program must be spread.
        """
        self._spark = spark
        self._program = program
        self._state = state
        self._inbox = inbox
        self._parts = parts
        self._attempt: Attempt | None = None
        self._chain = Chain(spark, builder, program, state, inbox, blob, parts)
        self._blame = self._find_blame()

    @property
    def layouts(self) -> Mapping[str, Layout]:
        """The arrangements that the program keeps, by name."""
        return self._chain.layouts

    @property
    def state(self) -> Path:
        """The folder of the arrangements."""
        return self._state

    def arrangement_of(self, node: Arrange) -> str:
        """The name of the arrangement that a node keeps."""
        return f"{self._program.names[node]}_0"

    @property
    def looked_up(self) -> set[str]:
        """The arrangements that are there to be looked up."""
        return {
            self.arrangement_of(base) for base in self._chain.bases if isinstance(base, Arrange)
        }

    @property
    def alike(self) -> list[list[str]]:
        """The arrangements that hold the same rows, by name."""
        return self._chain.alike

    @cached_property
    def nothing(self) -> Ticked:
        """What a step in which nothing happens gives."""
        empty = {name: shape.updates.empty_table() for name, shape in self._chain.result.items()}
        outputs = tuple(self._summed(output, empty) for output in self._program.outputs)
        return Ticked(outputs, self._errors(empty[ERRORS]), {})

    def run(
        self,
        tick: Tick,
        deltas: Mapping[GlobalId, pa.Table],
        contents: Mapping[GlobalId, Listing],
    ) -> Ticked:
        """Compute the outputs' changes in the tick's window from the inputs' changes in it."""
        given = {f"in_{collection}": table for collection, table in deltas.items()}
        listed = {f"in_{collection}": listing for collection, listing in contents.items()}
        if tick.first:
            for name, rows in self._chain.constants.items():
                given[name] = _stamped(rows, tick.lower)
        self._attempt = attempt = Attempt(self._spark.sparkContext, self._inbox, self._parts)
        results = partial(self._collected, attempt.folder)
        try:
            collected = attempt.run(tick, given, listed, results)
        finally:
            self._attempt = None
        tables = unpacked(collected.to_batches(), self._chain.result)
        runs: dict[str, list[str]] = {}
        for note in tables[WRITTEN].to_pylist():
            runs.setdefault(note["arrangement"], []).append(note["run"])
        return Ticked(
            tuple(self._summed(output, tables) for output in self._program.outputs),
            self._errors(tables[ERRORS]),
            {name: tuple(written) for name, written in runs.items()},
        )

    def cancel(self) -> None:
        """Stop the run that is going on, which then raises."""
        attempt = self._attempt
        if attempt is not None:
            attempt.cancel()

    def tasks(self) -> tuple[int, int]:
        """How many tasks of the run that is going on are done, and of how many."""
        attempt = self._attempt
        return (0, 0) if attempt is None else attempt.tasks()

    def _errors(self, errors: pa.Table) -> tuple[pa.Table, ...]:
        """The errors of each output."""
        found = []
        for names in self._blame:
            concerned = pc.is_in(errors[SOURCE], value_set=names)
            found.append(consolidate(errors.filter(concerned).drop_columns([SOURCE])))
        return tuple(found)

    def _find_blame(self) -> list[pa.Array]:
        """For each output the names that errors of what it is made from come under."""
        names = self._chain.names
        found = []
        for output in self._program.outputs:
            behind = self._program.behind(output)
            blamed = [
                names[each] if isinstance(each, Branch) else self._chain.bases[each]
                for each in behind
                if not isinstance(each, Branch) or each in names  # else it can not fail
            ]
            found.append(pa.array(sorted(blamed), pa.string()))
        return found

    def _collected(self, folder: Path) -> pa.Table:
        """What the job gives. What is large is mapped from files that have no name any more."""
        return collect(self._chain.frame(), folder, _WITHOUT_BOUND)

    def _summed(self, output: Sum, tables: dict[str, pa.Table]) -> pa.Table:
        parts = [(tables[self._chain.names[b]], b.positive) for b in output]
        if sum(table.num_rows for table, _ in parts) > IN_MEMORY_ROWS:
            return summed(parts, self._inbox)
        return union([t if positive else negate(t) for t, positive in parts])


def _stamped(rows: pa.Table, time: int) -> pa.Table:
    """Constant rows as updates at a time."""
    count = rows.num_rows
    columns = [] if rows.column_names == [COUNTED] else rows.columns
    stamp = [pa.array([time] * count, pa.int64()), pa.array([1] * count, pa.int64())]
    names = [*map(column_name, range(len(columns))), TIME, DIFF]
    return pa.table([*columns, *stamp], names=names)
