"""Logarithms, exponentials and powers of `numeric`, of constants only.

Catalyst computes them with floating-point numbers, which have not the digits that PostgreSQL shows.
A constant is computed while binding (`dialect.exponentials`); anything else is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from waterclock.model.pg_types import NUMERIC, PgType
from waterclock.sql.dialect import exponentials
from waterclock.sql.dialect.literals import decimal_literal
from waterclock.sql.dialect.types import MOST_DIGITS, bounded, spark_type
from waterclock.sql.functions.registry import (
    Argument,
    Function,
    Invalid,
    Refused,
    ResultRule,
    SqlRule,
    Use,
    scalar,
)

Arguments = tuple[Argument, ...]
Computed = Callable[[Arguments], Decimal | None]

_FOR_LOGARITHMS = "2201E"
_FOR_POWERS = "2201F"
_MOST_EXPONENT = 10_000


def _too_long() -> Invalid:
    return Invalid("22003", f"a number has more than {MOST_DIGITS} digits")


def known_type(compute: Computed) -> ResultRule:
    """The type with just the digits of a constant result."""

    def found(arguments: Arguments) -> PgType:
        number = compute(arguments)
        assert number is not None, "only constants are computed"
        scale = -int(number.as_tuple().exponent)
        return bounded(max(len(number.as_tuple().digits), scale), scale)

    return found


def known_sql(compute: Computed) -> SqlRule:
    """A constant result."""

    def written(use: Use) -> str:
        number = compute(use.arguments)
        assert number is not None, "only constants are computed"
        return f"CAST({decimal_literal(number)} AS {spark_type(use.result)})"

    return written


def known_power(arguments: Arguments) -> Decimal | None:
    """A power of constants; None if one of them is none, or is null."""
    base, exponent = (each.value for each in arguments)
    if not isinstance(base, Decimal) or not isinstance(exponent, Decimal):
        return None
    if not base and exponent < 0:
        raise Invalid(_FOR_POWERS, "zero raised to a negative power is undefined")
    is_whole = exponent == exponent.to_integral_value()
    if base < 0 and not is_whole:
        what = "a negative number raised to a non-integer power yields a complex result"
        raise Invalid(_FOR_POWERS, what)
    if not base and not is_whole:
        return exponentials.ZERO
    if abs(exponent) > _MOST_EXPONENT or (
        exponentials.magnitude_of_power(base, exponent) > MOST_DIGITS
    ):
        raise _too_long()
    return _short(exponentials.power(base, exponent))


def _computed(name: str, compute: Callable[..., Decimal]) -> Computed:
    def found(arguments: Arguments) -> Decimal:
        numbers = [each.value for each in arguments]
        if not all(isinstance(number, Decimal) for number in numbers):
            raise Refused(
                f"{name}() of a numeric that is not a constant",
                "Cast the number to double precision.",
            )
        return _short(compute(*numbers))

    return found


def _short(number: Decimal) -> Decimal:
    scale = -int(number.as_tuple().exponent)
    if max(len(number.as_tuple().digits), scale) > MOST_DIGITS:
        raise _too_long()
    return number


def _ln(number: Decimal) -> Decimal:
    _check_positive(number)
    return exponentials.natural_logarithm(number)


def _log(base: Decimal, number: Decimal) -> Decimal:
    _check_positive(base)
    _check_positive(number)
    if base == 1:
        raise Invalid("22012", "division by zero")
    return exponentials.logarithm(base, number)


def _log10(number: Decimal) -> Decimal:
    return _log(Decimal(10), number)


def _exp(number: Decimal) -> Decimal:
    if abs(number) > _MOST_EXPONENT:
        raise _too_long()
    return exponentials.exponential(number)


def _check_positive(number: Decimal) -> None:
    if number <= 0:
        what = "a negative number" if number else "zero"
        raise Invalid(_FOR_LOGARITHMS, f"cannot take logarithm of {what}")


def _entry(name: str, count: int, compute: Callable[..., Decimal], doc: str) -> Function:
    computed = _computed(name, compute)
    return scalar(name, (NUMERIC,) * count, known_type(computed), known_sql(computed), doc)


LOGARITHMS: tuple[Function, ...] = (
    _entry("ln", 1, _ln, "The natural logarithm of a constant."),
    _entry("exp", 1, _exp, "The exponential of a constant."),
    _entry("log", 2, _log, "The logarithm of a constant to the base that comes first."),
    _entry("log", 1, _log10, "The logarithm of a constant to base 10."),
    _entry("log10", 1, _log10, "The logarithm of a constant to base 10."),
)
