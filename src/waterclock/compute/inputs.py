"""An input of a view: what storage has told of it, and what of that the view has not used yet.

Times are used up in order. What was received beyond the end of a step waits here for a later one,
because another input may not be so far; and what a step uses stays until the step has succeeded.

Contents to begin with that are large are not received: they stay where storage has them, and the
tasks of the first step read them there.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.persist.portions import Listing
from waterclock.persist.rows import TIME
from waterclock.storage.api import Progress, ReadCapability, Updates
from waterclock.storage.contents import Contents, is_complete, try_contents
from waterclock.storage.controller import Storage
from waterclock.storage.subscription import Subscription

LARGE_ROWS = 200_000
"""From so many updates on, the contents of an input are read by the tasks of its first step."""
FINISHED = 2**62
"""The upper of an input that will never change again."""


class Input:
    """One collection, received from a time on.

    With `contents`, what it holds then comes first, as if it had happened at that time.
    """

    def __init__(
        self, storage: Storage, capability: ReadCapability, start: int, *, contents: bool
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
        self._contents: Contents | None = None
        self._subscription = self._subscribed(contents)

    def _subscribed(self, contents: bool) -> Subscription:
        as_of = self._frontier(self._start)
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
        while self._upper < FINISHED and not self.is_stopped:
            match self._subscription.receive(0):
                case Updates(batch):
                    self._waiting.append(pa.Table.from_batches([batch]))
                    self.rows += batch.num_rows
                case Progress(upper):
                    bound = upper.only()
                    self._upper = FINISHED if bound is None else bound
                    break  # what came since then comes next time
                case None:
                    break
        return self._upper

    def _begin(self) -> bool:
        """Find out what there is to begin with; False if that is not complete yet."""
        if not is_complete(self._storage, self.collection, self._start):
            return False
        found = try_contents(self._storage, self.capability, self._start, LARGE_ROWS)
        if found is not None:
            self._subscription.close()
            self._subscription = self._subscribed(contents=False)
            self._contents = found
            self._waiting.append(found.here)
            self.rows += found.rows
            self._upper = self._start + 1
        self._is_new = False
        return True

    @property
    def contents(self) -> Listing | None:
        """Where to read what there was to begin with, if that was not received."""
        return None if self._contents is None else self._contents.listing

    def before(self, upper: int) -> pa.Table | None:
        """The updates before `upper` that wait; None if there are none."""
        if not self._waiting:
            return None
        table = pa.concat_tables(self._waiting)
        early = table.filter(pc.less(table[TIME], upper))
        return early if early.num_rows else None

    def forget(self, upper: int) -> None:
        """The updates before `upper` have been used."""
        self._drop_contents()
        if self._waiting:
            table = pa.concat_tables(self._waiting)
            later = table.filter(pc.greater_equal(table[TIME], upper))
            self._waiting = [later] if later.num_rows else []

    def latest(self) -> int:
        """The time of the last update that waits; 0 if none does."""
        known: list[int] = [pc.max(t[TIME]).as_py() for t in self._waiting if t.num_rows]
        return max([*known, 0 if self._contents is None else self._start])

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
