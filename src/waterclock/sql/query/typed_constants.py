"""Constants with the name of their type before them: `date '2020-01-01'`.

They are casts of a string. An interval may also say which fields its string has; the string is then
written with the fields named, so that whoever reads the constant need not know of them.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal

from waterclock.sql.errors import FeatureNotSupported, SyntaxFault
from waterclock.sql.query.tree import Cast, Expression, String
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind, Token
from waterclock.sql.types import type_name_of_value

_TYPE_WORDS = frozenset(
    [
        *("bigint", "bit", "boolean", "char", "character", "dec", "decimal", "double", "float"),
        *("int", "integer", "interval", "national", "nchar", "numeric", "real", "smallint"),
        *("time", "timestamp", "varchar"),
    ]
)
_INTERVAL_FIELDS = ("year", "month", "day", "hour", "minute", "second")
_SECONDS = r"\d+(?:\.\d*)?"
_OF_FIELDS = {
    ("year", "month"): (r"(-?\d+-\d+)", r"\1"),
    ("day", "hour"): (r"(\d+) (\d+)", r"\1 days \2 hours"),
    ("day", "minute"): (r"(\d+) (\d+:\d+)", r"\1 days \2"),
    ("day", "second"): (rf"(\d+) (\d+:\d+:{_SECONDS})", r"\1 days \2"),
    ("hour", "minute"): (r"(-?\d+:\d+)", r"\1"),
    ("hour", "second"): (rf"(-?\d+:\d+:{_SECONDS})", r"\1"),
    ("minute", "second"): (rf"(\d+):({_SECONDS})", r"\1 minutes \2 seconds"),
}
"""How constants of several fields are written, and what they are without naming them."""


def try_typed_constant(stream: TokenStream) -> Expression | None:
    """`date '2020-01-01'`, `interval '1' day`, `timestamp with time zone '...'`."""
    first = stream.index
    token = stream.token
    is_type_word = token.kind is Kind.WORD and token.value in _TYPE_WORDS
    if not is_type_word and stream.peek().kind is not Kind.STRING:
        return None
    try:
        found = type_name_of_value(stream)
    except SyntaxFault:
        stream.back_to(first)
        return None
    if stream.token.kind is not Kind.STRING:
        stream.back_to(first)
        return None
    constant = stream.advance()
    text = constant.value
    if is_type_word and token.value == "interval" and stream.at_any(*_INTERVAL_FIELDS):
        text = _of_field(stream, text, constant)
    return Cast(String(text, constant.position), found, token.position)


def _of_field(stream: TokenStream, text: str, constant: Token) -> str:
    """`interval '3' day`, `interval '1-2' year to month`: a constant of just these fields."""
    first = last = stream.advance().value
    if stream.accept("to"):
        last = stream.expect_any(*_INTERVAL_FIELDS)
    places = None
    if last == "second" and stream.accept_mark("("):
        places = stream.integer()
        stream.expect_mark(")")
    is_number = text.strip().removeprefix("-").replace(".", "", 1).isdigit()
    if is_number:
        if last != "second":  # what is less than the field is left out
            text = str(int(Decimal(text)))
        return _rounded(f"{text} {last}", places)
    form = _OF_FIELDS.get((first, last))
    found = None if form is None else re.fullmatch(form[0], text.strip())
    if form is None or found is None:
        what = "an interval of some fields only"
        raise FeatureNotSupported.of(what, constant.position)
    return _rounded(found.expand(form[1]), places)


def _rounded(text: str, places: int | None) -> str:
    """The constant with so many digits of a second: they are the only ones behind a point."""
    if places is None:
        return text
    least = Decimal(1).scaleb(-places)

    def rounded(found: re.Match[str]) -> str:
        return str(Decimal(found[0]).quantize(least, ROUND_HALF_UP))

    return re.sub(r"[0-9]+\.[0-9]+", rounded, text)
