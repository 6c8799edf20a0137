"""The stateful nodes as a Python stage runs them: which state they keep, and one step of each.

Inside a stage a row's columns are named by position (`c0`, `c1`, ...). An operator is made of plain
values only, so it can be sent to an executor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from waterclock.compute.arrangement.layout import Layout
from waterclock.compute.catalyst.types import arrow_type, column_name
from waterclock.compute.dataflow.program import Stateful
from waterclock.compute.errors import NotMaintainable
from waterclock.compute.kernels import aggregates, join, minmax, reduce, topk
from waterclock.compute.kernels.distinct import distinct
from waterclock.compute.kernels.errors import NO_ERRORS
from waterclock.compute.kernels.trace import Trace, arranged_schema, row_names
from waterclock.compute.plan.nodes import (
    Aggregate,
    Distinct,
    Function,
    Join,
    Reduce,
    TopK,
)


@dataclass(frozen=True, slots=True)
class Stepped:
    """What a step of an operator gives: its output's changes, its state's, its errors'."""

    output: pa.Table
    arranged: tuple[pa.Table, ...]
    errors: pa.Table


class StageOperator(Protocol):
    """One operator of a stage."""

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """The arrangements it keeps."""
        ...

    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        """The changes that the inputs' changes make, given the state before them."""
        ...

    def initial(self, time: int) -> pa.Table | None:
        """What the output holds from the beginning, if that is not nothing."""
        ...


@dataclass(frozen=True)
class JoinOperator:
    spec: join.JoinSpec
    left: pa.Schema
    right: pa.Schema

    @property
    def layouts(self) -> tuple[Layout, ...]:
        return (
            Layout.of_schema(arranged_schema(self.left), self.spec.left_keys),
            Layout.of_schema(arranged_schema(self.right), self.spec.right_keys),
        )

    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        left, right = deltas
        stepped = join.join(
            self.spec, left, right.rename_columns(self.right.names), traces[0], traces[1]
        )
        return Stepped(stepped.table(), (stepped.left, stepped.right), NO_ERRORS)

    def initial(self, time: int) -> pa.Table | None:
        del time
        return None


@dataclass(frozen=True)
class ReduceOperator:
    spec: reduce.ReduceSpec
    input: pa.Schema

    @property
    def layouts(self) -> tuple[Layout, ...]:
        schema = reduce.state_schema(self.spec, self.input)
        diffs = reduce.diff_columns(self.spec, self.input)
        return (Layout.of_schema(schema, self.spec.keys, diffs),)

    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        stepped = reduce.reduce(self.spec, deltas[0], traces[0])
        return Stepped(stepped.output, (stepped.arranged,), stepped.errors)

    def initial(self, time: int) -> pa.Table | None:
        return reduce.initial_output(self.spec, self.input, time)


@dataclass(frozen=True)
class MinMaxOperator:
    spec: minmax.MinMaxSpec
    input: pa.Schema

    @property
    def layouts(self) -> tuple[Layout, ...]:
        return (Layout.of_schema(minmax.state_schema(self.spec, self.input), self.spec.keys),)

    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        stepped = minmax.minmax(self.spec, deltas[0], traces[0])
        return Stepped(stepped.output, (stepped.arranged,), stepped.errors)

    def initial(self, time: int) -> pa.Table | None:
        return minmax.initial_output(self.spec, self.input, time)


@dataclass(frozen=True)
class DistinctOperator:
    input: pa.Schema

    @property
    def layouts(self) -> tuple[Layout, ...]:
        return (Layout.of_schema(arranged_schema(self.input), row_names(self.input)),)

    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        stepped = distinct(deltas[0], traces[0])
        return Stepped(stepped.output, (stepped.arranged,), stepped.errors)

    def initial(self, time: int) -> pa.Table | None:
        del time
        return None


@dataclass(frozen=True)
class TopKOperator:
    spec: topk.TopKSpec
    input: pa.Schema

    @property
    def layouts(self) -> tuple[Layout, ...]:
        return (Layout.of_schema(arranged_schema(self.input), self.spec.keys),)

    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        stepped = topk.topk(self.spec, deltas[0], traces[0])
        return Stepped(stepped.output, (stepped.arranged,), stepped.errors)

    def initial(self, time: int) -> pa.Table | None:
        del time
        return None


_FUNCTIONS = {
    Function.COUNT_ROWS: aggregates.Function.COUNT_ROWS,
    Function.COUNT: aggregates.Function.COUNT,
    Function.SUM: aggregates.Function.SUM,
    Function.AVG: aggregates.Function.AVG,
}
_EXTREMES = {Function.MIN: minmax.Extreme.MIN, Function.MAX: minmax.Extreme.MAX}


def operator_of(node: Stateful, inputs: Sequence[pa.Schema]) -> StageOperator:
    """The operator for a node whose inputs' updates have these columns."""
    match node:
        case Join(_, _, on):
            left, right = inputs
            right = _shifted(right, len(row_names(left)))
            names = [(left.names[e.left], right.names[e.right], e.null_safe) for e in on]
            left_keys, right_keys, safe = zip(*names, strict=True) if names else ((), (), ())
            return JoinOperator(join.JoinSpec(left_keys, right_keys, safe), left, right)
        case Reduce(_, keys, calls, _) if all(c.function in _EXTREMES for c in calls):
            return MinMaxOperator(_extremes(keys, calls), inputs[0])
        case Reduce(_, keys, calls, _):
            return ReduceOperator(_added(keys, calls), inputs[0])
        case Distinct():
            return DistinctOperator(inputs[0])
        case TopK(_, keys, order, limit, offset):
            orders = tuple(
                topk.OrderBy(column_name(o.column), o.descending, o.nulls_first) for o in order
            )
            return TopKOperator(topk.TopKSpec(_names(keys), orders, limit, offset), inputs[0])
        case _:
            raise NotMaintainable(f"a view can not be maintained yet: {node.reason}")


def _shifted(schema: pa.Schema, by: int) -> pa.Schema:
    """The same columns, with names that go on after `by` others."""
    width = len(row_names(schema))
    fields = [field.with_name(column_name(by + i)) for i, field in enumerate(list(schema)[:width])]
    return pa.schema([*fields, *list(schema)[width:]])


def _names(places: Sequence[int]) -> tuple[str, ...]:
    return tuple(map(column_name, places))


def _added(keys: tuple[int, ...], calls: Sequence[Aggregate]) -> reduce.ReduceSpec:
    wanted = tuple(
        aggregates.Aggregate(
            column_name(len(keys) + i),
            _FUNCTIONS[call.function],
            None if call.argument is None else column_name(call.argument),
            arrow_type(call.result.type),
        )
        for i, call in enumerate(calls)
    )
    return reduce.ReduceSpec(_names(keys), wanted, always=not keys)


def _extremes(keys: tuple[int, ...], calls: Sequence[Aggregate]) -> minmax.MinMaxSpec:
    [argument] = {call.argument for call in calls}
    assert argument is not None, "an extreme is of a column"
    shown = tuple((column_name(len(keys) + i), _EXTREMES[c.function]) for i, c in enumerate(calls))
    return minmax.MinMaxSpec(_names(keys), column_name(argument), shown, always=not keys)
