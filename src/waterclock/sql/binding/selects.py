"""SELECT: one block of a query.

The clauses are bound in the order in which they see each other: FROM, WHERE, the select list,
GROUP BY, HAVING, ORDER BY and DISTINCT. Calls and queries in the select list that Spark knows in
FROM alone are moved there first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.sql.binding.blocks import Block, Output, SortTerm
from waterclock.sql.binding.clauses import Clauses, writer
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.grouping import (
    Grouping,
    Groups,
    check_grouped,
    has_aggregate,
)
from waterclock.sql.binding.inner_values import InnerValues
from waterclock.sql.binding.naming import output_name
from waterclock.sql.binding.output_keys import OutputKeys, check_distinct
from waterclock.sql.binding.picking import picked
from waterclock.sql.binding.representatives import distinct, has_twins
from waterclock.sql.binding.returning import after_change
from waterclock.sql.binding.scope import Scope
from waterclock.sql.binding.set_calls import SetCalls, calls_in
from waterclock.sql.binding.sources import Sources
from waterclock.sql.binding.typed import Role, Typed
from waterclock.sql.errors import FeatureNotSupported, SyntaxFault
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.queries import CommonTables, Queries

_NO_GROUPS = Groups((), None, False)


class Selects:
    """Binds SELECT."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._expressions = queries.expressions
        self._sources = Sources(queries)
        self._grouping = Grouping(queries.expressions)
        self._keys = OutputKeys(queries.expressions)

    def bind(
        self, select: tree.Select, query: tree.Query, scope: Scope, tables: CommonTables
    ) -> Block:
        """The block of a SELECT with the ORDER BY of its query."""
        source = self._sources.bind(select.sources, scope, tables)
        extends = select.assigned is None and not self._may_aggregate(select, query)
        plain = Place(scope, "WHERE", windows=dict(select.windows), extends=extends)
        where = None
        if select.where is not None:
            deciding = replace(plain, is_conjunct=True)
            where = self._expressions.condition(select.where, deciding, "WHERE")
        items = list(select.items)
        if select.assigned is None:
            items, source = self._without_sets(select, source, scope, tables)
            if select.group_by is None and select.having is None:
                items, source = self._without_inner(items, source, scope, tables)
        plain = replace(plain, is_grouped=select.group_by is not None)
        shown = replace(plain, clause="SELECT", allows_aggregates=True, allows_windows=True)
        if not self._may_aggregate(select, query):
            shown = replace(shown, order=scope.order)
        outputs = self._shown(select, items, shown)
        groups = None
        if select.group_by is not None:
            keys = replace(plain.of("GROUP BY"), is_grouped=False)
            groups = self._grouping.bind(select, outputs, keys)
            if groups.representatives:
                plain = replace(plain, representatives=groups.representatives)
                shown = replace(shown, representatives=groups.representatives)
                outputs = self._outputs(items, shown)
        having = None
        if select.having is not None:
            place = replace(plain, clause="HAVING", allows_aggregates=True)
            having = self._expressions.condition(select.having, place, "HAVING")
        order = self._keys.order(query.order, outputs, replace(shown, clause="ORDER BY"))
        distinct_on = self._keys.distinct_on(select, outputs, shown)
        check_distinct(select, outputs, order, distinct_on, query)
        values = [each.value for each in outputs]
        hidden = [term.key for term in order if isinstance(term.key, Typed)]
        everything = [*values, *hidden, *(distinct_on or ()), *([having] if having else [])]
        if groups is None and (having is not None or has_aggregate(everything)):
            groups = _NO_GROUPS
        if groups is not None:
            check_grouped(everything, groups, scope.number)
            if groups.has_sets:
                outputs = [replace(o, value=replace(o.value, nullable=True)) for o in outputs]
        is_distinct = select.distinct_on == ()
        made_in: list[SortTerm] = []
        if groups is None and not order and not is_distinct and select.assigned is None:
            made_in = _order_of_source(scope, outputs)
            if scope.order.is_asked:
                order, made_in = made_in, []
        if having is not None and _asks_for_sets(having):
            plain_clauses = Clauses(source, where, groups, None)
            whole = Block(tuple(outputs), writer(plain_clauses, False), tuple(order), distinct_on)
            if is_distinct:
                raise FeatureNotSupported.of("GROUPING in HAVING beside DISTINCT", having.at)
            return self._kept(whole, having)
        if scope.extended and groups is not None:
            what = "a window frame of GROUPS beside an aggregate"
            raise FeatureNotSupported.of(what, select.at)
        clauses = Clauses(source, where, groups, having, scope.extended, scope.extended_first)
        chooses = is_distinct and any(map(has_twins, (output.value for output in outputs)))
        write = writer(clauses, is_distinct and not chooses)
        block = Block(tuple(outputs), write, tuple(order), distinct_on, made_in=tuple(made_in))
        if chooses:
            return distinct(block, self._queries.statement.alias())
        reads = list(self._queries.statement.reads)
        return replace(block, simple=picked(select, block, clauses, scope, reads))

    def _may_aggregate(self, select: tree.Select, query: tree.Query) -> bool:
        """Whether the rows that are shown are groups."""
        if select.group_by is not None or select.having is not None:
            return True
        shown = [*(each.expression for each in select.items), *(e.expression for e in query.order)]
        calls = (call for each in shown for call in calls_in(each))
        is_aggregate = self._expressions.calling.is_aggregate
        return any(call.over is None and is_aggregate(call) for call in calls)

    def _kept(self, block: Block, having: Typed) -> Block:
        """The rows of a block that HAVING keeps, chosen outside of it.

        The engine knows in the select list alone which set of GROUPING SETS a row is of.
        """
        alias = self._queries.statement.alias()
        settle = self._expressions.coercion.settled
        values = [settle(output.value) for output in block.outputs]
        keys = [term.key for term in block.order if isinstance(term.key, Typed)]
        inner = [f"{value.sql} AS c{n + 1}" for n, value in enumerate(values)]
        inner += [f"{key.sql} AS s{n + 1}" for n, key in enumerate(keys)]
        inner += [f"{key.sql} AS d{n + 1}" for n, key in enumerate(block.distinct_on or ())]
        source = block.write([*inner, f"{having.sql} AS h"])

        def outside(value: Typed, name: str) -> Typed:
            return replace(value, sql=f"{alias}.{name}", parts=(value,), known=None)

        moved = iter([outside(key, f"s{n + 1}") for n, key in enumerate(keys)])
        order = [t if isinstance(t.key, int) else replace(t, key=next(moved)) for t in block.order]
        distinct_on = None
        if block.distinct_on is not None:
            distinct_on = tuple(outside(k, f"d{n + 1}") for n, k in enumerate(block.distinct_on))
        return Block(
            tuple(
                replace(output, value=outside(value, f"c{n + 1}"))
                for n, (output, value) in enumerate(zip(block.outputs, values, strict=True))
            ),
            lambda shown: f"SELECT {', '.join(shown)} FROM ({source}) AS {alias} WHERE {alias}.h",
            tuple(order),
            distinct_on,
        )

    # The select list

    def _shown(
        self, select: tree.Select, items: Sequence[tree.SelectItem], place: Place
    ) -> list[Output]:
        """What the items give; behind those of a change, what RETURNING shows."""
        if select.assigned is None:
            return self._outputs(items, place)
        of_change = 1 + len(select.assigned)
        outputs = self._outputs(items[:of_change], place.of("UPDATE"))
        coercion, statement = self._expressions.coercion, self._queries.statement
        outputs, changed = after_change(place.scope, outputs, select.assigned, coercion, statement)
        return outputs + self._outputs(items[of_change:], Place(changed, "RETURNING"))

    def _outputs(self, items: Sequence[tree.SelectItem], place: Place) -> list[Output]:
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
            value = self._expressions.bind(item.expression, place)
            if value.role is Role.ROW:
                value = self._expressions.coercion.settled(value)
            name = item.label if item.label is not None else output_name(item.expression)
            outputs.append(Output(name, value))
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
        at = calls.found[0].at
        if select.group_by is not None or select.having is not None:
            what = "a set-returning function beside GROUP BY in SELECT"
            raise FeatureNotSupported.of(what, at)
        calling = self._expressions.calling
        others = [call for item in select.items for call in calls_in(item.expression)]
        if any(call.over is not None or calling.is_aggregate(call) for call in others):
            what = "a set-returning function beside an aggregate or a window function in SELECT"
            raise FeatureNotSupported.of(what, at)
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


def _order_of_source(scope: Scope, outputs: Sequence[Output]) -> list[SortTerm]:
    """The order that the rows of FROM have; window functions sort them in orders of their own."""
    values = [output.value for output in outputs]
    if any(part.role is Role.WINDOW for value in values for part in value.walk()):
        return []
    places = {value.sql: place for place, value in reversed(list(enumerate(values)))}
    return [
        SortTerm(places.get(term.key.sql, term.key), term.descending, term.nulls_first)
        for term in scope.order.terms
    ]


def _asks_for_sets(having: Typed) -> bool:
    return any(part.role is Role.GROUPING for part in having.walk())


def _column_name(value: Typed) -> str:
    assert value.column is not None
    return value.column.name
