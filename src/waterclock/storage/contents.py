"""Large contents and many changes, left where they are for other processes to read.

Handing updates out as messages brings all of them through this process. Whoever has many processes
to compute with takes a listing instead (`persist.portions`), and lets each read its portion. The
objects stay for as long as the listing is kept open. What is listed of changes is bounded
(`persist.cutting`): the rest is for the next listing.

All that is told about a collection is told to the holder of a capability: `CapabilityUnknown` is
raised without one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from waterclock.model.ids import GlobalId
from waterclock.persist.blob.api import Blob
from waterclock.persist.cutting import Chunk, Limit, Times, cut
from waterclock.persist.parts import COMPRESSION, Selection, Window, read_batches
from waterclock.persist.portions import Listing, can_travel, listing, unlisted
from waterclock.persist.records import Batch, keys_of
from waterclock.persist.rows import TIME
from waterclock.persist.state import State
from waterclock.storage.api import ReadCapability
from waterclock.storage.commands import shard_held
from waterclock.storage.controller import Storage

_NO_TIMES: Times = np.zeros(0, dtype=np.int64)


@dataclass(slots=True)
class Contents:
    """What a collection holds at a time, or its changes: objects to be read elsewhere, and a few
    updates here.
    """

    listing: Listing
    here: pa.Table
    _pins: ExitStack

    @property
    def rows(self) -> int:
        """How many updates it is made of."""
        return self.listing.rows + int(self.here.num_rows)

    def close(self) -> None:
        """The objects need not be kept any longer. Idempotent."""
        self._pins.close()


def blob_for_others(storage: Storage) -> Blob | None:
    """The handle by which other processes read the objects; None if they can not."""
    blob = storage._store.blob
    return blob if can_travel(blob) else None


def is_complete(storage: Storage, capability: ReadCapability, time: int) -> bool:
    """Whether nothing more can happen to the collection at the time."""

    def look(state: State) -> bool:
        upper = shard_held(state, storage._leases, capability).upper
        return upper is None or upper > time

    return storage._store.read(look)


def had_none(storage: Storage, capabilities: Sequence[ReadCapability], time: int) -> bool:
    """Whether the collections are plainly empty at the time: complete, and never filled."""

    def look(state: State) -> bool:
        shards = [shard_held(state, storage._leases, each) for each in capabilities]
        complete = all(shard.upper is None or shard.upper > time for shard in shards)
        return complete and not any(shard.batches for shard in shards)

    return storage._store.read(look)


class Made(NamedTuple):
    """A batch of a collection. Without `signed`, everything in it is there, and nothing cancels."""

    id: int
    min_time: int
    rows: int
    signed: bool


def batches_of(
    storage: Storage, capabilities: Sequence[ReadCapability]
) -> dict[GlobalId, tuple[Made, ...]]:
    """What each collection is made of. As long as that stays the same, so does what is in it."""

    def look(state: State) -> dict[GlobalId, tuple[Made, ...]]:
        shards = {each.id: shard_held(state, storage._leases, each) for each in capabilities}
        return {
            collection: tuple(
                Made(batch.id, batch.min_time, batch.rows, batch.signed)
                for batch in shard.batches.values()
            )
            for collection, shard in shards.items()
        }

    return storage._store.read(look)


def try_contents(
    storage: Storage, capability: ReadCapability, time: int, at_least: int
) -> Contents | None:
    """The contents at a complete time that the capability holds, to be closed.

    None if they are fewer than `at_least` updates, or are where no other process can read them.
    """
    store = storage._store
    if blob_for_others(storage) is None:
        return None

    def look(state: State) -> tuple[tuple[pa.Schema, tuple[Batch, ...]], list[str]]:
        shard = shard_held(state, storage._leases, capability)
        held = shard.since is not None and shard.since <= time
        assert held, f"{capability.id} can not be read at {time}"
        batches = tuple(shard.batches.values())
        return (shard.columns, batches), keys_of(batches)

    with ExitStack() as stack:
        columns, batches = stack.enter_context(store.pinned(look))
        found = listing(batches, time)
        if found.rows < at_least:
            return None
        return Contents(found, unlisted(batches, columns, time), stack.pop_all())


def amount_waiting(storage: Storage, capability: ReadCapability, start: int) -> tuple[int, int]:
    """About how many updates there are from `start` on, and how many bytes they take in memory.

    Of a batch that began before `start` a part is counted, as if its updates lay evenly.
    """

    def look(state: State) -> tuple[int, int]:
        rows = size = 0.0
        shard = shard_held(state, storage._leases, capability)
        if shard.upper is not None and start >= shard.upper:  # as is usual
            return 0, 0
        for batch in shard.batches.values():
            if batch.max_time >= start:
                span = batch.max_time - batch.min_time + 1
                share = min(1.0, (batch.max_time - start + 1) / span)
                rows += share * batch.rows
                size += share * COMPRESSION * batch.size
        return math.ceil(rows), math.ceil(size)

    return storage._store.read(look)


def try_changes(
    storage: Storage, capability: ReadCapability, start: int, limit: Limit
) -> Contents | None:
    """Complete changes from `start` on that are within the limit, or those of a single time.

    To be closed. None if nothing is complete, if there are no changes, or if they are where no
    other process can read them. `start` must be after the capability's frontier or the same.
    """
    store = storage._store
    if blob_for_others(storage) is None:
        return None

    def look(state: State) -> tuple[tuple[pa.Schema, tuple[Batch, ...], int], list[str]]:
        shard = shard_held(state, storage._leases, capability)
        held = shard.since is not None and shard.since <= start
        assert held, f"the changes of {capability.id} from {start} on can not be read"
        batches = tuple(batch for batch in shard.batches.values() if batch.max_time >= start)
        ends = [batch.max_time + 1 for batch in batches]
        upper = max(ends, default=start) if shard.upper is None else shard.upper
        return (shard.columns, batches, upper), keys_of(batches)

    with ExitStack() as stack:
        columns, batches, upper = stack.enter_context(store.pinned(look))
        if upper <= start or not batches:
            return None

        def times_before(end: int) -> Times:
            window = Window(start, end)
            found = read_batches(store, batches, columns, Selection(()), window)
            return np.concatenate([b.column(TIME).to_numpy() for b in found] or [_NO_TIMES])

        end = cut([Chunk.of(batch) for batch in batches], start, upper, limit, times_before)
        found = listing(batches, end - 1, start)
        return Contents(found, unlisted(batches, columns, end - 1, start), stack.pop_all())
