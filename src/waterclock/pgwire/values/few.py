"""The values of a few rows, one by one.

Arrow's functions cost the same for one row as for hundreds, and an answer of one row is the most
frequent of all. So the common types have a second way here, for few rows only; other types take the
first. Both agree to the byte.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from waterclock.adapter.api import Format
from waterclock.model.pg_types import PgType
from waterclock.pgwire.values.calendar import (
    EPOCH_DAYS,
    EPOCH_MICROS,
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    format_date,
    format_offset,
    format_timestamp,
)
from waterclock.pgwire.values.zones import Zone

FEW_ROWS = 48

_BOOL, _DATE, _TIMESTAMP, _TIMESTAMPTZ, _FLOAT8 = 16, 1082, 1114, 1184, 701
_INTS = {20: (pa.int64(), ">q"), 21: (pa.int16(), ">h"), 23: (pa.int32(), ">i")}
_MZ_TIMESTAMP, _OID = 16552, 26
_TEXTS = frozenset({18, 19, 25, 114, 1042, 1043})
_JSONB = 3802
_PLAIN_FROM, _PLAIN_BELOW = 1e-4, 1e15


def encode_few(
    column: pa.Array, declared: PgType, form: Format, zone: Zone
) -> list[bytes | None] | None:
    """The values in the format, nulls being None; None if the type, or a value, is not common."""
    held = column.type
    oid = declared.oid
    if held == pa.string() and oid in _TEXTS:
        return _each(column.to_pylist(), str.encode)
    if held == pa.string() and oid == _JSONB:
        version = b"\x01" if form is Format.BINARY else b""
        return _each(column.to_pylist(), lambda text: version + text.encode())
    if oid in _INTS and held == _INTS[oid][0]:
        return _each(column.to_pylist(), _number if not form else struct.Struct(_INTS[oid][1]).pack)
    if held == pa.int64() and oid in (_MZ_TIMESTAMP, _OID):
        pack = struct.Struct(">q" if oid == _MZ_TIMESTAMP else ">I").pack
        return _each(column.to_pylist(), _number if not form else pack)
    if held == pa.bool_() and oid == _BOOL:
        yes, no = (b"\x01", b"\x00") if form else (b"t", b"f")
        return _each(column.to_pylist(), lambda value: yes if value else no)
    if held == pa.float64() and oid == _FLOAT8:
        return _floats(column.to_pylist(), form)
    if held == pa.date32() and oid == _DATE:
        days = column.view(pa.int32()).to_pylist()
        return _each(days, _date_bytes if form else lambda day: format_date(day).encode())
    if pa.types.is_timestamp(held) and held.unit == "us" and oid in (_TIMESTAMP, _TIMESTAMPTZ):
        return _moments(column.view(pa.int64()).to_pylist(), oid, form, zone)
    return None


def _each(values: list[Any], encode: Callable[[Any], bytes]) -> list[bytes | None]:
    return [None if value is None else encode(value) for value in values]


def _number(value: int) -> bytes:
    return b"%d" % value


def _floats(values: list[float | None], form: Format) -> list[bytes | None] | None:
    if form:
        return _each(values, struct.Struct(">d").pack)
    if all(v is None or v == 0 or _PLAIN_FROM <= abs(v) < _PLAIN_BELOW for v in values):
        return _each(values, lambda value: repr(value).removesuffix(".0").encode())
    return None


def _moments(micros: list[int | None], oid: int, form: Format, zone: Zone) -> list[bytes | None]:
    if form:
        return _each(micros, _moment_bytes)
    if oid == _TIMESTAMP:
        return _each(micros, lambda value: format_timestamp(value).encode())
    return _each(micros, lambda value: _zoned(value, zone))


def _zoned(micros: int, zone: Zone) -> bytes:
    if micros in (INT64_MIN, INT64_MAX):
        return format_timestamp(micros).encode()
    offset = 0 if zone.is_utc else zone.offset_at(micros)
    return format_timestamp(micros + offset * 1_000_000, format_offset(offset)).encode()


def _date_bytes(days: int) -> bytes:
    return struct.pack(">i", days if days in (INT32_MIN, INT32_MAX) else days - EPOCH_DAYS)


def _moment_bytes(micros: int) -> bytes:
    infinite = micros in (INT64_MIN, INT64_MAX)
    return struct.pack(">q", micros if infinite else micros - EPOCH_MICROS)
