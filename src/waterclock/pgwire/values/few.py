"""The values of a few rows, one by one.

Arrow's functions cost the same for one row as for hundreds, and an answer of one row is the most
frequent of all. So the common types have a second way here, for few rows only; other types take the
first. Both agree to the byte.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from waterclock.adapter.api import Format
from waterclock.model.pg_types import PgType, column_type
from waterclock.persist.numerics import number_of
from waterclock.persist.rows import NUMERIC, arrow_type
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
from waterclock.pgwire.values.numbers_out import numeric_bytes
from waterclock.pgwire.values.zones import Zone

FEW_ROWS = 48
Encoder: TypeAlias = Callable[[pa.Array], "list[bytes | None] | None"]
"""The values of a short column as bytes, nulls being None; None if one of them is not common."""

_BOOL, _DATE, _TIMESTAMP, _TIMESTAMPTZ, _FLOAT8 = 16, 1082, 1114, 1184, 701
_INTS = {20: (pa.int64(), ">q"), 21: (pa.int16(), ">h"), 23: (pa.int32(), ">i")}
_MZ_TIMESTAMP, _OID, _NUMERIC = 16552, 26, 1700
_TEXTS = frozenset({18, 19, 25, 114, 1042, 1043})
_JSONB = 3802
_PLAIN_FROM, _PLAIN_BELOW = 1e-4, 1e15


def few_encoder(held: pa.DataType, declared: PgType, form: Format, zone: Zone) -> Encoder | None:
    """Encodes short columns of a type, held as given, in the format; None if it is not common."""
    oid = declared.oid
    if held == pa.string() and oid in _TEXTS:
        return _of_values(str.encode)
    if held == pa.string() and oid == _JSONB:
        version = b"\x01" if form is Format.BINARY else b""
        return _of_values(lambda text: version + text.encode())
    if oid in _INTS and held == _INTS[oid][0]:
        return _of_values(_number if not form else struct.Struct(_INTS[oid][1]).pack)
    if held == pa.int64() and oid in (_MZ_TIMESTAMP, _OID):
        pack = struct.Struct(">q" if oid == _MZ_TIMESTAMP else ">I").pack
        return _of_values(_number if not form else pack)
    if held == pa.bool_() and oid == _BOOL:
        yes, no = (b"\x01", b"\x00") if form else (b"t", b"f")
        return _of_values(lambda value: yes if value else no)
    if oid == _NUMERIC and held == arrow_type(column_type(declared)):
        return _of_values(_numeric(_scaled if held == NUMERIC else _fixed, form))
    if held == pa.float64() and oid == _FLOAT8 and (form or zone.float_digits > 0):
        return lambda column: _floats(column.to_pylist(), form)
    if held == pa.date32() and oid == _DATE:
        encode = _date_bytes if form else lambda day: format_date(day).encode()
        return lambda column: _each(column.view(pa.int32()).to_pylist(), encode)
    if pa.types.is_timestamp(held) and held.unit == "us" and oid in (_TIMESTAMP, _TIMESTAMPTZ):
        encode = _moment(oid, form, zone)
        return lambda column: _each(column.view(pa.int64()).to_pylist(), encode)
    return None


def encode_few(
    column: pa.Array, declared: PgType, form: Format, zone: Zone
) -> list[bytes | None] | None:
    """The values in the format, nulls being None; None if the type, or a value, is not common."""
    encode = few_encoder(column.type, declared, form, zone)
    return None if encode is None else encode(column)


def _of_values(encode: Callable[[Any], bytes]) -> Encoder:
    return lambda column: _each(column.to_pylist(), encode)


def _each(values: list[Any], encode: Callable[[Any], bytes]) -> list[bytes | None]:
    return [None if value is None else encode(value) for value in values]


def _number(value: int) -> bytes:
    return b"%d" % value


def _numeric(text: Callable[[Any], str], form: Format) -> Callable[[Any], bytes]:
    """Encodes exact numbers, with all digits of their scale."""
    return lambda value: numeric_bytes(text(value)) if form else text(value).encode()


def _fixed(value: Decimal) -> str:
    return format(value, "f")


def _scaled(value: Mapping[str, Any]) -> str:
    return format(number_of(value), "f")


def _floats(values: list[float | None], form: Format) -> list[bytes | None] | None:
    if form:
        return _each(values, struct.Struct(">d").pack)
    if all(v is None or v == 0 or _PLAIN_FROM <= abs(v) < _PLAIN_BELOW for v in values):
        return _each(values, lambda value: repr(value).removesuffix(".0").encode())
    return None


def _moment(oid: int, form: Format, zone: Zone) -> Callable[[int], bytes]:
    if form:
        return _moment_bytes
    if oid == _TIMESTAMP:
        return lambda value: format_timestamp(value).encode()
    return lambda value: _zoned(value, zone)


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
