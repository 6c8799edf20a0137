"""Reading a shard: its contents at a time, and its changes between two frontiers.

Both work on an immutable record of the shard whose blobs the caller has pinned, take memory in the
measure of a batch and not of the collection, and hand out Arrow batches of the selected columns
with time and diff.

A snapshot has no update that cancels another. If no batch has a negative diff there is nothing to
cancel, and the rows stream straight through; a row present twice may then come as two updates.
Otherwise it is consolidated, in pieces if it is large.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from waterclock.persist.parts import (
    EVERYTHING,
    Selection,
    Window,
    at_time,
    measured,
    read_batches,
)
from waterclock.persist.records import Batch, Bound
from waterclock.persist.spill import consolidated
from waterclock.persist.store import Store


def snapshot(
    store: Store,
    columns: pa.Schema,
    batches: tuple[Batch, ...],
    as_of: int,
    selection: Selection = EVERYTHING,
) -> Iterator[pa.RecordBatch]:
    """The selected contents at `as_of`, every update at that time. It must be readable then."""
    window = Window(0, as_of + 1)
    found = read_batches(store, batches, columns, selection, window)
    moved = (at_time(batch, as_of) for batch in found)
    touched = window.touched(batches)
    if not any(batch.signed for batch in touched):
        yield from moved
        return
    extent, folder = measured(touched), store.scratch
    for table in consolidated(moved, selection.schema(columns), *extent, folder=folder):
        yield from table.to_batches()


def changes(
    store: Store,
    columns: pa.Schema,
    batches: tuple[Batch, ...],
    start: int,
    end: Bound,
    selection: Selection = EVERYTHING,
) -> Iterator[pa.RecordBatch]:
    """The selected updates from `start` up to and without `end`, at their times, consolidated."""
    window = Window(start, end)
    touched = window.touched(batches)
    if not touched:
        return
    found = read_batches(store, touched, columns, selection, window)
    extent, folder = measured(touched), store.scratch
    for table in consolidated(found, selection.schema(columns), *extent, folder=folder):
        yield from table.to_batches()
