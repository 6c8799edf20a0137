"""What functions of times ask of their arguments: a constant word, a zone, a local time."""

from __future__ import annotations

import re
import zoneinfo
from functools import cache

from waterclock.sql.dialect import datetimes as dt
from waterclock.sql.dialect.types import name_of
from waterclock.sql.dialect.zone_abbreviations import ABBREVIATIONS, WORDS
from waterclock.sql.functions.registry import Argument, Invalid, Refused, Use


def constant_word(argument: Argument, what: str) -> str:
    """A constant in small letters; `Refused` if it is none."""
    if argument.text is None:
        raise Refused(f"{what} that is not a constant")
    return argument.text.lower()


def local_time(argument: Argument, use: Use) -> str:
    """A date or timestamp as a TIMESTAMP_NTZ in the session's zone."""
    match name_of(argument.type):
        case "timestamptz":
            return dt.to_local(argument.sql, use.zone)
        case "date":
            return dt.date_as_timestamp(argument.sql)
        case _:
            return argument.sql


_OFFSET = re.compile(r"(?P<sign>[+-])(?P<hours>[0-9]{1,2})(?::?(?P<minutes>[0-9]{2}))?")


_CITY = re.compile(r"[A-Za-z_]+(?:/[A-Za-z_]+)+")


def zone_name(argument: Argument) -> str:
    """The name of a zone as the engine has it. A bare offset counts to the west, as in POSIX."""
    if argument.text is None:
        raise Refused("a time zone that is not a constant")
    offset = _OFFSET.fullmatch(argument.text)
    if offset is not None:
        sign = "-" if offset["sign"] == "+" else "+"
        return f"{sign}{int(offset['hours']):02}:{offset['minutes'] or '00'}"
    if dt.is_utc(argument.text):
        return "UTC"
    seconds = ABBREVIATIONS.get(argument.text.lower())
    if seconds is not None:
        minutes = abs(seconds) // 60
        return f"{'-' if seconds < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
    name = _zones().get(argument.text.lower())
    if name is not None:
        return name
    is_word = argument.text.isalpha() and argument.text.lower() not in WORDS
    if is_word or _CITY.fullmatch(argument.text):  # else it may be a rule as in POSIX
        raise Invalid("22023", f'time zone "{argument.text}" not recognized')
    raise Refused(f'the time zone "{argument.text}"', "Use a name of the IANA list.")


@cache
def _zones() -> dict[str, str]:
    """The zones that there are, by their names in small letters."""
    return {name.lower(): name for name in zoneinfo.available_timezones()}
