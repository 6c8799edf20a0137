"""Objects in a bucket as a source: a partition is an object, an offset is a byte of it.

The listing says what there is (`discovery`), and a queue may say so sooner (`queue`). So much is
bound at once that a binding does not become too large. An object that is complete is entered in the
manifest, with a fingerprint of its ETag, in the same commit as its rows. At the next binding its
row of the progress goes into the sum (`SourceFrontier`), so there are never more rows than objects
are bound at once, and one.

An object does not change: one that was overwritten or deleted, before it was read or afterwards, is
an error among the messages of the source, at its place in the object, or in the sum if it had been
read. If the same object is there again, the error goes away. A partition None that is bound further
than by what was retired stands for such events; whoever reads that binding again after a crash
finds them again by the listing, at a later time, because nobody has seen them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from waterclock.model.schema import Schema
from waterclock.persist.rows import DIFF
from waterclock.persist.schema_codec import decode_schema
from waterclock.runtime import SYSTEM, Runtime
from waterclock.storage.envelopes.choice import decoding_of, envelope_of
from waterclock.storage.envelopes.plain import Plain
from waterclock.storage.formats.api import CsvDefinition
from waterclock.storage.reclock.progress import Partition, Range, SourceFrontier
from waterclock.storage.reclock.shape import S3
from waterclock.storage.sources.api import (
    ERROR,
    OFFSET,
    Envelope,
    Kind,
    Messages,
    Probe,
    Surroundings,
)
from waterclock.storage.sources.aws.clients import AwsAccess, access_of
from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.files.parquet_rows import ParquetRows
from waterclock.storage.sources.files.path_columns import PathColumns
from waterclock.storage.sources.files.reading import LineDecoder
from waterclock.storage.sources.s3.bucket import DELETED, OVERWRITTEN, Bucket, Listed, ObjectLost
from waterclock.storage.sources.s3.definition import S3Definition, decoded
from waterclock.storage.sources.s3.discovery import REASONS, Event, Pass, news
from waterclock.storage.sources.s3.manifest import fingerprint
from waterclock.storage.sources.s3.objects import ObjectReader, Piece
from waterclock.storage.sources.s3.patterns import KeyPattern
from waterclock.storage.sources.s3.queue import Queue
from waterclock.storage.sources.s3.records import Broken, Records
from waterclock.storage.sources.s3.tasks import SideBySide, read_here, read_outside

NAME = "s3"
OUTPUT = "objects"
_AT_ONCE = 64 << 20
"""Limit on the bytes bound at once. A compressed object is bound whole."""
_MANY = 1000
"""Limit on the objects bound at once."""
_PAGES = 20
"""The most pages of a listing in one probe, so that the source's time goes on meanwhile."""
_COMPRESSED_WEIGHT = 8
"""Bytes of rows for a byte of a compressed object, about."""
_COMPRESSED = (".gz", ".gzip", ".zst", ".zstd")
_log = logging.getLogger(__name__)


class Objects:
    """Implements `Connector`, `Recalls`, `Remembers` and `TellsHead`."""

    is_linearizable = True
    """Listings of S3 are strongly consistent."""

    def __init__(
        self, definition: S3Definition, surroundings: Surroundings, runtime: Runtime = SYSTEM
    ) -> None:
        self._definition = definition
        self._surroundings = surroundings
        self._threads = SideBySide(runtime)
        self._pattern = KeyPattern.of(definition.pattern)
        self._rows = rows_of(definition, surroundings)
        self._reader: ObjectReader | None = None
        self._queue: Queue | None = None
        self._access: AwsAccess | None = None
        self._records = Records()
        self._bound = self.start()
        self._done: set[str] = set()
        """The bound objects that are complete."""
        self._listed: dict[str, Listed] = {}
        """The versions of the objects that are bound and not read yet."""
        self._waiting: deque[Listed] = deque()
        """Objects that were found and are not bound yet."""
        self._events: deque[Event] = deque()
        self._taken: list[Listed] = []
        """The objects that the last probe has proposed and that are not bound as yet."""
        self._bound_events: dict[int, Event] = {}
        """The events that the last probe has proposed, by their offsets."""
        self._pass: Pass | None = None
        self._begun_at: int | None = None
        self._is_queue_down = False
        self._mark = 0
        self._is_asked = False
        """Whether a pass is wanted that begins now."""
        self._complete_at = 0
        """When the last pass began whose objects are all bound."""
        self._ended_at = 0
        """The same for the last pass that has ended."""

    @property
    def outputs(self) -> Mapping[str, Schema]:
        return {OUTPUT: self._rows.schema}

    def start(self) -> SourceFrontier:
        return SourceFrontier({None: 0}, True)

    def recall(self, notes: Mapping[str, bytes], complete_at_ms: int | None) -> None:
        del complete_at_ms
        self._records = Records(notes)

    def remembered(self) -> Mapping[str, bytes | None]:
        return self._records.changes()

    def resume(self, frontier: SourceFrontier) -> None:
        self._bound = frontier
        self._done = set(self._records.manifest.find(_keys(frontier)))

    def commit(self, frontier: SourceFrontier) -> None:
        self.resume(frontier)
        self._listed.clear()
        self._taken, self._bound_events = [], {}
        self._settle_queue()

    def close(self) -> None:
        self._threads.close()
        if self._queue is not None:
            self._queue.close()
        if self._reader is not None:
            self._reader.bucket.close()

    # What is there

    def head(self) -> SourceFrontier:
        """Everything that a pass finds that begins after this moment."""
        self._mark = max(self._surroundings.clock(), self._mark + 1)
        self._is_asked = True
        return SourceFrontier({None: 0}, True, self._mark)

    def probe(self) -> Probe:
        self._take_back()
        ends = self._continued()
        if not ends:
            self._take_hints()
        self._look(ends)
        left = _AT_ONCE if not ends else 0
        while self._waiting and left > 0 and len(ends) < _MANY:
            listed = self._waiting.popleft()
            if listed.key in ends or listed.key in self._bound.uppers:
                continue
            ends[listed.key] = self._end(listed, 0)
            self._listed[listed.key] = listed
            self._taken.append(listed)
            left -= ends[listed.key] * self._weight(listed)
        return self._found(ends)

    def _take_back(self) -> None:
        """What the last probe has proposed waits again, if it was not bound."""
        self._waiting.extendleft(reversed(self._taken))
        self._events.extendleft(reversed(self._bound_events.values()))
        self._taken, self._bound_events = [], {}

    def _found(self, ends: Mapping[str, int]) -> Probe:
        """What is to be bound: objects up to these ends, and events."""
        rest = sum(max(0, self._listed[key].size - end) for key, end in ends.items())
        if self._pass is not None and self._pass.is_over:
            self._ended_at, self._pass = self._pass.listed_at, None
        if not self._waiting and not rest:
            self._complete_at = self._ended_at
        uppers: dict[Partition, int] = dict(self._bound.uppers)
        if ends or self._events:
            self._retire(uppers)
            while self._events:
                self._bound_events[uppers[None]] = self._events.popleft()
                uppers[None] += 1
            uppers.update(ends)
        frontier = SourceFrontier(uppers, True, self._complete_at)
        more = rest + sum(each.size for each in self._waiting)
        known = replace(frontier, uppers=uppers | {None: uppers[None] + more})
        is_final = not self._definition.follow and self._pass is None and not more
        return Probe(frontier, known, is_final, is_partial=self._pass is not None)

    def _retire(self, uppers: dict[Partition, int]) -> None:
        """Leave out the objects that are complete."""
        for key in self._done:
            uppers[None] += uppers.pop(key)

    def _continued(self) -> dict[str, int]:
        """The ends of the next pieces of objects that are bound in part."""
        ends: dict[str, int] = {}
        for key, begun in self._records.partial.items():
            start = self._bound.uppers.get(key)
            if start is None:
                continue
            listed = self._bucket.look(key)
            if listed is None or fingerprint(listed.etag) != begun or listed.size <= start:
                ends[key] = start + 1  # so that whoever reads it tells what is wrong
                self._listed[key] = Listed(key, "", 0 if listed is None else 1)
            else:
                ends[key] = self._end(listed, start)
                self._listed[key] = listed
        return ends

    def _weight(self, listed: Listed) -> int:
        is_compressed = self._definition.compression in ("gzip", "zstd") or (
            self._definition.compression == "auto" and listed.key.endswith(_COMPRESSED)
        )
        return _COMPRESSED_WEIGHT if is_compressed else 1

    def _end(self, listed: Listed, start: int) -> int:
        try:
            return self._opened().next_end(listed, start, _AT_ONCE)
        except (ObjectLost, pa.ArrowInvalid):
            return listed.size  # whoever reads it tells what is wrong

    def _look(self, ends: Mapping[str, int]) -> None:
        """Go on with the pass, or begin one that is due, until there is enough to bind."""
        now = self._surroundings.clock()
        interval = 0 if self._is_queue_down else self._definition.scan_ms
        is_due = self._begun_at is None or not 0 <= now - self._begun_at < interval
        if self._pass is None and (is_due or self._is_asked) and not self._waiting:
            self._mark = max(self._mark, now)
            self._pass = Pass(self._bucket, self._pattern, self._mark)
            self._begun_at, self._is_asked = now, False
        for _ in range(_PAGES):
            found, is_enough = self._pass, self._has_enough
            if found is None or found.is_over or is_enough:
                return
            new, events = found.next(
                self._records.manifest, self._records.healing, self._unfinished(ends)
            )
            self._add(new, events)

    def _add(self, new: Sequence[Listed], events: Sequence[Event]) -> None:
        self._waiting.extend(new)
        if self._definition.ignore_deletes:
            gone = [e.key for e in events if e.change == "deleted"]
            self._records.manifest.remove(key for key in gone if key not in self._bound.uppers)
            events = [e for e in events if e.change != "deleted"]
        known = {event.key for event in self._events}
        self._events.extend(event for event in events if event.key not in known)

    @property
    def _has_enough(self) -> bool:
        count = len(self._waiting) + len(self._events)
        return count >= _MANY or sum(each.size for each in self._waiting) >= _AT_ONCE

    def _unfinished(self, ends: Mapping[str, int]) -> set[str]:
        """The keys of objects that were found and are not read to the end."""
        waiting = {each.key for each in self._waiting}
        return (_keys(self._bound) - self._done) | ends.keys() | waiting

    def _take_hints(self) -> None:
        """Look at the objects that the queue names. Without it, the bucket is listed more often."""
        queue = self._opened_queue()
        if queue is None or self._has_enough:
            return
        try:
            keys = queue.take()
        except TransientFault as fault:
            if not self._is_queue_down:
                _log.warning("%s; the bucket is listed at each tick instead", fault)
            self._is_queue_down = True
            return
        self._is_queue_down = False
        found = [each for each in self._threads.each(self._bucket.look, keys) if each is not None]
        known = self._records.manifest.find(each.key for each in found)
        self._add(*news(found, known, self._records.healing, self._unfinished({})))
        self._settle_queue()

    def _settle_queue(self) -> None:
        queue = self._opened_queue()
        if queue is not None and not self._is_queue_down:
            waiting = self._unfinished({})
            with suppress(TransientFault):  # they come again, and do no harm
                queue.settle(lambda key: key not in waiting)

    # Reading

    def read(self, ranges: Sequence[Range]) -> Iterator[Messages]:
        pieces: list[Piece] = []
        by_key = {each.partition: each for each in ranges if isinstance(each.partition, str)}
        unknown = [each for key, each in by_key.items() if key not in self._listed]
        for each, listed in zip(
            unknown, self._threads.each(self._found_again, unknown), strict=True
        ):
            self._listed[str(each.partition)] = listed
        for each in ranges:
            if each.partition is None:
                yield from self._told(each)
                continue
            key = str(each.partition)
            listed = self._listed[key]
            reason = self._lost(listed)
            if reason is None:
                pieces.append(Piece(listed, each.start, each.end))
            else:
                text = f"55000 {self._opened().shown(key)} {reason}"
                yield Messages(OUTPUT, key, self._rows.error(each.start, text))
                self._records.add_lost(listed, Broken(each.start, text, False))
        for key, batch in self._batches(pieces):
            yield Messages(OUTPUT, key, batch)

    def _found_again(self, wanted: Range) -> Listed:
        """The object of a range that was bound before a crash. One of which the range is no piece
        is not the one that was bound.
        """
        key = str(wanted.partition)
        listed = self._bucket.look(key)
        if listed is None:
            return Listed(key, "", 0)
        if self._end(listed, wanted.start) != wanted.end:
            return Listed(key, "", 1)
        return listed

    def _lost(self, listed: Listed) -> str | None:
        """Why a range can not be read of an object as it is now."""
        if not listed.etag:
            return OVERWRITTEN if listed.size else DELETED
        begun = self._records.partial.get(listed.key)
        if begun is not None and begun != fingerprint(listed.etag):
            return OVERWRITTEN
        return None

    def _told(self, wanted: Range) -> Iterator[Messages]:
        """The events of a binding."""
        for offset in range(wanted.start, wanted.end):
            event = self._bound_events.pop(offset, None)
            if event is None:  # a crash was in between: the next pass finds it again
                continue
            if event.change == "restored":
                known = self._records.heal(event.key)
                yield Messages(OUTPUT, None, self._rows.error(known.offset, known.text, -1))
            elif event.key not in self._records.broken:
                reason = REASONS[event.change]
                text = f"55000 {self._opened().shown(event.key)} {reason} after it was read"
                batch = self._rows.error(offset, text)
                can_heal = DIFF in batch.schema.names
                self._records.add_broken(event.key, Broken(offset, text, can_heal))
                yield Messages(OUTPUT, None, batch)

    def _batches(self, pieces: Sequence[Piece]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The messages of pieces, by object. What an object is lost by is noted."""
        reader, executors = self._opened(), self._surroundings.executors
        large = bool(pieces) and sum(map(len, pieces)) >= self._surroundings.large_bytes
        if executors is None or not large:
            found = read_here(reader, pieces, self._threads)
        else:
            found = read_outside(executors, reader, pieces)
        for piece, batch in found:
            key = piece.listed.key
            if len(batch) == 1 and ERROR in batch.schema.names:
                text, offset = batch.column(ERROR)[0].as_py(), batch.column(OFFSET)[0].as_py()
                if text is not None and text.startswith(f"55000 {reader.shown(key)} "):
                    self._records.add_broken(key, Broken(offset, text, False))
            yield key, batch
        self._records.add_read((piece.listed, piece.end) for piece in pieces)

    # The bucket

    @property
    def _bucket(self) -> Bucket:
        return self._opened().bucket

    def _opened(self) -> ObjectReader:
        if self._reader is None:
            bucket = Bucket(self._opened_access(), self._definition.bucket)
            bucket.open()
            self._reader = ObjectReader(bucket, self._rows, self._definition.compression)
        return self._reader

    def _opened_queue(self) -> Queue | None:
        name = self._definition.queue
        if self._queue is None and name is not None:
            bucket = self._definition.bucket
            self._queue = Queue(self._opened_access(), name, bucket, self._pattern.matches)
        return self._queue

    def _opened_access(self) -> AwsAccess:
        if self._access is None:
            look_up = self._surroundings.connection
            assert look_up is not None, "who runs sources knows the connections"
            self._access = access_of(look_up(self._definition.connection_id))
        return self._access


def rows_of(definition: S3Definition, surroundings: Surroundings) -> LineDecoder | ParquetRows:
    """What makes rows of objects. Raises `InvalidSource`."""
    path_columns = PathColumns(decode_schema(definition.path_columns))
    if definition.messages is None:
        return ParquetRows(decode_schema(definition.columns), path_columns)
    return LineDecoder(
        decoding_of(definition.messages, surroundings.connection),
        definition.header,
        definition.delimiter,
        isinstance(definition.messages.value, CsvDefinition),
        path_columns,
    )


def _keys(frontier: SourceFrontier) -> set[str]:
    """The objects that have a row of their own."""
    return {key for key in frontier.uppers if isinstance(key, str)}


def _open(definition: bytes, surroundings: Surroundings) -> Objects:
    return Objects(decoded(definition), surroundings)


def _envelope(definition: bytes, output: str) -> Envelope:
    del output
    messages = decoded(definition).messages
    return Plain() if messages is None else envelope_of(messages)


KIND = Kind(S3, _open, _envelope)
