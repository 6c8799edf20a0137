"""From text to statements.

Each family of statements has a module; `dispatch` finds the one that a statement's first words
name. The grammar is that of PostgreSQL 15 with the statements of a streaming database added; what
is inside a query is not looked into. Every mistake is an error with its position, told as
PostgreSQL tells it; nothing is ever skipped or guessed.
"""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.sql.ast import Statement
from waterclock.sql.budget import Meter
from waterclock.sql.lexer import lex
from waterclock.sql.parser.dispatch import statement
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind


@dataclass(frozen=True, slots=True)
class Parsed:
    """One statement of a text."""

    statement: Statement
    text: str
    """What was written, without the semicolon and what surrounds it."""
    start: int
    """Offset of `text` in the whole, in characters."""
    parameters: tuple[int, ...]
    """The numbers behind `$` that occur, in order, each once."""


def parse_statements(text: str, meter: Meter | None = None) -> tuple[Parsed, ...]:
    """All statements of the text; none for one that has only blanks, comments and semicolons.

    Raises a `SqlFault` for the first mistake; no statement is returned then.
    """
    meter = meter or Meter()
    stream = TokenStream(text, lex(text, meter), meter)
    found: list[Parsed] = []
    while True:
        while stream.accept_mark(";"):
            pass
        if stream.token.kind is Kind.END:
            return tuple(found)
        found.append(_parsed(stream))


def _parsed(stream: TokenStream) -> Parsed:
    first = stream.index
    start = stream.token.start
    node = statement(stream)
    numbers = {
        int(token.value)
        for token in stream.tokens[first : stream.index]
        if token.kind is Kind.PARAMETER
    }
    return Parsed(node, stream.slice(first), start, tuple(sorted(numbers)))
