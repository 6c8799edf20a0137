"""Conditions: comparisons, AND and OR, IS, BETWEEN, IN, LIKE, ANY and ALL.

A condition that only compares columns of a collection with constants says so in `Typed.test`, from
which queries are made that need no engine.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.model.pg_types import BOOL, RECORD, TEXT, array_of, numeric
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.cutting import kept_inside
from waterclock.sql.binding.errors import DatatypeMismatch, WrongObjectKind
from waterclock.sql.binding.row_comparisons import RowComparisons
from waterclock.sql.binding.simple import array_test, column_test, membership_test, null_test
from waterclock.sql.binding.typed import Role, Typed
from waterclock.sql.dialect import datetimes as dt
from waterclock.sql.dialect.equality import equality_key
from waterclock.sql.dialect.scaled import to_exact
from waterclock.sql.dialect.types import (
    element_type,
    is_array,
    is_unconstrained,
    name_of,
    shown,
)
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.functions.comparisons import SIGNS
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.expressions import Expressions

_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

_NUMERICS = frozenset({"numeric", "_numeric"})
_REGEXES = frozenset({"~", "~*", "!~", "!~*"})


class Predicates:
    """Binds conditions."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._coercion = expressions.coercion
        self._rows = RowComparisons(self)

    def binary(self, node: tree.Binary, place: Place) -> Typed:
        left = self._expressions.bind(node.left, place)
        right = self._right(left, node, place)
        if node.operator == "=":
            left, right = kept_inside(left, right, place.scope)
        return self.compared(node.operator, left, right, node.at)

    def _right(self, left: Typed, node: tree.Binary, place: Place) -> Typed:
        """The operand on the right, which is a row if it is a query behind a row of values."""
        is_made = left.composite is not None and left.composite.is_made
        if is_made and isinstance(node.right, tree.Subquery):
            width = len(left.parts)
            return self._expressions.subqueries.row(node.right.query, width, place, node.at)
        return self._expressions.bind(node.right, place)

    def compared(self, operator: str, left: Typed, right: Typed, at: int) -> Typed:
        """An operator on two operands, which may be rows."""
        if left.role is Role.ROW or right.role is Role.ROW:
            return self._rows.compared(operator, left, right, at)
        if operator in SIGNS:
            with_clock = self._with_clock(operator, left, right, at)
            if with_clock is not None:
                return with_clock
        found = self._expressions.operators.apply(operator, (left, right), at)
        if operator in SIGNS and len(found.parts) == 2:
            return replace(found, test=column_test(operator, *found.parts))
        return found

    def settled(self, value: Typed) -> Typed:
        """The operand as a value of a type."""
        return self._coercion.settled(value)

    # mz_now()

    def _with_clock(self, operator: str, left: Typed, right: Typed, at: int) -> Typed | None:
        """A comparison of the time of a view with a timestamp, in milliseconds and exact."""
        sides = (name_of(left.type), name_of(right.type))
        if "mz_timestamp" not in sides or sides == ("mz_timestamp", "mz_timestamp"):
            return None
        is_left = sides[0] == "mz_timestamp"
        clock, other = (left, right) if is_left else (right, left)
        sign = operator if is_left else _FLIPPED[operator]
        match name_of(other.type):
            case "timestamptz" | "timestamp" | "date":
                value = self._milliseconds(other)
            case "numeric" if is_unconstrained(other.type):
                value = to_exact(other.sql, numeric(37, 18))
            case "numeric" | "uint8" | "int2" | "int4" | "int8":
                value = other.sql
            case _:
                return None
        return Typed(f"({clock.sql} {sign} {value})", BOOL, at, (clock, other))

    def _milliseconds(self, moment: Typed) -> str:
        kind = name_of(moment.type)
        zoned = kind == "timestamptz"
        local = f"CAST({moment.sql} AS TIMESTAMP_NTZ)" if kind == "date" else moment.sql
        micros = dt.micros_of(local, zoned=zoned)
        return f"(CAST({micros} AS DECIMAL(20,0)) * 0.001BD)"

    # Logic

    def logical(self, node: tree.Logical, place: Place) -> Typed:
        word = node.logic.value
        items = tuple(self._expressions.condition(each, place, word) for each in node.items)
        sql = "(" + f" {word} ".join(each.sql for each in items) + ")"
        test = None
        if node.logic is tree.Logic.AND and all(each.test is not None for each in items):
            test = tuple(one for each in items for one in each.test or ())
        nullable = any(each.nullable for each in items)
        return Typed(sql, BOOL, node.at, items, nullable=nullable, test=test)

    def negation(self, node: tree.Not, place: Place) -> Typed:
        if isinstance(node.operand, tree.In) and isinstance(node.operand.items, tree.Query):
            flipped = replace(node.operand, negated=not node.operand.negated)
            return self._expressions.bind(flipped, place)
        inner = self._expressions.condition(node.operand, place, "NOT")
        return Typed(f"(NOT {inner.sql})", BOOL, node.at, (inner,), nullable=inner.nullable)

    def test(self, node: tree.Is, place: Place) -> Typed:
        inner = self._expressions.bind(node.operand, place)
        if inner.role is Role.ROW:
            return self._rows.is_null(inner, node)
        if inner.type.oid == RECORD.oid:
            raise FeatureNotSupported.of("IS of a row that comes out of a query", node.at)
        if node.test is tree.Test.NULL:
            inner = self._coercion.settled(inner)
            words = "IS NOT NULL" if node.negated else "IS NULL"
            found = Typed(f"({inner.sql} {words})", BOOL, node.at, (inner,), nullable=False)
            return replace(found, test=null_test(inner, negated=node.negated))
        words = f"IS {'NOT ' if node.negated else ''}{node.test.value}"
        inner = self._coercion.boolean(inner, words)
        word = node.test.value
        if node.test is tree.Test.UNKNOWN:
            word = "NULL"
        sql = f"({inner.sql} IS {'NOT ' if node.negated else ''}{word})"
        return Typed(sql, BOOL, node.at, (inner,), nullable=False)

    def distinct(self, node: tree.Distinct, place: Place) -> Typed:
        left = self._expressions.bind(node.left, place)
        right = self._expressions.bind(node.right, place)
        left, right = kept_inside(left, right, place.scope)
        if Role.ROW in (left.role, right.role):
            return self._rows.distinct(left, right, node)
        one, other, same = self.same(left, right, node.at)
        sql = f"({same})" if node.negated else f"(NOT ({same}))"
        return Typed(sql, BOOL, node.at, (one, other), nullable=False)

    def same(self, left: Typed, right: Typed, at: int) -> tuple[Typed, Typed, str]:
        """Two operands as they are compared, and whether they are equal, or both null."""
        equal = self._expressions.operators.apply("=", (left, right), at)
        one, other = equal.parts
        if {name_of(one.type), name_of(other.type)} <= _NUMERICS and one.type != other.type:
            # "=" brings numbers with and without a scale of their own together by itself.
            both = self._coercion.common_type(equal.parts, "IS DISTINCT FROM", is_shown=False)
            one, other = (self._coercion.into(each, both) for each in equal.parts)
        return one, other, f"{_comparable(one)} <=> {_comparable(other)}"

    # Ranges and lists

    def between(self, node: tree.Between, place: Place) -> Typed:
        value = self._expressions.bind(node.operand, place)
        low = self._expressions.bind(node.low, place)
        high = self._expressions.bind(node.high, place)
        found = self._within(value, low, high, node)
        if node.symmetric:
            other = self._within(value, high, low, node)
            sql = f"({found.sql} OR {other.sql})"
            found = Typed(sql, BOOL, node.at, (found, other))
        if node.negated:
            return Typed(f"(NOT {found.sql})", BOOL, node.at, (found,))
        return found

    def _within(self, value: Typed, low: Typed, high: Typed, node: tree.Between) -> Typed:
        above = self.compared(">=", value, low, node.at)
        below = self.compared("<=", value, high, node.at)
        test = None
        if above.test is not None and below.test is not None:
            test = (*above.test, *below.test)
        return Typed(f"({above.sql} AND {below.sql})", BOOL, node.at, (above, below), test=test)

    def membership(self, node: tree.In, place: Place) -> Typed:
        value = self._expressions.bind(node.operand, place)
        if isinstance(node.items, tree.Query):
            return self._expressions.subqueries.membership(value, node, place)
        items = [self._expressions.bind(each, place) for each in node.items]
        if value.role is Role.ROW or any(each.role is Role.ROW for each in items):
            return self._any_equal(value, items, node)
        return self._among(value, items, node)

    def _among(self, value: Typed, items: list[Typed], node: tree.In) -> Typed:
        try:
            declared = self._coercion.common_type([value, *items], "IN", is_shown=False)
        except DatatypeMismatch:
            return self._any_equal(value, items, node)
        equal = self._expressions.operators.apply(
            "=", (Typed("x", declared, node.at), Typed("y", declared, node.at)), node.at
        )
        del equal  # raised, if values of the type can not be compared
        converted = [self._coercion.into(each, declared) for each in (value, *items)]
        one, *others = converted
        listed = ", ".join(_comparable(each) for each in others)
        negation = "NOT " if node.negated else ""
        sql = f"({_comparable(one)} {negation}IN ({listed}))"
        test = None if node.negated else membership_test(value, one, others)
        nullable = any(each.nullable for each in converted)
        return Typed(sql, BOOL, node.at, tuple(converted), nullable=nullable, test=test)

    def _any_equal(self, value: Typed, items: list[Typed], node: tree.In) -> Typed:
        """One comparison for each item, where they have no type in common."""
        found = [self.compared("=", value, each, node.at) for each in items]
        sql = "(" + " OR ".join(each.sql for each in found) + ")"
        if node.negated:
            sql = f"(NOT {sql})"
        return Typed(sql, BOOL, node.at, tuple(found))

    # Patterns

    def like(self, node: tree.Like, place: Place) -> Typed:
        operands = [self._expressions.bind(each, place) for each in (node.operand, node.pattern)]
        if node.escape is not None:
            operands.append(self._expressions.bind(node.escape, place))
        name = "!" + node.kind.value if node.negated else node.kind.value
        if node.escape is None:
            return self._expressions.operators.apply(name, tuple(operands), node.at)
        texts = [
            each
            if name_of(each.type) == "bpchar" and each is operands[0]
            else self._coercion.into(each, TEXT)
            for each in operands
        ]
        return self._expressions.operators.apply(name, tuple(texts), node.at)

    # ANY and ALL

    def quantified(self, node: tree.Quantified, place: Place) -> Typed:
        if node.operator in _REGEXES and isinstance(node.right, tree.ArrayItems):
            return self._matched(node, node.right, place)
        left = self._expressions.bind(node.left, place)
        if isinstance(node.right, tree.Query):
            return self._expressions.subqueries.quantified(left, node, place)
        right = self._array_operand(left, self._expressions.bind(node.right, place), node)
        element = Typed("x", element_type(right.type), node.at)
        compared = self.compared(node.operator, left, element, node.at)
        if compared.type.oid != BOOL.oid:
            raise DatatypeMismatch("op ANY/ALL (array) requires operator to yield boolean", node.at)
        function = "FORALL" if node.is_all else "EXISTS"
        sql = f"{function}({right.sql}, x -> {compared.sql})"
        own = tuple(each for each in compared.parts if each.sql != "x")
        test = None
        if node.operator == "=" and not node.is_all and own:
            test = array_test(left, own[0], right)
        return Typed(sql, BOOL, node.at, (*own, right), test=test)

    def _matched(self, node: tree.Quantified, patterns: tree.ArrayItems, place: Place) -> Typed:
        """Each of some regular expressions by itself: they have to be constants."""
        tests = [tree.Binary(node.operator, node.left, each, node.at) for each in patterns.items]
        if len(tests) == 1:
            return self._expressions.bind(tests[0], place)
        logic = tree.Logic.AND if node.is_all else tree.Logic.OR
        return self._expressions.bind(tree.Logical(logic, tuple(tests), node.at), place)

    def _array_operand(self, left: Typed, right: Typed, node: tree.Quantified) -> Typed:
        if right.is_unknown:
            wanted = self._coercion.settled(left).type if left.is_unknown else left.type
            return self._coercion.into(right, array_of(wanted))
        if not is_array(right.type):
            raise WrongObjectKind("op ANY/ALL (array) requires array on right side", node.at)
        return right


def _comparable(value: Typed) -> str:
    """The SQL by which values of the type are told apart."""
    return key_sql(value)


def key_sql(value: Typed) -> str:
    """What Spark is to compare: the same for values that are equal."""
    if name_of(value.type) == "json":
        raise DatatypeMismatch(
            f"could not identify an equality operator for type {shown(value.type)}", value.at
        )
    return equality_key(value.sql, value.type)
