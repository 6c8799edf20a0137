"""Columns from PostgreSQL's binary format."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import ROUND_DOWN, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from waterclock.model.pg_types import (
    NO_MODIFIER,
    PgType,
    column_type,
    element_of,
    type_info,
)
from waterclock.persist.rows import arrow_type
from waterclock.pgwire.values.building import build, build_lists
from waterclock.pgwire.values.calendar import (
    DAY_MICROS,
    EPOCH_DAYS,
    EPOCH_MICROS,
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
)
from waterclock.pgwire.values.errors import (
    BadValue,
    DatetimeOverflow,
    InvalidBinary,
    OutOfRange,
    ShortBinary,
    UnsupportedValue,
    as_bad_value,
    decode_utf8,
    refuse_row,
)
from waterclock.pgwire.values.jsons import check_json, normal_json
from waterclock.pgwire.values.scalars_in import (
    bounded_text_parser,
    fitted,
    unsupported_numeric,
)
from waterclock.sql.types import shown_type

_FIXED = {
    "int2": ">i2",
    "int4": ">i4",
    "int8": ">i8",
    "mz_timestamp": ">i8",
    "oid": ">u4",
    "float4": ">f4",
    "float8": ">f8",
}
_WIDE = Context(prec=30_000, Emax=999_999, Emin=-999_999)
_SPECIAL_NUMERICS = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}


def decode_binary(values: Sequence[bytes | None], declared: PgType) -> pa.Array:
    """The column of the declared type; a `BadValue` tells the row of the first that is bad."""
    element = element_of(declared.oid)
    if element is not None:
        return _decode_arrays(values, PgType(element.oid, declared.modifier))
    name = type_info(declared.oid).name
    if name in _FIXED:
        return _decode_fixed(values, np.dtype(_FIXED[name]), declared)
    parsed = _one_by_one(values, _reader(name, declared.modifier))
    with as_bad_value(lambda: _bad(0)):
        return build(parsed, declared)


def _decode_fixed(
    values: Sequence[bytes | None], form: np.dtype[Any], declared: PgType
) -> pa.Array:
    width = form.itemsize
    for row, value in enumerate(values):
        if value is not None and len(value) != width:
            raise _wrong_length(row, len(value), width)
    zero = bytes(width)
    data = b"".join([zero if value is None else value for value in values])
    numbers = np.frombuffer(data, dtype=form).astype(form.newbyteorder("="))
    missing = np.array([value is None for value in values], dtype=np.bool_)
    return pa.array(numbers, mask=missing).cast(arrow_type(column_type(declared)))


def _reader(name: str, modifier: int) -> Callable[[bytes], Any]:
    match name:
        case "bool":
            return lambda data: _unpack(">B", data)[0] != 0
        case "numeric":
            return lambda data: _numeric(data, modifier)
        case "uint8":
            return lambda data: _unpack(">Q", data)[0]
        case "bytea":
            return bytes
        case "uuid":
            return lambda data: _unpack("16s", data)[0]
        case "date":
            return _date
        case "time":
            return _time
        case "timestamp" | "timestamptz":
            return _moment
        case "interval":
            return _interval
        case "jsonb":
            return _jsonb
        case "record":
            return refuse_row
        case "regtype":
            return lambda data: shown_type(str(_unpack(">I", data)[0]))
        case "json":
            return lambda data: check_json(decode_utf8(data))
        case "varchar" | "bpchar" if modifier != NO_MODIFIER:
            sql_name = "character varying" if name == "varchar" else "character"
            fit = bounded_text_parser(sql_name, modifier, padded=name == "bpchar")
            return lambda data: fit(decode_utf8(data))
        case _:
            return decode_utf8


def _one_by_one(values: Sequence[bytes | None], read: Callable[[bytes], Any]) -> list[Any]:
    row = 0
    parsed: list[Any] = []
    try:
        with as_bad_value(lambda: _bad(row)):
            for row, value in enumerate(values):  # noqa: B007
                parsed.append(None if value is None else read(value))
    except BadValue as fault:
        fault.row = row
        raise
    return parsed


def _unpack(form: str, data: bytes) -> tuple[Any, ...]:
    if len(data) != struct.calcsize(form):
        raise _wrong_length(0, len(data), struct.calcsize(form))
    return struct.unpack(form, data)


def _date(data: bytes) -> int:
    (days,) = _unpack(">i", data)
    if days in (INT32_MIN, INT32_MAX):
        return int(days)
    if not -2_451_545 <= days <= 2_145_031_948:
        raise DatetimeOverflow("date out of range")
    return int(days + EPOCH_DAYS)


def _time(data: bytes) -> int:
    (micros,) = _unpack(">q", data)
    if not 0 <= micros <= DAY_MICROS:
        raise DatetimeOverflow("time out of range")
    return int(micros)


def _moment(data: bytes) -> int:
    (micros,) = _unpack(">q", data)
    if micros in (INT64_MIN, INT64_MAX):
        return int(micros)
    if not -211_813_488_000_000_000 <= micros < INT64_MAX - EPOCH_MICROS:
        raise DatetimeOverflow("timestamp out of range")
    return int(micros + EPOCH_MICROS)


def _interval(data: bytes) -> tuple[int, int, int]:
    micros, days, months = _unpack(">qii", data)
    return months, days, micros


def _jsonb(data: bytes) -> str:
    if data[:1] != b"\x01":
        raise InvalidBinary(f"unsupported jsonb version number {data[0] if data else 0}")
    return normal_json(decode_utf8(data[1:]))


def _numeric(data: bytes, modifier: int) -> Decimal:
    if len(data) < 8 or len(data) % 2:
        raise _bad(0)
    count, weight, sign, shown = struct.unpack_from(">HhHH", data)
    if sign in _SPECIAL_NUMERICS:
        raise unsupported_numeric(_SPECIAL_NUMERICS[sign])
    if sign not in (0, 0x4000):
        raise InvalidBinary('invalid sign in external "numeric" value')
    if shown > 0x3FFF:
        raise InvalidBinary('invalid scale in external "numeric" value')
    if len(data) != 8 + 2 * count:
        raise _bad(0)
    groups = struct.unpack_from(f">{count}h", data, 8)
    if any(not 0 <= group < 10_000 for group in groups):
        raise InvalidBinary('invalid digit in external "numeric" value')
    return fitted(_cut(groups, weight, bool(sign), shown), modifier)


def _cut(groups: tuple[int, ...], weight: int, negative: bool, shown: int) -> Decimal:
    """The number with just the digits behind the point that it shows."""
    if weight > 1_000 or len(groups) > 400:
        raise OutOfRange("numeric field overflow")
    digits = tuple(int(digit) for group in groups for digit in f"{group:04}")
    number = Decimal((int(negative), digits or (0,), 4 * (weight + 1 - len(groups))))
    return number.quantize(Decimal(1).scaleb(-shown), rounding=ROUND_DOWN, context=_WIDE)


def _decode_arrays(values: Sequence[bytes | None], element: PgType) -> pa.Array:
    lists = _one_by_one(values, lambda data: _elements(data, element.oid))
    sizes = [None if elements is None else len(elements) for elements in lists]
    flat = [value for elements in lists if elements for value in elements]
    return build_lists(sizes, decode_binary(flat, element))


def _elements(data: bytes, oid: int) -> list[bytes | None]:
    if len(data) < 12:
        raise _bad(0)
    dimensions, _, sent_oid = struct.unpack_from(">iiI", data)
    if sent_oid != oid:
        raise InvalidBinary(f"binary data has array element type {sent_oid} instead of {oid}")
    if dimensions == 0:
        return []
    if dimensions != 1:
        raise UnsupportedValue("arrays of more than one dimension are not supported")
    if len(data) < 20:
        raise _bad(0)
    (count,) = struct.unpack_from(">i", data, 12)
    return _fields(data, 20, count)


def _fields(data: bytes, place: int, count: int) -> list[bytes | None]:
    """`count` fields with their lengths, which must be all that is left of the data."""
    fields: list[bytes | None] = []
    if count < 0 or count * 4 > len(data) - place:
        raise _bad(0)
    for _ in range(count):
        if place + 4 > len(data):
            raise _bad(0)
        (length,) = struct.unpack_from(">i", data, place)
        place += 4
        if length < 0:
            fields.append(None)
            continue
        if place + length > len(data):
            raise _bad(0)
        fields.append(data[place : place + length])
        place += length
    if place != len(data):
        raise _bad(0)
    return fields


def _wrong_length(row: int, length: int, wanted: int) -> BadValue:
    if length > wanted:
        return _bad(row)
    fault = ShortBinary("insufficient data left in message")
    fault.row = row
    return fault


def _bad(row: int) -> InvalidBinary:
    fault = InvalidBinary("incorrect binary data format")
    fault.row = row
    return fault
