"""Aggregates, lowered to reductions that have kernels, or to a `Regroup` if one of them has none.

Keys and arguments are computed by a row-by-row step below, the result expressions by one above. In
between, aggregates that differ in how they are kept are reduced apart and joined again on the
group's key:

- those that add up (counts, sums and averages of exact numbers), in one reduction;
- least and greatest values of one argument, in another;
- each set of DISTINCT aggregates over one argument, over the distinct pairs of key and argument.

A FILTER makes the argument null where it does not hold. Sums of floating-point numbers depend on
the order of addition, so they do not add up exactly and are regrouped.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from waterclock.compute.catalyst.trees import Expression, Logical
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
    Regroup,
)

if TYPE_CHECKING:
    from waterclock.compute.plan.translate import Translation

_EXACT = ("byte", "short", "integer", "long", "decimal")
_ORDERED = (*_EXACT, "float", "double", "boolean", "string", "date", "timestamp", "timestamp_ntz")
_ADDED = {"Count": Function.COUNT, "Sum": Function.SUM, "Average": Function.AVG}
_EXTREME = {"Min": Function.MIN, "Max": Function.MAX}


@dataclass(frozen=True, slots=True)
class _Call:
    """One aggregate as it stands in the query, and the column its result will be in."""

    expression: Expression
    function: Function
    argument: Expression | None
    distinct: bool
    result: Attribute


def lowered(translation: Translation, plan: Logical) -> Node:
    """A Catalyst aggregate in our nodes."""
    linears = translation.linears
    below = translation.translate(plan.children[0])
    keys = [Expression(e) for e in plan.field("groupingExpressions")]
    results = [Expression(e) for e in plan.field("aggregateExpressions")]
    found = _aggregates_in(results)
    calls: list[_Call] = []
    for expression in found:
        call = _call(linears, expression, len(calls))
        if isinstance(call, str):
            return _regrouped(linears, below, keys, plan, call)
        calls.append(call)
    key_columns = [_key_column(linears, key) for key in keys]
    reduced = _reduced(linears, below, key_columns, calls)
    columns = [_result(linears, r, keys, key_columns, calls) for r in results]
    return linears.computed(reduced, columns, attributes_of(results))


def _aggregates_in(results: list[Expression]) -> list[Expression]:
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


def _call(linears: Linears, expression: Expression, number: int) -> _Call | str:
    """The call, or the reason why no kernel does it."""
    function = Expression(expression.java.aggregateFunction())
    distinct: bool = expression.java.isDistinct()
    arguments = function.children
    builder = linears.builder
    result = Attribute(
        builder.new_id(), f"aggregate_{number}", expression.type_json, expression.nullable
    )
    kept = expression.java.filter()
    condition = Expression(kept.get()) if kept.isDefined() else None
    argument: Expression | None = arguments[0] if arguments else None
    if function.kind == "Count":
        argument = _counted(linears, arguments)
        if argument is None and condition is None:
            return _Call(expression, Function.COUNT_ROWS, None, False, result)
        argument = argument or builder.literal(True, '"boolean"')
        kind = Function.COUNT
    elif function.kind in _ADDED and argument is not None:
        if not _is(argument, _EXACT):
            return f"{function.kind.lower()} of {_type(argument)} depends on the order of addition"
        kind = _ADDED[function.kind]
    elif _is_extreme(function, condition) and argument is not None and _is(argument, _ORDERED):
        kind, distinct = _EXTREME.get(function.kind, Function.MAX), False
    else:
        return f"{expression.sql.lower()} has no kernel"
    assert argument is not None
    if condition is not None:
        absent = builder.literal(None, argument.type_json)
        argument = builder.call("If", condition, argument, absent)
    return _Call(expression, kind, argument, distinct, result)


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


def _is(expression: Expression, kinds: tuple[str, ...]) -> bool:
    return _type(expression) in kinds


def _key_column(linears: Linears, key: Expression) -> Expression:
    """The key as a named column."""
    return key if key.kind in ("AttributeReference", "Alias") else linears.fresh(key, "key")


def _reduced(linears: Linears, below: Node, keys: list[Expression], calls: list[_Call]) -> Node:
    """One row for each group: its key, then the results of the calls in any order."""
    width = tuple(range(len(keys)))
    if not calls:
        return Distinct(linears.step(below, Project(tuple(keys))))
    parts = [_part(linears, below, keys, group) for group in _groups(calls)]

    def joined(left: Node, right: Node) -> Node:
        right = linears.copied_keys(right, len(keys))
        return Join(left, right, tuple(Equal(i, i, null_safe=True) for i in width))

    return reduce(joined, parts)


def _groups(calls: list[_Call]) -> list[list[_Call]]:
    """The calls that can be kept in one reduction, together."""
    groups: dict[str, list[_Call]] = {}
    for call in calls:
        if call.distinct:
            kind = f"distinct {_text(call.argument)}"
        elif call.function in (Function.MIN, Function.MAX):
            kind = f"extremes {_text(call.argument)}"
        else:
            kind = "added"
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

    inside = result.children[0] if result.kind == "Alias" else result
    return linears.builder.rewrite(inside, replace)


def _regrouped(
    linears: Linears, below: Node, keys: list[Expression], plan: Logical, reason: str
) -> Node:
    keyed, places = linears.with_columns(below, keys)
    return Regroup(keyed, places, plan, reason, attributes_of(plan.output))
