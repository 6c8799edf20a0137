"""The envelope that a definition is of, and what makes its messages of records."""

from __future__ import annotations

from typing import assert_never

import msgspec

from waterclock.persist.rows import row_schema
from waterclock.storage.envelopes.debezium import Debezium
from waterclock.storage.envelopes.debezium_messages import DebeziumDecoding
from waterclock.storage.envelopes.materialize import Materialize
from waterclock.storage.envelopes.materialize_messages import MaterializeDecoding
from waterclock.storage.envelopes.plain import Plain
from waterclock.storage.envelopes.upsert import Upsert
from waterclock.storage.formats.api import (
    AvroDefinition,
    DebeziumDefinition,
    Decoding,
    MaterializeDefinition,
    MessageDefinition,
    PlainDefinition,
    UpsertDefinition,
)
from waterclock.storage.formats.choice import Connections
from waterclock.storage.formats.decoding import RowDecoding
from waterclock.storage.sources.api import Envelope


def decoding_of(definition: MessageDefinition, connections: Connections = None) -> Decoding:
    """What turns records into messages. Raises `InvalidSource`."""
    match definition.envelope:
        case PlainDefinition() | UpsertDefinition():
            return RowDecoding(definition, connections)
        case DebeziumDefinition():
            return DebeziumDecoding(definition, connections)
        case MaterializeDefinition():
            return MaterializeDecoding(definition, connections)
        case _:
            assert_never(definition.envelope)


def _without_registry(definition: MessageDefinition) -> MessageDefinition:
    """The same columns, for one who decodes nothing."""
    value, key = definition.value, definition.key
    if isinstance(value, AvroDefinition):
        value = msgspec.structs.replace(value, connection=None)
    if isinstance(key, AvroDefinition):
        key = msgspec.structs.replace(key, connection=None)
    return msgspec.structs.replace(definition, value=value, key=key)


def envelope_of(definition: MessageDefinition) -> Envelope:
    """What such messages mean for the contents."""
    if isinstance(definition.envelope, PlainDefinition):
        return Plain(definition.errors.column)
    decoding = decoding_of(_without_registry(definition))
    rows = row_schema(decoding.schema)
    match definition.envelope:
        case UpsertDefinition():
            assert isinstance(decoding, RowDecoding)
            inline = definition.errors.column is not None
            return Upsert(rows, decoding.key_columns, inline=inline)
        case DebeziumDefinition():
            return Debezium(rows, inline=definition.errors.column is not None)
        case MaterializeDefinition(keeps_times=keeps_times):
            return Materialize(rows, keeps_times=keeps_times)
        case _:
            assert_never(definition.envelope)
