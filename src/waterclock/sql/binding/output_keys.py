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
from waterclock.sql.binding.row_keys import Settle, check_told_by_text, keys_of, sorted_by
from waterclock.sql.binding.typed import Role, Typed
from waterclock.sql.errors import SyntaxFault
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.expressions import Expressions


class OutputKeys:
    """Binds the keys of a SELECT."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions

    def order(
        self,
        items: Sequence[tree.SortItem],
        outputs: list[Output],
        place: Place,
        *,
        is_distinct: bool,
    ) -> list[SortTerm]:
        """What ORDER BY sorts by; output columns that it names get types, if they had none.

        Beside a plain DISTINCT it can name nothing else.
        """
        terms = []
        for item in items:
            key = self._sort_key(item.expression, outputs, place)
            if is_distinct and not isinstance(key, int):
                raise InvalidColumnReference(
                    "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
                    item.expression.at,
                )
            terms += self._terms(item, key, outputs)
        return terms

    def _terms(
        self, item: tree.SortItem, key: int | Typed, outputs: list[Output]
    ) -> list[SortTerm]:
        """What one item sorts by: an output column, a value, or the fields of a row."""
        settled = self._expressions.coercion.settled
        if isinstance(key, int) and outputs[key].row is None:
            value = settled(outputs[key].value)
            outputs[key] = replace(outputs[key], value=value)
            self._check_sortable(value)
            return [SortTerm(key, item.descending, item.nulls_first)]
        value = outputs[key].row or outputs[key].value if isinstance(key, int) else key
        found = sorted_by(value, item.descending, item.nulls_first, settled)
        for term in found:
            self._check_sortable(term.key)
        return [SortTerm(term.key, term.descending, term.nulls_first) for term in found]

    def _check_sortable(self, value: Typed) -> None:
        check_sortable(value, has_arrays=not self._expressions.statement.maintained)

    def _sort_key(self, node: tree.Expression, outputs: list[Output], place: Place) -> int | Typed:
        """The place of an output column, by number, by name or by being the same; or a value."""
        named = output_place(node, outputs, place.clause)
        if named is not None:
            return named
        found = self._expressions.bind(node, place)
        value = self._expressions.coercion.settled(found)
        for number, output in enumerate(outputs):
            is_same = output.value.sql == value.sql and output.value.type.oid == value.type.oid
            if is_same and not output.value.is_unknown:
                return number
        return found if found.role is Role.ROW else value

    def distinct_on(
        self, select: tree.Select, outputs: list[Output], place: Place
    ) -> tuple[Typed, ...] | None:
        """The keys of DISTINCT ON; None of a plain DISTINCT, whose keys are the outputs."""
        if select.distinct_on is None:
            return None
        if not select.distinct_on:
            if not outputs:
                raise SyntaxFault("SELECT DISTINCT must have at least one column", select.at)
            settled = self._expressions.coercion.settled
            for number, output in enumerate(outputs):
                outputs[number] = replace(output, value=settled(output.value))
                check_output_groupable(outputs[number], settled)
            return None
        keys = []
        for node in select.distinct_on:
            found = self._sort_key(node, outputs, replace(place, clause="DISTINCT ON"))
            for key in self._distinct_keys(found, outputs):
                check_groupable(key)
                keys.append(key.at_position(node.at))
        return tuple(keys)

    def _distinct_keys(self, found: int | Typed, outputs: list[Output]) -> list[Typed]:
        value = found
        if isinstance(value, int):
            value = outputs[value].row or outputs[value].value
        return keys_of(value, self._expressions.coercion.settled)


def check_output_groupable(output: Output, settle: Settle) -> None:
    """Raise if there is no telling whether what is shown in two rows is equal."""
    if output.row is None:
        check_groupable(output.value)
    else:
        check_told_by_text(output.row, settle)


def check_distinct_on(
    outputs: list[Output], order: list[SortTerm], distinct_on: tuple[Typed, ...] | None
) -> None:
    """Check what DISTINCT ON asks of ORDER BY."""
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
