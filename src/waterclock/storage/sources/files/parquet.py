"""Parquet files as a source: an offset is a number of rows.

A Parquet file is complete when it can be opened, and does not change afterwards: one that is larger
or smaller later, or has fewer rows than were bound, is another. One that can not be opened yet is
being written and is looked at again later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from waterclock.model.schema import (
    Array,
    Bool,
    Bytes,
    Column,
    ColumnType,
    Date,
    Decimal,
    Field,
    Float,
    Int,
    Schema,
    Struct,
    Text,
    TimeOfDay,
    Timestamp,
)
from waterclock.persist.rows import row_schema
from waterclock.persist.schema_codec import decode_schema
from waterclock.storage.reclock.progress import Partition, Range, SourceFrontier
from waterclock.storage.sources.api import Messages, Probe, message_schema
from waterclock.storage.sources.errors import InvalidSource, SourceFault
from waterclock.storage.sources.files.definition import FilesDefinition
from waterclock.storage.sources.files.following import FollowedFiles
from waterclock.storage.sources.files.places import place_of

_ROWS_AT_ONCE = 1_000_000


class ParquetFiles(FollowedFiles):
    """Implements `Connector`. The output has the columns of the definition."""

    def __init__(self, definition: FilesDefinition, output: str) -> None:
        super().__init__(definition)
        self._output = output
        self._schema = decode_schema(definition.columns)
        self._rows: dict[str, tuple[int, int]] = {}
        """The size and the number of rows of files that were looked into."""

    @property
    def outputs(self) -> Mapping[str, Schema]:
        return {self._output: self._schema}

    def probe(self) -> Probe:
        bound: dict[Partition, int] = {}
        known: dict[Partition, int] = {}
        left = _ROWS_AT_ONCE
        for file, size in self._place.files().items():
            rows = self._count(file, size)
            if rows is None:
                continue
            start = self._bound.get(file, 0)
            known[file] = rows
            bound[file] = min(rows, start + left)
            left = max(0, left - max(0, bound[file] - start))
        frontier = SourceFrontier(bound, True)
        is_final = not self._definition.follow and bound == known
        return Probe(frontier, SourceFrontier(known, True), is_final)

    def _count(self, file: str, size: int) -> int | None:
        """The number of rows; None while the file is not whole."""
        looked = self._rows.get(file)
        if looked is not None:
            if looked[0] != size:
                raise _replaced(file, f"It had {looked[0]} bytes and has {size} now.")
            return looked[1]
        try:
            with self._place.system.open_input_file(file) as opened:
                rows: int = pq.ParquetFile(opened).metadata.num_rows
        except pa.ArrowInvalid:
            if file in self._bound:
                raise _replaced(file, "It is no Parquet file any more.") from None
            return None
        if self._bound.get(file, rows) > rows:
            raise _replaced(file, f"It has {rows} rows now.")
        self._rows[file] = (size, rows)
        return rows

    def read(self, ranges: Sequence[Range]) -> Iterator[Messages]:
        for each in ranges:
            yield from self._read(str(each.partition), each.start, each.end)

    def _read(self, file: str, start: int, end: int) -> Iterator[Messages]:
        with self._place.system.open_input_file(file) as opened:
            parquet = pq.ParquetFile(opened)
            if parquet.metadata.num_rows < end:
                raise _replaced(file, f"It has {parquet.metadata.num_rows} rows now.")
            first = 0
            for group in range(parquet.num_row_groups):
                rows = parquet.metadata.row_group(group).num_rows
                skip, stop = max(0, start - first), min(rows, end - first)
                if skip < stop:
                    table = parquet.read_row_group(group).slice(skip, stop - skip)
                    yield from self._messages(file, table, first + skip)
                first += rows

    def _messages(self, file: str, table: pa.Table, offset: int) -> Iterator[Messages]:
        wanted = row_schema(self._schema)
        try:
            rows = table.select(wanted.names).cast(wanted)
        except (KeyError, ValueError) as fault:
            raise SourceFault(
                f'file "{file}" has other columns than the source', detail=f"{fault}."
            ) from None
        shape = message_schema(self._schema)
        for batch in rows.combine_chunks().to_batches():
            count = batch.num_rows
            offsets = pa.array(np.arange(offset, offset + count))
            diffs = pa.repeat(pa.scalar(1, pa.int64()), count)
            offset += count
            given = pa.RecordBatch.from_arrays([*batch.columns, offsets, diffs], schema=shape)
            yield Messages(self._output, file, given)


def _replaced(file: str, detail: str) -> SourceFault:
    hint = "Write new rows to new files. Drop the source and create it again to read this one."
    return SourceFault(f'file "{file}" has been replaced', detail=detail, hint=hint)


def columns_of(location: str, pattern: str | None) -> Schema:
    """The columns of the first Parquet file that is there. Raises `InvalidSource`."""
    place = place_of(location, pattern)
    try:
        for file in place.files():
            with place.system.open_input_file(file) as opened:
                schema = pq.ParquetFile(opened).schema_arrow
            return Schema(tuple(Column(f.name, _type(f.type), f.nullable) for f in schema))
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidSource(f"could not look into the files: {error}") from None
    raise InvalidSource(
        "there is no file yet whose columns could be taken",
        hint="Give the columns with their types.",
    )


def _type(kind: pa.DataType) -> ColumnType:
    """The type that holds values of an Arrow type."""
    is_a = pa.types
    if is_a.is_boolean(kind):
        return Bool()
    if is_a.is_int8(kind) or is_a.is_int16(kind) or is_a.is_uint8(kind):
        return Int(16)
    if is_a.is_int32(kind) or is_a.is_uint16(kind):
        return Int(32)
    if is_a.is_integer(kind):
        return Int(64)
    if is_a.is_floating(kind):
        return Float(64 if is_a.is_float64(kind) else 32)
    if is_a.is_decimal128(kind):
        return Decimal(kind.precision, max(0, kind.scale))
    if is_a.is_string(kind) or is_a.is_large_string(kind) or is_a.is_dictionary(kind):
        return Text()
    if is_a.is_binary(kind) or is_a.is_large_binary(kind) or is_a.is_fixed_size_binary(kind):
        return Bytes()
    if is_a.is_date(kind):
        return Date()
    if is_a.is_time(kind):
        return TimeOfDay()
    if is_a.is_timestamp(kind):
        return Timestamp(kind.tz is not None)
    if is_a.is_list(kind) or is_a.is_large_list(kind):
        return Array(_type(kind.value_type))
    if is_a.is_struct(kind):
        return Struct(tuple(Field(f.name, _type(f.type), f.nullable) for f in kind))
    raise InvalidSource(f"Parquet columns of type {kind} are not supported")
