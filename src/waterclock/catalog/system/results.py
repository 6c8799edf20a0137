"""A result as Arrow columns, typed as the rest of the system types such values.

Types that only the catalog has are shown as text: the names of objects (regclass), vectors, access
lists. That is their text form in the protocol; nobody asks for the binary one.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from waterclock.catalog.system.types import (
    INTERVAL,
    NUMERIC,
    REG_TYPES,
    TIMESTAMPTZ,
    UUID,
    VECTORS,
    Types,
)
from waterclock.model.pg_types import NO_MODIFIER, PgType, UnknownType, column_type
from waterclock.persist.numerics import numeric_array
from waterclock.persist.rows import arrow_type

NameOf = Callable[[int, int], str]
"""The name of an object, given the type and the OID."""


def arrow_result(
    columns: Sequence[tuple[str, PgType]], rows: Sequence[Sequence[Any]], types: Types, name: NameOf
) -> pa.Table:
    """The rows that DuckDB gave. Column names may repeat, as in SQL."""
    if not columns:
        return pa.table({"": pa.nulls(len(rows))}).select([])
    found = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    arrays = [
        _array(values, declared, types, name)
        for values, (_, declared) in zip(found, columns, strict=True)
    ]
    return pa.Table.from_arrays(arrays, names=[shown for shown, _ in columns])


def _array(values: Sequence[Any], declared: PgType, types: Types, name: NameOf) -> pa.Array:
    oid = declared.oid
    if oid in REG_TYPES:
        shown = [None if value is None else name(oid, value) for value in values]
        return pa.array(shown, pa.string())
    if oid in VECTORS:
        texts = [None if value is None else " ".join(map(str, value)) for value in values]
        return pa.array(texts, pa.string())
    element = types.element_of(oid)
    if element in REG_TYPES:
        lists = [None if value is None else [name(element, v) for v in value] for value in values]
        return pa.array(lists, pa.list_(pa.string()))
    if oid == NUMERIC:
        return _numbers(values, declared)
    converted = [_converted(value, oid) for value in values]
    return pa.array(converted, _arrow_type(declared, types))


def _numbers(values: Sequence[Any], declared: PgType) -> pa.Array:
    """Numbers with the digits of their type, or each with its own."""
    exact = [None if value is None else Decimal(str(value)) for value in values]
    if declared.modifier == NO_MODIFIER:
        return numeric_array(exact)
    return pa.array(exact, arrow_type(column_type(declared)))


def _converted(value: Any, oid: int) -> Any:
    if value is None:
        return None
    if oid == TIMESTAMPTZ and isinstance(value, datetime.datetime):
        return value.replace(tzinfo=datetime.UTC)
    if oid == INTERVAL and isinstance(value, datetime.timedelta):
        micros = value.seconds * 1_000_000 + value.microseconds
        return {"months": 0, "days": value.days, "micros": micros}
    if oid == UUID:
        return value.bytes
    return value


def _arrow_type(declared: PgType, types: Types) -> pa.DataType:
    try:
        return arrow_type(column_type(PgType(declared.oid)))
    except UnknownType:
        pass
    element = types.element_of(declared.oid)
    if element is not None:
        return pa.list_(_arrow_type(PgType(element), types))
    return pa.int64() if types.held_as(declared.oid) in ("UINTEGER", "UBIGINT") else pa.string()
