"""Statements of PostgreSQL that are recognised and refused by name."""

from __future__ import annotations

from waterclock.sql.ast.objects import Unsupported
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind

_STATEMENTS = (
    "alter default privileges",
    "analyze",
    "analyse",
    "call",
    "checkpoint",
    "cluster",
    "do",
    "drop owned",
    "import foreign schema",
    "load",
    "lock",
    "merge",
    "reassign owned",
    "reindex",
    "security label",
    "vacuum",
)
_OBJECTS = (
    "access method",
    "aggregate",
    "cast",
    "collation",
    "conversion",
    "domain",
    "event trigger",
    "extension",
    "foreign data wrapper",
    "foreign table",
    "function",
    "language",
    "large object",
    "network policy",
    "operator",
    "policy",
    "procedural language",
    "procedure",
    "publication",
    "routine",
    "rule",
    "sequence",
    "server",
    "statistics",
    "subscription",
    "tablespace",
    "text search",
    "transform",
    "trigger",
    "trusted language",
    "type",
    "unique index",
    "user mapping",
)
_PREFIXES = ("or replace", "constraint", "recursive", "unlogged", "temporary", "temp")


def unsupported(stream: TokenStream) -> Unsupported | None:
    """The statement that follows, if it is one of these; the stream stays where it is."""
    position = stream.token.position
    for words in _STATEMENTS:
        if stream.at(*words.split()):
            return Unsupported(words.upper(), position)
    if not stream.at_any("create", "alter", "drop"):
        return None
    verb = stream.token.value
    first = stream.index
    stream.advance()
    while any(stream.accept(*prefix.split()) for prefix in _PREFIXES):
        pass
    found = next((words for words in _OBJECTS if stream.at(*words.split())), None)
    stream.back_to(first)
    return None if found is None else Unsupported(f"{verb} {found}".upper(), position)


def skip_statement(stream: TokenStream) -> None:
    """Move to the end of a statement that is not looked into.

    Semicolons inside brackets, and in the body of a function from BEGIN ATOMIC to END, are part of
    it.
    """
    depth = 0
    inside = False
    while stream.token.kind is not Kind.END:
        token = stream.token
        if token.kind is Kind.OPERATOR:
            depth += (token.value == "(") - (token.value == ")")
            if token.value == ";" and depth <= 0 and not inside:
                return
        if stream.at("begin", "atomic"):
            inside = True
        stream.advance()
        if inside and token.kind is Kind.WORD and token.value == "end" and stream.at_end():
            inside = False
