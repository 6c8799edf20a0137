"""`to_char` of times and intervals: a format is taken apart into patterns, and each is written out.

A pattern is recognised by the letters it is written with; `FM` in front takes zeros and blanks
away, `TH` or `th` behind makes an ordinal of a number. Everything else stands for itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from waterclock.model.pg_types import INTERVAL, TEXT, TIMESTAMPTZ
from waterclock.sql.dialect import datetimes as dt
from waterclock.sql.dialect.literals import null, quoted
from waterclock.sql.functions.registry import Invalid, Refused, Use

_ANY_CASE = (
    *("A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "CC", "DDD", "DD", "D"),
    *(f"FF{digits}" for digits in range(1, 7)),
    *("FX", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I", "J", "MI", "MM"),
    *("MS", "OF", "P.M.", "PM", "Q", "RM", "SSSSS", "SSSS", "SS", "TZH", "TZM", "TZ", "US", "WW"),
    *("W", "Y,YYY", "YYYY", "YYY", "YY", "Y", "DAY", "DY", "MONTH", "MON"),
)
_WORDS = (*_ANY_CASE, *(word.lower() for word in _ANY_CASE), "Day", "Dy", "Month", "Mon")
_KNOWN = "|".join(re.escape(word) for word in sorted(_WORDS, key=len, reverse=True))
_PATTERN = re.compile(
    rf'"(?P<literal>[^"]*)"|(?P<fm>(?:FM|fm)?)(?P<tm>(?:TM|tm)?)(?P<pattern>{_KNOWN})'
    r"(?P<th>(?:TH|th)?)|(?P<lone>FM|fm|TM|tm)|(?P<other>.)",
    re.DOTALL,
)
_FRACTIONS = {"MS": 3, "US": 6, **{f"FF{digits}": digits for digits in range(1, 7)}}
"""How many digits of a second; `FM` does not shorten them."""
_NAMES = {"MONTH": "MMMM", "MON": "MMM", "DAY": "EEEE", "DY": "EEE"}
_WIDTH = 9
_ROMAN = ", ".join(
    f"'{each}'"
    for each in ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")
)
_OF_ERA = "(CASE WHEN {0} > 0 THEN {0} ELSE 1 - {0} END)"
_YEAR = _OF_ERA.format("YEAR({0})")
_WEEK_YEAR = _OF_ERA.format("EXTRACT(YEAROFWEEK FROM {0})")
_NUMBERS = {
    "MM": ("MONTH({0})", 2),
    "DD": ("DAY({0})", 2),
    "DDD": ("DAYOFYEAR({0})", 3),
    "IDDD": ("((WEEKOFYEAR({0}) - 1) * 7 + WEEKDAY({0}) + 1)", 3),
    "HH24": ("HOUR({0})", 2),
    "HH12": ("((HOUR({0}) + 11) % 12 + 1)", 2),
    "HH": ("((HOUR({0}) + 11) % 12 + 1)", 2),
    "MI": ("MINUTE({0})", 2),
    "SS": ("SECOND({0})", 2),
    "SSSS": ("((HOUR({0}) * 60 + MINUTE({0})) * 60 + SECOND({0}))", 1),
    "SSSSS": ("((HOUR({0}) * 60 + MINUTE({0})) * 60 + SECOND({0}))", 1),
    "WW": ("((DAYOFYEAR({0}) - 1) DIV 7 + 1)", 2),
    "W": ("((DAY({0}) - 1) DIV 7 + 1)", 1),
    "IW": ("WEEKOFYEAR({0})", 2),
    "CC": (
        "(CASE WHEN YEAR({0}) > 0 THEN (YEAR({0}) - 1) DIV 100 + 1 ELSE YEAR({0}) DIV 100 - 1 END)",
        2,
    ),
    "YYYY": (_YEAR, 4),
    "YYY": (f"({_YEAR} % 1000)", 3),
    "YY": (f"({_YEAR} % 100)", 2),
    "Y": (f"({_YEAR} % 10)", 1),
    "IYYY": (_WEEK_YEAR, 4),
    "IYY": (f"({_WEEK_YEAR} % 1000)", 3),
    "IY": (f"({_WEEK_YEAR} % 100)", 2),
    "I": (f"({_WEEK_YEAR} % 10)", 1),
    "Q": ("QUARTER({0})", 1),
    "D": ("DAYOFWEEK({0})", 1),
    "ID": ("(WEEKDAY({0}) + 1)", 1),
    "J": ("(UNIX_DATE(CAST({0} AS DATE)) + 2440588)", 1),
}
_HALF_DAY = (
    "(CASE WHEN {0}.micros DIV 3600000000L % 12 = 0 THEN 12"
    " ELSE {0}.micros DIV 3600000000L % 12 END)"
)
_OF_INTERVALS = {
    "YYYY": ("({0}.months DIV 12)", 4),
    "MM": ("({0}.months % 12)", 2),
    "DD": ("{0}.days", 2),
    "HH24": ("({0}.micros DIV 3600000000L)", 2),
    "HH12": (_HALF_DAY, 2),
    "HH": (_HALF_DAY, 2),
    "MI": ("({0}.micros DIV 60000000L % 60)", 2),
    "SS": ("({0}.micros DIV 1000000L % 60)", 2),
}


@dataclass(frozen=True, slots=True)
class _Time:
    """What is formatted: the local time as SQL, and its offset from UTC in seconds."""

    local: str
    offset: str
    zone: str | None


def _number(sql: str, digits: int, *, bare: bool) -> str:
    """A number with zeros in front."""
    text = f"CAST({sql} AS STRING)"
    if bare or digits == 1:
        return text
    return f"LPAD({text}, GREATEST({digits}, LENGTH({text})), '0')"


def _signed(sql: str, digits: int, *, bare: bool, counts_sign: bool = False) -> str:
    """The same of one that may be below 0; then its sign is one of the digits, or is not."""
    less = digits - 1 if counts_sign else digits
    below = f"CONCAT('-', {_number(f'ABS({sql})', max(less, 1), bare=bare)})"
    return f"(CASE WHEN {sql} < 0 THEN {below} ELSE {_number(sql, digits, bare=bare)} END)"


def _ordinal(text: str, th: str) -> str:
    """A number with the letters of an ordinal behind it."""
    endings = ("ST", "ND", "RD", "TH") if th == "TH" else ("st", "nd", "rd", "th")
    cases = " ".join(
        f"WHEN {text} RLIKE '{digit}$' THEN '{ending}'"
        for digit, ending in zip("123", endings, strict=False)
    )
    return (
        f"CONCAT({text}, CASE WHEN {text} RLIKE '1[0-9]$' THEN '{endings[3]}'"
        f" {cases} ELSE '{endings[3]}' END)"
    )


def _piece(found: re.Match[str], time: _Time) -> str:
    written, bare = found["pattern"], bool(found["fm"])
    if found["tm"]:
        raise Refused("TM in a format of to_char()")
    text = _numeric(written.upper(), time, bare=bare)
    if text is None:
        return _worded(written, time, bare=bare)
    return _ordinal(text, found["th"]) if found["th"] else text


def _numeric(pattern: str, time: _Time, *, bare: bool) -> str | None:
    """A pattern that is a number; None if it is none."""
    local = time.local
    if pattern in _NUMBERS:
        template, digits = _NUMBERS[pattern]
        write = _signed if pattern == "CC" else _number
        return write(template.format(local), digits, bare=bare)
    if pattern == "Y,YYY":
        year = _YEAR.format(local)
        thousands, rest = f"CAST({year} DIV 1000 AS STRING)", f"CAST({year} % 1000 AS STRING)"
        return f"CONCAT({thousands}, ',', LPAD({rest}, 3, '0'))"
    if pattern not in _FRACTIONS:
        return None
    size = _FRACTIONS[pattern]
    micros = f"PMOD({dt.micros_of(local, zoned=False)}, 1000000L)"
    return _number(f"({micros} DIV {10 ** (6 - size)}L)", size, bare=False)


def _worded(written: str, time: _Time, *, bare: bool) -> str:
    local, pattern = time.local, written.upper()
    match pattern:
        case "AM" | "PM" | "A.M." | "P.M.":
            first, second = ("A.M.", "P.M.") if "." in pattern else ("AM", "PM")
            text = f"(CASE WHEN HOUR({local}) < 12 THEN '{first}' ELSE '{second}' END)"
        case "AD" | "BC" | "A.D." | "B.C.":
            first, second = ("A.D.", "B.C.") if "." in pattern else ("AD", "BC")
            text = f"(CASE WHEN YEAR({local}) > 0 THEN '{first}' ELSE '{second}' END)"
        case "RM":
            text = f"ELEMENT_AT(ARRAY({_ROMAN}), MONTH({local}))"
            text = text if bare else f"RPAD({text}, 4, ' ')"
        case "FX":
            text = "''"
        case "TZ":
            text = _zone_name(time)
        case "OF" | "TZH" | "TZM":
            return _offset(pattern, time, bare=bare)
        case _:
            return _name(written, local, bare=bare)
    return f"LOWER({text})" if written.islower() else text


def _zone_name(time: _Time) -> str:
    if time.zone is None:
        return "''"
    if dt.is_utc(time.zone):
        return "'UTC'"
    raise Refused("TZ in a format of to_char() in this time zone", "Use OF.")


def _offset(pattern: str, time: _Time, *, bare: bool) -> str:
    """The offset from UTC: hours with a sign, minutes if there are any."""
    hours = f"CAST(ABS({time.offset}) DIV 3600 AS STRING)"
    minutes = f"LPAD(CAST(ABS({time.offset}) % 3600 DIV 60 AS STRING), 2, '0')"
    sign = f"CASE WHEN {time.offset} >= 0 THEN '+' ELSE '-' END"
    if pattern == "TZM":
        return minutes
    if pattern == "TZH":
        return f"CONCAT({sign}, LPAD({hours}, 2, '0'))"
    filled = hours if bare else f"LPAD({hours}, 2, '0')"
    more = f"CASE WHEN {minutes} = '00' THEN '' ELSE CONCAT(':', {minutes}) END"
    return f"CONCAT({sign}, {filled}, {more})"


def _name(written: str, local: str, *, bare: bool) -> str:
    pattern = written.upper()
    name = f"DATE_FORMAT({local}, '{_NAMES[pattern]}')"
    if written.isupper():
        name = f"UPPER({name})"
    elif written.islower():
        name = f"LOWER({name})"
    is_full = pattern in ("MONTH", "DAY")
    return f"RPAD({name}, {_WIDTH}, ' ')" if is_full and not bare else name


def _of_interval(found: re.Match[str], value: str) -> str:
    pattern, bare = found["pattern"].upper(), bool(found["fm"])
    if pattern in _NAMES or pattern in ("TZ", "OF", "TZH", "TZM", "AD", "BC", "A.D.", "B.C."):
        raise Invalid("22007", "invalid format specification for an interval value")
    if pattern in ("MS", "US"):
        size, digits = (1000, 3) if pattern == "MS" else (1, 6)
        micros = f"({value}.micros % 1000000L DIV {size}L)"
        text = _signed(micros, digits, bare=False, counts_sign=True)
    elif pattern in _OF_INTERVALS:
        template, digits = _OF_INTERVALS[pattern]
        number = template.format(value)
        text = _signed(number, digits, bare=bare, counts_sign=pattern == "DD")
    else:
        raise Refused(f'the pattern "{found["pattern"]}" of to_char() for intervals')
    return _ordinal(text, found["th"]) if found["th"] else text


def time_format(use: Use) -> str:
    """The SQL of `to_char` of a timestamp or an interval in a format."""
    moment, wanted = use.arguments
    if wanted.text is None:
        raise Refused("to_char() with a format that is not a constant")
    if "\\" in wanted.text:
        raise Refused("a backslash in a format of to_char()")
    is_interval = moment.type.oid == INTERVAL.oid
    time = _time(use)
    pieces: list[str] = []
    for found in _PATTERN.finditer(wanted.text):
        if found["pattern"]:
            made = _of_interval(found, moment.sql) if is_interval else _piece(found, time)
            pieces.append(made)
        elif not found["lone"]:
            plain = found["literal"] if found["literal"] is not None else found["other"]
            pieces.append(quoted(plain))
    text = f"CONCAT({', '.join(pieces)})" if pieces else null(TEXT)
    if is_interval:
        return f"(CASE WHEN {moment.sql} IS NOT NULL THEN {text} END)"
    # Null is neither infinite nor not.
    return f"(CASE WHEN NOT {dt.is_infinite(time.local, 'timestamp')} THEN {text} END)"


def _time(use: Use) -> _Time:
    moment = use.arguments[0]
    if moment.type.oid != TIMESTAMPTZ.oid:
        return _Time(moment.sql, "0L", None)
    local = dt.to_local(moment.sql, use.zone)
    between = f"{dt.micros_of(local, zoned=False)} - {dt.micros_of(moment.sql, zoned=True)}"
    return _Time(local, f"(({between}) DIV 1000000L)", use.zone)
