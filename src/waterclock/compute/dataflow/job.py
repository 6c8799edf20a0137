"""A program as one Spark job, planned once and run every tick.

The job is a chain: the source stage, Catalyst's branches over the inputs, the stage of the first
level, Catalyst's branches over its outputs, and so on; then the result is collected. All of it is
narrow, one task without a shuffle, whose cost is the number of Python stages. For large changes the
same chain is spread over many tasks: before each stage the rows are brought to the task that has
the range of hashes in which their keys lie.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.types import (
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from waterclock.compute.arrangement.layout import Layout
from waterclock.compute.catalyst.trees import Builder, Expression, Logical
from waterclock.compute.catalyst.types import arrow_schema, column_name, update_struct
from waterclock.compute.dataflow.attempt import Attempt
from waterclock.compute.dataflow.columns import BranchColumns
from waterclock.compute.dataflow.operators import operator_of
from waterclock.compute.dataflow.program import Base, Branch, Operator, Program, Stateful, Sum
from waterclock.compute.dataflow.regrouping import Regrouping
from waterclock.compute.dataflow.shape import Shape
from waterclock.compute.dataflow.stage import (
    REPORTS,
    WRITTEN,
    Picked,
    Placed,
    Route,
    Router,
    Source,
    Stage,
)
from waterclock.compute.dataflow.stream import ERRORS, PARTITION, SOURCE, unpacked
from waterclock.compute.dataflow.tick import Tick
from waterclock.compute.kernels.linear import negate, union
from waterclock.compute.kernels.versions import BEGIN, END, FIRST, VERSION
from waterclock.compute.plan.nodes import Arrange, Constant, Get, Regroup
from waterclock.model.ids import GlobalId
from waterclock.persist.consolidate import consolidate
from waterclock.persist.rows import DIFF, TIME

_COUNTED = "mz_rows_without_columns"

_REPORT_STRUCTS = {
    WRITTEN: StructType(
        [StructField("arrangement", StringType()), StructField("run", StringType())]
    ),
    ERRORS: StructType(
        [
            StructField(SOURCE, StringType()),
            StructField("key", StringType()),
            StructField("message", StringType()),
            StructField(TIME, LongType()),
            StructField(DIFF, LongType()),
        ]
    ),
}


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
        parts: int = 1,
    ) -> None:
        """`state` holds the arrangements, `inbox` what a tick is told; both for all executors.

        With several `parts` the work is divided among as many tasks; the program must be spread.
        """
        assert parts == 1 or not program.fused
        self._parts = parts
        self._spark = spark
        self._builder = builder
        self._program = program
        self._columns = BranchColumns(builder)
        self._regrouping = Regrouping(builder, parts)
        self._inbox = inbox
        self._attempt: Attempt | None = None
        self._state = state
        self._names: dict[Branch, str] = {}
        self._shapes: dict[str, Shape] = {}
        self._bases: dict[Base, str] = {}
        self.layouts: dict[str, Layout] = {}
        """The arrangements that the program keeps, by name."""
        self._constants = self._find_constants()
        self._frame = self._plan()
        shown = {self._names[b] for output in program.outputs for b in output}
        self._blame = self._find_blame()
        self._result = {**{name: self._shapes[name] for name in shown}, **REPORTS}

    @property
    def state(self) -> Path:
        """The folder of the arrangements."""
        return self._state

    def arrangement_of(self, node: Arrange) -> str:
        """The name of the arrangement that a node keeps."""
        return f"{self._bases[node]}_0"

    @property
    def looked_up(self) -> set[str]:
        """The arrangements that are there to be looked up."""
        return {self.arrangement_of(base) for base in self._bases if isinstance(base, Arrange)}

    def nothing(self) -> Ticked:
        """What a step in which nothing happens gives."""
        empty = {name: shape.updates.empty_table() for name, shape in self._result.items()}
        outputs = tuple(self._summed(output, empty) for output in self._program.outputs)
        return Ticked(outputs, self._errors(empty[ERRORS]), {})

    def run(self, tick: Tick, deltas: Mapping[GlobalId, pa.Table]) -> Ticked:
        """Compute the outputs' changes in the tick's window from the inputs' changes in it."""
        given = {f"in_{collection}": table for collection, table in deltas.items()}
        if tick.first:
            for name, rows in self._constants.items():
                given[name] = _stamped(rows, tick.lower)
        self._attempt = Attempt(self._spark.sparkContext, self._inbox, self._parts)
        try:
            collected = self._attempt.run(tick, given, self._executable().toArrow)
        finally:
            self._attempt = None
        tables = unpacked(collected.to_batches(), self._result)
        runs: dict[str, list[str]] = {}
        for note in tables[WRITTEN].to_pylist():
            runs.setdefault(note["arrangement"], []).append(note["run"])
        return Ticked(
            tuple(self._summed(output, tables) for output in self._program.outputs),
            self._errors(tables[ERRORS]),
            {name: tuple(written) for name, written in runs.items()},
        )

    def _executable(self) -> DataFrame:
        """The job, to be run once.

        A plan that was run keeps the files of its shuffles, and Spark would read them again the
        next time instead of what is new. So a job that has shuffles is planned for each run.
        """
        if self._parts == 1:
            return self._frame
        return self._frame_of(self._frame._jdf.queryExecution().analyzed())

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
        found = []
        for output in self._program.outputs:
            behind = self._program.behind(output)
            names = [
                self._names[each] if isinstance(each, Branch) else self._bases[each]
                for each in behind
            ]
            found.append(pa.array(sorted(names), pa.string()))
        return found

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
                found[name] = self._rows_of(base)
        return found

    def _rows_of(self, constant: Constant) -> pa.Table:
        """The rows of a constant under the names that columns have here."""
        frame = self._frame_of(constant.rows.java)
        if not constant.output:  # Arrow would not say how many there are
            return pa.table({_COUNTED: pa.nulls(frame.count())})
        return frame.toArrow()

    def _all_branches(self) -> list[Branch]:
        inputs = [b for o in self._program.operators.values() for each in o.inputs for b in each]
        return [*inputs, *(b for output in self._program.outputs for b in output)]

    def _plan(self) -> DataFrame:
        sources = self._source_columns()
        frame = self._staged(
            self._tasks(),
            Source(self._inbox, {n: arrow_schema(s) for n, s in sources.items()}, self._parts),
            {**sources, **_REPORT_STRUCTS},
        )
        for level in range(self._program.levels + 1):
            if level:
                frame = self._level(frame, level)
            frame = self._branched(frame, level)
        return frame

    def _tasks(self) -> DataFrame:
        """A row for each task that the work begins in."""
        if self._parts == 1:
            return self._spark.range(1).coalesce(1)
        return self._spark.range(0, self._parts, 1, self._parts)

    def _source_columns(self) -> dict[str, StructType]:
        columns: dict[str, StructType] = {}
        for branch in self._all_branches():
            base = branch.base
            if isinstance(base, Get):
                self._bases[base] = f"in_{base.collection}"
            if isinstance(base, Get | Constant):
                columns[self._bases[base]] = update_struct(base.output)
        return columns

    def _branched(self, frame: DataFrame, level: int) -> DataFrame:
        """The stream with branches in the place of the bases that have just become known."""
        plan = Logical(frame._jdf.queryExecution().analyzed())
        for base, name in self._bases.items():
            if isinstance(base, Regroup) and self._program.level_of(base) == level:
                plan = self._regrouping.evaluated(plan, name, base)
        at = {column.name: column for column in plan.output}
        kept = [*_REPORT_STRUCTS, *(n for n in self._names.values() if n in at)]
        columns: list[Expression] = [at[name] for name in kept]
        for branch in self._all_branches():
            if branch in self._names or self._program.level_of(branch.base) != level:
                continue
            name = self._names[branch] = f"branch_{len(self._names)}"
            source = at[self._bases[branch.base]]
            column, self._shapes[name] = self._columns.column(branch, source, name)
            columns.append(column)
        return self._frame_of(self._builder.project(columns, plan))

    def _level(self, frame: DataFrame, level: int) -> DataFrame:
        """The stream after the stage of a level; its operators' outputs are known then."""
        incoming: dict[str, Shape] = {**REPORTS, **self._shapes}
        steps: list[Placed | Picked] = []
        leaving: dict[str, StructType] = dict(_REPORT_STRUCTS)
        for operator in self._program.at(level):
            placed = self._placed(operator)
            steps.append(placed)
            branches = [b for b in self._all_branches() if b.base == operator.node]
            steps += self._picked(placed.output, branches)
            if any(self._program.picks(branch) is None for branch in branches):
                leaving[placed.output] = _output_struct(operator.node)
        needed = self._needed_after(level)
        if self._parts > 1:
            operators = [each for each in steps if isinstance(each, Placed)]
            frame, steps, incoming = self._routed(frame, operators, incoming, needed)
        for branch, name in self._names.items():
            if name in needed:
                self._shapes[name] = Shape(self._shapes[name].updates)
                leaving[name] = update_struct(branch.output)
            else:
                self._shapes.pop(name, None)
        outgoing = {name: arrow_schema(struct) for name, struct in leaving.items()}
        stage = Stage(self._inbox, self._state, tuple(steps), incoming, outgoing, self._parts)
        return self._staged(frame, stage, leaving)

    def _routed(
        self,
        frame: DataFrame,
        placed: Sequence[Placed],
        incoming: Mapping[str, Shape],
        needed: set[str],
    ) -> tuple[DataFrame, list[Placed | Picked], dict[str, Shape]]:
        """The stream with each operator's inputs in the tasks that have their keys.

        Gives the operators with their inputs as they come then, and how.
        """
        structs: dict[str, StructType] = dict(_REPORT_STRUCTS)
        structs |= {n: update_struct(b.output) for b, n in self._names.items() if n in needed}
        by_name = {name: branch for branch, name in self._names.items()}
        routes: list[Route] = []
        steps: list[Placed | Picked] = []
        for each in placed:
            keys = each.operator.routes
            columns = []
            for place, parts in enumerate(each.inputs):
                name = f"{each.output}_in{place}"
                routes.append(Route(name, parts, None if keys is None else keys[place]))
                structs[name] = update_struct(by_name[parts[0][0]].output)
                columns.append(((name, True),))
            steps.append(replace(each, inputs=tuple(columns)))
        schemas = {name: arrow_schema(struct) for name, struct in structs.items()}
        router = Router(tuple(routes), incoming, schemas, self._parts)
        typed = StructType([StructField(n, struct) for n, struct in structs.items()])
        numbered = frame.mapInArrow(router.__call__, typed.add(PARTITION, IntegerType()))
        shuffled = numbered.repartitionById(self._parts, col(PARTITION)).drop(PARTITION)
        return shuffled, steps, {name: Shape(schema) for name, schema in schemas.items()}

    def _picked(self, source: str, branches: Sequence[Branch]) -> Iterator[Picked]:
        """The branches that only pick columns of an operator's output."""
        for branch in branches:
            picks = self._program.picks(branch)
            if picks is not None and branch not in self._names:
                name = self._names[branch] = f"branch_{len(self._names)}"
                schema = arrow_schema(update_struct(branch.output))
                self._shapes[name] = Shape(schema)
                yield Picked(name, source, picks, schema)

    def _needed_after(self, level: int) -> set[str]:
        later = [o for o in self._program.operators.values() if o.level > level]
        branches = [b for o in later for each in o.inputs for b in each]
        branches += [b for output in self._program.outputs for b in output]
        return {self._names[b] for b in branches if b in self._names}

    def _placed(self, operator: Operator) -> Placed:
        inputs = tuple(
            tuple((self._names[b], b.positive) for b in each) for each in operator.inputs
        )
        schemas = [self._shapes[parts[0][0]].updates for parts in inputs]
        made = operator_of(operator.node, schemas)
        name = self._bases[operator.node] = self._program.names[operator.node]
        arrangements = tuple(f"{name}_{place}" for place in range(len(made.layouts)))
        self.layouts.update(zip(arrangements, made.layouts, strict=True))
        schema = arrow_schema(_output_struct(operator.node))
        return Placed(made, inputs, name, schema, arrangements)

    def _staged(
        self, frame: DataFrame, stage: Source | Stage, columns: Mapping[str, StructType]
    ) -> DataFrame:
        schema = StructType([StructField(name, struct) for name, struct in columns.items()])
        return frame.mapInArrow(stage.__call__, schema)

    def _frame_of(self, plan: Any) -> DataFrame:
        return self._builder.frame(plan, self._spark)


def _output_struct(node: Stateful) -> StructType:
    """What a stage hands out for an operator: updates, or versions that are not evaluated yet."""
    if not isinstance(node, Regroup):
        return update_struct(node.output)
    rows = list(update_struct(node.input.output))[:-2]
    stamp = [StructField(name, LongType()) for name in (BEGIN, END, VERSION)]
    return StructType([*rows, *stamp, StructField(FIRST, BooleanType())])


def _stamped(rows: pa.Table, time: int) -> pa.Table:
    """Constant rows as updates at a time."""
    count = rows.num_rows
    columns = [] if rows.column_names == [_COUNTED] else rows.columns
    stamp = [pa.array([time] * count, pa.int64()), pa.array([1] * count, pa.int64())]
    names = [*map(column_name, range(len(columns))), TIME, DIFF]
    return pa.table([*columns, *stamp], names=names)
