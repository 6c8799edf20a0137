"""Numbers with scales of their own, as programs want them: decimals.

Inside, such a number is a struct of its value and its scale. A program gets a column of decimals
that have the longest of its scales, of 38 digits or, if these do not suffice, of 76; and it may
give a column of any numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

from waterclock.persist.numerics import numbers_of, numeric_array, parts_of
from waterclock.persist.rows import NUMERIC

_DIGITS, _MORE_DIGITS = 38, 76


def decimals(table: pa.Table) -> pa.Table:
    """The table with decimals for such numbers, also inside arrays."""
    for place, column in enumerate(table.columns):
        if column.type in (NUMERIC, pa.list_(NUMERIC)):
            plain = _plain(_flat(column))
            table = table.set_column(place, pa.field(table.column_names[place], plain.type), plain)
    return table


def fitting(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows that were given in the types of a table; raises what Arrow does."""
    for place, field in enumerate(schema):
        column = rows.column(place)
        if field.type == NUMERIC and column.type != NUMERIC:
            held = numeric_array([_decimal(each) for each in column.to_pylist()])
            rows = rows.set_column(place, field.name, held)
    return rows.cast(schema)


def scalar(value: object, kind: pa.DataType) -> pa.Scalar:
    """A parameter in its Arrow type; raises what Arrow does."""
    if kind == NUMERIC and value is not None:
        return pa.scalar(parts_of(Decimal(str(value))), kind)
    return pa.scalar(value, kind)


def _decimal(value: object) -> Decimal | None:
    if value is None:
        return None
    try:
        return Decimal(str(value))
    except ArithmeticError:
        raise ValueError(f"{value!r} is not a number") from None


def _flat(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        return found.chunk(0) if found.num_chunks else pa.array([], found.type)
    return found


def _plain(column: pa.Array) -> pa.Array:
    if column.type == NUMERIC:
        return _made(numbers_of(column))
    elements = _made(numbers_of(column.flatten()))
    sizes = [0 if each is None else each for each in column.value_lengths().to_pylist()]
    offsets = [0]
    for size in sizes:
        offsets.append(offsets[-1] + size)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, mask=column.is_null())


def _made(numbers: Sequence[Decimal | None]) -> pa.Array:
    present = [number for number in numbers if number is not None]
    scale = max((-int(number.as_tuple().exponent) for number in present), default=0)
    whole = max((number.adjusted() + 1 for number in present if number), default=0)
    if whole + scale <= _DIGITS:
        return pa.array(numbers, pa.decimal128(_DIGITS, scale))
    return pa.array(numbers, pa.decimal256(_MORE_DIGITS, scale))
