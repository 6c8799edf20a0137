"""Batches as bytes: writing updates inline or as Parquet, and reading back only what is asked for.

Small batches travel inside the log entry that commits them, so they cost no file (`inline`). Larger
ones are Parquet objects of a bounded number of rows, written before the commit under names that
nobody else uses: they count once the log refers to them.

A reader names columns and a condition; both are applied here, before rows leave storage, and the
statistics in the Parquet files keep row groups that can not match from being read.

Bytes that changed on disk are found and not answered. The checksums of Parquet's pages leave out
what is around them, the headers and the footer with its statistics; so the log has a checksum of
the whole object, and each process compares it when it first reads the object (`intact.py`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from waterclock.errors import WaterclockError
from waterclock.persist.errors import Damaged, Unavailable
from waterclock.persist.inline import read_inline, try_inline
from waterclock.persist.intact import require_intact
from waterclock.persist.records import Batch, Bound, Part
from waterclock.persist.rows import DIFF, TIME, times_and_diffs
from waterclock.persist.store import Store, new_key

PART_ROWS = 1_000_000
"""The most rows of one Parquet object."""
GROUP_ROWS = 128 * 1024
"""The rows of a Parquet row group, which is also what a reader holds at once of each."""
_READAHEAD = 4
COMPRESSION = 8
"""Assumed compression ratio of Parquet; higher ones are rare."""

PARQUET_WRITE: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 1,
    "row_group_size": GROUP_ROWS,
    "write_page_index": True,
    "write_page_checksum": True,
}
"""How PyArrow is asked to write our Parquet."""
_PARQUET = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)
_CHECKSUM_FAILED = "checksum verification failed"


class ConditionFailed(WaterclockError):
    """A reader's condition names no column, has the wrong types, or failed on some row."""

    sqlstate: ClassVar[str] = "22023"


@dataclass(frozen=True, slots=True)
class Selection:
    """What a reader wants: some columns (None: all) of the rows that satisfy a condition.

    Projection makes rows that differed equal; their updates then add up as those of one row.
    """

    columns: tuple[str, ...] | None = None
    condition: pc.Expression | None = None

    def schema(self, columns: pa.Schema) -> pa.Schema:
        """The Arrow schema of the selected updates, given that of all of them."""
        if self.columns is None:
            return columns
        return pa.schema([columns.field(name) for name in (*self.columns, TIME, DIFF)])


EVERYTHING = Selection()


def write_batch(
    store: Store, shard: str, updates: pa.Table | pa.RecordBatch, stack: ExitStack
) -> Batch | None:
    """Make the updates durable as a batch without an id yet; None if there are none.

    Parquet objects written here are protected from being swept as orphans until `stack` is closed,
    which must be after the batch is committed or given up.
    """
    if updates.num_rows == 0:
        return None
    inline = try_inline(updates)
    if inline is not None:
        return inline
    table = updates if isinstance(updates, pa.Table) else pa.Table.from_batches([updates])
    slices = range(0, table.num_rows, PART_ROWS)
    parts = [write_part(store, shard, table.slice(start, PART_ROWS), stack) for start in slices]
    return _described(table, tuple(parts))


def _described(updates: pa.Table, parts: tuple[Part, ...]) -> Batch:
    times, diffs = times_and_diffs(updates)
    span = pc.min_max(times)
    signed = pc.min(diffs).as_py() <= 0
    return Batch(0, span["min"].as_py(), span["max"].as_py(), signed, parts)


def write_part(store: Store, shard: str, updates: pa.Table, stack: ExitStack) -> Part:
    """Store the updates as one Parquet object."""
    sink = pa.BufferOutputStream()
    pq.write_table(updates, sink, write_statistics=_prunable(updates), **PARQUET_WRITE)
    data = sink.getvalue()
    key = new_key(f"shard/{shard}", store.epoch, ".parquet")
    stack.enter_context(store.writing(key))
    store.retry.call(lambda: store.blob.put(key, data))
    return Part(updates.num_rows, data.size, key=key, crc32=zlib.crc32(data))


def _prunable(updates: pa.Table) -> list[str]:
    """The columns whose statistics tell all about their values.

    Those of a column with NaNs are silent about the NaNs, and a row group would be skipped although
    a NaN in it satisfies the condition.
    """
    return [
        field.name
        for field in updates.schema
        if not pa.types.is_nested(field.type) and not _has_nan(updates[field.name])
    ]


def _has_nan(column: pa.ChunkedArray) -> bool:
    return pa.types.is_floating(column.type) and bool(pc.any(pc.is_nan(column)).as_py())


def filtered(table: pa.Table, condition: pc.Expression | None) -> pa.Table:
    """The rows that satisfy the condition; `ConditionFailed` if that can not be told."""
    if condition is None:
        return table
    try:
        return table.filter(condition)
    except pa.ArrowException as error:
        raise ConditionFailed(f"the condition can not be evaluated: {error}") from error


@dataclass(frozen=True, slots=True)
class Window:
    """The times from `start` on, up to and without `end`; None means without end."""

    start: int
    end: Bound

    def touches(self, batch: Batch) -> bool:
        """Whether an update of the batch may be inside."""
        return batch.max_time >= self.start and (self.end is None or batch.min_time < self.end)

    def covers(self, batch: Batch) -> bool:
        """Whether all updates of the batch are inside."""
        return batch.min_time >= self.start and (self.end is None or batch.max_time < self.end)

    def touched(self, batches: Iterable[Batch]) -> list[Batch]:
        """The batches of which some update may be inside."""
        if self == ALWAYS:
            return list(batches)
        return [batch for batch in batches if self.touches(batch)]

    def covers_all(self, batches: Iterable[Batch]) -> bool:
        """Whether all updates of all batches are inside."""
        return self == ALWAYS or all(map(self.covers, batches))

    def condition(self) -> pc.Expression:
        inside = pc.field(TIME) >= self.start
        return inside if self.end is None else inside & (pc.field(TIME) < self.end)


ALWAYS = Window(0, None)


def read_batches(
    store: Store,
    batches: Iterable[Batch],
    columns: pa.Schema,
    selection: Selection = EVERYTHING,
    window: Window = ALWAYS,
) -> Iterator[pa.RecordBatch]:
    """The selected updates inside the window, in batches of bounded size."""
    touched = window.touched(batches)
    wanted = selection.schema(columns).names
    inline: list[Part] = []
    stored: list[tuple[Batch, Part]] = []
    for batch in touched:
        for part in batch.parts:
            if part.key is None:
                inline.append(part)
            else:
                stored.append((batch, part))
    if inline:
        inside = None if window.covers_all(touched) else window.condition()
        found = filtered(read_inline(inline, columns), _both(selection.condition, inside))
        yield from (batch for batch in found.select(wanted).to_batches() if batch.num_rows)
    for batch, part in stored:
        inside = None if window.covers(batch) else window.condition()
        yield from _read_blob(store, part, columns, wanted, _both(selection.condition, inside))


def _read_blob(
    store: Store, part: Part, columns: pa.Schema, wanted: list[str], condition: pc.Expression | None
) -> Iterator[pa.RecordBatch]:
    key = part.key
    assert key is not None, "an inline part is in no object"
    with _told(store, key, condition), store.retry.call(lambda: store.blob.open(key)) as file:
        require_intact(store.blob, key, file, part.size, part.crc32)
        fragment = _PARQUET.make_fragment(file)
        found = fragment.to_batches(
            schema=columns,
            columns=wanted,
            filter=condition,
            batch_size=GROUP_ROWS,
            batch_readahead=_READAHEAD,
            fragment_readahead=1,
        )
        yield from (batch for batch in found if batch.num_rows)


@contextmanager
def _told(store: Store, key: str, condition: pc.Expression | None) -> Iterator[None]:
    """Tell what goes wrong inside a Parquet object in our terms."""
    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        if condition is not None and _is_sound(store, key):
            raise ConditionFailed(f"the condition can not be evaluated: {error}") from error
        if isinstance(error, pa.ArrowInvalid) or _CHECKSUM_FAILED in str(error):
            raise Damaged(
                f'object "{key}" can not be read: {error}', hint="Restore the data from a backup."
            ) from error
        raise Unavailable(f'could not read object "{key}": {error}') from error


def _is_sound(store: Store, key: str) -> bool:
    """Whether all of the object can be read, so that it was not to blame."""
    try:
        with store.blob.open(key) as file:
            for _ in _PARQUET.make_fragment(file).to_batches():
                pass
    except (pa.ArrowInvalid, OSError, WaterclockError):
        return False
    return True


def measured(batches: Iterable[Batch]) -> tuple[int, int]:
    """How many rows the batches have, and about how many bytes they take in memory."""
    parts = [part for batch in batches for part in batch.parts]
    stored = sum([part.size for part in parts])
    return sum([part.rows for part in parts]), COMPRESSION * stored


def _both(a: pc.Expression | None, b: pc.Expression | None) -> pc.Expression | None:
    if a is None or b is None:
        return b if a is None else a
    return a & b


def at_time(batch: pa.RecordBatch, time: int) -> pa.RecordBatch:
    """The same updates, all at one time."""
    index = batch.schema.get_field_index(TIME)
    times = pa.array(np.full(batch.num_rows, time, dtype=np.int64))
    return batch.set_column(index, batch.schema.field(index), times)
