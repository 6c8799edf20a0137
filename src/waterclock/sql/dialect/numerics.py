"""Arithmetic of `numeric` in Spark's decimals.

PostgreSQL keeps every digit: a sum has as many behind the point as the longer operand, a product as
many as both together. Spark's decimals have 38 digits in all, and what has more before the point is
an error. The rules here:

- sum, difference, remainder: the longer of the two scales.
- product: the sum of the scales, as long as 18 digits are left before the point. Beyond that each
  product has a scale of its own, and all its digits.
- quotient of constants: as many digits behind the point as PostgreSQL gives it, which depends on
  how large the operands are.
- quotient of anything else: each has a scale of its own, by the same rule.
- power with a whole exponent: 16 digits behind the point, or the scale of the base.
- operands of which one has scales of its own: so has the result (`dialect.scaled`).
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

from waterclock.model.exact import Exact
from waterclock.model.pg_types import NUMERIC, PgType
from waterclock.sql.dialect import divisions, scaled
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
    return bounded(p + q + 1, s + t) if _is_narrow(p, s, q, t) else NUMERIC


def sum_sql(left: str, left_type: PgType, operator: str, right: str, right_type: PgType) -> str:
    """A sum or difference."""
    result = sum_type(left_type, right_type)
    if is_unconstrained(result):
        function = Exact.SUM if operator == "+" else Exact.DIFFERENCE
        return scaled.combined(function, left, left_type, right, right_type)
    return f"CAST(({left} {operator} {right}) AS {spark_type(result)})"


def remainder_sql(left: str, left_type: PgType, right: str, right_type: PgType) -> str:
    result = remainder_type(left_type, right_type)
    if is_unconstrained(result):
        return divisions.remainder_sql(left, left_type, right, right_type)
    return f"CAST(({left} % {right}) AS {spark_type(result)})"


def product_sql(left: str, left_type: PgType, right: str, right_type: PgType) -> str:
    result = product_type(left_type, right_type)
    if is_unconstrained(result):
        return scaled.combined(Exact.PRODUCT, left, left_type, right, right_type)
    return f"CAST(({left} * {right}) AS {spark_type(result)})"


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


def _is_narrow(p: int, s: int, q: int, t: int) -> bool:
    """Whether the product has room for all its digits, or for enough of them before the point."""
    return p + q + 1 <= MOST_DIGITS or MOST_DIGITS - (s + t) >= _LEAST_WHOLE
