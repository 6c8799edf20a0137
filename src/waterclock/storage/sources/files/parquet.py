"""Parquet files as a source: an offset is a number of rows.

A Parquet file is complete when it can be opened, and does not change afterwards: one that is larger
or smaller later, or has fewer rows than were bound, is another. One that can not be opened yet is
being written and is looked at again later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from waterclock.model.schema import Schema
from waterclock.persist.schema_codec import decode_schema
from waterclock.storage.reclock.progress import Partition, Range, SourceFrontier
from waterclock.storage.sources.api import Messages, Probe
from waterclock.storage.sources.errors import InvalidSource, SourceFault
from waterclock.storage.sources.files import path_columns
from waterclock.storage.sources.files.definition import FilesDefinition
from waterclock.storage.sources.files.following import FollowedFiles
from waterclock.storage.sources.files.parquet_rows import ParquetRows, columns_in, opened
from waterclock.storage.sources.files.path_columns import PathColumns
from waterclock.storage.sources.files.places import place_of

_ROWS_AT_ONCE = 1_000_000


class ParquetFiles(FollowedFiles):
    """Implements `Connector`. The output has the columns of the definition."""

    def __init__(self, definition: FilesDefinition, output: str) -> None:
        super().__init__(definition)
        self._output = output
        self._rows_of = ParquetRows(
            decode_schema(definition.columns), PathColumns(decode_schema(definition.path_columns))
        )
        self._rows: dict[str, tuple[int, int]] = {}
        """The size and the number of rows of files that were looked into."""

    @property
    def outputs(self) -> Mapping[str, Schema]:
        return {self._output: self._rows_of.schema}

    def probe(self) -> Probe:
        bound: dict[Partition, int] = {}
        known: dict[Partition, int] = {}
        left = _ROWS_AT_ONCE
        for file, size in self._files().items():
            rows = self._count(file, size)
            if rows is None:
                continue
            start = self._bound.get(file, 0)
            known[file] = rows
            bound[file] = min(rows, start + left)
            left = max(0, left - max(0, bound[file] - start))
        frontier = SourceFrontier(bound, True)
        is_final = not self._definition.follow and bound == known
        return Probe(frontier, SourceFrontier(known, True), is_final)

    def _count(self, file: str, size: int) -> int | None:
        """The number of rows; None while the file is not whole."""
        looked = self._rows.get(file)
        if looked is not None:
            if looked[0] != size:
                raise _replaced(file, f"It had {looked[0]} bytes and has {size} now.")
            return looked[1]
        try:
            with self._place.system.open_input_file(file) as stream:
                rows: int = opened(stream).metadata.num_rows
        except pa.ArrowInvalid:
            if file in self._bound:
                raise _replaced(file, "It is no Parquet file any more.") from None
            return None
        if self._bound.get(file, rows) > rows:
            raise _replaced(file, f"It has {rows} rows now.")
        self._rows[file] = (size, rows)
        return rows

    def read(self, ranges: Sequence[Range]) -> Iterator[Messages]:
        for each in ranges:
            yield from self._read(str(each.partition), each.start, each.end)

    def _read(self, file: str, start: int, end: int) -> Iterator[Messages]:
        origin = f'file "{file}"'
        with self._place.system.open_input_file(file) as stream:
            parquet = opened(stream)
            if parquet.metadata.num_rows < end:
                raise _replaced(file, f"It has {parquet.metadata.num_rows} rows now.")
            first = 0
            for group in range(parquet.num_row_groups):
                rows = parquet.metadata.row_group(group).num_rows
                skip, stop = max(0, start - first), min(rows, end - first)
                if skip < stop:
                    at = first + skip
                    for batch in self._rows_of.group(parquet, group, skip, stop, file, origin):
                        offsets = np.arange(at, at + batch.num_rows)
                        yield Messages(self._output, file, self._rows_of.messages(batch, offsets))
                        at += batch.num_rows
                first += rows


def _replaced(file: str, detail: str) -> SourceFault:
    hint = "Write new rows to new files. Drop the source and create it again to read this one."
    return SourceFault(f'file "{file}" has been replaced', detail=detail, hint=hint)


def columns_of(location: str, pattern: str | None) -> tuple[Schema, Schema]:
    """The columns of the first Parquet file that is there, and those in its path.

    Raises `InvalidSource`.
    """
    place = place_of(location, pattern)
    try:
        for file in place.files():
            with place.system.open_input_file(file) as stream:
                inside = columns_in(opened(stream))
            return inside, path_columns.columns_in(file[len(place.path) :], inside)
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidSource(f"could not look into the files: {error}") from None
    raise InvalidSource(
        "there is no file yet whose columns could be taken",
        hint="Give the columns with their types.",
    )
