"""What an output of a source holds, copied into new collections with more columns.

The copy is made while the source goes on. Then the source is paused between two steps, what has
changed meanwhile is copied too, and both are complete at the same time: from there on the source
can fill the new collections as well. Nothing is read from the system upstream.

The copy can be read from that time on, so what it holds need not have the times of the original: it
is written in pieces, each at a time of its own, long before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from waterclock.model.ids import GlobalId
from waterclock.model.schema import Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.rows import DIFF, TIME
from waterclock.persist.store import Store
from waterclock.storage import riders
from waterclock.storage.api import Progress, Updates, Write
from waterclock.storage.controller import Storage
from waterclock.storage.errors import CapabilityMisstated
from waterclock.storage.sources.api import SourceHold
from waterclock.storage.sources.errors import SourceFault
from waterclock.storage.sources.ingestion import Stopped
from waterclock.storage.sources.loop import Ingestions
from waterclock.storage.sources.unseen import Unseen
from waterclock.storage.subscription import Subscription

_PIECE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Pair:
    """A collection, what it is copied to, and what makes rows of the one from those of the other.

    `widen` gets the columns of rows and gives those of the copy's.
    """

    original: GlobalId
    copy: GlobalId
    schema: Schema
    widen: Callable[[list[pa.Array], int], list[pa.Array]]


class Transfer:
    """One copy of some collections. `stop` may be called by any thread, all else by one at a time.

    The hold is on the originals, and stays with the caller.
    """

    def __init__(
        self, storage: Storage, store: Store, hold: SourceHold, pairs: Sequence[Pair]
    ) -> None:
        schemas = {pair.copy: pair.schema for pair in pairs}
        self._storage = storage
        self._pairs = [_Copy(storage, store, hold, pair) for pair in pairs]
        self._stopping = store.runtime.event()
        self.unseen = Unseen(storage, store, schemas, EPOCH_MILLIS.start())

    def stop(self) -> None:
        """End what `join` does, soon."""
        self._stopping.set()

    def join(self, sources: Ingestions, source: GlobalId) -> int:
        """Copy everything; the time at which the copies and the source are complete.

        The source is paused then, and stays so for the caller to `resume`; if this raises, it is
        not. Raises `SourceFault` for a source that has not begun or has finished.
        """
        for each in self._pairs:
            each.open()
            each.follow(each.upper(), self._require_wanted)
        paused = sources.pause(source)
        try:
            standing = paused.standing()
            if standing is None or standing.complete_to is None:
                raise SourceFault(f"the source is {paused.status.health.value}, and not running")
            for each in self._pairs:
                each.follow(standing.complete_to, self._require_wanted)
                each.end(standing.complete_to)
            time = standing.complete_to - 1
            self.unseen.forget_before(time, list(self.unseen.readers))
        except BaseException:
            sources.resume(source)
            raise
        finally:
            for each in self._pairs:
                each.close()
        return time

    def _require_wanted(self) -> None:
        if self._stopping.is_set():
            raise Stopped


class _Copy:
    """The copy of one collection, as far as it has come."""

    def __init__(self, storage: Storage, store: Store, hold: SourceHold, pair: Pair) -> None:
        self._storage = storage
        self._store = store
        self._hold = hold
        self._pair = pair
        self._subscription: Subscription | None = None
        self._at = 0
        """The time at which the next piece is written."""
        self._reached = 0

    def upper(self) -> int:
        """The first time at which the original may still change."""
        capability = self._hold.capability(self._pair.original)
        since, upper = riders.frontiers(self._storage, [capability])[self._pair.original]
        first, end = since.only(), upper.only()
        if first is None or end is None or end <= first:
            raise SourceFault("the source has no contents that could be copied")
        return end

    def open(self) -> None:
        """Begin with the contents."""
        while self._subscription is None:
            capability = self._hold.capability(self._pair.original)
            try:
                self._subscription = self._storage.subscribe_at(
                    capability, as_of=EPOCH_MILLIS.frontier(self.upper() - 1)
                )
            except CapabilityMisstated:  # it was moved after we looked
                continue

    def follow(self, end: int, require_wanted: Callable[[], None]) -> None:
        """Copy everything before `end`, all of which is complete."""
        if self._reached >= end:
            return
        waiting: list[pa.RecordBatch] = []
        size = 0
        for batch in self._received(end):
            require_wanted()
            waiting.append(batch)
            size += batch.nbytes
            if size >= _PIECE_BYTES:
                self._write(waiting)
                waiting, size = [], 0
        if waiting:
            self._write(waiting)

    def _received(self, end: int) -> Iterator[pa.RecordBatch]:
        assert self._subscription is not None, "it was opened"
        for message in self._subscription:
            match message:
                case Updates(batch):
                    yield batch
                case Progress(upper):
                    time = upper.only()
                    if time is None or time >= end:
                        self._reached = end
                        return

    def _write(self, batches: Sequence[pa.RecordBatch]) -> None:
        made = pa.Table.from_batches([self._widened(batch) for batch in batches])
        self._append(made, self._at + 1)
        self._at += 1

    def _widened(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        *columns, _, diffs = batch.columns
        count = batch.num_rows
        times = pa.repeat(pa.scalar(self._at, pa.int64()), count)
        arrays = [*self._pair.widen(columns, count), times, diffs]
        return pa.RecordBatch.from_arrays(arrays, names=[*self._pair.schema.names, TIME, DIFF])

    def end(self, upper: int) -> None:
        """Be complete up to there."""
        self._append(None, upper)

    def _append(self, updates: pa.Table | None, upper: int) -> None:
        writer = riders.own_writer(self._store, self._pair.copy)
        assert writer is not None, "the copy can be written"
        self._storage.append(Write(writer, updates, EPOCH_MILLIS.frontier(upper)))

    def close(self) -> None:
        if self._subscription is not None:
            self._subscription.close()
