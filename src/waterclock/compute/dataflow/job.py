"""A program as one Spark job, planned once and run every tick.

The job is a chain: the source stage, Catalyst's branches over the inputs, the stage of the first
level, Catalyst's branches over its outputs, and so on; then the result is collected. All of it is
narrow, one task without a shuffle, whose cost is the number of Python stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from waterclock.compute.arrangement.layout import Layout
from waterclock.compute.catalyst.trees import Builder, Expression, Logical
from waterclock.compute.catalyst.types import arrow_schema, column_name, update_struct
from waterclock.compute.dataflow.columns import BranchColumns
from waterclock.compute.dataflow.operators import operator_of
from waterclock.compute.dataflow.program import Base, Branch, Operator, Program, Sum
from waterclock.compute.dataflow.stage import ERRORS, REPORTS, WRITTEN, Placed, Source, Stage
from waterclock.compute.dataflow.stream import unpacked
from waterclock.compute.dataflow.tick import Inbox, Tick
from waterclock.compute.kernels.linear import negate, union
from waterclock.compute.plan.nodes import Constant, Get
from waterclock.model.ids import GlobalId
from waterclock.persist.consolidate import consolidate
from waterclock.persist.rows import DIFF, TIME

_REPORT_STRUCTS = {
    WRITTEN: StructType(
        [StructField("arrangement", StringType()), StructField("run", StringType())]
    ),
    ERRORS: StructType(
        [
            StructField("key", StringType()),
            StructField("message", StringType()),
            StructField(TIME, LongType()),
            StructField(DIFF, LongType()),
        ]
    ),
}


@dataclass(frozen=True, slots=True)
class Ticked:
    """What a tick computed: each output's changes, the errors' changes, and the runs it wrote."""

    outputs: tuple[pa.Table, ...]
    errors: pa.Table
    runs: dict[str, tuple[str, ...]]


class Job:
    """A program prepared for running in a Spark session."""

    def __init__(
        self, spark: SparkSession, builder: Builder, program: Program, folder: Path
    ) -> None:
        self._spark = spark
        self._builder = builder
        self._program = program
        self._columns = BranchColumns(builder)
        self._inbox = Inbox(folder / "inbox")
        self._state = folder / "state"
        self._names: dict[Branch, str] = {}
        self._bases: dict[Base, str] = {}
        self.layouts: dict[str, Layout] = {}
        """The arrangements that the program keeps, by name."""
        self._constants = self._find_constants()
        self._frame = self._plan()
        self._result = {
            **{self._names[b]: _schema(b) for output in program.outputs for b in output},
            **REPORTS,
        }

    @property
    def state(self) -> Path:
        """The folder of the arrangements."""
        return self._state

    def run(self, tick: Tick, deltas: Mapping[GlobalId, pa.Table]) -> Ticked:
        """Compute the outputs' changes in the tick's window from the inputs' changes in it."""
        given = {f"in_{collection}": table for collection, table in deltas.items()}
        if tick.first:
            for name, rows in self._constants.items():
                given[name] = _stamped(rows, tick.lower)
        self._inbox.put(tick, given)
        tables = unpacked(self._frame.toArrow().to_batches(), self._result)
        runs: dict[str, list[str]] = {}
        for note in tables[WRITTEN].to_pylist():
            runs.setdefault(note["arrangement"], []).append(note["run"])
        return Ticked(
            tuple(self._summed(output, tables) for output in self._program.outputs),
            tables[ERRORS],
            {name: tuple(written) for name, written in runs.items()},
        )

    def _summed(self, output: Sum, tables: dict[str, pa.Table]) -> pa.Table:
        parts = [(tables[self._names[b]], b.positive) for b in output]
        return consolidate(union([t if positive else negate(t) for t, positive in parts]))

    def _find_constants(self) -> dict[str, pa.Table]:
        """The rows of the plan's constants."""
        found: dict[str, pa.Table] = {}
        for branch in self._all_branches():
            base = branch.base
            if isinstance(base, Constant) and base not in self._bases:
                name = f"constant_{len(found)}"
                self._bases[base] = name
                found[name] = self._frame_of(base.rows.java).toArrow()
        return found

    def _all_branches(self) -> list[Branch]:
        inputs = [b for o in self._program.operators.values() for each in o.inputs for b in each]
        return [*inputs, *(b for output in self._program.outputs for b in output)]

    def _plan(self) -> DataFrame:
        sources = self._source_columns()
        frame = self._staged(
            self._spark.range(1).coalesce(1),
            Source(self._inbox.folder, {n: arrow_schema(s) for n, s in sources.items()}),
            {**sources, **_REPORT_STRUCTS},
        )
        carried: dict[str, StructType] = dict(_REPORT_STRUCTS)
        for level in range(self._program.levels + 1):
            if level:
                frame = self._level(frame, level, carried)
            frame = self._branched(frame, level, carried)
        return frame

    def _source_columns(self) -> dict[str, StructType]:
        columns: dict[str, StructType] = {}
        for branch in self._all_branches():
            base = branch.base
            if isinstance(base, Get):
                self._bases[base] = f"in_{base.collection}"
            if isinstance(base, Get | Constant):
                columns[self._bases[base]] = update_struct(base.output)
        return columns

    def _branched(self, frame: DataFrame, level: int, carried: dict[str, StructType]) -> DataFrame:
        """The stream with branches in the place of the bases that have just become known."""
        plan = Logical(frame._jdf.queryExecution().analyzed())
        at = {column.name: column for column in plan.output}
        columns: list[Expression] = [at[name] for name in carried]
        for branch in self._all_branches():
            if branch in self._names or self._program.level_of(branch.base) != level:
                continue
            name = f"branch_{len(self._names)}"
            self._names[branch] = name
            source = at[self._bases[branch.base]]
            columns.append(self._columns.column(branch, source, name))
            carried[name] = update_struct(branch.output)
        return self._frame_of(self._builder.project(columns, plan))

    def _level(self, frame: DataFrame, level: int, carried: dict[str, StructType]) -> DataFrame:
        """The stream after the stage of a level; its operators' outputs are known then."""
        operators = self._program.at(level)
        incoming = {name: arrow_schema(struct) for name, struct in carried.items()}
        placed = [self._placed(operator, incoming) for operator in operators]
        needed = self._needed_after(level)
        for name in [n for n in carried if n not in needed and n not in _REPORT_STRUCTS]:
            del carried[name]
        outputs = {
            p.output: update_struct(o.node.output) for o, p in zip(operators, placed, strict=True)
        }
        leaving = {**carried, **outputs}
        stage = Stage(
            self._inbox.folder,
            self._state,
            tuple(placed),
            incoming,
            {name: arrow_schema(struct) for name, struct in leaving.items()},
        )
        return self._staged(frame, stage, leaving)

    def _needed_after(self, level: int) -> set[str]:
        later = [o for o in self._program.operators.values() if o.level > level]
        branches = [b for o in later for each in o.inputs for b in each]
        branches += [b for output in self._program.outputs for b in output]
        return {self._names[b] for b in branches if b in self._names}

    def _placed(self, operator: Operator, incoming: Mapping[str, pa.Schema]) -> Placed:
        inputs = tuple(
            tuple((self._names[b], b.positive) for b in each) for each in operator.inputs
        )
        schemas = [incoming[parts[0][0]] for parts in inputs]
        made = operator_of(operator.node, schemas)
        name = f"op_{len(self._bases)}"
        self._bases[operator.node] = name
        arrangements = tuple(f"{name}_{place}" for place in range(len(made.layouts)))
        self.layouts.update(zip(arrangements, made.layouts, strict=True))
        return Placed(made, inputs, name, arrangements)

    def _staged(
        self, frame: DataFrame, stage: Source | Stage, columns: Mapping[str, StructType]
    ) -> DataFrame:
        schema = StructType([StructField(name, struct) for name, struct in columns.items()])
        return frame.mapInArrow(stage.__call__, schema)

    def _frame_of(self, plan: Any) -> DataFrame:
        return self._builder.frame(plan, self._spark)


def _schema(branch: Branch) -> pa.Schema:
    return arrow_schema(update_struct(branch.output))


def _stamped(rows: pa.Table, time: int) -> pa.Table:
    """Constant rows as updates at a time."""
    columns = [*rows.columns, pa.array([time] * rows.num_rows, pa.int64())]
    columns.append(pa.array([1] * rows.num_rows, pa.int64()))
    names = [*map(column_name, range(rows.num_columns)), TIME, DIFF]
    return pa.table(columns, names=names)
