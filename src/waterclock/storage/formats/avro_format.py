"""FORMAT AVRO: messages as a schema says, in Confluent's wire form where there is a registry.

The wire form is a zero byte, the id of the schema that the message was written with, in four bytes,
and the value. The reader's schema is fixed when the source is made, so that its columns never
change; a writer's schema is resolved against it. One that can not be resolved is an error of the
message, not of the source.
"""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import fastavro
import pyarrow as pa

from waterclock.model.schema import Column
from waterclock.storage.formats.api import Decoded
from waterclock.storage.formats.avro_types import columns_of
from waterclock.storage.formats.registry import SchemaRegistry
from waterclock.storage.formats.rowwise import decode_rows
from waterclock.storage.sources.errors import InvalidSource

_HEAD = struct.Struct(">bI")
_BAD_BYTES = (
    EOFError,
    IndexError,
    KeyError,
    OverflowError,
    StopIteration,
    TypeError,
    fastavro.schema.SchemaParseException,
    fastavro.read.SchemaResolutionError,
)


class AvroValue:
    """Implements `Format`."""

    sqlstate = "22P03"

    def __init__(self, schema: str, registry: SchemaRegistry | None, name: str = "data") -> None:
        """Raises `InvalidSource` for a schema that is none, or that columns can not hold."""
        self._given = (schema, registry, name)
        self._registry = registry
        try:
            declared = json.loads(schema)
            self._reader = fastavro.parse_schema(declared)
        except (ValueError, *_BAD_BYTES) as fault:
            raise InvalidSource(f"invalid Avro schema: {fault}") from None
        self._columns, self._row = columns_of(declared, name)
        self._writers: dict[int, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroValue, self._given

    @property
    def columns(self) -> tuple[Column, ...]:
        return self._columns

    def decode(self, payloads: pa.Array) -> Decoded:
        return decode_rows(payloads, self._columns, self._parse)

    def _parse(self, payload: bytes) -> Any:
        writer, data = self._reader, io.BytesIO(payload)
        if self._registry is not None:
            writer = self._writer(payload, self._registry)
            data.seek(_HEAD.size)
        try:
            value = fastavro.schemaless_reader(data, writer, self._reader)
            row = self._row(value)
        except _BAD_BYTES as fault:
            raise ValueError(f"the bytes are not what the schema says: {fault}") from None
        if data.tell() != len(payload):
            raise ValueError("there are bytes after the value")
        return row

    def _writer(self, payload: bytes, registry: SchemaRegistry) -> Any:
        """The schema that a message was written with."""
        if len(payload) < _HEAD.size:
            raise ValueError("it is too short to name a schema")
        magic, number = _HEAD.unpack_from(payload)
        if magic != 0:
            raise ValueError(f"it begins with byte {magic}, and not with 0")
        if number not in self._writers:
            found = registry.by_id(number)
            if found is None:
                raise ValueError(f"the registry has no schema {number}")
            self._writers[number] = fastavro.parse_schema(json.loads(found))
        return self._writers[number]
