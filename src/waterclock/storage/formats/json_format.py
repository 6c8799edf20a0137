"""FORMAT JSON: the value as one jsonb column, or its fields as declared columns.

With declared columns a message is an object. A field that is missing or null is null; one that is
not declared is passed over; one whose value is of another type is an error of that message. Types
are taken strictly: a number in quotes is a text. Bytes are in base64, as is usual in JSON; days,
times and UUIDs are texts in their ISO form.

Messages that are all right are decoded together, and their columns made one after the other. If
anything is wrong with one, all are decoded anew, each alone, to find out with which and what.
"""

from __future__ import annotations

import datetime
import decimal
import operator
import types
import uuid
from collections.abc import Callable
from typing import Annotated, Any, assert_never

import msgspec
import numpy as np
import pyarrow as pa

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
    Struct,
    Text,
    TimeOfDay,
    Timestamp,
    Uuid,
)
from waterclock.persist.numerics import TooManyDigits, parts_of
from waterclock.persist.rows import arrow_type
from waterclock.storage.formats.api import Decoded
from waterclock.storage.formats.jsonb import normal_form
from waterclock.storage.formats.rowwise import UNFIT, decode_rows
from waterclock.storage.sources.errors import InvalidSource

INVALID_TEXT = "22P02"
_NULL = msgspec.Raw(b"null")
_LARGEST_FLOAT4 = 3.4028235677973366e38
"""From here on a number is infinite in 32 bits."""
Convert = Callable[[Any], Any]


class JsonValue:
    """Implements `Format`: the whole value in one column."""

    sqlstate = INVALID_TEXT

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column(self._name, Json()),)

    def decode(self, payloads: pa.Array) -> Decoded:
        return decode_rows(payloads, self.columns, lambda payload: (normal_form(payload),))


class JsonFields:
    """Implements `Format`: the fields of an object as columns."""

    sqlstate = INVALID_TEXT

    def __init__(self, columns: tuple[Column, ...]) -> None:
        """Raises `InvalidSource` if there is a type that no JSON value can be."""
        self._columns = columns
        fields = tuple(Field(c.name, c.type, c.nullable) for c in columns)
        kind, self._convert = _struct(fields)
        self._decoder = msgspec.json.Decoder(kind)
        self._builders = [_builder(c.type) for c in columns]

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonFields, (self._columns,)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self._columns

    def decode(self, payloads: pa.Array) -> Decoded:
        arrays = self._try_together(payloads)
        if arrays is not None:
            return Decoded(arrays, pa.nulls(len(payloads), pa.string()))
        return decode_rows(payloads, self._columns, self.row)

    def _try_together(self, payloads: pa.Array) -> tuple[pa.Array, ...] | None:
        """The columns, if nothing is wrong with any message."""
        given = payloads.drop_null()
        lines = b"\n".join(given.to_pylist())
        if not len(given) or lines.count(b"\n") != len(given) - 1 or b"\\u0000" in lines:
            return None
        try:
            rows = self._decoder.decode_lines(lines)
            if len(rows) != len(given):  # an empty one is no line
                return None
            found = tuple(
                build(list(map(operator.attrgetter(f"f{i}"), rows)))
                for i, build in enumerate(self._builders)
            )
        except (msgspec.MsgspecError, RecursionError, ValueError, *UNFIT):
            return None
        return found if not payloads.null_count else _spread(found, payloads.is_valid())

    def row(self, payload: bytes) -> Any:
        """The values of one message. Raises `ValueError` with what is wrong."""
        if b"\\u0000" in payload and b"\\u0000" in payload.replace(b"\\\\", b""):
            raise ValueError("\\u0000 can not be converted to text")
        try:
            return self._convert(self._decoder.decode(payload))
        except msgspec.MsgspecError as fault:
            raise ValueError(str(fault)) from None
        except RecursionError:
            raise ValueError("it is nested too deeply") from None


def _struct(fields: tuple[Field, ...]) -> tuple[type[msgspec.Struct], Convert]:
    """What to decode an object to, and how that becomes a tuple of values for Arrow."""
    known = [_type(field.type) for field in fields]
    kind = msgspec.defstruct(
        "Row",
        [_field(f"f{i}", field, known[i][0]) for i, field in enumerate(fields)],
        rename={f"f{i}": field.name for i, field in enumerate(fields)},
        kw_only=True,
        gc=False,
    )
    converts = [(i, convert) for i, (_, convert) in enumerate(known) if convert is not None]

    def converted(value: Any) -> Any:
        row = list(msgspec.structs.astuple(value))
        for i, convert in converts:
            if row[i] is not None:
                row[i] = convert(row[i])
        return row

    return kind, converted if converts else msgspec.structs.astuple


def _field(name: str, field: Field, kind: Any) -> Any:
    if kind is msgspec.Raw:  # a union with null would not keep the text
        return (name, kind, _NULL) if field.nullable else (name, kind)
    return (name, kind | None, None) if field.nullable else (name, kind)


def _type(kind: ColumnType) -> tuple[Any, Convert | None]:
    """The type that a value is decoded as, and what makes it fit for Arrow, if anything must."""
    match kind:
        case Bool():
            return bool, None
        case Int(bits):
            limit = 2 ** (bits - 1)
            return Annotated[int, msgspec.Meta(ge=-limit, le=limit - 1)], None
        case Float(32):
            return Annotated[float, msgspec.Meta(ge=-_LARGEST_FLOAT4, le=_LARGEST_FLOAT4)], None
        case Float(_):
            return float, None
        case Decimal(_, scale):
            return decimal.Decimal, _quantizer(scale)
        case Numeric():
            return decimal.Decimal, _own_scale
        case Text():
            return str, None
        case Bytes():
            return bytes, None
        case Date():
            return datetime.date, None
        case TimeOfDay():
            return Annotated[datetime.time, msgspec.Meta(tz=False)], None
        case Timestamp(zoned):
            return Annotated[datetime.datetime, msgspec.Meta(tz=zoned)], None
        case Uuid():
            return uuid.UUID, _bytes_of
        case Json():
            return msgspec.Raw, _jsonb
        case Array(element):
            return _array(element)
        case Struct(fields):
            return _nested(fields)
        case Interval():
            raise InvalidSource("a column of type interval can not be read from JSON")
        case _:
            assert_never(kind)


def _builder(kind: ColumnType) -> Callable[[list[Any]], pa.Array]:
    """What makes a column of decoded values. Raises `ValueError` and what Arrow raises."""
    if isinstance(kind, Struct):
        return _struct_builder(kind)
    convert, held = _type(kind)[1], arrow_type(kind)

    def built(values: list[Any]) -> pa.Array:
        if convert is not None:
            values = [None if value is None else convert(value) for value in values]
        return pa.array(values, held)

    return built


def _struct_builder(kind: Struct) -> Callable[[list[Any]], pa.Array]:
    builders = [_builder(field.type) for field in kind.fields]
    fields = list(arrow_type(kind))

    def built(values: list[Any]) -> pa.Array:
        mask = np.array([value is None for value in values], np.bool_)
        there = [value for value in values if value is not None]
        parts = tuple(
            build(list(map(operator.attrgetter(f"f{i}"), there)))
            for i, build in enumerate(builders)
        )
        if mask.any():
            parts = _spread(parts, pa.array(~mask))
        return pa.StructArray.from_arrays(parts, fields=fields, mask=pa.array(mask))

    return built


def _spread(arrays: tuple[pa.Array, ...], valid: pa.Array) -> tuple[pa.Array, ...]:
    """Columns of all messages, given those of the messages that there are."""
    there = valid.to_numpy(zero_copy_only=False)
    places = pa.array(np.cumsum(there) - 1, mask=~there)
    return tuple(array.take(places) for array in arrays)


def _array(element: ColumnType) -> tuple[Any, Convert | None]:
    inner, convert = _type(element)
    if convert is None:
        return _list_of(inner | None), None
    kind = _list_of(inner if inner is msgspec.Raw else inner | None)
    return kind, lambda values: [None if v is None else convert(v) for v in values]


def _list_of(element: Any) -> Any:
    return types.GenericAlias(list, (element,))


def _nested(fields: tuple[Field, ...]) -> tuple[Any, Convert]:
    inner, convert = _struct(fields)
    names = [field.name for field in fields]
    return inner, lambda value: dict(zip(names, convert(value), strict=True))


def _quantizer(scale: int) -> Convert:
    places = decimal.Decimal(1).scaleb(-scale)
    context = decimal.Context(prec=80, rounding=decimal.ROUND_HALF_UP)

    def quantized(value: decimal.Decimal) -> decimal.Decimal:
        if not value.is_finite():
            raise ValueError(f"{value} is not a number")
        try:
            return value.quantize(places, context=context)
        except decimal.InvalidOperation:
            raise ValueError(f"{value} is out of range") from None

    return quantized


def _own_scale(value: decimal.Decimal) -> dict[str, Any]:
    """A number with the digits behind the point that it was written with."""
    if not value.is_finite():
        raise ValueError(f"{value} is not a number")
    try:
        return parts_of(value)
    except TooManyDigits:
        raise ValueError(f"{value} is out of range") from None


def _bytes_of(value: uuid.UUID) -> bytes:
    return value.bytes


def _jsonb(value: msgspec.Raw) -> str | None:
    payload = bytes(value)
    return None if payload == b"null" else normal_form(payload)
