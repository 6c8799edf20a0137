"""The words between a source's ingestion and the connector that knows the system upstream.

A connector has two sides. The control side tells how far the system upstream is complete (`probe`)
and is told how far we are (`resume`, `commit`). The data side reads ranges of offsets that were
bound before. It must give the same messages whenever it is asked for the same range, for that is
what makes a source exact after a crash.

Messages come as Arrow: the columns of the output, then `mz_offset`, the source time within their
partition, then `mz_diff`. Messages of one source time are one transaction: they are read together
and become visible together, in all outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from waterclock.model.ids import GlobalId
from waterclock.model.schema import Schema
from waterclock.persist.rows import DIFF, row_schema
from waterclock.storage.api import ReadCapability
from waterclock.storage.reclock.progress import Partition, Range, SourceFrontier
from waterclock.storage.reclock.shape import ProgressShape

OFFSET = "mz_offset"
Clock = Callable[[], int]
"""Milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What is known upstream now.

    `frontier` is what may be bound next; a connector limits it where reading everything at once
    would be too much. `known` is how far the system upstream is. With `is_final`, nothing will ever
    come after the frontier.
    """

    frontier: SourceFrontier
    known: SourceFrontier
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Messages:
    """Some messages of one partition for one output; see `message_schema`."""

    output: str
    partition: Partition
    batch: pa.RecordBatch


def message_schema(rows: Schema) -> pa.Schema:
    """The Arrow schema of messages with these rows."""
    return pa.schema(
        [
            *row_schema(rows),
            pa.field(OFFSET, pa.int64(), nullable=False),
            pa.field(DIFF, pa.int64(), nullable=False),
        ]
    )


class Envelope(Protocol):
    """What messages mean for the contents of one output. Used by one thread at a time.

    State that it keeps must be such that the same messages give the same changes after a crash:
    made again from the contents, which are durable.
    """

    def resume(self, contents: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        """Called before all messages. `contents` gives the rows where the data ends, as updates."""
        ...

    def changes(self, messages: Sequence[Messages]) -> list[pa.RecordBatch]:
        """The rows that change at one binding, with `mz_diff` last, given all its messages.

        If the changes do not become durable, `resume` is called again before others.
        """
        ...


class Connector(Protocol):
    """Reads one source. Used by one thread at a time, but not always by the same.

    Every method may raise `TransientFault`, after which it is tried again, and `SourceFault` or
    `UpstreamRegressed`, which end the source.
    """

    @property
    def outputs(self) -> Mapping[str, Schema]:
        """What it gives, by the name upstream; one entry if it is not split into several."""
        ...

    @property
    def is_linearizable(self) -> bool:
        """Whether a probe reflects everything that was acknowledged upstream before it began."""
        ...

    def start(self) -> SourceFrontier:
        """The frontier to begin at: nothing before it is wanted."""
        ...

    def resume(self, frontier: SourceFrontier) -> None:
        """What was bound so far. Called once before all probes, also after a restart."""
        ...

    def probe(self) -> Probe:
        """How far the system upstream is complete now."""
        ...

    def read(self, ranges: Sequence[Range]) -> Iterator[Messages]:
        """All messages of the ranges, those of a partition in their order for each output."""
        ...

    def commit(self, frontier: SourceFrontier) -> None:
        """Everything before the frontier is durable here; upstream may forget it."""
        ...

    def close(self) -> None:
        """Let go of everything. Other methods are not called any more."""
        ...


@dataclass(frozen=True, slots=True)
class SourceDescription:
    """A source as it is to be run: what it reads, and the collections it fills.

    `outputs` has the collection for each of the connector's outputs that is wanted. `definition` is
    known to the connector's kind alone. The collections are filled by storage (`Writers.STORAGE`).
    """

    id: GlobalId
    name: str
    kind: str
    definition: bytes
    remap: GlobalId
    outputs: Mapping[str, GlobalId]
    interval_ms: int | None = None
    """How often to look upstream, if not as usual."""

    @property
    def collections(self) -> tuple[GlobalId, ...]:
        """All that it fills, the remap first."""
        return (self.remap, *self.outputs.values())


class SourceHold(Protocol):
    """Keeps a source's collections readable from where its data ends, so that a binding that was
    not read yet is found again with the one before it.
    """

    def capability(self, collection: GlobalId) -> ReadCapability: ...

    def move(self, time: int) -> None: ...

    def close(self) -> None: ...


TakeHold = Callable[[Sequence[GlobalId]], SourceHold]
"""Holds collections at their sinces."""


class Executors(Protocol):
    """Where large reads are computed."""

    def run(
        self,
        make: Callable[[int, int], pa.RecordBatch],
        slices: Sequence[tuple[int, int]],
        schema: pa.Schema,
    ) -> Iterator[pa.RecordBatch]:
        """`make` of each slice, in the order of the slices. It must not depend on where it runs."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What connectors are given of the world; without executors, everything is read in place."""

    clock: Clock
    executors: Executors | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of source: what its progress looks like, and how one is opened.

    `open` gets the definition and may raise `InvalidSource`. It does not reach for the system
    upstream yet: the first probe does.
    """

    progress: ProgressShape
    open: Callable[[bytes, Surroundings], Connector]
    envelope: Callable[[bytes, str], Envelope]
    """The envelope of an output, given the definition."""


Kinds = Mapping[str, Kind]
