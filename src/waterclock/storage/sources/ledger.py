"""The durable side of one source: its bindings and its data, and what a crash leaves of them.

The order is always the same: a binding becomes durable, then exactly what it binds is read, then
that is appended at the time of the binding. So at most one binding is ahead of the data. Whoever
finds it after a crash reads the same range again and appends it at the same time; if the append had
happened, the data would not end before the binding.

Everything is told by the uppers. That of the remap is beyond the last binding, those of the outputs
beyond the last binding whose data is there; the outputs always move together. Before the first
binding nothing can be read of any of them.

It knows nothing of connectors, and decides nothing: see `ingestion`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.store import Store
from waterclock.storage import riders
from waterclock.storage.api import Progress, ReadCapability, Updates, Write, WriteCapability
from waterclock.storage.controller import Storage
from waterclock.storage.errors import CapabilityMisstated
from waterclock.storage.reclock.progress import FINISHED, Range, SourceFrontier
from waterclock.storage.reclock.remap import Binding, Remap, bound
from waterclock.storage.reclock.shape import ProgressShape
from waterclock.storage.sources.api import SourceDescription, SourceHold


@dataclass(frozen=True, slots=True)
class Pending:
    """A binding that is durable while its data is not."""

    time: int
    known: SourceFrontier
    bound: SourceFrontier

    @property
    def ranges(self) -> tuple[Range, ...]:
        """What is to be read."""
        return self.bound.ranges_since(self.known)

    @property
    def remap(self) -> Remap:
        """The binding alone, for stamping."""
        return Remap((Binding(self.time, self.bound),))


class Ledger:
    """One source's collections in storage. One thread at a time."""

    def __init__(
        self,
        storage: Storage,
        store: Store,
        description: SourceDescription,
        shape: ProgressShape,
        hold: SourceHold,
    ) -> None:
        """Finds out where the source stands. The hold is at or before where its data ends."""
        self._storage = storage
        self._description = description
        self._shape = shape
        self._hold = hold
        self.is_finished = False
        self.bound: SourceFrontier | None = None
        """How far the source is bound; None before the first binding."""
        self.pending: Pending | None = None
        found = riders.frontiers(store, description.collections)
        if found[description.remap][1].is_empty:
            self.is_finished = True
            return
        self._remap = _writer(store, description.remap)
        self._outputs = {name: _writer(store, c) for name, c in description.outputs.items()}
        self._columns = {
            name: riders.columns_of(store, c).names for name, c in description.outputs.items()
        }
        uppers = {writer.frontier for writer in self._outputs.values()}
        assert len(uppers) == 1, "the outputs of a source are complete together"
        self._recover()

    @property
    def complete_to(self) -> int | None:
        """The first time at which the data may still change; None if there is none."""
        return None if self.is_finished else self._ends_at

    @property
    def _ends_at(self) -> int:
        return min(_time(writer.frontier) for writer in self._outputs.values())

    @property
    def _since(self) -> int:
        return _time(self._hold.capability(self._description.remap).frontier)

    def _recover(self) -> None:
        ends_at = self._ends_at
        if self._since >= ends_at:
            return  # nothing can be read yet: there was no binding
        updates = self._shape.updates(self._read(self._capability_of_remap, ends_at - 1))
        remap = Remap.of_updates(updates, more_may_appear=self._shape.more_may_appear)
        upper = _time(self._remap.frontier)
        known, latest = remap.at(ends_at - 1), remap.at(upper - 1)
        assert known is not None, "what is complete was bound"
        assert latest is not None, "what was bound stays"
        self.bound = latest
        if upper > ends_at:
            self.pending = Pending(upper - 1, known, latest)
        self._hold.move(ends_at - 1)

    def _capability_of_remap(self) -> ReadCapability:
        return self._hold.capability(self._description.remap)

    def contents(self, output: str) -> Iterator[pa.RecordBatch]:
        """The rows of an output where its data ends, as updates."""
        collection = self._description.outputs[output]
        if self.bound is None or self.is_finished:
            return iter(())
        return self._read(lambda: self._hold.capability(collection), self._ends_at - 1)

    def _read(
        self, capability: Callable[[], ReadCapability], as_of: int
    ) -> Iterator[pa.RecordBatch]:
        """A collection as of a time that is complete, and all that is complete after it."""
        while True:
            try:
                subscription = self._storage.subscribe_at(
                    capability(), as_of=EPOCH_MILLIS.frontier(as_of)
                )
                break
            except CapabilityMisstated:  # it was moved after we looked, but not beyond our hold
                continue
        try:
            for message in subscription:
                match message:
                    case Updates(batch):
                        yield batch
                    case Progress():
                        return
        finally:
            subscription.close()

    # Moving on

    def begin(self, start: SourceFrontier) -> None:
        """Bind the first frontier, before which nothing is wanted, at the first time there is.

        So whenever the source can be read at all, it is known how far it was bound.
        """
        assert self.bound is None
        time = max(self._since, _time(self._remap.frontier))
        self._append(time, self._shape.rows(bound(None, start, time)), {})
        self.bound = start

    def bind(self, frontier: SourceFrontier, now: int) -> Pending:
        """Bind a later frontier durably. Raises `UpstreamRegressed`; then nothing has happened."""
        known = self._settled()
        time = max(now, _time(self._remap.frontier))
        updates = bound(known, frontier, time)
        write = Write(self._remap, self._shape.rows(updates), EPOCH_MILLIS.frontier(time + 1))
        (self._remap,) = self._storage.append(write)
        self.pending = Pending(time, known, frontier)
        self.bound = frontier
        return self.pending

    def apply(self, changes: Mapping[str, pa.Table | None]) -> int:
        """Append what the pending binding binds, stamped with its time, which is returned.

        Columns are told by their places: the collection may have other names for them.
        """
        pending = self.pending
        assert pending is not None
        named = {
            name: None if table is None else table.rename_columns(self._columns[name])
            for name, table in changes.items()
        }
        self._append(pending.time, None, named)
        self.pending = None
        return pending.time

    def advance(self, now: int) -> None:
        """Nothing has happened up to now."""
        self._settled()
        if now >= _time(self._remap.frontier):
            self._append(now, None, {})

    def finish(self, now: int) -> int:
        """Nothing will ever happen any more: bind the empty frontier and end all collections."""
        known = self._settled()
        time = max(now, _time(self._remap.frontier))
        rows = self._shape.rows(bound(known, FINISHED, time))
        end: Frontier[int] = EPOCH_MILLIS.empty()
        writes = [Write(self._remap, rows if rows.num_rows else None, end)]
        writes += [Write(writer, None, end) for writer in self._outputs.values()]
        self._storage.append(*writes)
        self.bound = FINISHED
        self.is_finished = True
        self._hold.close()  # a finished source has no binding to find again
        return time

    def _settled(self) -> SourceFrontier:
        """What is bound, all data of which is there."""
        assert self.bound is not None, "the source has begun"
        assert self.pending is None, "a binding is applied before the next one"
        return self.bound

    def _append(
        self, time: int, bindings: pa.RecordBatch | None, changes: Mapping[str, pa.Table | None]
    ) -> None:
        """Move everything beyond the time, at once."""
        frontier = EPOCH_MILLIS.frontier(time + 1)
        writes = [
            Write(writer, changes.get(name), frontier) for name, writer in self._outputs.items()
        ]
        if self._remap.frontier < frontier:
            rows = bindings if bindings is not None and bindings.num_rows else None
            writes.append(Write(self._remap, rows, frontier))
        self._keep(self._storage.append(*writes))
        self._hold.move(time)

    def _keep(self, writers: Sequence[WriteCapability]) -> None:
        by_id = {writer.id: writer for writer in writers}
        self._remap = by_id.get(self._remap.id, self._remap)
        self._outputs = {name: by_id[writer.id] for name, writer in self._outputs.items()}


def _writer(store: Store, collection: GlobalId) -> WriteCapability:
    writer = riders.own_writer(store, collection)
    assert writer is not None, "a source that is not finished can be written"
    return writer


def _time(frontier: Frontier[int]) -> int:
    time = frontier.only()
    assert time is not None, "a source that is not finished has times to come"
    return time
