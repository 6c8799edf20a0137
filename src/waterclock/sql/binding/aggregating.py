"""Aggregates: over the rows of a group, or over a window.

An aggregate stands where its clause allows it, and its arguments hold no other. Spark's windows
have no FILTER, so there the argument is null where the condition does not hold. Aggregates whose
result depends on an order are bound elsewhere: `collecting`, `ordered_sets`, `hypothetical_sets`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.model.pg_types import INT4
from waterclock.sql.binding.collecting import Collecting
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.documents import Documents, counted_row
from waterclock.sql.binding.errors import GroupingFault, WrongObjectKind
from waterclock.sql.binding.hypothetical_sets import HypotheticalSets
from waterclock.sql.binding.lookup import chosen, refuse_rows, undefined
from waterclock.sql.binding.ordered_sets import OrderedSets
from waterclock.sql.binding.ordering import check_groupable
from waterclock.sql.binding.overloads import Candidate
from waterclock.sql.binding.predicates import key_sql
from waterclock.sql.binding.typed import Role, Typed, operand
from waterclock.sql.binding.windows import Windows
from waterclock.sql.dialect.casts import FLOATS
from waterclock.sql.dialect.types import name_of
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.functions.aggregates import ORDERED, WITHIN, WITHOUT_DISTINCT
from waterclock.sql.functions.registry import D, F, Function, Use
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.expressions import Expressions


class Aggregating:
    """Binds calls of aggregates."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._windows = Windows(expressions)
        self._collecting = Collecting(expressions)
        self._documents = Documents(expressions)
        self._ordered_sets = OrderedSets(expressions)
        self._hypothetical_sets = HypotheticalSets(expressions)

    def bound(self, node: tree.Call, entries: tuple[Function, ...], place: Place) -> Typed:
        """The aggregate over a group, or over a window if it has OVER."""
        name = node.name[-1]
        is_within = any(entry.sql == WITHIN for entry in entries)
        if node.within is not None and not is_within:
            raise WrongObjectKind(
                f"{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP", node.at
            )
        if node.within is None and is_within:
            raise WrongObjectKind(
                f"WITHIN GROUP is required for ordered-set aggregate {name}", node.at
            )
        if node.is_variadic:
            raise FeatureNotSupported.of("VARIADIC", node.at)
        inner = self._check_place(node, place)
        if not node.arguments and not node.is_star and name == "count":
            raise WrongObjectKind(
                "count(*) must be used to call a parameterless aggregate function", node.at
            )
        document = self._documents.document(node, inner)
        values = self._documents.arguments(node, inner, document)
        if name == "count" and len(values) == 1:
            values = (self._counted(values[0], node),)
        else:
            refuse_rows(values)
        candidate = chosen(node, entries, values)
        if candidate is None:
            raise undefined(node, values)
        self._refuse_outer(values, place, node.at)
        condition = self._filter(node, inner)
        if condition is not None and node.over is not None and node.is_star:
            return self._counted_over(entries, node, condition, place)
        if candidate.function.sql == WITHIN:
            return self._ordered_sets.bound(candidate, values, node, condition, inner)
        if node.is_distinct and name in WITHOUT_DISTINCT and name_of(values[0].type) not in FLOATS:
            raise FeatureNotSupported.of(f"{name}() of distinct exact numbers", node.at)
        if candidate.function.sql == ORDERED:
            of_rows = document is not None
            if node.over is not None:
                self._refuse_maintained(name, node.at)
                window = self._windows.over(node.over, place, keeps_frame=True)
                return self._collecting.collected_over(
                    candidate, values, node, condition, window, of_rows=of_rows
                )
            return self._collecting.collected(
                candidate, values, node, condition, inner, of_rows=of_rows
            )
        return self._written(candidate, values, node, condition, place)

    def _refuse_maintained(self, name: str, at: int) -> None:
        """Rows that the order of a window does not tell apart come in any order."""
        if self._expressions.statement.maintained:
            what = f"{name}() as a window function of a view"
            raise FeatureNotSupported.of(what, at)

    def _counted_over(
        self, entries: tuple[Function, ...], node: tree.Call, condition: Typed, place: Place
    ) -> Typed:
        """`count(*) FILTER (...) OVER (...)`, as a count of what is not null."""
        one = f"(CASE WHEN {condition.sql} THEN 1 END)"
        values = (Typed(one, INT4, node.at, (condition,)),)
        plain = replace(node, is_star=False, filter=None)
        candidate = chosen(plain, entries, values)
        assert candidate is not None, "anything can be counted"
        return self._written(candidate, values, plain, None, place)

    def _counted(self, value: Typed, node: tree.Call) -> Typed:
        if value.role is not Role.ROW:
            if node.is_distinct:
                refuse_rows((value,))
            return value
        parts = [self._expressions.coercion.settled(each) for each in value.parts]
        for part in parts:
            check_groupable(part)
        return counted_row(value, parts, [key_sql(part) for part in parts])

    def _check_place(self, node: tree.Call, place: Place) -> Place:
        """The place of the arguments, if the aggregate may stand where it does."""
        if node.over is None:
            inner = place.within("aggregate")
            try:
                place.check_aggregate(node.at)
            except GroupingFault:
                if place.scope.outer is not None:  # it may be one of the query around
                    self._refuse_outer(self._documents.arguments(node, inner, None), place, node.at)
                raise
            return inner
        place.check_window(node.at)
        if node.is_distinct:
            raise FeatureNotSupported.of("DISTINCT for window functions", node.at)
        if node.order:
            raise FeatureNotSupported.of("aggregate ORDER BY for window functions", node.at)
        return place.within("window")

    def _refuse_outer(self, values: tuple[Typed, ...], place: Place, at: int) -> None:
        """An aggregate over columns of an outer query alone is one of that query."""
        columns = [part.column for value in values for part in value.walk() if part.column]
        if columns and all(column.scope != place.scope.number for column in columns):
            raise FeatureNotSupported.of("an aggregate of an outer query's columns", at)

    def _filter(self, node: tree.Call, place: Place) -> Typed | None:
        if node.filter is None:
            return None
        inner = replace(place.of("FILTER"), inside=None)
        return self._expressions.condition(node.filter, inner, "FILTER")

    def _written(
        self,
        candidate: Candidate,
        values: tuple[Typed, ...],
        node: tree.Call,
        condition: Typed | None,
        place: Place,
    ) -> Typed:
        converted, use = self._expressions.operators.use(candidate, values, node.at)
        if node.is_distinct:
            use = replace(_distinguished(candidate.function, converted, use), is_distinct=True)
        parts = [*converted, *([condition] if condition is not None else [])]
        behind = "" if condition is None else f" FILTER (WHERE {condition.sql})"
        role = Role.AGGREGATE
        if node.over is not None:
            window = self._windows.over(node.over, place, keeps_frame=True)
            parts += window.parts
            behind, role = f" OVER {window.sql}", Role.WINDOW
            use = _only_if(use, condition, node)
        sql = self._expressions.operators.filled(candidate.function, use, node.at)
        sql = sql.replace(D, "DISTINCT " if node.is_distinct else "").replace(F, behind)
        nullable = not candidate.function.never_null
        return Typed(operand(sql), use.result, node.at, tuple(parts), nullable=nullable, role=role)

    def hypothetical(self, node: tree.Call, place: Place) -> Typed:
        """`rank(x) WITHIN GROUP (ORDER BY y)`, which is an aggregate and no window function."""
        if node.over is not None:
            raise FeatureNotSupported.of("OVER for hypothetical-set aggregates", node.at)
        inner = self._check_place(node, place)
        return self._hypothetical_sets.bound(node, self._filter(node, inner), inner)


def _distinguished(function: Function, values: tuple[Typed, ...], use: Use) -> Use:
    """The arguments of an aggregate of distinct values, told apart as PostgreSQL does."""
    pairs = zip(use.arguments, values, strict=True)
    if function.name == "count":
        keys = tuple(replace(each, sql=key_sql(value)) for each, value in pairs)
        return replace(use, arguments=keys)
    for value in values:
        check_groupable(value)
    return use


def _only_if(use: Use, condition: Typed | None, node: tree.Call) -> Use:
    """The arguments as null where the condition does not hold: Spark's windows have no FILTER.

    Aggregates do not see nulls, so that is the same.
    """
    if condition is None:
        return use
    if not use.arguments:
        raise FeatureNotSupported.of("FILTER of count(*) over a window", node.at)
    first, *rest = use.arguments
    kept = f"(CASE WHEN {condition.sql} THEN {first.sql} END)"
    return replace(use, arguments=(replace(first, sql=kept), *rest))
