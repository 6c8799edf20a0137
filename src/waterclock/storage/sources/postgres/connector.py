"""A PostgreSQL database as a source: the state machine around its slot.

The source time is the server's log. Nothing is known at 0. The first binding is the place from
which the slot gives changes, and what it binds is the contents at that place. From there on each
binding is as far as the stream is complete, and it binds the transactions that end in between.

Exact after a crash: the slot is told of a place only when everything before it is durable here, so
the stream can be had again from there and gives the same. A snapshot can not be had again. But a
later one can, and the stream from the slot tells what happened between the two: taken back, what is
left is the first.

The slot belongs to the source. One that is missing or ahead of us means that changes are lost, and
ends the source. What concerns a single table ends that table only.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import pyarrow.compute as pc

from waterclock.model.schema import Schema
from waterclock.persist.rows import DIFF
from waterclock.storage.reclock.errors import UpstreamRegressed
from waterclock.storage.reclock.progress import Range, SourceFrontier
from waterclock.storage.reclock.shape import POSTGRES
from waterclock.storage.sources.api import (
    OFFSET,
    Envelope,
    Kind,
    Messages,
    Probe,
    Surroundings,
)
from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.postgres.access import (
    HINT,
    Access,
    discard,
    leave,
    settings_of,
)
from waterclock.storage.sources.postgres.decoding import Decoder, failed
from waterclock.storage.sources.postgres.definition import (
    PostgresDefinition,
    definition_of,
    shown_lsn,
)
from waterclock.storage.sources.postgres.envelope import ChangesOfTable, TableFailed, Truncated
from waterclock.storage.sources.postgres.replication import HEADER, NewSlot, Replication
from waterclock.storage.sources.postgres.snapshot import SnapshotReader
from waterclock.storage.sources.postgres.stream import TransactionStream
from waterclock.storage.sources.postgres.upstream import difference

NAME = "postgres"
_BINDING_BYTES = 64 << 20
"""So much of the stream is bound at once, and the rest of a transaction."""
_PROBE_SECONDS = 1.0
_READ_SECONDS = 600.0


class PostgresSource:
    """Implements `Connector`."""

    def __init__(self, definition: PostgresDefinition, surroundings: Surroundings) -> None:
        self._definition = definition
        self._surroundings = surroundings
        self._access = Access(definition, surroundings)
        self._bound = 0
        self._known = 0
        """How far the server's log was at the last probe."""
        self._stream: TransactionStream | None = None
        self._decoder: Decoder | None = None
        self._snapshot: _Snapshot | None = None
        """The contents where the slot, which was made just now, begins."""
        self._changed: dict[str, TableFailed] = {}
        """What was found to be wrong with tables, to be told at the next read."""

    @property
    def outputs(self) -> Mapping[str, Schema]:
        return {table.output: table.rows for table in self._definition.tables}

    @property
    def is_linearizable(self) -> bool:
        return True

    def start(self) -> SourceFrontier:
        return SourceFrontier.single(0)

    def resume(self, frontier: SourceFrontier) -> None:
        self._bound = frontier.uppers[None]

    # Probing

    def probe(self) -> Probe:
        if self._bound == 0:
            return self._begun()
        stream = self._streaming(self._bound)
        known = self._access.flushed()
        if known < self._bound:
            raise UpstreamRegressed(
                "the log of the PostgreSQL server has gone back",
                detail=f"It had been read up to {shown_lsn(self._bound)} and now ends at"
                f" {shown_lsn(known)}.",
                hint=HINT,
            )
        reached = self._received(stream, known)
        return Probe(SourceFrontier.single(reached), SourceFrontier.single(max(reached, known)))

    def probe_to(self, place: SourceFrontier) -> Probe:
        assert self._bound, "the source has its first contents"
        reached = self._received(self._streaming(self._bound), place.uppers[None], is_last=True)
        return Probe(SourceFrontier.single(reached), place)

    def _received(self, stream: TransactionStream, known: int, *, is_last: bool = False) -> int:
        """How far everything has come, after waiting for what is known to be there."""
        stream.pull(known, at_most_bytes=_BINDING_BYTES, seconds=_PROBE_SECONDS)
        self._known = known
        reached = max(
            self._bound, min(stream.complete_to, known) if is_last else stream.complete_to
        )
        if reached > self._bound:  # what changes the server's catalog is in its log
            self._look_at_tables()
        return reached

    def _begun(self) -> Probe:
        """Make the slot: as nothing was bound, one that is there was made in vain."""
        if self._access.slot() is not None:
            discard(self._definition, self._access.settings)
        snapshot = self._snapshot_with(self._definition.slot, temporary=False)
        frontier = SourceFrontier.single(snapshot.slot.lsn)
        return Probe(frontier, frontier, rows=snapshot.reader.rows)

    def _snapshot_with(self, slot: str, *, temporary: bool) -> _Snapshot:
        """The contents of all tables that are as they were, where a new slot begins."""
        self._let_go_of_snapshot()
        self._look_at_tables()
        tables = [t for t in self._definition.tables if t.output not in self._changed]
        connection = self._access.replication()
        try:
            with ExitStack() as undo:
                around = self._surroundings
                snapshot = SnapshotReader(
                    self._access.settings, tables, around.executors, around.large_bytes
                )
                undo.callback(snapshot.close)
                made = connection.create_slot(slot, temporary=temporary)
                snapshot.look_through(made.snapshot)
                undo.pop_all()
        except BaseException:
            connection.close()
            raise
        self._snapshot = _Snapshot(connection, made, snapshot)
        return self._snapshot

    def _look_at_tables(self) -> None:
        """Find out whether tables are what they were.

        It is done after the stream was read, so that what it has seen of the server's catalog is
        seen here as well.
        """
        found = self._access.tables()
        for table in self._definition.tables:
            reason = difference(table, found.get(table.oid))
            if reason is not None:
                self._changed.setdefault(table.output, failed(table, reason))

    # Reading

    def read(self, ranges: Sequence[Range]) -> Iterator[Messages]:
        for each in ranges:
            yield from self._first(each) if each.start == 0 else self._following(each)
        yield from self._changed.values()

    def _following(self, asked: Range) -> Iterator[Messages]:
        """The transactions that end within the range, its end included, its start not."""
        stream = self._streaming(asked.start)
        self._pull(stream, asked.end)
        assert self._decoder is not None
        taken = stream.take(asked.end)
        stream.pull_ahead(self._known, at_most_bytes=_BINDING_BYTES, seconds=_PROBE_SECONDS)
        yield from self._decoder.decode(taken)

    def _first(self, asked: Range) -> Iterator[Messages]:
        """The contents at the place from which the slot gives changes."""
        place, offset = asked.end, asked.end - 1
        snapshot = self._snapshot
        if snapshot is None:
            self._access.require_slot(place)
            slot = f"waterclock_tmp_{secrets.token_hex(8)}"
            snapshot = self._snapshot_with(slot, temporary=True)
        yield from snapshot.reader.read(offset)
        self._let_go_of_snapshot()
        if snapshot.slot.lsn > place:
            yield from self._taken_back(place, snapshot.slot.lsn, offset)

    def _taken_back(self, begin: int, end: int, offset: int) -> Iterator[Messages]:
        """What undoes the changes between two places, all of it at the offset."""
        stream = self._streaming(begin)
        self._pull(stream, end)
        assert self._decoder is not None
        for messages in self._decoder.decode(stream.take(end)):
            match messages:
                case Truncated():
                    [table] = [t for t in self._definition.tables if t.output == messages.output]
                    yield failed(table, "it was truncated while its first contents were read")
                case TableFailed():
                    yield messages
                case _:
                    yield _undone(messages, offset)
        self._end_stream()  # these changes are to come again

    @staticmethod
    def _pull(stream: TransactionStream, end: int) -> None:
        stream.pull(end, at_most_bytes=None, seconds=_READ_SECONDS)
        if stream.complete_to < end:
            raise TransientFault("the replication stream from PostgreSQL does not go on")

    def commit(self, frontier: SourceFrontier) -> None:
        self._bound = frontier.uppers[None]
        self._changed.clear()
        if self._stream is not None:
            self._stream.confirm(self._bound)

    def close(self) -> None:
        self._let_go_of_snapshot()
        self._end_stream()
        self._access.close()

    # The stream and the slot

    def _streaming(self, begin: int) -> TransactionStream:
        """The stream, of which everything up to there has been taken and nothing behind."""
        if self._stream is not None and self._stream.taken == begin:
            return self._stream
        self._end_stream()
        connection = self._access.replication()
        try:
            self._access.require_slot(begin)
            connection.start(self._definition.slot, self._definition.publication, begin)
        except BaseException:
            connection.close()
            raise
        self._stream = TransactionStream(connection, begin)
        self._decoder = Decoder(self._definition.tables, HEADER)
        return self._stream

    def _end_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _let_go_of_snapshot(self) -> None:
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None:
            snapshot.reader.close()
            snapshot.connection.close()


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A snapshot, which is there as long as the connection that exported it does nothing else."""

    connection: Replication
    slot: NewSlot
    reader: SnapshotReader


def _undone(messages: Messages, offset: int) -> Messages:
    """The opposite of some changes, at another offset."""
    batch = messages.batch
    for name, column in (
        (DIFF, pc.negate(batch.column(DIFF))),
        (OFFSET, pc.add(pc.multiply(batch.column(OFFSET), 0), offset)),
    ):
        place = batch.schema.get_field_index(name)
        batch = batch.set_column(place, batch.schema.field(place), column)
    return Messages(messages.output, messages.partition, batch)


def _open(definition: bytes, surroundings: Surroundings) -> PostgresSource:
    return PostgresSource(definition_of(definition), surroundings)


def _envelope(definition: bytes, output: str) -> Envelope:
    tables = (t for t in definition_of(definition).tables if t.output == output)
    table = next(tables, None)
    return ChangesOfTable() if table is None else ChangesOfTable(table.errors)


def _farewell(definition: bytes, surroundings: Surroundings) -> Callable[[], None]:
    known = definition_of(definition)
    return partial(leave, known, settings_of(known, surroundings))


def _order(definition: bytes, surroundings: Surroundings) -> Hashable:
    """The log of the server: all of its databases have the same. A copy of a server has its
    identifier too, and a log of its own at another address.
    """
    known = definition_of(definition)
    options = settings_of(known, surroundings).options
    return NAME, known.system, options.get("host"), options.get("port", "5432")


KIND = Kind(
    POSTGRES,
    _open,
    _envelope,
    begins_with_contents=True,
    order=_order,
    farewell=_farewell,
)
