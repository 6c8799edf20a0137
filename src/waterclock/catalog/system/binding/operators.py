"""Small things that all expressions with operators share."""

from __future__ import annotations

import re

from sqlglot import exp

from waterclock.catalog.system.binding.typed import Statement
from waterclock.catalog.system.errors import UndefinedFunction


def no_operator(
    statement: Statement, operator: str, left: int, right: int, node: exp.Expr
) -> UndefinedFunction:
    """The error that no operator takes these types."""
    shown = [statement.types.shown(oid) for oid in (left, right)]
    return UndefinedFunction(
        f"operator does not exist: {shown[0]} {operator} {shown[1]}",
        statement.parsed.operator_position(node.this, operator),
        hint="No operator matches the given name and argument types. "
        "You might need to add explicit type casts.",
    )


def kind_of(node: exp.Expr) -> str:
    """A short name for a kind of expression."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).lower()
