"""The text of an array as PostgreSQL writes it, taken apart: `{1,NULL,"a b"}`.

Elements are in quotes where they need to be, with backslashes before quotes and backslashes; NULL
without quotes is null. An array of several dimensions, or one that does not begin at 1, is more
than a list, and is refused.
"""

from __future__ import annotations

import re

_PIECE = re.compile(r'(?:"((?:[^"\\]|\\.)*)"|([^",{}\\]+))(?:,|$)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class Unholdable(Exception):
    """The value is right, but there is no way to hold it."""


def elements_of(text: str) -> list[str | None]:
    """The elements. Raises `Unholdable`."""
    if text.startswith("["):
        raise Unholdable("it does not begin at 1")
    if text.startswith("{{"):
        raise Unholdable("it has several dimensions")
    body = text[1:-1]
    found: list[str | None] = []
    place = 0
    while place < len(body):
        match = _PIECE.match(body, place)
        if match is None:
            raise Unholdable("it is not in the form that was expected")
        quoted, plain = match.groups()
        if quoted is not None:
            found.append(_ESCAPED.sub(r"\1", quoted))
        else:
            found.append(None if plain == "NULL" else plain)
        place = match.end()
    return found
