"""Aggregates, lowered to reductions that have kernels, and to a `Regroup` for those without.

Keys and arguments are computed by a row-by-row step below, the result expressions by one above. In
between, aggregates that differ in how they are kept are reduced apart and joined again on the
group's key:

- those that add up (counts; sums, averages and variances of exact numbers), in one reduction;
- least and greatest values of one argument, in another;
- each set of DISTINCT aggregates over the same arguments, over the distinct rows of keys and
  arguments;
- if one of those that are not DISTINCT has no kernel, all that are not are regrouped together.

A FILTER makes the argument null where it does not hold. Sums of floating-point numbers depend on
the order of addition, so they do not add up exactly and are regrouped. Variances of exact numbers
are computed from exact sums, although Catalyst casts their argument to a double: the cast is left
out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from waterclock.compute.catalyst.trees import Expression, Logical
from waterclock.compute.plan import regroup, subqueries
from waterclock.compute.plan.linear import Linears, attributes_of
from waterclock.compute.plan.nodes import (
    Aggregate,
    Attribute,
    Distinct,
    Equal,
    Function,
    Join,
    Node,
    Project,
    Reduce,
)

if TYPE_CHECKING:
    from waterclock.compute.plan.translate import Translation

_EXACT = ("byte", "short", "integer", "long", "decimal")
_ORDERED = (
    *_EXACT,
    *("float", "double", "boolean", "string", "binary", "date", "timestamp", "timestamp_ntz"),
)
_ADDED = {"Count": Function.COUNT, "Sum": Function.SUM, "Average": Function.AVG}
_SPREAD = {
    "VariancePop": Function.VAR_POP,
    "VarianceSamp": Function.VAR_SAMP,
    "StddevPop": Function.STDDEV_POP,
    "StddevSamp": Function.STDDEV_SAMP,
}
_EXTREME = {"Min": Function.MIN, "Max": Function.MAX}


@dataclass(frozen=True, slots=True)
class _Call:
    """One aggregate as it stands in the query, and the column its result will be in.

    It has either a kernel's function and the argument, or a reason why there is no kernel for it.
    """

    expression: Expression
    distinct: bool
    result: Attribute
    function: Function | None
    argument: Expression | None = None
    reason: str = ""


def lowered(translation: Translation, plan: Logical) -> Node:
    """A Catalyst aggregate in our nodes."""
    linears = translation.linears
    below = translation.translate(plan.children[0])
    keys = [Expression(e) for e in plan.field("groupingExpressions")]
    results = [Expression(e) for e in plan.field("aggregateExpressions")]
    output = attributes_of(results)
    below, keys, results = _lifted(translation, below, keys, results)
    found = _aggregates_in(results)
    calls = [_call(linears, expression, number) for number, expression in enumerate(found)]
    key_columns = [_key_column(linears, key) for key in keys]
    reduced = _reduced(linears, below, key_columns, calls)
    columns = [_result(linears, r, keys, key_columns, calls) for r in results]
    reduced, columns = subqueries.lifted(translation, reduced, columns)
    return linears.computed(reduced, columns, output)


def _lifted(
    translation: Translation, below: Node, keys: list[Expression], results: list[Expression]
) -> tuple[Node, list[Expression], list[Expression]]:
    """The same with subqueries in keys and arguments as columns of what is aggregated."""
    inner = [*keys, *_aggregates_in(results)]
    below, moved = subqueries.lifted(translation, below, inner)
    changed = [(old, new) for old, new in zip(inner, moved, strict=True) if old is not new]

    def replace(expression: Expression) -> Expression | None:
        return next((new for old, new in changed if _same(expression, old)), None)

    if changed:
        results = [translation.linears.builder.rewrite(result, replace) for result in results]
    return below, moved[: len(keys)], results


def _aggregates_in(results: Sequence[Expression]) -> list[Expression]:
    """The aggregate calls in the result expressions, each once."""
    found: list[Expression] = []
    for result in results:
        for node in result.walk():
            if node.kind == "AggregateExpression" and not any(_same(node, f) for f in found):
                found.append(node)
    return found


def _same(one: Expression, other: Expression) -> bool:
    same: bool = one.java.semanticEquals(other.java)
    return same


def _call(linears: Linears, expression: Expression, number: int) -> _Call:
    builder = linears.builder
    function = Expression(expression.java.aggregateFunction())
    result = Attribute(
        builder.new_id(), f"aggregate_{number}", expression.type_json, expression.nullable
    )
    distinct: bool = expression.java.isDistinct()
    condition = _filter(expression)
    kernel = _kernel(linears, function, condition)
    if isinstance(kernel, str):
        return _Call(expression, distinct, result, None, reason=kernel)
    kind, argument = kernel
    if argument is None:
        return _Call(expression, False, result, kind)
    if condition is not None:
        absent = builder.literal(None, argument.type_json)
        argument = builder.call("If", condition, argument, absent)
    distinct = distinct and kind not in (Function.MIN, Function.MAX)
    return _Call(expression, distinct, result, kind, argument)


def _filter(expression: Expression) -> Expression | None:
    kept = expression.java.filter()
    return Expression(kept.get()) if kept.isDefined() else None


def _kernel(
    linears: Linears, function: Expression, condition: Expression | None
) -> tuple[Function, Expression | None] | str:
    """The kernel for a function and its argument, or the reason why there is none."""
    arguments = function.children
    name: str = function.java.prettyName()
    if function.kind == "Count":
        counted = _counted(linears, arguments)
        if counted is None and condition is None:
            return Function.COUNT_ROWS, None
        return Function.COUNT, counted or linears.builder.literal(True, '"boolean"')
    if function.kind in _SPREAD and _is(_exact(arguments[0]), _EXACT):
        return _SPREAD[function.kind], _exact(arguments[0])
    if function.kind in _ADDED and not name.startswith("try_"):
        if _is(arguments[0], _EXACT):
            return _ADDED[function.kind], arguments[0]
        return f"{name} of {_type(arguments[0])} depends on the order of addition"
    if _is_extreme(function, condition) and _is_ordered(json.loads(arguments[0].type_json)):
        return _EXTREME.get(function.kind, Function.MAX), arguments[0]
    return f"{name} has no kernel"


def _exact(argument: Expression) -> Expression:
    """What is cast to a double, if it is an exact number."""
    if argument.kind != "Cast" or _type(argument) != "double":
        return argument
    [inner] = argument.children
    return inner if _is(inner, _EXACT) else argument


def _is_extreme(function: Expression, condition: Expression | None) -> bool:
    """Whether it is the least or greatest of its values.

    Catalyst computes several DISTINCT aggregates in branches and then takes the first non-null
    value of the one row that each branch has for a group: there, the first is the greatest.
    """
    if function.kind == "First" and condition is not None:
        only: bool = function.java.ignoreNulls()
        return only and any(
            node.kind == "AttributeReference" and node.name == "gid" for node in condition.walk()
        )
    return function.kind in _EXTREME


def _counted(linears: Linears, arguments: list[Expression]) -> Expression | None:
    """What to count the non-null values of; None for all rows."""
    builder = linears.builder
    nullable = [a for a in arguments if a.nullable]
    if not nullable:
        return None if len(arguments) == 1 and arguments[0].kind == "Literal" else arguments[0]
    if len(nullable) == 1:
        return nullable[0]
    present = builder.all_of([builder.call("IsNotNull", a) for a in nullable])
    assert present is not None
    yes, absent = builder.literal(True, '"boolean"'), builder.literal(None, '"boolean"')
    return builder.call("If", present, yes, absent)


def _type(expression: Expression) -> str:
    return expression.type_json.strip('"').partition("(")[0]


def _is_ordered(kind: Any) -> bool:
    """Whether values of a type, given as parsed JSON, have an order that the kernels know."""
    if isinstance(kind, str):
        return kind.partition("(")[0] in _ORDERED
    if kind["type"] == "array":
        return _is_ordered(kind["elementType"])
    return kind["type"] == "struct" and all(_is_ordered(f["type"]) for f in kind["fields"])


def _is(expression: Expression, kinds: tuple[str, ...]) -> bool:
    return _type(expression) in kinds


def _key_column(linears: Linears, key: Expression) -> Expression:
    """The key as a named column."""
    return key if key.kind in ("AttributeReference", "Alias") else linears.fresh(key, "key")


def _reduced(linears: Linears, below: Node, keys: list[Expression], calls: list[_Call]) -> Node:
    """One row for each group: its key, then the results of the calls in any order."""
    width = tuple(range(len(keys)))
    if not calls and not keys:  # one row whatever there is, of constants
        count = Attribute(linears.builder.new_id(), "count", '"long"', False)
        counted = (Aggregate(Function.COUNT_ROWS, None, count),)
        return Reduce(linears.pick(below, ()), (), counted, (count,))
    if not calls:
        return Distinct(linears.step(below, Project(tuple(keys))))
    parts = [
        _part(linears, below, keys, group)
        if all(call.function is not None for call in group)
        else _regrouped(linears, below, keys, group)
        for group in _groups(calls)
    ]

    def joined(left: Node, right: Node) -> Node:
        right = linears.copied_keys(right, len(keys))
        return Join(left, right, tuple(Equal(i, i, null_safe=True) for i in width))

    return reduce(joined, parts)


def _groups(calls: list[_Call]) -> list[list[_Call]]:
    """The calls that can be kept in one reduction, together."""
    groups: dict[str, list[_Call]] = {}
    has_kernels = all(call.function is not None for call in calls if not call.distinct)
    for call in calls:
        if call.distinct and call.argument is not None:
            kind = f"distinct {_text(call.argument)}"
        elif call.distinct:
            kind = f"distinct, regrouped {_text(call.expression)}"
        elif has_kernels and call.function in (Function.MIN, Function.MAX):
            kind = f"extremes {_text(call.argument)}"
        else:
            kind = "all others"
        groups.setdefault(kind, []).append(call)
    return list(groups.values())


def _text(argument: Expression | None) -> str:
    """The same text for arguments that mean the same."""
    assert argument is not None
    text: str = argument.java.canonicalized().toString()
    return text


def _part(linears: Linears, below: Node, keys: list[Expression], calls: list[_Call]) -> Node:
    """One reduction. Its input is the keys, then one column for each argument."""
    arguments = [
        linears.fresh(call.argument, f"argument_{number}")
        for number, call in enumerate(calls)
        if call.argument is not None
    ]
    same = calls[0].distinct or calls[0].function in (Function.MIN, Function.MAX)
    if same:
        arguments = arguments[:1]
    prepared: Node = linears.step(below, Project((*keys, *arguments)))
    if calls[0].distinct:
        prepared = Distinct(prepared)
    places = iter(range(len(keys), len(keys) + len(arguments)))
    aggregates = []
    for call in calls:
        place = None
        if call.argument is not None:
            place = len(keys) if same else next(places)
        assert call.function is not None, "a call without a kernel is regrouped"
        aggregates.append(Aggregate(call.function, place, call.result))
    output = prepared.output[: len(keys)] + tuple(call.result for call in calls)
    return Reduce(prepared, tuple(range(len(keys))), tuple(aggregates), output)


def _result(
    linears: Linears,
    result: Expression,
    keys: list[Expression],
    key_columns: list[Expression],
    calls: list[_Call],
) -> Expression:
    """A result expression over the columns of the reduction."""

    def replace(expression: Expression) -> Expression | None:
        for call in calls:
            if expression.kind == "AggregateExpression" and _same(expression, call.expression):
                return linears.reference(call.result)
        for key, column in zip(keys, key_columns, strict=True):
            if _same(expression, key):
                return linears.reference(attributes_of([column])[0])
        return None

    return linears.builder.rewrite(_inside(result), replace)


def _regrouped(linears: Linears, below: Node, keys: list[Expression], calls: list[_Call]) -> Node:
    """The calls evaluated anew on each group that changes: the keys, then their results."""
    [reason, *_] = [call.reason for call in calls if call.function is None]
    wanted = [_inside(key) for key in keys]
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
    linears: Linears, below: Node, keys: list[Expression], call: _Call
) -> tuple[Node, list[Expression], list[Expression]]:
    """The distinct rows of keys and arguments, the keys in them, and the call over them."""
    builder = linears.builder
    function = Expression(call.expression.java.aggregateFunction())
    condition = _filter(call.expression)
    columns: list[Expression] = []
    arguments: list[Expression] = []
    for argument in function.children:
        if argument.java.foldable():
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
