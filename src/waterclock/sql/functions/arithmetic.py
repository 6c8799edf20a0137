"""Arithmetic: signs, the four operations, remainder, powers, bits.

Integers and numerics that overflow are errors. Not exactly as in PostgreSQL: a floating-point
number that overflows is infinite, and no error.
"""

from __future__ import annotations

from collections.abc import Callable

from waterclock.model.pg_types import (
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    MZ_TIMESTAMP,
    NUMERIC,
    PgType,
)
from waterclock.sql.dialect import numerics
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.types import spark_type
from waterclock.sql.functions.registry import (
    Function,
    Refused,
    ResultRule,
    SqlRule,
    Use,
    same_type,
    scalar,
)

_INTS = (INT2, INT4, INT8)
_WIDTH = {each.oid: place for place, each in enumerate(_INTS)}
_NAMES = {"+": "sum", "-": "difference", "*": "product", "/": "quotient"}


def _wider(left: PgType, right: PgType) -> PgType:
    return left if _WIDTH[left.oid] >= _WIDTH[right.oid] else right


def _integers(operator: str) -> list[Function]:
    doc = f"The {_NAMES[operator]} of integers."
    if operator == "/":
        doc = "The quotient of integers, cut to a whole number."
    found = []
    for left in _INTS:
        for right in _INTS:
            result = _wider(left, right)
            sql = f"({{0}} {operator} {{1}})"
            if operator == "/":
                sql = f"CAST(({{0}} DIV {{1}}) AS {spark_type(result)})"
            found.append(scalar(operator, (left, right), result, sql, doc))
    return found


def _floats(operator: str) -> list[Function]:
    doc = f"The {_NAMES[operator]} of floating-point numbers."
    found = []
    for left in (FLOAT4, FLOAT8):
        for right in (FLOAT4, FLOAT8):
            result = FLOAT4 if left == right == FLOAT4 else FLOAT8
            sql = f"({{0}} {operator} {{1}})"
            if result == FLOAT4 and operator == "/":
                sql = f"CAST({sql} AS FLOAT)"
            found.append(scalar(operator, (left, right), result, sql, doc))
    return found


def _of_two(rule: Callable[[PgType, PgType], PgType]) -> ResultRule:
    return lambda arguments: rule(arguments[0].type, arguments[1].type)


def _sum(operator: str) -> SqlRule:
    def written(use: Use) -> str:
        left, right = use.arguments
        return numerics.sum_sql(left.sql, operator, right.sql, use.result)

    return written


def _product(use: Use) -> str:
    left, right = use.arguments
    return numerics.product_sql(left.sql, left.type, right.sql, right.type)


def _quotient(use: Use) -> str:
    left, right = use.arguments
    return numerics.quotient_sql(left.sql, left.type, right.sql, right.type)


def numeric_power(use: Use) -> str:
    del use
    raise Refused(
        "a power of numeric numbers", "Cast one of them to double precision, or multiply."
    )


_FOR_POWERS = "2201F"
POWER = (
    "(CASE WHEN {0} = 0 AND {1} < 0 THEN "
    + raised(_FOR_POWERS, "zero raised to a negative power is undefined")
    + " WHEN {0} < 0 AND {1} <> RINT({1}) THEN "
    + raised(_FOR_POWERS, "a negative number raised to a non-integer power yields a complex result")
    + " ELSE POWER({0}, {1}) END)"
)
SQUARE_ROOT = (
    "(CASE WHEN {0} < 0 THEN "
    + raised(_FOR_POWERS, "cannot take square root of a negative number")
    + " ELSE SQRT({0}) END)"
)

_TWO = (NUMERIC, NUMERIC)
_NUMERICS = (
    scalar("+", _TWO, _of_two(numerics.sum_type), _sum("+"), "The sum."),
    scalar("-", _TWO, _of_two(numerics.sum_type), _sum("-"), "The difference."),
    scalar("*", _TWO, _of_two(numerics.product_type), _product, "The product."),
    scalar("/", _TWO, _of_two(numerics.quotient_type), _quotient, "The quotient."),
    scalar("%", _TWO, _of_two(numerics.remainder_type), _sum("%"), "The remainder."),
    scalar("^", _TWO, NUMERIC, numeric_power, "Not supported: a power of numerics."),
)


def _signs() -> list[Function]:
    found = []
    for each in (*_INTS, FLOAT4, FLOAT8):
        found.append(scalar("-", (each,), each, "(- {0})", "The number with the other sign."))
        found.append(scalar("+", (each,), each, "{0}", "The number."))
        found.append(scalar("@", (each,), each, "ABS({0})", "The absolute value."))
    found.append(scalar("-", (NUMERIC,), same_type, "(- {0})", "The number with the other sign."))
    found.append(scalar("+", (NUMERIC,), same_type, "{0}", "The number."))
    found.append(scalar("@", (NUMERIC,), same_type, "ABS({0})", "The absolute value."))
    return found


def _bits() -> list[Function]:
    found = []
    for each in _INTS:
        kind = spark_type(each)
        pair = (each, each)
        found += [
            scalar("%", pair, each, "({0} % {1})", "The remainder, with the sign of the first."),
            scalar("&", pair, each, "({0} & {1})", "Bits that both have."),
            scalar("|", pair, each, "({0} | {1})", "Bits that one of them has."),
            scalar("#", pair, each, "({0} ^ {1})", "Bits that only one of them has."),
            scalar("~", (each,), each, "(~ {0})", "The other bits."),
            scalar(
                *("<<", (each, INT4), each, f"CAST(SHIFTLEFT({{0}}, {{1}}) AS {kind})"),
                "Bits moved to the left.",
            ),
            scalar(
                *(">>", (each, INT4), each, f"CAST(SHIFTRIGHT({{0}}, {{1}}) AS {kind})"),
                "Bits moved to the right.",
            ),
        ]
    return found


OPERATORS: tuple[Function, ...] = (
    *(entry for operator in _NAMES for entry in _integers(operator)),
    *(entry for operator in _NAMES for entry in _floats(operator)),
    *_NUMERICS,
    *_signs(),
    *_bits(),
    scalar("^", (FLOAT8, FLOAT8), FLOAT8, POWER, "A power."),
    scalar("|/", (FLOAT8,), FLOAT8, SQUARE_ROOT, "The square root."),
    scalar("||/", (FLOAT8,), FLOAT8, "CBRT({0})", "The cube root."),
    scalar("+", (MZ_TIMESTAMP, INT8), MZ_TIMESTAMP, "({0} + {1})", "So many milliseconds later."),
    scalar("-", (MZ_TIMESTAMP, INT8), MZ_TIMESTAMP, "({0} - {1})", "Milliseconds earlier."),
)
