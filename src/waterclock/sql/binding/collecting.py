"""`array_agg`, `string_agg`, `jsonb_agg`: aggregates whose result depends on an order.

Spark collects in no particular order, so what is collected is sorted afterwards: by the ORDER BY
that was given, else in the order that the rows come in (`row_order`), and then by the value itself,
so that the result is a function of the rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.model.manner import Manner
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.errors import InvalidColumnReference
from waterclock.sql.binding.ordering import check_groupable, check_sortable, grouped_sql, order_sql
from waterclock.sql.binding.overloads import Candidate
from waterclock.sql.binding.predicates import key_sql
from waterclock.sql.binding.representatives import is_scaled
from waterclock.sql.binding.row_order import SortedBy
from waterclock.sql.binding.typed import Role, Typed, operand
from waterclock.sql.binding.windows import BoundWindow
from waterclock.sql.dialect import jsons as js
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.types import is_array, name_of
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.functions.json_texts import json_text_of
from waterclock.sql.functions.jsons import json_of, text_in_json
from waterclock.sql.functions.registry import Refused
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.expressions import Expressions


class Collecting:
    """Binds aggregates that collect values."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions

    def collected(
        self,
        candidate: Candidate,
        values: tuple[Typed, ...],
        node: tree.Call,
        condition: Typed | None,
        inner: Place,
        *,
        of_rows: bool = False,
    ) -> Typed:
        """The aggregate over the rows of a group; `of_rows` if JSON was made of whole rows."""
        name = candidate.function.name
        converted, use = self._expressions.operators.use(candidate, values, node.at)
        value = converted[0]
        terms = self._order(node, inner)
        keys = [term.key for term in terms]
        if node.is_distinct and any(key.sql != value.sql for key in keys):
            raise InvalidColumnReference(
                "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
                node.at,
            )
        if node.is_distinct and not keys and name_of(value.type) in ("jsonb", "interval"):
            # PostgreSQL finds equal values by sorting, and they stay sorted.
            terms, keys = [SortedBy(value)], [value]
        condition_sql = self._condition(name, value, condition)
        gathered = self._gathered(converted, terms, node, condition_sql)
        if node.is_distinct and _has_twins(value):
            gathered = _without_twins(gathered, value)
        items = self._made(name, gathered, converted, node, of_rows=of_rows)
        count = f"COUNT(CASE WHEN {condition_sql} THEN 1 END)" if condition_sql else "COUNT(1)"
        sql = f"(CASE WHEN {count} > 0 THEN {items} END)"
        parts = (*converted, *keys, *([condition] if condition is not None else []))
        return Typed(operand(sql), use.result, node.at, parts, role=Role.AGGREGATE)

    def _order(self, node: tree.Call, inner: Place) -> list[SortedBy]:
        """What is sorted by; without ORDER BY, and if all values count, the order of the rows."""
        if not node.order:
            return [] if node.is_distinct else list(inner.scope.order.terms)
        found = [term for item in node.order for term in self._expressions.sorted_by(item, inner)]
        for term in found:
            check_sortable(term.key)
        return found

    def collected_over(
        self,
        candidate: Candidate,
        values: tuple[Typed, ...],
        node: tree.Call,
        condition: Typed | None,
        window: BoundWindow,
        *,
        of_rows: bool = False,
    ) -> Typed:
        """The aggregate over the rows of a window's frame, in the order of the window."""
        name = candidate.function.name
        converted, use = self._expressions.operators.use(candidate, values, node.at)
        fields = [f"'v', {converted[0].sql}"]
        if name.endswith("_object_agg"):
            fields.append(f"'w', {converted[1].sql}")
        item = f"NAMED_STRUCT({', '.join(fields)})"
        wanted = self._condition(name, converted[0], condition)
        if wanted is not None:
            item = f"CASE WHEN {wanted} THEN {item} END"
        made = self._made(name, "g.a", converted, node, of_rows=of_rows)
        rows = f"COLLECT_LIST({item}) OVER {window.sql}"
        sql = let({"a": rows}, "g", f"(CASE WHEN SIZE(g.a) > 0 THEN {made} END)")
        parts = (*converted, *window.parts, *([condition] if condition is not None else []))
        return Typed(operand(sql), use.result, node.at, parts, role=Role.WINDOW)

    def _made(
        self,
        name: str,
        gathered: str,
        values: tuple[Typed, ...],
        node: tree.Call,
        *,
        of_rows: bool,
    ) -> str:
        """The result, of an array of structs in their order."""
        manner = self._expressions.statement.facts.manner
        items = f"TRANSFORM({gathered}, e -> e.v)"
        try:
            match name:
                case "string_agg":
                    separator = values[1]
                    if separator.known is None:
                        what = "a separator that is not a constant"
                        raise FeatureNotSupported.of(what, separator.at)
                    return f"ARRAY_JOIN({items}, COALESCE({separator.sql}, ''))"
                case "jsonb_agg":
                    each = f"COALESCE({json_of('e', values[0].type, manner)}, 'null')"
                    return js.array_of(f"TRANSFORM({items}, e -> {each})")
                case "json_agg":
                    each = f"COALESCE({json_text_of('e', values[0].type, manner)}, 'null')"
                    # PostgreSQL begins a new line for each array or row, but not for a null.
                    line = "CASE WHEN i > 0 AND e IS NOT NULL THEN '\\n ' ELSE '' END"
                    if of_rows or is_array(values[0].type):
                        each = f"CONCAT({line}, {each})"
                    return js.array_of(f"TRANSFORM({items}, (e, i) -> {each})")
                case "json_object_agg":
                    key = js.string_of(self._member_name(values[0], manner))
                    value = f"COALESCE({json_text_of('e.w', values[1].type, manner)}, 'null')"
                    members = f"TRANSFORM({gathered}, e -> CONCAT({key}, ' : ', {value}))"
                    return f"CONCAT('{{ ', ARRAY_JOIN({members}, ', '), ' }}')"
                case "jsonb_object_agg":
                    key = self._member_name(values[0], manner)
                    value = f"COALESCE({json_of('e.w', values[1].type, manner)}, 'null')"
                    pair = f"NAMED_STRUCT('k', {key}, 'v', {value})"
                    return js.object_of(f"TRANSFORM({gathered}, e -> {pair})")
        except Refused as problem:
            raise FeatureNotSupported.of(problem.what, node.at) from None
        return items

    def _member_name(self, value: Typed, manner: Manner) -> str:
        key = text_in_json("e.v", value.type, manner)
        missing = raised("22023", "field name must not be null")
        return f"COALESCE({key}, {missing})"

    def _condition(self, name: str, value: Typed, condition: Typed | None) -> str | None:
        """Which rows count: `string_agg` leaves nulls out, `array_agg` keeps them."""
        wanted = [] if condition is None else [condition.sql]
        if name == "string_agg":
            wanted.append(f"{value.sql} IS NOT NULL")
        return " AND ".join(wanted) or None

    def _gathered(
        self,
        values: tuple[Typed, ...],
        terms: Sequence[SortedBy],
        node: tree.Call,
        condition: str | None,
    ) -> str:
        fields = [f"'k{n}', {order_sql(term.key)}" for n, term in enumerate(terms)]
        if node.is_distinct:
            for value in values:
                check_groupable(value)
        shown = [
            grouped_sql(each) if node.is_distinct and (n or not _has_twins(each)) else each.sql
            for n, each in enumerate(values)
        ]
        fields.append(f"'v', {shown[0]}")
        if node.name[-1].endswith("_object_agg"):
            fields.append(f"'w', {shown[1]}")
        struct = f"NAMED_STRUCT({', '.join(fields)})"
        distinct = "DISTINCT " if node.is_distinct else ""
        behind = f" FILTER (WHERE {condition})" if condition else ""
        return f"ARRAY_SORT(COLLECT_LIST({distinct}{struct}){behind}, {_comparison(terms)})"


def _has_twins(value: Typed) -> bool:
    """Whether values that are equal, and look different, come side by side when they are sorted."""
    return is_scaled(value.type) or name_of(value.type) in ("jsonb", "interval")


def _without_twins(gathered: str, value: Typed) -> str:
    """Of values that are equal, which are side by side, the first."""
    this, before = (key_sql(replace(value, sql=each)) for each in ("e.v", "GET(g.a, i - 1).v"))
    kept = f"FILTER(g.a, (e, i) -> i = 0 OR NOT ({this} <=> {before}))"
    return let({"a": gathered}, "g", kept)


def _comparison(terms: Sequence[SortedBy]) -> str:
    """A comparison of two structs, by the keys and then by the value."""
    return compared_by([(f"k{n}", t.descending, t.nulls_first) for n, t in enumerate(terms)])


def compared_by(keys: Sequence[tuple[str, bool, bool | None]]) -> str:
    """A comparison of two structs by fields, each up or down, and then by the field `v`."""
    sql = "0"
    for name, descending, nulls_first in reversed([*keys, ("v", False, None)]):
        sql = _compared(f"x.{name}", f"y.{name}", descending, nulls_first, sql)
    return f"(x, y) -> {sql}"


def _compared(
    one: str, other: str, descending: bool, nulls_first: bool | None, otherwise: str
) -> str:
    first = descending if nulls_first is None else nulls_first
    null = "-1" if first else "1"
    not_null = "1" if first else "-1"
    less, more = ("1", "-1") if descending else ("-1", "1")
    return (
        f"CASE WHEN {one} IS NULL AND {other} IS NULL THEN {otherwise}"
        f" WHEN {one} IS NULL THEN {null} WHEN {other} IS NULL THEN {not_null}"
        f" WHEN {one} < {other} THEN {less} WHEN {one} > {other} THEN {more}"
        f" ELSE {otherwise} END"
    )
