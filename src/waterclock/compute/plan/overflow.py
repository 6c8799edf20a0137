"""Sums over groups that may be too large for their type.

Where Catalyst itself adds up the rows of a group, a sum beyond the range of its type would raise,
and stop the view. So it is told to give null instead; whether a null is that, and not just the sum
of nulls, the number of values that were added tells. The error is then one of the row that has the
sum, like any other (see `dataflow.failures`): it holds as long as the group is such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from waterclock.compute.catalyst.trees import Expression
from waterclock.compute.faults import out_of_range
from waterclock.compute.plan.linear import Linears, attributes_of

_INEXACT = frozenset({'"float"', '"double"'})
_NAMES = {'"long"': "BIGINT"}


@dataclass(frozen=True, slots=True)
class Guarded:
    """Window functions none of which raises because of a sum."""

    computed: tuple[Expression, ...]
    results: Mapping[int, Expression]
    """What those were that are no more, by their ids: expressions over what is computed."""


def guarded(
    linears: Linears, columns: Sequence[Expression], read: Set[int] = frozenset()
) -> Guarded:
    """The window functions, which are named, so that overflows are errors of single rows.

    Those that other window functions `read` stay as they are.
    """
    computed: list[Expression] = []
    results: dict[int, Expression] = {}
    for column in columns:
        if column.expr_id in read or not _may_overflow(column):
            computed.append(column)
            continue
        parts = _tried(linears, column)
        computed += parts
        results[column.expr_id] = _checked(linears, *parts)
    return Guarded(tuple(computed), results)


def _may_overflow(column: Expression) -> bool:
    """Whether a named window function is a sum, or an average, that may be too large."""
    [window] = column.children
    if window.kind != "WindowExpression":  # the optimizer knew what it gives: a constant
        return False
    call = window.children[0]
    if call.kind != "AggregateExpression" or call.type_json in _INEXACT:
        return False
    function = call.children[0]
    return function.kind in ("Sum", "Average") and not _is_try(function)


def _is_try(function: Expression) -> bool:
    name: str = function.java.prettyName()
    return name.startswith("try_")


def _tried(linears: Linears, column: Expression) -> tuple[Expression, Expression]:
    """The function with null for an overflow, and how many values it is made from."""
    builder = linears.builder
    [window] = column.children
    call, spec = window.children
    function = call.children[0]
    made = []
    for each, name in ((builder.tried(function), "sum"), (builder.count_of(function), "count")):
        moved = builder.with_children(window, [builder.with_function(call, each), spec])
        made.append(linears.fresh(moved, name))
    return made[0], made[1]


def _checked(linears: Linears, total: Expression, count: Expression) -> Expression:
    builder = linears.builder
    value, added = _reference(linears, total), _reference(linears, count)
    zero = builder.cast(builder.literal(0, '"integer"'), '"long"')
    is_over = builder.call(
        "And", builder.call("IsNull", value), builder.call("GreaterThan", added, zero)
    )
    kind = value.type_json
    reason = out_of_range(_NAMES.get(kind, kind.strip('"').upper()))
    error = builder.cast(builder.raised(f"{reason.sqlstate} {reason.message}"), kind)
    return builder.call("If", is_over, error, value)


def _reference(linears: Linears, column: Expression) -> Expression:
    return linears.reference(attributes_of([column])[0])
