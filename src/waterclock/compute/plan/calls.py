"""The aggregates of a query one by one: which kernel does it, over what, or why none does.

A FILTER makes the argument null where it does not hold; for functions to which a null is a value
like others, the rows are filtered before. Sums of floating-point numbers depend on
the order of addition, so they do not add up exactly and have no kernel. Variances of exact numbers
are computed from exact sums, although Catalyst casts their argument to a double: the cast is left
out. What is told to give null instead of an error, such as `try_sum`, has no kernel either.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from waterclock.compute.catalyst.trees import Expression
from waterclock.compute.plan.linear import Linears
from waterclock.compute.plan.nodes import Attribute, Function

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
_KEEPS_NULLS = frozenset({"First", "Last"})
"""They take a null for a value, unless they are told not to."""
_COUNTS_NULLS = frozenset({"ApproxTopK", "ApproxTopKAccumulate"})


@dataclass(frozen=True, slots=True)
class Call:
    """One aggregate as it stands in the query, and the column its result will be in.

    It has either a kernel's function and the argument, or a reason why there is no kernel for it.
    """

    expression: Expression
    distinct: bool
    result: Attribute
    function: Function | None
    argument: Expression | None = None
    reason: str = ""

    @property
    def is_extreme(self) -> bool:
        """Whether it is the least or the greatest value."""
        return self.function in (Function.MIN, Function.MAX)

    @property
    def filter(self) -> Expression | None:
        """The condition of its FILTER."""
        return next(iter(self.expression.children[1:]), None)

    @property
    def needs_filtered_rows(self) -> bool:
        """Whether a null that stands for a row which its FILTER leaves out would be taken for a
        value.
        """
        if self.function is not None or self.filter is None:
            return False
        function = self.expression.children[0]
        if function.kind in _KEEPS_NULLS:
            return not function.java.ignoreNulls()
        return function.kind in _COUNTS_NULLS


def calls_in(linears: Linears, results: Sequence[Expression]) -> list[Call]:
    """The aggregates in the result expressions, each once."""
    found = aggregates_in(results)
    return [_call(linears, expression, number) for number, expression in enumerate(found)]


def aggregates_in(results: Sequence[Expression]) -> list[Expression]:
    """The aggregate calls in the result expressions, each once."""
    found: list[Expression] = []
    for result in results:
        for node in result.walk():
            if node.kind == "AggregateExpression" and not any(is_same(node, f) for f in found):
                found.append(node)
    return found


def is_same(one: Expression, other: Expression) -> bool:
    """Whether the two mean the same."""
    same: bool = one.java.semanticEquals(other.java)
    return same


def text_of(expression: Expression) -> str:
    """The same text for expressions that mean the same."""
    return Expression(expression.java.canonicalized()).written


def _call(linears: Linears, expression: Expression, number: int) -> Call:
    builder = linears.builder
    function = expression.children[0]
    result = Attribute(
        builder.new_id(), f"aggregate_{number}", expression.type_json, expression.nullable
    )
    call = Call(expression, bool(expression.java.isDistinct()), result, None)
    condition = call.filter
    kernel = _kernel(linears, function, condition, distinct=call.distinct)
    if isinstance(kernel, str):
        return replace(call, reason=kernel)
    kind, argument = kernel
    if argument is not None and condition is not None:
        argument = builder.call("If", condition, argument, builder.null_like(argument))
    distinct = call.distinct and kind not in (Function.MIN, Function.MAX)
    return replace(call, distinct=distinct, function=kind, argument=argument)


def _kernel(
    linears: Linears, function: Expression, condition: Expression | None, *, distinct: bool
) -> tuple[Function, Expression | None] | str:
    """The kernel for a function and its argument, or the reason why there is none."""
    arguments = function.children
    name: str = function.java.prettyName()
    if function.kind == "Count":
        counted = _counted(linears, arguments, distinct=distinct)
        if counted is None and condition is None and not distinct:
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


def _counted(linears: Linears, arguments: list[Expression], *, distinct: bool) -> Expression | None:
    """What to count the non-null values of; None for all rows.

    Several arguments count if none of them is null. If they are to be distinct it is as a whole.
    """
    builder = linears.builder
    nullable = [a for a in arguments if a.nullable]
    if distinct and len(arguments) > 1:
        parts = {f"c{i}": builder.call("KnownNullable", a) for i, a in enumerate(arguments)}
        whole = builder.struct(parts)
    elif len(nullable) <= 1:
        only = [*nullable, *(a for a in arguments if a.kind != "Literal")]
        return only[0] if only else None
    else:
        whole = builder.literal(True, '"boolean"')
    present = builder.all_of([builder.call("IsNotNull", a) for a in nullable])
    if present is None:
        return whole
    return builder.call("If", present, whole, builder.null_like(whole))


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
