"""Days and microseconds since 1970 as PostgreSQL writes dates, for all years that it has.

Arrow's own text is used where it agrees (years 1 to 9999, see `text_out`); this is the rest of the
range and the way back. The calendar is the proleptic Gregorian one. PostgreSQL has no year 0: the
year before 1 is 1 BC. The greatest and least numbers stand for infinity and minus infinity.
"""

from __future__ import annotations

DAY_MICROS = 86_400_000_000
EPOCH_DAYS = 10_957
"""2000-01-01, from which PostgreSQL counts, in days since 1970."""
EPOCH_MICROS = EPOCH_DAYS * DAY_MICROS
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

_DAYS_IN_MONTH = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date; year 0 is 1 BC."""
    shifted = year - (month <= 2)
    era, of_era = divmod(shifted, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + day_of_year - 719_468


def date_of(days: int) -> tuple[int, int, int]:
    """Year (0 is 1 BC), month and day of days since 1970."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    of_era = (
        day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * of_era + of_era // 4 - of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + (3 if shifted < 10 else -9)
    return era * 400 + of_era + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def month_days(year: int, month: int) -> int:
    """The number of days of a month; year 0 is 1 BC."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and leap else _DAYS_IN_MONTH[month - 1]


def format_date(days: int) -> str:
    """A date in the ISO style."""
    if days in (INT32_MIN, INT32_MAX):
        return "infinity" if days > 0 else "-infinity"
    text, era = _date_and_era(days)
    return text + era


def format_timestamp(micros: int, offset: str = "") -> str:
    """A timestamp in the ISO style; `offset` is that of its zone, `micros` the time there."""
    if micros in (INT64_MIN, INT64_MAX):
        return "infinity" if micros > 0 else "-infinity"
    days, within = divmod(micros, DAY_MICROS)
    text, era = _date_and_era(days)
    return f"{text} {format_time(within)}{offset}{era}"


def format_time(micros: int) -> str:
    """A time of day, without the zeros that end its fraction."""
    seconds, fraction = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text


def format_offset(seconds: int) -> str:
    """A zone's distance from UTC, as short as it can be: `+00`, `-03:30`, `+00:19:32`."""
    sign, rest = ("-", -seconds) if seconds < 0 else ("+", seconds)
    text = f"{sign}{rest // 3600:02}"
    if rest % 3600:
        text += f":{rest // 60 % 60:02}"
    return f"{text}:{rest % 60:02}" if rest % 60 else text


def _date_and_era(days: int) -> tuple[str, str]:
    year, month, day = date_of(days)
    shown, era = (year, "") if year > 0 else (1 - year, " BC")
    return f"{shown:04}-{month:02}-{day:02}", era
