"""How a source's messages are read: FORMAT, INCLUDE, ENVELOPE."""

from __future__ import annotations

from waterclock.sql.ast.common import Identifier, NameValue, ObjectName, Option
from waterclock.sql.ast.sources import (
    AvroFormat,
    CsvFormat,
    Envelope,
    EnvelopeKind,
    Format,
    FormatKind,
    Formats,
    Include,
    Metadata,
    PlainFormat,
)
from waterclock.sql.parser.options import maybe_options
from waterclock.sql.stream import TokenStream


def at_formats(stream: TokenStream) -> bool:
    return stream.at("format") or stream.at("key", "format")


def formats(stream: TokenStream) -> Formats:
    """`FORMAT f`, or `KEY FORMAT f VALUE FORMAT f`."""
    key: Format | None = None
    if stream.accept("key", "format"):
        key = one_format(stream)
        stream.expect("value")
    stream.expect("format")
    return Formats(one_format(stream), key)


def one_format(stream: TokenStream) -> Format:
    """What follows FORMAT."""
    if stream.at_any("protobuf", "regex"):
        stream.unsupported(f"FORMAT {stream.token.value.upper()}")
    if stream.accept("csv"):
        return _csv(stream)
    if stream.accept("avro"):
        return _avro(stream)
    word = stream.expect_any(*(kind.value.lower() for kind in FormatKind))
    return PlainFormat(FormatKind(word.upper()))


def _csv(stream: TokenStream) -> CsvFormat:
    stream.expect("with")
    if stream.accept("header"):
        names: tuple[Identifier, ...] = stream.identifiers() if stream.at_mark("(") else ()
        return CsvFormat(True, names, _delimiter(stream))
    count = stream.integer()
    stream.expect_any("columns", "column")
    return CsvFormat(False, count, _delimiter(stream))


def _delimiter(stream: TokenStream) -> str | None:
    if not stream.accept("delimited"):
        return None
    stream.expect("by")
    return stream.string()


def _avro(stream: TokenStream) -> AvroFormat:
    stream.expect("using")
    if stream.accept("schema"):
        return AvroFormat(stream.string(), maybe_options(stream))
    stream.expect("confluent", "schema", "registry", "connection")
    registry = stream.object_name()
    asked = maybe_options(stream)
    for side in ("key", "value"):
        if stream.at(side, "strategy"):
            asked += (_strategy(stream, side),)
    return AvroFormat(registry, asked)


def _strategy(stream: TokenStream, side: str) -> Option:
    position = stream.token.position
    stream.expect(side, "strategy")
    words = [stream.label().name]
    while stream.at_any("by", "id", "latest"):
        words.append(stream.advance().value)
    if len(words) > 1:
        stream.unsupported("a schema strategy other than INLINE and LATEST", position)
    return Option(f"{side} strategy", NameValue(ObjectName((words[0],))), position)


_SINGLE_WORDS = tuple(each.value.lower() for each in Metadata if " " not in each.value)


def include(stream: TokenStream) -> tuple[Include, ...]:
    """`INCLUDE KEY AS k, OFFSET, ...`."""
    stream.expect("include")
    found = [_included(stream)]
    while stream.accept_mark(","):
        found.append(_included(stream))
    return tuple(found)


def _included(stream: TokenStream) -> Include:
    if stream.accept("sequence", "number"):
        what = Metadata.SEQUENCE_NUMBER
    else:
        what = Metadata(stream.expect_any(*_SINGLE_WORDS).upper())
    header = stream.string() if what is Metadata.HEADER else None
    alias = stream.identifier() if stream.accept("as") else None
    return Include(what, alias, header)


def envelope(stream: TokenStream) -> Envelope:
    """`ENVELOPE kind [(options)]`."""
    stream.expect("envelope")
    kind = EnvelopeKind(stream.expect_any(*(each.value.lower() for each in EnvelopeKind)).upper())
    options = maybe_options(stream) if kind is not EnvelopeKind.NONE else ()
    return Envelope(kind, options)
