"""Arithmetic of `numeric` in Spark's decimals.

PostgreSQL keeps every digit: a sum has as many behind the point as the longer operand, a product as
many as both together. Spark's decimals have 38 digits in all, and what has more before the point is
an error. The rules here:

- sum, difference, remainder: the longer of the two scales.
- product: the sum of the scales, as long as 18 digits are left before the point. Beyond that, and
  for operands of unknown scale, the product is rounded to 18 digits behind the point (or to the
  longer of the two scales); all digits of the operands count.
- quotient of constants: as many digits behind the point as PostgreSQL gives it, which depends on
  how large the operands are.
- quotient of anything else: 16 digits behind the point, or the longer of the two scales. PostgreSQL
  shows 16 for quotients from 1 to 9999, and 4 more or fewer for each further group of four digits;
  a column of decimals has the same scale in all rows, so that this can not be kept.
- power with a whole exponent: 16 digits behind the point, or the scale of the base.
- operands of which one has an unknown scale: 18 digits behind the point, and an unknown scale.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

from waterclock.model.pg_types import NUMERIC, UNCONSTRAINED_SCALE, PgType, numeric
from waterclock.sql.dialect.types import (
    MOST_DIGITS,
    bounded,
    digits,
    is_unconstrained,
    spark_type,
)

QUOTIENT_SCALE = 16
_LEAST_WHOLE = 18
_GROUP = 4
"""How many decimal digits PostgreSQL holds in one of its own."""
_EXACT = Context(prec=10 * MOST_DIGITS, rounding=ROUND_HALF_UP)


def sum_type(left: PgType, right: PgType) -> PgType:
    """The type of a sum or difference."""
    if is_unconstrained(left) or is_unconstrained(right):
        return NUMERIC
    (p, s), (q, t) = digits(left), digits(right)
    scale = max(s, t)
    return bounded(max(p - s, q - t) + scale + 1, scale)


def remainder_type(left: PgType, right: PgType) -> PgType:
    if is_unconstrained(left) or is_unconstrained(right):
        return NUMERIC
    (p, s), (q, t) = digits(left), digits(right)
    scale = max(s, t)
    return bounded(max(p - s, q - t) + scale, scale)


def product_type(left: PgType, right: PgType) -> PgType:
    if is_unconstrained(left) or is_unconstrained(right):
        return NUMERIC
    (p, s), (q, t) = digits(left), digits(right)
    if _is_narrow(p, s, q, t):
        return bounded(p + q + 1, s + t)
    return numeric(MOST_DIGITS, _wide_scale(s, t))


def quotient_type(left: PgType, right: PgType) -> PgType:
    if is_unconstrained(left) or is_unconstrained(right):
        return NUMERIC
    scale = max(QUOTIENT_SCALE, digits(left)[1], digits(right)[1])
    return numeric(MOST_DIGITS, min(scale, UNCONSTRAINED_SCALE))


def sum_sql(left: str, operator: str, right: str, result: PgType) -> str:
    """A sum, difference or remainder, whose type Spark finds out by the same rule."""
    return f"CAST(({left} {operator} {right}) AS {spark_type(result)})"


def product_sql(left: str, left_type: PgType, right: str, right_type: PgType) -> str:
    (p, s), (q, t) = digits(left_type), digits(right_type)
    result = spark_type(product_type(left_type, right_type))
    if _is_narrow(p, s, q, t) or MOST_DIGITS - (s + t) >= _LEAST_WHOLE:
        return f"CAST(({left} * {right}) AS {result})"
    pieces = " + ".join(
        f"CAST({one} * {other} AS {result})"
        for one in (_whole("v.a", p, s), _fraction("v.a", s))
        for other in (_whole("v.b", q, t), _fraction("v.b", t))
    )
    operands = f"ARRAY(NAMED_STRUCT('a', {left}, 'b', {right}))"
    return f"ELEMENT_AT(TRANSFORM({operands}, v -> {pieces}), 1)"


def quotient_sql(left: str, left_type: PgType, right: str, right_type: PgType) -> str:
    result = spark_type(quotient_type(left_type, right_type))
    above = f"CAST({left} AS DECIMAL({MOST_DIGITS},{digits(left_type)[1]}))"
    below = f"CAST({right} AS DECIMAL({MOST_DIGITS},{digits(right_type)[1]}))"
    return f"CAST(({above} / {below}) AS {result})"


def known_quotient(left: Decimal, right: Decimal) -> Decimal:
    """The quotient of two constants, of which the second is not zero, with PostgreSQL's digits."""
    (weight, first), (other_weight, other_first) = _leading(left), _leading(right)
    estimate = weight - other_weight - (0 if first > other_first else 1)
    scale = max(QUOTIENT_SCALE - estimate * _GROUP, _scale(left), _scale(right), 0)
    return _EXACT.quantize(_EXACT.divide(left, right), Decimal(1).scaleb(-scale))


def _leading(number: Decimal) -> tuple[int, int]:
    """The place of the first group of four digits, counted from the point, and the group."""
    if not number:
        return 0, 0
    weight = number.adjusted() // _GROUP
    return weight, int(abs(number).scaleb(-_GROUP * weight, _EXACT))


def _scale(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "a numeric is finite"
    return max(0, -exponent)


def square_root_sql(value: str, result: PgType) -> str:
    """The square root: that of the nearest double, made exact by two steps of Newton's method."""
    kind = spark_type(result)
    above = f"CAST(v.n AS DECIMAL({MOST_DIGITS},{digits(result)[1]}))"
    step = f"CAST((v.x + CAST({above} / v.x AS {kind})) / 2BD AS {kind})"
    start = f"NAMED_STRUCT('n', {value}, 'x', CAST(SQRT(CAST({value} AS DOUBLE)) AS {kind}))"
    again = f"NAMED_STRUCT('n', v.n, 'x', {step})"
    root = f"ELEMENT_AT(TRANSFORM(TRANSFORM(ARRAY({start}), v -> {again}), v -> {step}), 1)"
    return f"(CASE WHEN {value} = 0 THEN CAST(0 AS {kind}) ELSE {root} END)"


def _is_narrow(p: int, s: int, q: int, t: int) -> bool:
    """Whether the product has room for all its digits, or for enough of them before the point."""
    return p + q + 1 <= MOST_DIGITS or MOST_DIGITS - (s + t) >= _LEAST_WHOLE


def _wide_scale(s: int, t: int) -> int:
    return min(s + t, max(UNCONSTRAINED_SCALE, s, t))


def _whole(value: str, precision: int, scale: int) -> str:
    return f"CAST({value} - {value} % 1BD AS DECIMAL({max(1, precision - scale)},0))"


def _fraction(value: str, scale: int) -> str:
    return f"CAST({value} % 1BD AS DECIMAL({scale + 1},{scale}))"
