"""Functions on values that DuckDB has not, or has with another meaning.

Plain functions, called for each row; `calls` makes them known to DuckDB. Unless a parameter says
that it may be None, a null argument makes the result null before the function is asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from waterclock.catalog.system.arrays import array_elements, array_text
from waterclock.catalog.system.errors import (
    DivisionByZero,
    FeatureNotSupported,
    InvalidRegularExpression,
    InvalidText,
    InvalidValue,
    NumberOutOfRange,
    ProgramLimitExceeded,
)


def divisor(value: int) -> int:
    if value == 0:
        raise DivisionByZero("division by zero")
    return value


_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")
_TRUE = frozenset({"t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"})
_FALSE = frozenset({"f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"})
_LONGEST = 16 * 1024 * 1024
"""Size limit of texts made by repeat(), lpad() and the like."""


def integer_in(text: str) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise InvalidText(f'invalid input syntax for type integer: "{text}"')
    number = int(text)
    if not -(1 << 63) <= number < 1 << 63:
        raise NumberOutOfRange(f'value "{text}" is out of range for type bigint')
    return number


def boolean_in(text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE | _FALSE:
        raise InvalidText(f'invalid input syntax for type boolean: "{text}"')
    return word in _TRUE


def lower_case(text: str) -> str:
    """Each character by itself, as PostgreSQL does it."""
    plain = text.replace("\u0130", "i")
    return "".join(one if len(one.lower()) != 1 else one.lower() for one in plain)


def upper_case(text: str) -> str:
    return "".join(one if len(one.upper()) != 1 else one.upper() for one in text)


def character(number: int) -> str:
    if number < 0:
        raise InvalidValue("character number must be positive")
    if number == 0 or number > 0x10FFFF or 0xD800 <= number < 0xE000:
        raise ProgramLimitExceeded("requested character not valid for encoding")
    return chr(number)


def split_part(text: str, between: str, place: int) -> str:
    if place == 0:
        raise InvalidValue("field position must not be zero")
    parts = text.split(between) if between else [text]
    index = place - 1 if place > 0 else len(parts) + place
    return parts[index] if 0 <= index < len(parts) else ""


def repeated(text: str, times: int) -> str:
    if times > 0 and len(text.encode()) * times > _LONGEST:
        raise ProgramLimitExceeded("requested length too large")
    return text * times


def padded(text: str, length: int, filling: str, left: bool) -> str:
    if length > _LONGEST:
        raise ProgramLimitExceeded("requested length too large")
    missing = max(length, 0) - len(text)
    if missing <= 0 or not filling:
        return text[: max(length, 0)]
    more = (filling * (missing // len(filling) + 1))[:missing]
    return more + text if left else text + more


def shifted(value: int, operator: str, count: int, bits: int) -> int:
    """Bits moved as a processor does it: the count goes around, what falls out is lost."""
    count %= bits
    if operator == ">>":
        return value >> count
    half = 1 << (bits - 1)
    return ((value << count) + half) % (2 * half) - half


def array_in(text: str) -> list[str | None]:
    try:
        return array_elements(text)
    except ValueError:
        raise InvalidText(f'malformed array literal: "{text}"') from None


def array_out(elements: list[str | None]) -> str:
    return array_text(elements)


def join(parts: list[str | None] | None, between: str | None, null: str | None) -> str | None:
    if parts is None or between is None:
        return None
    shown = [null if part is None else part for part in parts]
    return between.join(part for part in shown if part is not None)


def string_to_array(text: str | None, between: str | None) -> list[str] | None:
    if text is None:
        return None
    if between is None:
        return list(text)
    if not text:
        return []
    return text.split(between) if between else [text]


def substring(text: str | None, start: int | None, length: int | None) -> str | None:
    if text is None or start is None:
        return None
    if length is None:
        return text[max(start - 1, 0) :]
    if length < 0:
        raise InvalidValue("negative substring length not allowed")
    return text[max(start - 1, 0) : max(start - 1 + length, 0)]


def regexp_substring(text: str, pattern: str) -> str | None:
    match = _compiled(pattern).search(text)
    if match is None:
        return None
    return match.group(1) if match.re.groups else match.group()


def regexp_replace(text: str, pattern: str, by: str, flags: str) -> str:
    wrong = set(flags) - set("gi")
    if wrong:
        raise InvalidValue(f'invalid regular expression option: "{min(wrong)}"')
    count = 0 if "g" in flags else 1
    compiled = _compiled(pattern, ignore_case="i" in flags)
    return compiled.sub(lambda match: _replacement(by, match), text, count=count)


def _replacement(by: str, match: re.Match[str]) -> str:
    """`\\1` is a group and `\\&` the whole match; any other backslash is one."""

    def shown(found: re.Match[str]) -> str:
        what = found.group(1)
        if what == "&":
            return match.group()
        if what == "\\":
            return what
        return (match.group(int(what)) or "") if int(what) <= match.re.groups else ""

    return re.sub(r"\\([1-9&\\])", shown, by)


def regexp_match(text: str, pattern: str) -> list[str | None] | None:
    match = _compiled(pattern).search(text)
    if match is None:
        return None
    return list(match.groups()) if match.re.groups else [match.group()]


def regexp_split(text: str, pattern: str) -> list[str]:
    parts, at = [], 0
    for match in _compiled(pattern).finditer(text):
        if not match.group():
            raise FeatureNotSupported("splitting at matches of nothing is not supported")
        parts.append(text[at : match.start()])
        at = match.end()
    return [*parts, text[at:]]


def initcap(text: str) -> str:
    def word(match: re.Match[str]) -> str:
        return upper_case(match.group()[0]) + lower_case(match.group()[1:])

    return re.sub(r"[^\W_]+", word, text)


def quote_literal(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"E'{escaped}'".replace("\\", "\\\\") if "\\" in text else f"'{escaped}'"


def parse_ident(text: str, is_strict: bool) -> list[str]:
    """The names of a qualified one; what stands behind it is left out unless `is_strict`."""
    if not text.isascii():
        raise FeatureNotSupported("parse_ident() of other characters than ASCII is not supported")
    parts: list[str] = []
    at = _behind_blanks(text, 0)
    while True:
        found = _IDENTIFIER.match(text, at)
        if found is None:
            raise _no_identifier(text, _why_none(text, at, is_first=not parts))
        quoted, plain = found.groups()
        if quoted == "":
            raise _no_identifier(text, "Quoted identifier must not be empty.")
        parts.append(lower_case(plain) if quoted is None else quoted.replace('""', '"'))
        at = _behind_blanks(text, found.end())
        if text[at : at + 1] != ".":
            break
        at = _behind_blanks(text, at + 1)
    if is_strict and at < len(text):
        raise _no_identifier(text)
    return parts


_IDENTIFIER = re.compile(r'"((?:[^"]|"")*)"(?!")|([A-Za-z_][A-Za-z0-9_$]*)')
_BLANKS = re.compile(r"[ \t\n\r\f]*")


def _behind_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    assert found is not None, "there may be none"
    return found.end()


def _why_none(text: str, at: int, *, is_first: bool) -> str | None:
    match text[at : at + 1]:
        case '"':
            return "String has unclosed double quotes."
        case ".":
            return 'No valid identifier before ".".'
    return None if is_first else 'No valid identifier after ".".'


def _no_identifier(text: str, detail: str | None = None) -> InvalidValue:
    return InvalidValue(f'string is not a valid identifier: "{text}"', detail=detail)


def formatted(quote: Callable[[str], str], *values: str | None) -> str | None:
    """What `format` gives; `quote` quotes names."""
    template, *arguments = values
    if template is None:
        return None
    waiting = list(arguments)

    def shown(match: re.Match[str]) -> str:
        kind = match.group(2)
        if kind not in ("%", "s", "I", "L"):
            raise InvalidValue(f'unrecognized format() type specifier "{kind}"')
        if kind == "%":
            return "%"
        place = match.group(1)
        value = arguments[int(place) - 1] if place else _next(waiting)
        if kind == "s":
            return value or ""
        if kind == "L":
            return "NULL" if value is None else quote_literal(value)
        if value is None:
            raise InvalidValue("null values cannot be formatted as an SQL identifier")
        return quote(value)

    return re.sub(r"%(?:(\d+)\$)?(.?)", shown, template, flags=re.DOTALL)


def _next(waiting: list[str | None]) -> str | None:
    if not waiting:
        raise InvalidValue("too few arguments for format()")
    return waiting.pop(0)


def _compiled(pattern: str, *, ignore_case: bool = False) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.DOTALL | (re.IGNORECASE if ignore_case else 0))
    except re.error:
        raise InvalidRegularExpression(f"invalid regular expression: {pattern}") from None
