"""Batches of rows as DataRow messages, in the formats that the client asked for."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from waterclock.adapter.api import ColumnDescription, Format
from waterclock.pgwire.values.binary_out import encode_binary
from waterclock.pgwire.values.columns import data_of, joined, of_rows, with_length
from waterclock.pgwire.values.few import FEW_ROWS, encode_few
from waterclock.pgwire.values.text_out import encode_text
from waterclock.pgwire.values.zones import Zone

SLICE_ROWS = 4_096
"""Rows that are encoded in one go: few enough not to hold up other connections."""
_HEADER = np.dtype([("kind", "S1"), ("length", ">i4"), ("fields", ">i2")])


@dataclass(frozen=True, slots=True)
class RowEncoder:
    """Encodes batches of the columns given; there is one format for each."""

    columns: tuple[ColumnDescription, ...]
    formats: tuple[Format, ...]
    zone: Zone

    def encode(self, batch: pa.RecordBatch) -> Iterator[tuple[int, memoryview]]:
        """Messages for some rows at a time, with the number of rows."""
        assert batch.num_columns == len(self.columns), "a batch has other columns than described"
        if batch.num_rows <= FEW_ROWS:
            yield batch.num_rows, memoryview(self._few_messages(batch))
            return
        for start in range(0, batch.num_rows, SLICE_ROWS):
            rows = batch.slice(start, SLICE_ROWS)
            yield rows.num_rows, self._messages(rows)

    def _few_messages(self, rows: pa.RecordBatch) -> bytes:
        columns = [
            encode_one_by_one(rows.column(i), column, self.formats[i], self.zone)
            for i, column in enumerate(self.columns)
        ]
        return b"".join([data_row([column[row] for column in columns]) for row in range(len(rows))])

    def _messages(self, rows: pa.RecordBatch) -> memoryview:
        parts: list[pa.Array] = []
        total = np.full(rows.num_rows, 6, dtype=np.int64)
        for i, column in enumerate(self.columns):
            field, taken = with_length(encode(rows.column(i), column, self.formats[i], self.zone))
            parts += field
            total += taken
        header = np.empty(rows.num_rows, dtype=_HEADER)
        header["kind"], header["length"], header["fields"] = b"D", total, len(self.columns)
        return data_of(joined([of_rows(header), *parts]))


def data_row(values: Sequence[bytes | None]) -> bytes:
    """One DataRow message."""
    parts = [struct.pack(">h", len(values))]
    for value in values:
        if value is None:
            parts.append(b"\xff\xff\xff\xff")
        else:
            parts.append(struct.pack(">i", len(value)))
            parts.append(value)
    body = b"".join(parts)
    return b"D" + struct.pack(">i", len(body) + 4) + body


def encode_one_by_one(
    column: pa.Array, described: ColumnDescription, form: Format, zone: Zone
) -> list[bytes | None]:
    """A short column in one format, as Python has it."""
    values = encode_few(column, described.type, form, zone)
    if values is None:
        values = encode(column, described, form, zone).cast(pa.binary()).to_pylist()
    return values


def encode(column: pa.Array, described: ColumnDescription, form: Format, zone: Zone) -> pa.Array:
    """One column in one format."""
    if form is Format.BINARY:
        return encode_binary(column, described.type)
    return encode_text(column, described.type, zone)


def formats_for(columns: Sequence[object], given: tuple[Format, ...]) -> tuple[Format, ...]:
    """A format for each column: none given means text, one is for all."""
    if len(given) == len(columns):
        return given
    return (given[0] if given else Format.TEXT,) * len(columns)
