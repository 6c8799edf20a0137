"""Records to messages: the formats of key and value, and the columns of both in one row.

The columns of the key come first, then those of the value, then what INCLUDE asks for. The key is
there if it is asked for, and always for an upsert, where it says which row is meant; a column of
the value with the name of one of the key's is then left out.

This is for messages that are rows (ENVELOPE NONE and UPSERT). Those of the other envelopes have a
form of their own, and are decoded beside them; `envelopes.choice` knows which is which.

A message that can not be read has in `mz_error` what is wrong. With INLINE its row tells that too,
in the last column, and all columns may be null.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.model.schema import (
    Array,
    Bytes,
    Column,
    ColumnType,
    Int,
    Json,
    Schema,
    Text,
    Timestamp,
)
from waterclock.persist.rows import DIFF, arrow_type, row_schema
from waterclock.storage.formats.api import (
    Decoded,
    Format,
    Included,
    MessageDefinition,
    UpsertDefinition,
)
from waterclock.storage.formats.choice import Connections, format_of
from waterclock.storage.formats.jsonb import normal_form
from waterclock.storage.sources.api import ERROR, OFFSET
from waterclock.storage.sources.decode_errors import RAW_FIELDS, raw_columns, reasons
from waterclock.storage.sources.errors import InvalidSource

KEY = "mz_key"
"""In upserts: which key is meant where its columns do not tell, as text; null where they do."""
_INCLUDED: dict[str, ColumnType] = {
    "partition": Int(32),
    "offset": Int(64),
    "timestamp": Timestamp(True),
    "headers": Array(Json()),
    "header": Bytes(),
    "shard": Text(),
    "sequence number": Text(),
}
_NAMES_IN_RECORDS = {"shard": "partition", "sequence number": "offset"}
_NULL_KEY = "22004 the key of {origin}{place} is null, which an upsert can not be applied to"


class RowDecoding:
    """Implements `Decoding` for messages that are rows."""

    def __init__(self, definition: MessageDefinition, connections: Connections = None) -> None:
        """Raises `InvalidSource`."""
        self._origin = definition.origin
        self._offset_type = definition.offset_type
        self._is_upsert = isinstance(definition.envelope, UpsertDefinition)
        self._value = format_of(definition.value, connections)
        self._key: Format | None = None
        named = [each for each in definition.include if each.what == "key"]
        if definition.key is not None and (named or self._is_upsert):
            self._key = format_of(definition.key, connections)
        elif named or self._is_upsert:
            raise InvalidSource("the key of messages has no format")
        self._keys = _key_columns(self._key, named)
        self._besides = [each for each in definition.include if each.what != "key"]
        names = {column.name for column in self._keys} if self._is_upsert else set()
        self._kept = [c.name not in names for c in self._value.columns]
        values = [c for c, kept in zip(self._value.columns, self._kept, strict=True) if kept]
        included = [Column(each.name, _INCLUDED[each.what]) for each in self._besides]
        self._schema = Schema((*self._keys, *values, *included))
        self._errors = definition.errors
        if self._errors.column is not None:
            self._schema = with_error_column(self._schema, self._errors.column)
        raw = (field.name for field in RAW_FIELDS if self._errors.keeps_bytes)
        for name in (OFFSET, ERROR, KEY, *raw):
            if name in self._schema.names:
                raise InvalidSource(f'a column of a source can not be called "{name}"')

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def key_columns(self) -> int:
        """How many of the columns are the key's; they come first."""
        return len(self._keys)

    @property
    def messages(self) -> pa.Schema:
        fields = [field.with_nullable(True) for field in row_schema(self._schema)]
        fields += [
            pa.field(OFFSET, self._offset_type, nullable=False),
            pa.field(DIFF, pa.int64(), nullable=False),
            pa.field(ERROR, pa.string()),
        ]
        fields += [pa.field(KEY, pa.string())] if self._is_upsert else []
        return pa.schema([*fields, *RAW_FIELDS] if self._errors.keeps_bytes else fields)

    def decode(self, records: pa.RecordBatch, origin: str | None = None) -> pa.RecordBatch:
        told = Told(records, origin or self._origin)
        value = self._value.decode(records.column("value"))
        errors = told.errors(value, "value", self._value.sqlstate)
        columns = [c for c, kept in zip(value.columns, self._kept, strict=True) if kept]
        diffs = pa.repeat(pa.scalar(1, pa.int64()), len(records))
        more: list[pa.Array] = []
        if self._key is not None:
            key = self._key.decode(records.column("key"))
            errors = pc.coalesce(told.errors(key, "key", self._key.sqlstate), errors)
            columns = [*key.columns, *columns]
            if self._is_upsert:
                is_null = records.column("value").is_null()
                diffs = pc.if_else(is_null, pa.scalar(-1, pa.int64()), diffs)
                more = [_unusual_keys(records.column("key"), key)]
                errors = pc.coalesce(told.null_keys(), errors)
                errors = pc.if_else(is_null, pa.scalar(None, pa.string()), errors)
        columns += [_included(records, each) for each in self._besides]
        if self._errors.column is not None:
            columns.append(reasons(errors))
        if self._errors.keeps_bytes:
            more += raw_columns(errors, records.column("key"), records.column("value"))
        arrays = [*columns, records.column("offset"), diffs, errors, *more]
        return pa.RecordBatch.from_arrays(arrays, schema=self.messages)


def with_error_column(schema: Schema, name: str) -> Schema:
    """The columns of rows that may be wrong, the last of which tells what is. Raises
    `InvalidSource` if there is a column of that name.
    """
    if name in schema.names:
        raise InvalidSource(
            f'there is a column "{name}" already',
            hint="Give the column of errors another name: ON DECODE ERROR INLINE AS name.",
        )
    columns = (Column(each.name, each.type) for each in schema.columns)
    return Schema((*columns, Column(name, Text())))


def _key_columns(key: Format | None, named: list[Included]) -> tuple[Column, ...]:
    if key is None:
        return ()
    columns = key.columns
    if len(columns) == 1 and named:
        return (Column(named[0].name, columns[0].type, columns[0].nullable),)
    return columns


def _unusual_keys(raw: pa.Array, key: Decoded) -> pa.Array:
    """Keys that are null, or whose bytes can not be read, as text."""
    unusual = pc.or_(raw.is_null(), key.errors.is_valid())
    if not pc.any(unusual).as_py():
        return pa.nulls(len(raw), pa.string())
    texts: list[str | None] = [None] * len(raw)
    for place in np.flatnonzero(unusual.to_numpy(zero_copy_only=False)):
        data = raw[place].as_py()
        texts[place] = "null" if data is None else f"\\x{data.hex()}"
    return pa.array(texts, pa.string())


def _included(records: pa.RecordBatch, wanted: Included) -> pa.Array:
    if wanted.what == "headers":
        return _headers_shown(records.column("headers"))
    if wanted.what != "header":
        return records.column(_NAMES_IN_RECORDS.get(wanted.what, wanted.what))
    found = []
    for headers in records.column("headers").to_pylist():
        values = [h["value"] for h in headers or () if h["key"] == wanted.header]
        found.append(values[-1] if values else None)
    return pa.array(found, pa.binary())


def _headers_shown(headers: pa.Array) -> pa.Array:
    """Each header as jsonb, its value as bytea is written: names may come twice, and in order."""
    found = [
        None if each is None else [_header_shown(h["key"], h["value"]) for h in each]
        for each in headers.to_pylist()
    ]
    return pa.array(found, arrow_type(_INCLUDED["headers"]))


def _header_shown(key: str, value: bytes | None) -> str:
    shown = None if value is None else f"\\x{value.hex()}"
    return normal_form(msgspec.json.encode({"key": key, "value": shown}))


class Told:
    """Says what is wrong with records, and where they are."""

    def __init__(self, records: pa.RecordBatch, origin: str) -> None:
        self._records = records
        self._origin = origin

    def errors(self, decoded: Decoded, part: str, sqlstate: str) -> pa.Array:
        """What is wrong with a part of each record; null where nothing is."""
        reasons = decoded.errors
        if reasons.null_count == len(reasons):
            return reasons
        return self._at(
            reasons.is_valid(),
            lambda place: (
                f"{sqlstate} can not read the {part} of {self._origin}{self.place(place)}: "
                f"{reasons[place].as_py()}"
            ),
        )

    def null_keys(self) -> pa.Array:
        """An error for each record without a key."""
        return self._at(
            self._records.column("key").is_null(),
            lambda place: _NULL_KEY.format(origin=self._origin, place=self.place(place)),
        )

    def place(self, place: int) -> str:
        """Where the record stands within its origin."""
        partition = self._records.column("partition")[place].as_py()
        offset = self._records.column("offset")[place].as_py()
        part = "" if partition is None else f", partition {partition}"
        return f"{part}, offset {offset}"

    def _at(self, where: pa.Array, tell: Any) -> pa.Array:
        texts: list[str | None] = [None] * len(where)
        for place in np.flatnonzero(where.to_numpy(zero_copy_only=False)):
            texts[place] = tell(int(place))
        return pa.array(texts, pa.string())
