"""Functions on values that DuckDB has not, or has with another meaning.

Plain functions, called for each row; `calls` makes them known to DuckDB. Unless a parameter says
that it may be None, a null argument makes the result null before the function is asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from waterclock.catalog.system.arrays import array_elements, array_text
from waterclock.catalog.system.directory import name_parts
from waterclock.catalog.system.errors import (
    CatalogQueryError,
    DivisionByZero,
    InvalidRegularExpression,
    InvalidText,
    InvalidValue,
)


def divisor(value: int) -> int:
    if value == 0:
        raise DivisionByZero("division by zero")
    return value


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
    count = 0 if "g" in flags else 1
    compiled = _compiled(pattern, ignore_case="i" in flags)
    by = re.sub(r"\\&", r"\\g<0>", by)
    return compiled.sub(by, text, count=count)


def regexp_match(text: str, pattern: str) -> list[str | None] | None:
    match = _compiled(pattern).search(text)
    if match is None:
        return None
    return list(match.groups()) if match.re.groups else [match.group()]


def regexp_split(text: str, pattern: str) -> list[str]:
    parts, at = [], 0
    for match in _compiled(pattern).finditer(text):
        parts.append(text[at : match.start()])
        at = match.end()
    return [*parts, text[at:]]


def initcap(text: str) -> str:
    return re.sub(r"[^\W_]+", lambda match: match.group().capitalize(), text)


def quote_literal(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"E'{escaped}'".replace("\\", "\\\\") if "\\" in text else f"'{escaped}'"


def parse_ident(text: str) -> list[str]:
    try:
        return name_parts(text)
    except CatalogQueryError:
        raise InvalidValue(f'string is not a valid identifier: "{text}"') from None


def formatted(quote: Callable[[str], str], *values: str | None) -> str | None:
    """What `format` gives; `quote` quotes names."""
    template, *arguments = values
    if template is None:
        return None
    waiting = list(arguments)

    def shown(match: re.Match[str]) -> str:
        kind = match.group(2)
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

    return re.sub(r"%(?:(\d+)\$)?([sIL%])", shown, template)


def _next(waiting: list[str | None]) -> str | None:
    if not waiting:
        raise InvalidValue("too few arguments for format()")
    return waiting.pop(0)


def _compiled(pattern: str, *, ignore_case: bool = False) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.DOTALL | (re.IGNORECASE if ignore_case else 0))
    except re.error:
        raise InvalidRegularExpression(f"invalid regular expression: {pattern}") from None
