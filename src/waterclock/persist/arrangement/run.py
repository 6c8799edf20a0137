"""One run: an Arrow file sorted by hash, mapped into memory, searched and never read in full.

The file is uncompressed and has several record batches, so that it can be written in bounded
memory. They are large (about a million rows): a lookup has a small cost for each batch it touches,
and joining the batches' hashes into one array would mean reading them all. A hash may go on from
one batch into the next, as the rows of a very frequent key do.

The last batch has no rows. Its metadata is the run's summary: where the batches begin, their first
and last hashes, and a checksum of all bytes before it, all of it with a checksum of its own.
Opening reads only that and Arrow's footer, so its cost does not follow the size of the run, and a
lookup opens only batches that can have an answer. A summary that is missing or damaged, or does not
fit the name, the size or the layout, is found on opening; damage in the rows is found by `verify`,
which reads them. The owner verifies a run when it takes up the state of an earlier process, and
before it merges the run into another, so that damage never gets a checksum that fits. The footer,
which says where the batches are, has no checksum: each batch is compared with the summary.

The file is mapped as long as the run, or any batch that came from it, is alive, and stays readable
when its name is removed or given to another file: that is how Linux treats open files. A disk that
fails under a map kills the process, where a read would raise. State may be lost that way, since it
is rebuilt from its inputs; so what must not be lost is never mapped.
"""

from __future__ import annotations

import threading
import zlib
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waterclock.persist.arrangement.cover import EVERY_HASH, HASHES, Cover, HashRange
from waterclock.persist.arrangement.files import unavailable
from waterclock.persist.arrangement.layout import Layout
from waterclock.persist.errors import Damaged, FormatTooNew
from waterclock.persist.hashing import Hashes
from waterclock.persist.rows import TIME

Places = npt.NDArray[np.int64]

FORMAT = 2
SUMMARY = b"waterclock.run"
_READ_BYTES = 2**22
_MAGIC_BYTES = 8
"""Length of the marker at the start of an Arrow file."""
_CHECK = 8
"""The digits of a summary's checksum, which come first."""


class Summary(msgspec.Struct, frozen=True):
    """What the last batch of a run says about those before it."""

    name: str
    starts: tuple[int, ...]
    """How many rows come before each batch, and then how many there are in all."""
    firsts: tuple[int, ...]
    lasts: tuple[int, ...]
    size: int
    crc32: int
    format: int = FORMAT

    def ends(self, number: int) -> tuple[int, int, int]:
        """How many rows the batch has, and its first and last hash."""
        rows = self.starts[number + 1] - self.starts[number]
        return rows, self.firsts[number], self.lasts[number]

    def encoded(self) -> bytes:
        text = msgspec.json.encode(self)
        return b"%08x" % zlib.crc32(text) + text

    @staticmethod
    def decoded(data: bytes) -> Summary:
        """Raises `ValueError` where the data is no summary."""
        if msgspec.json.decode(data[_CHECK:], type=_Format).format > FORMAT:
            raise FormatTooNew("state of an operator was written by a newer version")
        if int(data[:_CHECK], 16) != zlib.crc32(data[_CHECK:]):
            raise ValueError("its checksum is wrong")
        return msgspec.json.decode(data[_CHECK:], type=Summary)


class _Format(msgspec.Struct):
    """What every version of a summary has."""

    format: int


class Run:
    """An open run. Immutable, and safe for use by many threads."""

    def __init__(
        self,
        cover: Cover,
        layout: Layout,
        data: pa.Buffer,
        reader: pa.RecordBatchFileReader,
        summary: Summary,
        file: int,
    ) -> None:
        self.cover = cover
        self.file = file
        """Which file it is, under whatever names: no other has that number while this is open."""
        self.layout = layout
        self.rows = summary.starts[-1]
        self._data = data
        self._reader = reader
        self._summary = summary
        self._starts = np.array(summary.starts, dtype=np.int64)
        self._firsts = np.array(summary.firsts, dtype=np.uint64)
        self._lasts = np.array(summary.lasts, dtype=np.uint64)
        self._batches: list[tuple[pa.RecordBatch, Hashes] | None] = [None] * len(summary.firsts)
        self._lock = threading.Lock()

    @staticmethod
    def open(folder: Path, layout: Layout, cover: Cover) -> Run:
        """Map the run with that cover. `Damaged` if it is missing or not what its name says."""
        with unavailable("read", folder):
            try:
                with pa.memory_map(str(folder / cover.name)) as file:
                    data = file.read_buffer()  # which keeps the map
                number = (folder / cover.name).stat().st_ino
            except FileNotFoundError as error:
                raise _damaged(cover, "The file is missing.") from error
        try:
            reader = pa.ipc.open_file(data)
            closing = reader.get_batch_with_custom_metadata(reader.num_record_batches - 1)
            summary = Summary.decoded(closing.custom_metadata[SUMMARY])
        except (
            pa.ArrowException,
            msgspec.MsgspecError,
            OSError,
            ValueError,
            TypeError,
            KeyError,
        ) as error:
            raise _damaged(cover, "The file does not end as a run does.") from error
        if summary.name != cover.name or len(summary.starts) != reader.num_record_batches:
            raise _damaged(cover, "The file belongs to another run.")
        if summary.size > data.size:
            raise _damaged(cover, "The file is shorter than it was.")
        if not reader.schema.equals(layout.schema):
            raise _damaged(cover, "Its columns are not those of the operator.")
        return Run(cover, layout, data, reader, summary, number)

    @property
    def size(self) -> int:
        """The bytes of the file, without its end."""
        return self._summary.size

    def lookup(self, hashes: Hashes) -> Iterator[pa.RecordBatch]:
        """All rows that have one of the hashes, which are sorted and distinct; in order of hash."""
        lows = np.searchsorted(hashes, self._firsts, side="left")
        highs = np.searchsorted(hashes, self._lasts, side="right")
        for number in np.flatnonzero(lows < highs).tolist():
            batch, present = self._batch(number)
            found = matches(present, hashes[lows[number] : highs[number]])
            if len(found):
                yield batch.take(pa.array(found))

    def having(self, hash_: int) -> Iterator[pa.RecordBatch]:
        """All rows that have the hash, without a copy: `lookup` for a single one."""
        firsts, lasts = self._summary.firsts, self._summary.lasts
        number = bisect_left(lasts, hash_)
        wanted = np.uint64(hash_)
        while number < len(firsts) and firsts[number] <= hash_:
            batch, present = self._batch(number)
            start = int(present.searchsorted(wanted, side="left"))
            stop = int(present.searchsorted(wanted, side="right"))
            if start < stop:
                yield batch.slice(start, stop - start)
            number += 1

    def scan(self, hashes: HashRange = EVERY_HASH) -> Iterator[pa.RecordBatch]:
        """All rows whose hash is in the range, in order of hash, without a copy."""
        return self.between(self.position(hashes.low), self.position(hashes.high))

    def position(self, hash_: int) -> int:
        """How many rows have a smaller hash."""
        if hash_ >= HASHES:
            return self.rows
        number = int(np.searchsorted(self._lasts, np.uint64(hash_), side="left"))
        if number == len(self._lasts) or hash_ <= self._summary.firsts[number]:
            return self._summary.starts[number]
        inside = np.searchsorted(self._batch(number)[1], np.uint64(hash_), side="left")
        return self._summary.starts[number] + int(inside)

    def hash_at(self, position: int) -> int:
        """The hash of the row that has so many before it; past the last row, past all hashes."""
        if position >= self.rows:
            return HASHES
        number = int(np.searchsorted(self._starts, position, side="right")) - 1
        return int(self._batch(number)[1][position - self._summary.starts[number]])

    def between(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """The rows from one position to another, without a copy."""
        number = max(0, int(np.searchsorted(self._starts, start, side="right")) - 1)
        while start < stop:
            batch, _ = self._batch(number)
            base = self._summary.starts[number]
            end = min(stop, base + batch.num_rows)
            yield batch.slice(start - base, end - start)
            start, number = end, number + 1

    def verify(self) -> None:
        """Read the whole run; `Damaged` if its bytes are not those that were written."""
        if checksum(self._data, self._summary.size) != self._summary.crc32:
            raise _damaged(self.cover, "Its checksum is wrong.")
        for number in range(len(self._batches)):
            self._batch(number)

    def _batch(self, number: int) -> tuple[pa.RecordBatch, Hashes]:
        opened = self._batches[number]
        if opened is None:
            with self._lock:
                try:
                    batch = self._reader.get_batch(number)
                except (OSError, pa.ArrowInvalid) as error:  # Arrow's footer leads astray
                    raise _damaged(self.cover, f"Batch {number} can not be read: {error}") from None
                hashes = batch.column(0).to_numpy()
                if _ends(hashes) != self._summary.ends(number):
                    raise _damaged(self.cover, f"Batch {number} is not where it was.")
                opened = batch, hashes
                self._batches[number] = opened
        return opened


def matches(present: Hashes, wanted: Hashes) -> Places:
    """The places in `present`, which is sorted, of all hashes in `wanted`, sorted and distinct.

    The fewer are searched among the more. Since both are sorted, each search starts in memory that
    the one before has just touched, and no merge of the two has been found to be faster.
    """
    if len(wanted) > len(present):
        nearest = np.searchsorted(wanted, present, side="left")
        nearest[nearest == len(wanted)] = 0
        found: Places = np.flatnonzero(wanted[nearest] == present)
        return found
    starts = np.searchsorted(present, wanted, side="left")
    starts = starts[: np.searchsorted(starts, len(present))]
    wanted = wanted[: len(starts)]
    hit = present[starts] == wanted
    starts, wanted = starts[hit], wanted[hit]
    # Most hashes are there once. Only for the others is there a second search, for their end.
    several = np.flatnonzero(present[np.minimum(starts + 1, len(present) - 1)] == wanted)
    if len(several) == 0:
        alone: Places = starts
        return alone
    counts = np.ones(len(starts), dtype=np.int64)
    counts[several] = np.searchsorted(present, wanted[several], side="right") - starts[several]
    ends = np.cumsum(counts)
    places: Places = np.arange(ends[-1]) + np.repeat(starts - (ends - counts), counts)
    return places


def checksum(data: pa.Buffer, size: int) -> int:
    """The checksum of so many bytes from the begin."""
    crc32 = 0
    for at in range(0, size, _READ_BYTES):
        crc32 = zlib.crc32(data.slice(at, min(_READ_BYTES, size - at)), crc32)
    return crc32


def verify_file(folder: Path, cover: Cover) -> None:
    """`Damaged` if the run is not as it was written, whatever operator it belongs to."""
    try:
        with pa.memory_map(str(folder / cover.name)) as file:
            schema = pa.ipc.open_stream(file.read_buffer().slice(_MAGIC_BYTES)).schema
        names = schema.names
        at = names.index(TIME)
        layout = Layout.of_schema(schema, names[1:at], tuple(names[at + 1 :]))
    except FileNotFoundError as error:
        raise _damaged(cover, "The file is missing.") from error
    except (pa.ArrowException, OSError, ValueError, AssertionError, KeyError) as error:
        raise _damaged(cover, "Its checksum is wrong: it does not begin as a run does.") from error
    Run.open(folder, layout, cover).verify()


def _ends(hashes: Hashes) -> tuple[int, int, int]:
    if not len(hashes):
        return 0, 0, 0
    return len(hashes), int(hashes[0]), int(hashes[-1])


def _damaged(cover: Cover, reason: str) -> Damaged:
    return Damaged(f'state of an operator is damaged: run "{cover.name}"', detail=reason)
