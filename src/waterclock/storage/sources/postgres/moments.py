"""Single dates, times and intervals from the text that PostgreSQL writes (ISO, in UTC).

Dates are days and moments microseconds since 1970, also before Christ and after the year 9999;
the infinite ones are the least and the greatest number, as everywhere here.
"""

from __future__ import annotations

import re

from waterclock.storage.sources.postgres.array_texts import Unholdable

_DAY_MICROS = 86_400_000_000
_DATE = re.compile(r"(\d{4,})-(\d\d)-(\d\d)( BC)?")
_MOMENT = re.compile(r"(\d{4,}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,6})?)(?:\+00)?( BC)?")
_TIME = re.compile(r"(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_INTERVAL = re.compile(
    r"(?:([+-]?\d+) years? ?)?(?:([+-]?\d+) mons? ?)?(?:([+-]?\d+) days? ?)?"
    r"(?:([+-]?)(\d+:\d\d:\d\d(?:\.\d{1,6})?))?"
)


def date_of(text: str) -> int:
    """Days since 1970."""
    if text.endswith("infinity"):
        return -(2**31) if text.startswith("-") else 2**31 - 1
    match = _DATE.fullmatch(text)
    if match is None:
        raise Unholdable
    year, month, day = (int(part) for part in match.groups()[:3])
    return _days(1 - year if match[4] else year, month, day)


def moment_of(text: str) -> int:
    """Microseconds since 1970."""
    if text.endswith("infinity"):
        return -(2**63) if text.startswith("-") else 2**63 - 1
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise Unholdable
    date, time, before = match.groups()
    micros = date_of(date + (before or "")) * _DAY_MICROS + time_of(time)
    if not -(2**63) < micros < 2**63 - 1:
        raise Unholdable
    return micros


def time_of(text: str) -> int:
    """Microseconds since midnight; 24:00:00 is one of them."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise Unholdable
    hours, minutes, seconds = (int(part) for part in match.groups()[:3])
    fraction = int((match[4] or "").ljust(6, "0"))
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction


def interval_of(text: str) -> dict[str, int]:
    """Months, days and microseconds."""
    match = _INTERVAL.fullmatch(text)
    if match is None or not text:
        raise Unholdable
    years, months, days, sign, time = match.groups()
    micros = time_of(time) if time else 0
    return {
        "months": int(years or 0) * 12 + int(months or 0),
        "days": int(days or 0),
        "micros": -micros if sign == "-" else micros,
    }


def _days(year: int, month: int, day: int) -> int:
    """Days from 1970 to a date of the Gregorian calendar, which goes on before it was made.

    The year is counted from March, so that the day that comes and goes is its last.
    """
    year, month = (year - 1, month + 9) if month < 3 else (year, month - 3)
    era, of_era = divmod(year, 400)
    of_year = (153 * month + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
