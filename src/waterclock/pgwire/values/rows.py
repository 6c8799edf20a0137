"""Batches of rows as DataRow messages, in the formats that the client asked for."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from waterclock.adapter.api import ColumnDescription, Format
from waterclock.pgwire.values.binary_out import encode_binary
from waterclock.pgwire.values.columns import data_of, joined, of_rows, with_length
from waterclock.pgwire.values.few import FEW_ROWS, Encoder, encode_few, few_encoder
from waterclock.pgwire.values.text_out import encode_text
from waterclock.pgwire.values.zones import Zone

SLICE_ROWS = 4_096
"""Rows that are encoded in one go: few enough not to hold up other connections."""
_DATA_ROW = struct.Struct(">cih")
_HEADER = np.dtype([("kind", "S1"), ("length", ">i4"), ("fields", ">i2")])


class RowEncoder:
    """Encodes batches of the columns given; there is one format for each."""

    __slots__ = ("_few", "_schema", "columns", "formats", "zone")

    def __init__(
        self, columns: tuple[ColumnDescription, ...], formats: tuple[Format, ...], zone: Zone
    ) -> None:
        self.columns = columns
        self.formats = formats
        self.zone = zone
        self._schema: pa.Schema | None = None
        self._few: list[Encoder | None] = []
        """How short columns of batches with that schema are encoded."""

    def is_for(
        self, columns: tuple[ColumnDescription, ...], formats: tuple[Format, ...], zone: Zone
    ) -> bool:
        """Whether it is known, without a look at each column, to encode just these."""
        return self.columns is columns and self.zone is zone and self.formats == formats

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
        if self._schema is None or not rows.schema.equals(self._schema):
            self._schema = rows.schema
            self._few = [
                few_encoder(field.type, column.type, form, self.zone)
                for field, column, form in zip(rows.schema, self.columns, self.formats, strict=True)
            ]
        columns = [self._few_values(rows.column(i), i) for i in range(len(self.columns))]
        return b"".join([data_row([column[row] for column in columns]) for row in range(len(rows))])

    def _few_values(self, values: pa.Array, place: int) -> list[bytes | None]:
        few = self._few[place]
        encoded = None if few is None else few(values)
        if encoded is not None:
            return encoded
        described, form = self.columns[place], self.formats[place]
        many: list[bytes | None] = (
            encode(values, described, form, self.zone).cast(pa.binary()).to_pylist()
        )
        return many

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
    parts = []
    for value in values:
        if value is None:
            parts.append(b"\xff\xff\xff\xff")
        else:
            parts.append(len(value).to_bytes(4, "big"))
            parts.append(value)
    body = b"".join(parts)
    return _DATA_ROW.pack(b"D", len(body) + 6, len(values)) + body


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
