"""Lines of a file as messages, read by whoever is asked: in place, or by tasks on executors.

A range begins where a line does and ends where one ends, so it can be cut into others of that kind
and read piece by piece. Where lines end in CSV depends on all quotes before, so there everything
has to be looked at to cut it, which still takes far less time than to decode it.

The first batch of a range tells what the file was like before it and at its end (`continuity`), so
that pieces that do not fit together, because the file was replaced meanwhile, are found.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import fs

from waterclock.persist.rows import DIFF
from waterclock.storage.formats.api import Decoding
from waterclock.storage.reclock.progress import Range
from waterclock.storage.sources.api import ERROR, OFFSET
from waterclock.storage.sources.errors import SourceFault
from waterclock.storage.sources.files import continuity
from waterclock.storage.sources.files.continuity import REACH
from waterclock.storage.sources.files.lines import line_ends, records_of

_LOOK = 1 << 16
"""Bytes read at a time when looking for the end of a line."""


@dataclass(frozen=True)
class LineReader:
    """Reads ranges of files. It can be pickled.

    `header` are the names that the first line of each file must have, if there is such a line. In
    `quoted` files a newline within quotes does not end a line. So many bytes as `piece` says are
    decoded together, and are one task's.
    """

    system: fs.FileSystem
    decoding: Decoding
    header: tuple[str, ...] | None
    delimiter: str
    quoted: bool
    piece: int

    def bytes_of(self, file: str, start: int, end: int) -> bytes:
        """What the file has there, as far as it goes."""
        with self.system.open_input_file(file) as opened:
            return bytes(opened.read_at(end - start, start))

    def read(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        """The messages of a range, in pieces. Raises `SourceFault` if it is not all there."""
        file, start, end = str(wanted.partition), wanted.start, wanted.end
        before = self.bytes_of(file, max(0, start - REACH), start)
        batches: list[pa.RecordBatch] = []
        rest, at, read_to, last = b"", start, start, before
        while read_to < end:
            stop = min(end, read_to + self.piece)
            data = self._whole(file, read_to, stop, end)
            last = (last + data)[-REACH:]
            rest, read_to = rest + data, stop
            ends = line_ends(rest, quoted=self.quoted)
            if read_to == end and (not len(ends) or ends[-1] < len(rest)):
                ends = np.append(ends, len(rest))
            if len(ends):
                batches.append(self._decoded(file, records_of(rest, at, ends)))
                rest, at = rest[int(ends[-1]) :], at + int(ends[-1])
        about = continuity.told(continuity.digest(before), continuity.digest(last))
        for number, batch in enumerate(batches):
            yield batch.replace_schema_metadata(None if number else about)

    def _whole(self, file: str, start: int, stop: int, end: int) -> bytes:
        data = self.bytes_of(file, start, stop)
        if len(data) < stop - start:
            raise SourceFault(
                f'file "{file}" has shrunk',
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
        find = self._after_quotes if self.quoted else self._after_line
        at = wanted.start
        while at + self.piece < wanted.end:
            found = find(str(wanted.partition), at, wanted.end)
            if found is None:
                return
            at = found
            yield at

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

    def _decoded(self, file: str, records: pa.RecordBatch) -> pa.RecordBatch:
        origin = f'file "{file}"'
        wrong = None
        if self.header is not None and len(records):
            first = records.column("offset")[0].as_py() == 0
            if first:
                wrong = self._wrong_header(records.column("value")[0].as_py(), origin)
                records = records.slice(1)
        batch = self.decoding.decode(records, origin)
        if wrong is None:
            return batch
        told = {OFFSET: pa.array([0]), DIFF: pa.array([1]), ERROR: pa.array([wrong])}
        head = [told.get(f.name, pa.nulls(1, f.type)) for f in batch.schema]
        table = [pa.RecordBatch.from_arrays(head, schema=batch.schema), batch]
        return pa.Table.from_batches(table).combine_chunks().to_batches()[0]

    def _wrong_header(self, line: bytes, origin: str) -> str | None:
        """What is wrong with the first line of a file."""
        assert self.header is not None
        [names] = csv.reader([line.decode(errors="replace")], delimiter=self.delimiter)
        if tuple(names) == self.header:
            return None
        wanted = ", ".join(self.header)
        return f"22P04 the header of {origin} is {', '.join(names)} instead of {wanted}"


@dataclass(frozen=True)
class ReadLines:
    """What a task on an executor does: read the range of that number."""

    reader: LineReader
    ranges: tuple[Range, ...]

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        return self.reader.read(self.ranges[number])
