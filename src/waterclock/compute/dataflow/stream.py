"""The stream of a tick in Arrow: taking the deltas out of it, and putting them in.

Inside Spark all deltas travel as struct columns of one stream (see `columns`). Inside a Python
stage they are tables, one for each column, named by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

Tables = dict[str, pa.Table]


def nullable(schema: pa.Schema) -> pa.Schema:
    """The same columns as a stream has them: every field may be null."""
    return pa.schema([field.with_nullable(True) for field in schema])


def unpacked(batches: Iterable[pa.RecordBatch], columns: Mapping[str, pa.Schema]) -> Tables:
    """The tables of the columns, collected from the whole stream."""
    found: dict[str, list[pa.RecordBatch]] = {name: [] for name in columns}
    for batch in batches:
        for name, schema in columns.items():
            structs = batch.column(batch.schema.get_field_index(name))
            if structs.null_count:
                structs = structs.drop_null()
            if len(structs):
                found[name].append(_row_batch(structs, schema))
    return {name: pa.Table.from_batches(found[name], schema) for name, schema in columns.items()}


def _row_batch(structs: pa.StructArray, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip(structs.flatten(), schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def packed(
    tables: Mapping[str, pa.Table], columns: Mapping[str, pa.Schema]
) -> Iterator[pa.RecordBatch]:
    """A stream that has all `columns` and carries the tables."""
    for name, table in tables.items():
        for batch in table.to_batches():
            if batch.num_rows:
                yield _stream_batch(name, batch, columns)


def _stream_batch(
    name: str, batch: pa.RecordBatch, columns: Mapping[str, pa.Schema]
) -> pa.RecordBatch:
    arrays = [
        batch.to_struct_array() if column == name else pa.nulls(batch.num_rows, pa.struct(schema))
        for column, schema in columns.items()
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))
