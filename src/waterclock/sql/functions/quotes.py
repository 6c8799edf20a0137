"""Texts that become part of SQL: `quote_ident`, `quote_literal`, and `format`, which uses both."""

from __future__ import annotations

import re

from waterclock.model.pg_types import TEXT
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.literals import quoted
from waterclock.sql.dialect.texts import output_of
from waterclock.sql.dialect.types import ANY, ANYELEMENT
from waterclock.sql.functions.registry import Argument, Function, Invalid, Refused, Use, scalar
from waterclock.sql.keywords import QUOTED

_PLAIN_NAME = quoted(r"^[a-z_][a-z0-9_]*\z")
_BACKSLASH = quoted("\\")
_ESCAPED = "E'"
_PLACEHOLDER = re.compile(
    r"%(?:(?P<place>[0-9]+)\$)?(?P<left>-?)(?P<width>[0-9]+|\*)?"
    r"(?:(?<=\*)(?P<width_place>[0-9]+)\$)?(?P<kind>.?)",
    re.DOTALL,
)
_WRONG = "22023"


def _name(text: str) -> str:
    """A text as the name of something, in quotes if it needs them."""
    words = ", ".join(quoted(word) for word in sorted(QUOTED))
    is_plain = f"{text} RLIKE {_PLAIN_NAME} AND {text} NOT IN ({words})"
    made = f"CONCAT('\"', REPLACE({text}, '\"', '\"\"'), '\"')"
    return f"(CASE WHEN {is_plain} THEN {text} ELSE {made} END)"


def _constant(text: str) -> str:
    """A text as a string constant. With a backslash in it, it is one with escapes."""
    quote, two = quoted("'"), quoted("''")
    doubled = f"REPLACE({text}, {quote}, {two})"
    escaped = f"REPLACE({doubled}, {_BACKSLASH}, {quoted(chr(92) * 2)})"
    return (
        f"(CASE WHEN CONTAINS({text}, {_BACKSLASH}) THEN"
        f" CONCAT({quoted(_ESCAPED)}, {escaped}, {quote})"
        f" ELSE CONCAT({quote}, {doubled}, {quote}) END)"
    )


def _shown(argument: Argument, use: Use) -> str:
    return output_of(argument.sql, argument.type, use.manner)


def _quoted_name(use: Use) -> str:
    return _name(use.arguments[0].sql)


def _quoted_value(use: Use) -> str:
    return _constant(_shown(use.arguments[0], use))


def _quoted_or_null(use: Use) -> str:
    return f"COALESCE({_quoted_value(use)}, 'NULL')"


# --- format ---------------------------------------------------------------------------------------


def _formatted(use: Use) -> str:
    """`format` of a constant."""
    form, *rest = use.arguments
    if form.text is None:
        raise Refused("format() of a text that is not a constant")
    pieces: list[str] = []
    at, taken = 0, 0
    for found in _PLACEHOLDER.finditer(form.text):
        pieces.append(quoted(form.text[at : found.start()]))
        at = found.end()
        if found.group() == "%%":
            pieces.append("'%'")
            continue
        width = found["width"]
        if width == "*":
            taken = _place(found, "width_place", taken, len(rest))
            width = f"COALESCE(CAST({_shown(rest[taken - 1], use)} AS INT), 0)"
        taken = _place(found, "place", taken, len(rest))
        pieces.append(_padded(_converted(found["kind"], rest[taken - 1], use), found, width))
    pieces.append(quoted(form.text[at:]))
    return f"CONCAT({', '.join(pieces)})"


def _place(found: re.Match[str], name: str, taken: int, count: int) -> int:
    """Which argument is meant, from 1 on: the one whose number is given, or the next."""
    kind = found["kind"]
    if not kind:
        raise Invalid(_WRONG, "unterminated format() type specifier")
    if kind not in "sIL":
        raise Invalid(_WRONG, f'unrecognized format() type specifier "{kind}"')
    place = taken + 1 if found[name] is None else int(found[name])
    if place == 0:
        raise Invalid(_WRONG, "format specifies argument 0, but arguments are numbered from 1")
    if place > count:
        raise Invalid(_WRONG, "too few arguments for format()")
    return place


def _converted(kind: str, argument: Argument, use: Use) -> str:
    text = _shown(argument, use)
    match kind:
        case "I":
            missing = raised("22004", "null values cannot be formatted as an SQL identifier")
            return _name(f"COALESCE({text}, {missing})")
        case "L":
            return f"COALESCE({_constant(text)}, 'NULL')"
        case _:
            return f"COALESCE({text}, '')"


def _padded(text: str, found: re.Match[str], width: str | None) -> str:
    """With blanks up to a width; what is longer stays whole. Below 0 they are on the right."""
    if width is None:
        return text
    blanks = f"WC_REPEAT(' ', ABS({width}) - CHAR_LENGTH({text}))"
    left, right = f"CONCAT({text}, {blanks})", f"CONCAT({blanks}, {text})"
    if found["left"] or found["width"] != "*":
        return left if found["left"] else right
    return f"(CASE WHEN {width} < 0 THEN {left} ELSE {right} END)"


FUNCTIONS: tuple[Function, ...] = (
    scalar("quote_ident", (TEXT,), TEXT, _quoted_name, "A name, in quotes if it needs them."),
    scalar("quote_literal", (TEXT,), TEXT, _quoted_value, "A text as a constant of SQL."),
    scalar("quote_literal", (ANYELEMENT,), TEXT, _quoted_value, "A value as a constant of SQL."),
    scalar(
        *("quote_nullable", (TEXT,), TEXT, _quoted_or_null, "A text as a constant, or NULL."),
        never_null=True,
    ),
    scalar(
        *("quote_nullable", (ANYELEMENT,), TEXT, _quoted_or_null, "A value so, or NULL."),
        never_null=True,
    ),
    scalar("format", (TEXT,), TEXT, _formatted, "A constant without values.", is_variadic=False),
    scalar(
        *("format", (TEXT, ANY), TEXT, _formatted, "A constant with values for %s, %I and %L."),
        is_variadic=True,
    ),
)
