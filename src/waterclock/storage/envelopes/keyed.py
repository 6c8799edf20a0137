"""Rows by key, on disk: what an envelope needs to know of the contents of its output.

The rows lie in an arrangement (`persist.arrangement`), whose files are mapped and searched for all
keys of a binding at once. Keys are compared exactly; the hash only says where to look. What a
binding changes is one more run, of the row that each of its keys has from now on, if any: so the
newest update of a key is all there is to know of it. Runs are merged a piece at a time, some
pieces after each step.

The state is a cache. The log has a record of it, written in the commit that changed the contents:
which folder, made in which way, and how far its runs reach. State that is not exactly that, or is
damaged, is thrown away and made again from the contents. A run is written before that commit; if
the commit does not happen, the run is removed, or written again by the next attempt. It is synced
beside the commit: what a failure of the power takes away is made again.

One thread at a time.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waterclock.persist.arrangement import files
from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.arrangement.cover import Cover, Extent
from waterclock.persist.arrangement.layout import HASH, Layout
from waterclock.persist.arrangement.run import FORMAT
from waterclock.persist.arrangement.writing import PIECE_ROWS, write_run
from waterclock.persist.consolidate import same_rows
from waterclock.persist.errors import Damaged, FormatTooNew
from waterclock.persist.hashing import Hashes, hash_rows
from waterclock.persist.rows import DIFF, TIME
from waterclock.storage.sources.api import StatePlace
from waterclock.storage.sources.errors import TransientFault

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]
_VERSION = 1
"""To be raised with every change of what the runs hold."""
_REBUILD_BYTES = 64 << 20
_MERGE_FACTOR = 8
"""So many rows are merged for each row that is written. A row is rewritten about that often."""
_log = logging.getLogger(__name__)


class Record(msgspec.Struct, frozen=True):
    """What the log says of the state: that the runs in the folder reach from 0 up to `tip`."""

    folder: str
    fingerprint: str
    tip: int


def decode_record(note: bytes) -> Record:
    """Raises `msgspec.MsgspecError`."""
    return msgspec.json.decode(note, type=Record)


@dataclass(frozen=True, slots=True)
class HashedRows:
    """Rows, and the hashes of their keys."""

    rows: pa.Table
    hashes: Hashes

    def where(self, mask: Mask) -> HashedRows:
        """Those of the mask."""
        if mask.all():
            return self
        return HashedRows(self.rows.filter(pa.array(mask)), self.hashes[mask])


class KeyedRows:
    """Rows of which no two have the same key: that is, the first columns."""

    def __init__(self, schema: pa.Schema, key_columns: int) -> None:
        self._schema = schema
        self._key_columns = key_columns
        names = [f"k{n}" if n < key_columns else f"v{n}" for n in range(len(schema))]
        fields = tuple(pa.field(n, f.type) for n, f in zip(names, schema, strict=True))
        self._layout = Layout(fields[:key_columns], fields[key_columns:], latest=True)
        self._arrangement: Arrangement | None = None
        self._written: Cover | None = None
        """The run of a step that may not be durable yet."""
        self._written_rows = 0
        self._settling = files.Settling()
        self._merge: Iterator[None] | None = None
        self._known: bytes | None = None
        """What the log said when it was last known to agree with the arrangement."""
        self._is_distrusted = False
        self._folder: Path | None = None
        self._temporary: Path | None = None

    # Opening

    def open(
        self, place: StatePlace | None, contents: Callable[[], Iterator[pa.RecordBatch]]
    ) -> None:
        """Hold what is durable: `contents`, as updates. Without a place it is held for now only.

        State of this object that the log agrees with is kept as it is.
        """
        if place is None:
            self.close()
            place = StatePlace(self._temporary_folder())
        if self._try_keep(place.record):
            return
        self.close()
        self._folder = place.folder
        self._known = place.record
        self._arrangement = self._try_reopen(place) or self._rebuilt(place.folder, contents())

    def _temporary_folder(self) -> Path:
        if self._temporary is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="waterclock-rows-"))
            weakref.finalize(self, shutil.rmtree, self._temporary, ignore_errors=True)
        return self._temporary

    def _try_keep(self, record: bytes | None) -> bool:
        if self._arrangement is None:
            return False
        if record == self.record:
            self._count_written()
            return True
        if record != self._known:
            return False
        if self._written is not None:
            self._settling = files.Settling()
            files.remove(self._arrangement.folder, [self._written])
            self._written = None
        return True

    def _try_reopen(self, place: StatePlace) -> Arrangement | None:
        """The arrangement as the log knows it; None if there is no such thing."""
        if place.record is None or self._is_distrusted:
            return None
        try:
            known = decode_record(place.record)
            if known.fingerprint != self._fingerprint:
                _log.info("state of a source was made in another way, and is made again")
                return None
            _remove_others(place.folder, known.folder)
            extent = Extent(0, known.tip)
            return Arrangement.open(place.folder / known.folder, self._layout, known.tip, extent)
        except (Damaged, FormatTooNew, msgspec.MsgspecError) as error:
            _log.warning("state of a source can not be used, and is made again: %s", error)
            return None

    def _rebuilt(self, folder: Path, contents: Iterable[pa.RecordBatch]) -> Arrangement:
        """The arrangement of all rows, in a new folder."""
        name = uuid.uuid4().hex
        _remove_others(folder, name)
        arrangement = Arrangement.new(folder / name, self._layout, 0)
        for rows in _large_tables(contents, self._schema):
            cover = Cover(arrangement.upper, arrangement.upper + 1)
            updates = self._updates(rows.columns, self.hashes(rows), cover, 1)
            write_run(arrangement.folder, self._layout, cover, updates, is_consolidated=True)
            arrangement.advance(cover.upper, [cover])
        while arrangement.is_mergeable:
            for _ in arrangement.merge(0):
                pass
        self._is_distrusted = False
        return arrangement

    @property
    def _fingerprint(self) -> str:
        kinds = ", ".join(str(field.type) for field in self._schema)
        text = f"rows {_VERSION}, runs {FORMAT}, {self._key_columns} of {kinds}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def record(self) -> bytes:
        """What the log is to say, in the commit that changes the contents as was written here."""
        arrangement = self._opened
        tip = arrangement.upper if self._written is None else self._written.upper
        return msgspec.json.encode(Record(arrangement.folder.name, self._fingerprint, tip))

    # A step

    def hashes(self, keys: pa.Table) -> Hashes:
        """The hashes of rows of which there may be no more than the keys."""
        columns = [one_array(column) for column in keys.columns[: self._key_columns]]
        return hash_rows(columns, keys.num_rows)

    def find(self, keys: HashedRows) -> pa.Table:
        """The rows with these keys, of which no two are the same. The hashes are in order."""
        found, _, places = self._newest_of(keys)
        rows = found.select(self._layout.row_names).take(pa.array(places))
        return pa.Table.from_arrays(rows.columns, schema=self._schema)

    def has(self, keys: HashedRows) -> Mask:
        """Which of the keys have a row. The hashes are in order."""
        _, asked, _ = self._newest_of(keys)
        has = np.zeros(len(keys.hashes), np.bool_)
        has[asked] = True
        return has

    def _newest_of(self, keys: HashedRows) -> tuple[pa.Table, Places, Places]:
        """Updates, and for each of the keys that has a row now, its number and its row's place."""
        self._count_written()
        with self._distrusting_damage(), self._opened.trace() as trace:
            found = trace.lookup(keys.hashes).combine_chunks()
        hashes = found[HASH].to_numpy()
        if not len(hashes):
            nothing = np.zeros(0, np.int64)
            return found, nothing, nothing
        asked, places = self._matched(keys, found, hashes)
        newest = _newest(asked, found[TIME].to_numpy()[places], found[DIFF].to_numpy()[places])
        return found, asked[newest], places[newest]

    def _matched(self, keys: HashedRows, found: pa.Table, hashes: Hashes) -> tuple[Places, Places]:
        """Which of the keys each row found has, and its place, for those that have one of them."""
        first = np.searchsorted(keys.hashes, hashes, "left")
        counts = np.searchsorted(keys.hashes, hashes, "right") - first
        places = np.repeat(np.arange(len(hashes)), counts)
        before = np.cumsum(counts) - counts
        asked = np.arange(len(places)) - np.repeat(before, counts) + np.repeat(first, counts)
        all_keys = [one_array(c) for c in keys.rows.columns[: self._key_columns]]
        here = [one_array(found[field.name]) for field in self._layout.key]
        same = same_rows(
            [key.take(pa.array(asked)) for key in all_keys],
            [key.take(pa.array(places)) for key in here],
        )
        return asked[same], places[same]

    def write(self, rows: HashedRows, is_there: Mask) -> None:
        """From now on the keys of these rows have them, if it is committed; or, where the mask is
        not set, none.
        """
        assert self._written is None, "a step is settled before the next one"
        self._written_rows = rows.rows.num_rows
        if not self._written_rows:
            return
        arrangement = self._opened
        cover = Cover(arrangement.upper, arrangement.upper + 1)
        diffs = np.where(is_there, 1, -1)
        updates = self._updates(rows.rows.columns, rows.hashes, cover, diffs)
        write_run(
            arrangement.folder,
            self._layout,
            cover,
            updates,
            is_consolidated=True,
            settling=self._settling,
        )
        self._written = cover

    def _updates(
        self, columns: Iterable[pa.ChunkedArray], hashes: Hashes, cover: Cover, diffs: Places | int
    ) -> pa.Table:
        times, diffs = np.full(len(hashes), cover.lower), np.broadcast_to(diffs, len(hashes))
        arrays = [pa.array(hashes), *columns, pa.array(times), pa.array(diffs)]
        return pa.Table.from_arrays(arrays, schema=self._layout.schema)

    def settle(self) -> None:
        """What was written is durable. Merges some pieces, in proportion to what was written."""
        with self._distrusting_damage():
            self._settling.finish()
        self._count_written()
        pieces = 1 + _MERGE_FACTOR * self._written_rows // PIECE_ROWS
        self._written_rows = 0
        with self._distrusting_damage():
            while pieces > 0 and (self._merge is not None or self._opened.is_mergeable):
                if self._merge is None:
                    self._merge = self._opened.merge(0)
                if next(self._merge, self) is self:
                    self._merge = None
                pieces -= 1

    def _count_written(self) -> None:
        """Whoever goes on tells by it that the last step has become durable."""
        written, self._written = self._written, None
        if written is not None:
            with self._distrusting_damage():
                self._opened.advance(written.upper, [written])
        self._known = self.record

    @contextmanager
    def _distrusting_damage(self) -> Iterator[None]:
        """Damage is healed when the state is opened again, which a fault of the world leads to."""
        try:
            yield
        except Damaged as error:
            self.close()
            self._is_distrusted = True
            raise TransientFault(
                "state of the source is damaged, and is made again",
                detail=f"{error.message}. {error.detail or ''}".rstrip(),
            ) from error

    @property
    def _opened(self) -> Arrangement:
        assert self._arrangement is not None, "the state is opened before it is used"
        return self._arrangement

    @property
    def runs(self) -> int:
        """How many files there are."""
        return len(self._opened.glance()[1])

    def remove(self) -> None:
        """Let go of the files, and remove them."""
        self.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def close(self) -> None:
        """Let go of the files; they stay as they are."""
        self._settling = files.Settling()
        if self._merge is not None:
            self._merge.close()  # type: ignore[attr-defined]
        self._merge = self._arrangement = self._written = None


def _newest(asked: Places, times: Places, diffs: Places) -> Places:
    """The places of the newest updates of each key that has a row after them."""
    if not len(asked):
        return asked
    order = np.lexsort((times, asked))
    sorted_keys = asked[order]
    last = order[np.append(sorted_keys[1:] != sorted_keys[:-1], True)]
    newest: Places = last[diffs[last] > 0]
    return newest


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """The column in one piece."""
    chunks = column.chunks
    if len(chunks) == 1:
        return chunks[0]
    return pa.concat_arrays(chunks) if chunks else pa.array([], column.type)


def _large_tables(contents: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of contents, which have each key once, in tables of about the same size."""
    held: list[pa.RecordBatch] = []
    for batch in contents:
        diffs = np.asarray(batch.column(batch.num_columns - 1))
        assert (diffs == 1).all(), "a key has one row"
        held.append(pa.RecordBatch.from_arrays(batch.columns[: len(schema)], schema=schema))
        if sum(each.nbytes for each in held) >= _REBUILD_BYTES:
            yield pa.Table.from_batches(held).combine_chunks()
            held = []
    if any(each.num_rows for each in held):
        yield pa.Table.from_batches(held).combine_chunks()


def _remove_others(folder: Path, name: str) -> None:
    """Remove state that was given up."""
    with suppress(FileNotFoundError):
        for each in list(folder.iterdir()):
            if each.name != name:
                shutil.rmtree(each, ignore_errors=True)
