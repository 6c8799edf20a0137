"""Dates and times from text, in the forms that PostgreSQL takes with DateStyle `ISO, MDY`.

That is ISO 8601 with its short forms, `month/day/year`, names of months, days of the year and of
the Julian count, AM and PM, BC, and zones as offsets, names or abbreviations. What depends on the
moment of asking (`now`, `today`) is not a value and is refused.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from datetime import timezone
from fractions import Fraction

from waterclock.pgwire.values.calendar import (
    DAY_MICROS,
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    days_of,
    month_days,
)
from waterclock.pgwire.values.errors import (
    DatetimeOverflow,
    InvalidDatetime,
    InvalidDisplacement,
    InvalidZone,
    UnsupportedValue,
)
from waterclock.pgwire.values.zones import Zone, zone_named
from waterclock.sql.dialect.zone_abbreviations import ABBREVIATIONS

_FIRST_DAY = -2_440_588  # 4714-11-24 BC
_JULIAN_OF_1970 = 2_440_588
_LAST_DAY = days_of(5_874_897, 12, 31)
_FIRST_MICROS, _AFTER_MICROS = _FIRST_DAY * DAY_MICROS, INT64_MAX
_FULL_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
_MONTHS = tuple(name[:3] for name in _FULL_MONTHS)
_BEFORE_CHRIST = re.compile(r"(?<![a-z])bc(?![a-z])", re.IGNORECASE)
_WEEKDAYS = re.compile(r"(mon|tue|tues|wed|wednes|thu|thur|thurs|fri|sat|satur|sun)(day)?")
_HINT = 'Perhaps you need a different "datestyle" setting.'

_TOKEN = re.compile(
    r"[\s,]*(?:[Tt](?=\d))?(?:"
    r"(?P<time>\d{1,2}:\d{1,2}(?::\d{1,2}(?:\.\d*)?)?(?![\d:]))"
    r"|(?P<iso>\d+-\d{1,2}-\d{1,2}(?!\d)|\d{1,2}-\d{1,2}-\d{3,6}(?!\d))"
    r"|(?P<slash>\d{1,2}/\d{1,2}/\d+)"
    r"|(?P<named>\d+-[A-Za-z]{3,9}-\d+|[A-Za-z]{3,9}-\d+-\d+)"
    r"|(?P<julian>[Jj]\d+(?![\dA-Za-z]))"
    r"|(?P<ordinal>\d{4}[.-]\d{3}(?![\d-]))"
    r"|(?P<compact>\d{8}(?![\d.]))"
    r"|(?P<digits>\d{6}(?:\.\d*)?(?!\d))"
    r"|(?P<offset>[+-]\d{1,2}(?::\d{2}(?::\d{2})?|\d{2}(?:\d{2})?)?(?!\d))"
    r"|(?P<number>\d+)"
    r"|(?P<word>[A-Za-z][A-Za-z_/+\-0-9]*)"
    r")"
)


@dataclass(slots=True)
class _Fields:
    """What has been read so far."""

    date: tuple[int, int, int] | None = None
    micros: int | None = None
    zone: Zone | None = None
    offset: int | None = None
    bc: bool = False
    pm: bool | None = None
    special: str | None = None


def parse_date(text: str) -> int:
    """Days since 1970."""
    fields = _read(text, "date")
    if fields.special is not None:
        return {"infinity": INT32_MAX, "-infinity": INT32_MIN}.get(fields.special, 0)
    days = _days(fields, text, "date")
    if not _FIRST_DAY <= days <= _LAST_DAY:
        raise DatetimeOverflow(f'date out of range: "{text}"')
    return days


def parse_time(text: str) -> int:
    """Microseconds since midnight, which may be 24 hours."""
    fields = _read(text, "time")
    if fields.special is not None or fields.micros is None:
        raise _invalid("time", text)
    return fields.micros


def parse_timestamp(text: str) -> int:
    """Microseconds since 1970; a zone is read over."""
    fields = _read(text, "timestamp")
    return _in_range(_local_micros(fields, text, "timestamp"), fields, text)


def parse_zoned(text: str, zone: Zone) -> int:
    """Microseconds since 1970 in UTC; without a zone in the text it is a time of `zone`."""
    name = "timestamp with time zone"
    fields = _read(text, name)
    micros = _local_micros(fields, text, name)
    if fields.offset is not None:
        micros -= fields.offset * 1_000_000
    elif fields.special is None:
        micros = (fields.zone or zone).moment(micros)
    return _in_range(micros, fields, text)


def _local_micros(fields: _Fields, text: str, name: str) -> int:
    if fields.special is not None:
        return {"infinity": INT64_MAX, "-infinity": INT64_MIN}.get(fields.special, 0)
    return _days(fields, text, name) * DAY_MICROS + (fields.micros or 0)


def _in_range(micros: int, fields: _Fields, text: str) -> int:
    if fields.special is None and not _FIRST_MICROS <= micros < _AFTER_MICROS:
        raise DatetimeOverflow(f'timestamp out of range: "{text}"')
    return micros


def _days(fields: _Fields, text: str, name: str) -> int:
    if fields.date is None:
        raise _invalid(name, text)
    year, month, day = fields.date
    if fields.bc:
        year = 1 - year
    elif year == 0:
        raise _overflow(text)
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        raise _overflow(text, _HINT)
    if (fields.bc and year > 0) or day > month_days(year, month):
        raise _overflow(text)
    return days_of(year, month, day)


def _read(text: str, name: str) -> _Fields:
    stripped = text.strip()
    fields = _Fields()
    if stripped.lower() in ("infinity", "-infinity", "epoch"):
        fields.special = stripped.lower()
        return fields
    fields.bc = _BEFORE_CHRIST.search(stripped) is not None  # years before it mean others then
    place, loose = 0, list[str]()
    while place < len(stripped):
        match = _TOKEN.match(stripped, place)
        if match is None or match.lastgroup is None:
            raise _invalid(name, text)
        _take(fields, loose, match.lastgroup, match[match.lastgroup], text, name)
        place = match.end()
    _take_loose(fields, loose, text, name)
    _apply_noon(fields, text)
    return fields


def _take(fields: _Fields, loose: list[str], kind: str, token: str, text: str, name: str) -> None:
    match kind:
        case "iso" | "slash" | "named" | "compact" | "julian" | "ordinal":
            if fields.date is not None or loose:
                raise _invalid(name, text)
            fields.date = _date_of(kind, token, text, name, bc=fields.bc)
        case "digits" if name == "date" and fields.date is None and "." not in token:
            fields.date = _year(token[:2], bc=fields.bc), int(token[2:4]), int(token[4:])
        case "time" | "digits":
            if fields.micros is not None:
                raise _invalid(name, text)
            fields.micros = _time_of(token, text)
        case "number" if (
            len(token) == 4
            and fields.micros is None
            and (name == "time" or (fields.date is not None and not loose))
        ):
            fields.micros = _time_of(f"{token[:2]}:{token[2:]}", text)
        case "offset":
            if fields.micros is None and fields.date is None:
                raise _invalid(name, text)
            fields.offset = _offset_of(token, text)
        case "number":
            loose.append(token)
        case _:
            _take_word(fields, loose, token, text, name)


def _take_word(fields: _Fields, loose: list[str], token: str, text: str, name: str) -> None:
    word = token.lower()
    if word in ("ad", "bc"):
        fields.bc = word == "bc"
    elif word in ("am", "pm"):
        fields.pm = word == "pm"
    elif word in ("z", "zulu"):
        fields.offset = 0
    elif word == "allballs" and fields.micros is None:
        fields.micros, fields.offset = 0, 0
    elif word in ABBREVIATIONS:
        fields.offset = ABBREVIATIONS[word]
    elif word == "t" and fields.date is not None:
        pass
    elif word[:3] in _MONTHS and (word in _MONTHS or word in _FULL_MONTHS or word == "sept"):
        loose.append(word[:3])
    elif not _WEEKDAYS.fullmatch(word):
        _take_zone(fields, token, text, name)


def _take_zone(fields: _Fields, token: str, text: str, name: str) -> None:
    if (fields.micros is None and fields.date is None) or fields.zone is not None:
        raise _invalid(name, text)
    try:
        fields.zone = zone_named(token)
    except InvalidZone:
        if "/" not in token:
            raise _invalid(name, text) from None
        raise InvalidZone(f'time zone "{token.lower()}" not recognized') from None
    if isinstance(fields.zone.rules, timezone):
        fields.offset = fields.zone.offset_at(0)


def _take_loose(fields: _Fields, loose: list[str], text: str, name: str) -> None:
    """A date whose parts stand alone, with the name of the month: `8 January 1999`."""
    if not loose:
        return
    months = [part for part in loose if part in _MONTHS]
    numbers = [part for part in loose if part not in _MONTHS]
    if fields.date is not None or len(months) != 1 or len(numbers) != 2:
        raise _invalid(name, text)
    first, second = numbers
    year, day = (first, second) if len(first) > 2 else (second, first)
    fields.date = (_year(year, bc=fields.bc), _MONTHS.index(months[0]) + 1, int(day))


def _date_of(kind: str, token: str, text: str, name: str, *, bc: bool) -> tuple[int, int, int]:
    if kind == "compact":
        return int(token[:4]), int(token[4:6]), int(token[6:])
    if kind == "julian":
        return _civil(int(token[1:]) - _JULIAN_OF_1970, text)
    if kind == "ordinal":
        number = int(token[-3:])
        if not 1 <= number <= 366:
            raise _invalid(name, text)
        return _civil(days_of(int(token[:4]), 1, 1) + number - 1, text)
    if kind == "slash":
        month, day, year = token.split("/")
        return _year(year, bc=bc), int(month), int(day)
    first, middle, last = token.split("-")
    if first.isalpha():
        first, middle = middle, first
    if kind == "iso":
        if len(first) > 2:
            return int(first), int(middle), int(last)
        return _year(last, bc=bc), int(first), int(middle)  # month first, as DateStyle says
    if middle.lower()[:3] not in _MONTHS:
        raise _invalid(name, text)
    month_number = _MONTHS.index(middle.lower()[:3]) + 1
    if len(first) > 2:
        return int(first), month_number, int(last)
    return _year(last, bc=bc), month_number, int(first)


def _civil(days: int, text: str) -> tuple[int, int, int]:
    """The date so many days from 1970, which has no year before the first."""
    try:
        found = datetime.date(1970, 1, 1) + datetime.timedelta(days)
    except OverflowError:
        raise UnsupportedValue(
            f'a date far from ours by its number is not supported: "{text}"'
        ) from None
    return found.year, found.month, found.day


def _year(digits: str, *, bc: bool) -> int:
    """A year of one or two digits is one between 1970 and 2069, if it is not before Christ."""
    year = int(digits)
    if bc or len(digits) > 2:
        return year
    return year + (2000 if year < 70 else 1900)


def _time_of(token: str, text: str) -> int:
    parts = token.split(":") if ":" in token else [token[:2], token[2:4], token[4:]]
    hours, minutes = int(parts[0]), int(parts[1])
    seconds = Fraction(parts[2].rstrip(".") or "0") if len(parts) > 2 else Fraction(0)
    micros = hours * 3_600_000_000 + minutes * 60_000_000 + round(seconds * 1_000_000)
    if minutes > 59 or seconds > 60 or micros > DAY_MICROS:
        raise _overflow(text)
    return micros


def _apply_noon(fields: _Fields, text: str) -> None:
    if fields.pm is None:
        return
    if fields.micros is None or fields.micros >= 13 * 3_600_000_000:
        raise _overflow(text)
    noon = DAY_MICROS // 2
    if fields.pm and fields.micros < noon:
        fields.micros += noon
    elif not fields.pm and fields.micros >= noon:
        fields.micros -= noon


def _offset_of(token: str, text: str) -> int:
    digits = token[1:].split(":")
    if len(digits) == 1 and len(token) > 3:
        packed = token[1:].rjust((len(token) - 1 + 1) // 2 * 2, "0")
        digits = [packed[i : i + 2] for i in range(0, len(packed), 2)]
    parts = [int(part) for part in digits] + [0, 0]
    if parts[0] > 15 or parts[1] > 59 or parts[2] > 59:
        raise InvalidDisplacement(f'time zone displacement out of range: "{text}"')
    seconds = parts[0] * 3600 + parts[1] * 60 + parts[2]
    return -seconds if token[0] == "-" else seconds


def _invalid(name: str, text: str) -> InvalidDatetime:
    return InvalidDatetime(f'invalid input syntax for type {name}: "{text}"')


def _overflow(text: str, hint: str | None = None) -> DatetimeOverflow:
    return DatetimeOverflow(f'date/time field value out of range: "{text}"', hint=hint)
