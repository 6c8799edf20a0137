"""Keeps correlated predicates below LIMIT and window functions.

Catalyst takes `column = expression of the query around` out of a query inside, and joins by it
later. It does so past LIMIT and window functions too, which then count rows that the equality would
have left out. It leaves it where it is if what is compared is not a column alone; so in such
queries a column stands in a call that changes nothing. Two columns of one type are no danger:
Catalyst then counts the rows for each value.
"""

from __future__ import annotations

from dataclasses import replace

from waterclock.sql.binding.scope import Scope
from waterclock.sql.binding.set_calls import calls_in
from waterclock.sql.binding.typed import Role, Typed
from waterclock.sql.query import tree


def cuts(query: tree.Query) -> bool:
    """Whether which rows it gives, or what is in one, depends on the other rows."""
    if query.limit is not None or query.offset is not None:
        return True
    body = query.body
    if not isinstance(body, tree.Select):
        return False
    shown = (*(item.expression for item in body.items), query.order)
    return bool(body.distinct_on) or any(call.over is not None for call in calls_in(shown))


def kept_inside(left: Typed, right: Typed, scope: Scope) -> tuple[Typed, Typed]:
    """Two operands that are asked to be equal, as they are written in the query of `scope`."""
    if not scope.is_cut or scope.outer is None:
        return left, right
    if left.role is Role.ROW and right.role is Role.ROW and len(left.parts) == len(right.parts):
        pairs = [kept_inside(*pair, scope) for pair in zip(left.parts, right.parts, strict=True)]
        ones, others = zip(*pairs, strict=True) if pairs else ((), ())
        return replace(left, parts=ones), replace(right, parts=others)
    if left.column is not None and right.column is not None and left.type == right.type:
        return left, right
    if _is_around(left, scope) == _is_around(right, scope):
        return left, right
    return _held(left, scope), _held(right, scope)


def _is_around(value: Typed, scope: Scope) -> bool:
    """Whether it names a column of a query around."""
    return any(each.column and each.column.scope != scope.number for each in value.walk())


def _held(value: Typed, scope: Scope) -> Typed:
    is_value = bool(value.sql) and value.known is None and value.role not in (Role.ROW, Role.SET)
    if not is_value or _is_around(value, scope):
        return value
    sql = f"COALESCE({value.sql})"
    return Typed(sql, value.type, value.at, (value,), nullable=value.nullable)
