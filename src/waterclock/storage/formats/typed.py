"""Texts as values of a type, all at once where they are all right.

The forms are the plain ones: digits, ISO 8601, `true` and `false`, bytes as `\\x` and digits.
"""

from __future__ import annotations

import decimal
import uuid
from collections.abc import Callable
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from waterclock.model.schema import (
    Array,
    Bool,
    Bytes,
    Column,
    Date,
    Decimal,
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
from waterclock.storage.formats.jsonb import normal_form
from waterclock.storage.sources.errors import InvalidSource


def typed(texts: pa.Array, column: Column) -> tuple[pa.Array, pa.Array]:
    """The values, and for each what is wrong with it; null where nothing is.

    Raises `InvalidSource` for a type that has no such form.
    """
    target = arrow_type(column.type)
    fine = pa.nulls(len(texts), pa.string())
    match column.type:
        case Text():
            return texts, fine
        case Bool() | Int() | Float() | Decimal() | Date() | TimeOfDay() | Timestamp():
            given = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
            try:
                return given.cast(target), fine
            except pa.ArrowInvalid:
                return _one_by_one(given, column, lambda text: _cast(text, target))
        case Numeric():
            return _one_by_one(texts, column, _number)
        case Json():
            return _one_by_one(texts, column, lambda text: normal_form(text.encode()))
        case Uuid():
            return _one_by_one(texts, column, lambda text: uuid.UUID(text).bytes)
        case Bytes():
            return _one_by_one(texts, column, _bytes)
        case Interval() | Array() | Struct():
            raise InvalidSource(f'column "{column.name}" has a type that text is not read as')
        case _:
            assert_never(column.type)


def _one_by_one(
    texts: pa.Array, column: Column, read: Callable[[str], Any]
) -> tuple[pa.Array, pa.Array]:
    values: list[Any] = []
    errors: list[str | None] = []
    for text in texts.to_pylist():
        value = error = None
        if text:
            try:
                value = read(text)
            except ValueError:
                error = f'invalid value for column "{column.name}": "{text}"'
        values.append(value)
        errors.append(error)
    return pa.array(values, arrow_type(column.type)), pa.array(errors, pa.string())


def _cast(text: str, target: pa.DataType) -> Any:
    return pa.scalar(text).cast(target).as_py()  # ArrowInvalid is a ValueError


def _number(text: str) -> dict[str, Any]:
    try:
        number = decimal.Decimal(text)
        if not number.is_finite():
            raise ValueError(text)
        return parts_of(number)
    except (decimal.InvalidOperation, TooManyDigits):
        raise ValueError(text) from None


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError(text)
    return bytes.fromhex(text[2:])
