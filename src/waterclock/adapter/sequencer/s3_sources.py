"""CREATE SOURCE ... FROM S3: lines as FORMAT says, or Parquet, of objects in a bucket.

FROM S3 CONNECTION name (DISCOVER OBJECTS MATCHING 'a/**/*.json' USING BUCKET SCAN 'bucket',
    SQS NOTIFICATIONS 'queue', COMPRESSION AUTO) FORMAT ...

The bucket and the queue are asked before anything is created; whoever plans does so in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import msgspec

from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planned_source import PlannedSource
from waterclock.adapter.sequencer.file_sources import names_in_header
from waterclock.adapter.sequencer.lines import HIVE, planned_lines, planned_parquet
from waterclock.adapter.sequencer.naming import full_name
from waterclock.adapter.sequencer.source_connections import connection_of
from waterclock.catalog.objects import Connection
from waterclock.persist.schema_codec import encode_schema
from waterclock.sql import ast, options
from waterclock.sql.ast.common import Option
from waterclock.sql.ast.sources import ExternalConnector, FormatKind, PlainFormat
from waterclock.sql.errors import SyntaxFault
from waterclock.storage.sources.errors import InvalidSource
from waterclock.storage.sources.s3 import connector as s3
from waterclock.storage.sources.s3.creation import NewBucket
from waterclock.storage.sources.s3.definition import Compression, S3Definition
from waterclock.storage.sources.s3.patterns import KeyPattern

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

KIND = "s3"
_AWS = "aws"
MATCHING = "discover objects matching"
SCAN = "using bucket scan"
QUEUE = "sqs notifications"
_OPTIONS = (
    MATCHING,
    SCAN,
    QUEUE,
    "compression",
    "scan interval",
    "follow",
    "ignore deletes",
    HIVE,
)
_SCAN_WITH_QUEUE_MS = 60_000


def planned(session: SqlSession, statement: ast.CreateSource) -> PlannedSource:
    """The source that the statement asks for. Raises what is wrong with it, or upstream."""
    external = statement.connector
    assert isinstance(external, ExternalConnector)
    connection = connection_of(session, external, _AWS, "S3", "AWS")
    if statement.formats is None:
        raise SyntaxFault("a source of objects requires FORMAT")
    if statement.subsources is not None:
        raise Unsupported("FOR TABLES is not supported for a source of objects")
    asked = options.by_name(external.options, _OPTIONS)
    definition = _definition(connection, asked)
    core = session.front.core
    bucket = NewBucket(
        core.connection_settings(connection.id),
        definition.bucket,
        KeyPattern.of(definition.pattern),
        definition.queue,
    )
    notices = () if bucket.has_objects() else (_nothing(definition),)
    where, hive = f'objects of bucket "{definition.bucket}"', asked.get(HIVE)
    if statement.formats.value == PlainFormat(FormatKind.PARQUET):
        if definition.compression != "auto":
            raise Unsupported("COMPRESSION is not supported for Parquet, which has its own")
        parquet = planned_parquet(statement, hive, bucket.columns)
        definition = msgspec.structs.replace(
            definition,
            columns=encode_schema(parquet.rows),
            path_columns=encode_schema(parquet.path_columns),
        )
        rows, shown, messages = parquet.rows, parquet.shown, None
    else:

        def first_header(delimiter: str) -> tuple[str, ...]:
            try:
                return names_in_header(bucket.first_line(definition.compression), delimiter)
            except UnicodeDecodeError as error:
                raise InvalidSource(f"could not look into the objects: {error}") from None

        lines = planned_lines(session, statement, where, hive, first_header)
        definition = msgspec.structs.replace(
            definition,
            messages=lines.messages.definition,
            path_columns=encode_schema(lines.path_columns),
            header=lines.header,
            delimiter=lines.delimiter,
        )
        rows, shown, messages = lines.rows, lines.shown, lines.messages
    return PlannedSource(
        s3.NAME,
        definition.encoded(),
        {s3.OUTPUT: rows},
        is_split=False,
        progress=s3.KIND.progress,
        connections=(connection.id, *(messages.connections if messages else ())),
        envelope=messages.envelope if messages else "none",
        value_format=messages.value_format if messages else "parquet",
        is_fallible=True,
        takes_notes=True,
        columns={s3.OUTPUT: shown},
        connector=replace(
            external, connection=full_name(core.current, connection.namespace, connection.name)
        ),
        notices=notices,
    )


def _definition(connection: Connection, asked: Mapping[str, Option]) -> S3Definition:
    """What the options say."""
    if SCAN not in asked:
        raise SyntaxFault(
            "USING BUCKET SCAN option is required",
            hint="Use (DISCOVER OBJECTS MATCHING 'pattern' USING BUCKET SCAN 'bucket').",
        )
    queue = options.text(asked[QUEUE]) if QUEUE in asked else None
    scan_ms = 0 if queue is None else _SCAN_WITH_QUEUE_MS
    if "scan interval" in asked:
        scan_ms = round(options.milliseconds(asked["scan interval"]))
    return S3Definition(
        connection=str(connection.id),
        bucket=options.text(asked[SCAN]),
        pattern=options.text(asked[MATCHING]) if MATCHING in asked else None,
        queue=queue,
        compression=_compression(asked.get("compression")),
        scan_ms=scan_ms,
        follow=options.truth(asked["follow"]) if "follow" in asked else True,
        ignore_deletes="ignore deletes" in asked and options.truth(asked["ignore deletes"]),
    )


def _compression(option: Option | None) -> Compression:
    word = "auto" if option is None else options.text(option).lower()
    for known in get_args(Compression):
        if word == known:
            return known  # type: ignore[no-any-return]
    assert option is not None
    raise SyntaxFault("COMPRESSION must be AUTO, NONE, GZIP or ZSTD", option.position)


def _nothing(definition: S3Definition) -> str:
    bucket = definition.bucket
    if definition.pattern is None:
        return f'there is no object in bucket "{bucket}" yet'
    return f'no object in bucket "{bucket}" matches "{definition.pattern}" yet'
