"""Avro schemas as columns, and Avro values as those columns hold them.

A record's fields are columns; a union with null may be null. Types that Kafka Connect and Debezium
give by a name beside the type (`connect.name`) are what that name says. Maps are jsonb.
"""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Callable
from typing import Any

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
    Json,
    Struct,
    Text,
    TimeOfDay,
    Timestamp,
    Uuid,
)
from waterclock.storage.formats.jsonb import normal_form
from waterclock.storage.sources.errors import InvalidSource

Convert = Callable[[Any], Any]
Typed = tuple[ColumnType, Convert | None]

_PLAIN: dict[str, ColumnType] = {
    "boolean": Bool(),
    "int": Int(32),
    "long": Int(64),
    "float": Float(32),
    "double": Float(64),
    "bytes": Bytes(),
    "string": Text(),
    "enum": Text(),
    "fixed": Bytes(),
}
_WIDEST = 38


def _moment(unit: int) -> Convert:
    """Units since 1970, as microseconds."""
    return lambda value: value * unit


def _nanos(value: int) -> int:
    return value // 1000


def _uuid(value: Any) -> bytes:
    return (value if isinstance(value, uuid.UUID) else uuid.UUID(value)).bytes


def _jsonb(value: str) -> str:
    return normal_form(value.encode())


def _map(value: Any) -> str:
    return normal_form(json.dumps(value, default=str).encode())


_NAMED: dict[str, Typed] = {
    "io.debezium.time.Date": (Date(), None),
    "io.debezium.time.Timestamp": (Timestamp(False), _moment(1000)),
    "io.debezium.time.MicroTimestamp": (Timestamp(False), None),
    "io.debezium.time.NanoTimestamp": (Timestamp(False), _nanos),
    "io.debezium.time.ZonedTimestamp": (Timestamp(True), datetime.datetime.fromisoformat),
    "io.debezium.time.Time": (TimeOfDay(), _moment(1000)),
    "io.debezium.time.MicroTime": (TimeOfDay(), None),
    "io.debezium.data.Json": (Json(), _jsonb),
    "io.debezium.data.Uuid": (Uuid(), _uuid),
    "org.apache.kafka.connect.data.Date": (Date(), None),
    "org.apache.kafka.connect.data.Timestamp": (Timestamp(True), _moment(1000)),
}
_LOGICAL: dict[str, Typed] = {
    "date": (Date(), None),
    "time-millis": (TimeOfDay(), None),
    "time-micros": (TimeOfDay(), None),
    "timestamp-millis": (Timestamp(True), None),
    "timestamp-micros": (Timestamp(True), None),
    "local-timestamp-millis": (Timestamp(False), None),
    "local-timestamp-micros": (Timestamp(False), None),
    "uuid": (Uuid(), _uuid),
}


def columns_of(schema: Any, name: str) -> tuple[tuple[Column, ...], Convert]:
    """The columns of a schema, and what makes a row of a value.

    A record has those of its fields, anything else a single one of the given name. Raises
    `InvalidSource` for what no column can hold.
    """
    branch, nullable = _branch(schema, Names())
    if isinstance(branch, dict) and branch.get("type") == "record":
        kind, convert = typed(branch, Names())
        assert isinstance(kind, Struct)
        assert convert is not None
        columns = tuple(Column(f.name, f.type, f.nullable) for f in kind.fields)
        return columns, lambda value: tuple(convert(value).values())
    kind, convert = typed(branch, Names())
    column = Column(name, kind, nullable)
    return (column,), lambda v: (v if v is None or convert is None else convert(v),)


class Names:
    """Named types that a schema has defined so far."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        self.open: tuple[str, ...] = ()

    def define(self, schema: dict[str, Any]) -> None:
        self._known[schema["name"].rpartition(".")[2]] = schema

    def get(self, name: str) -> Any:
        return self._known.get(name.rpartition(".")[2])


def _branch(schema: Any, names: Names) -> tuple[Any, bool]:
    """The schema without null, and whether it had it."""
    if isinstance(schema, str) and schema not in _PLAIN and names.get(schema) is not None:
        return names.get(schema), False
    if not isinstance(schema, list):
        return schema, schema == "null"
    others = [each for each in schema if each != "null"]
    if len(others) != 1:
        raise InvalidSource("a union of several types in an Avro schema is not supported")
    return _branch(others[0], names)[0], len(others) != len(schema)


def typed(schema: Any, names: Names) -> Typed:
    """The type that holds values of a schema without null, and what makes them fit for it."""
    if isinstance(schema, str):
        if schema not in _PLAIN:
            raise InvalidSource(f"the type {schema} in an Avro schema is not supported")
        return _PLAIN[schema], None
    named = _NAMED.get(schema.get("connect.name", ""))
    if named is not None:
        return named
    kind, logical = schema["type"], schema.get("logicalType")
    if kind in ("record", "enum", "fixed"):
        names.define(schema)
    if logical == "decimal":
        precision, scale = min(schema["precision"], _WIDEST), schema.get("scale", 0)
        return Decimal(precision, scale), None
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    match kind:
        case "record":
            return _record(schema, names)
        case "array":
            return _array(schema["items"], names)
        case "map":
            return Json(), _map
        case str() if kind in _PLAIN:
            return _PLAIN[kind], None
        case dict() | list():
            return typed(_branch(kind, names)[0], names)
        case _:
            raise InvalidSource(f"the type {kind} in an Avro schema is not supported")


def _record(schema: dict[str, Any], names: Names) -> Typed:
    if schema["name"] in names.open:
        raise InvalidSource("a type in an Avro schema that contains itself is not supported")
    names.open = (*names.open, schema["name"])
    fields: list[Field] = []
    converts: list[tuple[str, Convert | None]] = []
    for each in schema["fields"]:
        branch, nullable = _branch(each["type"], names)
        kind, convert = typed(branch, names)
        fields.append(Field(each["name"], kind, nullable))
        converts.append((each["name"], convert))
    names.open = names.open[:-1]

    def converted(value: Any) -> dict[str, Any]:
        return {
            name: value[name] if convert is None or value[name] is None else convert(value[name])
            for name, convert in converts
        }

    return Struct(tuple(fields)), converted


def _array(items: Any, names: Names) -> Typed:
    branch, _ = _branch(items, names)
    kind, convert = typed(branch, names)
    if convert is None:
        return Array(kind), None
    return Array(kind), lambda values: [None if v is None else convert(v) for v in values]
