"""An input of a view: what storage has told of it, and what of that the view has not used yet.

Times are used up in order. What was received beyond the end of a step waits here for a later one,
because another input may not be so far; and what a step uses stays until the step has succeeded.

What is large is not received: it stays where storage has it, and the tasks of a step read it there.
That is so for contents to begin with, and for changes when many wait. Of these no more is taken at
once than a limit, or what happened at one time, if that is more; the next step takes the next.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.persist.cutting import Chunk, Limit, Times
from waterclock.persist.parts import COMPRESSION
from waterclock.persist.portions import Listing, portion
from waterclock.persist.rows import TIME
from waterclock.storage.api import Progress, ReadCapability, Updates
from waterclock.storage.contents import (
    Contents,
    amount_waiting,
    blob_for_others,
    is_complete,
    try_changes,
    try_contents,
)
from waterclock.storage.controller import Storage
from waterclock.storage.subscription import Subscription

LARGE_ROWS = 200_000
"""An input with at least this many updates is read by the step's tasks."""
LARGE_BYTES = 64 << 20
"""And from so many bytes on, about, as they are in memory."""
STEP_LIMIT = Limit(1_000_000, 512 << 20)
"""About the most that a step takes of all inputs together."""
FINISHED = 2**62
"""The upper of an input that will never change again."""


class Input:
    """One collection, received from a time on.

    With `contents`, what it holds then comes first, as if it had happened at that time.
    """

    def __init__(
        self,
        storage: Storage,
        capability: ReadCapability,
        start: int,
        *,
        contents: bool,
        limit: Limit = STEP_LIMIT,
    ) -> None:
        self.capability = capability
        self._storage = storage
        self._upper = start
        self._waiting: list[pa.Table] = []
        self.is_stopped = False
        """Take nothing in for the moment, even if there is something."""
        self.rows = 0
        """How many updates have been received, or are to be read from where they are."""
        self._start = start if contents else start - 1
        self._is_new = contents
        self._limit = limit
        self._contents: Contents | None = None
        self._is_receiving = False
        """Whether some updates have come of which it was not said yet up to when they are all."""
        self._blob = blob_for_others(storage)
        self._subscription = self._subscribed_after(self._start, contents=contents)

    def _subscribed_after(self, time: int, *, contents: bool = False) -> Subscription:
        as_of = self._frontier(time)
        return self._storage.subscribe_at(self.capability, as_of=as_of, snapshot=contents)

    def _frontier(self, time: int) -> Frontier[int]:
        return self.capability.frontier.timeline.frontier(time)

    @property
    def collection(self) -> GlobalId:
        return self.capability.id

    @property
    def upper(self) -> int:
        """Up to where it is complete, by what was received."""
        return self._upper

    @property
    def is_waiting(self) -> bool:
        """Whether something was received that was not used yet."""
        return bool(self._waiting) or self._contents is not None

    def receive(self) -> int:
        """Take in what storage has by now, and tell up to where it is complete."""
        if self._is_new and not self._begin():
            return self._upper
        if self._is_receiving or not self._is_large:
            if self._is_receiving or self._received < LARGE_ROWS:
                self._receive()
        elif self._contents is None:
            self._list_changes()
        return self._upper

    @property
    def _received(self) -> int:
        """How many updates wait here."""
        return sum(table.num_rows for table in self._waiting)

    def _receive(self) -> None:
        while self._upper < FINISHED and not self.is_stopped:
            match self._subscription.receive(0):
                case Updates(batch):
                    self._is_receiving = True
                    self._waiting.append(pa.Table.from_batches([batch]))
                    self.rows += batch.num_rows
                case Progress(upper):
                    self._is_receiving = False
                    bound = upper.only()
                    self._upper = FINISHED if bound is None else bound
                    break  # what came since then comes next time
                case None:
                    break

    @property
    def _is_large(self) -> bool:
        """Whether more waits in storage than this process should take in."""
        if self._upper >= FINISHED or self._blob is None:
            return False
        rows, size = amount_waiting(self._storage, self.capability, self._upper)
        return rows >= min(LARGE_ROWS, self._limit.rows) or size >= LARGE_BYTES

    def _list_changes(self) -> None:
        """Let the tasks of the next steps read the next changes, no more than a step may take."""
        if self.is_stopped:
            return
        found = try_changes(self._storage, self.capability, self._upper, self._limit)
        if found is None:
            self._receive()  # only what is not complete yet is large
        else:
            self._take(found)

    def _take(self, found: Contents) -> None:
        """Leave updates where they are, and receive what comes after them."""
        self._subscription.close()
        self._upper = found.listing.as_of + 1
        self._subscription = self._subscribed_after(found.listing.as_of)
        self._contents = found
        self._waiting.append(found.here)
        self.rows += found.rows

    def _begin(self) -> bool:
        """Find out what there is to begin with; False if that is not complete yet."""
        if not is_complete(self._storage, self.capability, self._start):
            return False
        found = try_contents(self._storage, self.capability, self._start, LARGE_ROWS)
        if found is not None:
            self._take(found)
        self._is_new = False
        return True

    def listed(self, upper: int) -> Listing | None:
        """Where to read those updates before `upper` that were not received, if there are any."""
        if self._contents is None:
            return None
        listing = self._contents.listing
        if listing.start is None:
            return listing
        found = listing.within(listing.start, upper)
        return found if found.pieces else None

    def before(self, upper: int) -> pa.Table | None:
        """The updates before `upper` that wait here; None if there are none."""
        if not self._waiting:
            return None
        table = pa.concat_tables(self._waiting)
        early = table.filter(pc.less(table[TIME], upper))
        return early if early.num_rows else None

    def forget(self, upper: int) -> None:
        """The updates before `upper` have been used."""
        self._forget_listed(upper)
        if self._waiting:
            table = pa.concat_tables(self._waiting)
            later = table.filter(pc.greater_equal(table[TIME], upper))
            self._waiting = [later] if later.num_rows else []

    def _forget_listed(self, upper: int) -> None:
        contents = self._contents
        if contents is None or upper > contents.listing.as_of:
            self._drop_contents()
        elif contents.listing.start is not None:
            contents.listing = contents.listing.within(upper, contents.listing.as_of + 1)

    def chunks(self) -> list[Chunk]:
        """What waits, as far as it is known without reading it."""
        found = [_chunk(table) for table in self._waiting if table.num_rows]
        listing = None if self._contents is None else self._contents.listing
        for piece in () if listing is None else listing.pieces:
            first, last = piece.min_time, piece.max_time
            if listing is not None and listing.start is None:
                first = last = listing.as_of
            found.append(Chunk(first, last, piece.rows, COMPRESSION * piece.size))
        return found

    def times_before(self, upper: int) -> Times:
        """The times of all updates before `upper` that wait. Reads them where they are."""
        found = [table[TIME].to_numpy() for table in self._waiting]
        listing = self.listed(upper)
        if listing is not None and self._blob is not None:
            if listing.start is None:
                found.append(np.full(listing.rows, listing.as_of))
            else:
                read = portion(self._blob, listing, 0, 1, columns=[TIME])
                found += [batch.column(TIME).to_numpy() for batch in read]
        times: Times = np.concatenate([*found, np.zeros(0, dtype=np.int64)])
        return times[times < upper]

    def latest(self) -> int:
        """The time of the last update that waits; 0 if none does."""
        known: list[int] = [pc.max(t[TIME]).as_py() for t in self._waiting if t.num_rows]
        return max([*known, 0 if self._contents is None else self._contents.listing.as_of])

    def is_held_before(self, time: int) -> bool:
        """Whether the input is kept readable from an earlier time on."""
        return self.capability.frontier < self._frontier(time)

    def close(self) -> None:
        """Receive no more."""
        self._subscription.close()
        self._drop_contents()

    def _drop_contents(self) -> None:
        if self._contents is not None:
            self._contents.close()
            self._contents = None


def _chunk(table: pa.Table) -> Chunk:
    times = pc.min_max(table[TIME]).as_py()
    return Chunk(times["min"], times["max"], table.num_rows, table.nbytes)
