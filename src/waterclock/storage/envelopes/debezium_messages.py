"""Records of Debezium as messages: the row before and after, and where the change stands.

A value is an object with `before`, `after`, `op`, `source` and perhaps `transaction`; in JSON it
may be wrapped in `payload`, beside its schema. A record without a value is a tombstone, which says
nothing that the delete before it did not say. What can not be applied exactly is an error: a change
without the row it replaces, or a truncation. A row that can not be held is told apart from the
change that it is in (`unheld_rows`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.model.schema import Column, ColumnType, Field, Int, Json, Schema, Struct, Text
from waterclock.persist.rows import arrow_type
from waterclock.persist.schema_codec import decode_schema, encode_schema
from waterclock.storage.envelopes.places import places
from waterclock.storage.envelopes.unheld_rows import (
    UNHELD,
    read_row,
    replaced,
    unreadable,
    with_reasons,
)
from waterclock.storage.formats.api import (
    AvroDefinition,
    Decoded,
    Format,
    FormatDefinition,
    JsonDefinition,
    MessageDefinition,
)
from waterclock.storage.formats.choice import Connections, format_of
from waterclock.storage.formats.decoding import Told, with_error_column
from waterclock.storage.sources.api import ERROR, OFFSET
from waterclock.storage.sources.decode_errors import (
    RAW_FIELDS,
    UNHELD_AFTER,
    UNHELD_BEFORE,
    raw_columns,
)
from waterclock.storage.sources.errors import InvalidSource

BEFORE, AFTER, OP, PAYLOAD = "before", "after", "op", "payload"
LANE, TRANSACTION_PLACE, BRANCH, PLACE = "mz_lane", "mz_commit", "mz_branch", "mz_place"
SNAPSHOT, KEYED = "mz_snapshot", "mz_keyed"
TRANSACTION, ORDER, COLLECTION = "mz_transaction", "mz_order", "mz_collection"
MOMENT = "mz_moment"
"""When the change was made, by the clock upstream, in milliseconds."""

_SOURCE_FIELDS = Struct(
    (
        Field("connector", Text()),
        Field("snapshot", Json()),
        Field("sequence", Text()),
        Field("file", Text()),
        Field("pos", Int(64)),
        Field("row", Int(64)),
        Field("gtid", Text()),
        Field("db", Text()),
        Field("schema", Text()),
        Field("table", Text()),
        Field("ts_ms", Int(64)),
    )
)
_TRANSACTION_FIELDS = Struct((Field("id", Text()), Field("total_order", Int(64))))
_NO_BEFORE = "an update has no row before it"
_NO_TRUNCATE = "a truncation of the table can not be followed"
_NO_CHANGE = "it is not a change of Debezium"


def _parts(row: ColumnType) -> tuple[Field, ...]:
    return (
        Field(BEFORE, row),
        Field(AFTER, row),
        Field(OP, Text()),
        Field("source", _SOURCE_FIELDS),
        Field("transaction", _TRANSACTION_FIELDS),
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
            parts = _parts(row)
            fields = (*parts, Field(PAYLOAD, Struct(parts)))
            schema = Schema(tuple(Column(f.name, f.type) for f in fields))
            return JsonDefinition(encode_schema(schema))
        case _:
            raise InvalidSource("ENVELOPE DEBEZIUM requires FORMAT JSON or FORMAT AVRO")


class DebeziumDecoding:
    """Implements `Decoding`."""

    def __init__(self, definition: MessageDefinition, connections: Connections = None) -> None:
        """Raises `InvalidSource`."""
        if definition.include:
            raise InvalidSource("INCLUDE is not supported with ENVELOPE DEBEZIUM")
        self._origin = definition.origin
        self._offset_type = definition.offset_type
        self._format = format_of(_wrapped(definition.value), connections)
        known = {column.name: column.type for column in self._format.columns}
        row = known.get(AFTER)
        if row is None or known.get(BEFORE) != row or OP not in known:
            raise InvalidSource(
                "the schema is not that of a change of Debezium",
                detail="It must have the fields before, after and op.",
            )
        if isinstance(row, Struct):
            self._schema = Schema(tuple(Column(f.name, f.type, f.nullable) for f in row.fields))
            self._is_struct = True
        else:
            self._schema = Schema((Column("data", row),))
            self._is_struct = False
        self._held = pa.struct([(c.name, arrow_type(c.type)) for c in self._schema.columns])
        self._errors = definition.errors
        if self._errors.column is not None:
            self._schema = with_error_column(self._schema, self._errors.column)
        self._row = pa.struct([(c.name, arrow_type(c.type)) for c in self._schema.columns])
        self._loose, self._row_format = _one_by_one(definition.value)

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def messages(self) -> pa.Schema:
        texts = (OP, LANE, TRANSACTION_PLACE, BRANCH, PLACE, TRANSACTION, COLLECTION)
        return pa.schema(
            [
                pa.field(BEFORE, self._row),
                pa.field(AFTER, self._row),
                *(pa.field(name, pa.string()) for name in texts),
                pa.field(ORDER, pa.int64()),
                pa.field(MOMENT, pa.int64()),
                pa.field(SNAPSHOT, pa.bool_()),
                pa.field(KEYED, pa.bool_()),
                pa.field(OFFSET, self._offset_type, nullable=False),
                pa.field(ERROR, pa.string()),
                pa.field(UNHELD_BEFORE, UNHELD),
                pa.field(UNHELD_AFTER, UNHELD),
                *(RAW_FIELDS if self._errors.keeps_bytes else ()),
            ]
        )

    def decode(self, records: pa.RecordBatch, origin: str | None = None) -> pa.RecordBatch:
        records = records.filter(records.column("value").is_valid())
        decoded = self._format.decode(records.column("value"))
        parts = _taken_apart(self._format, decoded)
        unheld = dict.fromkeys((BEFORE, AFTER), pa.nulls(len(records), UNHELD))
        if self._loose is not None and decoded.errors.null_count < len(records):
            decoded = self._read_again(records, decoded, parts, unheld)
        no_change = pc.coalesce(decoded.errors, _no_change(parts))
        nowhere = np.flatnonzero(no_change.is_valid().to_numpy(zero_copy_only=False))
        if len(nowhere):
            nothing = pa.nulls(len(nowhere), parts[BEFORE].type)
            parts[BEFORE] = replaced(parts[BEFORE], nowhere, nothing)
        faults = pc.coalesce(no_change, _faults(parts, unheld[BEFORE]))
        told = Told(records, origin or self._origin)
        errors = told.errors(Decoded((), faults), "value", self._format.sqlstate)
        ids = _of_struct(parts["transaction"], "id", pa.string())
        found = places(parts["source"], _array(parts[OP], pa.string()), ids)
        columns: dict[str, Any] = {
            BEFORE: self._rows(parts[BEFORE], unheld[BEFORE], pa.nulls(len(records), pa.string())),
            AFTER: self._rows(parts[AFTER], unheld[AFTER], _only(errors, no_change)),
            OP: parts[OP],
            LANE: found.lane,
            TRANSACTION_PLACE: found.transaction,
            BRANCH: found.branch,
            PLACE: found.place,
            TRANSACTION: found.name,
            COLLECTION: found.table,
            ORDER: _of_struct(parts["transaction"], "total_order", pa.int64()),
            MOMENT: _of_struct(parts["source"], "ts_ms", pa.int64()),
            SNAPSHOT: found.snapshot,
            KEYED: records.column("key").is_valid(),
            OFFSET: records.column("offset"),
            ERROR: errors,
            UNHELD_BEFORE: unheld[BEFORE],
            UNHELD_AFTER: unheld[AFTER],
        }
        if self._errors.keeps_bytes:
            wrong = pc.coalesce(no_change, unheld[AFTER].flatten()[1])
            raw = raw_columns(wrong, records.column("key"), records.column("value"))
            columns |= {field.name: c for field, c in zip(RAW_FIELDS, raw, strict=True)}
        schema = self.messages
        arrays = [_array(columns[field.name], field.type) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _read_again(
        self,
        records: pa.RecordBatch,
        decoded: Decoded,
        parts: dict[str, pa.Array],
        unheld: dict[str, pa.Array],
    ) -> Decoded:
        """What is still wrong when rows are read by themselves; puts what is read to the parts."""
        assert self._loose is not None
        assert self._row_format is not None
        places = unreadable(decoded)
        again = self._loose.decode(records.column("value").take(pa.array(places)))
        fine = again.errors.is_null()
        places = places[fine.to_numpy(zero_copy_only=False)]
        if not len(places):
            return decoded
        columns = tuple(column.filter(fine) for column in again.columns)
        read = _taken_apart(self._loose, Decoded(columns, again.errors.filter(fine)))
        for name in (BEFORE, AFTER):
            row = read_row(read.pop(name), self._row_format, self._held, self._origin)
            parts[name] = replaced(parts[name], places, row.held)
            unheld[name] = replaced(unheld[name], places, row.unheld)
        for name, values in read.items():
            parts[name] = replaced(parts[name], places, values)
        errors = replaced(decoded.errors, places, pa.nulls(len(places), pa.string()))
        return Decoded(decoded.columns, errors)

    def _rows(self, array: pa.Array, unheld: pa.Array, errors: pa.Array) -> pa.Array:
        if not self._is_struct:
            [name] = self._held.names
            array = pa.StructArray.from_arrays([array], [name], mask=array.is_null())
        if self._errors.column is None:
            return array
        return with_reasons(array, unheld, errors, self._row)


def _taken_apart(form: Format, decoded: Decoded) -> dict[str, pa.Array]:
    """The parts of each message, from where it has them."""
    names = [column.name for column in form.columns]
    top = dict(zip(names, decoded.columns, strict=True))
    nothing = pa.nulls(len(decoded.errors), pa.struct([]))
    parts = {name: top.get(name, nothing) for name in (BEFORE, AFTER, OP)}
    parts |= {name: top.get(name, nothing) for name in ("source", "transaction")}
    payload = top.get(PAYLOAD)
    if payload is None or payload.null_count == len(payload):
        return parts
    wrapped = payload.is_valid()
    return {
        name: _either(wrapped, _of_struct(payload, name, array.type), array)
        for name, array in parts.items()
    }


def _one_by_one(value: FormatDefinition) -> tuple[Format | None, Format | None]:
    """The formats of a message with rows of any form, and of such a row; None if a message is read
    as a whole or not at all.
    """
    if not isinstance(value, JsonDefinition) or value.columns is None:
        return None, None
    return format_of(_wrapped(JsonDefinition())), format_of(value)


def _only(errors: pa.Array, wanted: pa.Array) -> pa.Array:
    """The errors where something is wanted."""
    return pc.if_else(wanted.is_valid(), errors, pa.scalar(None, pa.string()))


def _no_change(parts: dict[str, pa.Array]) -> pa.Array:
    """What is wrong with messages that say nothing of any row."""
    op = parts[OP]
    return pc.if_else(op.is_null(), _NO_CHANGE, pa.scalar(None, pa.string()))


def _faults(parts: dict[str, pa.Array], unheld: pa.Array) -> pa.Array:
    """What is wrong with changes that could be read; `unheld` are rows before them that can not be
    held.
    """
    op = parts[OP]
    is_missing = pc.and_(parts[BEFORE].is_null(), unheld.is_null())
    no_before = pc.and_(pc.equal(op, "u"), is_missing)
    found = pc.if_else(pc.fill_null(no_before, False), _NO_BEFORE, pa.scalar(None, pa.string()))
    truncated = pc.fill_null(pc.equal(op, "t"), False)
    return pc.coalesce(found, pc.if_else(truncated, _NO_TRUNCATE, pa.scalar(None, pa.string())))


def _of_struct(array: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    """A field of structs; null where the struct is, or has no such field."""
    place = array.type.get_field_index(name)
    if place < 0:
        return pa.nulls(len(array), kind)
    return array.flatten()[place].cast(kind)


def _either(which: pa.Array, one: pa.Array, other: pa.Array) -> pa.Array:
    order = np.arange(len(other))
    chosen = which.to_numpy(zero_copy_only=False)
    order[~chosen] += len(other)
    return pa.concat_arrays([one, other]).take(pa.array(order))


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)
