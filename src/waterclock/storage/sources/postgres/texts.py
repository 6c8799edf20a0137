"""Values from the text that PostgreSQL writes, a column at a time, exactly or not at all.

The text is always the server's own output with settings that we chose (`SETTINGS`), so there is one
form for each type and not all those that an input function takes. Arrow reads what it can; what is
unusual (infinite dates, years before Christ, midnight at the end of a day) is read one by one.

A value that we can not hold as it is, such as a numeric with too many digits, is not rounded: it is
told by its row and the reason, and becomes null.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.model.pg_types import PgType, column_type, element_of, format_type, type_info
from waterclock.persist.numerics import (
    MOST_SCALE,
    MOST_WHOLE,
    TooManyDigits,
    from_texts,
    parts_of,
)
from waterclock.persist.rows import NUMERIC, arrow_type
from waterclock.storage.sources.postgres.array_texts import Unholdable, elements_of
from waterclock.storage.sources.postgres.moments import date_of, interval_of, moment_of, time_of

SETTINGS = {
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "datestyle": "ISO,YMD",
    "extra_float_digits": "1",
    "intervalstyle": "postgres",
    "row_security": "off",
    "search_path": "",
    "timezone": "UTC",
}
"""The settings of every connection, so that a value has the same text in all of them. Without row
security, a table that hides rows from us is an error instead of a smaller table."""

_HOLDABLE = rf"^-?\d{{1,{MOST_WHOLE}}}(?:\.\d{{1,{MOST_SCALE}}})?$"
_PLAIN_MOMENT = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?$"


@dataclass(frozen=True, slots=True)
class Values:
    """A column. `wrong` says for some rows, which are null, why they can not be held."""

    column: pa.Array
    wrong: dict[int, str] = field(default_factory=dict)


def decode(texts: pa.StringArray, held: PgType) -> Values:
    """The texts as values of the type."""
    element = element_of(held.oid)
    if element is not None:
        return _arrays(texts, PgType(element.oid, held.modifier))
    target = arrow_type(column_type(held))
    name = type_info(held.oid).name
    if target == pa.string():
        return Values(texts)
    try:
        found = _at_once(texts, name, target)
    except pa.ArrowInvalid:
        found = None
    return Values(found) if found is not None else _one_by_one(texts, held, target)


def _at_once(texts: pa.StringArray, name: str, target: pa.DataType) -> pa.Array | None:
    """All values; None or `ArrowInvalid` if they must be looked at."""
    match name:
        case "bool":
            return pc.equal(texts, "t")
        case "timestamptz":
            if pc.all(pc.ends_with(texts, "+00")).as_py() is False:
                return None
            return _moments(pc.utf8_slice_codeunits(texts, 0, -3), target)
        case "timestamp":
            return _moments(texts, target)
        case "time" | "interval" | "uuid" | "bytea":
            return None
        case "numeric" if target == NUMERIC:
            return _numbers(texts)
        case _:
            return texts.cast(target)


def _numbers(texts: pa.Array) -> pa.Array | None:
    """Numbers that all fit; PostgreSQL writes them without an exponent."""
    if pc.all(pc.match_substring_regex(texts, _HOLDABLE)).as_py() is False:
        return None
    return from_texts(texts)


def _moments(texts: pa.Array, target: pa.DataType) -> pa.Array | None:
    if pc.all(pc.match_substring_regex(texts, _PLAIN_MOMENT)).as_py() is False:
        return None
    return texts.cast(pa.timestamp("us")).cast(target)


def _one_by_one(texts: pa.StringArray, held: PgType, target: pa.DataType) -> Values:
    read = _reader(type_info(held.oid).name, target)
    wrong: dict[int, str] = {}
    values: list[Any] = []
    for row, text in enumerate(texts.to_pylist()):
        value = None
        if text is not None:
            try:
                value = read(text)
            except (Unholdable, ValueError, pa.ArrowInvalid):
                wrong[row] = f"{_short(text)} can not be held as {format_type(held)}"
        values.append(value)
    return Values(_built(values, target), wrong)


def _reader(name: str, target: pa.DataType) -> Callable[[str], Any]:
    """What reads one value, into what `_built` takes."""
    match name:
        case "date":
            return date_of
        case "time":
            return time_of
        case "timestamp" | "timestamptz":
            return moment_of
        case "interval":
            return interval_of
        case "uuid":
            return lambda text: bytes.fromhex(text.replace("-", ""))
        case "bytea":
            return lambda text: bytes.fromhex(text.removeprefix("\\x"))
        case "numeric" if target == NUMERIC:
            return _number
        case _:
            return partial(_cast, target=target)


def _number(text: str) -> dict[str, Any]:
    try:
        return parts_of(Decimal(text))
    except (ArithmeticError, AssertionError, TooManyDigits) as fault:
        raise Unholdable(text) from fault


def _cast(text: str, target: pa.DataType) -> Any:
    return pa.scalar(text).cast(target).as_py()


def _built(values: list[Any], target: pa.DataType) -> pa.Array:
    if pa.types.is_date(target) or pa.types.is_time(target) or pa.types.is_timestamp(target):
        whole = pa.int32() if pa.types.is_date(target) else pa.int64()
        return pa.array(values, whole).view(target)
    return pa.array(values, target)


def _arrays(texts: pa.StringArray, element: PgType) -> Values:
    """Arrays of one dimension; an array with an element that can not be held can not be."""
    wrong: dict[int, str] = {}
    flat: list[str | None] = []
    owners: list[int] = []
    offsets: list[int] = [0]
    present: list[bool] = []
    for row, text in enumerate(texts.to_pylist()):
        found: list[str | None] = []
        if text is not None:
            try:
                found = elements_of(text)
            except Unholdable as fault:
                wrong[row] = f"{_short(text)} can not be held as {format_type(element)}[]: {fault}"
        flat += found
        owners += [row] * len(found)
        offsets.append(len(flat))
        present.append(text is not None and row not in wrong)
    values = decode(pa.array(flat, pa.string()), element)
    for place, reason in values.wrong.items():
        wrong.setdefault(owners[place], reason)
        present[owners[place]] = False
    return Values(_lists(offsets, values.column, present), wrong)


def _lists(offsets: list[int], values: pa.Array, present: list[bool]) -> pa.Array:
    mask = np.logical_not(np.array(present, np.bool_))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, mask=pa.array(mask))


def _short(text: str) -> str:
    shown = re.sub(r"\s+", " ", text)
    return f'"{shown}"' if len(shown) <= 60 else f'"{shown[:57]}..."'
