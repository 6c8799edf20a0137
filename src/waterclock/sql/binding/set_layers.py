"""Functions that give rows beside aggregates or window functions: a SELECT in two layers.

PostgreSQL computes groups and windows first, and then such a function for each row of that. So the
inner layer has all items without such calls, and the arguments of the calls behind them; the outer
one calls the functions, and sorts and cuts the rows. GROUP BY may name items by their number or
name: the inner layer has them in the same places.

It is the other way round where GROUP BY names the items that give rows: those are made first, as
they are in FROM, and then grouped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import assert_never

from waterclock.sql.binding.naming import is_same, output_name
from waterclock.sql.binding.set_calls import calls_in
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.query import tree

_INNER = "\x02"
_CONSTANTS = (tree.Number, tree.String, tree.Boolean, tree.Null, tree.Parameter)


def item_named(
    key: tree.Expression, items: Sequence[tree.SelectItem]
) -> tuple[int, tree.SelectItem] | None:
    """The number, from 1, and the item that a key names, or is the same as."""
    for number, item in enumerate(items, start=1):
        is_number = isinstance(key, tree.Number) and key.text == str(number)
        is_name = isinstance(key, tree.ColumnRef) and key.parts == (_label(item),)
        if is_number or is_name or is_same(item.expression, key):
            return number, item
    return None


class SetLayers:
    """Takes a SELECT apart."""

    def __init__(self, is_set: Callable[[tree.Expression], bool]) -> None:
        self._is_set = is_set
        self._hidden: list[tree.SelectItem] = []

    def layered(self, select: tree.Select, query: tree.Query) -> tree.Query:
        """The query with the SELECT in two layers."""
        if select.distinct_on or any(_is_star(item.expression) for item in select.items):
            what = "a set-returning function beside GROUP BY, an aggregate or a window function"
            raise FeatureNotSupported.of(f"{what}, and DISTINCT ON or *", select.at)
        shown = [self._shown(item, place) for place, item in enumerate(select.items)]
        order = tuple(self._sorted(item, select.items) for item in query.order)
        kept = [
            tree.SelectItem(tree.Null(item.at), "", item.at) if self._gives_rows(item) else item
            for item in select.items
        ]
        labels = (*(_name(n) for n in range(len(kept))), *(item.label for item in self._hidden))
        alias = tree.Alias(_INNER, tuple(label or "" for label in labels), select.at)
        inner = replace(select, items=(*kept, *self._hidden), distinct_on=None)
        source = tree.Derived(tree.Query(inner, select.at), alias, False, select.at)
        outer = tree.Select(
            tuple(shown), (source,), None, None, False, None, (), select.distinct_on, select.at
        )
        return replace(query, body=outer, order=order)

    def grouped(self, select: tree.Select, query: tree.Query) -> tree.Query | None:
        """The query if it groups by all that gives rows, which it names by number; else None."""
        named: list[tree.SelectItem] = []

        def key(node: tree.Expression) -> tree.Expression:
            found = item_named(node, select.items)
            if found is None or not self._gives_rows(found[1]):
                return node
            named.append(found[1])
            return node if isinstance(node, tree.ColumnRef) else tree.Number(str(found[0]), node.at)

        group_by = tuple(_with_keys(element, key) for element in select.group_by or ())
        if not named:
            return None
        others = [i for i in select.items if self._gives_rows(i) and i not in named]
        if others or any(_is_star(item.expression) for item in select.items):
            what = "a set-returning function that is grouped by beside one that is not, or *"
            raise FeatureNotSupported.of(what, select.at)
        order = tuple(replace(item, expression=key(item.expression)) for item in query.order)
        return replace(query, body=replace(select, group_by=group_by), order=order)

    def _gives_rows(self, node: object) -> bool:
        return any(map(self._is_set, calls_in(node)))

    def _shown(self, item: tree.SelectItem, place: int) -> tree.SelectItem:
        if self._gives_rows(item) or isinstance(item.expression, _CONSTANTS):
            return tree.SelectItem(self._outside(item.expression), _label(item), item.at)
        return tree.SelectItem(_column(_name(place), item.at), _label(item), item.at)

    def _outside(self, node: tree.Expression) -> tree.Expression:
        """An expression of the outer layer, in which what gives no rows is a column."""
        if isinstance(node, _CONSTANTS):
            return node
        if not self._gives_rows(node):
            return self._inside(node)
        match node:
            case tree.Call(arguments=arguments) if self._is_set(node):
                return replace(node, arguments=tuple(self._argument(each) for each in arguments))
            case tree.Cast(operand) | tree.Unary(_, operand):
                return replace(node, operand=self._outside(operand))
            case tree.Binary(_, left, right):
                return replace(node, left=self._outside(left), right=self._outside(right))
            case tree.Subscript(base, index):
                return replace(node, base=self._outside(base), index=self._outside(index))
            case _:
                what = "a set-returning function in such an expression beside GROUP BY"
                raise FeatureNotSupported.of(f"{what}, an aggregate or a window function", node.at)

    def _argument(self, node: tree.Expression) -> tree.Expression:
        if self._gives_rows(node):
            raise FeatureNotSupported.of("a set-returning function as an argument of one", node.at)
        return node if isinstance(node, _CONSTANTS) else self._inside(node)

    def _inside(self, node: tree.Expression) -> tree.Expression:
        """A column of the inner layer that is the expression."""
        name = f"{_INNER}h{len(self._hidden)}"
        self._hidden.append(tree.SelectItem(node, name, node.at))
        return _column(name, node.at)

    def _sorted(self, item: tree.SortItem, items: tuple[tree.SelectItem, ...]) -> tree.SortItem:
        """A sort key of the outer layer: an output column, or a column for it inside."""
        key = item.expression
        found = item_named(key, items)
        if found is not None:
            return replace(item, expression=tree.Number(str(found[0]), key.at))
        if isinstance(key, tree.Number):  # of no item, which is told outside
            return item
        return replace(item, expression=self._outside(key))


def _with_keys(
    element: tree.GroupElement, changed: Callable[[tree.Expression], tree.Expression]
) -> tree.GroupElement:
    match element:
        case tree.GroupKeys(keys):
            return replace(element, keys=tuple(map(changed, keys)))
        case tree.GroupingSet(_, elements):
            return replace(element, elements=tuple(_with_keys(e, changed) for e in elements))
        case _:
            assert_never(element)


def _label(item: tree.SelectItem) -> str:
    return item.label if item.label is not None else output_name(item.expression)


def _name(place: int) -> str:
    return f"{_INNER}{place}"


def _column(name: str, at: int) -> tree.Expression:
    return tree.ColumnRef((_INNER, name), at)


def _is_star(node: tree.Expression) -> bool:
    return isinstance(node, tree.Star | tree.AllFields)
