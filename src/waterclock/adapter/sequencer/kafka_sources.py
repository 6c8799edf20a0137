"""CREATE SOURCE ... FROM KAFKA: what the statement says, and what the brokers say to it.

FROM KAFKA CONNECTION name (TOPIC 'topic', START OFFSET (0, 10), ...) FORMAT ...

A source of several topics, which has a TRANSACTION TOPIC, is read in `debezium_sources`.

Everything is asked upstream before anything is created; whoever plans does so in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planned_source import PlannedSource
from waterclock.adapter.sequencer import debezium_sources
from waterclock.adapter.sequencer.messages import planned_messages, shown_columns
from waterclock.adapter.sequencer.naming import full_name
from waterclock.adapter.sequencer.source_connections import connection_of
from waterclock.sql import ast, options
from waterclock.sql.ast.common import ListValue, Option
from waterclock.sql.ast.sources import ExternalConnector
from waterclock.sql.errors import SyntaxFault
from waterclock.storage.envelopes.choice import decoding_of
from waterclock.storage.sources.kafka import connector as kafka
from waterclock.storage.sources.kafka.creation import Wanted, define
from waterclock.storage.sources.kafka.definition import OUTPUT

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

KIND = "kafka"
_OPTIONS = ("topic", "start offset", "start timestamp", "group id prefix")


def planned(session: SqlSession, statement: ast.CreateSource) -> PlannedSource:
    """The source that the statement asks for. Raises what is wrong with it, or upstream."""
    external = statement.connector
    assert isinstance(external, ExternalConnector)
    connection = connection_of(session, external, KIND, "Kafka", "Kafka")
    if any(option.name == debezium_sources.TOPIC for option in external.options):
        return debezium_sources.planned(session, statement, connection)
    if statement.subsources is not None:
        raise Unsupported(
            "FOR TABLES is not supported for a source of one topic",
            hint="Give a TRANSACTION TOPIC, or create a source for each topic.",
        )
    wanted = _wanted(options.by_name(external.options, _OPTIONS))
    core = session.front.core
    messages = planned_messages(session, statement, f'topic "{wanted.topic}"', wanted.topic)
    settings = core.connection_settings(connection.id)
    definition = define(connection.id, settings, wanted, messages.definition, core.runtime.wall_ms)
    rows = decoding_of(messages.definition, core.connection_settings).schema
    shown = shown_columns(statement, rows)
    return PlannedSource(
        kafka.NAME,
        definition.encoded(),
        {OUTPUT: rows},
        is_split=False,
        progress=kafka.KIND.progress,
        connections=(connection.id, *messages.connections),
        envelope=messages.envelope,
        key_format=messages.key_format,
        value_format=messages.value_format,
        is_fallible=True,
        takes_notes=messages.definition.takes_notes,
        columns={} if shown is None else {OUTPUT: shown},
        connector=replace(
            external, connection=full_name(core.current, connection.namespace, connection.name)
        ),
    )


def _wanted(asked: Mapping[str, Option]) -> Wanted:
    if "topic" not in asked:
        raise SyntaxFault("TOPIC option is required")
    offsets, time = asked.get("start offset"), asked.get("start timestamp")
    if offsets is not None and time is not None:
        raise SyntaxFault(
            "START OFFSET and START TIMESTAMP can not be given together", time.position
        )
    prefix = asked.get("group id prefix")
    return Wanted(
        options.text(asked["topic"]),
        None if offsets is None else _integers(offsets),
        None if time is None else options.integer(time),
        "" if prefix is None else options.text(prefix),
    )


def _integers(option: Option) -> tuple[int, ...]:
    items = option.value.items if isinstance(option.value, ListValue) else (option.value,)
    return tuple(options.integer(replace(option, value=item)) for item in items)
