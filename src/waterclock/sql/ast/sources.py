"""Statements that connect to the world outside: sources, sinks, connections, secrets."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from waterclock.sql.ast.common import ExpressionText, Identifier, ObjectName, Option
from waterclock.sql.ast.relations import ColumnDefinition, Constraint


@dataclass(frozen=True, slots=True)
class LoadGenerator:
    """`kind` in lower case, such as `auction`."""

    kind: str
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class FileConnector:
    """Files at a path or URL."""

    location: str
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class ExternalConnector:
    """Another system by its kind, such as `kafka` or `postgres`, reached over a connection.

    Without one, what stands between the kind and the options (`BROKER 'host'`) is an option too.
    """

    kind: str
    connection: ObjectName | None
    options: tuple[Option, ...] = ()


class FormatKind(Enum):
    TEXT = "TEXT"
    BYTES = "BYTES"
    JSON = "JSON"
    PARQUET = "PARQUET"


@dataclass(frozen=True, slots=True)
class PlainFormat:
    kind: FormatKind


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """CSV with a header line, whose names may be listed, or with a number of columns."""

    header: bool
    columns: int | tuple[Identifier, ...]
    delimiter: str | None = None


@dataclass(frozen=True, slots=True)
class AvroFormat:
    """Avro with a schema registry, or with the schema given in the statement."""

    schema: ObjectName | str
    options: tuple[Option, ...] = ()


Format = PlainFormat | CsvFormat | AvroFormat


@dataclass(frozen=True, slots=True)
class Formats:
    """FORMAT gives the value's alone, KEY FORMAT ... VALUE FORMAT ... both."""

    value: Format
    key: Format | None = None


class Metadata(Enum):
    """What a source knows of a message besides its content."""

    KEY = "KEY"
    PARTITION = "PARTITION"
    OFFSET = "OFFSET"
    TIMESTAMP = "TIMESTAMP"
    HEADERS = "HEADERS"
    HEADER = "HEADER"
    SHARD = "SHARD"
    SEQUENCE_NUMBER = "SEQUENCE NUMBER"


@dataclass(frozen=True, slots=True)
class Include:
    """INCLUDE of one thing. `header` names the one header that HEADER takes."""

    what: Metadata
    alias: Identifier | None = None
    header: str | None = None


class EnvelopeKind(Enum):
    NONE = "NONE"
    UPSERT = "UPSERT"
    DEBEZIUM = "DEBEZIUM"
    MATERIALIZE = "MATERIALIZE"


@dataclass(frozen=True, slots=True)
class Envelope:
    kind: EnvelopeKind
    options: tuple[Option, ...] = ()


class OnError(Enum):
    FAIL = "FAIL"
    SKIP = "SKIP"
    INLINE = "INLINE"


@dataclass(frozen=True, slots=True)
class OnDecodeError:
    """ON DECODE ERROR: what becomes of a message that can not be read.

    `column` names the column of INLINE that tells what is wrong.
    """

    policy: OnError
    column: Identifier | None = None
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class WebhookConnector:
    """Requests that others POST to the server.

    With `is_array` each body is a JSON array, and each element of it a row. `check` is how a
    request proves that it may be accepted.
    """

    format: Format
    is_array: bool = False
    include: tuple[Include, ...] = ()
    check: tuple[Option, ...] = ()


Connector = LoadGenerator | FileConnector | ExternalConnector | WebhookConnector


@dataclass(frozen=True, slots=True)
class UpstreamTable:
    """One entry of FOR TABLES: `upstream [AS local] [(column type, ...)]`."""

    upstream: ObjectName
    local: ObjectName | None = None
    columns: tuple[ColumnDefinition, ...] = ()


@dataclass(frozen=True, slots=True)
class AllTables:
    """FOR ALL TABLES."""


@dataclass(frozen=True, slots=True)
class TheseTables:
    """FOR TABLES (...)."""

    tables: tuple[UpstreamTable, ...]


@dataclass(frozen=True, slots=True)
class TablesOfSchemas:
    """FOR SCHEMAS (...)."""

    schemas: tuple[Identifier, ...]


Subsources = AllTables | TheseTables | TablesOfSchemas


@dataclass(frozen=True, slots=True)
class CreateSource:
    """`columns` are other names for the source's columns or, with types, what messages have.

    `progress` and `errors` are the names that EXPOSE gives to the relations beside the source.
    """

    name: ObjectName
    connector: Connector
    columns: tuple[Identifier, ...] | tuple[ColumnDefinition, ...] | None = None
    if_not_exists: bool = False
    cluster: Identifier | None = None
    formats: Formats | None = None
    include: tuple[Include, ...] = ()
    envelope: Envelope | None = None
    subsources: Subsources | None = None
    progress: ObjectName | None = None
    options: tuple[Option, ...] = ()
    on_error: OnDecodeError | None = None
    errors: ObjectName | None = None


@dataclass(frozen=True, slots=True)
class CreateTableFromSource:
    """CREATE TABLE ... FROM SOURCE; `reference` is the upstream object, if one is named."""

    name: ObjectName
    source: ObjectName
    reference: ObjectName | None = None
    columns: tuple[Identifier, ...] | tuple[ColumnDefinition, ...] | None = None
    constraints: tuple[Constraint, ...] = ()
    if_not_exists: bool = False
    source_options: tuple[Option, ...] = ()
    formats: Formats | None = None
    include: tuple[Include, ...] = ()
    envelope: Envelope | None = None
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateSink:
    name: ObjectName | None
    relation: ObjectName
    connector: Connector
    if_not_exists: bool = False
    cluster: Identifier | None = None
    key: tuple[Identifier, ...] | None = None
    key_not_enforced: bool = False
    formats: Formats | None = None
    envelope: Envelope | None = None
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateConnection:
    """`kind` in lower case, such as `kafka` or `confluent schema registry`."""

    name: ObjectName
    kind: str
    connection_options: tuple[Option, ...]
    if_not_exists: bool = False
    or_replace: bool = False
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class ValidateConnection:
    """Ask the system that a connection leads to whether it can be used."""

    name: ObjectName


@dataclass(frozen=True, slots=True)
class CreateSecret:
    """The value is left out of what is printed of the node."""

    name: ObjectName
    value: ExpressionText = field(repr=False)
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterSecret:
    """ALTER SECRET ... AS; the value is left out of what is printed of the node."""

    name: ObjectName
    value: ExpressionText = field(repr=False)
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateCluster:
    name: Identifier
    if_not_exists: bool = False
    options: tuple[Option, ...] = ()
