"""Parquet as rows: which columns a file has, and its row groups as messages.

Types are those that the writer meant. Spark writes instants as INT96, which says no more than
nanoseconds of a day; they are moments in UTC, like those that are marked as such. A column of
structs, maps, or lists of lists is `jsonb`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
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
    Float,
    Int,
    Json,
    Schema,
    Text,
    TimeOfDay,
    Timestamp,
)
from waterclock.persist.rows import arrow_type
from waterclock.storage.formats.jsonb import normal_form
from waterclock.storage.sources.api import message_schema
from waterclock.storage.sources.errors import InvalidSource, SourceFault
from waterclock.storage.sources.files.path_columns import (
    NO_PATH_COLUMNS,
    PathColumns,
    error_message,
)

_encode = msgspec.json.Encoder(decimal_format="number").encode


def opened(file: Any) -> pq.ParquetFile:
    """A file as Parquet. Raises `pa.ArrowInvalid` if it is none, or is not whole."""
    return pq.ParquetFile(file, coerce_int96_timestamp_unit="us")


def columns_in(parquet: pq.ParquetFile) -> Schema:
    """The columns of a file. Raises `InvalidSource` for one that has no type here."""
    instants = _instants(parquet)
    return Schema(
        tuple(
            Column(f.name, _type(f.type, f.name, instants), f.nullable)
            for f in parquet.schema_arrow
        )
    )


def _instants(parquet: pq.ParquetFile) -> frozenset[str]:
    """The paths of what is held as INT96."""
    leaves = [parquet.schema.column(i) for i in range(len(parquet.schema))]
    return frozenset(leaf.path for leaf in leaves if leaf.physical_type == "INT96")


def _is_instant(path: str, instants: frozenset[str]) -> bool:
    """Whether there are instants at the path or below."""
    return any(f"{leaf}.".startswith(f"{path}.") for leaf in instants)


@dataclass(frozen=True)
class ParquetRows:
    """Makes messages of Parquet. It can be pickled.

    `schema` has all columns of the output; those of `path_columns` are not looked for in files.
    """

    schema: Schema
    path_columns: PathColumns = NO_PATH_COLUMNS

    def error(self, offset: int, text: str, diff: int = 1) -> pa.RecordBatch:
        """A message that says what is wrong with a file, or with -1 that it is not any more."""
        return error_message(message_schema(self.schema), offset, text, diff)

    def group(
        self, parquet: pq.ParquetFile, number: int, skip: int, stop: int, file: str, origin: str
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a row group from `skip` up to `stop`, without offsets and diffs.

        Raises `SourceFault` if the columns are not those of the output.
        """
        from_path = self.path_columns.schema.names
        wanted = [column for column in self.schema.columns if column.name not in from_path]
        values, wrong = self.path_columns.of(file, origin)
        if wrong is not None:
            raise SourceFault(wrong.partition(" ")[2])
        by_name = dict(zip(from_path, values, strict=True))
        names = parquet.schema_arrow.names
        try:
            for column in wanted:
                if names.count(column.name) != 1:
                    raise KeyError(f'there is no column "{column.name}"')
            table = parquet.read_row_group(number, columns=[column.name for column in wanted])
            table = table.slice(skip, stop - skip)
            arrays = [
                pa.repeat(by_name[column.name], table.num_rows)
                if column.name in by_name
                else _converted(table.column(column.name), column, _instants(parquet))
                for column in self.schema.columns
            ]
        except (KeyError, ValueError) as fault:
            reason = str(fault.args[0] if fault.args else fault)
            raise SourceFault(
                f"{origin} has other columns than the source", detail=f"{reason.rstrip('.')}."
            ) from None
        yield pa.RecordBatch.from_arrays(arrays, self.schema.names)

    def messages(self, rows: pa.RecordBatch, offsets: np.ndarray[Any, Any]) -> pa.RecordBatch:
        """Rows at these offsets as messages."""
        diffs = pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
        columns = [*rows.columns, pa.array(offsets, pa.int64()), diffs]
        return pa.RecordBatch.from_arrays(columns, schema=message_schema(self.schema))


def _converted(values: pa.ChunkedArray, column: Column, instants: frozenset[str]) -> pa.Array:
    """Values of a file as those of a column. Raises `ValueError` if they are no such values."""
    target, given = arrow_type(column.type), values.type
    if not column.nullable and values.null_count:
        raise ValueError(f'column "{column.name}" has nulls')
    if isinstance(column.type, Json):
        plain = _Plain(instants)
        found = [
            None if v is None else _json(plain.of(v, given, column.name))
            for v in values.to_pylist()
        ]
        return pa.array(found, pa.string())
    if pa.types.is_timestamp(given) and pa.types.is_timestamp(target):
        values = values.cast(pa.timestamp("us", tz=given.tz), safe=False)  # nanoseconds are cut off
    elif pa.types.is_time64(given) and pa.types.is_time64(target):
        values = values.cast(target, safe=False)
    whole = values.cast(target).combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def _json(value: Any) -> str:
    """A value as jsonb. Text is taken for JSON."""
    return normal_form(value.encode() if isinstance(value, str) else _encode(value))


@dataclass(frozen=True, slots=True)
class _Plain:
    """Makes values with objects for maps, whose keys are text, and with time zones for instants."""

    instants: frozenset[str]

    def of(self, value: Any, kind: pa.DataType, path: str) -> Any:
        """The same value, of a type and at a path."""
        is_a = pa.types
        if value is None:
            return None
        if is_a.is_map(kind):
            return {_key(k): self.of(v, kind.item_type, path) for k, v in value}
        if is_a.is_struct(kind):
            return {f.name: self.of(value[f.name], f.type, f"{path}.{f.name}") for f in kind}
        if is_a.is_list(kind) or is_a.is_large_list(kind):
            return [self.of(each, kind.value_type, path) for each in value]
        if is_a.is_timestamp(kind) and kind.tz is None and _is_instant(path, self.instants):
            return value.replace(tzinfo=datetime.UTC)
        return value


def _key(value: Any) -> str:
    if isinstance(value, str):
        return value
    text: str = _encode(value).decode()
    return text.strip('"')


def _type(kind: pa.DataType, path: str, instants: frozenset[str]) -> ColumnType:
    """The type that holds values of an Arrow type, of the column or field at a path."""
    is_a = pa.types
    if is_a.is_boolean(kind):
        return Bool()
    if is_a.is_int8(kind) or is_a.is_int16(kind) or is_a.is_uint8(kind):
        return Int(16)
    if is_a.is_int32(kind) or is_a.is_uint16(kind):
        return Int(32)
    if is_a.is_uint64(kind):
        return Decimal(20, 0)
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
        return Timestamp(kind.tz is not None or _is_instant(path, instants))
    if is_a.is_map(kind) or is_a.is_struct(kind):
        return Json()
    if is_a.is_list(kind) or is_a.is_large_list(kind):
        element = _type(kind.value_type, path, instants)
        return Json() if isinstance(element, Json | Array) else Array(element)
    raise InvalidSource(f"Parquet columns of type {kind} are not supported")
