"""Columns as they are held to columns as other programs read them from Parquet.

A value is written exactly or not at all. What has no type in Parquet that DuckDB, Spark and pandas
all read (intervals, numbers without a fixed scale) is refused by the name of its column before
anything is written; a UUID is written as its text. Pure.
"""

from __future__ import annotations

import uuid
from typing import ClassVar

import pyarrow as pa

from waterclock.errors import WaterclockError
from waterclock.model.schema import Array, ColumnType, Interval, Numeric, Schema, Struct, Uuid
from waterclock.persist.rows import arrow_type


class NotExportable(WaterclockError):
    """A column has a type that the format does not have."""

    sqlstate: ClassVar[str] = "0A000"


class ExportedColumns:
    """The columns of a result in a file."""

    def __init__(self, rows: Schema) -> None:
        """Raises `NotExportable`."""
        self.schema = pa.schema([(c.name, _exported(c.name, c.type)) for c in rows.columns])

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of the result as it is written."""
        columns = [_converted(c, f.type) for c, f in zip(batch.columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _exported(name: str, kind: ColumnType) -> pa.DataType:
    match kind:
        case Numeric():
            raise NotExportable(
                f'column "{name}" can not be written to Parquet: its numbers have no fixed scale',
                hint=f'Cast it, for instance: "{name}"::numeric(38,10).',
            )
        case Interval():
            raise NotExportable(
                f'column "{name}" can not be written to Parquet: it is an interval',
                hint=f'Cast it to text, or use EXTRACT(EPOCH FROM "{name}").',
            )
        case Uuid():
            return pa.string()
        case Array(element):
            return pa.list_(_exported(name, element))
        case Struct(fields):
            return pa.struct([(each.name, _exported(name, each.type)) for each in fields])
        case _:
            return arrow_type(kind)


def _converted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if pa.types.is_string(kind):
        texts = [None if v is None else str(uuid.UUID(bytes=v)) for v in column.to_pylist()]
        return pa.array(texts, kind)
    if pa.types.is_list(kind):
        inner = _converted(column.flatten(), kind.value_type)
        sizes = [0 if n is None else n for n in column.value_lengths().to_pylist()]
        ends = [0]
        for size in sizes:
            ends.append(ends[-1] + size)
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), inner, mask=column.is_null())
    assert pa.types.is_struct(kind), f"{column.type} is written as it is"
    parts = [_converted(p, f.type) for p, f in zip(column.flatten(), kind, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
