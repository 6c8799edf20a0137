"""The first rows in an order: LIMIT and OFFSET, and `row_number()` compared with constants.

A condition such as `row_number() OVER (PARTITION BY k ORDER BY o) <= 3` asks for the first rows of
each group, which has a kernel, and whose work does not grow with the group's numbering as that of a
window function does. It is recognised if all that is asked of the row number is between which
constants it lies. If its value is used elsewhere too, the filter stays one over a window, unless
the value can only be one number.

SQL leaves open which of the rows that tie come first. Here the whole row decides, so that the
answer depends on what the collection holds and not on how it came about.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from waterclock.compute.catalyst.trees import Expression, Logical
from waterclock.compute.plan import subqueries, temporal
from waterclock.compute.plan.calls import is_same
from waterclock.compute.plan.linear import attributes_of
from waterclock.compute.plan.nodes import Attributes, Node, Order, Project, TopK

if TYPE_CHECKING:
    from waterclock.compute.plan.translate import Translation


@dataclass(frozen=True, slots=True)
class _Places:
    """The places asked for, counted from 1; None is without end."""

    first: int = 1
    last: int | None = None

    @property
    def limit(self) -> int | None:
        return None if self.last is None else max(0, self.last - self.first + 1)

    def after(self, skipped: int) -> _Places:
        """The same places, counted before so many were skipped."""
        last = None if self.last is None else self.last + skipped
        return _Places(self.first + skipped, last)

    def at_least(self, place: int) -> _Places:
        return replace(self, first=max(self.first, place))

    def at_most(self, place: int) -> _Places:
        return replace(self, last=place if self.last is None else min(self.last, place))


_FLIPPED = {
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
    "EqualTo": "EqualTo",
}


def limited(translation: Translation, plan: Logical) -> Node:
    """A run of limits and offsets over a plan, sorted or not.

    A limit for each partition of the data only anticipates one for all of them.
    """
    places = _Places()
    node = plan
    while node.kind in ("GlobalLimit", "LocalLimit", "Offset"):
        if node.kind == "GlobalLimit":
            places = places.at_most(_constant(node.part("limitExpr")))
        elif node.kind == "Offset":
            places = places.after(_constant(node.part("offsetExpr")))
        node = node.children[0]
    above: list[Logical] = []
    while node.kind == "Project":  # computes columns of the rows that are chosen below it
        above.append(node)
        node = node.children[0]
    below = translation.translate(node)
    orders = node.parts("order") if node.kind == "Sort" else []
    keyed, order = _ordered(translation, below, orders)
    top: Node = TopK(keyed, (), order, places.limit, places.first - 1)
    top = translation.linears.pick(top, below.output)
    for project in reversed(above):
        top = translation.projected(top, project)
    return top


def try_filtered(translation: Translation, plan: Logical, needed: Set[int] | None) -> Node | None:
    """A filter over a window as the first rows of each group, if that is what it is.

    `needed` has the ids of the columns that are read above; None stands for all of them.
    """
    [window] = plan.children
    number = _row_number(window)
    if number is None:
        return None
    conjuncts = plan.part("condition").conjuncts()
    places, others = _places(conjuncts, number.expr_id)
    is_needed = needed is None or number.expr_id in needed
    if places is None or (is_needed and places.limit != 1):
        return None
    linears = translation.linears
    top = _first_of_groups(translation, window, places)
    if is_needed:
        columns = [linears.reference(a) for a in top.output]
        columns.append(linears.builder.literal(places.first, number.type_json))
        top = linears.computed(top, columns, (*top.output, *attributes_of([number])))
    shown = top.output
    top, others = subqueries.lifted(translation, top, others)
    condition = linears.builder.all_of(others)
    if condition is not None:
        top = temporal.filtered(linears, top, condition)
    return linears.pick(top, shown)


def pruned(translation: Translation, plan: Logical) -> Node:
    """What is below a window: without the rows whose number is beyond what a filter lets through.

    That filter stands above, so this changes what the window looks at and not what the view shows.
    """
    if plan.kind != "WindowGroupLimit":
        return translation.translate(plan)
    below = translation.translate(plan.children[0])
    if plan.part("rankLikeFunction").kind != "RowNumber":
        return below
    partition = plan.parts("partitionSpec")
    keyed, keys = translation.linears.with_columns(below, partition)
    keyed, order = _ordered(translation, keyed, plan.parts("orderSpec"))
    return translation.linears.pick(TopK(keyed, keys, order, plan.java.limit(), 0), below.output)


def _row_number(window: Logical) -> Expression | None:
    """The row number that a window computes, if that is all it computes."""
    if window.kind != "Window":
        return None
    columns = window.parts("windowExpressions")
    if len(columns) != 1 or columns[0].children[0].kind != "WindowExpression":
        return None
    function = columns[0].children[0].children[0]
    return columns[0] if function.kind == "RowNumber" else None


def _places(
    conjuncts: Sequence[Expression], number: int
) -> tuple[_Places | None, list[Expression]]:
    """Which places the conditions let through, and those conditions that are about other columns.

    No places if a condition is about the number and says something else of it, or if none is.
    """
    places = _Places()
    others: list[Expression] = []
    for conjunct in conjuncts:
        if number not in conjunct.references():
            others.append(conjunct)
            continue
        narrower = _narrowed(places, conjunct, number)
        if narrower is None:
            return None, others
        places = narrower
    return (places if len(others) < len(conjuncts) else None), others


def _narrowed(places: _Places, condition: Expression, number: int) -> _Places | None:
    """The places that the condition lets through too, if it compares the number to a constant."""
    if condition.kind not in _FLIPPED:
        return None
    kind = condition.kind
    one, other = condition.children
    if one.kind == "Literal":
        kind, one, other = _FLIPPED[kind], other, one
    if one.kind != "AttributeReference" or one.expr_id != number or other.kind != "Literal":
        return None
    bound = other.java.eval(None)
    if not isinstance(bound, int):
        return None
    match kind:
        case "LessThan":
            return places.at_most(bound - 1)
        case "LessThanOrEqual":
            return places.at_most(bound)
        case "GreaterThan":
            return places.at_least(bound + 1)
        case "GreaterThanOrEqual":
            return places.at_least(bound)
        case _:
            return places.at_least(bound).at_most(bound)


def _first_of_groups(translation: Translation, window: Logical, places: _Places) -> Node:
    """The rows below the window that have these places in its groups."""
    partition = window.parts("partitionSpec")
    orders = window.parts("orderSpec")
    node = window.children[0]
    while node.kind == "WindowGroupLimit":  # would only anticipate the limit
        node = node.children[0]
    if not partition:
        node = _without_limit(node, orders, places.last)
    if orders:
        below = translation.translate(node)
        shown = below.output
        keyed, order = _ordered(translation, below, orders)
    else:
        shown, keyed, order = _sorted_below(translation, node)
    keyed, keys = translation.linears.with_columns(keyed, partition)
    top = TopK(keyed, keys, order, places.limit, places.first - 1)
    return translation.linears.pick(top, shown)


def _without_limit(node: Logical, orders: Sequence[Expression], last: int | None) -> Logical:
    """The plan without a limit in the same order that leaves all of the places asked for."""
    if node.kind != "GlobalLimit" or last is None:
        return node
    inner = node.children[0].children[0] if node.children[0].kind == "LocalLimit" else node
    if inner.kind != "Sort" or _constant(node.part("limitExpr")) < last:
        return node
    same = inner.parts("order")
    if len(same) != len(orders):
        return node
    return inner.children[0] if all(map(is_same, same, orders)) else node


def _sorted_below(
    translation: Translation, node: Logical
) -> tuple[Attributes, Node, tuple[Order, ...]]:
    """A plan that is numbered as it comes: in the order it is sorted in, if it is.

    Catalyst decorrelates `ORDER BY o LIMIT n` so if `o` is not among the columns selected. Gives
    the plan's columns, the plan with those to order by beside them, and the order.
    """
    above: list[Logical] = []
    bottom = node
    while bottom.kind == "Project":
        above.append(bottom)
        bottom = bottom.children[0]
    if bottom.kind != "Sort":
        below = translation.translate(node)
        return below.output, below, ()
    keyed, order = _ordered(
        translation, translation.translate(bottom.children[0]), bottom.parts("order")
    )
    by = [keyed.output[o.column] for o in order]
    for project in reversed(above):
        columns = project.parts("projectList")
        known = {column.expr_id for column in columns}
        columns += [translation.linears.reference(a) for a in by if a.id not in known]
        keyed, columns = subqueries.lifted(translation, keyed, columns)
        keyed = translation.linears.step(keyed, Project(tuple(columns)))
    place = {a.id: i for i, a in enumerate(keyed.output)}
    order = tuple(replace(o, column=place[a.id]) for o, a in zip(order, by, strict=True))
    return attributes_of(node.output), keyed, order


def _ordered(
    translation: Translation, below: Node, orders: Sequence[Expression]
) -> tuple[Node, tuple[Order, ...]]:
    """The node with the columns that Catalyst's sort orders compute, and the order by them."""
    wanted = [order.children[0] for order in orders]
    below, wanted = subqueries.lifted(translation, below, wanted)
    keyed, places = translation.linears.with_columns(below, wanted)
    return keyed, tuple(
        Order(
            place,
            order.java.direction().toString() == "Descending",
            order.java.nullOrdering().toString() == "NullsFirst",
        )
        for place, order in zip(places, orders, strict=True)
    )


def _constant(expression: Expression) -> int:
    value: int = expression.java.eval(None)
    return value
