"""The result of a query as an Arrow table, held in bounded memory.

Java's side (`waterclock.Results`) sends a few kilobytes of each task with the task's result and
writes the rest to files, so neither the JVM nor Python ever holds a large result: the table is
mapped from the files. They are unlinked as soon as they are mapped, so the space is free again when
the table is, and nothing is left behind by a crash but scratch.

What the result may be in all is bounded; `EngineFault` 54000 beyond that.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

INLINE_BYTES = 64 << 10
"""Largest result that a task returns inline; larger ones go through a file."""
RESULT_BYTES = 1 << 30
"""Default limit on the size of one result."""
_PART = struct.Struct(">bi")
_BATCH = struct.Struct(">i")
_FILED = 1


def collect(frame: DataFrame, folder: Path, most_bytes: int = RESULT_BYTES) -> pa.Table:
    """The rows of the frame, in their order. The folder is scratch that all executors can write."""
    jvm = frame.sparkSession._jvm
    assert jvm is not None, "a frame has a JVM"
    folder.mkdir(parents=True, exist_ok=True)
    collected = jvm.waterclock.Results.collect(frame._jdf, str(folder), INLINE_BYTES, most_bytes)
    schema = to_arrow_schema(frame.schema, timezone="UTC")
    batches = [batch for part in _parts(bytes(collected)) for batch in _batches(part)]
    if not batches:
        return schema.empty_table()
    return pa.Table.from_batches(batches).cast(schema)


def _parts(collected: bytes) -> Iterator[pa.Buffer]:
    """The batches of each task, with their lengths."""
    at = 0
    while at < len(collected):
        kind, length = _PART.unpack_from(collected, at)
        at += _PART.size
        content = collected[at : at + length]
        at += length
        yield _mapped(Path(content.decode())) if kind == _FILED else pa.py_buffer(content)


def _mapped(file: Path) -> pa.Buffer:
    """The file's bytes. It is unlinked: what is mapped stays until nobody refers to it."""
    try:
        with pa.memory_map(str(file)) as source:
            return source.read_buffer()
    finally:
        file.unlink(missing_ok=True)


def _batches(part: pa.Buffer) -> Iterator[pa.RecordBatch]:
    at = 0
    view = memoryview(part)
    while at < part.size:
        (length,) = _BATCH.unpack_from(view, at)
        at += _BATCH.size
        with pa.ipc.open_stream(part.slice(at, length)) as reader:
            yield from reader
        at += length
