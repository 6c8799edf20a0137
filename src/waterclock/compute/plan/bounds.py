"""Comparisons with `mz_now()`, solved for it.

A comparison has the clock on one side, which is `mz_now()` with something done to it, and on the
other a value that does not depend on the time. Whatever was done to the clock is undone on the
value, step by step from the outside in, until the clock is `mz_now()` alone and the value is its
bound:

- a number added to the clock is subtracted from the value, and the other way round;
- the clock as a timestamp is a number of microseconds, so the value becomes one, and is divided;
- the clock as a date is less than a day if the clock as a timestamp is less than its midnight.

All of that is exact. Values are decimals with room for every digit, and as soon as the clock is an
integer the value is rounded to the side that keeps the comparison as it was. In the end it becomes
a bigint; what lies beyond the bigints becomes the last of them, which no time reaches. Null stays
null. What can not be undone exactly has no solution: floating-point numbers, months, products.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from waterclock.compute.catalyst.now import is_now, mentions_now
from waterclock.compute.catalyst.trees import Builder, Expression

_OPERATORS = {
    "LessThan": ("<",),
    "LessThanOrEqual": ("<=",),
    "GreaterThan": (">",),
    "GreaterThanOrEqual": (">=",),
    "EqualTo": ("<=", ">="),
    "EqualNullSafe": ("<=", ">="),  # one of the two sides is never null
}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INTEGERS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
"""The types of integers, and decimal digits that are enough for them."""
_TIMESTAMPS = ("timestamp", "timestamp_ntz")
_EXACT = {*_INTEGERS, "decimal"}
_ZERO, _ONE = Decimal(0), Decimal(1)
_MILLI, _MICRO = Decimal("0.001"), Decimal("0.000001")
_DAY_MICROS = Decimal(86_400_000_000)
_LAST = Decimal(2**63 - 1)
_ROOM = 22
"""Digits before the point that a value keeps: enough for many bigints added up. One beyond them is
taken as the greatest that has so many, which is beyond all bigints all the same."""
_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class Limit:
    """A time, as a bigint of milliseconds, that `mz_now()` must be before, or else after."""

    value: Expression
    is_upper: bool
    inclusive: bool


class Solver:
    """Solves comparisons."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def solved(self, comparison: Expression) -> list[Limit] | None:
        """Limits that hold together exactly when the comparison is true; None if it has none."""
        operators = _OPERATORS.get(comparison.kind, ())
        if not operators:
            return None
        clock, other = comparison.children
        if self._is_clock(other):
            clock, other = other, clock
            operators = tuple(_FLIPPED[operator] for operator in operators)
        value = None if self._is_clock(other) else self._number(other)
        limits = [self._solve(clock, operator, value) for operator in operators]
        known = [limit for limit in limits if limit is not None]
        return known if len(known) == len(limits) else None

    def _is_clock(self, expression: Expression) -> bool:
        return mentions_now(expression)

    def _solve(self, clock: Expression, operator: str, value: Expression | None) -> Limit | None:
        """Undo the outermost thing that was done to the clock, and then the rest."""
        if value is None:
            return None
        if _type(clock) in _INTEGERS:
            value = self._rounded(value, up=operator in ("<", ">="))
        if is_now(clock):
            is_upper = operator in ("<", "<=")
            return Limit(self._bigint(value), is_upper, inclusive=operator in ("<=", ">="))
        if clock.kind == "Cast":
            return self._solve_cast(clock, operator, value)
        return self._solve_call(clock, operator, value)

    def _solve_cast(self, cast: Expression, operator: str, value: Expression) -> Limit | None:
        [clock] = cast.children
        match _type(clock), _type(cast):
            case given, wanted if given in _EXACT and wanted in _EXACT:
                same = self._builder.is_widening(cast)
                return self._solve(clock, operator, value) if same else None
            case given, "timestamp" if given in _INTEGERS:  # as seconds
                return self._solve(clock, operator, self._times(value, _MICRO))
            case given, wanted if given in _TIMESTAMPS and wanted in _TIMESTAMPS:
                return self._solve(clock, operator, value)  # the session's zone is UTC
            case given, "date" if given in _TIMESTAMPS:
                # At most this day is before the next midnight, after it is from then on.
                whole = operator in ("<=", ">")
                days = self._plus(value, self._builder.number(_ONE)) if whole else value
                turned = {"<=": "<", ">": ">="}.get(operator, operator)
                return self._solve(clock, turned, self._times(days, _DAY_MICROS))
            case _:
                return None

    def _solve_call(self, clock: Expression, operator: str, value: Expression) -> Limit | None:
        children = clock.children
        match clock.kind, children:
            case "Add", [amount, inner] if self._is_clock(inner):
                return self._solve(inner, operator, self._minus(value, self._amount(amount)))
            case "Add" | "DateAdd" | "TimestampAddInterval", [inner, amount]:
                return self._solve(inner, operator, self._minus(value, self._amount(amount)))
            case "Subtract", [amount, inner] if self._is_clock(inner):
                return self._solve(
                    inner, _FLIPPED[operator], self._minus(self._amount(amount), value)
                )
            case "Subtract" | "DateSub", [inner, amount]:
                return self._solve(inner, operator, self._plus(value, self._amount(amount)))
            case "UnaryMinus", [inner]:
                negated = self._minus(self._builder.number(_ZERO), value)
                return self._solve(inner, _FLIPPED[operator], negated)
            case "MillisToTimestamp", [inner]:
                return self._solve(inner, operator, self._times(value, _MILLI))
            case "MicrosToTimestamp", [inner]:
                return self._solve(inner, operator, value)
            case "SecondsToTimestamp", [inner] if _type(inner) in _INTEGERS:
                return self._solve(inner, operator, self._times(value, _MICRO))
            case _:
                return None

    def _number(self, value: Expression) -> Expression | None:
        """The value as an exact number in the unit of its type; None if it is of another kind."""
        match _type(value):
            case "timestamp":
                return self._builder.call("UnixMicros", value)
            case "timestamp_ntz":
                return self._builder.call("UnixMicros", self._builder.cast(value, '"timestamp"'))
            case "date":
                return self._builder.call("UnixDate", value)
            case kind:
                return value if kind in _EXACT else None

    def _amount(self, amount: Expression) -> Expression | None:
        """What is added to a clock, as a number in the clock's unit."""
        if self._is_clock(amount):
            return None
        if _type(amount).startswith("interval "):  # of days to seconds, kept in microseconds
            micros = amount.java.eval(None) if amount.java.foldable() else None
            return None if micros is None else self._builder.number(Decimal(micros))
        return amount if _type(amount) in _EXACT else None

    def _plus(self, one: Expression | None, other: Expression | None) -> Expression | None:
        return self._computed("Add", one, other)

    def _minus(self, one: Expression | None, other: Expression | None) -> Expression | None:
        return self._computed("Subtract", one, other)

    def _times(self, value: Expression | None, factor: Decimal) -> Expression | None:
        return self._computed("Multiply", value, self._builder.number(factor))

    def _computed(
        self, kind: str, one: Expression | None, other: Expression | None
    ) -> Expression | None:
        """The exact result; None if it would need more digits than there are."""
        if one is None or other is None:
            return None
        result = self._builder.call(kind, self._roomy(one), self._roomy(other))
        return result if _digits(result)[0] < _MOST_DIGITS else None

    def _roomy(self, value: Expression) -> Expression:
        """The value as a decimal, and not much longer than it needs to be."""
        if _type(value) != "decimal":
            return self._builder.cast(value, f'"decimal({_INTEGERS[_type(value)]},0)"')
        precision, scale = _digits(value)
        if precision - scale <= _ROOM or _ROOM + scale > _MOST_DIGITS:
            return value
        greatest = Decimal(10 ** (_ROOM - 1))
        near = self._within(value, -greatest, greatest)
        return self._builder.cast(near, f'"decimal({_ROOM + scale},{scale})"')

    def _rounded(self, value: Expression, *, up: bool) -> Expression:
        if _type(value) != "decimal" or _digits(value)[1] == 0:
            return value
        return self._builder.rounded(value, up=up)

    def _bigint(self, value: Expression) -> Expression:
        """A whole number as milliseconds; no time is below 0 or at the last bigint."""
        if _type(value) == "long":
            return value
        if _type(value) == "decimal" and _digits(value)[0] >= len(str(_LAST)):
            value = self._within(value, Decimal(-1), _LAST)
        return self._builder.cast(value, '"long"')

    def _within(self, value: Expression, least: Decimal, greatest: Decimal) -> Expression:
        low, high = (
            self._builder.cast(self._builder.number(bound), value.type_json)
            for bound in (least, greatest)
        )
        below = self._builder.call("LessThan", value, low)
        above = self._builder.call("GreaterThan", value, high)
        return self._builder.call("If", below, low, self._builder.call("If", above, high, value))


def _type(expression: Expression) -> str:
    return expression.type_json.strip('"').partition("(")[0]


def _digits(value: Expression) -> tuple[int, int]:
    """Precision and scale of a decimal."""
    precision, scale = re.findall(r"\d+", value.type_json)
    return int(precision), int(scale)
