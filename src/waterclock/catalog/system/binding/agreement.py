"""What DuckDB is trusted with: where it is known to mean what PostgreSQL means.

Queries over the system relations are about names, numbers of objects and flags, and there the two
agree. Over times, fractions and JSON they often do not, and nobody would be told. So a conversion
is made only if it is on the list here, a constant of such a type only if it is written plainly, and
arithmetic only on integers, floats, and times without months. Everything else is refused by name.
"""

from __future__ import annotations

import datetime
import re

import msgspec

from waterclock.catalog.system import types as t

_DELICATE = frozenset(
    [
        *(t.NUMERIC, t.FLOAT4, t.FLOAT8, t.BYTEA, t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ),
        *(t.INTERVAL, t.UUID, t.JSON, t.JSONB),
    ]
)
_NUMBERS = frozenset([*t.INTEGERS, t.NUMERIC, t.FLOAT4, t.FLOAT8])
_SHOWN_ALIKE = frozenset([t.DATE, t.TIME, t.TIMESTAMP, t.UUID, t.JSON])
"""Types whose text is the same on both sides."""
_DAY = r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?"
_FORMS = {
    t.DATE: re.compile(_DAY),
    t.TIME: re.compile(_CLOCK),
    t.TIMESTAMP: re.compile(rf"{_DAY}(?:[ T]{_CLOCK})?"),
    t.TIMESTAMPTZ: re.compile(rf"{_DAY}[ T]{_CLOCK}(?:Z|[+-][0-9]{{2}}(?::[0-9]{{2}})?)"),
    t.INTERVAL: re.compile(rf"[0-9]{{1,6}} (?:second|minute|hour|day)s?|{_CLOCK}"),
    t.NUMERIC: re.compile(r"[+-]?[0-9]{1,30}(?:\.[0-9]{1,6})?"),
    t.FLOAT4: re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?"),
    t.BYTEA: re.compile(r"\\x(?:[0-9a-fA-F]{2})*"),
    t.JSONB: re.compile(r"\{\}|\[\]|null|true|false"),
}
_FORMS[t.FLOAT8] = _FORMS[t.FLOAT4]
FIELDS = frozenset({"year", "month", "day", "hour", "minute", "dow", "doy", "week", "quarter"})
"""Fields of `extract` that are whole numbers on both sides."""


def may_convert(source: int, target: int, *, is_text: bool) -> bool:
    """Whether DuckDB's cast is PostgreSQL's; `is_text` tells whether the target is a text."""
    if source in _DELICATE and is_text and target not in _DELICATE:
        return source in _SHOWN_ALIKE
    if source == t.BOOL and target in (t.NAME, t.CHAR):
        return False
    if {source, target} <= _NUMBERS:
        return (source, target) not in ((t.FLOAT4, t.NUMERIC), (t.FLOAT8, t.NUMERIC))
    if {source, target} == {t.DATE, t.TIMESTAMP} or (source, target) == (t.TIMESTAMP, t.TIME):
        return True
    return source not in _DELICATE and target not in _DELICATE


def plain(text: str, oid: int) -> str | None:
    """A constant as DuckDB reads it; None if it is not known to read it as PostgreSQL does."""
    form = _FORMS.get(oid)
    if form is None:
        return text if oid != t.JSON or _is_json(text) else None
    word = text.strip()
    if form.fullmatch(word) is None:
        return None
    return _in_utc(word) if oid == t.TIMESTAMPTZ else word


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


def _in_utc(text: str) -> str | None:
    """A moment, which is held as the local time in UTC."""
    try:
        moment = datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return None
    return moment.replace(tzinfo=None).isoformat(" ")


def may_compute(operator: str, left: int, right: int) -> bool:
    """Whether an arithmetic operator gives what PostgreSQL's gives."""
    if t.NUMERIC in (left, right):
        return False
    moments = {t.TIMESTAMP, t.TIMESTAMPTZ}
    if t.INTERVAL in (left, right):
        return operator in ("+", "-") and left in moments and right == t.INTERVAL
    if t.DATE in (left, right):
        return (operator, left, right) == ("-", t.DATE, t.DATE)
    return True
