"""`to_char` of times: a format is taken apart into patterns, and each is written out."""

from __future__ import annotations

import re

from waterclock.model.pg_types import TEXT
from waterclock.sql.dialect import datetimes as dt
from waterclock.sql.dialect.literals import null, quoted
from waterclock.sql.functions.registry import Refused, Use

_PATTERN = re.compile(
    r'"(?P<literal>[^"]*)"|(?P<fm>FM)?(?P<pattern>HH24|HH12|YYYY|IYYY|DDD|Month|MONTH|month|Mon|MON|mon'
    r"|Day|DAY|day|Dy|DY|dy|hh24|hh12|yyyy|iyyy|ddd|HH|MI|SS|MS|US|AM|PM|am|pm|YY|MM|DD|IW|ID"
    r"|hh|mi|ss|ms|us|yy|mm|dd|iw|id|Q|D|q)|(?P<other>.)",
    re.DOTALL,
)


def _number(sql: str, digits: int, *, filled: bool) -> str:
    text = f"CAST({sql} AS STRING)"
    return f"LPAD({text}, GREATEST({digits}, LENGTH({text})), '0')" if filled else text


_OF_ERA = "(CASE WHEN {0} > 0 THEN {0} ELSE 1 - {0} END)"
_NUMBERS = {
    "MM": ("MONTH({0})", 2),
    "DD": ("DAY({0})", 2),
    "DDD": ("DAYOFYEAR({0})", 3),
    "HH24": ("HOUR({0})", 2),
    "HH12": ("((HOUR({0}) + 11) % 12 + 1)", 2),
    "HH": ("((HOUR({0}) + 11) % 12 + 1)", 2),
    "MI": ("MINUTE({0})", 2),
    "SS": ("SECOND({0})", 2),
    "IW": ("WEEKOFYEAR({0})", 2),
    "YY": (f"({_OF_ERA.format('YEAR({0})')} % 100)", 2),
    "YYYY": (_OF_ERA.format("YEAR({0})"), 4),
    "IYYY": (_OF_ERA.format("EXTRACT(YEAROFWEEK FROM {0})"), 4),
    "Q": ("QUARTER({0})", 1),
    "D": ("DAYOFWEEK({0})", 1),
    "ID": ("(WEEKDAY({0}) + 1)", 1),
}
_NAMES = {"month": "MMMM", "mon": "MMM", "day": "EEEE", "dy": "EEE"}
_WIDTH = 9


def _piece(pattern: str, local: str, *, bare: bool) -> str:
    if pattern.upper() in _NUMBERS or pattern in ("ms", "us"):
        pattern = pattern.upper()  # only names have a case of their own
    if pattern in _NUMBERS:
        template, digits = _NUMBERS[pattern]
        return _number(template.format(local), digits, filled=not bare)
    micros = f"PMOD({dt.micros_of(local, zoned=False)}, 1000000L)"
    match pattern:
        case "US":
            return _number(micros, 6, filled=not bare)
        case "MS":
            return _number(f"({micros} DIV 1000L)", 3, filled=not bare)
        case "AM" | "PM":
            return f"CASE WHEN HOUR({local}) < 12 THEN 'AM' ELSE 'PM' END"
        case "am" | "pm":
            return f"CASE WHEN HOUR({local}) < 12 THEN 'am' ELSE 'pm' END"
    return _name(pattern, local, bare=bare)


def _name(pattern: str, local: str, *, bare: bool) -> str:
    name = f"DATE_FORMAT({local}, '{_NAMES[pattern.lower()]}')"
    if pattern.isupper():
        name = f"UPPER({name})"
    elif pattern.islower():
        name = f"LOWER({name})"
    is_full = pattern.lower() in ("month", "day")
    return f"RPAD({name}, {_WIDTH}, ' ')" if is_full and not bare else name


def time_format(use: Use) -> str:
    """The SQL of `to_char(timestamp, 'format')`."""
    moment, wanted = use.arguments
    if wanted.text is None:
        raise Refused("to_char() with a format that is not a constant")
    local = moment.sql
    if moment.type.oid == 1184:
        local = dt.to_local(local, use.zone)
    pieces: list[str] = []
    for found in _PATTERN.finditer(wanted.text):
        if found["pattern"]:
            pieces.append(_piece(found["pattern"], local, bare=bool(found["fm"])))
        elif found["literal"] is not None:
            pieces.append(quoted(found["literal"]))
        elif found["other"].isalpha():
            raise Refused(f'the pattern "{found["other"]}" of to_char()')
        else:
            pieces.append(quoted(found["other"]))
    text = f"CONCAT({', '.join(pieces)})" if pieces else null(TEXT)
    # Null is neither infinite nor not.
    return f"(CASE WHEN NOT {dt.is_infinite(local, 'timestamp')} THEN {text} END)"
