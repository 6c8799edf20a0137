"""The text of an array taken apart into its elements: `{1,NULL,"a b"}`."""

from __future__ import annotations

import re

from waterclock.pgwire.values.errors import InvalidText, UnsupportedValue

_SPACE = " \t\n\r\v\f"
"""What counts as blank, which is less than Python's idea of it."""
_BOUNDS = re.compile(r"\s*(?:\[[+-]?\d+(?::[+-]?\d+)?\])+\s*=", re.ASCII)
_PIECE = re.compile(
    r"""[\s\x0b]*(?:"((?:[^"\\]|\\.)*)"[\s\x0b]*|((?:[^",{}\\]|\\.)+))(?=[,}])""",
    re.DOTALL | re.ASCII,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def split_array(text: str) -> list[str | None]:
    """The elements, None for NULL; `InvalidText`. There is one dimension only."""
    bounds = _BOUNDS.match(text)
    body = (text[bounds.end() :] if bounds else text).strip(_SPACE)
    if not body.startswith("{"):
        raise _malformed(text, 'Array value must start with "{" or dimension information.')
    if not body[1:].lstrip(_SPACE).removeprefix("}"):
        if body.endswith("}"):
            return []
        raise _malformed(text, "Unexpected end of input.")
    elements: list[str | None] = []
    place = 1
    while True:
        match = _PIECE.match(body, place)
        if match is None:
            raise _not_an_element(text, body, place)
        elements.append(_element(match, text))
        place = match.end() + 1
        if body[place - 1] == "}":
            break
    if body[place:].strip(_SPACE):
        raise _malformed(text, "Junk after closing right brace.")
    return elements


def _element(match: re.Match[str], text: str) -> str | None:
    quoted, plain = match.groups()
    if quoted is not None:
        return _ESCAPED.sub(r"\1", quoted) if "\\" in quoted else quoted
    plain = plain.strip(_SPACE)
    if not plain:
        raise _malformed(text, 'Unexpected "," character.')
    if plain.upper() == "NULL":
        return None
    return _ESCAPED.sub(r"\1", plain) if "\\" in plain else plain


def _not_an_element(text: str, body: str, place: int) -> InvalidText | UnsupportedValue:
    rest = body[place:].lstrip(_SPACE)
    if rest.startswith("{"):
        return UnsupportedValue("arrays of more than one dimension are not supported")
    if rest[:1] in ("}", ","):
        return _malformed(text, f'Unexpected "{rest[0]}" character.')
    if '"' in rest:
        return _malformed(text, "Incorrectly quoted array element.")
    return _malformed(text, "Unexpected end of input.")


def _malformed(text: str, detail: str) -> InvalidText:
    return InvalidText(f'malformed array literal: "{text}"', detail=detail)
