"""Regular expressions that match nothing in too many ways.

Java's engine tries one way after the other, and looks at a character for each step. So steps can be
counted, and a match that takes too many is ended (`compute/jvm/Stepped.java`). The exception is the
end of the text, where there is no character to look at: there `(|)(|)(|)x` is tried in 2 * 2 * 2
ways unnoticed. An expression with too many such ways is refused before it is run.

The ways are counted on the expression as it is given to Java. Parts that match nothing multiply
when they stand side by side, and add up when they are alternatives.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from waterclock.sql.functions.registry import Invalid

MOST_WAYS = 10_000
_MOST_DEPTH = 200
_PIECE = re.compile(
    r"(?P<class>\[\^?\]?(?:\\.|[^\]])*\])"
    r"|(?P<edge>\\[AZzbBG1-9]|[\^$])"
    r"|(?P<around>\(\?(?:=|!|<=|<!))"
    r"|(?P<flags>\(\?[a-zA-Z]+\))"
    r"|(?P<group>\((?:\?[a-zA-Z]*:)?)"
    r"|(?P<end>\))"
    r"|(?P<or>\|)"
    r"|(?P<one>\\.|.)",
    re.DOTALL,
)
_QUANTIFIER = re.compile(r"([*+?]|\{(\d+)(?:,\d*)?\})[?+]?")


@dataclass(frozen=True, slots=True)
class _Ways:
    """In how many ways a part matches nothing, and how many are tried in it before it fails."""

    empty: int
    tried: int


_ONE_CHARACTER = _Ways(0, 1)
_EDGE = _Ways(1, 1)


def require_bounded(text: str) -> None:
    """`Invalid` if the expression matches nothing in too many ways, or is nested too deeply."""
    if _Reader(text).alternatives(0).tried > MOST_WAYS:
        raise _too_complex()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def alternatives(self, depth: int) -> _Ways:
        """Up to the end of the group, or of all."""
        if depth > _MOST_DEPTH:
            raise _too_complex()
        empty, tried = 0, 0
        while True:
            branch, more = self._sequence(depth)
            empty, tried = empty + branch.empty, tried + branch.tried
            if not more:
                return _Ways(_bounded(empty), _bounded(tried))

    def _sequence(self, depth: int) -> tuple[_Ways, bool]:
        """One alternative, and whether another one follows."""
        beside, most, is_empty = 1, 1, True
        while (found := _PIECE.match(self._text, self._at)) is not None:
            self._at = found.end()
            match found.lastgroup:
                case "or" | "end":
                    return _Ways(beside if is_empty else 0, most), found.lastgroup == "or"
                case "flags":
                    continue
                case "group" | "around":
                    part = self.alternatives(depth + 1)
                    if found.lastgroup == "around":
                        part = _Ways(1, part.tried)
                case "edge":
                    part = _EDGE
                case _:
                    part = _ONE_CHARACTER
            part = self._repeated(part)
            most = _bounded(max(most, beside * part.tried))
            is_empty = is_empty and part.empty > 0
            beside = _bounded(beside * part.empty) if part.empty else 1
        return _Ways(beside if is_empty else 0, most), False

    def _repeated(self, part: _Ways) -> _Ways:
        """The part with what follows it: how often it may come."""
        found = _QUANTIFIER.match(self._text, self._at)
        if found is None:
            return part
        self._at = found.end()
        if found[1][0] == "+" or (found[2] is not None and int(found[2]) > 0):
            return part
        return _Ways(part.empty + 1, part.tried + 1)


def _bounded(ways: int) -> int:
    return min(ways, MOST_WAYS + 1)


def _too_complex() -> Invalid:
    return Invalid("2201B", "invalid regular expression: regular expression is too complex")
