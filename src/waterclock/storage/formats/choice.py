"""The format that a definition is of."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from waterclock.model.ids import GlobalId
from waterclock.persist.schema_codec import decode_schema
from waterclock.storage.formats.api import (
    AvroDefinition,
    BytesDefinition,
    CsvDefinition,
    Format,
    FormatDefinition,
    JsonDefinition,
    TextDefinition,
)
from waterclock.storage.formats.avro_format import AvroValue
from waterclock.storage.formats.csv_format import CsvLine
from waterclock.storage.formats.json_format import JsonFields, JsonValue
from waterclock.storage.formats.plain_format import BytesValue, TextValue
from waterclock.storage.formats.registry import SchemaRegistry, authorization
from waterclock.storage.sources.api import ConnectionSettings
from waterclock.storage.sources.errors import InvalidSource

Connections = Callable[[GlobalId], ConnectionSettings] | None
"""How connections of the catalog are looked up; None where there are none."""


def format_of(definition: FormatDefinition, connections: Connections = None) -> Format:
    """The format. Raises `InvalidSource` if there can be none such."""
    match definition:
        case JsonDefinition(columns=None, name=name):
            return JsonValue(name)
        case JsonDefinition(columns=columns):
            return JsonFields(decode_schema(columns).columns)
        case TextDefinition(name=name):
            return TextValue(name)
        case BytesDefinition(name=name):
            return BytesValue(name)
        case CsvDefinition(columns=columns, delimiter=delimiter):
            return CsvLine(decode_schema(columns).columns, delimiter)
        case AvroDefinition(schema=schema, connection=connection, name=name):
            if connection is None:
                return AvroValue(schema, None, name)
            assert connections is not None, "a registry is reached over a connection"
            settings = connections(GlobalId.parse(connection))
            return AvroValue(schema, registry_at(settings), name)
        case _:
            assert_never(definition)


def registry_at(settings: ConnectionSettings) -> SchemaRegistry:
    """The registry that a connection leads to. Raises `InvalidSource`."""
    url, user = settings.options.get("url"), settings.options.get("username")
    password = settings.options.get("password")
    if not isinstance(url, str):
        raise InvalidSource(f'connection "{settings.name}" has no URL')
    headers = {}
    if isinstance(user, str):
        headers = authorization(user, password if isinstance(password, str) else "")
    return SchemaRegistry(url, headers)
