"""The durable side of one source: its bindings and its data, and what a crash leaves of them.

The order is always the same: a binding becomes durable, then exactly what it binds is read, then
that is appended at the time of the binding. So at most one binding is ahead of the data. Whoever
finds it after a crash reads the same range again and appends it at the same time; if the append had
happened, the data would not end before the binding.

Everything is told by the uppers. That of the remap is beyond the last binding, those of the outputs
beyond the last binding whose data is there; the outputs always move together. Before the first
binding nothing can be read of any of them.

Outputs on a timeline of their own, with their errors, are apart: each binding moves them as far as
their envelopes say, maybe not at all. Then it is the notes that tell whether a binding's data is
there, for they move with every one.

Where upstream gives each message once, nothing could be read again. There a binding and its data
are one commit (`bind_received`), so neither is ever ahead of the other.

It knows nothing of connectors, and decides nothing: see `ingestion`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import pyarrow as pa

from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.notes import Notes
from waterclock.persist.store import Store
from waterclock.storage import riders
from waterclock.storage.api import Progress, ReadCapability, Updates, Write, WriteCapability
from waterclock.storage.commands import shard_of
from waterclock.storage.controller import Storage
from waterclock.storage.errors import CapabilityMisstated
from waterclock.storage.reclock.progress import FINISHED, Range, SourceFrontier
from waterclock.storage.reclock.remap import Binding, Remap, bound
from waterclock.storage.reclock.shape import ProgressShape
from waterclock.storage.sources.api import (
    Changes,
    ErrorUpdate,
    Skipping,
    SourceDescription,
    SourceHold,
    Standing,
    StatePlace,
)
from waterclock.storage.sources.errors import SourceFault
from waterclock.storage.sources.skipped import SkippedMessages
from waterclock.storage.sources.stamping import (
    SOURCE_WIDE,
    SourceNotes,
    own_times,
    stamped,
    stamped_errors,
)

T = TypeVar("T")
_OVER_LIMIT = "the source itself"
"""The key of the error that outputs have while too many messages are skipped."""
STATES = "source_state/"
"""The prefix of what the log says of the state that envelopes keep on disk, by collection."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A binding that is durable while its data is not."""

    time: int
    known: SourceFrontier
    bound: SourceFrontier

    @property
    def is_first(self) -> bool:
        """Whether it binds first contents."""
        return not self.known.uppers

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
        state_folder: Path | None = None,
    ) -> None:
        """Finds out where the source stands. The hold is at or before where its data ends.

        Envelopes may keep state in the folder.
        """
        self._storage = storage
        self._store = store
        self._description = description
        self._shape = shape
        self._hold = hold
        self._state_folder = state_folder
        self._state_notes = Notes(store, STATES)
        self._state_records = self._state_notes.all() if state_folder is not None else {}
        self._new_state_records: dict[str, bytes | None] = {}
        self.is_finished = False
        self.bound: SourceFrontier | None = None
        """How far the source is bound; None before the first binding."""
        self.bound_at = 0
        """The time of the last binding, or one after it to which its time was compacted."""
        self.pending: Pending | None = None
        if store.read(lambda state: shard_of(state, description.remap).upper) is None:
            self.is_finished = True
            return
        self._remap = _writer(store, description.remap)
        filled = [c for c in description.collections if c != description.remap]
        writers = {collection: _writer(store, collection) for collection in filled}
        self._own = {c: w for c, w in writers.items() if w.frontier.timeline != EPOCH_MILLIS}
        """What is on a timeline of its own."""
        self._data = {c: w for c, w in writers.items() if c not in self._own}
        self._columns = {
            name: riders.columns_of(store, c).names for name, c in description.outputs.items()
        }
        uppers = {writer.frontier for writer in self._data.values()}
        assert len(uppers) == 1, "the outputs of a source are complete together"
        self._notes = SourceNotes()
        self._skipping = description.skipping
        self._skipped: SkippedMessages | None = None
        self.skipped = 0
        """How many messages are skipped, and stand in the relation for these."""
        self._more_skipped = 0
        """How many more there are when the next append is durable."""
        if self._skipping is not None:
            output = next(iter(description.outputs), "")
            self._skipped = SkippedMessages(shape, self._skipping, output)
        self._recover()
        if self._skipped is not None:
            self.skipped = self._skipped.count(self._skipped_contents)

    @property
    def complete_to(self) -> int | None:
        """The first time at which the data may still change; None if there is none."""
        return None if self.is_finished else self._ends_at

    @property
    def _ends_at(self) -> int:
        return min(_time(writer.frontier) for writer in self._data.values())

    @property
    def _since(self) -> int:
        return _time(self._hold.capability(self._description.remap).frontier)

    def _recover(self) -> None:
        ends_at = self._ends_at
        if self._since >= ends_at:  # nothing can be read yet
            self._recover_contents()
            return
        updates = self._shape.updates(self._read(self._capability_of_remap, ends_at - 1))
        remap = Remap.of_updates(updates, more_may_appear=self._shape.more_may_appear)
        upper = _time(self._remap.frontier)
        none = SourceFrontier({}, True) if self._shape.more_may_appear else None  # has no rows
        known, latest = remap.at(ends_at - 1) or none, remap.at(upper - 1) or none
        assert known is not None, "what is complete was bound"
        assert latest is not None, "what was bound stays"
        self.bound = latest
        self.bound_at = remap.bindings[-1].time if remap.bindings else 0
        if upper > ends_at:
            self.pending = Pending(upper - 1, known, latest)
        if self._description.notes is not None:
            self._notes = SourceNotes(self._contents(self._description.notes))
        self._hold.move(ends_at - 1)

    def _recover_contents(self) -> None:
        """The first binding, if its contents were to be the first that can be read."""
        upper = _time(self._remap.frontier)
        if upper > self._ends_at:
            updates = self._shape.updates(self._read(self._capability_of_remap, upper - 1))
            remap = Remap.of_updates(updates, more_may_appear=self._shape.more_may_appear)
            self.bound = remap.at(upper - 1)
            assert self.bound is not None, "what was bound stays"
            self.bound_at = upper - 1
            self.pending = Pending(upper - 1, self._nothing, self.bound)

    @property
    def _nothing(self) -> SourceFrontier:
        return SourceFrontier({}, self._shape.more_may_appear)

    def _capability_of_remap(self) -> ReadCapability:
        return self._hold.capability(self._description.remap)

    def standing(self, output: str) -> Standing:
        """What is durable of an output where its data ends."""
        return Standing(
            lambda: self._contents(self._description.outputs[output]),
            lambda: self._errors_of(output),
            lambda: self._notes.of(output),
            self._state_of(self._description.outputs[output]),
        )

    def _state_of(self, collection: GlobalId) -> StatePlace | None:
        if self._state_folder is None:
            return None
        key = str(collection)
        return StatePlace(self._state_folder / key, self._state_records.get(key))

    def record_states(self, records: Mapping[str, bytes | None]) -> None:
        """Say of the outputs' state on disk, in the next commit, what has changed of it."""
        if self._state_folder is not None:
            by_key = {str(self._description.outputs[name]): r for name, r in records.items()}
            self._new_state_records = {
                k: r for k, r in by_key.items() if r != self._state_records.get(k)
            }

    @property
    def own_notes(self) -> Mapping[str, bytes]:
        """What was noted for the source as a whole."""
        return self._notes.of(SOURCE_WIDE)

    def _contents(self, collection: GlobalId) -> Iterator[pa.RecordBatch]:
        if self.bound is None or self.is_finished or self._since >= self._ends_at:
            return iter(())
        if collection in self._own:  # what its envelope has to know is in its notes
            return iter(())
        return self._read(lambda: self._hold.capability(collection), self._ends_at - 1)

    def _skipped_contents(self) -> Iterator[pa.RecordBatch]:
        assert self._skipping is not None
        return self._contents(self._skipping.relation)

    def _errors_of(self, output: str) -> list[tuple[str, str]]:
        """What is wrong with an output's messages, skipped ones included."""
        errors = self._description.errors.get(output)
        found = [] if errors is None else self._errors(errors)
        found = [(key, text) for key, text in found if key != _OVER_LIMIT]
        if self._skipped is not None:
            found += self._skipped.errors(self._skipped_contents, output)
        return found

    def _errors(self, collection: GlobalId) -> list[tuple[str, str]]:
        held: Counter[tuple[str, str]] = Counter()
        for batch in self._contents(collection):
            keys, texts, _, diffs = (column.to_pylist() for column in batch.columns)
            for key, text, diff in zip(keys, texts, diffs, strict=True):
                held[key, text] += diff
        return list(held.elements())

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
        self.bound, self.bound_at = start, time

    def begin_with_contents(self, frontier: SourceFrontier) -> None:
        """Bind the first frontier durably, at the first time there is, with all that is before it.

        So whoever reads the source waits for its first contents, and never finds it empty.
        """
        assert self.bound is None
        time = max(self._since, _time(self._remap.frontier))
        rows = self._shape.rows(bound(None, frontier, time))
        write = Write(self._remap, rows, EPOCH_MILLIS.frontier(time + 1))
        (self._remap,) = self._storage.append(write)
        self.pending = Pending(time, self._nothing, frontier)
        self.bound, self.bound_at = frontier, time

    def bind(self, frontier: SourceFrontier, now: int) -> Pending:
        """Bind a later frontier durably. Raises `UpstreamRegressed`; then nothing has happened."""
        return self._restated(lambda: self._bind(frontier, now))

    def _bind(self, frontier: SourceFrontier, now: int) -> Pending:
        known = self._settled()
        time = max(now, _time(self._remap.frontier))
        updates = bound(known, frontier, time)
        write = Write(self._remap, self._shape.rows(updates), EPOCH_MILLIS.frontier(time + 1))
        (self._remap,) = self._storage.append(write)
        self.pending = Pending(time, known, frontier)
        self.bound, self.bound_at = frontier, time
        return self.pending

    def confirm(self, frontier: SourceFrontier) -> None:
        """What is bound was found upstream again. Nothing of that is durable."""
        assert self._settled().is_at(frontier)
        self.bound = frontier

    def apply(
        self, changes: Mapping[str, Changes], own_notes: Mapping[str, bytes | None] | None = None
    ) -> int:
        """Append what the pending binding binds, stamped with its time; the number of updates.

        Columns are told by their places: the collection may have other names for them. Raises
        `SourceFault` if something is wrong with an output that has no collection of errors.
        """
        pending = self.pending
        assert pending is not None
        tables, uppers = self._tables(changes, own_notes, pending.time)
        self._append(pending.time, None, tables, uppers)
        self.pending = None
        return _count(tables)

    def bind_received(
        self,
        frontier: SourceFrontier,
        changes: Mapping[str, Changes],
        own_notes: Mapping[str, bytes | None],
        now: int,
    ) -> tuple[int, int]:
        """Bind a later frontier and append what it binds, as one commit: its time, and the number
        of updates. Raises as `bind` and `apply` do; then nothing has happened.
        """
        notes = self._notes

        def bind() -> tuple[int, int]:
            self._notes = notes.copy()  # what is noted is new once, however often this is tried
            return self._bind_received(frontier, changes, own_notes, now)

        return self._restated(bind)

    def _bind_received(
        self,
        frontier: SourceFrontier,
        changes: Mapping[str, Changes],
        own_notes: Mapping[str, bytes | None],
        now: int,
    ) -> tuple[int, int]:
        known = self._settled()
        time = max(now, _time(self._remap.frontier))
        bindings = self._shape.rows(bound(known, frontier, time))
        tables, uppers = self._tables(changes, own_notes, time)
        self._append(time, bindings, tables, uppers)
        self.bound, self.bound_at = frontier, time
        return time, _count(tables)

    def _tables(
        self,
        changes: Mapping[str, Changes],
        own_notes: Mapping[str, bytes | None] | None,
        time: int,
    ) -> tuple[dict[GlobalId, pa.Table | None], dict[GlobalId, int]]:
        """What is appended to each collection at the time, and the uppers of those with times of
        their own.
        """
        tables: dict[GlobalId, pa.Table | None] = {}
        uppers: dict[GlobalId, int] = {}
        changes = self._without_skipped(changes, tables, time)
        for name, change in changes.items():
            output = self._description.outputs[name]
            if output in self._own:
                upper = _time(self._own[output].frontier)
                rows, errors, uppers[output] = own_times(change, upper)
                tables[self._description.errors[name]] = errors
                uppers[self._description.errors[name]] = uppers[output]
            else:
                rows = stamped(change.rows, time)
                self._add_errors(tables, name, change.errors, time)
            named = None if rows is None else rows.rename_columns(self._columns[name])
            tables[output] = named
        noted = {name: change.notes for name, change in changes.items() if change.notes}
        if own_notes:
            noted[SOURCE_WIDE] = own_notes
        if noted:
            assert self._description.notes is not None, "an envelope that notes has where to"
            tables[self._description.notes] = self._notes.change(noted, time)
        return tables, uppers

    def _without_skipped(
        self, changes: Mapping[str, Changes], tables: dict[GlobalId, pa.Table | None], time: int
    ) -> Mapping[str, Changes]:
        """The changes without errors that are skipped."""
        if self._skipping is None or self._skipped is None:
            return changes
        skippable = {n: [e for e in c.errors if e.is_skippable] for n, c in changes.items()}
        table, more = self._skipped.change(skippable, time, self._skipped_contents)
        tables[self._skipping.relation] = table
        about = _over_limit(self._skipping, self.skipped, self.skipped + more)
        self._more_skipped = more
        return {
            name: replace(each, errors=[*(e for e in each.errors if not e.is_skippable), *about])
            for name, each in changes.items()
        }

    def _add_errors(
        self,
        tables: dict[GlobalId, pa.Table | None],
        output: str,
        errors: Sequence[ErrorUpdate],
        time: int,
    ) -> None:
        collection = self._description.errors.get(output)
        if collection is not None:
            tables[collection] = stamped_errors(errors, time)
        elif errors:
            _, _, text = errors[0].message.partition(" ")
            raise SourceFault(text, detail=f"It is at {errors[0].key}.")

    def advance(self, now: int) -> None:
        """Nothing has happened up to now."""
        self._restated(lambda: self._advance(now))

    def _advance(self, now: int) -> None:
        self._settled()
        if now >= _time(self._remap.frontier):
            self._append(now, None, {})

    def finish(self, now: int) -> int:
        """Nothing will ever happen any more: bind the empty frontier and end all collections."""
        return self._restated(lambda: self._finish(now))

    def _finish(self, now: int) -> int:
        known = self._settled()
        time = max(now, _time(self._remap.frontier))
        rows = self._shape.rows(bound(known, FINISHED, time))
        writes = [Write(self._remap, rows if rows.num_rows else None, EPOCH_MILLIS.empty())]
        writes += [
            Write(writer, None, writer.frontier.timeline.empty())
            for writer in (*self._data.values(), *self._own.values())
        ]
        self._storage.append(*writes)
        self.bound, self.bound_at = FINISHED, time
        self.is_finished = True
        self._hold.close()  # a finished source has no binding to find again
        return time

    def _restated(self, move: Callable[[], T]) -> T:
        """Move on from where the source is: a write to a table that depends on what the source held
        may have made it complete up to its own time (`unchanged`).
        """
        while True:
            try:
                return move()
            except CapabilityMisstated:
                assert self.pending is None, "nobody moves a source on while data is missing"
                self._remap = _writer(self._store, self._remap.id)
                self._data = {each: _writer(self._store, each) for each in self._data}

    def _settled(self) -> SourceFrontier:
        """What is bound, all data of which is there."""
        assert self.bound is not None, "the source has begun"
        assert self.pending is None, "a binding is applied before the next one"
        return self.bound

    def _append(
        self,
        time: int,
        bindings: pa.RecordBatch | None,
        changes: Mapping[GlobalId, pa.Table | None],
        own_uppers: Mapping[GlobalId, int] = MappingProxyType({}),
    ) -> None:
        """Move everything beyond the time, at once; what has times of its own, to its upper."""
        frontier = EPOCH_MILLIS.frontier(time + 1)
        writes = [Write(writer, changes.get(each), frontier) for each, writer in self._data.items()]
        if self._remap.frontier < frontier:
            rows = bindings if bindings is not None and bindings.num_rows else None
            writes.append(Write(self._remap, rows, frontier))
        for each, upper in own_uppers.items():
            if upper > _time(self._own[each].frontier):
                further = self._own[each].frontier.timeline.frontier(upper)
                writes.append(Write(self._own[each], changes.get(each), further))
        self._keep(self._appended(writes))
        self.skipped += self._more_skipped
        self._more_skipped = 0
        self._hold.move(time)

    def _appended(self, writes: Sequence[Write]) -> tuple[WriteCapability, ...]:
        """Append, and say in the same commit what is new of the state on disk."""
        if not self._new_state_records:
            return self._storage.append(*writes)
        known = {k: r for k, r in self._new_state_records.items() if r is not None}
        gone = self._new_state_records.keys() - known.keys()
        events = self._state_notes.events(known, sorted(gone))
        moved = riders.append(self._storage, writes, lambda _: (events, None))
        kept = {k: r for k, r in self._state_records.items() if k not in gone}
        self._state_records = kept | known
        self._new_state_records = {}
        return moved

    def _keep(self, writers: Sequence[WriteCapability]) -> None:
        by_id = {writer.id: writer for writer in writers}
        self._remap = by_id.get(self._remap.id, self._remap)
        self._data = {each: by_id[each] for each in self._data}
        self._own = {each: by_id.get(each, writer) for each, writer in self._own.items()}


def _over_limit(skipping: Skipping, before: int, after: int) -> list[ErrorUpdate]:
    """What becomes wrong with the outputs, or right again, with the number of skipped messages."""
    limit = skipping.limit
    if limit is None or (before > limit) == (after > limit):
        return []
    told = (
        f"54000 more than {limit} messages of the source can not be read, which is its MAX ERRORS"
    )
    return [ErrorUpdate(_OVER_LIMIT, told, 1 if after > limit else -1)]


def _writer(store: Store, collection: GlobalId) -> WriteCapability:
    writer = riders.own_writer(store, collection)
    assert writer is not None, "a source that is not finished can be written"
    return writer


def _count(tables: Mapping[GlobalId, pa.Table | None]) -> int:
    return sum(table.num_rows for table in tables.values() if table is not None)


def _time(frontier: Frontier[int]) -> int:
    time = frontier.only()
    assert time is not None, "a source that is not finished has times to come"
    return time
