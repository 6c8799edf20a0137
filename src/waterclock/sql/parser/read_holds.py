"""CREATE, ALTER and DROP READ HOLD."""

from __future__ import annotations

from typing import Literal

from waterclock.sql.ast.queries import AsOf, Moment
from waterclock.sql.ast.read_holds import AlterReadHold, CreateReadHold, DropReadHold
from waterclock.sql.parser.options import with_options
from waterclock.sql.parser.scanning import as_of, condition
from waterclock.sql.stream import TokenStream

READ_HOLD = ("read", "hold")
_WITH = frozenset({"with"})


def create_read_hold(stream: TokenStream) -> CreateReadHold:
    """What follows CREATE READ HOLD."""
    exists = stream.accept("if", "not", "exists")
    name = stream.identifier()
    stream.expect("on")
    relations = stream.object_names()
    time: AsOf | Literal[Moment.EARLIEST] | None
    time = Moment.EARLIEST if stream.accept("as", "of", "earliest") else as_of(stream, _WITH)
    return CreateReadHold(name, relations, time, exists, with_options(stream))


def alter_read_hold(stream: TokenStream) -> AlterReadHold:
    stream.expect("alter", *READ_HOLD)
    exists = stream.accept("if", "exists")
    name = stream.identifier()
    if stream.expect_any("renew", "advance") == "renew":
        return AlterReadHold(name, None, exists)
    stream.expect("to")
    return AlterReadHold(name, condition(stream), exists)


def drop_read_hold(stream: TokenStream) -> DropReadHold:
    stream.expect("drop", *READ_HOLD)
    exists = stream.accept("if", "exists")
    names = [stream.identifier()]
    while stream.accept_mark(","):
        names.append(stream.identifier())
    return DropReadHold(tuple(names), exists)
