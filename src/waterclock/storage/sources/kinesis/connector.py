"""A stream of Kinesis as a source: its shards are the partitions, sequence numbers the offsets.

The service does not tell the number of the newest record. So a probe reads ahead, and what it has
read is what may be bound; the read of a binding takes it from there. After a crash the range is
read again, from the record before it up to the last one in it, and is the same, or an error:
records never change, nothing comes between two of them, and what has expired is noticed
(`retention`).

A shard appears in the frontier when its parents are complete and it is known what is in it, and is
at `END` when it is complete.

Records are read and decoded here, not on executors: the service gives two megabytes a second of a
shard, and what is bound at once is limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor

from waterclock.model.schema import Schema
from waterclock.storage.envelopes.choice import decoding_of, envelope_of
from waterclock.storage.formats.api import Decoding
from waterclock.storage.reclock.progress import Range, SourceFrontier
from waterclock.storage.reclock.shape import END, KINESIS
from waterclock.storage.sources.api import Envelope, Grouping, Kind, Messages, Probe, Surroundings
from waterclock.storage.sources.aws.clients import AwsAccess, access_of
from waterclock.storage.sources.aws.errors import Throttled
from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.kinesis import errors
from waterclock.storage.sources.kinesis.definition import (
    KinesisDefinition,
    decoded,
    frontier_of,
)
from waterclock.storage.sources.kinesis.reading import ShardReader, Standing
from waterclock.storage.sources.kinesis.records import batches_of, no_records
from waterclock.storage.sources.kinesis.retention import (
    Anchor,
    Anchors,
    Recollection,
    with_anchor,
)
from waterclock.storage.sources.kinesis.shards import Shard, find_lost, readable
from waterclock.storage.sources.kinesis.stream import (
    KinesisStream,
    NotThere,
    Record,
    Stream,
    StreamState,
)

NAME = "kinesis"
OUTPUT = "records"
_AT_ONCE = 64 << 20
"""Bytes that are bound at once, and held in memory; a round of requests may go beyond it."""
_THREADS = 8
_LOOK_S = 5.0
"""How often the stream and its shards are looked at, if nothing has changed. A stream that was
deleted can not be created again within that time: the service takes longer for it."""
_LONGEST_PROBE_S = 1.0
_PATIENCE_S = 60.0
"""After so long without an answer from a shard, the source waits for it."""
OpenStream = Callable[[AwsAccess, str], Stream]


class Kinesis:
    """Implements `Connector` and `Recalls`."""

    def __init__(
        self,
        definition: KinesisDefinition,
        surroundings: Surroundings,
        open_stream: OpenStream = KinesisStream,
        at_once: int = _AT_ONCE,
    ) -> None:
        self._definition = definition
        self._surroundings = surroundings
        self._open_stream = open_stream
        self._runtime = surroundings.runtime
        self._at_once = at_once
        self._decoding: Decoding = decoding_of(definition.messages, surroundings.connection)
        self._recalled = Recollection({})
        self._bound: dict[str, int] = {}
        self._stream: Stream | None = None
        self._pool: Executor | None = None
        self._state: StreamState | None = None
        self._shards: dict[str, Shard] = {}
        self._looked_s = self._look_due_s = 0.0
        self._readers: dict[str, ShardReader] = {}

    @property
    def outputs(self) -> Mapping[str, Schema]:
        return {OUTPUT: self._decoding.schema}

    @property
    def is_linearizable(self) -> bool:
        return False

    def start(self) -> SourceFrontier:
        return self._definition.first_frontier

    def recall(self, notes: Mapping[str, bytes], complete_at_ms: int | None) -> None:
        self._recalled = Recollection.of(notes, complete_at_ms)

    def resume(self, frontier: SourceFrontier) -> None:
        self._bound = {str(shard): upper for shard, upper in frontier.uppers.items()}

    # Reading ahead

    def probe(self) -> Probe:
        self._look()
        self._open_readers()
        hindrance = self._read_ahead()
        uppers = dict(self._bound)
        for shard, reader in self._readers.items():
            if reader.has_answered or shard in uppers:
                uppers[shard] = reader.standing.upper
        if any(reader.has_ended for reader in self._readers.values()):
            self._look_due_s = 0.0
        frontier = frontier_of(uppers)
        return Probe(frontier, frontier, behind_ms=self._behind_ms, hindrance=hindrance)

    @property
    def _behind_ms(self) -> int:
        readers = self._readers.values()
        behind = max((reader.behind_ms or 0 for reader in readers), default=0)
        has_children = any(reader.has_ended for reader in readers)
        return max(behind, 1) if has_children else behind

    def _look(self, *, now: bool = False) -> StreamState:
        """The stream, with its shards, looked at again if that is due."""
        now_s = self._runtime.monotonic_s()
        if self._state is not None and not now and now_s < self._look_due_s:
            return self._state
        stream, name = self._opened_stream(), self._definition.stream
        self._look_due_s = now_s + _LOOK_S
        try:
            state = stream.state()
            if state.created_ms != self._definition.stream_created_ms:
                raise errors.recreated(name)
            listed = stream.shards()
        except NotThere:
            raise errors.deleted(name) from None
        except Throttled:
            if self._state is None or now_s - self._looked_s > _PATIENCE_S:
                raise
            return self._state
        lost = find_lost(listed, self._bound, self._definition.known)
        if lost is not None:
            raise errors.shard_expired(name, lost)
        self._shards = {shard.id: shard for shard in listed}
        self._looked_s, self._state = now_s, state
        return state

    def _open_readers(self) -> None:
        for shard in readable(self._shards.values(), self._bound):
            if shard.id not in self._readers:
                standing = self._standing(shard, self._bound.get(shard.id, 0))
                self._readers[shard.id] = self._reader(shard, standing)

    def _reader(self, shard: Shard, standing: Standing) -> ShardReader:
        clock, monotonic = self._surroundings.clock, self._runtime.monotonic_s
        name = self._definition.stream
        return ShardReader(self._opened_stream(), name, shard, standing, clock, monotonic)

    def _standing(self, shard: Shard, upper: int) -> Standing:
        """Where a shard is read from that is known up to a number, and how that can be proven."""
        definition = self._definition
        begin = definition.first_numbers.get(shard.id)
        if upper and upper == begin and definition.begins_at_record:
            return Standing(upper, upper, is_needed=True)
        if shard.id in self._bound and (upper or begin == 0 or self._bound[shard.id] == 0):
            anchor = self._recalled.of_bound(shard.id)
        else:
            anchor = self._recalled.of_parents(shard.parents)
        return Standing(
            upper, upper - 1 if upper else None, anchor_ms=anchor, from_ms=definition.from_ms
        )

    def _read_ahead(self) -> TransientFault | None:
        """Have each shard read on, in rounds; those that are behind, several times. What keeps a
        shard from it, if anything does.
        """
        readers = self._readers.values()
        unread = {each.shard.id for each in readers}
        done: set[str] = set()
        until_s = self._runtime.monotonic_s() + _LONGEST_PROBE_S
        while sum(each.size for each in readers) < self._at_once:
            now_s = self._runtime.monotonic_s()
            waiting = [r for r in readers if r.shard.id not in done and not r.has_ended]
            due = sorted((r for r in waiting if r.due_s <= now_s), key=lambda r: r.read_s)
            if now_s >= until_s and unread.isdisjoint(r.shard.id for r in due):
                break
            if due:
                some = due[:_THREADS]
                self._read_some(some)
                unread -= {r.shard.id for r in some}
                done |= {r.shard.id for r in some if r.fault is not None or r.behind_ms == 0}
                continue
            first_s = min((r.due_s for r in waiting if r.behind_ms != 0), default=None)
            has_news = any(each.records for each in readers)
            if first_s is None or (first_s >= until_s and has_news):
                break
            self._runtime.sleep(min(first_s, until_s) - now_s)
        return next((each.fault for each in readers if each.fault is not None), None)

    def _read_some(self, readers: Sequence[ShardReader]) -> None:
        """Have these shards read on, side by side."""
        if len(readers) == 1:
            self._read_on(readers[0])
            return
        if self._pool is None:
            self._pool = self._runtime.pool(_THREADS, "waterclock-kinesis")
        asked = [self._pool.submit(self._read_on, reader) for reader in readers]
        self._runtime.wait(asked)
        for each in asked:
            each.result()

    def _read_on(self, reader: ShardReader) -> None:
        """Read on, unless the service throttles that: then others may go on for a while."""
        assert self._state is not None, "who reads has looked"
        try:
            reader.read(self._state.retention_ms)
        except Throttled:
            if reader.shard.id in self._bound and (
                reader.behind_ms is None
                or self._runtime.monotonic_s() - reader.read_s > _PATIENCE_S
            ):
                raise
        except NotThere:
            raise self._gone(reader.shard.id) from None

    def _gone(self, shard: str) -> Exception:
        self._look(now=True)
        return errors.shard_expired(self._definition.stream, shard)

    # Reading what is bound

    def read(self, ranges: Sequence[Range]) -> Iterator[Messages]:
        for each in sorted(ranges, key=lambda each: str(each.partition)):
            reader = self._readers.get(str(each.partition))
            if reader is None or reader.standing.upper != each.end:
                yield from self._read_again(str(each.partition), each)
                continue
            yield from self._messages(reader.shard, reader.take())
            yield self._noted(reader.shard, reader.anchor)

    def _read_again(self, shard: str, wanted: Range) -> Iterator[Messages]:
        """A range that was bound in an earlier life. Raises `SourceFault` if it is not there."""
        state = self._look()
        found = self._shards.get(shard)
        if found is None:
            raise errors.shard_expired(self._definition.stream, shard)
        reader = self._reader(found, self._standing(found, wanted.start))
        anchor = reader.anchor
        try:
            for part in reader.read_again(wanted.end, state.retention_ms, self._runtime.sleep):
                anchor = Anchor(part[-1].arrived_ms, is_tip=False)
                yield from self._messages(found, part)
        except NotThere:
            raise self._gone(shard) from None
        if wanted.end == END:
            anchor = reader.anchor
            self._recalled = self._recalled.with_note(shard, anchor)
        yield self._noted(found, anchor)

    def _messages(self, shard: Shard, records: Sequence[Record]) -> Iterator[Messages]:
        for batch in batches_of(records, shard):
            yield Messages(OUTPUT, shard.id, self._decoding.decode(batch))

    def _noted(self, shard: Shard, anchor: Anchor) -> Messages:
        """No messages, but the anchor for `Anchors` to note."""
        nothing = self._decoding.decode(no_records())
        noted = nothing.replace_schema_metadata(with_anchor(anchor))
        return Messages(OUTPUT, shard.id, noted)

    def commit(self, frontier: SourceFrontier) -> None:
        self.resume(frontier)
        for shard, reader in list(self._readers.items()):
            if reader.has_ended and self._bound.get(shard) == END:
                self._recalled = self._recalled.with_note(shard, reader.anchor)
                del self._readers[shard]

    def close(self) -> None:
        stream, self._stream = self._stream, None
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)
        if stream is not None:
            stream.close()

    def _opened_stream(self) -> Stream:
        if self._stream is None:
            look_up = self._surroundings.connection
            assert look_up is not None, "who runs sources knows the connections"
            access = access_of(look_up(self._definition.connection_id))
            self._stream = self._open_stream(access, self._definition.stream)
        return self._stream


def _open(definition: bytes, surroundings: Surroundings) -> Kinesis:
    return Kinesis(decoded(definition), surroundings)


def _envelope(definition: bytes, output: str) -> Envelope:
    del output
    return envelope_of(decoded(definition).messages)


def _grouping(definition: bytes) -> Grouping:
    del definition
    return Anchors()


KIND = Kind(
    KINESIS,
    _open,
    _envelope,
    _grouping,
    not_linearizable="Kinesis does not tell the sequence number of the newest record of a shard.",
)
