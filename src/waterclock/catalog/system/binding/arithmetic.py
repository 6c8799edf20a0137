"""Arithmetic and concatenation, with PostgreSQL's result types."""

from __future__ import annotations

from sqlglot import exp

from waterclock.catalog.system.binding.agreement import may_compute
from waterclock.catalog.system.binding.operators import no_operator
from waterclock.catalog.system.binding.ports import Binder, Handlers
from waterclock.catalog.system.binding.scope import Scope
from waterclock.catalog.system.binding.typed import Statement, Typed, typed
from waterclock.catalog.system.errors import FeatureNotSupported, UndefinedFunction
from waterclock.catalog.system.types import (
    DATE,
    FLOAT4,
    FLOAT8,
    INT4,
    INT8,
    INTEGERS,
    INTERVAL,
    OID,
    REG_TYPES,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
)
from waterclock.model.pg_types import PgType

_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
_BITS: dict[type[exp.Expr], str] = {
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "#",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
}


class Arithmetic:
    def __init__(self, statement: Statement, binder: Binder) -> None:
        self._statement = statement
        self._types = statement.types
        self._binder = binder

    def handlers(self) -> Handlers:
        return {
            exp.DPipe: self._concatenation,
            exp.Neg: self._negation,
            exp.Pow: self._power,
            exp.BitwiseNot: self._bitwise_not,
            **dict.fromkeys(_ARITHMETIC, self._arithmetic),
            **dict.fromkeys(_BITS, self._bitwise),
        }

    def _concatenation(self, node: exp.DPipe, scope: Scope) -> Typed:
        left, right = self._binder.bind(node.this, scope), self._binder.bind(node.expression, scope)
        arrays = [self._types.element_of(side.oid) for side in (left, right)]
        if any(element is not None for element in arrays):
            return self._joined_arrays(left, right, arrays, node)
        written = []
        for side in (left, right):
            side = self._binder.coercion.settle(side)
            written.append(self._binder.coercion.explicit(side, PgType(TEXT), node).sql)
        return typed(f"({written[0]} || {written[1]})", TEXT)

    def _joined_arrays(
        self, left: Typed, right: Typed, elements: list[int | None], node: exp.Expr
    ) -> Typed:
        array = left if elements[0] is not None else right
        if left.is_unknown:
            left = self._binder.coercion.implicit(left, array.type, node.this)
        if right.is_unknown:
            right = self._binder.coercion.implicit(right, array.type, node.args["expression"])
        sides = [
            side.sql if self._types.element_of(side.oid) is not None else f"[{side.sql}]"
            for side in (left, right)
        ]
        return Typed(f"list_concat({sides[0]}, {sides[1]})", array.type)

    def _arithmetic(self, node: exp.Binary, scope: Scope) -> Typed:
        left, right = self._binder.bind(node.this, scope), self._binder.bind(node.expression, scope)
        operator = _ARITHMETIC[type(node)]
        left, right = self._matched_numbers(operator, left, right, node)
        self._check(operator, left.oid, right.oid, node)
        if {left.oid, right.oid} & {TIMESTAMPTZ, TIMESTAMP, DATE, INTERVAL}:
            return self._moments(operator, left, right)
        oid = self._result_of(left.oid, right.oid)
        if oid is None:
            raise no_operator(self._statement, operator, left.oid, right.oid, node)
        if operator == "/" and oid in INTEGERS:
            divisor = f"wc_divisor({right.sql})"
            return typed(f"CAST(({left.sql} // {divisor}) AS {self._types.held_as(oid)})", oid)
        text = f"({left.sql} {operator} {right.sql})"
        if oid in (FLOAT4, FLOAT8):
            text = _checked(text, operator, left.sql, right.sql)
        return typed(f"CAST({text} AS {self._types.held_as(oid)})", oid)

    def _power(self, node: exp.Pow, scope: Scope) -> Typed:
        left, right = self._binder.bind(node.this, scope), self._binder.bind(node.expression, scope)
        left, right = self._matched_numbers("^", left, right, node)
        self._check("^", left.oid, right.oid, node)
        if self._result_of(left.oid, right.oid) is None:
            raise no_operator(self._statement, "^", left.oid, right.oid, node)
        sides = ", ".join(f"CAST({side.sql} AS DOUBLE)" for side in (left, right))
        return typed(f"wc_power({sides})", FLOAT8)

    def _check(self, operator: str, left: int, right: int, node: exp.Expr) -> None:
        """Raise where it is not known that DuckDB computes what PostgreSQL does."""
        if may_compute(operator, left, right):
            return
        shown = f"{self._types.shown(left)} {operator} {self._types.shown(right)}"
        message = f"the operator {shown} over the system catalogs is not supported"
        raise self._statement.fail(FeatureNotSupported, message, node)

    def _matched_numbers(
        self, operator: str, left: Typed, right: Typed, node: exp.Binary
    ) -> tuple[Typed, Typed]:
        if left.is_unknown and right.is_unknown:
            raise no_operator(self._statement, operator, UNKNOWN, UNKNOWN, node)
        if left.is_unknown:
            left = self._binder.coercion.implicit(left, PgType(right.oid), node.this)
        if right.is_unknown:
            target = INTERVAL if left.oid in (TIMESTAMP, TIMESTAMPTZ) else left.oid
            right = self._binder.coercion.implicit(right, PgType(target), node.expression)
        return left, right

    def _moments(self, operator: str, left: Typed, right: Typed) -> Typed:
        text = f"({left.sql} {operator} {right.sql})"
        if left.oid == right.oid and operator == "-":
            return typed(text, INT4 if left.oid == DATE else INTERVAL)
        return typed(text, left.oid if left.oid != INTERVAL else right.oid)

    def _result_of(self, left: int, right: int) -> int | None:
        """The type of a sum: OIDs count as bigint."""
        wide = [INT8 if oid == OID or oid in REG_TYPES else oid for oid in (left, right)]
        if not all(self._types.category(oid) == "N" for oid in wide):
            return None
        if FLOAT8 in wide:
            return FLOAT8
        return self._types.common(wide)

    def _bitwise(self, node: exp.Binary, scope: Scope) -> Typed:
        left, right = self._binder.bind(node.this, scope), self._binder.bind(node.expression, scope)
        operator = _BITS[type(node)]
        left, right = self._matched_numbers(operator, left, right, node)
        if left.oid not in INTEGERS or right.oid not in INTEGERS:
            raise no_operator(self._statement, operator, left.oid, right.oid, node)
        if operator in ("<<", ">>"):
            bits = 64 if left.oid == INT8 else 32
            moved = f"wc_shifted({left.sql}, '{operator}', {right.sql}, {bits})"
            return typed(f"CAST({moved} AS {self._types.held_as(left.oid)})", left.oid)
        oid = max((left.oid, right.oid), key=INTEGERS.index)
        text = (
            f"xor({left.sql}, {right.sql})"
            if operator == "#"
            else f"({left.sql} {operator} {right.sql})"
        )
        return typed(f"CAST({text} AS {self._types.held_as(oid)})", oid)

    def _bitwise_not(self, node: exp.BitwiseNot, scope: Scope) -> Typed:
        value = self._binder.bind(node.this, scope)
        return typed(f"(~{value.sql})", value.oid)

    def _negation(self, node: exp.Neg, scope: Scope) -> Typed:
        value = self._binder.bind(node.this, scope)
        if value.is_unknown or self._types.category(value.oid) not in ("N", "T"):
            message = f"operator does not exist: - {self._types.shown(value.oid)}"
            raise self._statement.fail(UndefinedFunction, message, node)
        return typed(f"(-{value.sql})", value.oid)


def _checked(result: str, operator: str, left: str, right: str) -> str:
    """A result of floats, unless it is infinite and they are not; nothing is divided by zero."""
    zero = f"WHEN {right} = 0 THEN error('division by zero') " if operator in ("/", "%") else ""
    endless = f"isinf({result}) AND isfinite({left}) AND isfinite({right})"
    return f"CASE {zero}WHEN {endless} THEN error('value out of range') ELSE {result} END"
