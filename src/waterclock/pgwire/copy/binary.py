"""COPY's binary format: a header, rows of fields with their lengths, a trailer."""

from __future__ import annotations

import struct

import pyarrow as pa

from waterclock.adapter.api import CopyIn
from waterclock.errors import WaterclockError
from waterclock.pgwire.copy.decoding import CHUNK_BYTES, BatchBuilder, schema_of
from waterclock.pgwire.copy.encoding import BINARY_HEADER
from waterclock.pgwire.errors import BadCopyData
from waterclock.pgwire.values.binary_in import decode_binary
from waterclock.pgwire.values.errors import BadValue
from waterclock.pgwire.values.zones import UTC_ZONE

_SIGNATURE = BINARY_HEADER[:11]
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")


class BinaryDecoder:
    """Decodes COPY's binary format."""

    def __init__(self, target: CopyIn, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._builder = BatchBuilder(target, UTC_ZONE)
        self._schema = schema_of(target.columns)
        self._data = bytearray()
        self._started = False
        self._ended = False
        self._chunk_bytes = chunk_bytes
        self._line = 0

    def feed(self, data: bytes) -> list[pa.RecordBatch]:
        self._data += data
        return self._decode() if len(self._data) >= self._chunk_bytes else []

    def finish(self) -> list[pa.RecordBatch]:
        batches = self._decode()
        if not self._started:
            raise BadCopyData("COPY file signature not recognized")
        if self._data and not self._ended:
            self._line += 1
            raise self._cut_short()
        return batches

    def _decode(self) -> list[pa.RecordBatch]:
        if not self._started and not self._start():
            return []
        data = bytes(self._data)
        first, place = self._line + 1, 0
        columns: list[list[bytes | None]] = [[] for _ in self._builder.columns]
        while not self._ended and (end := self._row(data, place, columns)) is not None:
            place = end
        del self._data[:place]
        if self._ended and self._data:
            self._line += 1
            raise self._fault("received copy data after EOF marker")
        return [self._batch(columns, first)] if self._line >= first else []

    def _start(self) -> bool:
        """Read the header; False if it has not all come."""
        if not _SIGNATURE.startswith(self._data[:11]):
            raise BadCopyData("COPY file signature not recognized")
        if len(self._data) < 19:
            return False
        flags, extension = struct.unpack_from(">Ii", self._data, 11)
        if flags & 0xFFFF0000 or extension < 0:
            raise BadCopyData("unrecognized critical flags in COPY file header")
        if len(self._data) < 19 + extension:
            return False
        del self._data[: 19 + extension]
        self._started = True
        return True

    def _row(self, data: bytes, place: int, columns: list[list[bytes | None]]) -> int | None:
        """Add a row to the columns; where the next one begins, None if this is not whole."""
        if len(data) < place + 2:
            return None
        (count,) = _INT16.unpack_from(data, place)
        place += 2
        if count == -1:
            self._ended = True
            return place
        if count != len(columns):
            self._line += 1
            raise self._fault(f"row field count is {count}, expected {len(columns)}")
        fields: list[bytes | None] = []
        for _ in columns:
            if len(data) < place + 4:
                return None
            (length,) = _INT32.unpack_from(data, place)
            place += 4
            if length == -1:
                fields.append(None)
                continue
            if length < 0:
                raise self._fault("invalid field size")
            if len(data) < place + length:
                return None
            fields.append(data[place : place + length])
            place += length
        for column, field in zip(columns, fields, strict=True):
            column.append(field)
        self._line += 1
        return place

    def _batch(self, columns: list[list[bytes | None]], first: int) -> pa.RecordBatch:
        decoded = []
        for column, values in zip(self._builder.columns, columns, strict=True):
            try:
                decoded.append(decode_binary(values, column.type))
            except BadValue as fault:
                raise self._builder.located(fault, first + fault.row, column) from None
        return pa.RecordBatch.from_arrays(decoded, schema=self._schema)

    def _cut_short(self) -> WaterclockError:
        """The error for data that ends inside a row, at the column that it ends in."""
        fault = BadCopyData("unexpected EOF in COPY data")
        place = 2
        for column in self._builder.columns:
            if 2 <= len(self._data) < place + 4:
                return self._builder.located(fault, self._line, column)
            (length,) = _INT32.unpack_from(self._data, place) if place < len(self._data) else (0,)
            place += 4 + max(length, 0)
            if 2 <= len(self._data) < place:
                return self._builder.located(fault, self._line, column)
        return self._builder.located(fault, self._line)

    def _fault(self, message: str) -> WaterclockError:
        return self._builder.located(BadCopyData(message), self._line)
