"""Writing runs: sorted, consolidated, in bounded pieces, and visible only as a whole.

Everything that becomes a run passes through `RunWriter` as pieces in order of hash. A piece has all
updates of its hashes, or all updates of some rows of one very frequent hash, so consolidating each
piece by itself consolidates the run.

A retried task writes the same run again, under the same name: the same updates, if maybe not in the
same order. Whichever of the two is renamed last stays, and either will do. What a writer that died
had written so far keeps its temporary name, and the owner removes it on opening.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.persist.arrangement.cover import Cover
from waterclock.persist.arrangement.files import Settling, publish, temporary, unavailable
from waterclock.persist.arrangement.layout import HASH, Layout, consolidated
from waterclock.persist.arrangement.run import SUMMARY, Summary
from waterclock.persist.folders import open_private
from waterclock.persist.hashing import Hashes, hash_rows
from waterclock.persist.rows import TIME

PIECE_ROWS = 2**18
PIECE_BYTES = 2**24
"""The most rows, and about the most bytes, that are sorted and consolidated at once."""
BATCH_PIECES = 4
"""How many pieces make a batch: larger batches are fewer, and lookups have less to open."""


def write_run(
    folder: Path,
    layout: Layout,
    cover: Cover,
    updates: pa.Table,
    *,
    since: int | None = None,
    piece_rows: int = PIECE_ROWS,
    always: bool = False,
    is_consolidated: bool = False,
    settling: Settling | None = None,
) -> Cover | None:
    """Write everything that happened in the cover, as a run; None if nothing did.

    With `always` a run without rows is written then, since others were written beside it.

    `updates` has the layout's columns, with or without the hash (see `Layout.arranged`), in any
    order of rows, all of them inside the cover. They are consolidated, with times below `since`
    advanced to it; or they are already, and there is no `since`. Once this returns, or `settling`
    ends, the run survives a power failure. If it raises, the run is not there, or it is as it was.
    """
    assert since is None or not is_consolidated, "advancing times may make rows equal"
    updates = layout.arranged(updates)
    if updates.num_rows == 0 and not always:
        return None
    _check_times(updates, cover)
    limit = rows_for(updates.nbytes, max(1, updates.num_rows), piece_rows)
    with RunWriter(folder, layout, cover, since, limit) as writer:
        if is_consolidated:
            writer.write_all(updates)
        else:
            for piece in _sorted_pieces(updates, layout, limit):
                writer.write(piece)
        return None if writer.is_empty and not always else writer.finish(settling)


def rows_for(size: int, rows: int, most: int) -> int:
    """How many rows make a piece, if `rows` of them have that many bytes."""
    return max(1, min(most, PIECE_BYTES * rows // max(1, size)))


class RunWriter:
    """A run in the making. Leaving the context without `finish` leaves nothing behind."""

    def __init__(
        self, folder: Path, layout: Layout, cover: Cover, since: int | None, piece_rows: int
    ) -> None:
        self._folder, self._layout, self._cover, self._since = folder, layout, cover, since
        self._batch_rows = BATCH_PIECES * piece_rows
        self._held: list[pa.Table] = []
        self._starts: list[int] = [0]
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._nothing: pa.RecordBatch | None = None
        """No rows of what was written."""
        self._is_finished = False
        self._path = temporary(folder, cover)
        with unavailable("write", folder):
            self._sink = _CheckedFile(self._path)
        self._writer = pa.ipc.new_file(pa.PythonFile(self._sink, mode="w"), layout.schema)

    def write(self, piece: pa.Table) -> None:
        """Add updates sorted by hash, with no smaller hash than those before."""
        piece = consolidated(piece, self._layout, since=self._since)
        if self._layout.latest and self._cover.lower == 0:
            piece = piece.filter(pc.greater(piece[self._layout.diffs[0]], 0))
        if piece.num_rows:
            self._held.append(piece)
        if sum(held.num_rows for held in self._held) >= self._batch_rows:
            self._write_batch()

    def write_all(self, updates: pa.Table) -> None:
        """Write updates in any order of rows that are consolidated, and all that there are."""
        order = ascending_hashes(updates[HASH].to_numpy())
        for start in range(0, len(order), self._batch_rows):
            places = pa.array(order[start : start + self._batch_rows])
            self._held = [updates.take(places)]
            self._write_batch()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was left of what was written so far."""
        return not self._held and not self._firsts

    def _write_batch(self) -> None:
        (batch,) = pa.concat_tables(self._held).combine_chunks().to_batches()
        self._held.clear()
        first, last = batch.column(0)[0].as_py(), batch.column(0)[-1].as_py()
        hashes = self._cover.hashes
        assert hashes.low <= first <= last < hashes.high, "an update lies outside of the cover"
        assert not self._lasts or self._lasts[-1] <= first, "pieces are not in order of hash"
        with unavailable("write", self._folder):
            self._writer.write_batch(batch)
        self._nothing = batch.slice(0, 0)
        self._starts.append(self._starts[-1] + batch.num_rows)
        self._firsts.append(first)
        self._lasts.append(last)

    def finish(self, settling: Settling | None = None) -> Cover:
        """Make the run visible and durable, even if it has no rows; or durable later."""
        if self._held:
            self._write_batch()
        with unavailable("write", self._folder):
            summary = Summary(
                self._cover.name,
                tuple(self._starts),
                tuple(self._firsts),
                tuple(self._lasts),
                self._sink.tell(),
                self._sink.crc32,
            )
            nothing = self._nothing
            if nothing is None:
                nothing = pa.RecordBatch.from_pylist([], self._layout.schema)
            self._writer.write_batch(nothing, custom_metadata={SUMMARY: summary.encoded()})
            self._writer.close()
            self._sink.close()
        (settling.publish if settling else publish)(self._path, self._folder, self._cover)
        self._is_finished = True
        return self._cover

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._sink.close()
        if not self._is_finished:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)


class _CheckedFile:
    """A new file that knows the checksum of all that was written to it."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "wb", opener=open_private)  # noqa: SIM115
        self.crc32 = 0

    def write(self, data: bytes) -> int:
        self.crc32 = zlib.crc32(data, self.crc32)
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def close(self) -> None:
        self._file.close()


def _check_times(updates: pa.Table, cover: Cover) -> None:
    if not updates.num_rows:
        return
    times = pc.min_max(updates[TIME]).as_py()
    assert times["min"] is not None, "updates need times"
    assert cover.lower <= times["min"] <= times["max"] < cover.upper, (
        f"updates at {times['min']}..{times['max']} lie outside of {cover.lower}..{cover.upper}"
    )


def _sorted_pieces(updates: pa.Table, layout: Layout, limit: int) -> Iterator[pa.Table]:
    """The updates in order of hash, cut between two hashes about every `limit` rows."""
    hashes = updates[HASH].to_numpy()
    order = ascending_hashes(hashes)
    hashes = hashes[order]
    start = 0
    while start < len(hashes):
        stop = start + limit
        if stop < len(hashes):
            stop = int(np.searchsorted(hashes, hashes[stop], side="left"))
            if stop <= start:  # one hash has more rows than that
                stop = int(np.searchsorted(hashes, hashes[start], side="right"))
        piece = updates.take(pa.array(order[start:stop]))
        if stop - start <= limit:
            yield piece
        else:
            yield from divided(layout, piece.to_batches(), limit)
        start = stop


def ascending_hashes(hashes: Hashes) -> npt.NDArray[np.int64]:
    """The order that sorts the hashes, the first of equal ones first.

    To sort numbers is several times faster than to find the order that sorts them. So the first
    bits of each hash and its place are sorted as one number. The few hashes that agree in those
    bits and not in the others are put in order afterwards.
    """
    bits = len(hashes).bit_length()
    low = np.uint64((1 << bits) - 1)
    packed = (hashes & ~low) | np.arange(len(hashes), dtype=np.uint64)
    packed.sort()
    order = (packed & low).view(np.int64)
    found = hashes[order]
    wrong = np.flatnonzero(found[1:] < found[:-1])
    if len(wrong):
        first_bits = packed & ~low
        for start in np.unique(np.searchsorted(first_bits, first_bits[wrong])).tolist():
            stop = int(np.searchsorted(first_bits, first_bits[start], side="right"))
            order[start:stop] = order[start:stop][np.argsort(found[start:stop], kind="stable")]
    return order


def divided(layout: Layout, parts: Sequence[pa.RecordBatch], limit: int) -> Iterator[pa.Table]:
    """The updates of one hash in several pieces, each with all updates of its rows."""
    count = -(-sum(part.num_rows for part in parts) // limit)
    slices = [
        part.slice(start, limit) for part in parts for start in range(0, part.num_rows, limit)
    ]
    owners = [_owners(layout, part, count) for part in slices]
    for number in range(count):
        chosen = [
            part.take(pa.array(np.flatnonzero(owner == number)))
            for part, owner in zip(slices, owners, strict=True)
        ]
        yield pa.Table.from_batches(chosen, layout.schema).combine_chunks()


def _owners(layout: Layout, part: pa.RecordBatch, count: int) -> npt.NDArray[np.uint32]:
    columns = [part.column(name) for name in layout.row_names]
    return (hash_rows(columns, part.num_rows) % np.uint64(count)).astype(np.uint32)
