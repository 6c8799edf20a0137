"""Sources that a test owns whole: what is upstream, the clock, storage, and its crashes.

`Upstream` is a system with partitions of messages, of which a test can see to it that it grows,
shrinks, does not answer, or breaks off in the middle of a read. `SourceWorld` runs sources step by
step, without a loop, over storage in memory that outlives servers.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from waterclock.adapter.holds import Holds
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Schema, Text
from waterclock.model.timeline import EPOCH_MILLIS, Timeline
from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.consensus.memory import MemoryConsensus
from waterclock.persist.retry import Retry
from waterclock.persist.store import Store
from waterclock.storage import riders
from waterclock.storage.api import (
    ERROR_ROWS,
    Description,
    Progress,
    ReadCapability,
    Updates,
    Writers,
)
from waterclock.storage.controller import Storage
from waterclock.storage.envelopes.plain import Plain
from waterclock.storage.reclock.progress import Partition, Range, SourceFrontier
from waterclock.storage.reclock.shape import KAFKA
from waterclock.storage.sources.api import (
    STATE_ROWS,
    Connector,
    Envelope,
    Kind,
    Kinds,
    Messages,
    Probe,
    SourceDescription,
    Surroundings,
    message_schema,
)
from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.ingestion import Ingestion, Outcome
from waterclock.storage.sources.ledger import Ledger
from waterclock.testing.frontiers import frontiers
from waterclock.testing.persist_world import open_store
from waterclock.testing.storage_world import plain_values

ROWS = Schema((Column("message", Text(), nullable=False),))
OUTPUT = "messages"
KIND = "upstream"


class Crash(BaseException):
    """The server dies here: nothing may catch it."""


@dataclass
class Upstream:
    """A system outside. Its messages are texts, by partition and offset."""

    partitions: dict[Partition, list[str]] = field(default_factory=dict)
    is_final: bool = False
    fault: Exception | None = None
    """Raised by every probe while it is there."""
    hindrance: TransientFault | None = None
    behind_ms: int = 0
    """These two are told by every probe."""
    breaks_after: int | None = None
    """A read ends in a crash after so many messages."""
    reads: list[tuple[Range, ...]] = field(default_factory=list)
    committed: list[SourceFrontier] = field(default_factory=list)
    more_may_appear: bool = True
    undecided: dict[Partition, int] = field(default_factory=dict)
    """How many of the last messages of a partition can not be bound yet."""
    is_linearizable: bool = True
    heads: int = 0
    """How often the head was asked for."""

    @property
    def frontier(self) -> SourceFrontier:
        """What can be bound."""
        uppers = {p: len(found) - self.undecided.get(p, 0) for p, found in self.partitions.items()}
        return SourceFrontier(uppers, self.more_may_appear)

    @property
    def head(self) -> SourceFrontier:
        """Everything that was acknowledged."""
        uppers = {partition: len(found) for partition, found in self.partitions.items()}
        return SourceFrontier(uppers, self.more_may_appear)

    def kind(self, log: str | None = None) -> Kind:
        """The kind of source that reads it; with `log`, one of several that follow its log, which
        is its only partition.
        """

        def opened(definition: bytes, surroundings: Surroundings) -> Connector:
            del definition, surroundings
            return _UpstreamConnector(self) if log is None else _LogReader(self)

        def envelope(definition: bytes, output: str) -> Envelope:
            del definition, output
            return Plain()

        reason = "Its carrier pigeons keep no books."
        return Kind(KAFKA, opened, envelope, order=lambda *_: log, not_linearizable=reason)


class _UpstreamConnector:
    """Implements `Connector`."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    @property
    def outputs(self) -> Mapping[str, Schema]:
        return {OUTPUT: ROWS}

    @property
    def is_linearizable(self) -> bool:
        return self._upstream.is_linearizable

    def head(self) -> SourceFrontier:
        self._upstream.heads += 1
        if self._upstream.fault is not None:
            raise self._upstream.fault
        return self._upstream.head

    def start(self) -> SourceFrontier:
        return SourceFrontier(dict.fromkeys(self._upstream.partitions, 0), True)

    def resume(self, frontier: SourceFrontier) -> None:
        pass

    def probe(self) -> Probe:
        if self._upstream.fault is not None:
            raise self._upstream.fault
        found = self._upstream.frontier
        told = self._upstream
        return Probe(
            found, found, told.is_final, behind_ms=told.behind_ms, hindrance=told.hindrance
        )

    def read(self, ranges: Sequence[Range]) -> Iterator[Messages]:
        self._upstream.reads.append(tuple(ranges))
        left = self._upstream.breaks_after
        for each in ranges:
            for offset in range(each.start, each.end):
                if left is not None:
                    if left == 0:
                        self._upstream.breaks_after = None
                        raise Crash
                    left -= 1
                text = self._upstream.partitions[each.partition][offset]
                columns = [pa.array([text]), pa.array([offset]), pa.array([1])]
                schema = message_schema(ROWS)
                yield Messages(OUTPUT, each.partition, pa.record_batch(columns, schema=schema))

    def commit(self, frontier: SourceFrontier) -> None:
        self._upstream.committed.append(frontier)

    def close(self) -> None:
        pass


class _LogReader(_UpstreamConnector):
    """Implements `FollowsLog`."""

    def probe_to(self, place: SourceFrontier) -> Probe:
        known = self.probe().known
        assert known.covers(place), "the place was probed before"
        return Probe(place, known)


def unreachable() -> TransientFault:
    """What a system that can not be reached lets one say."""
    return TransientFault("could not connect", hint="Start it.")


class SourceWorld:
    """Storage, a clock that a test moves, and sources that it steps."""

    def __init__(self) -> None:
        self.blob, self.consensus = MemoryBlob(), MemoryConsensus()
        self.state_folder = Path(tempfile.mkdtemp(prefix="waterclock-state-"))
        """What envelopes keep on disk; it outlives servers too."""
        weakref.finalize(self, shutil.rmtree, self.state_folder, ignore_errors=True)
        self.now = 1000
        self._next_id = 1
        self._readers: dict[GlobalId, ReadCapability] = {}
        self.crash_at: Callable[[Sequence[Any]], bool] | None = None
        """Whether the server dies instead of doing an append of these writes."""
        self.open()

    def open(self) -> None:
        """Start a server on what is durable; one that is there is as dead as after kill -9."""
        self.store: Store = open_store(self.blob, self.consensus, Retry(attempts=1))
        self.storage = Storage(self.store)
        self.holds = Holds(self.storage)
        for collection, reader in self._readers.items():
            kept = riders.held(self.store, reader.token)
            assert isinstance(kept, ReadCapability)
            self._readers[collection] = kept
            self.holds.adopt(kept)
        self._watch_appends()

    def _watch_appends(self) -> None:
        append = self.storage._append

        def watched(writes: Sequence[Any], along: Sequence[Any] = ()) -> Any:
            if self.crash_at is not None and self.crash_at(writes):
                self.crash_at = None
                raise Crash
            return append(writes, along)

        self.storage._append = watched  # type: ignore[method-assign]

    def clock(self) -> int:
        return self.now

    def create(
        self,
        kind: str,
        definition: bytes,
        shape: Schema,
        outputs: Mapping[str, Schema],
        *,
        with_errors: bool = False,
        timeline: Timeline[int] = EPOCH_MILLIS,
    ) -> SourceDescription:
        """The collections of a new source; with those of errors and notes, if wanted.

        The outputs and their errors are on the timeline.
        """
        ids = {name: self.collection(schema, timeline) for name, schema in outputs.items()}
        remap = self.collection(shape)
        source = GlobalId.user(self._take_id())
        if not with_errors:
            return SourceDescription(source, "s", kind, definition, remap, ids)
        errors = {name: self.collection(ERROR_ROWS, timeline) for name in outputs}
        notes = self.collection(STATE_ROWS)
        return SourceDescription(
            source, "s", kind, definition, remap, ids, errors=errors, notes=notes
        )

    def collection(self, schema: Schema, timeline: Timeline[int] = EPOCH_MILLIS) -> GlobalId:
        collection = GlobalId.user(self._take_id())
        description = Description(schema, Writers.STORAGE, timeline)
        start = timeline.frontier(self.now) if timeline == EPOCH_MILLIS else timeline.start()
        reader, _ = self.store.commit(riders.create(collection, description, start))
        self._readers[collection] = reader
        self.holds.adopt(reader)
        return collection

    def _take_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def ingestion(
        self,
        description: SourceDescription,
        kinds: Kinds,
        surroundings: Surroundings | None = None,
    ) -> Ingestion:
        """The source, as a server that has just started finds it."""
        kind = kinds[description.kind]
        hold = self.holds.take(description.collections)
        return Ingestion(
            description,
            kind,
            surroundings or Surroundings(self.clock),
            lambda: Ledger(
                self.storage, self.store, description, kind.progress, hold, self.state_folder
            ),
        )

    def step(self, ingestion: Ingestion, *, later_ms: int = 1000) -> Outcome:
        """A step, some time after the last."""
        self.now += later_ms
        outcome = ingestion.step()
        ingestion.tidy()
        return outcome

    def upper(self, collection: GlobalId) -> int | None:
        return frontiers(self.store, [collection])[collection][1].only()

    def updates(self, collection: GlobalId) -> Counter[tuple[tuple[Any, ...], int]]:
        """All updates of a collection, as a diff for each row and time."""
        capability = self.holds.capability(collection)
        since = capability.frontier.only()
        found: Counter[tuple[tuple[Any, ...], int]] = Counter()
        if since is None or self.upper(collection) == since:
            return found
        subscription = self.storage.subscribe_at(capability)
        for message in subscription:
            match message:
                case Updates(batch):
                    *columns, times, diffs = (plain_values(column) for column in batch.columns)
                    for row, time, diff in zip(
                        zip(*columns, strict=True), times, diffs, strict=True
                    ):
                        found[row, time] += diff
                case Progress():
                    break
        subscription.close()
        return Counter({key: diff for key, diff in found.items() if diff})

    def contents(self, collection: GlobalId, time: int) -> Counter[tuple[Any, ...]]:
        """The rows at a time that is complete."""
        found: Counter[tuple[Any, ...]] = Counter()
        for (row, at), diff in self.updates(collection).items():
            if at <= time:
                found[row] += diff
        return Counter({row: count for row, count in found.items() if count})


__all__ = ["KIND", "OUTPUT", "ROWS", "Crash", "SourceWorld", "Upstream", "unreachable"]
