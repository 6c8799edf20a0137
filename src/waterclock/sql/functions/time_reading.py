"""`to_date` and `to_timestamp` with a format: the other way of `to_char`.

PostgreSQL reads very freely: blanks may be missing, separators may be others. Here a text must be
written as the format says; only a number with a separator or nothing behind it may be short. A text
that is not so is not supported, and never read as something else.
"""

from __future__ import annotations

import calendar
import re

from waterclock.model.pg_types import DATE
from waterclock.sql.dialect import datetimes as dt
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.literals import quoted
from waterclock.sql.functions.registry import Refused, Use

_PIECE = re.compile(
    r'"(?P<literal>[^"]*)"|(?P<field>YYYY|YY|MONTH|MON|MM|DDD|DD|DAY|DY|HH24|HH12|HH|MI|SS|MS|US'
    r"|AM|PM|A\.M\.|P\.M\.)|(?P<between>[-/:., ])"
)
_MONTHS = [name.lower() for name in calendar.month_name[1:]]
_DAYS = [name.lower() for name in calendar.day_name]
_FIXED = {
    "YYYY": "(?!0000)([0-9]{4})",
    "YY": "([0-9]{2})",
    "MONTH": f"(?i:({'|'.join(_MONTHS)}))",
    "MON": f"(?i:({'|'.join(name[:3] for name in _MONTHS)}))",
    "DAY": f"(?i:({'|'.join(_DAYS)}))",
    "DY": f"(?i:({'|'.join(name[:3] for name in _DAYS)}))",
    "MM": "([0-9]{2})",
    "DD": "([0-9]{2})",
    "DDD": "([0-9]{3})",
    "HH24": "([01][0-9]|2[0-3])",
    "HH12": "(0[1-9]|1[0-2])",
    "MI": "([0-5][0-9])",
    "SS": "([0-5][0-9])",
    "MS": "([0-9]{3})",
    "US": "([0-9]{6})",
    "AM": "(?i:(am|pm))",
    "A.M.": "(?i:(a[.]m[.]|p[.]m[.]))",
}
_SHORT = {
    "MM": "([0-9]{1,2})",
    "DD": "([0-9]{1,2})",
    "HH24": "([01]?[0-9]|2[0-3])",
    "HH12": "(0?[1-9]|1[0-2])",
    "MI": "([0-5]?[0-9])",
    "SS": "([0-5]?[0-9])",
}
_SAME = {"HH": "HH12", "PM": "AM", "P.M.": "A.M."}
_EXCLUSIVE = (
    *(("YYYY", "YY"), ("MM", "MON", "MONTH", "DDD"), ("DD", "DDD"), ("HH24", "HH12")),
    *(("MS", "US"), ("AM", "A.M."), ("HH24", "AM"), ("HH24", "A.M."), ("DAY", "DY")),
)
"""Fields of which a format may have one."""
_TEXTUAL = frozenset({"MONTH", "MON", "DAY", "DY", "AM", "A.M."})


def _pieces(form: str) -> list[tuple[str, str]]:
    """What the format is made of: pairs of `literal`, `field` or `between`, and which."""
    found, at = list[tuple[str, str]](), 0
    while at < len(form):
        # Only what is in quotes has a case.
        piece = _PIECE.match(form if form[at] == '"' else form.upper(), at)
        if piece is None:
            raise Refused(f'the format "{form}" for reading times')
        kind = str(piece.lastgroup)
        text = piece[kind]
        found.append((kind, _SAME.get(text, text) if kind == "field" else text))
        at = piece.end()
    return found


def _fields(form: str) -> tuple[str, dict[str, int]]:
    """A regular expression for texts of the format, and which group is which field."""
    pattern, groups = "", dict[str, int]()
    pieces = _pieces(form)
    for place, (kind, text) in enumerate(pieces):
        if kind == "between":
            pattern += f"[{text}]"
        elif kind == "literal":
            pattern += re.escape(text)
        elif text in groups:
            raise Refused(f'the format "{form}" for reading times')
        else:
            is_last = place + 1 == len(pieces)
            ends = is_last or pieces[place + 1][0] == "between"
            pattern += _SHORT.get(text, _FIXED[text]) if ends else _FIXED[text]
            groups[text] = len(groups) + 1
    _check(form, groups)
    return f"^{pattern}\\z", groups


def _check(form: str, groups: dict[str, int]) -> None:
    has_year = "YYYY" in groups or "YY" in groups
    clash = any(sum(name in groups for name in names) > 1 for names in _EXCLUSIVE)
    half_clock = ("AM" in groups or "A.M." in groups) and "HH12" not in groups
    if not has_year or clash or half_clock:
        raise Refused(f'the format "{form}" for reading times')


class _Reading:
    """The fields of a text, as SQL."""

    def __init__(self, text: str, pattern: str, groups: dict[str, int]) -> None:
        self._text = text
        self._pattern = quoted(pattern)
        self._groups = groups

    def has(self, name: str) -> bool:
        return name in self._groups

    def part(self, name: str) -> str:
        return f"REGEXP_EXTRACT({self._text}, {self._pattern}, {self._groups[name]})"

    def number(self, name: str, otherwise: int) -> str:
        return f"CAST({self.part(name)} AS INT)" if self.has(name) else str(otherwise)

    def year(self) -> str:
        if self.has("YYYY"):
            return self.number("YYYY", 0)
        year = self.number("YY", 0)
        return f"(CASE WHEN {year} < 70 THEN {year} + 2000 ELSE {year} + 1900 END)"

    def month(self) -> str:
        for name in ("MONTH", "MON"):
            if self.has(name):
                names = ", ".join(f"'{month[:3]}'" for month in _MONTHS)
                return f"ARRAY_POSITION(ARRAY({names}), LOWER(LEFT({self.part(name)}, 3)))"
        return self.number("MM", 1)

    def hour(self) -> str:
        if not self.has("HH12"):
            return self.number("HH24", 0)
        hour = f"({self.number('HH12', 0)} % 12)"
        for name in ("AM", "A.M."):
            if self.has(name):
                late = f"LOWER(LEFT({self.part(name)}, 1)) = 'p'"
                return f"(CASE WHEN {late} THEN {hour} + 12 ELSE {hour} END)"
        return hour

    def date(self) -> str:
        if self.has("DDD"):
            return self._day_of_year()
        return f"MAKE_DATE({self.year()}, CAST({self.month()} AS INT), {self.number('DD', 1)})"

    def _day_of_year(self) -> str:
        first = f"MAKE_DATE({self.year()}, 1, 1)"
        day = self.number("DDD", 1)
        wrong = raised("22008", "date/time field value out of range")
        days = f"DAYOFYEAR(MAKE_DATE({self.year()}, 12, 31))"
        found = f"DATE_ADD({first}, {day} - 1)"
        return f"(CASE WHEN {day} BETWEEN 1 AND {days} THEN {found} ELSE {wrong} END)"


def time_reading(use: Use) -> str:
    """The SQL of `to_date` or `to_timestamp` of a text in a format."""
    text, wanted = use.arguments
    if wanted.text is None:
        raise Refused("a format for reading times that is not a constant")
    pattern, groups = _fields(wanted.text)
    read = _Reading(text.sql, pattern, groups)
    made = read.date()
    if use.result != DATE:
        seconds = f"({read.hour()} * 60L + {read.number('MI', 0)}) * 60L + {read.number('SS', 0)}"
        micros = f"{read.number('MS', 0)} * 1000L + {read.number('US', 0)}"
        clock = f"({seconds}) * 1000000L + {micros}"
        local = f"TIMESTAMPADD(MICROSECOND, {clock}, CAST({made} AS TIMESTAMP_NTZ))"
        made = dt.to_moment(local, use.zone)
    other = raised(
        "0A000", "reading a time that is not written just as its format is not supported"
    )
    is_such = f"{text.sql} RLIKE {quoted(pattern)}"
    return (
        f"(CASE WHEN {is_such} THEN {made}{_no_number(text.sql, wanted.text)}"
        f" WHEN {text.sql} IS NOT NULL THEN {other} END)"
    )


def _no_number(text: str, form: str) -> str:
    """A text that begins with a letter where a number must stand is wrong, however it is read."""
    kind, first = _pieces(form)[0]
    if kind != "field" or first in _TEXTUAL:
        return ""
    return f" WHEN {text} RLIKE '^[A-Za-z]' THEN " + raised("22007", f'invalid value for "{first}"')
