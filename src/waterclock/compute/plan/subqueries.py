"""Scalar subqueries that stand in expressions, as columns joined to every row.

Catalyst turns correlated subqueries into joins, and leaves those that are the same for every row
where they stand: in conditions, columns, orders and aggregates. Such a subquery is one row, which
is joined to all rows of what uses it. An aggregate without groups has one row always; any other
query is made to have one (`Single`): nulls for no row, and an error for several.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from waterclock.compute.catalyst.trees import Expression, Logical
from waterclock.compute.plan.nodes import Join, Node, Single

if TYPE_CHECKING:
    from waterclock.compute.plan.translate import Translation


def lifted(
    translation: Translation, below: Node, uses: Sequence[Expression]
) -> tuple[Node, list[Expression]]:
    """The node with the values of all subqueries in the expressions as further columns, and the
    expressions that read them there.
    """
    expressions = list(uses)
    while (subquery := _first_in(expressions)) is not None:
        value = _value(translation, Logical(subquery.java.plan()))
        column = translation.linears.reference(value.output[0])
        below = Join(below, value, ())
        expressions = [_replaced(translation, e, subquery, column) for e in expressions]
    return below, expressions


def _first_in(expressions: Sequence[Expression]) -> Expression | None:
    for expression in expressions:
        for found in expression.walk():
            if found.kind == "ScalarSubquery":
                return found
    return None


def _value(translation: Translation, plan: Logical) -> Node:
    """The one row of a subquery."""
    value = translation.translate(plan)
    return value if _gives_one_row(plan) else Single(value, ())


def _replaced(
    translation: Translation, use: Expression, subquery: Expression, column: Expression
) -> Expression:
    """The expression with the column in the place of the subquery, and of any that is the same."""
    plan = subquery.java.plan()

    def replace(expression: Expression) -> Expression | None:
        if expression.kind != "ScalarSubquery":
            return None
        same: bool = expression.java.plan().sameResult(plan)
        return column if same else None

    return translation.linears.builder.rewrite(use, replace)


def _gives_one_row(plan: Logical) -> bool:
    """Whether the plan has exactly one row whatever its inputs hold."""
    while plan.kind == "Project":
        plan = plan.children[0]
    if plan.kind == "OneRowRelation":
        return True
    return plan.kind == "Aggregate" and not plan.parts("groupingExpressions")
