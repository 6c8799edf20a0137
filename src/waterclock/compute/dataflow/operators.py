"""The stateful nodes as a Python stage runs them: which state they keep, and one step of each.

Inside a stage a row's columns are named by position (`c0`, `c1`, ...). An operator is made of plain
values only, so it can be sent to an executor.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from waterclock.compute.catalyst.types import arrow_type, column_name
from waterclock.compute.dataflow.program import Stateful
from waterclock.compute.kernels import aggregates, join, minmax, reduce, single, temporal, topk
from waterclock.compute.kernels.distinct import distinct
from waterclock.compute.kernels.errors import NO_ERRORS
from waterclock.compute.kernels.keys import key_columns, key_hashes
from waterclock.compute.kernels.linear import condensed
from waterclock.compute.kernels.step import Window
from waterclock.compute.kernels.threshold import threshold
from waterclock.compute.kernels.trace import Trace, arranged, arranged_schema, row_names
from waterclock.compute.kernels.versions import versions
from waterclock.compute.plan.nodes import (
    Aggregate,
    Arrange,
    Bound,
    Distinct,
    Function,
    Join,
    Reduce,
    Regroup,
    Single,
    Temporal,
    Threshold,
    TopK,
)
from waterclock.persist.arrangement.layout import Layout
from waterclock.persist.hashing import Hashes
from waterclock.persist.rows import DIFF, TIME


@dataclass(frozen=True, slots=True)
class Stepped:
    """What a step of an operator gives: its output's changes, its state's, its errors'."""

    output: pa.Table
    arranged: tuple[pa.Table, ...]
    errors: pa.Table
    is_consolidated: bool = False
    """Whether the state's changes have each row and time once, and none that comes to nothing."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What decides, beside its layout and the operator's input, what is in an arrangement."""

    present: frozenset[str] = frozenset()
    """Rows that are null in one of these columns are left out."""
    made: Hashable = None
    """What the rows are made into before they are kept, if not kept as they are."""


class StageOperator(Protocol):
    """One operator of a stage."""

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """The arrangements it keeps, one for each input."""
        ...

    @property
    def rules(self) -> tuple[Rule, ...]:
        """For each arrangement: operators that agree in input, layout and rule keep the same."""
        ...

    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        """The changes that the inputs' changes make, given the state before them.

        Updates of the same row and time need not have been added up.
        """
        ...

    def initial(self, time: int) -> pa.Table | None:
        """What the output holds from the beginning, if that is not nothing."""
        ...

    @property
    def routes(self) -> tuple[tuple[str, ...], ...] | None:
        """For each input the columns by which its rows can be divided among tasks.

        Rows that have to do with one another agree in them. None if all must be in one place.
        """
        ...


@dataclass(frozen=True)
class JoinOperator:
    """`shown` are the columns of the output that somebody reads, if only those are to be made: the
    others are null then. Rows that differ in nothing else are added up if there are many.
    """

    spec: join.JoinSpec
    left: pa.Schema
    right: pa.Schema
    shown: frozenset[str] | None = None

    @property
    def layouts(self) -> tuple[Layout, ...]:
        return (
            Layout.of_schema(arranged_schema(self.left), self.spec.left_keys),
            Layout.of_schema(arranged_schema(self.right), self.right_keys),
        )

    @property
    def rules(self) -> tuple[Rule, ...]:
        sides = (self.spec.left_keys, self.right_keys)
        return tuple(Rule(_compared(keys, self.spec.safe)) for keys in sides)

    @property
    def right_keys(self) -> tuple[str, ...]:
        """The names of the right side's keys there."""
        back = {new: old for old, new in self._shifted().items()}
        return tuple(back[name] for name in self.spec.right_keys)

    def _shifted(self) -> dict[str, str]:
        """What the right side's columns are called in the output, where they follow the left's."""
        width = len(row_names(self.left))
        return {
            name: column_name(width + place) for place, name in enumerate(row_names(self.right))
        }

    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        names = self._shifted()
        left, right = deltas[0], _renamed(deltas[1], names)
        trace = _Renamed(traces[1], names)
        stepped = join.join(self.spec, left, right, traces[0], trace, shown=self.shown)
        output = stepped.table() if self.shown is None else _condensed(stepped)
        kept = _renamed(stepped.right, {new: old for old, new in names.items()})
        return Stepped(output, (stepped.left, kept), NO_ERRORS, is_consolidated=True)

    @property
    def routes(self) -> tuple[tuple[str, ...], ...] | None:
        return self.spec.left_keys, self.right_keys

    def initial(self, time: int) -> pa.Table | None:
        del time
        return None


def _compared(keys: Sequence[str], safe: Sequence[bool]) -> frozenset[str]:
    """The keys that are compared with `=`, so that a null in one matches nothing."""
    return frozenset(key for key, is_safe in zip(keys, safe, strict=True) if not is_safe)


@dataclass(frozen=True)
class _Renamed:
    """A trace with other names for some columns."""

    trace: Trace
    names: Mapping[str, str]

    def lookup(self, hashes: Hashes) -> pa.Table:
        return _renamed(self.trace.lookup(hashes), self.names)

    def lookup_range(self, low: int, high: int) -> pa.Table:
        return _renamed(self.trace.lookup_range(low, high), self.names)

    @property
    def num_rows(self) -> int:
        return self.trace.num_rows

    def everything(self) -> pa.Table:
        return _renamed(self.trace.everything(), self.names)


def _renamed(table: pa.Table, names: Mapping[str, str]) -> pa.Table:
    return table.rename_columns([names.get(name, name) for name in table.column_names])


def _condensed(step: join.JoinStep) -> pa.Table:
    """The output of a join, added up chunk by chunk: all of it may not even fit into memory."""
    chunks = [condensed(chunk) for chunk in step.output]
    return condensed(pa.concat_tables([step.schema.empty_table(), *chunks]))


@dataclass(frozen=True)
class ReduceOperator:
    spec: reduce.ReduceSpec
    input: pa.Schema

    @property
    def layouts(self) -> tuple[Layout, ...]:
        schema = reduce.state_schema(self.spec, self.input)
        diffs = reduce.diff_columns(self.spec, self.input)
        return (Layout.of_schema(schema, self.spec.keys, diffs),)

    @property
    def rules(self) -> tuple[Rule, ...]:
        return (Rule(made=self.spec),)

    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        stepped = reduce.reduce(self.spec, deltas[0], traces[0])
        return Stepped(stepped.output, (stepped.arranged,), stepped.errors, is_consolidated=True)

    @property
    def routes(self) -> tuple[tuple[str, ...], ...] | None:
        return (self.spec.keys,)

    def initial(self, time: int) -> pa.Table | None:
        return reduce.initial_output(self.spec, self.input, time)


@dataclass(frozen=True)
class MinMaxOperator:
    spec: minmax.MinMaxSpec
    input: pa.Schema

    @property
    def layouts(self) -> tuple[Layout, ...]:
        return (Layout.of_schema(minmax.state_schema(self.spec, self.input), self.spec.keys),)

    @property
    def rules(self) -> tuple[Rule, ...]:
        return (Rule(made=self.spec),)

    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        stepped = minmax.minmax(self.spec, deltas[0], traces[0])
        return Stepped(stepped.output, (stepped.arranged,), stepped.errors)

    @property
    def routes(self) -> tuple[tuple[str, ...], ...] | None:
        return (self.spec.keys,)

    def initial(self, time: int) -> pa.Table | None:
        return minmax.initial_output(self.spec, self.input, time)


@dataclass(frozen=True)
class _OfWholeRows:
    """An operator whose keys are all columns of its one input."""

    input: pa.Schema

    @property
    def layouts(self) -> tuple[Layout, ...]:
        return (Layout.of_schema(arranged_schema(self.input), row_names(self.input)),)

    @property
    def rules(self) -> tuple[Rule, ...]:
        return (Rule(made=type(self).__name__),)

    @property
    def routes(self) -> tuple[tuple[str, ...], ...] | None:
        return (tuple(row_names(self.input)),)

    def initial(self, time: int) -> pa.Table | None:
        del time
        return None


@dataclass(frozen=True)
class DistinctOperator(_OfWholeRows):
    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        stepped = distinct(deltas[0], traces[0])
        return Stepped(stepped.output, (stepped.arranged,), stepped.errors)


@dataclass(frozen=True)
class ThresholdOperator(_OfWholeRows):
    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        stepped = threshold(deltas[0], traces[0])
        return Stepped(stepped.output, (stepped.arranged,), stepped.errors)


@dataclass(frozen=True)
class _OfGroups:
    """An operator that keeps the rows of its one input as they are, under keys."""

    keys: tuple[str, ...]
    input: pa.Schema

    @property
    def layouts(self) -> tuple[Layout, ...]:
        return (Layout.of_schema(arranged_schema(self.input), self.keys),)

    @property
    def rules(self) -> tuple[Rule, ...]:
        return (Rule(),)

    @property
    def routes(self) -> tuple[tuple[str, ...], ...] | None:
        return (self.keys,)

    def initial(self, time: int) -> pa.Table | None:
        del time
        return None


@dataclass(frozen=True)
class SingleOperator(_OfGroups):
    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        stepped = single.single(self.keys, deltas[0], traces[0])
        return Stepped(stepped.output, (stepped.arranged,), stepped.errors)

    def initial(self, time: int) -> pa.Table | None:
        return single.initial_output(self.keys, self.input, time)


@dataclass(frozen=True)
class TopKOperator:
    spec: topk.TopKSpec
    input: pa.Schema

    @property
    def layouts(self) -> tuple[Layout, ...]:
        return (Layout.of_schema(arranged_schema(self.input), self.spec.keys),)

    @property
    def rules(self) -> tuple[Rule, ...]:
        return (Rule(),)

    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        stepped = topk.topk(self.spec, deltas[0], traces[0])
        return Stepped(stepped.output, (stepped.arranged,), stepped.errors)

    @property
    def routes(self) -> tuple[tuple[str, ...], ...] | None:
        return (self.spec.keys,)

    def initial(self, time: int) -> pa.Table | None:
        del time
        return None


@dataclass(frozen=True)
class TemporalOperator:
    """The one operator whose step depends on the times it covers, and not on its inputs alone."""

    spec: temporal.TemporalSpec
    input: pa.Schema
    window: Window | None = None

    def during(self, window: Window) -> TemporalOperator:
        """The operator for a step over these times."""
        return replace(self, window=window)

    @property
    def layouts(self) -> tuple[Layout, ...]:
        return (Layout.of_schema(temporal.state_schema(self.spec, self.input), (temporal.DUE,)),)

    @property
    def rules(self) -> tuple[Rule, ...]:
        return (Rule(made=self.spec),)

    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        assert self.window is not None, "a step takes place during a window"
        stepped = temporal.temporal(self.spec, deltas[0], traces[0], self.window)
        return Stepped(stepped.output, (stepped.arranged,), stepped.errors)

    @property
    def routes(self) -> tuple[tuple[str, ...], ...] | None:
        return None

    def initial(self, time: int) -> pa.Table | None:
        del time
        return None


@dataclass(frozen=True)
class RegroupOperator(_OfGroups):
    """Its output is versions of groups, which Catalyst evaluates after the stage."""

    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        stepped = versions(self.keys, deltas[0], traces[0])
        return Stepped(stepped.output, (stepped.arranged,), stepped.errors)


@dataclass(frozen=True)
class ArrangeOperator(_OfGroups):
    def step(self, deltas: Sequence[pa.Table], traces: Sequence[Trace]) -> Stepped:
        del traces
        [delta] = deltas
        hashes = key_hashes(key_columns(delta, self.keys), delta.num_rows)
        nothing = delta.select([TIME, DIFF]).slice(0, 0)
        return Stepped(nothing, (arranged(delta, hashes),), NO_ERRORS)


_FUNCTIONS = {
    Function.COUNT_ROWS: aggregates.Function.COUNT_ROWS,
    Function.COUNT: aggregates.Function.COUNT,
    Function.SUM: aggregates.Function.SUM,
    Function.AVG: aggregates.Function.AVG,
    Function.VAR_POP: aggregates.Function.VAR_POP,
    Function.VAR_SAMP: aggregates.Function.VAR_SAMP,
    Function.STDDEV_POP: aggregates.Function.STDDEV_POP,
    Function.STDDEV_SAMP: aggregates.Function.STDDEV_SAMP,
}
_EXTREMES = {Function.MIN: minmax.Extreme.MIN, Function.MAX: minmax.Extreme.MAX}


def operator_of(node: Stateful, inputs: Sequence[pa.Schema]) -> StageOperator:
    """The operator for a node whose inputs' updates have these columns."""
    match node:
        case Join(_, _, on):
            left, right = inputs
            width = len(row_names(left))
            names = [(left.names[e.left], column_name(width + e.right), e.null_safe) for e in on]
            left_keys, right_keys, safe = zip(*names, strict=True) if names else ((), (), ())
            return JoinOperator(join.JoinSpec(left_keys, right_keys, safe), left, right)
        case Reduce(_, keys, calls, _) if all(c.function in _EXTREMES for c in calls):
            return MinMaxOperator(_extremes(keys, calls), inputs[0])
        case Reduce(_, keys, calls, _):
            return ReduceOperator(_added(keys, calls), inputs[0])
        case Distinct():
            return DistinctOperator(inputs[0])
        case Threshold():
            return ThresholdOperator(inputs[0])
        case Single(_, keys):
            return SingleOperator(_names(keys), inputs[0])
        case TopK(_, keys, order, limit, offset):
            orders = tuple(
                topk.OrderBy(column_name(o.column), o.descending, o.nulls_first) for o in order
            )
            return TopKOperator(topk.TopKSpec(_names(keys), orders, limit, offset), inputs[0])
        case Temporal(_, lower, upper, output):
            columns = _names(range(len(output)))
            spec = temporal.TemporalSpec(columns, _bounds(lower), _bounds(upper))
            return TemporalOperator(spec, inputs[0])
        case Arrange(_, keys):
            return ArrangeOperator(_names(keys), inputs[0])
        case Regroup(_, keys, _, _, _, _):
            return RegroupOperator(_names(keys), inputs[0])


def _names(places: Sequence[int]) -> tuple[str, ...]:
    return tuple(map(column_name, places))


def _bounds(bounds: Sequence[Bound]) -> tuple[temporal.Bound, ...]:
    return tuple(temporal.Bound(column_name(b.column), b.inclusive) for b in bounds)


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
