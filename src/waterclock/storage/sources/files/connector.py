"""Files as a source: a partition is a file, an offset is a place in it.

The place is in bytes, after the last whole line; in rows, for Parquet. New files and appended bytes
are found by looking. So much of a file is bound at once that a binding does not become too large.
A file that is gone or has become shorter ends the source, and so does one that was replaced (see
`continuity`).

Large ranges of lines are decoded by tasks on executors, small ones here. Parquet is always read
here: Arrow reads it on all cores by itself, faster than tasks could hand it over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from waterclock.model.schema import Column, Int, Schema, Text
from waterclock.persist.schema_codec import decode_schema
from waterclock.storage.envelopes.choice import decoding_of, envelope_of
from waterclock.storage.envelopes.plain import Plain
from waterclock.storage.formats.api import CsvDefinition, MessageDefinition
from waterclock.storage.reclock.progress import Partition, Range, SourceFrontier
from waterclock.storage.reclock.shape import ProgressShape
from waterclock.storage.sources.api import (
    Connector,
    Envelope,
    Grouping,
    Kind,
    Messages,
    Probe,
    Surroundings,
)
from waterclock.storage.sources.files.continuity import Continuity
from waterclock.storage.sources.files.definition import FilesDefinition
from waterclock.storage.sources.files.followed_lines import (
    FileContents,
    ReadLines,
    read_followed,
)
from waterclock.storage.sources.files.following import FollowedFiles
from waterclock.storage.sources.files.lines import line_ends
from waterclock.storage.sources.files.parquet import ParquetFiles
from waterclock.storage.sources.files.path_columns import PathColumns
from waterclock.storage.sources.files.reading import LineDecoder, LineReader

NAME = "file"
OUTPUT = "files"
_AT_ONCE = 64 << 20
"""Limit on the bytes bound at once, over all files."""
_PIECE = 8 << 20
FILES = ProgressShape(
    Column("offset", Int(64), nullable=False), Column("file", Text(), nullable=False), True
)


class LineFiles(FollowedFiles):
    """Implements `Connector` for files of lines."""

    def __init__(self, definition: FilesDefinition, surroundings: Surroundings) -> None:
        assert definition.messages is not None
        super().__init__(definition)
        self._surroundings = surroundings
        decoder = LineDecoder(
            decoding_of(definition.messages, surroundings.connection),
            definition.header,
            definition.delimiter,
            isinstance(definition.messages.value, CsvDefinition),
            PathColumns(decode_schema(definition.path_columns)),
        )
        self._reader = LineReader(FileContents(self._place.system), decoder, _PIECE)

    @property
    def outputs(self) -> Mapping[str, Schema]:
        return {OUTPUT: self._reader.lines.schema}

    def probe(self) -> Probe:
        bound: dict[Partition, int] = {}
        known: dict[Partition, int] = {}
        left = _AT_ONCE
        for file, size in self._files().items():
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
            data = self._reader.contents.bytes_of(file, start, start + wanted)
            if len(data) < wanted:
                return start  # it is being changed: look again later
            if is_end and start + wanted == size:
                return size  # nothing will be added to the last line
            ends = line_ends(data, quoted=self._reader.lines.quoted)
            if len(ends) or start + wanted == size:
                return start + (int(ends[-1]) if len(ends) else 0)
            most *= 2

    def read(self, ranges: Sequence[Range]) -> Iterator[Messages]:
        executors = self._surroundings.executors
        if executors is None or sum(map(len, ranges)) < self._surroundings.large_bytes:
            for each in ranges:
                for batch in read_followed(self._reader, each):
                    yield Messages(OUTPUT, each.partition, batch)
            return
        pieces = tuple(piece for each in ranges for piece in self._reader.cut(each))
        for number, batch in executors.read(ReadLines(self._reader, pieces), len(pieces)):
            yield Messages(OUTPUT, pieces[number].partition, batch)


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
