"""What an output column is called if nobody named it, and what a tree says without being bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from waterclock.sql.dialect.types import name_of
from waterclock.sql.query import tree

UNNAMED = "?column?"


def output_name(expression: tree.Expression) -> str:
    """The name that PostgreSQL gives to a column that shows the expression."""
    found = _found(expression)
    return UNNAMED if found is None else found[0]


_Name = tuple[str, bool]
"""A name, and whether it is a strong one: that of a column or function, not only of a type."""


def _found(expression: tree.Expression) -> _Name | None:
    match expression:
        case tree.ColumnRef(parts) | tree.Star(parts) if parts:
            return parts[-1], True
        case tree.Call(name):
            return name[-1], True
        case tree.Field(_, name):
            return name, True
        case tree.NullRow(name):
            return name[-1], False
        case tree.Coalescing(name):
            return name, True
        case tree.Cast(operand, declared):
            inner = _found(operand)
            weak = (name_of(declared).removeprefix("_"), False)
            return inner if inner is not None and inner[1] else weak
        case tree.Case(_, _, default):
            inner = None if default is None else _found(default)
            return inner if inner is not None and inner[1] else ("case", False)
        case tree.Subscript(base) | tree.Slice(base):
            return _found(base)
        case tree.Collate(operand):
            return _found(operand)
        case tree.Subquery(query):
            return _of_query(query)
        case _:
            word = _WORDS.get(type(expression))
            return None if word is None else (word, True)


_WORDS: dict[type[object], str] = {
    tree.ArrayItems: "array",
    tree.ArrayQuery: "array",
    tree.Exists: "exists",
    tree.Row: "row",
    tree.Grouping: "grouping",
}


def _of_query(query: tree.Query) -> _Name | None:
    match query.body:
        case tree.Select(items) if items:
            label = items[0].label
            return (label, True) if label is not None else _found(items[0].expression)
        case tree.Values():
            return "column1", True
        case tree.SetOperation(_, _, left):
            return _of_query(left)
        case _:
            return None


def is_same(one: Any, other: Any) -> bool:
    """Whether two trees say the same, wherever they stand."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if not is_dataclass(one) or isinstance(one, type) or type(one) is not type(other):
        return bool(one == other)
    names = [each.name for each in fields(one) if each.name != "at"]
    return all(is_same(getattr(one, name), getattr(other, name)) for name in names)


def asks_queries(node: Any) -> bool:
    """Whether a query is part of the expression."""
    return isinstance(node, tree.Query) or any(map(asks_queries, _inside(node)))


def _inside(node: Any) -> Iterator[Any]:
    if isinstance(node, tuple):
        yield from node
    elif is_dataclass(node) and not isinstance(node, type):
        yield from (getattr(node, each.name) for each in fields(node))
