"""Columns in PostgreSQL's binary format: the greatest byte first, dates from 2000 on."""

from __future__ import annotations

import ipaddress
import struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from waterclock.model.pg_types import (
    INT2,
    OID,
    RECORD,
    REGTYPE,
    PgType,
    element_of,
    type_info,
    type_names,
)
from waterclock.pgwire.values.calendar import EPOCH_DAYS, EPOCH_MICROS
from waterclock.pgwire.values.columns import (
    fixed_bytes,
    integers,
    joined,
    lengths,
    masked,
    of_rows,
    regrouped,
    valid_mask,
    with_length,
)
from waterclock.pgwire.values.errors import NoBinaryForm, UnsupportedValue
from waterclock.pgwire.values.numbers_out import numeric_binary
from waterclock.pgwire.values.text_out import SYSTEM_NUMBERS, held

_WIDTHS = {"int2": ">i2", "int4": ">i4", "int8": ">i8", "mz_timestamp": ">i8", "oid": ">u4"}
_FLOATS = {"float4": ">f4", "float8": ">f8"}
_VECTOR_ELEMENTS = {22: INT2, 30: OID}
_INET = 869
_INTERVAL = np.dtype([("micros", ">i8"), ("days", ">i4"), ("months", ">i4")])


def encode_binary(column: pa.Array, declared: PgType) -> pa.Array:
    """The column as bytes; nulls stay. A type that is not ours is sent as its text."""
    element = element_of(declared.oid)
    if element is not None:
        return _array_bytes(held(column, declared), PgType(element.oid, declared.modifier), 1)
    if declared.oid in _VECTOR_ELEMENTS and pa.types.is_list(column.type):
        return _array_bytes(column, _VECTOR_ELEMENTS[declared.oid], 0)
    if pa.types.is_string(column.type):
        return _text_bytes(column, declared)
    if pa.types.is_list(column.type):
        message = f"no binary output function available for type with OID {declared.oid}"
        raise NoBinaryForm(message, hint="Ask for the text format, or cast the value to text.")
    valid = valid_mask(column)
    if declared.oid in SYSTEM_NUMBERS:
        numbers = integers(column.cast(pa.uint64()), pa.uint64())
        return of_rows(numbers.astype(SYSTEM_NUMBERS[declared.oid]), valid)
    column = held(column, declared)
    name = type_info(declared.oid).name
    match name:
        case "bool":
            return of_rows(column.fill_null(False).to_numpy(zero_copy_only=False), valid)
        case "float4" | "float8":
            return of_rows(integers(column, column.type).astype(_FLOATS[name]), valid)
        case "numeric":
            return numeric_binary(column)
        case "uint8":
            return of_rows(integers(column.cast(pa.uint64()), pa.uint64()).astype(">u8"), valid)
        case "bytea":
            return column
        case "uuid":
            return of_rows(fixed_bytes(column), valid)
        case "date":
            return of_rows(_since_2000(integers(column, pa.int32()), EPOCH_DAYS), valid)
        case "time":
            return of_rows(integers(column, pa.int64()).astype(">i8"), valid)
        case "timestamp" | "timestamptz":
            return of_rows(_since_2000(integers(column, pa.int64()), EPOCH_MICROS), valid)
        case "interval":
            return _interval_bytes(column, valid)
        case _:
            return of_rows(integers(column, column.type).astype(_WIDTHS[name]), valid)


def _text_bytes(column: pa.Array, declared: PgType) -> pa.Array:
    if declared == REGTYPE:
        return _type_numbers(column)
    if declared == RECORD:
        hint = "Ask for the text format, or cast the row to text."
        raise UnsupportedValue("a row in binary format is not supported", hint=hint)
    if declared.oid == _INET:
        addresses = [None if text is None else _inet_bytes(text) for text in column.to_pylist()]
        return pa.array(addresses, pa.binary())
    data = column.cast(pa.binary())
    if declared.oid == 3802:  # jsonb carries the number of its format
        return joined([pa.scalar(b"\x01"), data])
    return data


def _type_numbers(column: pa.Array) -> pa.Array:
    """Types by their numbers; one that only the system's relations have goes by its name."""
    numbers = {name: oid for oid, name in type_names().items()}
    return pa.array(
        [
            None if name is None else struct.pack(">I", numbers[name]) if name in numbers else name
            for name in column.to_pylist()
        ],
        pa.binary(),
    )


def _inet_bytes(text: str) -> bytes:
    """An address, of a client for one: its family, how many bits count, and its bytes."""
    found = ipaddress.ip_interface(text)
    family = 2 if found.version == 4 else 3
    packed = found.ip.packed
    return struct.pack(">4B", family, found.network.prefixlen, 0, len(packed)) + packed


def _since_2000(numbers: NDArray[np.int64], epoch: int) -> NDArray[np.int64]:
    """Numbers from 1970 on as numbers from 2000 on; the infinite ones stay as they are."""
    limits = np.iinfo(numbers.dtype)
    infinite = (numbers == limits.max) | (numbers == limits.min)
    # Only years that PostgreSQL does not have are close enough to the limit to wrap around.
    shifted = np.where(infinite, numbers, numbers - numbers.dtype.type(epoch))
    return shifted.astype(numbers.dtype.newbyteorder(">"))


def _interval_bytes(column: pa.Array, valid: NDArray[np.bool_] | None) -> pa.Array:
    months, days, micros = (integers(part, part.type) for part in column.flatten())
    rows = np.empty(len(column), dtype=_INTERVAL)
    rows["months"], rows["days"], rows["micros"] = months, days, micros
    return of_rows(rows, valid)


def _array_bytes(column: pa.Array, element: PgType, lower_bound: int) -> pa.Array:
    flat = encode_binary(column.flatten(), element)
    parts, _ = with_length(flat)
    fields = regrouped(column, joined(list(parts)))
    missing = regrouped(column, pa.array((lengths(flat) < 0).astype(np.int32)))
    headers = [
        _array_header(size, bool(nulls), element.oid, lower_bound)
        for size, nulls in zip(_sizes(fields), _sums(missing), strict=True)
    ]
    data = joined([pa.array(headers, pa.binary()), pc.binary_join(fields, b"")])
    valid = valid_mask(column)
    return data if valid is None else masked(data, valid)


def _array_header(size: int, nulls: bool, oid: int, lower_bound: int) -> bytes:
    if not size:
        return struct.pack(">iii", 0, 0, oid)
    return struct.pack(">iiiii", 1, int(nulls), oid, size, lower_bound)


def _sizes(lists: pa.Array) -> list[int]:
    sizes: list[int] = np.diff(lists.offsets.to_numpy()).tolist()
    return sizes


def _sums(lists: pa.Array) -> list[int]:
    ends = lists.offsets.to_numpy()
    running = np.concatenate([[0], np.cumsum(lists.values.to_numpy())])
    sums: list[int] = (running[ends[1:]] - running[ends[:-1]]).tolist()
    return sums
