"""Columns from text, as PostgreSQL's input functions read it.

There are two ways to the same values. A column whose texts all have the plain form of their type is
converted by Arrow at once; anything else goes value by value through `scalars_in`, which knows
every form and every error. Few values, such as parameters, take the second way directly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from waterclock.model.interval_fields import fields_of, places_of
from waterclock.model.manner import IntervalStyle
from waterclock.model.pg_types import (
    NO_MODIFIER,
    PgType,
    column_type,
    element_of,
    format_type,
    type_info,
)
from waterclock.persist.numerics import MOST_SCALE, MOST_WHOLE, from_texts
from waterclock.persist.rows import NUMERIC, arrow_type
from waterclock.pgwire.values.arrays_in import split_array
from waterclock.pgwire.values.building import build, build_lists
from waterclock.pgwire.values.datetimes_in import (
    parse_date,
    parse_time,
    parse_timestamp,
    parse_zoned,
)
from waterclock.pgwire.values.errors import (
    BadValue,
    DatetimeOverflow,
    IntervalOverflow,
    OutOfRange,
    as_bad_value,
    invalid_syntax,
    out_of_range,
    refuse_row,
)
from waterclock.pgwire.values.intervals import parse_interval
from waterclock.pgwire.values.jsons import check_json, normal_json
from waterclock.pgwire.values.scalars_in import (
    bounded_text_parser,
    float_parser,
    integer_parser,
    numeric_parser,
    parse_bool,
    parse_bytea,
    parse_char,
    parse_name,
    parse_uuid,
)
from waterclock.pgwire.values.zones import Zone
from waterclock.sql.types import shown_type

_FEW = 16
_DATE = r"(?:[1-9][0-9]{3}|0[1-9][0-9]{2})-[0-9]{2}-[0-9]{2}"
_MOMENT = _DATE + r" [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_PLAIN = {
    "int2": r"^-?[0-9]{1,4}$",
    "int4": r"^-?[0-9]{1,9}$",
    "int8": r"^-?[0-9]{1,18}$",
    "oid": r"^[0-9]{1,9}$",
    "mz_timestamp": r"^[0-9]{1,18}$",
    "float4": r"^-?[0-9]{1,15}(?:\.[0-9]{1,20})?$",
    "float8": r"^-?[0-9]{1,15}(?:\.[0-9]{1,20})?$",
    "bool": r"^(?:t|f|true|false)$",
    "date": f"^{_DATE}$",
    "timestamp": f"^{_MOMENT}$",
    "timestamptz": f"^{_MOMENT}\\+00$",
}
_TEXTS = ("text", "varchar", "bpchar")


def decode_text(texts: pa.Array, declared: PgType, zone: Zone) -> pa.Array:
    """The column of the declared type; a `BadValue` tells the row of the first that is bad."""
    element = element_of(declared.oid)
    if element is not None:
        return _decode_arrays(texts, PgType(element.oid, declared.modifier), zone)
    name = type_info(declared.oid).name
    if name in _TEXTS and (declared.modifier == NO_MODIFIER or name == "text"):
        return texts
    if len(texts) > _FEW:
        column = _decode_plain(texts, name, declared)
        if column is not None:
            return column
    values = _one_by_one(texts.to_pylist(), parser(declared, zone), declared)
    with as_bad_value(lambda: _misfit(declared)):
        return build(values, declared)


def _misfit(declared: PgType) -> BadValue:
    """Of values that can be read, but not held."""
    return OutOfRange(f"value is out of range for type {format_type(declared)}")


def _unreadable(declared: PgType, text: str) -> BadValue:
    """Of a text that is refused by what reads parts of it: as a rule they are too long."""
    match type_info(declared.oid).name:
        case "interval":
            return IntervalOverflow(f'interval field value out of range: "{text}"')
        case "date" | "time" | "timestamp" | "timestamptz":
            return DatetimeOverflow(f'date/time field value out of range: "{text}"')
        case "numeric" | "int2" | "int4" | "int8" | "float4" | "float8":
            return out_of_range(format_type(declared), text)
        case _:
            return invalid_syntax(format_type(declared), text)


def parser(declared: PgType, zone: Zone) -> Callable[[str], Any]:
    """The input function of a type that is not an array; its results are for `build`."""
    info = type_info(declared.oid)
    match info.name:
        case "bool":
            return parse_bool
        case "int2" | "int4" | "int8":
            bits = info.length * 8 - 1
            return integer_parser(info.sql_name, -(2**bits), 2**bits - 1)
        case "oid":
            return integer_parser("oid", 0, 2**32 - 1)
        case "mz_timestamp":
            return integer_parser("mz_timestamp", 0, 2**63 - 1)
        case "uint8":
            return integer_parser("uint8", 0, 2**64 - 1)
        case "float4":
            return float_parser("real", 3.4028235677973366e38, 7.006492321624085e-46)
        case "float8":
            return float_parser("double precision", 1.7976931348623157e308, 5e-324)
        case "numeric":
            return numeric_parser(declared.modifier)
        case "date":
            return parse_date
        case "time":
            return _rounded(parse_time, declared.modifier)
        case "timestamp":
            return _rounded(parse_timestamp, declared.modifier)
        case "timestamptz":
            return _rounded(lambda text: parse_zoned(text, zone), declared.modifier)
        case "interval":
            return _interval_parser(declared.modifier, zone.intervals)
        case "uuid":
            return parse_uuid
        case "bytea":
            return parse_bytea
        case "json":
            return check_json
        case "jsonb":
            return normal_json
        case "char":
            return parse_char
        case "name":
            return parse_name
        case "regtype":
            return shown_type
        case "record":
            return refuse_row
        case "varchar" | "bpchar" if declared.modifier != NO_MODIFIER:
            return bounded_text_parser(
                info.sql_name, declared.modifier, padded=info.name == "bpchar"
            )
        case _:
            return str


def _rounded(parse: Callable[[str], int], digits: int) -> Callable[[str], int]:
    """The time rounded to a number of digits of its seconds, half away from zero."""
    if not 0 <= digits < 6:
        return parse
    unit = 10 ** (6 - digits)

    def rounded(text: str) -> int:
        micros = parse(text)
        if abs(micros) > 2**63 - 2:
            return micros
        whole: int = (abs(micros) + unit // 2) // unit * unit
        return -whole if micros < 0 else whole

    return rounded


def _interval_parser(modifier: int, style: IntervalStyle) -> Callable[[str], tuple[int, int, int]]:
    """An interval with the fields and the digits of seconds that its type keeps."""
    if modifier == NO_MODIFIER:
        return lambda text: parse_interval(text, style)
    fields, places = fields_of(modifier), places_of(modifier)

    def kept(text: str) -> tuple[int, int, int]:
        months, days, micros = parse_interval(text, style, fields)
        if places is not None:
            micros = _rounded(lambda _: micros, places)(text)
        return months, days, micros

    return kept


def _decode_plain(texts: pa.Array, name: str, declared: PgType) -> pa.Array | None:
    """All at once, if every text has the plain form of the type; else None."""
    form = _plain_numeric(declared.modifier) if name == "numeric" else _PLAIN.get(name)
    if form is None or (name.startswith("time") and declared.modifier != NO_MODIFIER):
        return None
    if pc.all(pc.match_substring_regex(texts, form)).as_py() is False:
        return None
    target = arrow_type(column_type(declared))
    try:
        match name:
            case "numeric" if target == NUMERIC:
                return from_texts(texts)
            case "bool":
                return pc.starts_with(texts, "t")
            case "timestamptz":
                return pc.utf8_slice_codeunits(texts, 0, -3).cast(pa.timestamp("us")).cast(target)
            case _:
                return texts.cast(target)
    except pa.ArrowInvalid:
        return None  # the 30th of February, among others


def _plain_numeric(modifier: int) -> str | None:
    """What numbers look like that fit without being rounded; None if hardly any does."""
    if modifier == NO_MODIFIER:
        return f"^-?[0-9]{{1,{MOST_WHOLE}}}(?:\\.[0-9]{{1,{MOST_SCALE}}})?$"
    precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0xFFFF
    if precision <= scale:
        return None
    fraction = f"(?:\\.[0-9]{{1,{scale}}})?" if scale else ""
    return f"^-?[0-9]{{1,{precision - scale}}}{fraction}$"


def _one_by_one(
    texts: Sequence[str | None], parse: Callable[[str], Any], declared: PgType
) -> list[Any]:
    row = 0
    values: list[Any] = []
    try:
        with as_bad_value(lambda: _unreadable(declared, texts[row] or "")):
            for row, text in enumerate(texts):  # noqa: B007
                values.append(None if text is None else parse(text))
    except BadValue as fault:
        fault.row = row
        raise
    return values


def _decode_arrays(texts: pa.Array, element: PgType, zone: Zone) -> pa.Array:
    lists: list[list[str | None] | None] = _one_by_one(texts.to_pylist(), split_array, element)
    sizes = [None if elements is None else len(elements) for elements in lists]
    flat = [element for elements in lists if elements for element in elements]
    try:
        values = decode_text(pa.array(flat, pa.string()), element, zone)
    except BadValue as fault:
        ends = list(accumulate(size or 0 for size in sizes))
        fault.row = bisect_right(ends, fault.row)
        raise
    return build_lists(sizes, values)
