"""Records of the native form as messages: updates with times, and statements of progress.

A value is an object with one of two fields:

    {"updates": [{"data": row, "time": 5, "diff": 1}, ...]}
    {"progress": {"lower": [0], "upper": [6], "counts": [{"time": 5, "count": 1}]}}

A statement says that at the times from `lower` on and before `upper` there are so many different
updates at each time in `counts`, and none at others. An empty `upper` means that nothing comes any
more.
"""

from __future__ import annotations

import pyarrow as pa

from waterclock.model.schema import (
    Array,
    Column,
    ColumnType,
    Field,
    Int,
    Json,
    Schema,
    Struct,
)
from waterclock.persist.rows import arrow_type
from waterclock.persist.schema_codec import decode_schema, encode_schema
from waterclock.storage.formats.api import (
    AvroDefinition,
    FormatDefinition,
    JsonDefinition,
    MessageDefinition,
)
from waterclock.storage.formats.choice import Connections, format_of
from waterclock.storage.formats.decoding import Told
from waterclock.storage.sources.api import ERROR, OFFSET
from waterclock.storage.sources.errors import InvalidSource

UPDATES, PROGRESS = "updates", "progress"
_TIMES = Array(Int(64))
_COUNTS = Array(Struct((Field("time", Int(64), False), Field("count", Int(64), False))))
_PROGRESS = Struct(
    (Field("lower", _TIMES, False), Field("upper", _TIMES, False), Field("counts", _COUNTS))
)


def _wrapped(value: FormatDefinition) -> FormatDefinition:
    """The format of the whole message, given that of its rows."""
    match value:
        case AvroDefinition():
            return value
        case JsonDefinition(columns=columns):
            row: ColumnType = Json()
            if columns is not None:
                declared = decode_schema(columns).columns
                row = Struct(tuple(Field(c.name, c.type, c.nullable) for c in declared))
            whole = Schema((Column(UPDATES, Array(_update(row))), Column(PROGRESS, _PROGRESS)))
            return JsonDefinition(encode_schema(whole))
        case _:
            raise InvalidSource("ENVELOPE MATERIALIZE requires FORMAT JSON or FORMAT AVRO")


def _update(row: ColumnType) -> Struct:
    fields = (Field("data", row), Field("time", Int(64), False), Field("diff", Int(64), False))
    return Struct(fields)


class MaterializeDecoding:
    """Implements `Decoding`. Rows of a single value are structs of one field."""

    def __init__(self, definition: MessageDefinition, connections: Connections = None) -> None:
        """Raises `InvalidSource`."""
        if definition.include:
            raise InvalidSource("INCLUDE is not supported with ENVELOPE MATERIALIZE")
        self._origin = definition.origin
        self._offset_type = definition.offset_type
        self._format = format_of(_wrapped(definition.value), connections)
        known = {column.name: column.type for column in self._format.columns}
        match known:
            case {"updates": Array(Struct(fields)), "progress": Struct()}:
                row = next((f.type for f in fields if f.name == "data"), None)
            case _:
                row = None
        if row is None:
            raise InvalidSource(
                "the schema is not that of updates and progress",
                detail="It must have the fields updates and progress.",
            )
        if isinstance(row, Struct):
            columns = tuple(Column(f.name, f.type, f.nullable) for f in row.fields)
        else:
            columns = (Column("data", row),)
        self._schema = Schema(columns)

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def messages(self) -> pa.Schema:
        parts = [pa.field(c.name, arrow_type(c.type)) for c in self._format.columns]
        return pa.schema(
            [
                *(part for part in parts if part.name in (UPDATES, PROGRESS)),
                pa.field(OFFSET, self._offset_type, nullable=False),
                pa.field(ERROR, pa.string()),
            ]
        )

    def decode(self, records: pa.RecordBatch, origin: str | None = None) -> pa.RecordBatch:
        records = records.filter(records.column("value").is_valid())
        decoded = self._format.decode(records.column("value"))
        told = Told(records, origin or self._origin)
        errors = told.errors(decoded, "value", self._format.sqlstate)
        names = [column.name for column in self._format.columns]
        by_name = dict(zip(names, decoded.columns, strict=True))
        by_name |= {OFFSET: records.column("offset"), ERROR: errors}
        schema = self.messages
        return pa.RecordBatch.from_arrays([by_name[n] for n in schema.names], schema=schema)
