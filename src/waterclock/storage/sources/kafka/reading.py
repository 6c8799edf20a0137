"""Records of exact ranges of offsets, as Arrow; the same code in this process and on executors.

A range is complete when the reader is past its end, not when it holds as many records as it has
offsets: compaction, aborted transactions and the marks that end transactions leave gaps. So either
a record at or beyond the end is seen, or the broker says that the partition ends there or later.

Only what is committed is read. A range that can not be read whole raises `ReadBroken`; whoever
reads finds out why, and never takes a part for the whole.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from waterclock.storage.formats.api import RECORDS, MessageDefinition
from waterclock.storage.reclock.progress import Range
from waterclock.storage.sources.kafka.errors import missing
from waterclock.storage.sources.kafka.settings import ClientSettings

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

_AT_ONCE = 5_000
_BATCH_ROWS = 50_000
_BATCH_BYTES = 32 << 20
_PATIENCE_S = 20.0
_POLL_S = 0.5


class ReadBroken(Exception):
    """Some range could not be read whole; what the library said of it."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Which parts of records are of use, besides key and value; the others are left null."""

    timestamp: bool
    headers: bool

    @classmethod
    def of(cls, definition: MessageDefinition) -> Parts:
        included = {each.what for each in definition.include}
        return cls("timestamp" in included, bool(included & {"header", "headers"}))


@dataclass(slots=True)
class _Pile:
    """Records of one range that were not handed out yet."""

    range: Range
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    timestamps: list[int | None] = field(default_factory=list)
    headers: list[list[tuple[str, bytes | None]] | None] = field(default_factory=list)
    size: int = 0
    is_complete: bool = False

    def add(self, message: Message, offset: int, parts: Parts) -> None:
        key, value = message.key(), message.value()
        self.keys.append(key)
        self.values.append(value)
        self.offsets.append(offset)
        self.size += (len(key) if key else 0) + (len(value) if value else 0)
        if parts.timestamp:
            kind, millis = message.timestamp()
            self.timestamps.append(millis * 1000 if kind else None)
        if parts.headers:
            self.headers.append(message.headers())  # type: ignore[arg-type]

    def add_all(self, messages: list[Message], parts: Parts) -> None:
        """The same for messages that are all within the range, some at a time."""
        if parts.timestamp or parts.headers:
            for message in messages:
                offset = message.offset()
                assert offset is not None, "a record has an offset"
                self.add(message, offset, parts)
            return
        keys, values = [m.key() for m in messages], [m.value() for m in messages]
        self.keys += keys
        self.values += values
        self.offsets += [m.offset() for m in messages]  # type: ignore[misc]
        assert self.offsets[0] >= self.range.start, "what was asked for comes"
        self.size += sum(map(len, filter(None, keys))) + sum(map(len, filter(None, values)))

    @property
    def is_large(self) -> bool:
        return len(self.offsets) >= _BATCH_ROWS or self.size >= _BATCH_BYTES

    def taken(self) -> pa.RecordBatch:
        """What is there, as records; then it is empty."""
        count = len(self.offsets)
        columns = [
            pa.array(self.keys, pa.binary()),
            pa.array(self.values, pa.binary()),
            pa.repeat(pa.scalar(self.range.partition, pa.int32()), count),
            pa.array(self.offsets, pa.int64()),
            _filled(self.timestamps, RECORDS.field("timestamp").type, count),
            _filled(
                [None if each is None else [_header(*h) for h in each] for each in self.headers],
                RECORDS.field("headers").type,
                count,
            ),
        ]
        for each in (self.keys, self.values, self.offsets, self.timestamps, self.headers):
            each.clear()
        self.size = 0
        return pa.RecordBatch.from_arrays(columns, schema=RECORDS)


def _filled(values: list[Any], kind: pa.DataType, count: int) -> pa.Array:
    return pa.array(values, kind) if values else pa.nulls(count, kind)


def _header(key: str, value: bytes | None) -> dict[str, Any]:
    return {"key": key, "value": value}


class RangeReader:
    """Reads ranges of one topic. One thread at a time."""

    def __init__(
        self,
        settings: ClientSettings,
        topic: str,
        group: str,
        parts: Parts,
        *,
        patience_s: float = _PATIENCE_S,
        consumer: Callable[[dict[str, Any]], Consumer] | None = None,
    ) -> None:
        """Connects at the first read. `patience_s` is how long nothing may come before a read is
        given up. Raises `KafkaMissing`.
        """
        self._topic = topic
        self._parts = parts
        self._patience_s = patience_s
        make = consumer or _consumer_class()
        self._consumer = make(
            {
                **settings,
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                # A fetch that waits for more holds up the next read by as long.
                "fetch.wait.max.ms": 10,
                "queued.max.messages.kbytes": 32 << 10,
            }
        )

    def read(self, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
        """All records of the ranges, those of a partition in their order, never two partitions in
        one batch. Raises `ReadBroken`.
        """
        from confluent_kafka import TopicPartition

        piles = {_number(each): _Pile(each) for each in ranges if len(each)}
        places = [TopicPartition(self._topic, p, pile.range.start) for p, pile in piles.items()]
        self._consumer.assign(places)
        try:
            yield from self._drained(piles)
        finally:
            self._consumer.resume(places)  # a pause would outlast the assignment
            self._consumer.unassign()

    def _drained(self, piles: dict[int, _Pile]) -> Iterator[pa.RecordBatch]:
        waiting, waited_s = len(piles), 0.0
        while waiting:
            asked = time.monotonic()
            first = self._consumer.poll(_POLL_S)
            waited_s += time.monotonic() - asked
            if waited_s > self._patience_s:
                raise ReadBroken("nothing came for too long")
            if first is None:
                continue
            came = _by_partition((first, *self._consumer.consume(_AT_ONCE, 0)))
            for partition, messages in came.items():
                pile = piles.get(partition)
                if pile is None or pile.is_complete:
                    continue
                waited_s = 0.0
                self._take_all(messages, pile)
                if pile.is_complete:
                    waiting -= 1
                    self._pause(pile)
            for pile in piles.values():
                if pile.is_large or (pile.is_complete and pile.offsets):
                    yield pile.taken()

    def _take_all(self, messages: list[Message], pile: _Pile) -> None:
        """Messages of one partition, up to the end of the range."""
        are_records = all(message.error() is None for message in messages)
        last = messages[-1].offset()
        if are_records and last is not None and last < pile.range.end - 1:
            pile.add_all(messages, self._parts)
            return
        for message in messages:
            self._take(message, pile)
            if pile.is_complete:
                return

    def _take(self, message: Message, pile: _Pile) -> None:
        error, offset, end = message.error(), message.offset(), pile.range.end
        if error is not None:
            if error.name() != "_PARTITION_EOF":
                raise ReadBroken(error.str())
            pile.is_complete = offset is not None and offset >= end
            return
        assert offset is not None, "a record has an offset"
        if offset < end:
            assert offset >= pile.range.start, "what was asked for comes"
            pile.add(message, offset, self._parts)
        pile.is_complete = offset >= end - 1

    def _pause(self, pile: _Pile) -> None:
        """Fetch no more of what comes after the range."""
        from confluent_kafka import TopicPartition

        self._consumer.pause([TopicPartition(self._topic, _number(pile.range))])

    def commit(self, uppers: dict[int, int]) -> None:
        """Tell the brokers how far we are, for others to see. It does not matter if it fails."""
        from confluent_kafka import KafkaException, TopicPartition

        places = [TopicPartition(self._topic, p, offset) for p, offset in uppers.items()]
        with suppress(KafkaException):
            self._consumer.commit(offsets=places, asynchronous=True)

    def close(self) -> None:
        """Let go of the brokers."""
        self._consumer.close()


def _by_partition(messages: Sequence[Message]) -> dict[int, list[Message]]:
    found: dict[int | None, list[Message]] = defaultdict(list)
    for message in messages:
        partition = message.partition() if message.error() is None else _partition(message)
        found[partition].append(message)
    return {-1 if partition is None else partition: each for partition, each in found.items()}


def _partition(message: Message) -> int:
    """The partition that the message is of; none that there is, if it is of the brokers at all."""
    error, partition = message.error(), message.partition()
    if error is not None and error.name() == "_ALL_BROKERS_DOWN":
        raise ReadBroken(error.str())
    return -1 if partition is None else partition


def _number(wanted: Range) -> int:
    assert isinstance(wanted.partition, int), "partitions have numbers"
    return wanted.partition


def _consumer_class() -> Callable[[dict[str, Any]], Consumer]:
    try:
        from confluent_kafka import Consumer
    except ImportError:
        raise missing() from None
    return Consumer
