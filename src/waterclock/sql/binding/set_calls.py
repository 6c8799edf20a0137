"""Functions that give rows, in the select list: which calls there are, and what stands for them.

Each call is taken out of its expression, and a column that nobody can name takes its place. They
are left where PostgreSQL does not allow them either, which is then an error: in CASE, COALESCE and
the arguments of other such functions. Queries inside an expression have their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from waterclock.sql.binding.naming import output_name
from waterclock.sql.query import tree

_TABLE = "\x00"
_CLOSED = (tree.Case, tree.Coalescing, tree.Query, tree.Window)


class SetCalls:
    """Takes calls out of select items."""

    def __init__(self, is_set_returning: Callable[[tree.Expression], bool]) -> None:
        self._is_set_returning = is_set_returning
        self.found: list[tree.Call] = []

    def without(self, item: tree.SelectItem) -> tree.SelectItem:
        """The item with columns in place of such calls, and the name that it had."""
        if isinstance(item.expression, tree.Star):
            return item
        before = len(self.found)
        changed = self._changed(item.expression)
        if len(self.found) == before:
            return item
        label = item.label if item.label is not None else output_name(item.expression)
        return tree.SelectItem(changed, label, item.at)

    def table(self) -> tree.FunctionTable:
        """The calls as a relation of FROM."""
        names = tuple(_column(place) for place in range(len(self.found)))
        at = self.found[0].at
        return tree.FunctionTable(tuple(self.found), False, tree.Alias(_TABLE, names, at), at)

    def _changed(self, node: Any) -> Any:
        if isinstance(node, tuple):
            return tuple(self._changed(each) for each in node)
        if isinstance(node, _CLOSED) or not is_dataclass(node) or isinstance(node, type):
            return node
        if isinstance(node, tree.Call) and self._is_set_returning(node):
            self.found.append(node)
            return tree.ColumnRef((_TABLE, _column(len(self.found) - 1)), node.at)
        values = {each.name: getattr(node, each.name) for each in fields(node)}
        changed = {name: self._changed(value) for name, value in values.items()}
        if all(changed[name] is value for name, value in values.items()):
            return node
        return replace(node, **changed)


def _column(place: int) -> str:
    return f"{_TABLE}{place}"


def calls_in(node: object) -> Iterator[tree.Call]:
    """All calls of functions in an expression, not counting those of queries inside."""
    if isinstance(node, tuple):
        for each in node:
            yield from calls_in(each)
    elif is_dataclass(node) and not isinstance(node, tree.Query):
        if isinstance(node, tree.Call):
            yield node
        for field in fields(node):
            yield from calls_in(getattr(node, field.name))
