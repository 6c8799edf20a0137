"""Queries made of parts of a statement, with errors that stand where the parts were written.

UPDATE and DELETE are carried out as queries for the rows to change. What is wrong with such a query
is wrong with the statement; a position in the text that nobody wrote would only mislead, so it is
traced back to the part that it is in, and left out if it is between the parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from waterclock.sql.ast.common import ExpressionText, QueryText
from waterclock.sql.errors import SqlFault

Part = str | ExpressionText | QueryText


@dataclass(frozen=True, slots=True)
class _Origin:
    """A part: where it is in the query, from 1 on, and where it was in the statement."""

    begins: int
    ends: int
    position: int


@dataclass(frozen=True, slots=True)
class Composed:
    """A query, and where its parts come from."""

    query: QueryText
    origins: tuple[_Origin, ...]

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Let errors about the query stand where its parts were written."""
        try:
            yield
        except SqlFault as fault:
            if fault.position is not None:
                fault.position = self._traced(fault.position)
            raise

    def _traced(self, position: int) -> int | None:
        for origin in self.origins:
            if origin.begins <= position <= origin.ends:
                return origin.position + position - origin.begins
        return None


def composed(*parts: Part) -> Composed:
    """The parts, one after the other. Plain text is ours; all else was written by the user."""
    text = ""
    origins = []
    for part in parts:
        if isinstance(part, str):
            text += part
            continue
        begins = len(text) + 1
        text += part.text
        origins.append(_Origin(begins, len(text), part.position))
    return Composed(QueryText(text, 1), tuple(origins))


def clause(word: str, part: ExpressionText | QueryText | None) -> tuple[Part, ...]:
    """A clause with the part behind its word; nothing without one."""
    return () if part is None else (word, part)
