"""PostgreSQL's text form of one-dimensional arrays: `{a,"b c",NULL}`."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PART = re.compile(
    r'\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>(?:[^,"{}\\]|\\.)+))\s*', re.DOTALL
)
_NEEDS_QUOTES = re.compile(r'[\s{},"\\]|\A\Z|\A[nN][uU][lL][lL]\Z')


def array_elements(text: str) -> list[str | None]:
    """The elements; `ValueError` if it is not such an array."""
    inner = text.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise ValueError(text)
    inner = inner[1:-1]
    if not inner.strip():
        return []
    parts: list[str | None] = []
    at = 0
    while True:
        match = _PART.match(inner, at)
        if match is None:
            raise ValueError(text)
        parts.append(_element(match))
        at = match.end()
        if at == len(inner):
            return parts
        if inner[at] != ",":
            raise ValueError(text)
        at += 1


def _element(match: re.Match[str]) -> str | None:
    if match["quoted"] is not None:
        return re.sub(r"\\(.)", r"\1", match["quoted"], flags=re.DOTALL)
    plain = match["plain"].rstrip()
    return None if plain.upper() == "NULL" else re.sub(r"\\(.)", r"\1", plain, flags=re.DOTALL)


def array_text(elements: Iterable[str | None]) -> str:
    return "{" + ",".join("NULL" if part is None else _written(part) for part in elements) + "}"


def _written(part: str) -> str:
    if not _NEEDS_QUOTES.search(part):
        return part
    return '"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"'
