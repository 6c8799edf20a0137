"""Prepared statements, cursors, and channels."""

from __future__ import annotations

from collections.abc import Callable

from waterclock.model.pg_types import PgType
from waterclock.sql.ast import Statement
from waterclock.sql.ast.queries import Query, Subscribe
from waterclock.sql.ast.session import (
    CloseCursor,
    Deallocate,
    DeclareCursor,
    Direction,
    Execute,
    Fetch,
    Listen,
    Notify,
    Prepare,
    Unlisten,
)
from waterclock.sql.keywords import words
from waterclock.sql.parser.options import with_options
from waterclock.sql.parser.queries import SUBSCRIBE, select, subscribe
from waterclock.sql.parser.scanning import expressions
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind
from waterclock.sql.types import type_name

_PREPARABLE = words("select values table with insert update delete merge subscribe tail show")


def prepare(stream: TokenStream, statement: Callable[[TokenStream], Statement]) -> Prepare:
    """PREPARE; `statement` parses what is prepared."""
    stream.expect("prepare")
    if stream.at("transaction") and stream.peek().kind is Kind.STRING:
        stream.unsupported("PREPARE TRANSACTION")
    name = stream.identifier().name
    types: list[PgType] = []
    if stream.accept_mark("("):
        types.append(type_name(stream))
        while stream.accept_mark(","):
            types.append(type_name(stream))
        stream.expect_mark(")")
    stream.expect("as")
    if not stream.at_mark("(") and not stream.at_any(*_PREPARABLE):
        stream.fail()
    first = stream.index
    prepared = statement(stream)
    return Prepare(name, tuple(types), prepared, stream.slice(first))


def execute(stream: TokenStream) -> Execute:
    stream.expect("execute")
    name = stream.identifier().name
    if not stream.accept_mark("("):
        return Execute(name)
    arguments = expressions(stream)
    stream.expect_mark(")")
    return Execute(name, arguments)


def deallocate(stream: TokenStream) -> Deallocate:
    stream.expect("deallocate")
    if stream.at("prepare"):
        stream.advance()
        if stream.at_end():
            return Deallocate("prepare")
    return Deallocate(None if stream.accept("all") else stream.identifier().name)


def declare(stream: TokenStream) -> DeclareCursor:
    stream.expect("declare")
    name = stream.identifier().name
    binary, hold = False, False
    scroll: bool | None = None
    while not stream.accept("cursor"):
        if stream.accept("no"):
            stream.expect("scroll")
            scroll = False
            continue
        word = stream.expect_any("binary", "insensitive", "asensitive", "scroll")
        binary = binary or word == "binary"
        scroll = True if word == "scroll" else scroll
    if word_found := stream.accept_any("with", "without"):
        stream.expect("hold")
        hold = word_found == "with"
    stream.expect("for")
    statement: Query | Subscribe
    statement = subscribe(stream) if stream.at_any(*SUBSCRIBE) else select(stream)
    return DeclareCursor(name, statement, binary, scroll, hold)


_SINGLE = {
    "next": (Direction.FORWARD, 1),
    "prior": (Direction.BACKWARD, 1),
    "first": (Direction.ABSOLUTE, 1),
    "last": (Direction.ABSOLUTE, -1),
}
_COUNTED = ("absolute", "relative", "forward", "backward")


def fetch(stream: TokenStream) -> Fetch:
    """FETCH or MOVE."""
    move = stream.expect_any("fetch", "move") == "move"
    direction, count = _direction(stream)
    stream.accept_any("from", "in")
    cursor = stream.identifier().name
    return Fetch(cursor, direction, count, move, with_options(stream))


def _direction(stream: TokenStream) -> tuple[Direction, int | None]:
    following = stream.peek()
    named = following.kind is Kind.END or (
        following.kind is Kind.OPERATOR and following.value == ";"
    )
    if stream.at_any("next", "prior", "first", "last", *_COUNTED) and named:
        return Direction.FORWARD, 1
    if word := stream.accept_any(*_SINGLE):
        return _SINGLE[word]
    if stream.accept("all"):
        return Direction.FORWARD, None
    if word := stream.accept_any(*_COUNTED):
        return _counted(stream, Direction(word.upper()))
    if _at_number(stream):
        return Direction.FORWARD, stream.signed_integer()
    return Direction.FORWARD, 1


def _at_number(stream: TokenStream) -> bool:
    return stream.token.kind is Kind.INTEGER or stream.at_mark("-") or stream.at_mark("+")


def _counted(stream: TokenStream, direction: Direction) -> tuple[Direction, int | None]:
    if direction in (Direction.ABSOLUTE, Direction.RELATIVE):
        return direction, stream.signed_integer()
    if stream.accept("all"):
        return direction, None
    return direction, stream.signed_integer() if _at_number(stream) else 1


def close(stream: TokenStream) -> CloseCursor:
    stream.expect("close")
    return CloseCursor(None if stream.accept("all") else stream.identifier().name)


def listen(stream: TokenStream) -> Listen:
    stream.expect("listen")
    return Listen(stream.identifier().name)


def unlisten(stream: TokenStream) -> Unlisten:
    stream.expect("unlisten")
    return Unlisten(None if stream.accept_mark("*") else stream.identifier().name)


def notify(stream: TokenStream) -> Notify:
    stream.expect("notify")
    channel = stream.identifier().name
    return Notify(channel, stream.string() if stream.accept_mark(",") else "")
