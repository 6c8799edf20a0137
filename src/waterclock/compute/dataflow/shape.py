"""How the updates of one delta travel in a column of the stream.

Plainly, a value is one update: a struct of the row's columns, the time and the diff. Catalyst's
branches may need more than that:

- *many*: a value is an array of updates, because a row was made into several;
- *lasting*: instead of a time and a diff there are a begin and an end, either of which may be null,
  and the row counts from the one to the other;
- *fallible*: a value is a struct of the update, `v`, and of what is there in its place if it could
  not be computed, `e`: the row as text, the message, and the same two stamps.

A Python stage takes all of these as plain updates, and hands out plain ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from waterclock.compute.kernels.errors import ERROR_SCHEMA


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of the updates, and how they travel."""

    updates: pa.Schema
    many: bool = False
    lasting: bool = False
    fallible: bool = False

    def taken(self, values: pa.Array) -> tuple[pa.Table, pa.Table | None]:
        """The updates in a column's values, and the updates of errors, if there are any."""
        values = values.drop_null()
        errors = None
        if self.fallible:
            failed = values.field(1).drop_null()
            values = values.field(0).drop_null()
            errors = self._stamped(failed, _ERRORS) if len(failed) else None
        if self.many:
            values = values.flatten().drop_null()
        return self._stamped(values, self.updates), errors

    def _stamped(self, structs: pa.StructArray, schema: pa.Schema) -> pa.Table:
        if not len(structs):
            return schema.empty_table()
        arrays = structs.flatten()
        if not self.lasting:
            return _table(arrays, schema)
        *row, begin, end = arrays
        ends = ((begin, 1), (end, -1))
        return pa.concat_tables([_ending(row, times, diff, schema) for times, diff in ends])


_ERRORS = pa.schema([field.with_nullable(True) for field in ERROR_SCHEMA])


def _ending(row: list[pa.Array], times: pa.Array, diff: int, schema: pa.Schema) -> pa.Table:
    """The rows that have such a time, as updates at it."""
    known = times.is_valid()
    times = times.filter(known)
    diffs = pa.array([diff], pa.int64()).take(pa.array([0] * len(times), pa.int8()))
    return _table([*(column.filter(known) for column in row), times, diffs], schema)


def _table(arrays: list[pa.Array], schema: pa.Schema) -> pa.Table:
    columns = [
        array if array.type == field.type else pc.cast(array, field.type)
        for array, field in zip(arrays, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)
