"""FORMAT, INCLUDE and ENVELOPE of CREATE SOURCE, for every connector whose messages are bytes.

Columns that are declared with types say what the value is read as. Those of the key and of INCLUDE
come besides. Without them a format has columns of its own: `data` for JSON and bytes, `text`,
`column1` and so on for CSV, and the fields of the schema for Avro.

A key has the format that KEY FORMAT gives, else that of the value.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from waterclock.adapter.connections import settings_of
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planning import name_of
from waterclock.adapter.sequencer.decode_errors import decode_errors, with_error_column
from waterclock.catalog import privileges
from waterclock.catalog.objects import Column, Connection, Privilege
from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import (
    NO_MODIFIER,
    PgType,
    column_type,
    element_of,
    pg_type_of,
    type_named,
)
from waterclock.model.schema import Column as StoredColumn
from waterclock.model.schema import Schema, Text
from waterclock.model.timeline import EPOCH_MILLIS, Timeline, timeline_named
from waterclock.persist.schema_codec import encode_schema
from waterclock.sql import ast, options
from waterclock.sql.ast.common import Identifier, ObjectName
from waterclock.sql.ast.relations import ColumnDefinition
from waterclock.sql.ast.sources import (
    AvroFormat,
    CsvFormat,
    EnvelopeKind,
    Format,
    FormatKind,
    Include,
    Metadata,
    PlainFormat,
)
from waterclock.sql.errors import SyntaxFault
from waterclock.storage.formats.api import (
    AvroDefinition,
    BytesDefinition,
    CsvDefinition,
    DebeziumDefinition,
    EnvelopeDefinition,
    FormatDefinition,
    Included,
    JsonDefinition,
    MaterializeDefinition,
    MessageDefinition,
    PlainDefinition,
    TextDefinition,
    UpsertDefinition,
)
from waterclock.storage.formats.choice import registry_at
from waterclock.storage.sources.decode_errors import FAIL
from waterclock.storage.sources.errors import InvalidSource

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

KEY_NAME = "key"
SOURCE_OPTIONS = ("timestamp interval", "timeline", "retain history")
"""Options that WITH (...) accepts."""
_INCLUDED = (
    *(Metadata.KEY, Metadata.PARTITION, Metadata.OFFSET, Metadata.TIMESTAMP),
    *(Metadata.HEADERS, Metadata.HEADER),
)


@dataclass(frozen=True, slots=True)
class PlannedMessages:
    """How messages are read, the connections that takes, and how catalogs tell of it."""

    definition: MessageDefinition
    connections: tuple[GlobalId, ...]
    envelope: str
    value_format: str
    key_format: str | None


def planned_messages(
    session: SqlSession,
    statement: ast.CreateSource,
    origin: str,
    subject: str | None = None,
    *,
    key_format: Format | None = None,
    includes: Collection[Metadata] = _INCLUDED,
    long_offsets: bool = False,
) -> PlannedMessages:
    """What the clauses of the statement ask for. Raises what is wrong with them.

    `origin` and `long_offsets` are as in `MessageDefinition`. `subject` is what the messages are
    called in a schema registry, which is asked: so this may take a while. `key_format` is that of
    keys without KEY FORMAT, if not that of the value. `includes` is what INCLUDE may ask for.
    """
    if statement.formats is None:
        raise SyntaxFault("this kind of source requires FORMAT")
    for each in statement.include:
        if each.what not in includes:
            raise Unsupported(
                f"INCLUDE {each.what.value} is not supported for this kind of source",
                hint=f"There are {', '.join(known.value for known in includes)}.",
            )
    reader = _Reader(session, statement, subject)
    value, key = statement.formats.value, statement.formats.key
    envelope = _envelope(statement)
    include = tuple(_included(each) for each in statement.include)
    has_key = isinstance(envelope, UpsertDefinition) or any(i.what == "key" for i in include)
    key_definition = None
    if has_key or key is not None:
        key_definition = reader.key(key or key_format or value)
    definition = MessageDefinition(
        origin=origin,
        value=reader.value(value),
        key=key_definition,
        include=include,
        envelope=envelope,
        long_offsets=long_offsets,
        errors=decode_errors(statement),
    )
    _require_separable(definition)
    return PlannedMessages(
        definition,
        tuple(reader.connections),
        _name(envelope),
        _name(definition.value),
        None if key_definition is None else _name(key_definition),
    )


def declared_columns(statement: ast.CreateSource) -> tuple[Column, ...] | None:
    """The columns that are declared with their types, if any are."""
    found = [c for c in statement.columns or () if isinstance(c, ColumnDefinition)]
    if not found:
        return None
    for each in found:
        require_unlimited(each.name.name, each.type)
    return tuple(Column(c.name.name, c.type, not c.not_null) for c in found)


def require_unlimited(name: str, declared: PgType) -> None:
    """Raise if a column of a source can not be declared with the type."""
    if _is_limited(declared):
        raise Unsupported(
            f'column "{name}" of a source can not have a limited type',
            hint="Declare it without a length, and cast it in a view.",
        )


def shown_columns(statement: ast.CreateSource, rows: Schema) -> tuple[Column, ...] | None:
    """All columns of the source as they are shown, if the declared ones are all but the one of
    errors.
    """
    errors = decode_errors(statement)
    shown = with_error_column(declared_columns(statement), errors)
    return shown if shown is not None and len(shown) == len(rows.columns) else None


def _require_separable(definition: MessageDefinition) -> None:
    """Raise if messages that can not be read can not be told apart from the others' meaning."""
    envelope, errors = definition.envelope, definition.errors
    if errors == FAIL or isinstance(envelope, PlainDefinition | UpsertDefinition):
        return
    chosen = "INLINE" if errors.column is not None else "SKIP"
    if isinstance(envelope, MaterializeDefinition):
        raise Unsupported(
            f"ON DECODE ERROR {chosen} is not supported with ENVELOPE MATERIALIZE",
            detail="Statements of progress count all updates, so none can be left out.",
        )
    if not isinstance(definition.value, JsonDefinition):
        raise Unsupported(
            f"ON DECODE ERROR {chosen} with ENVELOPE DEBEZIUM is supported for FORMAT JSON only",
            detail="A change in Avro that can not be read does not say which row it is about, and"
            " the changes after it would not fit what is there.",
        )


def _is_limited(declared: PgType) -> bool:
    """Whether values of the type are not all that are held in the same way."""
    if declared.oid == type_named("numeric").oid or element_of(declared.oid) is not None:
        return False
    held = pg_type_of(column_type(declared)).oid
    plain = (held, type_named("varchar").oid, type_named("json").oid)
    return declared.modifier != NO_MODIFIER or declared.oid not in plain


def declared_schema(statement: ast.CreateSource) -> Schema | None:
    """The same, as they are held."""
    columns = declared_columns(statement)
    if columns is None:
        return None
    return Schema(tuple(StoredColumn(c.name, column_type(c.type), c.nullable) for c in columns))


class _Reader:
    """Reads formats, and notes which connections they take."""

    def __init__(
        self, session: SqlSession, statement: ast.CreateSource, subject: str | None
    ) -> None:
        self._session = session
        self._declared = declared_schema(statement)
        self._subject = subject
        self.connections: list[GlobalId] = []

    def value(self, chosen: Format) -> FormatDefinition:
        match chosen:
            case PlainFormat(FormatKind.JSON):
                declared = self._declared
                return JsonDefinition(None if declared is None else encode_schema(declared))
            case CsvFormat():
                return CsvDefinition(encode_schema(self._csv(chosen)), _delimiter(chosen))
            case _ if self._declared is not None:
                raise Unsupported("columns with types are supported for FORMAT JSON and CSV only")
            case PlainFormat(FormatKind.TEXT):
                return TextDefinition()
            case PlainFormat(FormatKind.BYTES):
                return BytesDefinition()
            case AvroFormat():
                return self._avro(chosen, "value", "data")
            case _:
                raise Unsupported("FORMAT PARQUET is supported for files only")

    def key(self, chosen: Format) -> FormatDefinition:
        match chosen:
            case PlainFormat(FormatKind.JSON):
                return JsonDefinition(None, KEY_NAME)
            case PlainFormat(FormatKind.TEXT):
                return TextDefinition(KEY_NAME)
            case PlainFormat(FormatKind.BYTES):
                return BytesDefinition(KEY_NAME)
            case AvroFormat():
                return self._avro(chosen, "key", KEY_NAME)
            case _:
                raise Unsupported(
                    "a key can not have this format",
                    hint="Give it a KEY FORMAT of its own: TEXT, BYTES, JSON or AVRO.",
                )

    def _csv(self, chosen: CsvFormat) -> Schema:
        if self._declared is not None:
            count = chosen.columns if isinstance(chosen.columns, int) else len(chosen.columns)
            if count and count != len(self._declared.columns):
                raise SyntaxFault(
                    f"there are {count} columns in CSV, and {len(self._declared.columns)} declared"
                )
            return self._declared
        if isinstance(chosen.columns, int):
            names = [f"column{i + 1}" for i in range(chosen.columns)]
        else:
            names = [column.name for column in chosen.columns]
        if not names:
            raise SyntaxFault(
                "the columns of CSV must be given",
                hint="Write WITH HEADER (name, ...), or WITH n COLUMNS.",
            )
        return Schema(tuple(StoredColumn(name, Text()) for name in names))

    def _avro(self, chosen: AvroFormat, side: str, name: str) -> AvroDefinition:
        if isinstance(chosen.schema, str):
            options.by_name(chosen.options, ())
            return AvroDefinition(chosen.schema, None, name)
        options.by_name(chosen.options, ())
        connection = self._connection(chosen.schema)
        if self._subject is None:
            raise Unsupported("a schema registry is not supported for this kind of source")
        core = self._session.front.core
        registry = registry_at(settings_of(core.current, connection, core.secrets))
        subject = f"{self._subject}-{side}"
        found = registry.latest(subject)
        if found is None:
            raise InvalidSource(f'the schema registry has no subject "{subject}"')
        return AvroDefinition(found.schema, str(connection), name)

    def _connection(self, named: ObjectName) -> GlobalId:
        catalog = self._session.front.core.current
        found = catalog.named(Connection, name_of(named.parts), self._session.scope)
        privileges.check(catalog, self._session.role.oid, found, Privilege.USAGE)
        if found.id not in self.connections:
            self.connections.append(found.id)
        return found.id


def _delimiter(chosen: CsvFormat) -> str:
    delimiter = "," if chosen.delimiter is None else chosen.delimiter
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise SyntaxFault("CSV is delimited by a single character")
    return delimiter


def _included(wanted: Include) -> Included:
    if wanted.what is Metadata.HEADER and wanted.alias is None:
        raise SyntaxFault("INCLUDE HEADER requires a name: INCLUDE HEADER 'header' AS name")
    alias = wanted.alias or Identifier(wanted.what.value.lower().replace(" ", "_"))
    return Included(wanted.what.value.lower(), alias.name, wanted.header)


def own_timeline(statement: ast.CreateSource) -> Timeline[int] | None:
    """The timeline that the source's rows are to be on, if not that of the tables."""
    asked = options.by_name(statement.options, SOURCE_OPTIONS).get("timeline")
    if asked is None:
        return None
    name = options.text(asked)
    if statement.envelope is None or statement.envelope.kind is not EnvelopeKind.MATERIALIZE:
        raise Unsupported(
            "TIMELINE is supported with ENVELOPE MATERIALIZE only",
            detail="Only there do messages have times of their own.",
        )
    if not name or name == EPOCH_MILLIS.id:
        raise SyntaxFault(
            f'"{name}" can not be the name of a timeline of its own',
            asked.position,
            hint="Leave the option out to have the rows on the timeline of the tables.",
        )
    return timeline_named(name)


def _envelope(statement: ast.CreateSource) -> EnvelopeDefinition:
    asked = statement.envelope
    if asked is None:
        return PlainDefinition()
    options.by_name(asked.options, ())
    match asked.kind:
        case EnvelopeKind.NONE:
            return PlainDefinition()
        case EnvelopeKind.UPSERT:
            return UpsertDefinition()
        case EnvelopeKind.DEBEZIUM:
            return DebeziumDefinition()
        case EnvelopeKind.MATERIALIZE:
            return MaterializeDefinition(own_timeline(statement) is not None)
        case _:
            assert_never(asked.kind)


def _name(definition: FormatDefinition | EnvelopeDefinition) -> str:
    """What catalogs call it."""
    return str(definition.__struct_config__.tag)
