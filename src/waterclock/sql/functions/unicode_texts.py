"""Characters by their numbers, and the normal forms of Unicode.

Normal forms are Java's (`Matches`), which may know a later version of Unicode than PostgreSQL.
"""

from __future__ import annotations

import re

from waterclock.model.pg_types import BOOL, TEXT
from waterclock.sql.dialect.literals import quoted
from waterclock.sql.errors import SqlFault
from waterclock.sql.escapes import with_code_points
from waterclock.sql.functions.registry import Function, Invalid, Refused, SqlRule, Use, scalar

_FORMS = frozenset({"NFC", "NFD", "NFKC", "NFKD"})
_ESCAPE = re.compile(r"\\\\|\\u(?=[0-9A-Fa-f]{4})|\\U00(?=[0-9A-Fa-f]{6})")
_AS_CODE_POINT = {"\\u": "\\", "\\U00": "\\+"}


def _in_form(call: str) -> SqlRule:
    def written(use: Use) -> str:
        value, form = use.arguments
        name = (form.text or "").upper()
        if form.text is None:
            raise Refused("a normal form of Unicode that is not a constant")
        if name not in _FORMS:
            raise Invalid("22023", f"invalid normalization form: {form.text}")
        return f"{call}({value.sql}, {quoted(name)})"

    return written


def _unescaped(use: Use) -> str:
    """`unistr`, which reads escapes as `U&'...'` does, and two more."""
    [value] = use.arguments
    if value.text is None:
        raise Refused("unistr() of a text that is not a constant")
    alike = _ESCAPE.sub(lambda found: _AS_CODE_POINT.get(found[0], found[0]), value.text)
    try:
        return quoted(with_code_points(alike, "\\", 0))
    except SqlFault as fault:
        raise Invalid(fault.sqlstate, str(fault)) from None


UNICODE: tuple[Function, ...] = (
    scalar(
        *("normalize", (TEXT, TEXT), TEXT, _in_form("WC_NORMALIZED")),
        "The text in a normal form of Unicode.",
    ),
    scalar(
        *("is_normalized", (TEXT, TEXT), BOOL, _in_form("WC_IS_NORMALIZED")),
        "Whether the text is in a normal form of Unicode.",
    ),
    scalar("unistr", (TEXT,), TEXT, _unescaped, "A constant with characters by their numbers."),
)
