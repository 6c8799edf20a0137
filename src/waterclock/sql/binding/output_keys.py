"""ORDER BY and DISTINCT: keys that are output columns, or values beside them.

A key is an output column if it is its number, its name, or the same expression. Else it is a value
that is not shown, which a plain DISTINCT does not allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.sql.binding.blocks import Output, SortTerm
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.errors import AmbiguousColumn, InvalidColumnReference
from waterclock.sql.binding.ordering import check_groupable, check_sortable
from waterclock.sql.binding.typed import Typed
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.expressions import Expressions


class OutputKeys:
    """Binds the keys of a SELECT."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions

    def order(
        self, items: Sequence[tree.SortItem], outputs: list[Output], place: Place
    ) -> list[SortTerm]:
        """What ORDER BY sorts by; output columns that it names get types, if they had none."""
        terms = []
        for item in items:
            key = self._sort_key(item.expression, outputs, place)
            value = outputs[key].value if isinstance(key, int) else key
            value = self._expressions.coercion.settled(value)
            if isinstance(key, int):
                outputs[key] = replace(outputs[key], value=value)
            check_sortable(value, has_arrays=not self._expressions.statement.maintained)
            terms.append(
                SortTerm(key if isinstance(key, int) else value, item.descending, item.nulls_first)
            )
        return terms

    def _sort_key(self, node: tree.Expression, outputs: list[Output], place: Place) -> int | Typed:
        """The place of an output column, by number, by name or by being the same; or a value."""
        named = output_place(node, outputs, "ORDER BY")
        if named is not None:
            return named
        value = self._expressions.value(node, place)
        for number, output in enumerate(outputs):
            if output.value.sql == value.sql and not output.value.is_unknown:
                return number
        return value

    def distinct_on(
        self, select: tree.Select, outputs: list[Output], place: Place
    ) -> tuple[Typed, ...] | None:
        """The keys of DISTINCT ON; None of a plain DISTINCT, whose keys are the outputs."""
        if select.distinct_on is None:
            return None
        if not select.distinct_on:
            for number, output in enumerate(outputs):
                value = self._expressions.coercion.settled(output.value)
                check_groupable(value)
                outputs[number] = replace(output, value=value)
            return None
        keys = []
        for node in select.distinct_on:
            found = self._sort_key(node, outputs, replace(place, clause="DISTINCT ON"))
            value = outputs[found].value if isinstance(found, int) else found
            value = self._expressions.coercion.settled(value)
            check_groupable(value)
            keys.append(value.at_position(node.at))
        return tuple(keys)


def check_distinct(
    select: tree.Select,
    outputs: list[Output],
    order: list[SortTerm],
    distinct_on: tuple[Typed, ...] | None,
    query: tree.Query,
) -> None:
    """Check what DISTINCT asks of ORDER BY."""
    if select.distinct_on == ():
        for term, item in zip(order, query.order, strict=True):
            if isinstance(term.key, Typed):
                raise InvalidColumnReference(
                    "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
                    item.expression.at,
                )
    if distinct_on is not None and order:
        wanted = {key.sql for key in distinct_on}
        for term in order[: len(wanted)]:
            value = outputs[term.key].value if isinstance(term.key, int) else term.key
            if value.sql not in wanted:
                raise InvalidColumnReference(
                    "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
                    distinct_on[0].at,
                )


def output_place(node: tree.Expression, outputs: Sequence[Output], clause: str) -> int | None:
    """The place of the output column that a key names, by its number or its name, if it does."""
    if isinstance(node, tree.Number) and node.text.isdigit():
        return output_position(int(node.text), len(outputs), clause, node.at)
    if isinstance(node, tree.ColumnRef) and len(node.parts) == 1:
        return _output_named(node.parts[0], outputs, clause, node.at)
    return None


def output_position(number: int, count: int, clause: str, at: int) -> int:
    """The place of the output column of that number, from 0."""
    if not 1 <= number <= count:
        raise InvalidColumnReference(f"{clause} position {number} is not in select list", at)
    return number - 1


def _output_named(name: str, outputs: Sequence[Output], clause: str, at: int) -> int | None:
    """The place of the output column of that name, if there is one."""
    found = [n for n, output in enumerate(outputs) if output.name == name]
    if len({outputs[n].value.sql for n in found}) > 1:
        raise AmbiguousColumn(f'{clause} "{name}" is ambiguous', at)
    return found[0] if found else None
