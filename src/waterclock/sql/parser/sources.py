"""CREATE SOURCE, CREATE TABLE ... FROM SOURCE, CREATE SINK."""

from __future__ import annotations

from dataclasses import dataclass, field

from waterclock.sql.ast.common import Identifier, NameValue, ObjectName, Option, StringValue
from waterclock.sql.ast.relations import ColumnDefinition, Constraint
from waterclock.sql.ast.sources import (
    AllTables,
    Connector,
    CreateSink,
    CreateSource,
    CreateTableFromSource,
    Envelope,
    ExternalConnector,
    FileConnector,
    FormatKind,
    Formats,
    Include,
    LoadGenerator,
    OnDecodeError,
    OnError,
    PlainFormat,
    Subsources,
    TablesOfSchemas,
    TheseTables,
    UpstreamTable,
    WebhookConnector,
)
from waterclock.sql.errors import SyntaxFault
from waterclock.sql.parser.formats import at_formats, envelope, formats, include, one_format
from waterclock.sql.parser.options import labels, maybe_options, option, options
from waterclock.sql.stream import TokenStream
from waterclock.sql.tokens import Kind
from waterclock.sql.types import type_name

_CLAUSES = ("format", "key", "include", "envelope", "for", "expose", "on", "with")
_EXTERNAL = (
    ("kafka",),
    ("postgres",),
    ("mysql",),
    ("sql", "server"),
    ("s3",),
    ("kinesis",),
    ("pubnub",),
)


def create_source(stream: TokenStream) -> CreateSource:
    """What follows CREATE SOURCE."""
    exists = stream.accept("if", "not", "exists")
    name = stream.object_name()
    columns = _columns(stream)
    cluster = _in_cluster(stream)
    stream.expect("from")
    connector = _connector(stream)
    clauses = _clauses(stream, _SOURCE_CLAUSES)
    return CreateSource(
        name,
        connector,
        columns,
        exists,
        cluster,
        clauses.formats,
        clauses.include,
        clauses.envelope,
        clauses.subsources,
        clauses.progress,
        clauses.options,
        clauses.on_error,
        clauses.errors,
    )


def _columns(
    stream: TokenStream,
) -> tuple[Identifier, ...] | tuple[ColumnDefinition, ...] | None:
    """`(a, b)` or `(a integer, b text NOT NULL)`, if one of them follows."""
    if not stream.at_mark("("):
        return None
    following = stream.peek(2)
    if following.kind is Kind.OPERATOR and following.value in (",", ")"):
        return stream.identifiers()
    return _typed_columns(stream)


def _typed_columns(stream: TokenStream) -> tuple[ColumnDefinition, ...]:
    stream.expect_mark("(")
    columns = [_column(stream)]
    while stream.accept_mark(","):
        columns.append(_column(stream))
    stream.expect_mark(")")
    return tuple(columns)


def _column(stream: TokenStream) -> ColumnDefinition:
    name, declared = stream.identifier(), type_name(stream)
    not_null = stream.accept("not", "null")
    if not not_null:
        stream.accept("null")
    return ColumnDefinition(name, declared, not_null)


def _in_cluster(stream: TokenStream) -> Identifier | None:
    if not stream.accept("in"):
        return None
    stream.expect("cluster")
    return stream.identifier()


def _connector(stream: TokenStream) -> Connector:
    if stream.accept("load", "generator"):
        words = [stream.label().name]
        while stream.token.kind is Kind.WORD and not stream.at_any(*_CLAUSES):
            words.append(stream.advance().value)
        return LoadGenerator(" ".join(words), maybe_options(stream))
    if stream.accept("file"):
        location = stream.string()
        return FileConnector(location, maybe_options(stream))
    if stream.accept("webhook"):
        return _webhook(stream)
    for words_of_kind in _EXTERNAL:
        if stream.accept(*words_of_kind):
            return _external(stream, " ".join(words_of_kind))
    raise stream.fault()


def _webhook(stream: TokenStream) -> WebhookConnector:
    """`BODY FORMAT f [ARRAY] [INCLUDE ...] [CHECK (option, ...)]`."""
    stream.expect("body", "format")
    chosen = one_format(stream)
    is_array = chosen == PlainFormat(FormatKind.JSON) and stream.accept("array")
    included = include(stream) if stream.at("include") else ()
    check = options(stream) if stream.accept("check") else ()
    return WebhookConnector(chosen, is_array, included, check)


def _external(stream: TokenStream, kind: str) -> ExternalConnector:
    if stream.accept("connection"):
        connection = stream.object_name()
        given = _object_options(stream) if kind == "s3" else maybe_options(stream)
        return ExternalConnector(kind, connection, given)
    direct = _direct_options(stream)
    return ExternalConnector(kind, None, direct + maybe_options(stream))


def _object_options(stream: TokenStream) -> tuple[Option, ...]:
    """`(DISCOVER OBJECTS MATCHING 'pattern' USING BUCKET SCAN 'bucket', option, ...)`."""
    if not stream.at_mark("("):
        return ()
    stream.expect_mark("(")
    found: list[Option] = []
    while True:
        found += _discovery(stream) if stream.at("discover", "objects") else (option(stream),)
        if not stream.accept_mark(","):
            break
    stream.expect_mark(")")
    return tuple(found)


def _discovery(stream: TokenStream) -> list[Option]:
    """`DISCOVER OBJECTS [MATCHING 'pattern'] [USING BUCKET SCAN 'bucket']`, as two options."""
    position = stream.token.position
    stream.expect("discover", "objects")
    found: list[Option] = []
    if stream.accept("matching"):
        stream.accept_mark("=")
        found.append(Option("discover objects matching", StringValue(stream.string()), position))
    if not found or stream.at("using"):
        position = stream.token.position
        stream.expect("using", "bucket", "scan")
        stream.accept_mark("=")
        found.append(Option("using bucket scan", StringValue(stream.string()), position))
    return found


def _direct_options(stream: TokenStream) -> tuple[Option, ...]:
    """`BROKER 'host' TOPIC 'name'`: options that stand between the kind and the list."""
    found: list[Option] = []
    while stream.token.kind is Kind.WORD and not stream.at_any(*_CLAUSES):
        position = stream.token.position
        words = [stream.advance().value]
        while stream.token.kind is Kind.WORD:
            words.append(stream.advance().value)
        found.append(Option(" ".join(words), StringValue(stream.string()), position))
        stream.accept_mark(",")
    return tuple(found)


@dataclass(slots=True)
class _Clauses:
    """What stands behind the connector, in any order, each clause once."""

    formats: Formats | None = None
    include: tuple[Include, ...] = ()
    envelope: Envelope | None = None
    subsources: Subsources | None = None
    progress: ObjectName | None = None
    options: tuple[Option, ...] = ()
    on_error: OnDecodeError | None = None
    errors: ObjectName | None = None
    seen: set[str] = field(default_factory=set)

    def take(self, clause: str, stream: TokenStream) -> None:
        if clause in self.seen:
            stream.fail()
        self.seen.add(clause)


_SOURCE_CLAUSES = frozenset(
    {"format", "include", "envelope", "for", "expose", "expose errors", "on", "with"}
)
_TABLE_CLAUSES = frozenset({"format", "include", "envelope", "with"})
_SINK_CLAUSES = frozenset({"format", "envelope", "with"})


def _clauses(stream: TokenStream, allowed: frozenset[str]) -> _Clauses:
    found = _Clauses()
    while not stream.at_end():
        word = "format" if at_formats(stream) else stream.token.value
        if "expose errors" in allowed and stream.at("expose", "errors"):
            word = "expose errors"
        if stream.token.kind is not Kind.WORD or word not in allowed:
            stream.fail()
        found.take(word, stream)
        match word:
            case "format":
                found.formats = formats(stream)
            case "include":
                found.include = include(stream)
            case "envelope":
                found.envelope = envelope(stream)
            case "for":
                found.subsources = _subsources(stream)
            case "expose":
                stream.expect("expose", "progress", "as")
                found.progress = stream.object_name()
            case "expose errors":
                stream.expect("expose", "errors", "as")
                found.errors = stream.object_name()
            case "on":
                found.on_error = _on_decode_error(stream)
            case _:
                stream.expect("with")
                found.options = options(stream)
    return found


def _on_decode_error(stream: TokenStream) -> OnDecodeError:
    """`ON DECODE ERROR { FAIL | SKIP [(option, ...)] | INLINE [AS column] }`."""
    stream.expect("on", "decode", "error")
    if stream.accept("skip"):
        return OnDecodeError(OnError.SKIP, None, maybe_options(stream))
    if stream.accept("inline"):
        column = stream.label() if stream.accept("as") else None
        return OnDecodeError(OnError.INLINE, column)
    stream.expect("fail")
    return OnDecodeError(OnError.FAIL)


def _subsources(stream: TokenStream) -> Subsources:
    stream.expect("for")
    if stream.accept("all", "tables"):
        return AllTables()
    if stream.accept("schemas"):
        return TablesOfSchemas(stream.identifiers())
    if not stream.accept("tables"):
        stream.expect("table")
    stream.expect_mark("(")
    tables = upstream_tables(stream)
    stream.expect_mark(")")
    return TheseTables(tables)


def upstream_tables(stream: TokenStream) -> tuple[UpstreamTable, ...]:
    """Tables as FOR TABLES names them, with commas between."""
    tables = [_upstream_table(stream)]
    while stream.accept_mark(","):
        tables.append(_upstream_table(stream))
    return tuple(tables)


def _upstream_table(stream: TokenStream) -> UpstreamTable:
    upstream = labels(stream)
    local = stream.object_name() if stream.accept("as") else None
    return UpstreamTable(upstream, local, _typed_columns(stream) if stream.at_mark("(") else ())


def table_from_source(
    stream: TokenStream,
    name: ObjectName,
    exists: bool,
    names: tuple[Identifier, ...] | None,
    columns: tuple[ColumnDefinition, ...],
    constraints: tuple[Constraint, ...],
) -> CreateTableFromSource:
    """What follows CREATE TABLE name [(columns)]."""
    stream.expect("from", "source")
    source = stream.object_name()
    reference: ObjectName | None = None
    asked: list[Option] = []
    for each in maybe_options(stream):
        if each.name != "reference":
            asked.append(each)
        elif isinstance(each.value, NameValue) and reference is None:
            reference = each.value.name
        else:
            raise SyntaxFault("REFERENCE requires the name of one object", each.position)
    clauses = _clauses(stream, _TABLE_CLAUSES)
    return CreateTableFromSource(
        name,
        source,
        reference,
        names if names is not None else columns or None,
        constraints,
        exists,
        tuple(asked),
        clauses.formats,
        clauses.include,
        clauses.envelope,
        clauses.options,
    )


def create_sink(stream: TokenStream) -> CreateSink:
    """What follows CREATE SINK."""
    exists = stream.accept("if", "not", "exists")
    name = None if stream.at_any("from", "in") else stream.object_name()
    cluster = _in_cluster(stream)
    stream.expect("from")
    relation = stream.object_name()
    stream.expect("into")
    connector = _connector(stream)
    key: tuple[Identifier, ...] | None = None
    not_enforced = False
    if stream.at("key") and not stream.at("key", "format"):
        stream.expect("key")
        key = stream.identifiers()
        not_enforced = stream.accept("not", "enforced")
    clauses = _clauses(stream, _SINK_CLAUSES)
    return CreateSink(
        name,
        relation,
        connector,
        exists,
        cluster,
        key,
        not_enforced,
        clauses.formats,
        clauses.envelope,
        clauses.options,
    )
