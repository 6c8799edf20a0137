"""Intervals from text: PostgreSQL's months, days and microseconds.

Input takes all that PostgreSQL does in its own style, the verbose one (`@ 1 day ago`), ISO 8601
with designators (`P1DT2H`) and without (`P0001-02-03T04:05`), and the SQL standard's
`1-2 3 04:05:06`, whatever the style in which intervals are shown. Only if that is the standard's, a
sign before the first field is that of all fields, unless another one has a sign too. Units without
a number, which PostgreSQL reads over, are errors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from waterclock.model.manner import IntervalStyle
from waterclock.pgwire.values.calendar import (
    DAY_MICROS,
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
)
from waterclock.pgwire.values.errors import DatetimeOverflow, IntervalOverflow, InvalidDatetime

_SECOND, _MINUTE, _HOUR = 1_000_000, 60_000_000, 3_600_000_000
_MONTH_DAYS = 30
_TOKEN = re.compile(
    r"[\s,]*(?:(?P<clock>(?:[+-]\s*)?\d+:\d+(?::\d+(?:\.\d*)?|\.\d*)?)"
    r"|(?P<standard>(?:[+-]\s*)?\d+-\d+)(?![\d.])"
    r"|(?P<number>(?:[+-]\s*)?(?:\d+(?:\.\d*)?|\.\d+)(?![eE]\d))"
    r"|(?P<word>[a-zA-Zµ]+(?=[\s,]|$)|@))"
)
_ISO_PART = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))([YMWDHS])")

_ISO_ALTERNATIVES = (
    re.compile(
        r"P(?=.*[-:])(?:(-?\d+)-(-?\d+)(?:-(-?\d+))?)?"
        r"(?:T(?:(-?\d+)(?::(-?\d+)(?::(-?\d+(?:\.\d*)?))?)?)?)?"
    ),
    re.compile(r"P(?:(\d{4})(\d\d)(\d\d))?(?:T(\d\d)(\d\d)?(\d\d)?)?"),
)
_ALTERNATIVE_UNITS = ("year", "month", "day", "hour", "minute", "second")

# The number of months, days or microseconds in one, as (which of the three, how many).
_UNITS = {
    name: unit
    for names, unit in {
        "microsecond microseconds microsecon us usec usecs usecond useconds": ("micros", 1),
        "millisecond milliseconds millisecon ms msec msecs msecond mseconds": ("micros", 1_000),
        "second seconds s sec secs": ("micros", _SECOND),
        "minute minutes m min mins": ("micros", _MINUTE),
        "hour hours h hr hrs": ("micros", _HOUR),
        "day days d": ("days", 1),
        "week weeks w": ("days", 7),
        "month months mon mons": ("months", 1),
        "year years y yr yrs": ("months", 12),
        "decade decades dec decs": ("months", 120),
        "century centuries c cent": ("months", 1_200),
        "millennium millennia mil mils": ("months", 12_000),
    }.items()
    for name in names.split()
}
_ISO_DATE = {"Y": "year", "M": "month", "W": "week", "D": "day"}
_ISO_TIME = {"H": "hour", "M": "minute", "S": "second"}


@dataclass(slots=True)
class _Sum:
    """Fields added up; a fraction of a month spills into days, one of a day into microseconds."""

    months: int = 0
    days: int = 0
    micros: int = 0

    def add(self, amount: Fraction, unit: tuple[str, int]) -> None:
        which, size = unit
        match which:
            case "micros":
                self.micros += _nearest(amount * size)
            case "days":
                self._add_days(amount * size)
            case "months" if size == 1:
                whole = _whole(amount)
                self.months += whole
                self._add_days((amount - whole) * _MONTH_DAYS)
            case _:
                # A fraction of a year is rounded to months.
                self.months += _round(amount * size)

    def _add_days(self, amount: Fraction) -> None:
        whole = _whole(amount)
        self.days += whole
        self.micros += _nearest((amount - whole) * DAY_MICROS)

    def negate(self) -> None:
        self.months, self.days, self.micros = -self.months, -self.days, -self.micros


def parse_interval(
    text: str,
    style: IntervalStyle = IntervalStyle.POSTGRES,
    fields: tuple[str, str] | None = None,
) -> tuple[int, int, int]:
    """Months, days and microseconds; `InvalidDatetime` or `IntervalOverflow`.

    If only some fields are kept, from the first to the last one, a number without a unit is of the
    last, and what is less than that is cut off.
    """
    stripped = text.strip()
    if stripped[:1] in "Pp":
        total = _iso_fields(stripped, text)
    else:
        tokens = list(_tokens(stripped, text))
        if style is IntervalStyle.SQL_STANDARD:
            tokens = _with_first_sign(tokens)
        total = _fields(tokens, text, fields)
    months, days, micros = total.months, total.days, total.micros
    if not INT32_MIN <= months <= INT32_MAX:
        raise DatetimeOverflow("interval out of range")
    if not INT32_MIN <= days <= INT32_MAX or not INT64_MIN <= micros <= INT64_MAX:
        raise IntervalOverflow(f'interval field value out of range: "{text}"')
    return (months, days, micros) if fields is None else _cut(months, days, micros, fields[1])


def _cut(months: int, days: int, micros: int, last: str) -> tuple[int, int, int]:
    """Without what is less than the last field."""
    match last:
        case "year":
            return months - int(math.fmod(months, 12)), 0, 0
        case "month":
            return months, 0, 0
        case "day":
            return months, days, 0
        case "hour" | "minute":
            unit = 3_600_000_000 if last == "hour" else 60_000_000
            rest = abs(micros) % unit
            return months, days, micros - (-rest if micros < 0 else rest)
        case _:
            return months, days, micros


def _with_first_sign(tokens: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Every number negative, if the first is and no other has a sign."""
    first, *others = [token for kind, token in tokens if kind != "word"] or [""]
    if not first.startswith("-") or any(token[0] in "+-" for token in others):
        return tokens
    return [
        (kind, token if kind == "word" or token == first else f"-{token}") for kind, token in tokens
    ]


def _fields(tokens: list[tuple[str, str]], text: str, kept: tuple[str, str] | None = None) -> _Sum:
    total, pending = _Sum(), None
    days_before: Fraction | None = None  # a number in front of another one, which is of hours
    seen: set[object] = set()
    ago = False
    for kind, token in tokens:
        if ago:
            raise _invalid(text)
        if kind == "word":
            word = token.lower()
            if word == "ago" and seen and pending is None:
                ago = True
            elif pending is not None and word in _UNITS:
                if days_before is not None:
                    _take_days(days_before, _UNITS[word], total, seen, text)
                    days_before = None
                _once(_UNITS[word], seen, text)
                total.add(pending, _UNITS[word])
                pending = None
            elif word != "@":
                raise _invalid(text)
            continue
        if pending is not None and (kind != "clock" or days_before is not None):
            if kind != "number" or days_before is not None:
                raise _invalid(text)
            days_before = pending
        if kind == "number":
            pending = Fraction("".join(token.split()))
            continue
        if pending is not None:
            # A number before a clock is days, as in the SQL standard.
            _once(_UNITS["day"], seen, text)
            total.add(pending, _UNITS["day"])
            pending = None
        if kind == "clock":
            for unit in ("hour", "minute", "second"):
                _once(_UNITS[unit], seen, text)
            total.micros += _clock(token, text, in_minutes=kept == ("minute", "second"))
        else:
            _once(_UNITS["month"], seen, text)
            total.months += _standard_months(token, text)
    if pending is not None:
        of_last = _UNITS["second" if kept is None else kept[1]]
        if days_before is not None:
            _take_days(days_before, of_last, total, seen, text)
        _once(of_last, seen, text)
        total.add(pending, of_last)
    if not seen:
        raise _invalid(text)
    if ago:
        total.negate()
    return total


def _take_days(
    days: Fraction, following: tuple[str, int], total: _Sum, seen: set[object], text: str
) -> None:
    """Add a number without a unit, which is of days in front of hours."""
    if following != _UNITS["hour"]:
        raise _invalid(text)
    _once(_UNITS["day"], seen, text)
    total.add(days, _UNITS["day"])


def _once(unit: tuple[str, int], seen: set[object], text: str) -> None:
    if unit in seen:
        raise _invalid(text)
    seen.add(unit)


def _tokens(stripped: str, text: str) -> Iterator[tuple[str, str]]:
    place = 0
    while place < len(stripped):
        match = _TOKEN.match(stripped, place)
        if match is None or match.lastgroup is None:
            raise _invalid(text)
        yield match.lastgroup, match[match.lastgroup]
        place = match.end()


def _clock(token: str, text: str, *, in_minutes: bool = False) -> int:
    sign = -1 if token[0] == "-" else 1
    parts = token.lstrip("+- ").split(":")
    if len(parts) == 2 and (in_minutes or "." in parts[1]):
        parts = ["0", *parts]  # 04:05.6 is minutes and seconds
    hours, minutes = int(parts[0]), int(parts[1])
    seconds = Fraction(parts[2]) if len(parts) > 2 else Fraction(0)
    if minutes > 59 or seconds > 60:
        raise IntervalOverflow(f'interval field value out of range: "{text}"')
    return sign * (hours * _HOUR + minutes * _MINUTE + _round(seconds * _SECOND))


def _standard_months(token: str, text: str) -> int:
    sign = -1 if token[0] == "-" else 1
    years, months = (int(part) for part in token.lstrip("+- ").split("-"))
    if months > 11:
        raise IntervalOverflow(f'interval field value out of range: "{text}"')
    return sign * (years * 12 + months)


def _iso_fields(stripped: str, text: str) -> _Sum:
    date, separator, time = stripped[1:].partition("T")
    if not (date or separator):
        raise _invalid(text)
    total = _Sum()
    for form in _ISO_ALTERNATIVES:
        alternative = form.fullmatch(stripped)
        if alternative is not None:
            for amount, unit in zip(alternative.groups(), _ALTERNATIVE_UNITS, strict=True):
                total.add(Fraction(amount or 0), _UNITS[unit])
            return total
    for part, units in ((date, _ISO_DATE), (time, _ISO_TIME)):
        if _ISO_PART.sub("", part):
            raise _invalid(text)
        for amount, letter in _ISO_PART.findall(part):
            if letter not in units:
                raise _invalid(text)
            total.add(Fraction(amount), _UNITS[units[letter]])
    return total


def _invalid(text: str) -> InvalidDatetime:
    return InvalidDatetime(f'invalid input syntax for type interval: "{text}"')


def _whole(amount: Fraction) -> int:
    return int(amount)  # towards zero


def _round(amount: Fraction) -> int:
    return round(amount)  # half to even, as rint() does


def _nearest(amount: Fraction) -> int:
    """The nearest whole number; halves go towards zero."""
    magnitude = -((1 - 2 * abs(amount)) // 2)
    return magnitude if amount > 0 else -magnitude
