"""`percentile_cont`, `percentile_disc` and `mode`: aggregates of values in an order.

The values that are not null are collected and sorted; the result is one of them, or lies between
two. The fraction is a constant.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.model.pg_types import FLOAT8, INTERVAL, array_of
from waterclock.sql.binding.api import Context
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.errors import Rejected
from waterclock.sql.binding.ordering import check_sortable
from waterclock.sql.binding.overloads import Candidate
from waterclock.sql.binding.predicates import key_sql
from waterclock.sql.binding.typed import Role, Typed, operand
from waterclock.sql.dialect.equality import may_look_different
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.types import is_array, name_of, spark_type
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.expressions import Expressions


class OrderedSets:
    """Binds aggregates with WITHIN GROUP."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions

    def bound(
        self,
        candidate: Candidate,
        values: tuple[Typed, ...],
        node: tree.Call,
        condition: Typed | None,
        inner: Place,
    ) -> Typed:
        """The aggregate over the rows of a group."""
        name = candidate.function.name
        if node.over is not None:
            raise FeatureNotSupported.of("OVER for ordered-set aggregates", node.at)
        assert node.within is not None, "the caller has looked"
        if len(node.within) != 1:
            raise FeatureNotSupported.of(f"{name}() of several columns", node.at)
        [item] = node.within
        value = self._expressions.value(item.expression, inner)
        if name == "percentile_cont" and value.type.oid != INTERVAL.oid:
            value = self._expressions.coercion.coerce(value, FLOAT8, Context.IMPLICIT)
        check_sortable(value)
        if name_of(value.type) == "jsonb":
            raise FeatureNotSupported.of(f"{name}() of values of type jsonb", value.at)
        items = _sorted(value, item, condition)
        parts = (value, *values, *([condition] if condition is not None else []))
        declared = value.type
        if name == "mode":
            sql = self._mode(items, value)
        elif is_array(values[0].type):
            sql = _of_sorted(items, self._places(name, value, node, inner))
            declared = array_of(value.type)
        else:
            sql = _of_sorted(items, self._place(name, value, values[0], node))
        return Typed(operand(sql), declared, node.at, parts, role=Role.AGGREGATE)

    def _places(self, name: str, value: Typed, node: tree.Call, inner: Place) -> str:
        """What is at each of several fractions, as an array."""
        [fractions] = node.arguments
        if not isinstance(fractions, tree.ArrayItems):
            what = f"{name}() of fractions that are not written as ARRAY[...]"
            raise FeatureNotSupported.of(what, node.at)
        found = [self._expressions.bind(each, inner) for each in fractions.items]
        return f"ARRAY({', '.join(self._place(name, value, each, node) for each in found)})"

    def _place(self, name: str, value: Typed, fraction: Typed, node: tree.Call) -> str:
        """What is at a fraction of the sorted array `s.a`, which is not empty."""
        wanted = self._expressions.coercion.coerce(fraction, FLOAT8, Context.IMPLICIT)
        if wanted.known is None:
            raise FeatureNotSupported.of(f"{name}() of a fraction that is not a constant", node.at)
        if wanted.value is None:
            return "(CASE WHEN FALSE THEN ELEMENT_AT(s.a, 1).v END)"
        part = float(wanted.value)
        if not 0 <= part <= 1:
            message = f"percentile value {part:g} is not between 0 and 1"
            raise Rejected("22003", message, node.at)
        if name == "percentile_disc":
            place = f"GREATEST(1, CAST(CEIL({part!r}D * SIZE(s.a)) AS INT))"
            return f"GET(s.a, {place} - 1).v"
        exact = f"({part!r}D * (SIZE(s.a) - 1))"
        low = f"GET(s.a, CAST(FLOOR({exact}) AS INT)).v"
        high = f"GET(s.a, CAST(CEIL({exact}) AS INT)).v"
        rest = f"({exact} - FLOOR({exact}))"
        if value.type.oid == INTERVAL.oid:
            between = let({"l": low, "h": high, "r": rest}, "q", self._interval_between(node.at))
        else:
            between = f"{low} + {rest} * ({high} - {low})"
        return f"CASE WHEN FLOOR({exact}) = CEIL({exact}) THEN {low} ELSE {between} END"

    def _interval_between(self, at: int) -> str:
        """From `q.l` the part `q.r` of the way to `q.h`."""
        low, high = Typed("q.l", INTERVAL, at), Typed("q.h", INTERVAL, at)
        apply = self._expressions.operators.apply
        way = apply("*", (apply("-", (high, low), at), Typed("q.r", FLOAT8, at)), at)
        return apply("+", (low, way), at).sql

    def _mode(self, items: str, value: Typed) -> str:
        """The first of those that come most often."""
        kind = spark_type(value.type)
        start = (
            f"NAMED_STRUCT('b', CAST(NULL AS {kind}), 'm', 0, 'c', CAST(NULL AS {kind}), 'n', 0)"
        )
        last, this = (
            key_sql(replace(value, sql=each)) if may_look_different(value.type) else each
            for each in ("s.c", "e.v")
        )
        count = f"CASE WHEN {last} <=> {this} THEN s.n + 1 ELSE 1 END"
        more = f"({count}) > s.m"
        step = (
            f"NAMED_STRUCT('b', CASE WHEN {more} THEN e.v ELSE s.b END,"
            f" 'm', CASE WHEN {more} THEN {count} ELSE s.m END, 'c', e.v, 'n', {count})"
        )
        return f"AGGREGATE({items}, {start}, (s, e) -> {step}, s -> s.b)"


def _of_sorted(items: str, chosen: str) -> str:
    """What is chosen of an array; null if it is empty."""
    body = f"CASE WHEN SIZE(s.a) > 0 THEN {chosen} END"
    return let({"a": items}, "s", body)


def _sorted(value: Typed, item: tree.SortItem, condition: Typed | None) -> str:
    """Structs of the values that are not null, sorted."""
    struct = f"NAMED_STRUCT('k', {key_sql(value)}, 'v', {value.sql})"
    wanted = f"{value.sql} IS NOT NULL"
    if condition is not None:
        wanted = f"{condition.sql} AND {wanted}"
    less, more = ("1", "-1") if item.descending else ("-1", "1")
    tied = "WHEN x.v < y.v THEN -1 WHEN x.v > y.v THEN 1 " if may_look_different(value.type) else ""
    order = f"CASE WHEN x.k < y.k THEN {less} WHEN x.k > y.k THEN {more} {tied}ELSE 0 END"
    return f"ARRAY_SORT(COLLECT_LIST({struct}) FILTER (WHERE {wanted}), (x, y) -> {order})"
