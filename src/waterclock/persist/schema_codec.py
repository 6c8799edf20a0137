"""Row schemas as plain lists and back, for the records of the log.

A column type is a list: its name, then its parameters. Names are part of the format on disk and
never change.
"""

from __future__ import annotations

from typing import Any, assert_never

from waterclock.model.schema import (
    Array,
    Bool,
    Bytes,
    Column,
    ColumnType,
    Date,
    Decimal,
    Field,
    Float,
    Int,
    Interval,
    Json,
    Numeric,
    Schema,
    Struct,
    Text,
    TimeOfDay,
    Timestamp,
    Uuid,
)
from waterclock.persist.errors import Damaged

_PLAIN: dict[str, ColumnType] = {
    "bool": Bool(),
    "numeric": Numeric(),
    "text": Text(),
    "bytes": Bytes(),
    "date": Date(),
    "time": TimeOfDay(),
    "interval": Interval(),
    "uuid": Uuid(),
    "json": Json(),
}
_PLAIN_NAMES = {column_type: name for name, column_type in _PLAIN.items()}


def encode_schema(schema: Schema) -> list[Any]:
    return [[c.name, _encode_type(c.type), c.nullable] for c in schema.columns]


def decode_schema(data: Any) -> Schema:
    return Schema(
        tuple(Column(name, _decode_type(kind), nullable) for name, kind, nullable in data)
    )


def _encode_type(column_type: ColumnType) -> list[Any]:
    match column_type:
        case Int(bits):
            return ["int", bits]
        case Float(bits):
            return ["float", bits]
        case Decimal(precision, scale):
            return ["decimal", precision, scale]
        case Timestamp(zoned):
            return ["timestamp", zoned]
        case Array(element):
            return ["array", _encode_type(element)]
        case Struct(fields):
            return ["struct", [[f.name, _encode_type(f.type), f.nullable] for f in fields]]
        case (
            Bool()
            | Numeric()
            | Text()
            | Bytes()
            | Date()
            | TimeOfDay()
            | Interval()
            | Uuid()
            | Json()
        ) as plain:
            return [_PLAIN_NAMES[plain]]
        case _:
            assert_never(column_type)


def _decode_type(data: Any) -> ColumnType:
    match list(data):
        case ["int", bits]:
            return Int(bits)
        case ["float", bits]:
            return Float(bits)
        case ["decimal", precision, scale]:
            return Decimal(precision, scale)
        case ["timestamp", zoned]:
            return Timestamp(zoned)
        case ["array", element]:
            return Array(_decode_type(element))
        case ["struct", fields]:
            return Struct(
                tuple(Field(n, _decode_type(kind), nullable) for n, kind, nullable in fields)
            )
        case [str(name)] if name in _PLAIN:
            return _PLAIN[name]
    raise Damaged(f"the log names a column type that does not exist: {data!r}")
