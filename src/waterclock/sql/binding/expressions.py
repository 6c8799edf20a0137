"""Expressions: from what was written to Spark SQL with a type.

Each kind of node has a handler here or in one of the modules beside: `predicates` for conditions,
`calling` for functions. Subqueries are bound by whoever binds queries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa

from waterclock.model.pg_types import BOOL, INT4, RECORD, TEXT, PgType, array_of
from waterclock.sql.binding import constants
from waterclock.sql.binding.api import Context
from waterclock.sql.binding.calling import Calling
from waterclock.sql.binding.coercion import Coercion
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.errors import (
    DatatypeMismatch,
    IndeterminateType,
    UndefinedObject,
)
from waterclock.sql.binding.object_names import null_row
from waterclock.sql.binding.operators import Operators
from waterclock.sql.binding.ordering import group_key_sql
from waterclock.sql.binding.predicates import Predicates
from waterclock.sql.binding.row_keys import keys_of, sorted_by
from waterclock.sql.binding.row_order import SortedBy
from waterclock.sql.binding.row_values import Rows
from waterclock.sql.binding.statement import Statement
from waterclock.sql.binding.typed import Role, Typed, operand
from waterclock.sql.dialect.equality import extreme, may_look_different
from waterclock.sql.dialect.types import (
    TEXT_ARRAY,
    category,
    element_type,
    is_array,
    name_of,
    shown,
    spark_type,
)
from waterclock.sql.errors import FeatureNotSupported, SyntaxFault
from waterclock.sql.functions.comparisons import SIGNS
from waterclock.sql.query import tree

_PLAIN_OPERATORS = frozenset({*SIGNS, "+", "-", "*", "/", "%"})
_COLLATIONS = (("C",), ("pg_catalog", "C"), ("default",), ("pg_catalog", "default"), ("POSIX",))


class Subqueries(Protocol):
    """Binds queries inside expressions."""

    def scalar(self, query: tree.Query, place: Place, at: int) -> Typed:
        """The one value of a query."""

    def row(self, query: tree.Query, width: int, place: Place, at: int) -> Typed:
        """The one row of a query of so many columns."""

    def exists(self, query: tree.Query, place: Place, at: int) -> Typed:
        """Whether a query has rows."""

    def membership(self, value: Typed, node: tree.In, place: Place) -> Typed:
        """Whether a value, or those of a row, are a row of a query."""

    def quantified(self, left: Typed, node: tree.Quantified, place: Place) -> Typed:
        """A comparison with all or any rows of a query."""

    def array(self, query: tree.Query, place: Place, at: int) -> Typed:
        """The values of a query as an array."""


class Expressions:
    """Binds expressions of one statement."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self.coercion = Coercion(statement)
        self.operators = Operators(statement, self.coercion)
        self.calling = Calling(self)
        self._predicates = Predicates(self)
        self.rows = Rows(self)
        self._handlers: dict[type[Any], Callable[[Any, Place], Typed]] = {
            tree.ColumnRef: self.rows.named,
            tree.Star: self.rows.starred,
            tree.Row: self.rows.made,
            tree.NullRow: lambda node, _: null_row(node.name, statement, node.at),
            tree.Field: self.rows.field,
            tree.AllFields: self.rows.all_fields,
            tree.Parameter: lambda node, _: statement.parameters.typed(node.number, node.at),
            tree.String: lambda node, _: constants.string(node.value, node.at),
            tree.Number: lambda node, _: constants.number(node.text, node.at),
            tree.Boolean: lambda node, _: constants.known(pa.scalar(node.value), BOOL, node.at),
            tree.Null: lambda node, _: constants.nothing(node.at),
            tree.Cast: self._cast,
            tree.Unary: self._unary,
            tree.Binary: self._predicates.binary,
            tree.Logical: self._predicates.logical,
            tree.Not: self._predicates.negation,
            tree.Is: self._predicates.test,
            tree.Distinct: self._predicates.distinct,
            tree.Between: self._predicates.between,
            tree.In: self._predicates.membership,
            tree.Like: self._predicates.like,
            tree.Quantified: self._predicates.quantified,
            tree.Case: self._case,
            tree.Call: self.calling.call,
            tree.Coalescing: self._coalescing,
            tree.ArrayItems: self._array,
            tree.ArrayQuery: lambda n, p: self.subqueries.array(n.query, p, n.at),
            tree.Subscript: self._subscript,
            tree.Slice: self._slice,
            tree.Exists: lambda n, p: self.subqueries.exists(n.query, p, n.at),
            tree.Subquery: lambda n, p: self.subqueries.scalar(n.query, p, n.at),
            tree.Collate: self._collate,
            tree.Grouping: self._grouping,
            tree.Default: self._default,
        }
        self.subqueries: Subqueries

    def bind(self, node: tree.Expression, place: Place) -> Typed:
        """The expression; it may still be without a type."""
        meter = self.statement.meter
        meter.enter()
        try:
            found = self._bound(node, place)
        finally:
            meter.leave()
        meter.check_translation(len(found.sql))
        return found

    def _bound(self, node: tree.Expression, place: Place) -> Typed:
        if place.is_conjunct and not _keeps_conjuncts(node):
            place = replace(place, is_conjunct=False)
        found = self._handlers[type(node)](node, _inside(node, place))
        if found.sql in place.representatives:
            return place.representatives[found.sql].at_position(found.at)
        if not found.parts or found.role is not Role.PLAIN:
            return found
        # A mistake is shown where the whole expression begins.
        return found.at_position(min(found.at, *(part.at for part in found.parts)))

    def value(self, node: tree.Expression, place: Place) -> Typed:
        """The expression as one value with a type."""
        return self.coercion.settled(self.bind(node, place))

    def keys(self, node: tree.Expression, place: Place) -> list[Typed]:
        """What tells values of the expression apart: it, or the fields of a row."""
        return keys_of(self.bind(node, place), self.coercion.settled)

    def sorted_by(self, item: tree.SortItem, place: Place) -> list[SortedBy]:
        """What is sorted by: the expression, or the fields of a row."""
        value = self.bind(item.expression, place)
        return sorted_by(value, item.descending, item.nulls_first, self.coercion.settled)

    def condition(self, node: tree.Expression, place: Place, clause: str) -> Typed:
        return self.coercion.boolean(self.bind(node, place), clause)

    # Simple nodes

    def _default(self, node: tree.Default, place: Place) -> Typed:
        del place
        raise SyntaxFault("DEFAULT is not allowed in this context", node.at)

    def _cast(self, node: tree.Cast, place: Place) -> Typed:
        if isinstance(node.operand, tree.ArrayItems) and is_array(node.type):
            inner = self._array_of(node.operand, place, element_type(node.type))
        else:
            inner = self.bind(node.operand, place)
        at = inner.at if inner.is_unknown else node.at
        found = self.coercion.coerce(inner, node.type, Context.EXPLICIT, at)
        return found.at_position(min(inner.at, node.at))

    def _unary(self, node: tree.Unary, place: Place) -> Typed:
        if node.operator == "-" and isinstance(node.operand, tree.Number):
            return constants.number(node.operand.text, node.at, negated=True)
        inner = self.bind(node.operand, place)
        found = self.operators.apply(node.operator, (inner,), node.at)
        return replace(inner, at=node.at) if found.sql == inner.sql else found

    def _collate(self, node: tree.Collate, place: Place) -> Typed:
        if node.collation not in _COLLATIONS:
            name = ".".join(node.collation)
            if name.lower() in ("c", "posix", "default"):
                what = f'collation "{name}" for encoding "UTF8" does not exist'
                raise UndefinedObject(what, node.at)
            raise FeatureNotSupported.of(f'the collation "{name}"', node.at)
        inner = self.coercion.settled(self.bind(node.operand, place))
        if category(inner.type) != "S":
            raise DatatypeMismatch(
                f"collations are not supported by type {shown(inner.type)}", node.at
            )
        return inner

    def _grouping(self, node: tree.Grouping, place: Place) -> Typed:
        if not place.allows_aggregates:
            place.check_aggregate(node.at)
        if not place.has_sets:
            keys = [self.value(each, place.within("aggregate")) for each in node.arguments]
            return Typed("0", INT4, node.at, tuple(keys), nullable=False, role=Role.GROUPING)
        for key in place.representatives.values():
            if name_of(key.type) not in ("numeric", "interval"):
                what = f"GROUPING beside a key of type {shown(key.type)}"
                raise FeatureNotSupported.of(what, node.at)
        keys = [self.value(each, place.within("aggregate")) for each in node.arguments]
        # Spark's function takes one; PostgreSQL's makes one number of several bits.
        bits = [
            f"CAST(GROUPING({group_key_sql(key)}) AS INT) * {2 ** (len(keys) - 1 - n)}"
            for n, key in enumerate(keys)
        ]
        sql = f"({' + '.join(bits)})"
        return Typed(sql, INT4, node.at, tuple(keys), nullable=False, role=Role.GROUPING)

    # Conditionals

    def _case(self, node: tree.Case, place: Place) -> Typed:
        conditions = [self._when(node, condition, place) for condition, _ in node.branches]
        results = [self.bind(result, place) for _, result in node.branches]
        if node.default is not None:
            results = [self.bind(node.default, place), *results]
        results, declared = self.coercion.unified(results, "CASE")
        default = "NULL"
        if node.default is not None:
            default = results[0].sql
        branches = results[1:] if node.default is not None else results
        whens = " ".join(
            f"WHEN {condition.sql} THEN {result.sql}"
            for condition, result in zip(conditions, branches, strict=True)
        )
        nullable = node.default is None or any(each.nullable for each in results)
        sql = f"(CASE {whens} ELSE {default} END)"
        return Typed(sql, declared, node.at, (*conditions, *results), nullable=nullable)

    def _when(self, node: tree.Case, condition: tree.Expression, place: Place) -> Typed:
        if node.operand is None:
            return self.condition(condition, place, "CASE/WHEN")
        compared = tree.Binary("=", node.operand, condition, condition.at)
        return self.coercion.boolean(self.bind(compared, place), "CASE/WHEN")

    def _coalescing(self, node: tree.Coalescing, place: Place) -> Typed:
        values = [self.bind(each, place) for each in node.arguments]
        if node.name == "nullif":
            return self._nullif(node, values)
        values, declared = self.coercion.unified(values, node.name.upper())
        if node.name != "coalesce":
            self._refuse_order(declared, node)
        arguments = ", ".join(each.sql for each in values)
        sql = f"{node.name.upper()}({arguments})" if len(values) > 1 else values[0].sql
        if node.name != "coalesce" and may_look_different(declared):
            sign = ">" if node.name == "greatest" else "<"
            sql = extreme([each.sql for each in values], declared, sign)
        nullable = all(each.nullable for each in values)
        return Typed(operand(sql), declared, node.at, tuple(values), nullable=nullable)

    def _refuse_order(self, declared: PgType, node: tree.Coalescing) -> None:
        if is_array(declared) or name_of(declared) in (
            *("jsonb", "json", "bpchar", "record", "regclass"),
        ):
            what = f"{node.name.upper()} of values of type {shown(declared)}"
            raise FeatureNotSupported.of(what, node.at)

    def _nullif(self, node: tree.Coalescing, values: list[Typed]) -> Typed:
        if len(values) != 2:
            raise SyntaxFault("NULLIF takes two arguments", node.at)
        left, right = values
        equal = self.operators.apply("=", (left, right), node.at)
        kept = left if not left.is_unknown else equal.parts[0]
        sql = f"(CASE WHEN {equal.sql} THEN NULL ELSE {kept.sql} END)"
        return Typed(sql, kept.type, node.at, (equal, kept))

    # Arrays

    def _array(self, node: tree.ArrayItems, place: Place) -> Typed:
        if not node.items:
            raise IndeterminateType(
                "cannot determine type of empty array",
                node.at,
                hint="Explicitly cast to the desired type, for example ARRAY[]::integer[].",
            )
        items, declared = self.coercion.unified(
            [self.bind(each, place) for each in node.items], "ARRAY"
        )
        return self._made_array(items, declared, node.at)

    def _array_of(self, node: tree.ArrayItems, place: Place, element: PgType) -> Typed:
        """`ARRAY[...]::type[]`: the elements are cast, also if there are none."""
        items = [
            self.coercion.coerce(self.bind(each, place), element, Context.EXPLICIT)
            for each in node.items
        ]
        if items:
            element = self.coercion.common_type(items, "ARRAY")
        return self._made_array([self.coercion.into(i, element) for i in items], element, node.at)

    def _made_array(self, items: list[Typed], element: PgType, at: int) -> Typed:
        if is_array(element):
            raise FeatureNotSupported.of("an array of more than one dimension", at)
        if element.oid == RECORD.oid:
            raise FeatureNotSupported.of("an array of rows", at)
        declared = array_of(element)
        sql = f"ARRAY({', '.join(each.sql for each in items)})"
        if not items:
            sql = f"CAST(ARRAY() AS {spark_type(declared)})"
        return Typed(sql, declared, at, tuple(items), nullable=False)

    def _subscript(self, node: tree.Subscript, place: Place) -> Typed:
        base = self.bind(node.base, place)
        if base.is_unknown or not is_array(base.type):
            if not base.is_unknown and name_of(base.type) == "jsonb":
                return self._member(base, self.bind(node.index, place), node.at)
            raise _no_subscripts(base)
        index = self._place(node.index, place)
        sql = f"(CASE WHEN {index.sql} >= 1 THEN TRY_ELEMENT_AT({base.sql}, {index.sql}) END)"
        return Typed(sql, element_type(base.type), node.at, (base, index))

    def _member(self, base: Typed, step: Typed, at: int) -> Typed:
        """A subscript of `jsonb`, which is a path of one step."""
        kind = name_of(self.coercion.settled(step).type)
        if kind not in ("int2", "int4", "int8", "text", "varchar", "bpchar", "name"):
            raise DatatypeMismatch(f"subscript type {shown(step.type)} is not supported", step.at)
        index = self.coercion.coerce(step, TEXT, Context.EXPLICIT)
        path = Typed(f"ARRAY({index.sql})", TEXT_ARRAY, step.at, (index,))
        return self.operators.apply("#>", (base, path), at)

    def _place(self, node: tree.Expression, place: Place) -> Typed:
        value = self.bind(node, place)
        if not value.is_unknown and name_of(value.type) not in ("int2", "int4", "int8"):
            raise DatatypeMismatch("array subscript must have type integer", value.at)
        return self.coercion.coerce(value, INT4, Context.ASSIGNMENT)

    def _slice(self, node: tree.Slice, place: Place) -> Typed:
        base = self.bind(node.base, place)
        if base.is_unknown or not is_array(base.type):
            raise _no_subscripts(base)
        low = None if node.low is None else self._place(node.low, place)
        high = None if node.high is None else self._place(node.high, place)
        start = "1" if low is None else f"(CASE WHEN {low.sql} < 1 THEN 1 ELSE {low.sql} END)"
        end = f"SIZE({base.sql})" if high is None else high.sql
        count = f"(CASE WHEN {end} - {start} + 1 < 0 THEN 0 ELSE {end} - {start} + 1 END)"
        sql = f"SLICE({base.sql}, {start}, {count})"
        parts = tuple(each for each in (base, low, high) if each is not None)
        return Typed(sql, base.type, node.at, parts)


_LAZY = (tree.Case, tree.Coalescing)
_WITH_LAMBDAS = (
    *(tree.Call, tree.Cast, tree.Quantified, tree.Subscript, tree.Slice, tree.Row, tree.Like),
)


def _inside(node: tree.Expression, place: Place) -> Place:
    """The place of what the node is made of, which may be written in a lambda.

    What may not be computed at all is not computed first.
    """
    if not place.extends:
        return place
    if isinstance(node, _LAZY):
        return replace(place, extends=False)
    is_json = isinstance(node, tree.Binary) and node.operator not in _PLAIN_OPERATORS
    if is_json or isinstance(node, _WITH_LAMBDAS):
        return replace(place, is_argument=True)
    return place


def _keeps_conjuncts(node: tree.Expression) -> bool:
    """Whether conditions inside decide by themselves, if the whole does."""
    match node:
        case tree.Logical(logic):
            return logic is tree.Logic.AND
        case tree.Not(tree.In()) | tree.In() | tree.Quantified():
            return True
        case _:
            return False


def _no_subscripts(base: Typed) -> DatatypeMismatch:
    what = f"cannot subscript type {shown(base.type)} because it does not support"
    return DatatypeMismatch(f"{what} subscripting", base.at)
