"""Files as a source: a partition is a file, an offset is a place in it.

The place is in bytes, after the last whole line; in rows, for Parquet. New files and appended bytes
are found by looking. So much of a file is bound at once that a binding does not become too large.
A file that is gone or has become shorter ends the source, and so does one that was replaced (see
`continuity`).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import pyarrow as pa

from waterclock.model.schema import Column, Int, Schema, Text
from waterclock.persist.rows import DIFF
from waterclock.storage.envelopes.choice import decoding_of, envelope_of
from waterclock.storage.envelopes.plain import Plain
from waterclock.storage.formats.api import CsvDefinition, MessageDefinition
from waterclock.storage.reclock.progress import Partition, Range, SourceFrontier
from waterclock.storage.reclock.shape import ProgressShape
from waterclock.storage.sources.api import (
    ERROR,
    OFFSET,
    Connector,
    Envelope,
    Grouping,
    Kind,
    Messages,
    Probe,
    Surroundings,
)
from waterclock.storage.sources.errors import SourceFault
from waterclock.storage.sources.files import continuity
from waterclock.storage.sources.files.continuity import REACH, Continuity
from waterclock.storage.sources.files.definition import FilesDefinition
from waterclock.storage.sources.files.following import FollowedFiles
from waterclock.storage.sources.files.lines import line_ends, records_of
from waterclock.storage.sources.files.parquet import ParquetFiles

NAME = "file"
OUTPUT = "files"
_AT_ONCE = 64 << 20
"""How many bytes are bound at once, over all files."""
_PIECE = 8 << 20
"""How many bytes are decoded together."""
FILES = ProgressShape(
    Column("offset", Int(64), nullable=False), Column("file", Text(), nullable=False), True
)


class LineFiles(FollowedFiles):
    """Implements `Connector` for files of lines."""

    def __init__(self, definition: FilesDefinition, surroundings: Surroundings) -> None:
        assert definition.messages is not None
        super().__init__(definition)
        self._decoding = decoding_of(definition.messages, surroundings.connection)
        self._quoted = isinstance(definition.messages.value, CsvDefinition)

    @property
    def outputs(self) -> Mapping[str, Schema]:
        return {OUTPUT: self._decoding.schema}

    def probe(self) -> Probe:
        bound: dict[Partition, int] = {}
        known: dict[Partition, int] = {}
        left = _AT_ONCE
        for file, size in self._place.files().items():
            start = self._bound.get(file, 0)
            end, is_all = start, size <= start
            if size < start:
                end = size  # it has shrunk: whoever compares the frontiers says so
            elif size > start and left > 0:
                end = self._last_end(file, start, size, left)
                is_all = size - start <= left
                left -= end - start
            bound[file] = end
            known[file] = end if is_all else max(end, size)
        frontier = SourceFrontier(bound, True)
        is_final = not self._definition.follow and bound == known
        return Probe(frontier, SourceFrontier(known, True), is_final)

    def _last_end(self, file: str, start: int, size: int, most: int) -> int:
        """The place after the last whole line, looking at so many bytes, or more for a long one."""
        is_end = not self._definition.follow
        while True:
            wanted = min(size - start, most)
            data = self._bytes(file, start, start + wanted)
            if len(data) < wanted:
                return start  # it is being changed: look again later
            if is_end and start + wanted == size:
                return size  # nothing will be added to the last line
            ends = line_ends(data, quoted=self._quoted)
            if len(ends) or start + wanted == size:
                return start + (int(ends[-1]) if len(ends) else 0)
            most *= 2

    def _bytes(self, file: str, start: int, end: int) -> bytes:
        with self._place.system.open_input_file(file) as opened:
            return bytes(opened.read_at(end - start, start))

    def read(self, ranges: Sequence[Range]) -> Iterator[Messages]:
        for each in ranges:
            yield from self._read(str(each.partition), each.start, each.end)

    def _read(self, file: str, start: int, end: int) -> Iterator[Messages]:
        before = self._bytes(file, max(0, start - REACH), start)
        rest, at = b"", start
        read_to = start
        batches: list[pa.RecordBatch] = []
        last = before
        while read_to < end:
            stop = min(end, read_to + _PIECE)
            data = self._bytes(file, read_to, stop)
            if len(data) < stop - read_to:
                raise SourceFault(
                    f'file "{file}" has shrunk',
                    detail=f"It had {end} bytes when it was bound.",
                )
            last = (last + data)[-REACH:]
            rest, read_to = rest + data, stop
            ends = line_ends(rest, quoted=self._quoted)
            if read_to == end and (not len(ends) or ends[-1] < len(rest)):
                ends = pa.array([*ends.tolist(), len(rest)], pa.int64()).to_numpy()
            if len(ends):
                batches.append(self._decoded(file, records_of(rest, at, ends)))
                rest, at = rest[int(ends[-1]) :], at + int(ends[-1])
        about = continuity.told(continuity.digest(before), continuity.digest(last))
        for number, batch in enumerate(batches):
            yield Messages(OUTPUT, file, batch.replace_schema_metadata(None if number else about))

    def _decoded(self, file: str, records: pa.RecordBatch) -> pa.RecordBatch:
        origin = f'file "{file}"'
        wrong = None
        if self._definition.header is not None and len(records):
            first = records.column("offset")[0].as_py() == 0
            if first:
                wrong = self._wrong_header(records.column("value")[0].as_py(), origin)
                records = records.slice(1)
        batch = self._decoding.decode(records, origin)
        if wrong is None:
            return batch
        told = {OFFSET: pa.array([0]), DIFF: pa.array([1]), ERROR: pa.array([wrong])}
        head = [told.get(f.name, pa.nulls(1, f.type)) for f in batch.schema]
        table = [pa.RecordBatch.from_arrays(head, schema=batch.schema), batch]
        return pa.Table.from_batches(table).combine_chunks().to_batches()[0]

    def _wrong_header(self, line: bytes, origin: str) -> str | None:
        """What is wrong with the first line of a file."""
        [names] = csv.reader([line.decode(errors="replace")], delimiter=self._definition.delimiter)
        if tuple(names) == self._definition.header:
            return None
        assert self._definition.header is not None
        wanted = ", ".join(self._definition.header)
        return f"22P04 the header of {origin} is {', '.join(names)} instead of {wanted}"


def encoded(definition: FilesDefinition) -> bytes:
    """The definition as a source's."""
    return msgspec.msgpack.encode(definition)


def connector_of(definition: FilesDefinition, surroundings: Surroundings) -> Connector:
    """What reads such files. Raises `InvalidSource`."""
    if definition.messages is None:
        return ParquetFiles(definition, OUTPUT)
    return LineFiles(definition, surroundings)


def _messages(definition: bytes) -> MessageDefinition | None:
    return msgspec.msgpack.decode(definition, type=FilesDefinition).messages


def _open(definition: bytes, surroundings: Surroundings) -> Connector:
    return connector_of(msgspec.msgpack.decode(definition, type=FilesDefinition), surroundings)


def _envelope(definition: bytes, output: str) -> Envelope:
    del output
    messages = _messages(definition)
    return Plain() if messages is None else envelope_of(messages)


def _grouping(definition: bytes) -> Grouping | None:
    return None if _messages(definition) is None else Continuity()


KIND = Kind(FILES, _open, _envelope, _grouping)
