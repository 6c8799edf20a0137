"""SELECT: one block of a query.

The clauses are bound in the order in which they see each other: FROM, WHERE, the select list,
GROUP BY, HAVING, ORDER BY and DISTINCT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.sql.binding.blocks import Block, Output, SortTerm
from waterclock.sql.binding.clauses import ONE_ROW, Clauses, writer
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.errors import WindowFault
from waterclock.sql.binding.grouping import (
    Grouping,
    Groups,
    check_grouped,
    has_aggregate,
    has_grouping_sets,
)
from waterclock.sql.binding.having_sets import asks_for_sets, chosen_outside
from waterclock.sql.binding.output_keys import OutputKeys, check_distinct_on
from waterclock.sql.binding.picking import picked
from waterclock.sql.binding.representatives import distinct, has_twins
from waterclock.sql.binding.row_order import UNKNOWN_ORDER
from waterclock.sql.binding.scope import Scope
from waterclock.sql.binding.select_list import SelectList
from waterclock.sql.binding.set_calls import calls_in
from waterclock.sql.binding.set_layers import SetLayers
from waterclock.sql.binding.sources import Sources
from waterclock.sql.binding.typed import Role, Typed
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.queries import CommonTables, Queries

_ONE_GROUP = Groups((), None, False)


class Selects:
    """Binds SELECT."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._expressions = queries.expressions
        self._sources = Sources(queries)
        self._list = SelectList(queries, self._sources)
        self._grouping = Grouping(queries.expressions)
        self._keys = OutputKeys(queries.expressions)

    def bind(
        self, select: tree.Select, query: tree.Query, scope: Scope, tables: CommonTables
    ) -> Block:
        """The block of a SELECT with the ORDER BY of its query."""
        source = self._sources.bind(select.sources, scope, tables)
        aggregates = self._may_aggregate(select, query)
        _check_windows(select)
        extends = select.assigned is None and not aggregates
        row = Place(scope, "WHERE", windows=dict(select.windows), extends=extends)
        where = _all_of([*scope.conditions, *self._where(select, row)])
        items, source = self._list.moved(select, source, scope, tables)
        shown = replace(
            row,
            clause="SELECT",
            allows_aggregates=True,
            allows_windows=True,
            is_grouped=select.group_by is not None,
            has_sets=has_grouping_sets(select),
            order=UNKNOWN_ORDER if aggregates else scope.order,
        )
        outputs, groups, shown = self._grouped(select, items, shown)
        having = self._having(select, shown)
        sorting = replace(shown, clause="ORDER BY")
        is_distinct = select.distinct_on == ()
        order = self._keys.order(query.order, outputs, sorting, is_distinct=is_distinct)
        distinct_on = self._keys.distinct_on(select, outputs, shown)
        check_distinct_on(outputs, order, distinct_on)
        hidden = [term.key for term in order if isinstance(term.key, Typed)]
        hidden += [*(distinct_on or ()), *([having] if having else [])]
        groups = _checked(groups, [*(each.value for each in outputs), *hidden], having, scope)
        if groups is not None and groups.has_sets:
            outputs = [replace(o, value=replace(o.value, nullable=True)) for o in outputs]
        if groups is not None and groups.columns:
            source = f"{source}, {groups.columns}" if source else f"{ONE_ROW}, {groups.columns}"
        if scope.brought_in:
            own = f"(SELECT {', '.join(scope.brought_in)}) AS {self._queries.statement.alias()}"
            source = f"{own}, {source}" if source else own
        block = Block(tuple(outputs), _unwritten, tuple(order), distinct_on)
        if groups is None and not order and not is_distinct and select.assigned is None:
            block = _in_order_of_source(block, scope)
        clauses = Clauses(source, where, groups, having, scope.extended, scope.extended_first)
        return self._written(select, block, clauses, scope)

    def in_layers(self, query: tree.Query) -> tree.Query:
        """The query; in two layers if functions that give rows are called for groups or windows."""
        select = query.body
        if not isinstance(select, tree.Select) or select.assigned is not None:
            return query
        calling = self._expressions.calling
        calls = [call for item in select.items for call in calls_in(item.expression)]
        if not any(map(calling.is_set_returning, calls)):
            return query
        has_windows = any(call.over is not None for call in calls)
        if not has_windows and not self._may_aggregate(select, query):
            return query
        layers = SetLayers(calling.is_set_returning)
        return layers.grouped(select, query) or layers.layered(select, query)

    def _where(self, select: tree.Select, row: Place) -> list[Typed]:
        if select.where is None:
            return []
        place = replace(row, is_conjunct=True)
        return [self._expressions.condition(select.where, place, "WHERE")]

    def _grouped(
        self, select: tree.Select, items: Sequence[tree.SelectItem], shown: Place
    ) -> tuple[list[Output], Groups | None, Place]:
        """What is shown, what GROUP BY groups by, and the place where both are known."""
        outputs = self._list.outputs(select, items, shown)
        if select.group_by is None:
            return outputs, None, shown
        keys = replace(shown.of("GROUP BY"), is_grouped=False)
        groups = self._grouping.bind(select, outputs, keys)
        if groups.representatives:
            shown = replace(shown, representatives=groups.representatives)
            outputs = self._list.outputs(select, items, shown)
        for number, key in groups.shown.items():
            outputs[number] = replace(outputs[number], value=key)
        return outputs, groups, shown

    def _having(self, select: tree.Select, shown: Place) -> Typed | None:
        if select.having is None:
            return None
        place = replace(shown, clause="HAVING", allows_windows=False)
        return self._expressions.condition(select.having, place, "HAVING")

    def _written(self, select: tree.Select, block: Block, clauses: Clauses, scope: Scope) -> Block:
        """The block with what writes its rows."""
        statement = self._queries.statement
        is_distinct = select.distinct_on == ()
        if clauses.extended and clauses.groups is not None:
            what = "a window frame of GROUPS beside an aggregate"
            raise FeatureNotSupported.of(what, select.at)
        if clauses.having is not None and asks_for_sets(clauses.having):
            if is_distinct:
                what = "GROUPING in HAVING beside DISTINCT"
                raise FeatureNotSupported.of(what, clauses.having.at)
            whole = replace(block, write=writer(replace(clauses, having=None), False))
            settled = self._expressions.coercion.settled
            return chosen_outside(whole, clauses.having, settled, statement.alias())
        if is_distinct and any(has_twins(output.value) for output in block.outputs):
            return distinct(replace(block, write=writer(clauses, False)), statement.alias())
        block = replace(block, write=writer(clauses, is_distinct))
        return replace(block, simple=picked(select, block, clauses, scope, list(statement.reads)))

    def _may_aggregate(self, select: tree.Select, query: tree.Query) -> bool:
        """Whether the rows that are shown are groups."""
        if select.group_by is not None or select.having is not None:
            return True
        shown = [*(each.expression for each in select.items), *(e.expression for e in query.order)]
        calls = (call for each in shown for call in calls_in(each))
        is_aggregate = self._expressions.calling.is_aggregate
        return any(call.over is None and is_aggregate(call) for call in calls)


def _unwritten(columns: Sequence[str]) -> str:
    raise AssertionError(f"the clauses of a block are not known yet, but its columns: {columns}")


def _checked(
    groups: Groups | None, values: Sequence[Typed], having: Typed | None, scope: Scope
) -> Groups | None:
    """The groups, if there are any, after a look at what is made of them."""
    if groups is None and having is None and not has_aggregate(values):
        return None
    groups = groups or _ONE_GROUP
    if groups.sql is None and having is None and not _writes_aggregate(values):
        groups = replace(groups, is_bare=True)
    check_grouped(values, groups, scope.number)
    return groups


def _writes_aggregate(values: Sequence[Typed]) -> bool:
    """Whether the engine sees an aggregate. The type of one is a constant, which it does not."""
    return any(
        part.role is Role.AGGREGATE and part.sql in value.sql
        for value in values
        for part in value.walk()
    )


def _in_order_of_source(block: Block, scope: Scope) -> Block:
    """The block in the order that the rows of FROM have.

    Window functions sort them in orders of their own.
    """
    values = [output.value for output in block.outputs]
    if any(part.role is Role.WINDOW for value in values for part in value.walk()):
        return block
    places = {value.sql: place for place, value in reversed(list(enumerate(values)))}
    terms = tuple(
        SortTerm(places.get(term.key.sql, term.key), term.descending, term.nulls_first)
        for term in scope.order.terms
    )
    return replace(block, order=terms) if scope.order.is_asked else replace(block, made_in=terms)


def _all_of(conditions: Sequence[Typed]) -> Typed | None:
    if len(conditions) < 2:
        return next(iter(conditions), None)
    sql = f"({' AND '.join(each.sql for each in conditions)})"
    return replace(conditions[0], sql=sql, parts=tuple(conditions), column=None, known=None)


def _check_windows(select: tree.Select) -> None:
    """Raise if two windows have one name."""
    names: set[str] = set()
    for name, window in select.windows:
        if name in names:
            raise WindowFault(f'window "{name}" is already defined', window.at)
        names.add(name)
