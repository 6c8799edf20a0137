"""Queries as arguments of functions, in the select list: moved into FROM, where they mean the same.

Many functions are written with their arguments inside a lambda, where the engine takes no query. A
query that has one row for certain, since it aggregates without GROUP BY, is joined to what is
selected from, and a column that nobody can name takes its place. Other queries are left where they
are, and so are those in CASE and COALESCE, which may not be computed at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from waterclock.sql.binding.naming import output_name
from waterclock.sql.binding.set_calls import calls_in
from waterclock.sql.query import tree

_TABLE = "\x01"
_CLOSED = (tree.Case, tree.Coalescing, tree.Query, tree.Window)


class InnerValues:
    """Takes queries out of the arguments of functions in select items."""

    def __init__(self, is_aggregate: Callable[[tree.Call], bool]) -> None:
        self._is_aggregate = is_aggregate
        self._found: list[tree.Subquery] = []

    def without(self, items: Sequence[tree.SelectItem]) -> list[tree.SelectItem]:
        """The items with columns in place of such queries, and the names that they had.

        They are left as they are beside an aggregate, before which nothing can be joined.
        """
        if any(self._aggregates(item) for item in items):
            return list(items)
        return [self._item(item) for item in items]

    def tables(self) -> list[tree.Derived]:
        """The queries as relations of FROM."""
        return [
            tree.Derived(each.query, tree.Alias(_name(n), (_name(n),), each.at), True, each.at)
            for n, each in enumerate(self._found)
        ]

    def _item(self, item: tree.SelectItem) -> tree.SelectItem:
        changed = self._changed(item.expression, inside=False)
        if changed is item.expression:
            return item
        label = item.label if item.label is not None else output_name(item.expression)
        return tree.SelectItem(changed, label, item.at)

    def _changed(self, node: Any, *, inside: bool) -> Any:
        if isinstance(node, tuple):
            changed = tuple(self._changed(each, inside=inside) for each in node)
            return node if all(a is b for a, b in zip(node, changed, strict=True)) else changed
        if isinstance(node, tree.Subquery) and inside and self._has_one_row(node.query):
            self._found.append(node)
            name = _name(len(self._found) - 1)
            return tree.ColumnRef((name, name), node.at)
        if isinstance(node, _CLOSED) or not is_dataclass(node) or isinstance(node, type):
            return node
        inside = inside or isinstance(node, tree.Call)
        values = {each.name: getattr(node, each.name) for each in fields(node)}
        made = {name: self._changed(value, inside=inside) for name, value in values.items()}
        if all(made[name] is value for name, value in values.items()):
            return node
        return replace(node, **made)

    def _has_one_row(self, query: tree.Query) -> bool:
        body = query.body
        if not isinstance(body, tree.Select) or query.limit is not None or query.offset is not None:
            return False
        if body.group_by is not None or body.having is not None or len(body.items) != 1:
            return False
        return self._aggregates(body.items[0])

    def _aggregates(self, item: tree.SelectItem) -> bool:
        calls = calls_in(item.expression)
        return any(call.over is None and self._is_aggregate(call) for call in calls)


def _name(place: int) -> str:
    return f"{_TABLE}{place}"
