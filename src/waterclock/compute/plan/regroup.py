"""What has no kernel, as window functions that are evaluated anew on each group that changes.

A Catalyst `Window` is that already. Aggregates become it: each of them as a window over the whole
group, of which one row is kept. So Catalyst itself computes every function it has, and adding one
here takes nothing but its name.

Within a group the rows are put in an order that depends on their values alone, before any order
that the query asks for, so that functions which look at the order (sums of floating-point numbers,
lists) give the same result for the same rows.

Aggregates without keys have a row even if there is nothing to aggregate. It is computed once, when
the view is made, and shown while the input is empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from waterclock.compute.catalyst.trees import Expression, Logical
from waterclock.compute.plan import overflow
from waterclock.compute.plan.linear import Linears, attributes_of
from waterclock.compute.plan.nodes import (
    Aggregate,
    Attribute,
    Attributes,
    Constant,
    Filter,
    Function,
    Join,
    Node,
    Reduce,
    Regroup,
    Union,
    Windows,
)


def windowed(linears: Linears, below: Node, windows: Sequence[Logical], output: Attributes) -> Node:
    """Catalyst's windows over one partitioning, the lowest first, in our nodes."""
    partition = windows[0].parts("partitionSpec")
    keyed, keys = linears.with_columns(below, partition)
    asked = [tuple(_computed(window)) for window in windows]
    read = {number for columns in asked for column in columns for number in column.references()}
    guards = [overflow.guarded(linears, columns, read) for columns in asked]
    parts = tuple(
        Windows(guard.computed, tuple(window.parts("orderSpec")))
        for guard, window in zip(guards, windows, strict=True)
    )
    made = attributes_of(column for part in parts for column in part.columns)
    reason = "window functions look at the whole group"
    node = Regroup(keyed, keys, parts, False, reason, keyed.output + made)
    return _checked(linears, node, guards, output)


def _checked(
    linears: Linears, node: Node, guards: Sequence[overflow.Guarded], output: Attributes
) -> Node:
    """The columns of a regroup, some of which are errors where sums are too large."""
    results = {number: result for guard in guards for number, result in guard.results.items()}
    if not results:
        return linears.pick(node, output)
    columns = [results.get(a.id) or linears.reference(a) for a in output]
    return linears.computed(node, columns, output)


def _computed(window: Logical) -> Iterator[Expression]:
    """The columns that a window adds; where it was correlated it passes others on among them."""
    known = {column.expr_id for column in window.children[0].output}
    for column in window.parts("windowExpressions"):
        if column.expr_id not in known:
            yield column


def aggregated(
    linears: Linears,
    below: Node,
    keys: Sequence[Expression],
    calls: Sequence[Expression],
    reason: str,
) -> tuple[Node, tuple[Attribute, ...], tuple[Attribute, ...]]:
    """One row for each group, and the columns of it that hold the keys and the calls' results.

    The calls are Catalyst's aggregate expressions. Without keys there is no row for no input.
    """
    wanted: list[Expression] = list(keys)
    functions = [_hoisted(linears, call, wanted) for call in calls]
    keyed, places = linears.with_columns(below, wanted)
    columns = [linears.reference(keyed.output[place]) for place in places]
    named = [
        linears.fresh(_over_all(linears, function, columns), f"aggregate_{number}")
        for number, function in enumerate(functions)
    ]
    guard = overflow.guarded(linears, named)
    node = Regroup(
        keyed,
        places[: len(keys)],
        (Windows(guard.computed, ()),),
        True,
        reason,
        keyed.output + attributes_of(guard.computed),
    )
    made = attributes_of(named)
    rows = _checked(linears, node, [guard], keyed.output + made)
    return rows, tuple(keyed.output[place] for place in places[: len(keys)]), made


def with_row_of_nothing(
    linears: Linears, below: Node, rows: Node, calls: Sequence[Expression]
) -> Node:
    """The row of aggregates without keys, and the one they have while their input is empty."""
    builder = linears.builder
    count = Attribute(builder.new_id(), "count", '"long"', False)
    counted = Reduce(
        linears.pick(below, ()), (), (Aggregate(Function.COUNT_ROWS, None, count),), (count,)
    )
    zero = builder.cast(builder.literal(0, '"integer"'), '"long"')
    empty = linears.step(counted, Filter(builder.call("EqualTo", linears.reference(count), zero)))
    constant = of_nothing(linears, below, calls)
    default = linears.pick(Join(empty, constant, ()), constant.output)
    return Union((rows, linears.renamed(default, rows.output)), rows.output)


def of_nothing(linears: Linears, below: Node, calls: Sequence[Expression]) -> Node:
    """The one row of what the calls give for no rows."""
    results = [linears.fresh(call, f"aggregate_{n}") for n, call in enumerate(calls)]
    alone = linears.builder.aggregate_of_nothing(
        results, [linears.reference(a) for a in below.output]
    )
    return linears.copied(Constant(alone, attributes_of(alone.output)))


class _Place:
    """Where an argument of a function is to be found among the columns wanted."""

    def __init__(self, number: int) -> None:
        self.number = number


def _hoisted(
    linears: Linears, call: Expression, wanted: list[Expression]
) -> tuple[Expression, list[_Place | Expression]]:
    """The function of a call, and its arguments, those that are computed as wanted columns."""
    function, *filters = call.children
    condition = filters[0] if filters else None
    arguments: list[_Place | Expression] = []
    for argument, varies in varying(function, condition):
        if not varies:
            arguments.append(argument)
            continue
        inner = argument.children[0] if argument.kind == "SortOrder" else argument
        if condition is not None:
            absent = linears.builder.null_like(inner)
            inner = linears.builder.call("If", condition, inner, absent)
        wanted.append(inner)
        arguments.append(_Place(len(wanted) - 1))
    return function, arguments


def varying(
    function: Expression, condition: Expression | None
) -> Iterator[tuple[Expression, bool]]:
    """The arguments, and whether they differ from row to row.

    With a FILTER one always does, be it a constant, for it is null where a row is left out.
    """
    differ = [not argument.java.foldable() for argument in function.children]
    if condition is not None and not any(differ):
        differ[0] = True
    return zip(function.children, differ, strict=True)


def _over_all(
    linears: Linears,
    function: tuple[Expression, list[_Place | Expression]],
    columns: Sequence[Expression],
) -> Expression:
    builder = linears.builder
    call, arguments = function
    placed: list[Expression] = []
    for old, argument in zip(call.children, arguments, strict=True):
        new = columns[argument.number] if isinstance(argument, _Place) else argument
        placed.append(builder.with_children(old, [new]) if old.kind == "SortOrder" else new)
    return builder.over_all(builder.with_children(call, placed))
