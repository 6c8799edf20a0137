"""Lines of files that grow: the first batch of a range tells what the file was like before it and
at its end (`continuity`), so that pieces that do not fit together, because the file was replaced
meanwhile, are found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import fs

from waterclock.storage.reclock.progress import Range
from waterclock.storage.sources.files import continuity
from waterclock.storage.sources.files.continuity import REACH
from waterclock.storage.sources.files.reading import LineReader


@dataclass(frozen=True)
class FileContents:
    """Implements `Contents` for the files of a file system."""

    system: fs.FileSystem

    def bytes_of(self, file: str, start: int, end: int) -> bytes:
        with self.system.open_input_file(file) as opened:
            return bytes(opened.read_at(end - start, start))

    def shown(self, file: str) -> str:
        return f'file "{file}"'


def read_followed(reader: LineReader, wanted: Range) -> Iterator[pa.RecordBatch]:
    """The messages of a range, with the digests of what is before it and at its end."""
    file, start = str(wanted.partition), wanted.start
    before = last = reader.contents.bytes_of(file, max(0, start - REACH), start)

    def chunks() -> Iterator[bytes]:
        nonlocal last
        for data in reader.chunks(wanted):
            last = (last + data)[-REACH:]
            yield data

    origin = reader.contents.shown(file)
    batches = list(reader.lines.batches(chunks(), start, file, origin))
    about = continuity.told(continuity.digest(before), continuity.digest(last))
    for number, batch in enumerate(batches):
        yield batch.replace_schema_metadata(None if number else about)


@dataclass(frozen=True)
class ReadLines:
    """What a task on an executor does: read the range of that number."""

    reader: LineReader
    ranges: tuple[Range, ...]

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        return read_followed(self.reader, self.ranges[number])
