"""Aggregates, lowered to reductions that have kernels, and to a `Regroup` for those without.

Keys and arguments are computed by a row-by-row step below, the result expressions by one above. In
between, aggregates that differ in how they are kept are reduced apart and joined again on the
group's key:

- those that add up (counts; sums, averages and variances of exact numbers), in one reduction;
- least and greatest values of one argument, in another;
- each set of DISTINCT aggregates over the same arguments, over the distinct rows of keys and
  arguments;
- those that see nulls, over the rows that their FILTER lets through;
- if one of those that are not DISTINCT has no kernel, all that are not are regrouped together.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from waterclock.compute.catalyst.trees import Expression, Logical
from waterclock.compute.plan import regroup, subqueries
from waterclock.compute.plan.calls import Call, aggregates_in, calls_in, is_same, text_of
from waterclock.compute.plan.linear import Linears, attributes_of
from waterclock.compute.plan.nodes import (
    Aggregate,
    Attribute,
    Distinct,
    Equal,
    Filter,
    Function,
    Join,
    Negate,
    Node,
    Project,
    Reduce,
    Union,
)

if TYPE_CHECKING:
    from waterclock.compute.plan.translate import Translation


def lowered(translation: Translation, plan: Logical) -> Node:
    """A Catalyst aggregate in our nodes."""
    linears = translation.linears
    below = translation.translate(plan.children[0])
    keys = plan.parts("groupingExpressions")
    results = plan.parts("aggregateExpressions")
    output = attributes_of(results)
    below, keys, results = _lifted(translation, below, keys, results)
    calls = calls_in(linears, results)
    key_columns = [_key_column(linears, key) for key in keys]
    reduced = _reduced(linears, below, key_columns, calls)
    columns = [_result(linears, r, keys, key_columns, calls) for r in results]
    reduced, columns = subqueries.lifted(translation, reduced, columns)
    return linears.computed(reduced, columns, output)


def _lifted(
    translation: Translation, below: Node, keys: list[Expression], results: list[Expression]
) -> tuple[Node, list[Expression], list[Expression]]:
    """The same with subqueries in keys and arguments as columns of what is aggregated."""
    inner = [*keys, *aggregates_in(results)]
    below, moved = subqueries.lifted(translation, below, inner)
    changed = [(old, new) for old, new in zip(inner, moved, strict=True) if old is not new]

    def replace(expression: Expression) -> Expression | None:
        return next((new for old, new in changed if is_same(expression, old)), None)

    if changed:
        results = [translation.linears.builder.rewrite(result, replace) for result in results]
    return below, moved[: len(keys)], results


def _key_column(linears: Linears, key: Expression) -> Expression:
    """The key as a named column."""
    return key if key.kind in ("AttributeReference", "Alias") else linears.fresh(key, "key")


def _reduced(linears: Linears, below: Node, keys: list[Expression], calls: list[Call]) -> Node:
    """One row for each group: its key, then the results of the calls in any order."""
    width = tuple(range(len(keys)))
    if not calls and not keys:  # one row whatever there is, of constants
        count = Attribute(linears.builder.new_id(), "count", '"long"', False)
        counted = (Aggregate(Function.COUNT_ROWS, None, count),)
        return Reduce(linears.pick(below, ()), (), counted, (count,))
    if not calls:
        return Distinct(linears.step(below, Project(tuple(keys))))
    parts = [_one_part(linears, below, keys, group) for group in _groups(calls)]

    def joined(left: Node, right: Node) -> Node:
        right = linears.copied_keys(right, len(keys))
        return Join(left, right, tuple(Equal(i, i, null_safe=True) for i in width))

    return reduce(joined, parts)


def _one_part(linears: Linears, below: Node, keys: list[Expression], calls: list[Call]) -> Node:
    if all(call.function is not None for call in calls):
        return _part(linears, below, keys, calls)
    if calls[0].needs_filtered_rows:
        return _filtered(linears, below, keys, calls)
    return _regrouped(linears, below, keys, calls)


def _groups(calls: list[Call]) -> list[list[Call]]:
    """The calls that can be kept in one reduction, together."""
    groups: dict[str, list[Call]] = {}
    has_kernels = all(
        call.function is not None
        for call in calls
        if not call.distinct and not call.needs_filtered_rows
    )
    for call in calls:
        if call.needs_filtered_rows and call.filter is not None:
            own = text_of(call.expression) if call.distinct else ""
            kind = f"filtered {text_of(call.filter)} {own}"
        elif call.distinct and call.argument is not None:
            kind = f"distinct {text_of(call.argument)}"
        elif call.distinct:
            kind = f"distinct, regrouped {text_of(call.expression)}"
        elif has_kernels and call.is_extreme and call.argument is not None:
            kind = f"extremes {text_of(call.argument)}"
        else:
            kind = "all others"
        groups.setdefault(kind, []).append(call)
    return list(groups.values())


def _part(linears: Linears, below: Node, keys: list[Expression], calls: list[Call]) -> Node:
    """One reduction. Its input is the keys, then one column for each different argument."""
    columns: dict[str, Expression] = {}
    places: list[int | None] = []
    for call in calls:
        if call.argument is None:
            places.append(None)
            continue
        text = text_of(call.argument)
        if text not in columns:
            columns[text] = linears.fresh(call.argument, f"argument_{len(columns)}")
        places.append(len(keys) + list(columns).index(text))
    prepared: Node = linears.step(below, Project((*keys, *columns.values())))
    if calls[0].distinct:
        prepared = Distinct(prepared)
    aggregates = tuple(
        Aggregate(call.function, place, call.result)
        for call, place in zip(calls, places, strict=True)
        if call.function is not None
    )
    output = prepared.output[: len(keys)] + tuple(call.result for call in calls)
    return Reduce(prepared, tuple(range(len(keys))), aggregates, output)


def _result(
    linears: Linears,
    result: Expression,
    keys: list[Expression],
    key_columns: list[Expression],
    calls: list[Call],
) -> Expression:
    """A result expression over the columns of the reduction."""

    def replace(expression: Expression) -> Expression | None:
        for call in calls:
            if expression.kind == "AggregateExpression" and is_same(expression, call.expression):
                return linears.reference(call.result)
        for key, column in zip(keys, key_columns, strict=True):
            if is_same(expression, key):
                return linears.reference(attributes_of([column])[0])
        return None

    return linears.builder.rewrite(_inside(result), replace)


def _filtered(linears: Linears, below: Node, keys: list[Expression], calls: list[Call]) -> Node:
    """Calls with one FILTER over the rows that it lets through. A group that is left without rows
    has what they give for none.
    """
    condition = calls[0].filter
    assert condition is not None
    builder = linears.builder
    bare = [replace(call, expression=builder.without_filter(call.expression)) for call in calls]
    some = _regrouped(linears, linears.step(below, Filter(condition)), keys, bare)
    if not keys:
        return some
    groups = Distinct(linears.step(below, Project(tuple(keys))))
    known = linears.copied(linears.pick(some, some.output[: len(keys)]))
    equal = tuple(Equal(place, place, null_safe=True) for place in range(len(keys)))
    found = linears.pick(Join(groups, known, equal), groups.output)
    empty = Union((groups, Negate(found)), groups.output)
    nothing = regroup.of_nothing(linears, below, [call.expression for call in bare])
    return Union((some, linears.renamed(Join(empty, nothing, ()), some.output)), some.output)


def _regrouped(linears: Linears, below: Node, keys: list[Expression], calls: list[Call]) -> Node:
    """The calls evaluated anew on each group that changes: the keys, then their results."""
    [reason, *_] = [call.reason for call in calls if call.function is None]
    # What the rows of a group have in common is their key with one zero and one NaN.
    wanted = [linears.builder.normalised(_inside(key)) for key in keys]
    expressions = [call.expression for call in calls]
    if calls[0].distinct:
        below, wanted, expressions = _made_distinct(linears, below, keys, calls[0])
    rows, key_columns, made = regroup.aggregated(linears, below, wanted, expressions, reason)
    output = (*attributes_of(keys), *(call.result for call in calls))
    columns = [linears.reference(column) for column in (*key_columns, *made)]
    shown = linears.computed(rows, columns, output)
    if keys:
        return shown
    return regroup.with_row_of_nothing(linears, below, shown, expressions)


def _made_distinct(
    linears: Linears, below: Node, keys: list[Expression], call: Call
) -> tuple[Node, list[Expression], list[Expression]]:
    """The distinct rows of keys and arguments, the keys in them, and the call over them."""
    builder = linears.builder
    function = call.expression.children[0]
    condition = call.filter
    columns: list[Expression] = []
    arguments: list[Expression] = []
    for argument, varies in regroup.varying(function, condition):
        if not varies:
            arguments.append(argument)
            continue
        value = argument.children[0] if argument.kind == "SortOrder" else argument
        if condition is not None:
            value = builder.call("If", condition, value, builder.null_like(value))
        columns.append(linears.fresh(value, f"argument_{len(columns)}"))
        column = linears.reference(attributes_of(columns[-1:])[0])
        ordered = argument.kind == "SortOrder"
        arguments.append(builder.with_children(argument, [column]) if ordered else column)
    distinct = Distinct(linears.step(below, Project((*keys, *columns))))
    always = [builder.literal(True, '"boolean"')] if condition is not None else []
    over = builder.with_children(function, arguments)
    places = [linears.reference(a) for a in distinct.output[: len(keys)]]
    return distinct, places, [builder.with_children(call.expression, [over, *always])]


def _inside(column: Expression) -> Expression:
    return column.children[0] if column.kind == "Alias" else column
