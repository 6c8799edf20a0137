"""Arithmetic: signs, the four operations, remainder, powers, bits.

What overflows is an error. A floating-point number also must not become zero by being too small, or
infinite, unless an operand is.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from waterclock.model.exact import FLOAT, Exact
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
from waterclock.sql.dialect import divisions, numerics, scaled
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.literals import decimal_literal
from waterclock.sql.dialect.types import MOST_DIGITS, bounded, digits, is_unconstrained, spark_type
from waterclock.sql.functions.exponentials import (
    constant_sql,
    constant_type,
    held_power,
    known_power,
    power_sql,
)
from waterclock.sql.functions.registry import (
    Argument,
    Function,
    Invalid,
    ResultRule,
    SqlRule,
    Use,
    same_type,
    scalar,
)

_INTS = (INT2, INT4, INT8)
_WIDTH = {each.oid: place for place, each in enumerate(_INTS)}
_MOST_POWER = 20
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


_INFINITE = "CAST('Infinity' AS DOUBLE)"
_OVER = raised("22003", "value out of range: overflow")
_UNDER = raised("22003", "value out of range: underflow")
_ZERO = raised("22012", "division by zero")


def _of_floats(operator: str, kind: str) -> str:
    """Spark's arithmetic, with the checks that PostgreSQL makes of its result."""
    value = f"({{0}} {operator} {{1}})"
    cases = ""
    if operator == "/":
        value = "({0} / NULLIF({1}, 0D))"
        cases = f" WHEN {{1}} = 0D AND NOT ISNAN({{0}}) THEN {_ZERO} WHEN {{1}} = 0D THEN {{0}}"
    if kind == "FLOAT":
        value = f"CAST({value} AS FLOAT)"
    finite = f"ABS({{0}}) < {_INFINITE}"
    if operator != "/":
        finite += f" AND ABS({{1}}) < {_INFINITE}"
    cases += f" WHEN ABS({value}) = {_INFINITE} AND {finite} THEN {_OVER}"
    if operator == "*":
        cases += f" WHEN {value} = 0D AND {{0}} <> 0D AND {{1}} <> 0D THEN {_UNDER}"
    if operator == "/":
        not_endless = f"ABS({{1}}) <> {_INFINITE}"
        cases += f" WHEN {value} = 0D AND {{0}} <> 0D AND {not_endless} THEN {_UNDER}"
    return f"(CASE WHEN {{0}} IS NULL OR {{1}} IS NULL THEN NULL{cases} ELSE {value} END)"


def scaled_float(operator: str, factor: str) -> str:
    """A number times or by a constant, with the same checks."""
    return _of_floats(operator, "DOUBLE").replace("{1}", factor)


def _floats(operator: str) -> list[Function]:
    doc = f"The {_NAMES[operator]} of floating-point numbers."
    found = []
    for left in (FLOAT4, FLOAT8):
        for right in (FLOAT4, FLOAT8):
            result = FLOAT4 if left == right == FLOAT4 else FLOAT8
            sql = _of_floats(operator, spark_type(result))
            found.append(scalar(operator, (left, right), result, sql, doc))
    return found


def _of_two(rule: Callable[[PgType, PgType], PgType]) -> ResultRule:
    return lambda arguments: rule(arguments[0].type, arguments[1].type)


def _sum(operator: str) -> SqlRule:
    def written(use: Use) -> str:
        left, right = use.arguments
        return numerics.sum_sql(left.sql, left.type, operator, right.sql, right.type)

    return written


def _remainder(use: Use) -> str:
    left, right = use.arguments
    return numerics.remainder_sql(left.sql, left.type, right.sql, right.type)


def _product(use: Use) -> str:
    left, right = use.arguments
    return numerics.product_sql(left.sql, left.type, right.sql, right.type)


def _known_quotient(arguments: tuple[Argument, ...]) -> Decimal | None:
    """The quotient of constants; division by zero is left to the engine."""
    left, right = (each.value for each in arguments)
    if not isinstance(left, Decimal) or not isinstance(right, Decimal) or not right:
        return None
    found = numerics.known_quotient(left, right)
    if len(found.as_tuple().digits) > MOST_DIGITS or -int(found.as_tuple().exponent) > MOST_DIGITS:
        raise Invalid("22003", f"a quotient has more than {MOST_DIGITS} digits")
    return found


def _quotient_type(arguments: tuple[Argument, ...]) -> PgType:
    found = _known_quotient(arguments)
    if found is None:
        return NUMERIC
    scale = -int(found.as_tuple().exponent)
    return bounded(max(len(found.as_tuple().digits), scale), scale)


def _quotient(use: Use) -> str:
    left, right = use.arguments
    found = _known_quotient(use.arguments)
    if found is not None:
        return f"CAST({decimal_literal(found)} AS {spark_type(use.result)})"
    return divisions.quotient_sql(left.sql, left.type, right.sql, right.type)


def power_type(arguments: tuple[Argument, ...]) -> PgType:
    base, exponent = arguments
    if (number := known_power(arguments)) is not None:
        return constant_type(number)
    if is_unconstrained(base.type) or not _only_multiplies(exponent):
        return NUMERIC
    precision, scale = digits(base.type)
    shown = max(numerics.QUOTIENT_SCALE, scale)
    is_short = (precision - scale) * int(exponent.value) + shown < MOST_DIGITS
    return bounded(MOST_DIGITS, shown) if is_short else NUMERIC


def _only_multiplies(exponent: Argument) -> bool:
    """Whether it is a constant whose powers have digits that are known beforehand."""
    number = exponent.value
    return isinstance(number, Decimal) and number == int(number) and 0 <= number <= _MOST_POWER


def numeric_power(use: Use) -> str:
    base, exponent = use.arguments
    if (number := known_power(use.arguments)) is not None:
        return constant_sql(number, use.result)
    if is_unconstrained(use.result):
        return held_power(base, exponent)
    return f"CAST({Exact.TEXT}({power_sql(base, exponent)}) AS {spark_type(use.result)})"


_FOR_POWERS = "2201F"
_POWER = FLOAT.format("power") + "({0}, {1})"
_BOTH_FINITE = f"ABS({{0}}) < {_INFINITE} AND ABS({{1}}) < {_INFINITE}"
POWER = (
    "(CASE WHEN {0} = 0 AND {1} < 0 THEN "
    + raised(_FOR_POWERS, "zero raised to a negative power is undefined")
    + " WHEN {0} < 0 AND {1} <> RINT({1}) THEN "
    + raised(_FOR_POWERS, "a negative number raised to a non-integer power yields a complex result")
    + " WHEN ABS({1} * LN(ABS({0}))) > 700D THEN"  # only there it may be too large or too small
    + f" CASE WHEN ABS({_POWER}) = {_INFINITE} AND {_BOTH_FINITE} THEN {_OVER}"
    + f" WHEN {_POWER} = 0D AND {{0}} <> 0D AND {_BOTH_FINITE} THEN {_UNDER}"
    + f" ELSE {_POWER} END ELSE {_POWER} END)"
)
CUBE_ROOT = FLOAT.format("cbrt") + "({0})"
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
    scalar("/", _TWO, _quotient_type, _quotient, "The quotient."),
    scalar("%", _TWO, _of_two(numerics.remainder_type), _remainder, "The remainder."),
    scalar("^", _TWO, power_type, numeric_power, "A power."),
)


def of_number(template: str, function: Exact) -> SqlRule:
    """A function of a number alone, as Spark writes it and of one with its own scale."""

    def written(use: Use) -> str:
        [value] = use.arguments
        if is_unconstrained(value.type):
            return scaled.changed(value.sql, function)
        return template.format(value.sql)

    return written


ABSOLUTE = of_number("ABS({0})", Exact.ABSOLUTE)


def _signs() -> list[Function]:
    found = []
    for each in (*_INTS, FLOAT4, FLOAT8):
        found.append(scalar("-", (each,), each, "(- {0})", "The number with the other sign."))
        found.append(scalar("+", (each,), each, "{0}", "The number."))
        found.append(scalar("@", (each,), each, "ABS({0})", "The absolute value."))
    minus = of_number("(- {0})", Exact.NEGATIVE)
    found.append(scalar("-", (NUMERIC,), same_type, minus, "The number with the other sign."))
    found.append(scalar("+", (NUMERIC,), same_type, "{0}", "The number."))
    found.append(scalar("@", (NUMERIC,), same_type, ABSOLUTE, "The absolute value."))
    return found


def _moved_left(kind: PgType) -> str:
    """Bits that do not fit are lost."""
    moved = "SHIFTLEFT({0}, {1})"
    if kind == INT2:
        return f"CAST((({moved} & 65535) ^ 32768) - 32768 AS SMALLINT)"
    return f"CAST({moved} AS {spark_type(kind)})"


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
                *("<<", (each, INT4), each, _moved_left(each)),
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
    scalar("||/", (FLOAT8,), FLOAT8, CUBE_ROOT, "The cube root."),
    scalar("+", (MZ_TIMESTAMP, INT8), MZ_TIMESTAMP, "({0} + {1})", "So many milliseconds later."),
    scalar("-", (MZ_TIMESTAMP, INT8), MZ_TIMESTAMP, "({0} - {1})", "Milliseconds earlier."),
)
