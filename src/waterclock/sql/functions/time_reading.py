"""`to_date` and `to_timestamp` with a format: the other way of `to_char`.

PostgreSQL reads very freely: blanks may be missing, numbers may be short. Here a text must have its
digits just as the format says; one that has not is not supported, and never read as something else.
"""

from __future__ import annotations

import re

from waterclock.model.pg_types import DATE
from waterclock.sql.dialect import datetimes as dt
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.literals import quoted
from waterclock.sql.functions.registry import Refused, Use

_PIECE = re.compile(r"(?P<field>YYYY|MM|DD|HH24|MI|SS|MS|US)|(?P<between>[-/:., ])")
_DIGITS = {
    "YYYY": "(?!0000)([0-9]{4})",
    "MM": "([0-9]{2})",
    "DD": "([0-9]{2})",
    "HH24": "([01][0-9]|2[0-3])",
    "MI": "([0-5][0-9])",
    "SS": "([0-5][0-9])",
    "MS": "([0-9]{3})",
    "US": "([0-9]{6})",
}


def _fields(form: str) -> tuple[str, dict[str, int]]:
    """A regular expression for texts of the format, and which group is which field."""
    pattern, groups, at = "", dict[str, int](), 0
    text = form.upper()
    while at < len(text):
        found = _PIECE.match(text, at)
        name = None if found is None else found["field"]
        if found is None or name in groups:
            raise Refused(f'the format "{form}" for reading times')
        if name is None:
            pattern += f"[{found['between']}]"
        else:
            pattern += _DIGITS[name]
            groups[name] = len(groups) + 1
        at = found.end()
    if "YYYY" not in groups or ("MS" in groups and "US" in groups):
        raise Refused(f'the format "{form}" for reading times')
    return f"^{pattern}\\z", groups


def time_reading(use: Use) -> str:
    """The SQL of `to_date` or `to_timestamp` of a text in a format."""
    text, wanted = use.arguments
    if wanted.text is None:
        raise Refused("a format for reading times that is not a constant")
    pattern, groups = _fields(wanted.text)

    def number(name: str, otherwise: int) -> str:
        if name not in groups:
            return str(otherwise)
        return f"CAST(REGEXP_EXTRACT({text.sql}, {quoted(pattern)}, {groups[name]}) AS INT)"

    micros = f"({number('MS', 0)} * 1000 + {number('US', 0)})"
    seconds = f"CAST({number('SS', 0)} + {micros} * 0.000001BD AS DECIMAL(16,6))"
    day = f"{number('YYYY', 0)}, {number('MM', 1)}, {number('DD', 1)}"
    if use.result == DATE:
        made = f"MAKE_DATE({day})"
    else:
        clock = f"{number('HH24', 0)}, {number('MI', 0)}, {seconds}"
        made = dt.to_moment(f"MAKE_TIMESTAMP_NTZ({day}, {clock})", use.zone)
    other = raised(
        "0A000", "reading a time that is not written just as its format is not supported"
    )
    is_such = f"{text.sql} RLIKE {quoted(pattern)}"
    return f"(CASE WHEN {is_such} THEN {made} WHEN {text.sql} IS NOT NULL THEN {other} END)"
