"""Decoding row by row: one function from bytes to values, and columns made of what it gives.

What is wrong with a row is found where it is: in the function, or when a value does not fit its
column. The other rows are not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from waterclock.model.schema import Column
from waterclock.persist.rows import arrow_type
from waterclock.storage.formats.api import Decoded

UNFIT = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError)
"""Errors that Arrow raises for a value that does not fit its column."""


def decode_rows(
    payloads: pa.Array,
    columns: Sequence[Column],
    parse: Callable[[bytes], Sequence[Any]],
) -> Decoded:
    """Each payload as a row. `parse` raises `ValueError` with what is wrong."""
    nothing = (None,) * len(columns)
    errors: list[str | None] = [None] * len(payloads)
    rows: list[Sequence[Any]] = []
    for place, payload in enumerate(payloads.to_pylist()):
        row: Sequence[Any] = nothing
        if payload is not None:
            try:
                row = parse(payload)
            except ValueError as fault:
                errors[place] = str(fault)
        rows.append(row)
    return _built(rows, columns, errors)


def _built(
    rows: list[Sequence[Any]], columns: Sequence[Column], errors: list[str | None]
) -> Decoded:
    types = [arrow_type(column.type) for column in columns]
    try:
        return Decoded(_arrays(rows, types), pa.array(errors, pa.string()))
    except UNFIT:
        nothing = (None,) * len(columns)
        for place, row in enumerate(rows):
            fault = _unfit(row, columns, types)
            if fault is not None:
                rows[place], errors[place] = nothing, fault
        return Decoded(_arrays(rows, types), pa.array(errors, pa.string()))


def _arrays(rows: list[Sequence[Any]], types: Sequence[pa.DataType]) -> tuple[pa.Array, ...]:
    if not rows:
        return tuple(pa.array([], kind) for kind in types)
    values = zip(*rows, strict=True)
    return tuple(pa.array(each, kind) for each, kind in zip(values, types, strict=True))


def _unfit(row: Sequence[Any], columns: Sequence[Column], types: Sequence[Any]) -> str | None:
    """Which value of a row does not fit its column."""
    for value, column, kind in zip(row, columns, types, strict=True):
        try:
            pa.array([value], kind)
        except UNFIT:
            return f'the value of "{column.name}" is out of range'
    return None
