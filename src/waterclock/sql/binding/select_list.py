"""The select list of a SELECT: what its items give, and what of them belongs into FROM.

Spark knows calls that give rows, and queries that are arguments of functions, in FROM alone: they
are moved there, where they mean the same, and the items get columns in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.sql.binding.blocks import Output
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.grouping import grouped_by, keys_in
from waterclock.sql.binding.inner_values import InnerValues
from waterclock.sql.binding.naming import output_name
from waterclock.sql.binding.returning import after_change
from waterclock.sql.binding.scope import Scope
from waterclock.sql.binding.set_calls import SetCalls
from waterclock.sql.binding.sources import Sources
from waterclock.sql.binding.typed import Role, Typed
from waterclock.sql.errors import FeatureNotSupported, SyntaxFault
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.queries import CommonTables, Queries


class SelectList:
    """Binds the select list."""

    def __init__(self, queries: Queries, sources: Sources) -> None:
        self._queries = queries
        self._expressions = queries.expressions
        self._sources = sources

    def moved(
        self, select: tree.Select, source: str, scope: Scope, tables: CommonTables
    ) -> tuple[list[tree.SelectItem], str]:
        """The items without what belongs into FROM, and FROM with it."""
        if select.assigned is not None:
            return list(select.items), source
        items, source = self._without_sets(select, source, scope, tables)
        if select.group_by is None and select.having is None:
            items, source = self._without_inner(items, source, scope, tables)
        return items, source

    def outputs(
        self, select: tree.Select, items: Sequence[tree.SelectItem], place: Place
    ) -> list[Output]:
        """What the items give; behind those of a change, what RETURNING shows."""
        if select.assigned is None:
            return self._of_items(items, place, grouped_by(select, items, place.scope))
        of_change = 1 + len(select.assigned)
        outputs = self._of_items(items[:of_change], place.of("UPDATE"))
        coercion, statement = self._expressions.coercion, self._queries.statement
        outputs, changed = after_change(place.scope, outputs, select.assigned, coercion, statement)
        return outputs + self._of_items(items[of_change:], Place(changed, "RETURNING"))

    def _of_items(
        self,
        items: Sequence[tree.SelectItem],
        place: Place,
        for_rows: Sequence[tree.SelectItem] = (),
    ) -> list[Output]:
        """What the items give, some of them of each row, even if the query has groups."""
        outputs: list[Output] = []
        for item in items:
            if isinstance(item.expression, tree.Star):
                if not place.scope.relations and not item.expression.parts:
                    raise SyntaxFault(
                        "SELECT * with no tables specified is not valid", item.expression.at
                    )
                found = place.scope.starred(item.expression.parts, item.expression.at)
                kept = place.representatives
                outputs += [Output(_column_name(c), kept.get(c.sql, c)) for c in found]
                continue
            if isinstance(item.expression, tree.AllFields):
                fields = self._expressions.rows.fields(item.expression, place)
                outputs += [Output(name, value) for name, value in fields]
                continue
            of_row = replace(place, is_grouped=False) if item in for_rows else place
            value, row = self._expressions.bind(item.expression, of_row), None
            if value.role is Role.ROW:
                value, row = self._expressions.coercion.settled(value), value
            name = item.label if item.label is not None else output_name(item.expression)
            outputs.append(Output(name, value, row, item.expression))
        return outputs

    def _without_sets(
        self, select: tree.Select, source: str, scope: Scope, tables: CommonTables
    ) -> tuple[list[tree.SelectItem], str]:
        """The items, with calls that give rows moved into FROM, where they mean the same.

        Of several, the rows stand side by side.
        """
        calls = SetCalls(self._expressions.calling.is_set_returning)
        items = [calls.without(item) for item in select.items]
        if not calls.found:
            return list(select.items), source
        if select.group_by is not None:
            _refuse_columns_named(select, items, scope)
        calling = self._expressions.calling
        for call in calls.found:
            if calling.has_columns(call):
                what = f"the row that {call.name[-1]}() gives as a value"
                raise FeatureNotSupported.of(what, call.at)
        return items, self._beside(source, [calls.table()], scope, tables)

    def _without_inner(
        self, items: Sequence[tree.SelectItem], source: str, scope: Scope, tables: CommonTables
    ) -> tuple[list[tree.SelectItem], str]:
        """The items, with queries that are arguments of functions moved into FROM."""
        inner = InnerValues(self._expressions.calling.is_aggregate)
        items = inner.without(items)
        return items, self._beside(source, inner.tables(), scope, tables)

    def _beside(
        self, source: str, more: Sequence[tree.FromItem], scope: Scope, tables: CommonTables
    ) -> str:
        """What is selected from, with relations that nobody can name."""
        if not more:
            return source
        visible, order = list(scope.visible), scope.order
        joined = self._sources.bind(more, scope, tables)
        scope.visible[:] = visible  # `*` does not show them
        scope.order = order.then(scope.order)
        return f"{source}, {joined}" if source else joined


def _refuse_columns_named(
    select: tree.Select, items: Sequence[tree.SelectItem], scope: Scope
) -> None:
    """Refuse to group by a name that an item that gives rows has, if a column has it too."""
    moved = [new.label for old, new in zip(select.items, items, strict=True) if old is not new]
    for element in select.group_by or ():
        for key in keys_in(element):
            match key:
                case tree.ColumnRef((name,)) if name in moved:
                    if scope.try_column(name, key.at) is not None:
                        what = f'GROUP BY the column "{name}" beside an item of that name'
                        raise FeatureNotSupported.of(f"{what} that gives rows", key.at)


def _column_name(value: Typed) -> str:
    assert value.column is not None
    return value.column.name
