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
import pyarrow.compute as pc

from waterclock.persist.parts import Selection, at_time, measured, read_part
from waterclock.persist.records import Batch, Bound
from waterclock.persist.rows import TIME
from waterclock.persist.spill import consolidated
from waterclock.persist.store import Store


def snapshot(
    store: Store, columns: pa.Schema, batches: tuple[Batch, ...], as_of: int, selection: Selection
) -> Iterator[pa.RecordBatch]:
    """The selected contents at `as_of`, every update at that time. `as_of` must be readable in the
    shard.
    """
    relevant = [batch for batch in batches if batch.min_time <= as_of]
    updates = _updates_through(store, columns, relevant, as_of, selection)
    if not any(batch.signed for batch in relevant):
        yield from updates
        return
    for table in consolidated(updates, selection.schema(columns), *measured(relevant)):
        yield from table.to_batches()


def _updates_through(
    store: Store, columns: pa.Schema, batches: list[Batch], as_of: int, selection: Selection
) -> Iterator[pa.RecordBatch]:
    """The updates at or before `as_of`, moved to it."""
    for batch in batches:
        early = None if batch.max_time <= as_of else pc.field(TIME) <= as_of
        for part in batch.parts:
            for found in read_part(store, part, columns, selection, early):
                if found.num_rows:
                    yield at_time(found, as_of)


def changes(
    store: Store,
    columns: pa.Schema,
    batches: tuple[Batch, ...],
    start: int,
    end: Bound,
    selection: Selection,
) -> Iterator[pa.RecordBatch]:
    """The selected updates at `start` or later and not at or beyond `end`, each at its own time,
    consolidated.
    """
    relevant = [
        batch
        for batch in batches
        if batch.max_time >= start and (end is None or batch.min_time < end)
    ]
    if not relevant:
        return
    window = pc.field(TIME) >= start
    if end is not None:
        window &= pc.field(TIME) < end
    found = (
        update
        for batch in relevant
        for part in batch.parts
        for update in read_part(store, part, columns, selection, window)
    )
    for table in consolidated(found, selection.schema(columns), *measured(relevant)):
        yield from table.to_batches()
