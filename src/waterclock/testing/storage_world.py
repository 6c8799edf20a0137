"""A Storage that a test owns whole: its data, its clock, and its restarts.

`World.durable` is what another process would find if this one died now, so a test compares it
before and after to see that a command took effect, or that a refused one left nothing behind.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pytest

from waterclock.errors import WaterclockError
from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema, Text
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.blob.api import Blob
from waterclock.persist.blob.files import FileBlob
from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.consensus.api import Consensus
from waterclock.persist.consensus.memory import MemoryConsensus
from waterclock.persist.consensus.sqlite import SqliteConsensus
from waterclock.persist.log import recover
from waterclock.persist.numerics import numbers_of
from waterclock.persist.records import Checkpoint, ShardRecord
from waterclock.persist.retry import Retry
from waterclock.persist.rows import NUMERIC, updates
from waterclock.storage.api import (
    Description,
    Message,
    Progress,
    ReadCapability,
    Updates,
    Write,
    WriteCapability,
)
from waterclock.storage.controller import Storage
from waterclock.storage.subscription import Subscription

Row = tuple[Any, ...]
Triple = tuple[Row, int, int]

SCHEMA = Schema((Column("k", Int(64), nullable=False), Column("v", Text())))
"""A small relation: a number that is always there, and a text that may not be."""
TABLE = Description(SCHEMA)
END: Frontier[int] = EPOCH_MILLIS.empty()


def at(time: int) -> Frontier[int]:
    """The frontier of one time of the timeline that all collections share."""
    return EPOCH_MILLIS.frontier(time)


def user(number: int) -> GlobalId:
    """The id of a user's collection."""
    return GlobalId.user(number)


def batch(*triples: Triple) -> pa.RecordBatch:
    """Updates `((k, v), time, diff)` of the small relation."""
    return updates(SCHEMA, list(triples))


def many(count: int, time: int, *, first: int = 0, diff: int = 1) -> pa.RecordBatch:
    """So many different rows at one time; from a few hundred on they no longer fit the log."""
    rows = range(first, first + count)
    return updates(SCHEMA, [((k, f"row {k}"), time, diff) for k in rows])


def write(capability: WriteCapability, upper: int | Frontier[int], *triples: Triple) -> Write:
    """These updates, up to and without `upper`."""
    new = upper if isinstance(upper, Frontier) else at(upper)
    return Write(capability, batch(*triples) if triples else None, new)


class HandClock:
    """Milliseconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


class HeldConsensus(MemoryConsensus):
    """A log whose entries wait until the test lets them through."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.let_through = threading.Event()
        self.let_through.set()

    def hold(self) -> None:
        """From now on, entries wait."""
        self.let_through.clear()
        self.asked.clear()

    def append(self, position: int, entry: bytes) -> None:
        self.asked.set()
        assert self.let_through.wait(300)
        super().append(position, entry)


class World(Protocol):
    """Storage over data that outlives it."""

    storage: Storage

    def reopen(self) -> Storage:
        """End the server and start another on the same data."""
        ...

    def durable(self) -> Checkpoint:
        """What the log and blobs say now, read by nobody's help."""
        ...


class MemoryWorld:
    """Storage over memory, with a clock that stands still by itself."""

    def __init__(self, blob: Blob | None = None, consensus: Consensus | None = None) -> None:
        self.blob = blob or MemoryBlob()
        self.consensus = consensus or MemoryConsensus()
        self.clock = HandClock()
        self.storage = self.open()

    def open(self) -> Storage:
        """Another server on the same data. The one before is fenced off."""
        retry = Retry(attempts=1)
        return Storage.open(
            self.blob, self.consensus, clock=self.clock, retry=retry, background=False
        )

    def reopen(self) -> Storage:
        self.storage.close()
        self.storage = self.open()
        return self.storage

    def crash(self) -> Storage:
        """Start another server although the one before has not ended, as after a cut of power."""
        crashed = self.storage
        self.storage = self.open()
        crashed.close()
        return self.storage

    def durable(self) -> Checkpoint:
        return recover(self.blob, self.consensus).to_checkpoint()


class DirectoryWorld:
    """Storage over a real directory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.storage = Storage.open_directory(path, background=False)

    def reopen(self) -> Storage:
        self.storage.close()
        self.storage = Storage.open_directory(self._path, background=False)
        return self.storage

    def durable(self) -> Checkpoint:
        with closing(SqliteConsensus(self._path / "log.db")) as log:
            return recover(FileBlob(self._path / "blobs"), log).to_checkpoint()


def shard_in(world: World, collection: GlobalId) -> ShardRecord:
    """What is durable of one collection."""
    [found] = [shard for shard in world.durable().shards if shard.id == str(collection)]
    return found


@contextmanager
def refused(world: World, error: type[WaterclockError]) -> Iterator[list[WaterclockError]]:
    """The block raises the error, which is put in the list, and nothing durable has changed."""
    caught: list[WaterclockError] = []
    before = world.durable()
    with pytest.raises(error) as raised:
        yield caught
    assert world.durable() == before
    assert type(raised.value) is error
    caught.append(raised.value)


def drain(subscription: Subscription) -> list[Message]:
    """All messages there are at present."""
    messages: list[Message] = []
    while True:
        try:
            message = subscription.receive(0)
        except StopIteration:
            return messages
        if message is None:
            return messages
        messages.append(message)


def triples_of(messages: Iterable[Message]) -> Counter[tuple[Row, int]]:
    """The updates in the messages, as a diff for each row and time; none is zero."""
    found: Counter[tuple[Row, int]] = Counter()
    for message in messages:
        if isinstance(message, Updates):
            *columns, times, diffs = (plain_values(column) for column in message.batch.columns)
            rows = list(zip(*columns, strict=True)) if columns else [()] * len(times)
            for row, time, diff in zip(rows, times, diffs, strict=True):
                found[row, time] += diff
    return Counter({place: diff for place, diff in found.items() if diff})


def plain_values(column: pa.Array) -> list[Any]:
    """The values as Python has them, numbers with scales of their own as decimals."""
    return numbers_of(column) if column.type == NUMERIC else list(column.to_pylist())


def uppers_of(messages: Iterable[Message]) -> list[Frontier[int]]:
    """The statements of progress among the messages."""
    return [message.upper for message in messages if isinstance(message, Progress)]


def contents(storage: Storage, capability: ReadCapability, time: int) -> Counter[Row]:
    """What the collection holds at a time that is readable now."""
    subscription = storage.subscribe_at(capability, as_of=at(time))
    try:
        messages = drain(subscription)
    finally:
        subscription.close()
    assert uppers_of(messages), f"time {time} is not complete yet"
    found: Counter[Row] = Counter()
    for (row, when), diff in triples_of(messages).items():
        if when <= time:
            found[row] += diff
    return Counter({row: count for row, count in found.items() if count})


def is_readable(storage: Storage, capability: ReadCapability, time: int) -> bool:
    """Whether a subscription at the time has something to say at once."""
    subscription = storage.subscribe_at(capability, as_of=at(time))
    try:
        return subscription.receive(0) is not None
    finally:
        subscription.close()
