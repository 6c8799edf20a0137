"""A stream in memory that keeps the rules of the service, and a clock that tests move."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from waterclock.model.ids import GlobalId
from waterclock.runtime import Runtime
from waterclock.storage.formats.api import Included, MessageDefinition, TextDefinition
from waterclock.storage.reclock.progress import SourceFrontier
from waterclock.storage.sources.api import ConnectionSettings, Surroundings
from waterclock.storage.sources.aws.errors import Throttled
from waterclock.storage.sources.kinesis.connector import Kinesis
from waterclock.storage.sources.kinesis.creation import Start, Wanted, define
from waterclock.storage.sources.kinesis.definition import KinesisDefinition
from waterclock.storage.sources.kinesis.retention import Anchors
from waterclock.storage.sources.kinesis.shards import Shard
from waterclock.storage.sources.kinesis.stream import (
    Answer,
    IteratorExpired,
    NotThere,
    Place,
    Record,
    StreamState,
)

HOUR_MS = 3_600_000
CONNECTION = GlobalId.user(9)
SETTINGS = ConnectionSettings("aws", "aws", {"access key id": "a", "secret access key": "b"})
MESSAGES = MessageDefinition(
    origin='stream "s"',
    value=TextDefinition(),
    key=TextDefinition("key"),
    include=(
        Included("key", "key"),
        Included("shard", "shard"),
        Included("sequence number", "number"),
    ),
    long_offsets=True,
)


class FakeRuntime(Runtime):
    """Time that passes only where somebody waits, or a test says so."""

    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class FakeShard:
    shard: Shard
    records: list[Record] = field(default_factory=list)
    is_closed: bool = False


class FakeStream:
    """Implements `Stream`."""

    def __init__(self, runtime: FakeRuntime, first_number: int = 10**128, page: int = 3) -> None:
        self.runtime = runtime
        self.page = page
        self.created_ms = runtime.wall_ms()
        self.retention_ms = 24 * HOUR_MS
        self.is_deleted = self.is_throttled = False
        self.held: dict[str, FakeShard] = {}
        self.faults: dict[str, list[Exception]] = {}
        """What the next reads of a shard raise."""
        self.asked: list[tuple[str, float]] = []
        self._next = first_number

    # What happens upstream

    def add(self, shard: Shard) -> None:
        self.held[shard.id] = FakeShard(shard)

    def put(self, shard: str, *values: str, key: str = "k") -> list[int]:
        held = self.held[shard]
        assert not held.is_closed
        numbers = []
        for value in values:
            self._next += 7
            data = value.encode()
            held.records.append(Record(self._next, key, data, self.runtime.wall_ms()))
            numbers.append(self._next)
        return numbers

    def split(self, parent: str, *children: str) -> None:
        self.held[parent].is_closed = True
        for child in children:
            self.add(Shard(child, (parent,)))

    def merge(self, first: str, second: str, child: str) -> None:
        self.held[first].is_closed = self.held[second].is_closed = True
        self.add(Shard(child, (first, second)))

    def forget(self, shard: str) -> None:
        del self.held[shard]

    # What is asked of it

    def state(self) -> StreamState:
        if self.is_deleted:
            raise NotThere
        if self.is_throttled:
            raise Throttled("too many")
        now = self.runtime.wall_ms()
        return StreamState(self.created_ms, self.retention_ms, True, now - now % 1000)

    def shards(self) -> list[Shard]:
        return [each.shard for each in self.held.values()]

    def iterator(self, shard: str, place: Place) -> str:
        if shard not in self.held:
            raise NotThere
        number, from_ms = place.number or 0, place.from_ms or 0
        return f"{shard} {number} {from_ms} {self.runtime.now_s}"

    def records(self, shard: str, iterator: str, limit: int = 10_000) -> Answer:
        self.asked.append((shard, self.runtime.now_s))
        if self.faults.get(shard):
            raise self.faults[shard].pop(0)
        named, number, from_ms, made_s = iterator.split()
        assert named == shard
        if self.runtime.now_s - float(made_s) > 300:
            raise IteratorExpired
        if shard not in self.held:
            raise NotThere
        held = self.held[shard]
        oldest = self.runtime.wall_ms() - self.retention_ms
        there = [
            each
            for each in held.records
            if each.arrived_ms >= max(oldest, int(from_ms)) and each.number >= int(number)
        ]
        given = there[: min(limit, self.page)]
        following = given[-1].number + 1 if given else int(number)
        behind = 0
        if len(there) > len(given):
            behind = max(1, there[-1].arrived_ms - given[-1].arrived_ms)
        following_iterator = f"{shard} {following} {from_ms} {self.runtime.now_s}"
        is_over = held.is_closed and behind == 0
        return Answer(tuple(given), None if is_over else following_iterator, behind)

    def close(self) -> None:
        pass


class Life:
    """A source that is driven by hand: what is bound, read and noted survives a crash."""

    def __init__(
        self, stream: FakeStream, start: Start = Start.TRIM_HORIZON, time_ms: int | None = None
    ) -> None:
        self.stream = stream
        self.runtime = stream.runtime
        wanted = Wanted("s", start, time_ms)
        self.definition: KinesisDefinition = define(
            CONNECTION, SETTINGS, wanted, MESSAGES, lambda _access, _name: stream, self.runtime
        )
        self.notes: dict[str, bytes] = {}
        self.known = self.definition.first_frontier
        """What is bound, with its data."""
        self.bound = self.known
        """What is bound."""
        self.complete_at = self.runtime.wall_ms()
        self.rows: list[tuple[str, int, str]] = []
        """Shard, number and value, in the order in which they were read."""
        self.times: list[int] = []
        self.bindings = 0
        self.behind_ms = 0
        self.open()

    def open(self, at_once: int = 1 << 20) -> None:
        """Begin a life, after a crash."""
        self.connector = Kinesis(
            self.definition,
            Surroundings(self.runtime.wall_ms, None, lambda _id: SETTINGS, runtime=self.runtime),
            lambda _access, _name: self.stream,
            at_once,
        )
        self.connector.recall(self.notes, self.complete_at)
        self.connector.resume(self.bound)

    def step(self, *, dies: bool = False) -> None:
        """One step of the ingestion; it may die between binding and append."""
        if self.bound != self.known:
            self._apply()
        probe = self.connector.probe()
        self.behind_ms = probe.behind_ms
        assert probe.frontier.covers(self.bound)
        if probe.frontier != self.bound:
            probe.frontier.require_after(self.bound)
            self.bound = probe.frontier
            if dies:
                with contextlib.suppress(StopIteration):
                    next(iter(self._read()))
                self.open()
                return
            self._apply()
        self.complete_at = self.runtime.wall_ms()

    def _read(self) -> Iterator[pa.RecordBatch]:
        ranges = self.bound.ranges_since(self.known)
        messages = list(self.connector.read(ranges))
        given, notes = Anchors().released(messages)
        for each in given:
            yield each.batch
        self.notes |= {shard: note for shard, note in notes.items() if note is not None}

    def _apply(self) -> None:
        self.bindings += 1
        ranges = {each.partition: each for each in self.bound.ranges_since(self.known)}
        for batch in self._read():
            for row in batch.to_pylist():
                number = int(row["number"])
                wanted = ranges[row["shard"]]
                assert wanted.start <= number < wanted.end
                self.rows.append((row["shard"], number, row["text"]))
                self.times.append(self.bindings)
        self.known = self.bound
        self.connector.commit(self.bound)

    def settle(self) -> None:
        """Steps until nothing is new, a second apart."""
        for _ in range(100):
            before = self.bound
            self.runtime.now_s += 1
            self.step()
            if self.bound == before and not self.behind_ms:
                return
        raise AssertionError("it does not settle")

    @property
    def values(self) -> list[str]:
        return [value for _, _, value in self.rows]


def uppers(frontier: SourceFrontier) -> dict[str, int]:
    return {str(shard): upper for shard, upper in frontier.uppers.items()}
