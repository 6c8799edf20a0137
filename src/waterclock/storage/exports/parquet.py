"""One export as Parquet: batches in, files out.

Rows are collected until they make a row group that is worth reading. A file is started anew when it
has enough bytes. `finish` writes the marker `_SUCCESS` last, with the names of the files, so a
folder without it is not complete; a single file gets its name when it is whole. `abort` removes
what was written. One thread at a time.
"""

from __future__ import annotations

import json
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq

from waterclock.storage.exports.columns import ExportedColumns
from waterclock.storage.exports.places import SUFFIX, Place, failing

MARKER = "_SUCCESS"
_CODEC = "zstd"
_GROUP_BYTES = 64 << 20
"""Size of a row group in memory."""


class ParquetExport:
    """Writes one result below a place that is free."""

    def __init__(self, place: Place, columns: ExportedColumns, file_bytes: int) -> None:
        """`file_bytes` is about how large a file of a folder becomes."""
        self._place = place
        self._columns = columns
        self._file_bytes = file_bytes
        self._files: list[str] = []
        self._stream: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows. Raises `ExportFailed`."""
        converted = self._columns.convert(batch)
        self._waiting.append(converted)
        self._waiting_bytes += converted.nbytes
        self.rows += batch.num_rows
        if self._waiting_bytes >= min(_GROUP_BYTES, self._file_bytes):
            with failing(self._place.location):
                self._write_group()

    def finish(self) -> None:
        """All rows have come. There is one file at least, which tells the columns."""
        with failing(self._place.location):
            if self._waiting or not self._files:
                self._write_group()
            self._close()
            place = self._place
            if place.is_file:
                place.system.move(self._files[0], place.path)
                return
            names = [path.rpartition("/")[2] for path in self._files]
            with place.system.open_output_stream(f"{place.path}/{MARKER}") as marker:
                marker.write(json.dumps({"rows": self.rows, "files": names}).encode())

    def abort(self) -> None:
        """Remove what was written."""
        with suppress(OSError):
            self._close()
        for path in self._files:
            with suppress(OSError):
                self._place.system.delete_file(path)

    def _write_group(self) -> None:
        batches, self._waiting, self._waiting_bytes = self._waiting, [], 0
        self._open().write_table(pa.Table.from_batches(batches, self._columns.schema))
        assert self._stream is not None, "a writer has a stream"
        if not self._place.is_file and self._stream.tell() >= self._file_bytes:
            self._close()

    def _open(self) -> pq.ParquetWriter:
        if self._writer is None:
            place, number = self._place, len(self._files)
            if place.is_file:
                folder, slash, name = place.path.rpartition("/")
                path = f"{folder}{slash}.{name}.part"
            else:
                place.system.create_dir(place.path, recursive=True)
                path = f"{place.path}/part-{number:05}{SUFFIX}"
            self._stream = place.system.open_output_stream(path)
            self._files.append(path)
            self._writer = pq.ParquetWriter(self._stream, self._columns.schema, compression=_CODEC)
        return self._writer

    def _close(self) -> None:
        writer, self._writer = self._writer, None
        stream, self._stream = self._stream, None
        if writer is not None and stream is not None:
            writer.close()
            stream.close()
