"""`encode` and `decode`: bytes as text in one of the forms hex, base64 and escape.

The form is a constant, since it decides how the bytes are written.
"""

from __future__ import annotations

from waterclock.model.pg_types import BYTEA, TEXT
from waterclock.sql.dialect.casts import bytes_of_escaped, bytes_of_hex
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.literals import quoted
from waterclock.sql.functions.registry import Argument, Function, Invalid, Refused, Use, scalar

_WRONG = "22023"
_BLANKS = quoted("[ \\n\\t\\r]")


def _form(argument: Argument) -> str:
    if argument.text is None:
        raise Refused("an encoding that is not a constant")
    form = argument.text.lower()
    if form not in ("hex", "base64", "escape"):
        raise Invalid(_WRONG, f'unrecognized encoding: "{argument.text}"')
    return form


def _encoded(use: Use) -> str:
    data, form = use.arguments
    match _form(form):
        case "hex":
            return f"LOWER(HEX({data.sql}))"
        case "base64":
            return _lines(data.sql)
        case _:
            return _escaped(data.sql)


def _lines(data: str) -> str:
    """Each line has 76 characters, and one that has no padding is ended even if it is the last."""
    full = quoted("([^=]{76})")
    plain = f"REGEXP_REPLACE(BASE64({data}), {_BLANKS}, '')"
    return f"REGEXP_REPLACE({plain}, {full}, {quoted(f'$1{chr(10)}')})"


def _escaped(data: str) -> str:
    """Zeros and bytes beyond ASCII in octal, backslashes twice, everything else as it is."""
    slash = quoted("\\")
    octal = f"CONCAT({slash}, LPAD(CONV(h, 16, 8), 3, '0'))"
    each = (
        f"CASE WHEN h = '00' OR h >= '80' THEN {octal}"
        f" WHEN h = '5C' THEN {quoted(chr(92) * 2)} ELSE DECODE(UNHEX(h), 'UTF-8') END"
    )
    return f"ARRAY_JOIN(TRANSFORM(REGEXP_EXTRACT_ALL(HEX({data}), '..', 0), h -> {each}), '')"


def _decoded(use: Use) -> str:
    text, form = use.arguments
    match _form(form):
        case "hex":
            return bytes_of_hex(text.sql)
        case "base64":
            return _from_base64(text.sql)
        case _:
            return bytes_of_escaped(text.sql)


def _from_base64(text: str) -> str:
    plain = f"REGEXP_REPLACE({text}, {_BLANKS}, '')"
    whole = quoted(r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\z")
    wrong = raised(_WRONG, "invalid base64 end sequence or symbol")
    more = raised("0A000", "base64 that goes on behind its end is not supported")
    return (
        f"(CASE WHEN {plain} RLIKE {whole} THEN UNBASE64({plain})"
        f" WHEN {plain} RLIKE '=[A-Za-z0-9+/]' THEN {more}"
        f" WHEN {plain} IS NOT NULL THEN {wrong} END)"
    )


ENCODINGS: tuple[Function, ...] = (
    scalar(*("encode", (BYTEA, TEXT), TEXT, _encoded), "Bytes as text, in hex, base64 or escape."),
    scalar(
        *("decode", (TEXT, TEXT), BYTEA, _decoded), "Bytes from text, in hex, base64 or escape."
    ),
)
