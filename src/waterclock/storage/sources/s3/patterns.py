"""Which keys a source wants: `logs/**/*.json.gz`.

`*` stands for any part of a name between two slashes, `**/` for any folders, also none, and a `**`
elsewhere for anything at all; `?` is one character, `[a-c]` one of several, `{a,b}` one of the
alternatives. Everything else is itself. What is before the first of these is the prefix that the
bucket is asked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from waterclock.storage.sources.errors import InvalidSource

_SPECIAL = "*?[{"


@dataclass(frozen=True, slots=True)
class KeyPattern:
    """`prefix` is common to all keys that match."""

    text: str | None
    prefix: str
    _compiled: re.Pattern[str] | None

    @classmethod
    def of(cls, text: str | None) -> KeyPattern:
        """None is every key. Raises `InvalidSource`."""
        if text is None:
            return cls(None, "", None)
        end = min((text.find(mark) for mark in _SPECIAL if mark in text), default=len(text))
        try:
            compiled = re.compile(_expression(text), re.DOTALL)
        except re.error as error:
            raise InvalidSource(f'the pattern "{text}" is not valid: {error}') from None
        return cls(text, text[:end], compiled)

    def matches(self, key: str) -> bool:
        """Whether the key of an object is wanted. Those of folders, which end with a slash, and
        parts that begin with a dot or an underscore are not: they are about other objects.
        """
        if key.endswith("/") or any(part[:1] in (".", "_") for part in key.split("/")):
            return False
        return self._compiled is None or self._compiled.fullmatch(key) is not None


def _expression(text: str) -> str:
    found: list[str] = []
    at, depth = 0, 0
    while at < len(text):
        mark = text[at]
        if text.startswith("**/", at) and (at == 0 or text[at - 1] == "/"):
            found.append("(?:[^/]+/)*")
            at += 3
            continue
        if text.startswith("**", at):
            found.append(".*")
            at += 2
            continue
        end = text.find("]", at + 2) if mark == "[" else -1
        if mark == "[" and end < 0:
            raise InvalidSource(f'the pattern "{text}" has a bracket that is not closed')
        if mark == "[":
            inside = text[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            found.append(f"[^/{inside[1:]}]" if inside[0] in "!^" else f"[{inside}]")
            at = end + 1
            continue
        if mark == "*":
            found.append("[^/]*")
        elif mark == "?":
            found.append("[^/]")
        elif mark == "{":
            depth += 1
            found.append("(?:")
        elif mark == "}" and depth:
            depth -= 1
            found.append(")")
        elif mark == "," and depth:
            found.append("|")
        else:
            found.append(re.escape(mark))
        at += 1
    if depth:
        raise InvalidSource(f'the pattern "{text}" has a bracket that is not closed')
    return "".join(found)
