"""Temporal filters: conditions over `mz_now()`, which change their answer as time passes.

A view may name the time in the conditions of a filter or a join, where everything is a function of
the collections at one time anyway: at time T it is T. A conjunct that compares `mz_now()` with a
value is solved for it (`bounds`), and all such conjuncts together become one `Temporal` node, above
a filter by the other conjuncts. Everywhere else the time would be a value that changes in every row
at every millisecond, so there it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from waterclock.compute.catalyst.now import mentions_now
from waterclock.compute.catalyst.trees import Expression, Logical
from waterclock.compute.errors import NotMaintainable
from waterclock.compute.plan.bounds import Limit, Solver
from waterclock.compute.plan.linear import Linears
from waterclock.compute.plan.nodes import Bound, Filter, Node, Temporal

_HINT = (
    "In a maintained view, use mz_now() in WHERE, HAVING or ON, as one side of a comparison by"
    " =, <, <=, >, >= or BETWEEN that is joined to other conditions by AND, such as"
    " mz_now() <= ts + 5000. On its side it may be cast to decimal, timestamp or date, and"
    " integers, decimals and intervals of days or less may be added to it or subtracted."
)


def filtered(linears: Linears, below: Node, condition: Expression) -> Node:
    """The rows for which the condition is true, at each time with that time as `mz_now()`."""
    if not mentions_now(condition):
        return linears.step(below, Filter(condition))
    limits: list[Limit] = []
    others: list[Expression] = []
    solver = Solver(linears.builder)
    for conjunct in condition.conjuncts():
        if mentions_now(conjunct):
            limits += solver.solved(conjunct) or _refuse(conjunct)
        else:
            others.append(conjunct)
    other = linears.builder.all_of(others)
    kept = below if other is None else linears.step(below, Filter(other))
    bounded, places = linears.with_columns(kept, [limit.value for limit in limits])
    placed = list(zip(limits, places, strict=True))
    return Temporal(
        bounded,
        _bounds((limit, place) for limit, place in placed if not limit.is_upper),
        _bounds((limit, place) for limit, place in placed if limit.is_upper),
        below.output,
    )


def refuse_elsewhere(plan: Logical) -> None:
    """`NotMaintainable` if a plan node that has no conditions uses `mz_now()` itself."""
    if plan.kind in ("Filter", "Join"):
        return
    for expression in plan.expressions:
        if mentions_now(expression):
            _refuse(expression)


def _bounds(placed: Iterable[tuple[Limit, int]]) -> tuple[Bound, ...]:
    return tuple(Bound(place, limit.inclusive) for limit, place in placed)


def _refuse(expression: Expression) -> NoReturn:
    raise NotMaintainable(
        "a view can not be maintained over this use of mz_now()",
        detail=f"It is used in {expression.sql}.",
        hint=_HINT,
    )
