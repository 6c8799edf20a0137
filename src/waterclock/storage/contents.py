"""The contents of a large collection, left where they are for other processes to read.

Handing a snapshot out as messages brings all of it through this process. Whoever has many processes
to compute with takes a listing instead (`persist.portions`), and lets each read its portion. The
objects stay for as long as the listing is kept open.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa

from waterclock.model.ids import GlobalId
from waterclock.persist.blob.api import Blob
from waterclock.persist.portions import Listing, can_travel, listing, unlisted
from waterclock.persist.records import Batch, keys_of
from waterclock.persist.state import State
from waterclock.storage.api import ReadCapability
from waterclock.storage.commands import shard_of
from waterclock.storage.controller import Storage


@dataclass(frozen=True, slots=True)
class Contents:
    """What a collection holds at a time: objects to be read elsewhere, and a few updates here."""

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


def is_complete(storage: Storage, collection: GlobalId, time: int) -> bool:
    """Whether nothing more can happen to the collection at the time."""

    def look(state: State) -> bool:
        upper = shard_of(state, collection).upper
        return upper is None or upper > time

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
        shard = shard_of(state, capability.id)
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
