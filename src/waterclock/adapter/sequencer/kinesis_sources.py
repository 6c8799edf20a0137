"""CREATE SOURCE ... FROM KINESIS: what the statement says, and what the service says to it.

FROM KINESIS CONNECTION name (STREAM 'stream', START POSITION LATEST) FORMAT ...

Everything is asked upstream before anything is created; whoever plans does so in a thread.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planned_source import PlannedSource
from waterclock.adapter.sequencer.messages import planned_messages, shown_columns
from waterclock.adapter.sequencer.naming import full_name
from waterclock.adapter.sequencer.source_connections import connection_of
from waterclock.sql import ast, options
from waterclock.sql.ast.common import Option
from waterclock.sql.ast.sources import ExternalConnector, FormatKind, Metadata, PlainFormat
from waterclock.sql.errors import SyntaxFault
from waterclock.storage.envelopes.choice import decoding_of
from waterclock.storage.sources.aws.clients import KIND as AWS
from waterclock.storage.sources.kinesis import connector as kinesis
from waterclock.storage.sources.kinesis.creation import Start, Wanted, define

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

KIND = "kinesis"
_POSITION, _AT = "start position", "start position at timestamp"
_OPTIONS = ("stream", _POSITION, _AT)
_INCLUDED = (Metadata.KEY, Metadata.SHARD, Metadata.SEQUENCE_NUMBER, Metadata.TIMESTAMP)


def planned(session: SqlSession, statement: ast.CreateSource) -> PlannedSource:
    """The source that the statement asks for. Raises what is wrong with it, or upstream."""
    external = statement.connector
    assert isinstance(external, ExternalConnector)
    connection = connection_of(session, external, AWS, "Kinesis", "AWS")
    if statement.subsources is not None:
        raise Unsupported("FOR TABLES is not supported for a source of one stream")
    wanted = _wanted(options.by_name(external.options, _OPTIONS))
    core = session.front.core
    messages = planned_messages(
        session,
        statement,
        f'stream "{wanted.stream}"',
        wanted.stream.rpartition("/")[2],
        key_format=PlainFormat(FormatKind.TEXT),
        includes=_INCLUDED,
        long_offsets=True,
    )
    settings = core.connection_settings(connection.id)
    definition = define(connection.id, settings, wanted, messages.definition, runtime=core.runtime)
    rows = decoding_of(messages.definition, core.connection_settings).schema
    shown = shown_columns(statement, rows)
    return PlannedSource(
        kinesis.NAME,
        definition.encoded(),
        {kinesis.OUTPUT: rows},
        is_split=False,
        progress=kinesis.KIND.progress,
        connections=(connection.id, *messages.connections),
        envelope=messages.envelope,
        key_format=messages.key_format,
        value_format=messages.value_format,
        is_fallible=True,
        takes_notes=True,
        columns={} if shown is None else {kinesis.OUTPUT: shown},
        connector=replace(
            external, connection=full_name(core.current, connection.namespace, connection.name)
        ),
    )


def _wanted(asked: Mapping[str, Option]) -> Wanted:
    if "stream" not in asked:
        raise SyntaxFault("STREAM option is required")
    stream = options.text(asked["stream"])
    position, moment = asked.get(_POSITION), asked.get(_AT)
    if position is not None and moment is not None:
        raise SyntaxFault("START POSITION can not be given twice", moment.position)
    if moment is not None:
        return Wanted(stream, Start.AT_TIMESTAMP, _millis(moment))
    if position is None:
        return Wanted(stream)
    try:
        start = Start(options.text(position).upper())
        if start is not Start.AT_TIMESTAMP:
            return Wanted(stream, start)
    except ValueError:
        pass
    raise SyntaxFault(
        "START POSITION must be TRIM_HORIZON, LATEST or AT TIMESTAMP 'time'", position.position
    )


def _millis(option: Option) -> int:
    """A time as text, in UTC unless it names a zone; or as milliseconds since 1970."""
    text = options.text(option)
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise SyntaxFault(f"{option.name} requires a time", option.position) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return round(moment.timestamp() * 1000)
