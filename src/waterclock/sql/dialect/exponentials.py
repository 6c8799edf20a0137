"""Logarithms and powers of `numeric` constants, with as many digits as PostgreSQL gives them.

PostgreSQL aims at 16 significant digits. From a rough idea of how large the result is, made with
floating-point numbers, it decides how many digits behind the point those are, never fewer than the
operands have; here that is done in the same steps, so that it comes out the same at the borders
too. The digits themselves are those of the exact result, rounded.

Whether an operand is in the domain is for the caller to ask.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal

_SIGNIFICANT = 16
_ROUGH = 8
_GROUP = 4
_MOST_SCALE = 1000
_BESIDES = 8
"""Digits that PostgreSQL has of an exponential before it rounds: it is rounded in two steps."""
_EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
_LN_10 = 2.302585092994046
_LOG10_E = 0.434294481903252
_NEAR_ONE = (Decimal("0.9"), Decimal("1.1"))

ZERO = Decimal(0).scaleb(-_SIGNIFICANT)
"""What zero is to a power that is not whole."""


def natural_logarithm(number: Decimal) -> Decimal:
    """Of a positive number."""
    return _rounded(_EXACT.ln(number), _magnitude_of_ln(number), number)


def logarithm(base: Decimal, number: Decimal) -> Decimal:
    """Of a positive number, to a positive base that is not 1."""
    magnitude = _magnitude_of_ln(number) - _magnitude_of_ln(base)
    return _rounded(_EXACT.divide(_ln(number), _ln(base)), magnitude, base, number)


def exponential(number: Decimal) -> Decimal:
    """Of a number that is not so large that nobody could write the result."""
    magnitude = int(float(number) * _LOG10_E)
    scale = max(_SIGNIFICANT - magnitude, 0, _scale(number)) + _BESIDES
    return _rounded(_quantized(_EXACT.exp(number), scale), magnitude, number)


def power(base: Decimal, exponent: Decimal) -> Decimal:
    """A power; of a base that is neither 0 nor negative, unless the exponent is whole."""
    if not exponent:
        return _rounded(Decimal(1), 0, base)
    if exponent == exponent.to_integral_value():
        return _rounded(_EXACT.power(base, int(exponent)), 0, base)
    places = max(0, _ROUGH - _magnitude_of_ln(base))
    rough = _quantized(_ln(base), places)
    product = float(_quantized(_EXACT.multiply(rough, exponent), places))
    return _rounded(_EXACT.power(base, exponent), int(product * _LOG10_E), base, exponent)


def magnitude_of_power(base: Decimal, exponent: Decimal) -> float:
    """About how many digits a power has before the point."""
    return math.log10(abs(base)) * float(exponent) if base else 0.0


def _rounded(exact: Decimal, magnitude: int, *operands: Decimal) -> Decimal:
    """Rounded to 16 digits, of which so many are before the point."""
    scale = max(_SIGNIFICANT - magnitude, 0, *(_scale(each) for each in operands))
    return _quantized(exact, min(scale, _MOST_SCALE))


def _magnitude_of_ln(number: Decimal) -> int:
    """About how many digits the natural logarithm has before the point; below 0 for zeros."""
    if _NEAR_ONE[0] <= number <= _NEAR_ONE[1]:
        beside = _EXACT.subtract(number, Decimal(1))  # the logarithm is about that
        if not beside:
            return 0
        weight, first = _groups(beside, 1)
        return weight * _GROUP + int(math.log10(first))
    weight, first = _groups(number, 2)
    places = weight * _GROUP - (_GROUP if _has_more(number) else 0)
    if not _has_more(number):
        first //= 10**_GROUP
    return int(math.log10(abs(math.log(first) + places * _LN_10)))


def _groups(number: Decimal, count: int) -> tuple[int, int]:
    """The place of the first group of four digits from the point, and so many groups as one."""
    weight = number.adjusted() // _GROUP
    return weight, int(number.copy_abs().scaleb(_GROUP * (count - 1 - weight), _EXACT))


def _has_more(number: Decimal) -> bool:
    """Whether there is a group of digits that are not all zeros behind the first."""
    weight = number.adjusted() // _GROUP
    moved = number.scaleb(-_GROUP * weight, _EXACT)
    return moved != moved.to_integral_value()


def _ln(number: Decimal) -> Decimal:
    return _EXACT.ln(number)


def _quantized(number: Decimal, scale: int) -> Decimal:
    wide = Context(prec=max(_EXACT.prec, number.adjusted() + scale + 2), rounding=ROUND_HALF_UP)
    found = wide.quantize(number, Decimal(1).scaleb(-scale))
    return found if found else found.copy_abs()  # there is one zero


def _scale(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "a numeric is finite"
    return max(0, -exponent)
