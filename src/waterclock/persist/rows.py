"""Update triples as Arrow columns: the columns of the row, then `mz_timestamp`, then `mz_diff`.

This is the one physical form of data in the system, in memory, inline in the log and in Parquet,
and any tool that reads Parquet reads it. Each SQL type has exactly one Arrow type here, chosen so
that Parquet and Spark both carry it without loss. Two have no such type and are structs: an
interval, of PostgreSQL's own three fields; and a number with a scale of its own, of its value and
how many digits it shows behind the point (`persist.numerics`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, assert_never

import pyarrow as pa

from waterclock.errors import WaterclockError
from waterclock.model.schema import (
    Array,
    Bool,
    Bytes,
    ColumnType,
    Date,
    Decimal,
    Float,
    Int,
    Interval,
    Json,
    Numeric,
    Schema,
    Struct,
    Text,
    TimeOfDay,
    Timestamp,
    Uuid,
)

TIME = "mz_timestamp"
DIFF = "mz_diff"

_INTS = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_FLOATS = {32: pa.float32(), 64: pa.float64()}
NUMERIC_VALUE = pa.struct([("w", pa.decimal128(38, 0)), ("f", pa.decimal128(36, 36))])
"""A number as its whole part and its fraction, both with its sign: structs compare as numbers."""
NUMERIC = pa.struct([("v", NUMERIC_VALUE), ("s", pa.int16())])
_INTERVAL = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("micros", pa.int64())])


class WrongColumns(WaterclockError):
    """The updates given do not have the columns of the collection."""

    sqlstate: ClassVar[str] = "42804"


def arrow_type(column_type: ColumnType) -> pa.DataType:
    """The Arrow type that holds values of the SQL type."""
    match column_type:
        case Bool():
            return pa.bool_()
        case Int(bits):
            return _INTS[bits]
        case Float(bits):
            return _FLOATS[bits]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Numeric():
            return NUMERIC
        case Text() | Json():
            return pa.string()
        case Bytes():
            return pa.binary()
        case Date():
            return pa.date32()
        case TimeOfDay():
            return pa.time64("us")
        case Timestamp(zoned):
            return pa.timestamp("us", tz="UTC" if zoned else None)
        case Interval():
            return _INTERVAL
        case Uuid():
            return pa.binary(16)
        case Array(element):
            return pa.list_(arrow_type(element))
        case Struct(fields):
            return pa.struct([(field.name, arrow_type(field.type)) for field in fields])
        case _:
            assert_never(column_type)


@lru_cache(maxsize=4096)
def row_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of the rows alone."""
    return pa.schema(
        [pa.field(c.name, arrow_type(c.type), nullable=c.nullable) for c in schema.columns]
    )


@lru_cache(maxsize=4096)
def update_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of the updates: the row's columns, the time and the diff.

    One object for each schema, because comparing two that only look alike takes Arrow longer than
    all other checks of a small batch together.
    """
    return pa.schema(
        [
            *row_schema(schema),
            pa.field(TIME, pa.int64(), nullable=False),
            pa.field(DIFF, pa.int64(), nullable=False),
        ]
    )


def updates(schema: Schema, triples: list[tuple[tuple[Any, ...], int, int]]) -> pa.RecordBatch:
    """A batch of updates from Python values: `[(row, time, diff), ...]`."""
    shape = update_schema(schema)
    columns = [
        pa.array([row[i] for row, _, _ in triples], type=field.type)
        for i, field in enumerate(row_schema(schema))
    ]
    columns.append(pa.array([time for _, time, _ in triples], type=pa.int64()))
    columns.append(pa.array([diff for _, _, diff in triples], type=pa.int64()))
    return pa.RecordBatch.from_arrays(columns, schema=shape)


def required_columns(columns: pa.Schema) -> tuple[int, ...]:
    """The places of the row's columns that may not hold a null."""
    return tuple(
        i for i, field in enumerate(columns) if not field.nullable and i < len(columns) - 2
    )


def check_columns(
    given: pa.RecordBatch | pa.Table, columns: pa.Schema, required: tuple[int, ...]
) -> bool:
    """Raise `WrongColumns` unless `given` has exactly those columns, and no null where none may be.

    Nullability is judged by the values, not by how the columns given were declared: the answer is
    whether that was just so too. Nulls among times and diffs are for `times_and_diffs` to find.
    """
    schema = given.schema
    declared = schema is columns or schema.equals(columns)
    if not declared:
        _check_names_and_types(schema, columns)
    for i in required:
        if given.column(i).null_count:
            raise WrongColumns(
                f'null value in column "{columns.names[i]}" violates not-null constraint'
            )
    return declared


def times_and_diffs(given: pa.RecordBatch | pa.Table) -> tuple[pa.Array, pa.Array]:
    """The last two columns of updates; `WrongColumns` if one has a null."""
    last = given.num_columns - 1
    times, diffs = given.column(last - 1), given.column(last)
    if times.null_count or diffs.null_count:
        raise WrongColumns(f"an update has no {TIME if times.null_count else DIFF}")
    return times, diffs


def _check_names_and_types(given: pa.Schema, expected: pa.Schema) -> None:
    if given.names != expected.names:
        raise WrongColumns(
            "updates have the wrong columns",
            detail=f"Expected {', '.join(expected.names)}; got {', '.join(given.names)}.",
        )
    for have, want in zip(given, expected, strict=True):
        if have.type != want.type:
            raise WrongColumns(
                f'column "{want.name}" is of type {want.type} but the updates have {have.type}'
            )
