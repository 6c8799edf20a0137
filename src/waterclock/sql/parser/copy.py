"""COPY, with the options of all of PostgreSQL's versions under the names of the newest syntax."""

from __future__ import annotations

from waterclock.sql.ast.changes import Copy, CopyDirection
from waterclock.sql.ast.common import (
    ExpressionText,
    Identifier,
    ListValue,
    NameValue,
    ObjectName,
    Option,
    OptionValue,
    StringValue,
)
from waterclock.sql.ast.queries import Query, Subscribe
from waterclock.sql.parser.options import options
from waterclock.sql.parser.queries import CHANGES, SUBSCRIBE, select, subscribe
from waterclock.sql.parser.scanning import column_list, condition
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind


def copy(stream: TokenStream) -> Copy:
    stream.expect("copy")
    if stream.at_mark("("):
        subject = _subject(stream)
        stream.expect("to")
        location = _location(stream)
        return Copy(subject, _outwards(location), None, _options(stream), None, location)
    asked: list[Option] = []
    if stream.at("binary"):
        asked.append(_flag("format", "binary", stream.advance().position))
    table = stream.object_name()
    columns = column_list(stream)
    incoming = stream.expect_any("from", "to") == "from"
    location = None if incoming else _location(stream)
    if incoming:
        _channel(stream)
    if stream.accept("using") or stream.at("delimiters"):
        asked.append(_old_delimiters(stream))
    asked += _options(stream)
    where = None
    if stream.at("where"):
        where = _where(stream, incoming)
    direction = CopyDirection.FROM_STDIN if incoming else _outwards(location)
    return Copy(table, direction, columns, tuple(asked), where, location)


def _subject(stream: TokenStream) -> Query | Subscribe:
    stream.expect_mark("(")
    if stream.at_any(*CHANGES):
        stream.unsupported(f"COPY of {stream.token.value.upper()}")
    subject = subscribe(stream) if stream.at_any(*SUBSCRIBE) else select(stream)
    stream.expect_mark(")")
    return subject


def _location(stream: TokenStream) -> str | None:
    """The location of files; None if the rows go to the client."""
    if stream.token.kind is Kind.STRING:
        return stream.string()
    _channel(stream)
    return None


def _outwards(location: str | None) -> CopyDirection:
    return CopyDirection.TO_STDOUT if location is None else CopyDirection.TO_LOCATION


def _channel(stream: TokenStream) -> None:
    """The client. PostgreSQL takes either word in either direction."""
    if stream.accept_any("stdin", "stdout"):
        return
    if stream.at("program"):
        stream.unsupported("COPY from or to a program")
    if stream.token.kind is Kind.STRING:
        stream.unsupported("COPY from a file")
    stream.fail()


def _where(stream: TokenStream, incoming: bool) -> ExpressionText:
    if not incoming:
        stream.fail()
    stream.expect("where")
    return condition(stream)


def _old_delimiters(stream: TokenStream) -> Option:
    position = stream.token.position
    stream.expect("delimiters")
    return Option("delimiter", StringValue(stream.string()), position)


def _options(stream: TokenStream) -> tuple[Option, ...]:
    given = stream.accept("with")
    if stream.at_mark("("):
        return options(stream)
    found: list[Option] = []
    while (option := _old_option(stream)) is not None:
        found.append(option)
    if given and not found and not stream.at_end() and not stream.at("where"):
        stream.fail()
    return tuple(found)


def _flag(name: str, value: str, position: int) -> Option:
    return Option(name, NameValue(ObjectName((value,))), position)


def _old_option(stream: TokenStream) -> Option | None:
    """One option of the syntax before PostgreSQL 9.0, if one follows."""
    position = stream.token.position
    if word := stream.accept_any("binary", "csv"):
        return _flag("format", word, position)
    if word := stream.accept_any("freeze", "header"):
        return _flag(word, "true", position)
    if word := stream.accept_any("delimiter", "null", "quote", "escape"):
        stream.accept("as")
        return Option(word, StringValue(stream.string()), position)
    if stream.accept("encoding"):
        return Option("encoding", StringValue(stream.string()), position)
    if stream.accept("force"):
        return _forced(stream, position)
    return None


def _forced(stream: TokenStream, position: int) -> Option:
    if stream.accept("quote"):
        if stream.at_mark("*"):
            star = stream.advance()
            return Option("force_quote", ExpressionText("*", star.position), position)
        return Option("force_quote", _columns(stream), position)
    name = "force_not_null" if stream.accept("not") else "force_null"
    stream.expect("null")
    return Option(name, _columns(stream), position)


def _columns(stream: TokenStream) -> OptionValue:
    columns: list[Identifier] = [stream.identifier()]
    while stream.accept_mark(","):
        columns.append(stream.identifier())
    names = (ObjectName((column.name,), column.position) for column in columns)
    return ListValue(tuple(map(NameValue, names)))
