"""What envelopes note: small values as JSON, rows that wait as Arrow."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa


def noted(value: Any) -> bytes:
    """A value as a note."""
    return msgspec.json.encode(value)


def noted_rows(table: pa.Table | pa.RecordBatch) -> bytes:
    """Rows as a note."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return bytes(sink.getvalue())


def rows_noted(note: bytes) -> pa.Table:
    """The rows of a note."""
    with pa.ipc.open_stream(note) as reader:
        return reader.read_all()
