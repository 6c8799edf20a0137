"""Columns as PostgreSQL 15 prints their values, with DateStyle ISO.

Most of it is done by Arrow a column at a time. Where its form is not PostgreSQL's (years that are
not of four digits, floats with an exponent) the few odd values are written one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from waterclock.model.manner import IntervalStyle
from waterclock.model.pg_types import TEXT, PgType, column_type, element_of, type_info
from waterclock.persist.numerics import numeric_array
from waterclock.persist.rows import NUMERIC, arrow_type
from waterclock.pgwire.values.calendar import (
    DAY_MICROS,
    INT64_MAX,
    INT64_MIN,
    format_date,
    format_offset,
    format_time,
    format_timestamp,
)
from waterclock.pgwire.values.columns import (
    fixed_bytes,
    integers,
    masked,
    of_rows,
    regrouped,
    valid_mask,
    without_nulls,
)
from waterclock.pgwire.values.intervals_out import format_interval
from waterclock.pgwire.values.numbers_out import float_text, numeric_text
from waterclock.pgwire.values.zones import Zone

_FIRST_PLAIN_DAY, _LAST_PLAIN_DAY = -719_162, 2_932_896  # 0001-01-01, 9999-12-31
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_UUID_PLACES = np.array([i for i in range(36) if i not in (8, 13, 18, 23)])
_NEEDS_QUOTES = r'^$|[{},"\\\s\x0b]|^(?i:null)$'


def encode_text(column: pa.Array, declared: PgType, zone: Zone) -> pa.Array:
    """The column as text; nulls stay. One that only the catalog has comes as numbers, as texts, or
    as lists of these.
    """
    element = element_of(declared.oid)
    if element is not None:
        return _array_text(held(column, declared), PgType(element.oid, declared.modifier), zone)
    if declared.oid in _VECTORS and pa.types.is_list(column.type):
        return _vector_text(column)
    if pa.types.is_string(column.type):
        return column
    if pa.types.is_list(column.type):
        return _array_text(column, TEXT, zone)
    if declared.oid in SYSTEM_NUMBERS:
        return column.cast(pa.string())
    column = held(column, declared)
    match type_info(declared.oid).name:
        case "bool":
            return pc.if_else(column, "t", "f")
        case "float4" | "float8":
            return float_text(column, zone.float_digits)
        case "numeric":
            return numeric_text(column)
        case "bytea":
            return _bytea_text(column)
        case "uuid":
            return _uuid_text(column)
        case "date":
            return _date_text(column)
        case "time":
            return _time_text(column)
        case "timestamp":
            return _timestamp_text(column)
        case "timestamptz":
            return _zoned_text(column, zone)
        case "interval":
            return _interval_text(column, zone.intervals)
        case _:
            return column.cast(pa.string())


_VECTORS = (22, 30)
"""int2vector and oidvector, which only the catalog has."""
SYSTEM_NUMBERS = {28: ">u4", 29: ">u4", 5069: ">u8"}
"""xid, cid and xid8, which only the catalog has, and how they are sent in binary."""


def held(column: pa.Array, declared: PgType) -> pa.Array:
    """The column in the Arrow type that its declared type is held in."""
    expected = arrow_type(column_type(declared))
    if column.type == expected:
        return column
    if expected == NUMERIC:
        return numeric_array(column.to_pylist())
    return column.cast(expected)


def _bytea_text(column: pa.Array) -> pa.Array:
    compact = pa.concat_arrays([without_nulls(column)])
    offsets = np.frombuffer(compact.buffers()[1], dtype=np.int32)
    offsets = offsets[compact.offset : compact.offset + len(compact) + 1]
    data = np.frombuffer(compact.buffers()[2] or b"", dtype=np.uint8)
    digits = _hex_digits(data[offsets[0] : offsets[-1]])
    hexes = pa.Array.from_buffers(
        pa.string(),
        len(column),
        [None, pa.py_buffer((offsets - offsets[0]) * np.int32(2)), pa.py_buffer(digits.tobytes())],
    )
    texts = pc.binary_join_element_wise("\\x", hexes, "")
    valid = valid_mask(column)
    return texts if valid is None else masked(texts, valid)


def _hex_digits(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    digits = np.empty((*data.shape[:-1], data.shape[-1] * 2), dtype=np.uint8)
    digits[..., 0::2] = _HEX[data >> 4]
    digits[..., 1::2] = _HEX[data & 15]
    return digits


def _uuid_text(column: pa.Array) -> pa.Array:
    matrix = np.full((len(column), 36), ord("-"), dtype=np.uint8)
    matrix[:, _UUID_PLACES] = _hex_digits(fixed_bytes(column))
    return of_rows(matrix, valid_mask(column)).cast(pa.string())


def _date_text(column: pa.Array) -> pa.Array:
    days = integers(column, pa.int32())
    odd = (days < _FIRST_PLAIN_DAY) | (days > _LAST_PLAIN_DAY)
    return _written(column, days, odd, lambda rows: rows.cast(pa.string()), format_date)


def _time_text(column: pa.Array) -> pa.Array:
    micros = integers(column, pa.int64())
    return _written(column, micros, micros >= DAY_MICROS, _trimmed, format_time)


def _timestamp_text(column: pa.Array) -> pa.Array:
    micros = integers(column, pa.int64())
    return _written(column, micros, _odd_years(micros), _trimmed, format_timestamp)


def _zoned_text(column: pa.Array, zone: Zone) -> pa.Array:
    micros = integers(column, pa.int64())
    if zone.is_utc:
        naive = column.cast(pa.timestamp("us"))
        texts = _written(naive, micros, _odd_years(micros), _trimmed, format_timestamp)
        return _with_utc(texts)
    # What is infinite has no offset, and must not wrap around.
    finite = (micros > INT64_MIN + 2 * DAY_MICROS) & (micros < INT64_MAX - 2 * DAY_MICROS)
    offsets = zone.offsets(np.where(finite, micros, 0))
    local = np.where(finite, micros + offsets * 1_000_000, micros)
    odd = _odd_years(local)
    texts = _trimmed(pa.array(np.where(odd, 0, local)).view(pa.timestamp("us")))
    known, place = np.unique(offsets, return_inverse=True)
    suffixes = pa.array([format_offset(int(offset)) for offset in known], pa.string())
    texts = pc.binary_join_element_wise(texts, suffixes.take(pa.array(place)), "")
    if odd.any():
        exact = [
            format_timestamp(int(local[i]), suffixes[place[i]].as_py()) for i in np.nonzero(odd)[0]
        ]
        texts = pc.replace_with_mask(texts, pa.array(odd), pa.array(exact, pa.string()))
    valid = valid_mask(column)
    return texts if valid is None else masked(texts, valid)


def _with_utc(texts: pa.Array) -> pa.Array:
    """The offset of UTC behind the time, before an era and not behind what is infinite."""
    if not pc.any(pc.match_substring_regex(texts, "[Cy]$")).as_py():
        return pc.binary_join_element_wise(texts, "+00", "")
    return pc.replace_substring_regex(texts, r"([0-9])( BC)?$", r"\1+00\2")


def _odd_years(micros: NDArray[np.int64]) -> NDArray[np.bool_]:
    first, after = _FIRST_PLAIN_DAY * DAY_MICROS, (_LAST_PLAIN_DAY + 1) * DAY_MICROS
    odd: NDArray[np.bool_] = (micros < first) | (micros >= after)
    return odd


def _trimmed(column: pa.Array) -> pa.Array:
    """Arrow's text, without the zeros that end the fraction."""
    return pc.utf8_rtrim(pc.utf8_rtrim(column.cast(pa.string()), "0"), ".")


def _written(
    column: pa.Array,
    numbers: NDArray[np.int64],
    odd: NDArray[np.bool_],
    plain: Callable[[pa.Array], pa.Array],
    exact: Callable[[int], str],
) -> pa.Array:
    """`plain` for the rows that Arrow writes as PostgreSQL does, `exact` for the odd ones."""
    if not odd.any():
        return plain(column)
    places = pa.array(odd)
    texts = plain(pc.if_else(places, pa.scalar(0, column.type), column))
    mended = pa.array([exact(int(number)) for number in numbers[odd]], pa.string())
    return pc.replace_with_mask(texts, places, mended)


def _interval_text(column: pa.Array, style: IntervalStyle) -> pa.Array:
    parts = (integers(part, part.type).tolist() for part in column.flatten())
    rows: Iterator[tuple[int, int, int]] = zip(*parts, strict=True)
    texts = pa.array([format_interval(*row, style) for row in rows], pa.string())
    valid = valid_mask(column)
    return texts if valid is None else masked(texts, valid)


def _array_text(column: pa.Array, element: PgType, zone: Zone) -> pa.Array:
    flat = quoted(encode_text(column.flatten(), element, zone)).fill_null("NULL")
    lists = pc.binary_join(regrouped(column, flat), ",")
    texts = pc.binary_join_element_wise("{", lists, "}", "")
    valid = valid_mask(column)
    return texts if valid is None else masked(texts, valid)


def quoted(texts: pa.Array) -> pa.Array:
    """Elements with quotes where an array's text needs them."""
    needed = pc.match_substring_regex(texts, _NEEDS_QUOTES)
    if not pc.any(needed).as_py():
        return texts
    escaped = pc.replace_substring_regex(texts, r'(["\\])', r"\\\1")
    return pc.if_else(needed, pc.binary_join_element_wise('"', escaped, '"', ""), texts)


def _vector_text(column: pa.Array) -> pa.Array:
    lists = pc.binary_join(regrouped(column, column.flatten().cast(pa.string())), " ")
    valid = valid_mask(column)
    return lists if valid is None else masked(lists, valid)
