"""A program as a chain of stages and Catalyst's branches: one DataFrame, to be run every tick.

The chain: the stage that reads the inputs and runs what needs nothing else, Catalyst's branches,
the stage of the first level, Catalyst's branches over its outputs, and so on. All of it is narrow,
one task without a shuffle, whose cost is the number of Python stages. For large changes the same
chain is spread over many tasks: before each stage the rows are brought to the task that has the
range of hashes in which their keys lie (`exchange`), those that need nothing from Catalyst on the
way straight from where they are known (`dispatch`).

What several views compute alike is computed once: branches of one base with equal expressions have
one name, and operators that are equal and take in the same names are *twins*, of which only the
first runs. Operators that take in the same names under the same key keep the same rows, whatever
they do with them: that is written once. Each has its state nevertheless, as names of its own for
the same files, so that a view can leave the others at any time.

Here it is only planned; `job` runs it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from waterclock.compute.catalyst.trees import Builder, Expression, Logical
from waterclock.compute.catalyst.types import arrow_schema, column_name, update_struct
from waterclock.compute.dataflow.columns import BranchColumns
from waterclock.compute.dataflow.dispatch import Dispatch
from waterclock.compute.dataflow.exchange import NOTES, PARTITION
from waterclock.compute.dataflow.operators import JoinOperator, RegroupOperator, operator_of
from waterclock.compute.dataflow.program import (
    Base,
    Branch,
    Direct,
    Operator,
    Program,
    Sum,
)
from waterclock.compute.dataflow.regrouping import Regrouping
from waterclock.compute.dataflow.sending import SENT, Sending
from waterclock.compute.dataflow.shape import Shape
from waterclock.compute.dataflow.stage import (
    REPORTS,
    First,
    Picked,
    Placed,
    Route,
    Router,
    Source,
    Spread,
    Stage,
)
from waterclock.compute.dataflow.structs import REPORT_STRUCTS, output_struct, schema_of
from waterclock.compute.plan.nodes import Constant, Get, Regroup
from waterclock.persist.arrangement.layout import Layout
from waterclock.persist.blob.api import Blob

COUNTED = "mz_rows_without_columns"
"""The column of constant rows that have none, so that they can be counted."""

_SENT_REPORT = {SENT: Shape(NOTES)}


class Chain:
    """The DataFrame of a program, and how what it gives is called."""

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
        """See `Job`."""
        assert parts == 1 or not program.fused
        self._parts = parts
        self._spark = spark
        self._builder = builder
        self._program = program
        self._columns = BranchColumns(builder)
        self._regrouping = Regrouping(builder, parts)
        self._inbox = inbox
        self._blob = blob
        self._state = state
        self.names: dict[Branch, str] = {}
        """What branches are called in the stream; those that are sent have no name."""
        self.bases: dict[Base, str] = {}
        """What bases are called in it."""
        self._shapes: dict[str, Shape] = {}
        self._picks: dict[tuple[str, Direct, pa.Schema], str] = {}
        """What was picked already, and its name."""
        self.layouts: dict[str, Layout] = {}
        """The arrangements that the program keeps, by name."""
        self._alike: dict[Hashable, list[str]] = {}
        """Those that hold the same rows, by what decides that."""
        self.constants = self._find_constants()
        """The rows of the plan's constants, by the names of these bases."""
        self._reports = REPORTS if parts == 1 else {**REPORTS, **_SENT_REPORT}
        self._dispatch = Dispatch(program, self.bases, parts)
        self._frame = self._plan()
        shown = {self.names[b] for output in program.outputs for b in output}
        self.result = {**{name: self._shapes[name] for name in shown}, **REPORTS}
        """The columns that are collected at the end, and how they travel."""

    def frame(self) -> DataFrame:
        """What is to be run, once.

        A plan that was run keeps the files of its shuffles, and Spark would read them again the
        next time instead of what is new. So a chain that has shuffles is planned for each run.
        """
        if self._parts == 1:
            return self._frame
        return self._frame_of(self._frame._jdf.queryExecution().analyzed())

    @property
    def alike(self) -> list[list[str]]:
        """The names of the arrangements that hold the same rows, the first to get them in front."""
        return list(self._alike.values())

    def _find_constants(self) -> dict[str, pa.Table]:
        """The rows of the plan's constants."""
        found: dict[str, pa.Table] = {}
        for branch in self._program.branches:
            base = branch.base
            if isinstance(base, Constant) and base not in self.bases:
                name = f"constant_{len(found)}"
                self.bases[base] = name
                found[name] = self._rows_of(base)
        return found

    def _rows_of(self, constant: Constant) -> pa.Table:
        """The rows of a constant under the names that columns have here."""
        frame = self._frame_of(constant.rows.java)
        if not constant.output:  # Arrow would not say how many there are
            return pa.table({COUNTED: pa.nulls(frame.count())})
        return frame.toArrow()

    @property
    def _report_structs(self) -> dict[str, StructType]:
        sent = {} if self._parts == 1 else {SENT: from_arrow_schema(NOTES)}
        return {**REPORT_STRUCTS, **sent}

    def _plan(self) -> DataFrame:
        columns = self._source_columns()
        schemas = {name: arrow_schema(struct) for name, struct in columns.items()}
        source = Source(schemas, self._blob, self._parts)
        begin = self._first if self._parts == 1 else self._spread
        frame = begin(source, columns)
        for level in range(self._program.levels + 1):
            if level:
                frame = self._level(frame, level)
            frame = self._branched(frame, level)
        return frame

    def _first(self, source: Source, columns: Mapping[str, StructType]) -> DataFrame:
        """The stream after the inputs' changes have come, and the operators of level 0 have run."""
        steps: list[Placed | Picked] = []
        leaving: dict[str, StructType] = self._report_structs
        for base, name in list(self.bases.items()):
            branches = [b for b in self._program.branches if b.base == base]
            steps += self._picked(name, branches)
            if any(self._program.picks(branch) is None for branch in branches):
                leaving[name] = columns[name]
        self._place(0, steps, leaving)
        self._pass_on(self._needed_after(0), leaving)
        outgoing = {name: arrow_schema(struct) for name, struct in leaving.items()}
        stage = Stage(self._inbox, self._state, tuple(steps), {}, outgoing, Sending())
        return self._staged(self._tasks(), First(source, stage), leaving)

    def _spread(self, source: Source, columns: Mapping[str, StructType]) -> DataFrame:
        """The stream after the inputs' changes have come, of which most may have been sent off."""
        leaving = self._report_structs
        for base, name in self.bases.items():
            branches = [b for b in self._program.branches if b.base == base]
            leaving |= self._dispatch.streamed(name, columns[name], branches)
        outgoing = {name: arrow_schema(struct) for name, struct in leaving.items()}
        sending = self._dispatch.sending(self.bases)
        return self._staged(self._tasks(), Spread(self._inbox, source, outgoing, sending), leaving)

    def _tasks(self) -> DataFrame:
        """A row for each task that the work begins in."""
        if self._parts == 1:
            return self._spark.range(1).coalesce(1)
        return self._spark.range(0, self._parts, 1, self._parts)

    def _source_columns(self) -> dict[str, StructType]:
        columns: dict[str, StructType] = {}
        for branch in self._program.branches:
            base = branch.base
            if isinstance(base, Get):
                self.bases[base] = f"in_{base.collection}"
            if isinstance(base, Get | Constant):
                columns[self.bases[base]] = update_struct(base.output)
        return columns

    def _branched(self, frame: DataFrame, level: int) -> DataFrame:
        """The stream with branches in the place of the bases that have just become known."""
        plan = Logical(frame._jdf.queryExecution().analyzed())
        for base, name in self.bases.items():
            if isinstance(base, Regroup) and self._program.level_of(base) == level:
                plan = self._regrouping.evaluated(plan, name, base)
        at = {column.name: column for column in plan.output}
        kept = dict.fromkeys([*self._reports, *(n for n in self.names.values() if n in at)])
        columns: list[Expression] = [at[name] for name in kept]
        known: dict[tuple[int, Shape], list[Expression]] = {}
        for branch in self._program.branches:
            if branch in self.names or self._program.level_of(branch.base) != level:
                continue
            if branch in self._dispatch.sent:
                continue
            name = f"branch_{len(self.names)}"
            source = at[self._dispatch.rests.get(branch, self.bases[branch.base])]
            column, shape = self._columns.column(branch, source, name)
            alike = known.setdefault((column.children[0].java.hashCode(), shape), [])
            same = next((each for each in alike if _is_same(each, column)), None)
            if same is None:
                alike.append(column)
                columns.append(column)
                self._shapes[name] = shape
            self.names[branch] = name if same is None else same.name
        return self._frame_of(self._builder.project(columns, plan))

    def _level(self, frame: DataFrame, level: int) -> DataFrame:
        """The stream after the stage of a level; its operators' outputs are known then."""
        incoming: dict[str, Shape] = {**self._reports, **self._shapes}
        steps: list[Placed | Picked] = []
        leaving: dict[str, StructType] = self._report_structs
        self._place(level, steps, leaving)
        needed = self._needed_after(level)
        if self._parts > 1:
            operators = [each for each in steps if isinstance(each, Placed)]
            frame, steps, incoming = self._routed(frame, operators, incoming, needed)
        self._pass_on(needed, leaving)
        outgoing = {name: arrow_schema(struct) for name, struct in leaving.items()}
        sending = self._dispatch.sending(operator.node for operator in self._program.at(level))
        stage = Stage(
            self._inbox, self._state, tuple(steps), incoming, outgoing, sending, self._parts
        )
        return self._staged(frame, stage, leaving)

    def _place(
        self, level: int, steps: list[Placed | Picked], leaving: dict[str, StructType]
    ) -> None:
        """Add the operators of a level, and what leaves the stage because Catalyst needs it."""
        for operator in self._program.at(level):
            placed = self._placed(operator)
            twin = self._twin_of(placed, steps)
            if twin is None:
                steps.append(placed)
            else:
                steps[twin] = placed = _with_twin(steps[twin], placed)
            self.bases[operator.node] = placed.output
            branches = [b for b in self._program.branches if b.base == operator.node]
            steps += self._picked(placed.output, branches)
            leaving |= self._dispatch.streamed(
                placed.output, output_struct(operator.node), branches
            )

    def _twin_of(self, placed: Placed, steps: Sequence[Placed | Picked]) -> int | None:
        """The place of an operator that does just the same, if there is one.

        Windows are evaluated outside of the operator, and may be others. Work that is spread has
        no twins.
        """
        if self._parts > 1 or isinstance(placed.operator, RegroupOperator):
            return None
        for place, each in enumerate(steps):
            if isinstance(each, Placed) and each.does_the_same_as(placed):
                return place
        return None

    def _pass_on(self, needed: set[str], leaving: dict[str, StructType]) -> None:
        """Let the branches that are needed later leave a stage too, as plain updates."""
        for branch, name in self.names.items():
            if name in needed:
                self._shapes[name] = Shape(self._shapes[name].updates)
                leaving[name] = update_struct(branch.output)
            else:
                self._shapes.pop(name, None)

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
        schemas = {name: shape.updates for name, shape in self._reports.items()}
        schemas |= {n: schema_of([b]) for b, n in self.names.items() if n in needed}
        arriving: set[str] = set()
        routes: list[Route] = []
        steps: list[Placed | Picked] = []
        for each in placed:
            keys = each.operator.routes
            columns = []
            for place, parts in enumerate(each.inputs):
                name = f"{each.output}_in{place}"
                arriving.add(name)
                schemas[name] = self._dispatch.inputs[name]
                if parts:  # else all of it was sent
                    routes.append(Route(name, parts, None if keys is None else keys[place]))
                columns.append(((name, True),))
            steps.append(replace(each, inputs=tuple(columns)))
        router = Router(
            self._inbox, tuple(routes), frozenset(arriving), incoming, schemas, self._parts
        )
        notes = frame.mapInArrow(router.__call__, from_arrow_schema(NOTES))
        shuffled = notes.repartitionById(self._parts, col(PARTITION))
        return shuffled, steps, {name: Shape(schema) for name, schema in schemas.items()}

    def _picked(self, source: str, branches: Sequence[Branch]) -> Iterator[Picked]:
        """The branches that only pick columns of a base."""
        for branch in branches:
            picks = self._program.picks(branch)
            if picks is not None and branch not in self.names:
                schema = arrow_schema(update_struct(branch.output))
                name = self._picks.get((source, picks, schema))
                if name is None:
                    name = self._picks[source, picks, schema] = f"branch_{len(self.names)}"
                    self._shapes[name] = Shape(schema)
                    yield Picked(name, source, picks.places, picks.present, schema)
                self.names[branch] = name

    def _needed_after(self, level: int) -> set[str]:
        later = [o for o in self._program.operators.values() if o.level > level]
        branches = [b for o in later for each in o.inputs for b in each]
        branches += [b for output in self._program.outputs for b in output]
        return {self.names[b] for b in branches if b in self.names}

    def _placed(self, operator: Operator) -> Placed:
        inputs = tuple(
            tuple((self.names[b], b.positive) for b in each if b not in self._dispatch.sent)
            for each in operator.inputs
        )
        made = operator_of(operator.node, [schema_of(each) for each in operator.inputs])
        if self._parts > 1 and isinstance(made, JoinOperator):
            made = replace(made, shown=self._read(operator.node))
        name = self._program.names[operator.node]
        arrangements = tuple(f"{name}_{place}" for place in range(len(made.layouts)))
        self.layouts.update(zip(arrangements, made.layouts, strict=True))
        rules = [
            replace(rule, present=rule.present - _never_null(branches))
            for rule, branches in zip(made.rules, operator.inputs, strict=True)
        ]
        firsts = tuple(map(self._first_alike, arrangements, inputs, made.layouts, rules))
        schema = arrow_schema(output_struct(operator.node))
        return Placed(made, inputs, name, schema, arrangements, firsts)

    def _first_alike(self, name: str, *holds: Hashable) -> str:
        """The first arrangement that holds the same, which is the one itself if there is none.

        Tasks of work that is spread get the rows of each operator for itself.
        """
        alike = self._alike.setdefault(holds if self._parts == 1 else name, [])
        alike.append(name)
        return alike[0]

    def _read(self, base: Base) -> frozenset[str]:
        """The columns of a base that branches read."""
        reads = (b.reads for b in self._program.branches if b.base == base)
        return frozenset(column_name(place) for each in reads for place in each)

    def _staged(
        self, frame: DataFrame, stage: First | Spread | Stage, columns: Mapping[str, StructType]
    ) -> DataFrame:
        schema = StructType([StructField(name, struct) for name, struct in columns.items()])
        return frame.mapInArrow(stage.__call__, schema)

    def _frame_of(self, plan: Any) -> DataFrame:
        return self._builder.frame(plan, self._spark)


def _never_null(branches: Sum) -> frozenset[str]:
    """Columns in which no row of the sum has a null, since rows with one were left out."""
    found = [frozenset(map(column_name, branch.never_null)) for branch in branches]
    return frozenset.intersection(*found) if found else frozenset()


def _is_same(one: Expression, other: Expression) -> bool:
    """Whether two columns are the same but for their names."""
    answer: bool = one.children[0].java.equals(other.children[0].java)
    return answer


def _with_twin(placed: Placed | Picked, twin: Placed) -> Placed:
    """The operator, which keeps the state of another too."""
    assert isinstance(placed, Placed)
    return replace(placed, twins=(*placed.twins, twin.arrangements))
