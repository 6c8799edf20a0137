"""Intervals as text, in the four styles of PostgreSQL.

Months are split into years and months, microseconds into hours, minutes and seconds, all towards
zero: the parts of one field have its sign.
"""

from __future__ import annotations

from typing import assert_never

from waterclock.model.manner import IntervalStyle
from waterclock.pgwire.values.calendar import format_time

_SECOND, _MINUTE, _HOUR = 1_000_000, 60_000_000, 3_600_000_000


def format_interval(
    months: int, days: int, micros: int, style: IntervalStyle = IntervalStyle.POSTGRES
) -> str:
    """An interval in the style."""
    match style:
        case IntervalStyle.POSTGRES:
            return _postgres(months, days, micros)
        case IntervalStyle.POSTGRES_VERBOSE:
            return _verbose(months, days, micros)
        case IntervalStyle.SQL_STANDARD:
            return _standard(months, days, micros)
        case IntervalStyle.ISO_8601:
            return _iso(months, days, micros)
        case _:
            assert_never(style)


def _postgres(months: int, days: int, micros: int) -> str:
    years, rest = _parts(months, 12)
    parts: list[str] = []
    negative = False
    for amount, unit in ((years, "year"), (rest, "mon"), (days, "day")):
        if amount:
            sign = "+" if negative and amount > 0 else ""
            parts.append(f"{sign}{amount} {_plural(amount, unit)}")
            negative = amount < 0
    if micros or not parts:
        sign = "-" if micros < 0 else "+" if negative else ""
        parts.append(sign + format_time(abs(micros)))
    return " ".join(parts)


def _verbose(months: int, days: int, micros: int) -> str:
    """The first field decides whether it is `ago`; the others are told from there."""
    is_ago = next((field < 0 for field in (months, days, micros) if field), False)
    if is_ago:
        months, days, micros = -months, -days, -micros
    (years, rest), (hours, minutes, seconds) = _parts(months, 12), _parts(micros, _HOUR, _MINUTE)
    words = ["@"]
    for amount, unit in (
        *((years, "year"), (rest, "mon"), (days, "day")),
        *((hours, "hour"), (minutes, "min")),
    ):
        if amount:
            words.append(f"{amount} {_plural(amount, unit)}")
    if seconds:
        words.append(f"{_seconds(seconds)} {'sec' if abs(seconds) == _SECOND else 'secs'}")
    if len(words) == 1:
        words.append("0")
    return " ".join([*words, "ago"] if is_ago else words)


def _standard(months: int, days: int, micros: int) -> str:
    """The standard has one sign, and either months or days: anything else has all of it."""
    fields = (months, days, micros)
    if not any(fields):
        return "0"
    years, rest = _parts(abs(months), 12)
    is_mixed = (min(fields) < 0 < max(fields)) or bool(months and (days or micros))
    if is_mixed:
        first, second, third = ("-" if field < 0 else "+" for field in fields)
        return f"{first}{years}-{rest} {second}{abs(days)} {third}{_clock(abs(micros))}"
    sign = "-" if min(fields) < 0 else ""
    if months:
        return f"{sign}{years}-{rest}"
    return sign + (f"{abs(days)} " if days else "") + _clock(abs(micros))


def _iso(months: int, days: int, micros: int) -> str:
    (years, rest), (hours, minutes, seconds) = _parts(months, 12), _parts(micros, _HOUR, _MINUTE)
    date = _designated((years, "Y"), (rest, "M"), (days, "D"))
    time = _designated((hours, "H"), (minutes, "M"))
    if seconds or not (date or time):
        time += f"{_seconds(seconds)}S"
    return f"P{date}T{time}" if time else f"P{date}"


def _designated(*fields: tuple[int, str]) -> str:
    return "".join(f"{amount}{letter}" for amount, letter in fields if amount)


def _clock(micros: int) -> str:
    """Hours without a leading zero."""
    hours, minutes, seconds = _parts(micros, _HOUR, _MINUTE)
    return f"{hours}:{minutes:02}:{'0' if seconds < 10 * _SECOND else ''}{_seconds(seconds)}"


def _seconds(micros: int) -> str:
    whole, fraction = divmod(abs(micros), _SECOND)
    text = f"{whole}.{fraction:06}".rstrip("0") if fraction else str(whole)
    return f"-{text}" if micros < 0 else text


def _plural(amount: int, unit: str) -> str:
    return unit if amount == 1 else f"{unit}s"


def _parts(amount: int, *units: int) -> tuple[int, ...]:
    """How many of each unit, and what is left, all with the sign of the amount."""
    sign, left = (-1, -amount) if amount < 0 else (1, amount)
    parts = []
    for unit in units:
        count, left = divmod(left, unit)
        parts.append(sign * count)
    return (*parts, sign * left)
