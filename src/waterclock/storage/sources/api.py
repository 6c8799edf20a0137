"""The words between a source's ingestion and the connector that knows the system upstream.

A connector has two sides. The control side tells how far the system upstream is complete (`probe`)
and is told how far we are (`resume`, `commit`). The data side reads ranges of offsets that were
bound before. It must give the same messages whenever it is asked for the same range, for that is
what makes a source exact after a crash.

Where upstream gives each message once there are no ranges to read again. Such a system is read by a
`Receiver`: it hands over what has arrived together with the frontier that this is before, and both
become durable in one commit. What a crash takes before that was never part of the source; the
receiver asks for it again where upstream still has it, and otherwise says so in its warning.

Messages come as Arrow: the columns of the output, then `mz_offset`, the source time within their
partition, then `mz_diff`. Where 64 bits are not enough for source times, they are texts of decimal
digits. Messages of one source time are one transaction: they are read together and become visible
together, in all outputs. An envelope other than NONE may ask for other columns, but `mz_offset` is
always among them.

A message that can not be read is data too. It has a column more, `mz_error`: a SQLSTATE, a blank,
and what is wrong, or null. Such a row is not in the output but in the collection of errors beside
it, and while it is there, the output has no value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

import pyarrow as pa

from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Bytes, Column, Schema, Text
from waterclock.persist.rows import DIFF, row_schema
from waterclock.runtime import SYSTEM, Runtime
from waterclock.storage.api import ReadCapability
from waterclock.storage.reclock.progress import Partition, Range, SourceFrontier
from waterclock.storage.reclock.shape import ProgressShape
from waterclock.storage.sources.errors import TransientFault

OFFSET = "mz_offset"
ERROR = "mz_error"
Clock = Callable[[], int]
"""Milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What is known upstream now.

    `frontier` is what may be bound next; a connector limits it where reading everything at once
    would be too much. `known` is how far the system upstream is. With `is_final`, nothing will ever
    come after the frontier. `rows` is about how many there are before it, for the first contents.

    Where nobody knows how far the system upstream is, `behind_ms` is how much older the frontier is
    than the newest message there. `hindrance` is what keeps a part of the source from going on; it
    is shown in the status of the source, while the rest goes on.
    """

    frontier: SourceFrontier
    known: SourceFrontier
    is_final: bool = False
    rows: int | None = None
    behind_ms: int = 0
    hindrance: TransientFault | None = None
    is_partial: bool = False
    """There was too much to look at: the next probe goes on where this one has ended."""


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


STATE_ROWS = Schema(
    (
        Column("output", Text(), nullable=False),
        Column("key", Text(), nullable=False),
        Column("value", Bytes(), nullable=False),
    )
)
"""Columns of the collection that holds the notes of envelopes."""


@dataclass(frozen=True, slots=True)
class StatePlace:
    """Where an envelope keeps its state on disk, and what the log says of it (`Stateful`).

    State is a cache: it is used only if it is just what the record says, and made again otherwise.
    """

    folder: Path
    record: bytes | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What is durable of an output where its data ends.

    `rows` are its contents as updates, `errors` the message for each key that is in error, `notes`
    what its envelope has noted.
    """

    rows: Callable[[], Iterator[pa.RecordBatch]]
    errors: Callable[[], Sequence[tuple[str, str]]] = tuple
    notes: Callable[[], Mapping[str, bytes]] = dict
    state: StatePlace | None = None
    """None if nothing is kept on disk beyond the life of the process."""


@dataclass(frozen=True, slots=True)
class WrongRecord:
    """A message that can not be read: where it stands, and its bytes."""

    partition: Partition
    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class ErrorUpdate:
    """Something is wrong (+1), or no longer wrong (-1).

    `key` says with what, `message` is a SQLSTATE, a blank, and what is wrong. What can be skipped
    `is_skippable`, and comes with the `record`; when it is no longer wrong, without.
    """

    key: str
    message: str
    diff: int
    is_skippable: bool = False
    record: WrongRecord | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """What changes of an output at one binding, all of it at once.

    `rows` have `mz_diff` last. `notes` are what is to be remembered from now on, and None for what
    may be forgotten; they are durable together with the rows, and should be few.
    """

    rows: Sequence[pa.RecordBatch] = ()
    errors: Sequence[ErrorUpdate] = ()
    notes: Mapping[str, bytes | None] = field(default_factory=dict)
    complete_to: int | None = None
    """For an output on a timeline of its own, the first time at which something may happen yet. Its
    rows have their times, in `mz_timestamp`, before the diffs. None: the binding's time counts."""


class Envelope(Protocol):
    """What messages mean for the contents of one output. Used by one thread at a time.

    State that it keeps must be such that the same messages give the same changes after a crash:
    made again from what is durable.
    """

    def resume(self, standing: Standing) -> None:
        """Called before all messages."""
        ...

    def changes(self, messages: Sequence[Messages]) -> Changes:
        """What changes at one binding, given all its messages.

        If the changes do not become durable, `resume` is called again before others.
        """
        ...


@runtime_checkable
class Fallible(Protocol):
    """An envelope whose output may fail while the other outputs of the source go on."""

    @property
    def failure(self) -> str | None:
        """Why the output can not go on: a SQLSTATE, a blank, and what is wrong."""
        ...


@runtime_checkable
class Ending(Protocol):
    """An envelope that can tell from its messages that there will be nothing more to see."""

    @property
    def has_ended(self) -> bool:
        """Whether nothing that comes later changes the output. It stays so."""
        ...


@runtime_checkable
class Stateful(Protocol):
    """An envelope that keeps state on disk, in the folder that `resume` names.

    It may be resumed several times. State that it has open and that is still what the log says is
    not read again.
    """

    def state_record(self) -> bytes | None:
        """What the log is to say of the state, in the commit of the changes that were given last.

        It changes when the state does. None if there is no state.
        """
        ...

    def settle(self) -> None:
        """All changes that were given are durable. Does a bounded amount of upkeep."""
        ...

    def close(self) -> None:
        """Let go of the state, which stays where it is."""
        ...


class Grouping(Protocol):
    """Which messages of all outputs are seen together: it holds some back until others are there.

    It stands between the connector and the envelopes of a source that has one. The same is asked of
    its state as of an envelope's.
    """

    def resume(self, notes: Mapping[str, bytes]) -> None:
        """Called before all messages."""
        ...

    def released(
        self, messages: Sequence[Messages]
    ) -> tuple[Sequence[Messages], Mapping[str, bytes | None]]:
        """The messages to be seen at this binding, in their order, and what is to be remembered."""
        ...


@runtime_checkable
class TellsHead(Protocol):
    """A connector that asks for the head with a question of its own.

    For all others the head is how far a probe finds the system upstream to be (`Probe.known`).
    """

    def head(self) -> SourceFrontier:
        """How far the system upstream is: all that it has acknowledged is before that, whether it
        can be bound yet or not. Called right before a probe.
        """
        ...


@runtime_checkable
class Recalls(Protocol):
    """A connector or receiver that wants to know what was noted for the source as a whole."""

    def recall(self, notes: Mapping[str, bytes], complete_at_ms: int | None) -> None:
        """The notes, and the last time at which the source is complete. Called before `resume`."""
        ...


@runtime_checkable
class Remembers(Protocol):
    """A connector that has to know more of what it has read than the frontier says.

    What it notes is durable together with the data of a binding. It gets it back by `Recalls`.
    """

    def remembered(self) -> Mapping[str, bytes | None]:
        """What is to be noted of the ranges that were read last, and None for what may be
        forgotten. Called when they were read to the end.
        """
        ...


class Endpoint(Protocol):
    """What every source has upstream, whether it can be read again or not. Used by one thread at a
    time, but not always by the same.

    Every method may raise `TransientFault`, after which it is tried again, and `SourceFault` or
    `UpstreamRegressed`, which end the source.
    """

    @property
    def outputs(self) -> Mapping[str, Schema]:
        """What it gives, by the name upstream; one entry if it is not split into several."""
        ...

    @property
    def is_linearizable(self) -> bool:
        """Whether the head, once asked for, is after everything that was acknowledged upstream
        before, and never goes back. Recent reads are refused where it is not.
        """
        ...

    def start(self) -> SourceFrontier:
        """The frontier to begin at: nothing before it is wanted."""
        ...

    def resume(self, frontier: SourceFrontier) -> None:
        """What was bound so far. Called once before all probes, also after a restart."""
        ...

    def commit(self, frontier: SourceFrontier) -> None:
        """Everything before the frontier is durable here; upstream may forget it."""
        ...

    def close(self) -> None:
        """Let go of everything. Other methods are not called any more."""
        ...


class Connector(Endpoint, Protocol):
    """Reads a source whose ranges can be read again."""

    def probe(self) -> Probe:
        """How far the system upstream is complete now."""
        ...

    def read(self, ranges: Sequence[Range]) -> Iterator[Messages]:
        """All messages of the ranges, those of a partition in their order for each output."""
        ...


@dataclass(frozen=True, slots=True)
class Received:
    """What has arrived since the last commit: all of it is before `frontier`, and not before what
    was bound last.

    `notes` are what the receiver has to remember from then on, and None for what it may forget:
    they are durable together with the messages. `warning` is what the user should know while the
    source goes on; it stays until the receiver gives another one or None. With `has_more`, there is
    more that waits here.
    """

    frontier: SourceFrontier
    messages: Sequence[Messages] = ()
    notes: Mapping[str, bytes | None] = field(default_factory=dict)
    warning: WaterclockError | None = None
    has_more: bool = False


@runtime_checkable
class FollowsLog(Connector, Protocol):
    """A connector of a system whose log several sources follow, each to any place in it."""

    def probe_to(self, place: SourceFrontier) -> Probe:
        """The same as `probe`, and not beyond a place that another source of the log has probed."""
        ...


@runtime_checkable
class Receiver(Endpoint, Protocol):
    """Reads a source whose messages come once. What it has to remember is in its notes, and it is
    told of them (`Recalls`). Its kind has no `grouping`; its sources have a collection of notes.
    """

    def receive(self) -> Received:
        """What has arrived. It does not wait for messages, and what it gives is bounded.

        Messages that were given are not given again. If they do not become durable, the receiver
        is closed, and another one is opened that recalls the notes before them.
        """
        ...


@dataclass(frozen=True, slots=True)
class Skipping:
    """Messages that can not be read are kept in a relation (`sources.skipped`).

    While there are more than `limit`, the outputs have no value. With `tells_output` the relation
    has a column for the output.
    """

    relation: GlobalId
    limit: int | None = None
    tells_output: bool = False


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
    errors: Mapping[str, GlobalId] = field(default_factory=dict)
    """The collection of what is wrong with an output (`ERROR_ROWS`), for those that may be wrong.
    Without one, the first error ends the source."""
    notes: GlobalId | None = None
    """The collection of what its envelopes note (`STATE_ROWS`), if they do."""
    skipping: Skipping | None = None
    """Where messages that can not be read are, if they are not errors of the outputs."""

    @property
    def collections(self) -> tuple[GlobalId, ...]:
        """All that it fills, the remap first."""
        noted = () if self.notes is None else (self.notes,)
        skipped = () if self.skipping is None else (self.skipping.relation,)
        return (self.remap, *self.outputs.values(), *self.errors.values(), *noted, *skipped)


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

    def read(
        self, read: Callable[[int], Iterable[pa.RecordBatch]], count: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The batches that `read` gives for each number below `count`, in the order of the numbers.

        They may have any schemas. They are not held in memory, and stay valid for as long as
        somebody has them. A `WaterclockError` or `OSError` of `read` is raised here.
        """
        ...


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """How to reach a system outside: the options of a connection, its secrets among them in clear.

    For whoever connects, at that moment; not to be kept, shown or logged.
    """

    name: str
    kind: str
    options: Mapping[str, str | tuple[str, ...]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What connectors are given of the world; without executors, everything is read in place.

    `connection` gives the settings of a connection of the catalog as they are now, and `secret` the
    value of a secret, so that a changed secret counts when one connects again.
    """

    clock: Clock
    executors: Executors | None = None
    connection: Callable[[GlobalId], ConnectionSettings] | None = None
    large_bytes: int = 0
    """From this size on, files and tables are read by the executors: less is read here sooner."""
    state_folder: Path | None = None
    """Where envelopes keep state on disk, each output in a folder of its own; None if nowhere."""
    secret: Callable[[GlobalId], str] | None = None
    runtime: Runtime = SYSTEM
    """Where clocks and threads of connectors and receivers come from."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of source: what its progress looks like, and how one is opened.

    `open` gets the definition and may raise `InvalidSource`. It does not reach for the system
    upstream yet: the first probe does.
    """

    progress: ProgressShape
    open: Callable[[bytes, Surroundings], Connector | Receiver]
    envelope: Callable[[bytes, str], Envelope]
    """The envelope of an output, given the definition."""
    grouping: Callable[[bytes], Grouping | None] = lambda _definition: None
    """What holds messages back, for a source that has transactions over several partitions."""
    begins_with_contents: bool = False
    """Whether it is first bound together with what is upstream already, all at one time. Otherwise
    nothing is known at first."""
    order: Callable[[bytes, Surroundings], Hashable] = lambda _definition, _surroundings: None
    """The log upstream that a source follows, given the definition. Sources that follow the same
    one have connectors that are `FollowsLog`; None is a log that no other source follows."""
    not_linearizable: str | None = None
    """Why the head is unknown where a connector of the kind is not linearizable: a sentence."""
    farewell: Callable[[bytes, Surroundings], Callable[[], None]] | None = None
    """What removes from the system upstream what a source has left there. It is made while the
    source exists, and called when it is gone; then it may raise `TransientFault`."""


Kinds = Mapping[str, Kind]
