"""The contents of a shard at a time as a list of objects, for other processes to read.

Whoever holds the shard makes the *listing*, which is small, and keeps its blobs pinned while others
read. Each of these takes one of several *portions*: whole row groups of Parquet, those that begin
within its share of the rows. Together the portions are every update up to the time that lies in a
blob, each once and moved to the time; they are not consolidated, so a row may come with a diff that
another portion takes back.

What lies in the log itself is not in the listing: it is small, and whoever lists has it at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from waterclock.persist.blob.api import Blob
from waterclock.persist.blob.files import FileBlob
from waterclock.persist.blob.s3 import S3Blob
from waterclock.persist.errors import Damaged, Unavailable
from waterclock.persist.inline import read_inline
from waterclock.persist.parts import GROUP_ROWS, Window, at_time
from waterclock.persist.records import Batch
from waterclock.persist.rows import TIME


class Piece(msgspec.Struct, frozen=True):
    """An object, how many updates it has, and whether all of them are at or before the time."""

    key: str
    rows: int
    is_whole: bool


class Listing(msgspec.Struct, frozen=True):
    """Where the updates are that make up a shard's contents at a time."""

    as_of: int
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        """How many updates there are; more than rows if some of them cancel."""
        return sum(piece.rows for piece in self.pieces)


def can_travel(blob: Blob) -> bool:
    """Whether other processes can read the same objects by a copy of the handle."""
    return isinstance(blob, FileBlob | S3Blob)


def listing(batches: Sequence[Batch], as_of: int) -> Listing:
    """The objects with updates at or before the time."""
    window = Window(0, as_of + 1)
    return Listing(
        as_of,
        tuple(
            Piece(part.key, part.rows, window.covers(batch))
            for batch in batches
            if window.touches(batch)
            for part in batch.parts
            if part.key is not None
        ),
    )


def unlisted(batches: Sequence[Batch], columns: pa.Schema, as_of: int) -> pa.Table:
    """The updates at or before the time that no object has, moved to the time."""
    window = Window(0, as_of + 1)
    parts = [part for batch in batches if window.touches(batch) for part in batch.parts]
    inline = [part for part in parts if part.inline is not None]
    if not inline:
        return columns.empty_table()
    found = read_inline(inline, columns)
    early = found.filter(pc.less_equal(found[TIME], as_of))
    return pa.Table.from_batches([at_time(b, as_of) for b in early.to_batches()], columns)


def portion(blob: Blob, found: Listing, number: int, count: int) -> Iterator[pa.RecordBatch]:
    """The updates of one of `count` portions, in batches of bounded size."""
    first, last = (found.rows * bound // count for bound in (number, number + 1))
    begin = 0
    for piece in found.pieces:
        if begin < last and begin + piece.rows > first:
            yield from _read(blob, piece, found.as_of, first - begin, last - begin)
        begin += piece.rows


def _read(blob: Blob, piece: Piece, as_of: int, first: int, last: int) -> Iterator[pa.RecordBatch]:
    """The updates in row groups that begin at a row from `first` up to and without `last`."""
    try:
        with (
            blob.open(piece.key) as file,
            pq.ParquetFile(file, page_checksum_verification=True) as parquet,
        ):
            groups = list(_groups(parquet, first, last))
            if groups:
                for batch in parquet.iter_batches(GROUP_ROWS, row_groups=groups):
                    kept = batch if piece.is_whole else _until(batch, as_of)
                    if kept.num_rows:
                        yield at_time(kept, as_of)
    except pa.ArrowInvalid as error:
        raise Damaged(f'object "{piece.key}" can not be read: {error}') from error
    except OSError as error:
        raise Unavailable(f'could not read object "{piece.key}": {error}') from error


def _groups(parquet: pq.ParquetFile, first: int, last: int) -> Iterator[int]:
    begin = 0
    for group in range(parquet.metadata.num_row_groups):
        if first <= begin < last:
            yield group
        begin += parquet.metadata.row_group(group).num_rows


def _until(batch: pa.RecordBatch, time: int) -> pa.RecordBatch:
    return batch.filter(pc.less_equal(batch.column(TIME), time))
