"""Updates of a shard as a list of objects, for other processes to read.

A *listing* is either the contents at a time, every update moved to that time, or the changes from
one time to another, each at its own. Whoever holds the shard makes it, which is cheap, and keeps
its blobs pinned while others read. Each of these takes one of several *portions*: whole row groups
of Parquet, those that begin within its share of the rows. Together the portions are every update of
the listing that lies in a blob, each once; they are not consolidated, so a row may come with a diff
that another portion takes back.

What lies in the log itself is not in the listing: it is small, and whoever lists has it at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from waterclock.persist.blob.api import Blob
from waterclock.persist.blob.files import FileBlob
from waterclock.persist.blob.s3 import S3Blob
from waterclock.persist.errors import Damaged, Unavailable
from waterclock.persist.inline import read_inline
from waterclock.persist.intact import require_intact
from waterclock.persist.parts import COMPRESSION, GROUP_ROWS, Window, at_time
from waterclock.persist.records import Batch

_BATCH_BYTES = 32 << 20
"""About the most that a reader holds at once of a piece."""


class Piece(msgspec.Struct, frozen=True):
    """An object: how many updates it has and how many bytes, and between which times they are."""

    key: str
    rows: int
    size: int
    min_time: int
    max_time: int
    crc32: int | None

    @property
    def batch_rows(self) -> int:
        """How many rows to read at once: fewer if they are long."""
        row_bytes = max(1, COMPRESSION * self.size // max(1, self.rows))
        return min(GROUP_ROWS, max(1, _BATCH_BYTES // row_bytes))


class Listing(msgspec.Struct, frozen=True):
    """Where updates of a shard are: its contents as of a time, or its changes from `start` on."""

    as_of: int
    """The last time."""
    pieces: tuple[Piece, ...]
    start: int | None = None
    """The first time, if these are changes."""

    @property
    def rows(self) -> int:
        """The most updates there may be; more than rows if some cancel or are at other times."""
        return sum(piece.rows for piece in self.pieces)

    @property
    def size(self) -> int:
        """About how many bytes they take in memory."""
        return sum(COMPRESSION * piece.size for piece in self.pieces)

    @property
    def window(self) -> Window:
        """The times of the updates, as they are stored."""
        return Window(self.start or 0, self.as_of + 1)

    def within(self, start: int, end: int) -> Listing:
        """The changes from `start` up to and without `end`, of a listing of changes."""
        assert self.start is not None, "contents at a time can not be divided by times"
        first, last = max(self.start, start), min(self.as_of, end - 1)
        kept = (p for p in self.pieces if p.max_time >= first and p.min_time <= last)
        return Listing(last, tuple(kept), first)


def can_travel(blob: Blob) -> bool:
    """Whether other processes can read the same objects by a copy of the handle."""
    return isinstance(blob, FileBlob | S3Blob)


def listing(batches: Sequence[Batch], as_of: int, start: int | None = None) -> Listing:
    """The objects with updates at or before the time; those from `start` on, if it is given."""
    window = Window(start or 0, as_of + 1)
    pieces = tuple(
        Piece(part.key, part.rows, part.size, batch.min_time, batch.max_time, part.crc32)
        for batch in batches
        if window.touches(batch)
        for part in batch.parts
        if part.key is not None
    )
    return Listing(as_of, pieces, start)


def unlisted(
    batches: Sequence[Batch], columns: pa.Schema, as_of: int, start: int | None = None
) -> pa.Table:
    """The updates that no object has, of those that `listing` would list."""
    window = Window(start or 0, as_of + 1)
    parts = [part for batch in batches if window.touches(batch) for part in batch.parts]
    inline = [part for part in parts if part.inline is not None]
    if not inline:
        return columns.empty_table()
    found = read_inline(inline, columns).filter(window.condition())
    if start is not None:
        return found
    return pa.Table.from_batches([at_time(b, as_of) for b in found.to_batches()], columns)


def portion(
    blob: Blob, found: Listing, number: int, count: int, *, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The updates of one of `count` portions, in batches of bounded size.

    Only some columns, the time among them, if they are named.
    """
    first, last = (found.rows * bound // count for bound in (number, number + 1))
    begin = 0
    for piece in found.pieces:
        if begin < last and begin + piece.rows > first:
            yield from _read(blob, piece, found, (first - begin, last - begin), columns)
        begin += piece.rows


def _read(
    blob: Blob,
    piece: Piece,
    found: Listing,
    rows: tuple[int, int],
    columns: Sequence[str] | None,
) -> Iterator[pa.RecordBatch]:
    """The updates in row groups that begin at a row from the first one up to the second."""
    is_whole = piece.min_time >= (found.start or 0) and piece.max_time <= found.as_of
    try:
        with blob.open(piece.key) as file:
            require_intact(blob, piece.key, file, piece.size, piece.crc32)
            with pq.ParquetFile(file, page_checksum_verification=True) as parquet:
                groups = list(_groups(parquet, *rows))
                if not groups:
                    return
                read = parquet.iter_batches(piece.batch_rows, row_groups=groups, columns=columns)
                for batch in read:
                    kept = batch if is_whole else batch.filter(found.window.condition())
                    if kept.num_rows:
                        yield kept if found.start is not None else at_time(kept, found.as_of)
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
