"""Lines of a file as messages, read by whoever is asked: in place, or by tasks on executors.

A range begins where a line does and ends where one ends, so it can be cut into others of that kind
and read piece by piece. Where lines end in CSV depends on all quotes before, so there everything
has to be looked at to cut it, which still takes far less time than to decode it.

Where the bytes are is for others to say: a file system, or a bucket.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from waterclock.model.schema import Schema
from waterclock.storage.formats.api import Decoding
from waterclock.storage.reclock.progress import Range
from waterclock.storage.sources.errors import SourceFault
from waterclock.storage.sources.files.lines import line_ends, records_of
from waterclock.storage.sources.files.path_columns import (
    NO_PATH_COLUMNS,
    PathColumns,
    error_message,
)

_LOOK = 1 << 16
"""Bytes read at a time when looking for the end of a line."""


class Contents(Protocol):
    """Where the bytes of files are. It can be pickled."""

    def bytes_of(self, file: str, start: int, end: int) -> bytes:
        """What the file has there, as far as it goes."""
        ...

    def shown(self, file: str) -> str:
        """What errors call the file, such as `file "a"`."""
        ...


@dataclass(frozen=True)
class LineDecoder:
    """Bytes to messages. It can be pickled.

    `header` are the names that the first line of each file must have, if there is such a line. In
    `quoted` files a newline within quotes does not end a line.
    """

    decoding: Decoding
    header: tuple[str, ...] | None = None
    delimiter: str = ","
    quoted: bool = False
    path_columns: PathColumns = NO_PATH_COLUMNS

    @property
    def schema(self) -> Schema:
        """The rows of the output."""
        return Schema((*self.decoding.schema.columns, *self.path_columns.schema.columns))

    def error(self, offset: int, text: str, diff: int = 1) -> pa.RecordBatch:
        """A message that says what is wrong with a file, or with -1 that it is not any more."""
        none = pa.RecordBatch.from_pylist([], schema=self.decoding.messages)
        return error_message(self.path_columns.added(none, "", "").schema, offset, text, diff)

    def batches(
        self, chunks: Iterable[bytes], start: int, file: str, origin: str
    ) -> Iterator[pa.RecordBatch]:
        """The messages of successive bytes of a file, which begin and end where lines do.

        `start` is where they begin; `origin` is what errors call the file.
        """
        rest, at = b"", start
        for data in chunks:
            rest += data
            ends = line_ends(rest, quoted=self.quoted)
            if len(ends):
                yield self._decoded(records_of(rest, at, ends), file, origin)
                rest, at = rest[int(ends[-1]) :], at + int(ends[-1])
        if rest:  # nothing comes behind it
            ends = line_ends(rest, quoted=self.quoted)
            if not len(ends) or ends[-1] < len(rest):
                ends = np.append(ends, len(rest))
            yield self._decoded(records_of(rest, at, ends), file, origin)

    def _decoded(self, records: pa.RecordBatch, file: str, origin: str) -> pa.RecordBatch:
        wrong = None
        if self.header is not None and len(records) and records.column("offset")[0].as_py() == 0:
            wrong = self._wrong_header(records.column("value")[0].as_py(), origin)
            records = records.slice(1)
        batch = self.path_columns.added(self.decoding.decode(records, origin), file, origin)
        if wrong is None:
            return batch
        table = [error_message(batch.schema, 0, wrong).select(batch.schema.names), batch]
        return pa.Table.from_batches(table, batch.schema).combine_chunks().to_batches()[0]

    def _wrong_header(self, line: bytes, origin: str) -> str | None:
        """What is wrong with the first line of a file."""
        assert self.header is not None
        [names] = csv.reader([line.decode(errors="replace")], delimiter=self.delimiter)
        if tuple(names) == self.header:
            return None
        wanted = ", ".join(self.header)
        return f"22P04 the header of {origin} is {', '.join(names)} instead of {wanted}"


@dataclass(frozen=True)
class LineReader:
    """Reads ranges of files. It can be pickled.

    So many bytes as `piece` says are decoded together, and are one task's.
    """

    contents: Contents
    lines: LineDecoder
    piece: int

    def read(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        """The messages of a range, in pieces. Raises `SourceFault` if it is not all there."""
        file = str(wanted.partition)
        origin = self.contents.shown(file)
        return self.lines.batches(self.chunks(wanted), wanted.start, file, origin)

    def chunks(self, wanted: Range) -> Iterator[bytes]:
        """The bytes of a range, piece by piece. Raises as `read` does."""
        for start in range(wanted.start, wanted.end, self.piece):
            stop = min(wanted.end, start + self.piece)
            yield self._whole(str(wanted.partition), start, stop, wanted.end)

    def _whole(self, file: str, start: int, stop: int, end: int) -> bytes:
        data = self.contents.bytes_of(file, start, stop)
        if len(data) < stop - start:
            raise SourceFault(
                f"{self.contents.shown(file)} has shrunk",
                detail=f"It had {end} bytes when it was bound.",
            )
        return data

    def cut(self, wanted: Range) -> Iterator[Range]:
        """The range in pieces of about equal size that begin and end where lines do."""
        begin = wanted.start
        for end in self._line_ends(wanted):
            yield Range(wanted.partition, begin, end)
            begin = end
        if begin < wanted.end:
            yield Range(wanted.partition, begin, wanted.end)

    def _line_ends(self, wanted: Range) -> Iterator[int]:
        """Places in the range after some line, each so far from the one before or farther."""
        at = wanted.start
        while at + self.piece < wanted.end:
            found = self.line_end(str(wanted.partition), at, wanted.end)
            if found is None:
                return
            at = found
            yield at

    def line_end(self, file: str, start: int, end: int) -> int | None:
        """A place after a line, about a piece behind the start; None if there is none."""
        if self.lines.quoted:
            return self._after_quotes(file, start, end)
        return self._after_line(file, start, end)

    def _after_line(self, file: str, start: int, end: int) -> int | None:
        """The first place after a line that is a piece behind the start; None if there is none."""
        at = start + self.piece - 1
        while at < end:
            data = self._whole(file, at, min(end, at + _LOOK), end)
            newline = data.find(b"\n")
            if newline >= 0:
                return at + newline + 1
            at += len(data)
        return None

    def _after_quotes(self, file: str, start: int, end: int) -> int | None:
        """The last place after a line within a piece, where all quotes since the start count; if
        there is none, the first one.
        """
        size = self.piece
        while True:
            data = self._whole(file, start, min(end, start + size), end)
            ends = line_ends(data, quoted=True)
            if len(ends):
                return start + int(ends[-1])
            if start + size >= end:
                return None
            size *= 2
