"""Logarithms, exponentials and powers of `numeric`, with as many digits as PostgreSQL gives them.

Those of constants are computed while binding (`dialect.exponentials`), so that their digits are
known. Anything else is computed with numbers of Java's (`model.exact`), and each result has a scale
of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from waterclock.model.exact import Exact
from waterclock.model.pg_types import NUMERIC, PgType
from waterclock.sql.dialect import exponentials
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.literals import decimal_literal
from waterclock.sql.dialect.scaled import held, into, number_of
from waterclock.sql.dialect.types import MOST_DIGITS, bounded, spark_type
from waterclock.sql.functions.registry import (
    Argument,
    Function,
    Invalid,
    ResultRule,
    SqlRule,
    Use,
    scalar,
)

Arguments = tuple[Argument, ...]

_FOR_LOGARITHMS = "2201E"
_FOR_POWERS = "2201F"
_MOST_EXPONENT = 10_000
_LONG = 300
_TEN = f"{Exact.OF_DECIMAL}(CAST(10 AS DECIMAL(2,0)))"


def _too_long() -> Invalid:
    return Invalid("22003", f"a number has more than {MOST_DIGITS} digits")


def constant_type(number: Decimal) -> PgType:
    """The type with just the digits of a constant."""
    scale = -int(number.as_tuple().exponent)
    return bounded(max(len(number.as_tuple().digits), scale), scale)


def constant_sql(number: Decimal, declared: PgType) -> str:
    return f"CAST({decimal_literal(number)} AS {spark_type(declared)})"


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


def power_sql(base: Argument, exponent: Argument) -> str:
    """A power that is not of constants, as a number of Java's."""
    return _power(number_of(base.sql, base.type), number_of(exponent.sql, exponent.type))


def _power(base: str, exponent: str) -> str:
    defined = f"{Exact.DEFINED}({base}, {exponent})"
    return f"{Exact.POWER}({Exact.REAL}({defined}, {exponent}), {exponent})"


def held_power(base: Argument, exponent: Argument) -> str:
    """The same as a value with a scale of its own; a long exponent is computed once."""
    if len(exponent.sql) <= _LONG:
        return held(power_sql(base, exponent))
    names = {"b": into(base.sql, base.type), "e": into(exponent.sql, exponent.type)}
    return let(names, "p", held(_power(*(number_of(f"p.{name}", NUMERIC) for name in names))))


def _computed(arguments: Arguments, compute: Callable[..., Decimal]) -> Decimal | None:
    """The result if all arguments are constants that are not null."""
    numbers = [each.value for each in arguments]
    if not all(isinstance(number, Decimal) for number in numbers):
        return None
    return _short(compute(*numbers))


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


def _positive(number: str) -> str:
    return f"{Exact.NOT_NEGATIVE}({Exact.NOT_ZERO}({number}))"


def _ln_sql(number: str) -> str:
    return f"{Exact.LN}({_positive(number)})"


def _log_sql(base: str, number: str) -> str:
    return f"{Exact.LOG}({_positive(base)}, {_positive(number)})"


def _log10_sql(number: str) -> str:
    return f"{Exact.LOG}({_TEN}, {_positive(number)})"


def _exp_sql(number: str) -> str:
    return f"{Exact.EXP}({number})"


def _entry(
    name: str, count: int, compute: Callable[..., Decimal], write: Callable[..., str], doc: str
) -> Function:
    def result(arguments: Arguments) -> PgType:
        number = _computed(arguments, compute)
        return NUMERIC if number is None else constant_type(number)

    def sql(use: Use) -> str:
        number = _computed(use.arguments, compute)
        if number is not None:
            return constant_sql(number, use.result)
        value = held(write(*(number_of(each.sql, each.type) for each in use.arguments)))
        if count == 1:
            return value
        # A null beside a number without a logarithm is no error.
        known = " AND ".join(f"{each.sql} IS NOT NULL" for each in use.arguments)
        return f"(CASE WHEN {known} THEN {value} END)"

    rule: ResultRule = result
    written: SqlRule = sql
    return scalar(name, (NUMERIC,) * count, rule, written, doc)


LOGARITHMS: tuple[Function, ...] = (
    _entry("ln", 1, _ln, _ln_sql, "The natural logarithm."),
    _entry("exp", 1, _exp, _exp_sql, "The exponential."),
    _entry("log", 2, _log, _log_sql, "The logarithm to the base that comes first."),
    _entry("log", 1, _log10, _log10_sql, "The logarithm to base 10."),
    _entry("log10", 1, _log10, _log10_sql, "The logarithm to base 10."),
)
