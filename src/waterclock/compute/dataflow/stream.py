"""The stream of a tick in Arrow: taking the deltas out of it, and putting them in.

Inside Spark all deltas travel as struct columns of one stream (see `columns`). Inside a Python
stage they are tables, one for each column, named by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from waterclock.compute.dataflow.shape import Shape

ERRORS = "mz_errors"
"""The column of the errors' changes, which every stream has."""
SOURCE = "source"
"""The column of errors that says which branch or operator they come from."""

Tables = dict[str, pa.Table]
_BATCH_ROWS = 1 << 17
_BATCH_BYTES = 16 << 20
"""About the most rows and bytes of a batch of the stream."""


def nullable(schema: pa.Schema) -> pa.Schema:
    """The same columns as a stream has them: every field may be null."""
    return pa.schema([field.with_nullable(True) for field in schema])


def unpacked(batches: Iterable[pa.RecordBatch], shapes: Mapping[str, Shape]) -> Tables:
    """The updates of the columns, collected from the whole stream.

    What could not be computed is among the updates of `ERRORS`, which must be one of the columns.
    """
    found: dict[str, list[pa.Table]] = {
        name: [shape.updates.empty_table()] for name, shape in shapes.items()
    }
    for batch in batches:
        for name, shape in shapes.items():
            values = batch.column(batch.schema.get_field_index(name))
            if values.null_count < len(values):
                updates, errors = shape.taken(values)
                found[name].append(updates)
                if errors is not None:
                    found[ERRORS].append(blamed(errors, name))
    return {name: pa.concat_tables(tables) for name, tables in found.items()}


def blamed(errors: pa.Table, name: str) -> pa.Table:
    """Errors with the name of the column or operator that they come from in front."""
    source = pa.array([name] * errors.num_rows, pa.string())
    return errors.add_column(0, SOURCE, source)


def packed(
    tables: Mapping[str, pa.Table], columns: Mapping[str, pa.Schema]
) -> Iterator[pa.RecordBatch]:
    """A stream that has all `columns` and carries the tables, side by side.

    A row of it may carry an update of each table, so there are as many as the longest one has. It
    comes in batches of bounded size, since whoever reads it holds a batch as a whole.
    """
    batches = {name: _batches(table) for name, table in tables.items()}
    for number in range(max(map(len, batches.values()), default=0)):
        carried = {name: own[number] for name, own in batches.items() if number < len(own)}
        yield _stream_batch(carried, columns)


def _batches(table: pa.Table) -> list[pa.RecordBatch]:
    if not table.num_rows:
        return []
    row_bytes = table.nbytes // table.num_rows
    most = min(_BATCH_ROWS, max(1, _BATCH_BYTES // max(1, row_bytes)))
    return [batch for batch in table.to_batches(most) if batch.num_rows]


def _stream_batch(
    carried: Mapping[str, pa.RecordBatch], columns: Mapping[str, pa.Schema]
) -> pa.RecordBatch:
    length = max(batch.num_rows for batch in carried.values())
    arrays = []
    for name, schema in columns.items():
        batch = carried.get(name)
        if batch is None:
            arrays.append(pa.nulls(length, pa.struct(schema)))
        elif batch.num_rows == length:
            arrays.append(batch.to_struct_array())
        else:
            rows = batch.to_struct_array()
            arrays.append(pa.concat_arrays([rows, pa.nulls(length - len(rows), rows.type)]))
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))
