"""A source of records that a test writes: formats and envelopes on the real ledger, with crashes.

`Records` is a system upstream with topics of keys and values. `RecordWorld` runs one source over
it, each topic an output, and remembers what was bound at which time, so that a test can compare the
contents at every time with what a model says about the records that were bound by then.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from waterclock.model.schema import Column, Int, Schema, Text
from waterclock.model.timeline import EPOCH_MILLIS, Timeline
from waterclock.storage.envelopes.choice import decoding_of, envelope_of
from waterclock.storage.envelopes.transactions import several_partitions
from waterclock.storage.formats.api import RECORDS, MessageDefinition
from waterclock.storage.reclock.progress import Partition, Range, SourceFrontier
from waterclock.storage.reclock.shape import ProgressShape
from waterclock.storage.sources.api import (
    Connector,
    Envelope,
    Grouping,
    Kind,
    Messages,
    Probe,
    Skipping,
    Surroundings,
)
from waterclock.storage.sources.skipped import skipped_schema
from waterclock.storage.sources.status import Health, Statistics
from waterclock.testing.source_world import Crash, SourceWorld

KIND = "records"
SHAPE = ProgressShape(Column("offset", Int(64), False), Column("partition", Text(), False), True)
Record = tuple[bytes | None, bytes | None]


def records(given: Sequence[Record], first: int = 0, partition: int | None = 0) -> pa.RecordBatch:
    """Keys and values as a connector would give them."""
    count = len(given)
    columns = {
        "key": pa.array([key for key, _ in given], pa.binary()),
        "value": pa.array([value for _, value in given], pa.binary()),
        "partition": pa.array([partition] * count, pa.int32()),
        "offset": pa.array(range(first, first + count), pa.int64()),
    }
    arrays = [columns.get(f.name, pa.nulls(count, f.type)) for f in RECORDS]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORDS)


@dataclass
class Records:
    """Topics of records. A partition is called `topic/number`."""

    topics: Mapping[str, MessageDefinition]
    log: dict[str, list[Record]] = field(default_factory=dict)
    tells_partitions: bool = False
    """Whether its connector says which topics have several partitions."""

    def append(self, topic: str, *given: Record, partition: int = 0) -> None:
        self.log.setdefault(f"{topic}/{partition}", []).extend(given)

    @property
    def frontier(self) -> SourceFrontier:
        uppers: dict[Partition, int] = {name: len(found) for name, found in self.log.items()}
        return SourceFrontier(uppers, True)


class _RecordsConnector:
    """Implements `Connector`."""

    def __init__(self, upstream: Records) -> None:
        self._upstream = upstream
        self._decodings = {name: decoding_of(d) for name, d in upstream.topics.items()}

    @property
    def outputs(self) -> Mapping[str, Schema]:
        return {name: decoding.schema for name, decoding in self._decodings.items()}

    @property
    def is_linearizable(self) -> bool:
        return True

    def start(self) -> SourceFrontier:
        return SourceFrontier({}, True)

    def resume(self, frontier: SourceFrontier) -> None:
        pass

    def probe(self) -> Probe:
        found = self._upstream.frontier
        return Probe(found, found)

    def read(self, ranges: Sequence[Range]) -> Iterator[Messages]:
        for each in ranges:
            topic, _, number = str(each.partition).rpartition("/")
            given = self._upstream.log[str(each.partition)][each.start : each.end]
            batch = records(given, each.start, int(number))
            yield Messages(topic, each.partition, self._decodings[topic].decode(batch))
            several = sum(name.startswith(f"{topic}/") for name in self._upstream.log) > 1
            if several and self._upstream.tells_partitions:
                yield several_partitions(topic, each.partition)

    def commit(self, frontier: SourceFrontier) -> None:
        pass

    def close(self) -> None:
        pass


class RecordWorld:
    """One source over records. `outputs` are the topics that are outputs; all, if not given."""

    def __init__(
        self,
        topics: Mapping[str, MessageDefinition],
        grouping: Callable[[], Grouping] | None = None,
        outputs: Sequence[str] | None = None,
        timeline: Timeline[int] = EPOCH_MILLIS,
        max_errors: int | None = None,
    ) -> None:
        """`max_errors` is how many messages may be skipped, if any definition skips some."""
        self.upstream = Records(topics)
        self.world = SourceWorld()
        self.kinds = {KIND: self._kind(grouping)}
        schemas = {name: decoding_of(topics[name]).schema for name in outputs or topics}
        self.description = self.world.create(
            KIND, b"", SHAPE.schema, schemas, with_errors=True, timeline=timeline
        )
        if any(each.errors.keeps_bytes for each in topics.values()):
            tells = len(schemas) > 1
            relation = self.world.collection(skipped_schema(SHAPE, tells_output=tells))
            skipping = Skipping(relation, max_errors, tells)
            self.description = replace(self.description, skipping=skipping)
        self.bound: dict[int, SourceFrontier] = {}
        """What was bound at which time, as far as it is durable."""
        self._ingestion = self.world.ingestion(self.description, self.kinds)

    def _kind(self, grouping: Callable[[], Grouping] | None) -> Kind:
        def opened(definition: bytes, surroundings: Surroundings) -> Connector:
            del definition, surroundings
            return _RecordsConnector(self.upstream)

        def envelope(definition: bytes, output: str) -> Envelope:
            del definition
            return envelope_of(self.upstream.topics[output])

        return Kind(SHAPE, opened, envelope, lambda _: None if grouping is None else grouping())

    def step(self) -> None:
        """Take what is there."""
        self.world.step(self._ingestion)
        status = self._ingestion.status
        assert status.health in (Health.RUNNING, Health.FINISHED), status
        upper = self.world.upper(self.description.remap)
        time = self.world.now if upper is None else upper - 1
        self.bound[time] = self.upstream.frontier

    def failing_step(self) -> str:
        """A step that ends the source; why."""
        self.world.step(self._ingestion)
        assert self._ingestion.status.health is Health.FAILED
        return str(self._ingestion.status.error)

    def restart(self) -> None:
        """Kill the server and start it again."""
        self.world.open()
        self._ingestion = self.world.ingestion(self.description, self.kinds)

    def crash(self, at: int) -> None:
        """Kill the server in a step, instead of its append of that number; and start it again."""
        seen = 0

        def here(_: Sequence[Any]) -> bool:
            nonlocal seen
            seen += 1
            return seen > at

        self.world.crash_at = here
        with contextlib.suppress(Crash):
            self.world.step(self._ingestion)
        self.world.crash_at = None
        self.restart()

    def compact(self) -> None:
        """Forget what was before the last time that is complete."""
        if self.bound:
            self.world.holds.allow_compaction(self.now)
            self.bound = {self.now: self.bound[self.now]}

    def rows(self, topic: str, time: int) -> Counter[tuple[Any, ...]]:
        """The contents at a time."""
        return self.world.contents(self.description.outputs[topic], time)

    def errors(self, topic: str, time: int) -> Counter[tuple[str, str]]:
        """What is wrong at a time."""
        return self.world.contents(self.description.errors[topic], time)

    def skipped(self, time: int) -> Counter[tuple[Any, ...]]:
        """The messages that are skipped at a time, without when they were bound."""
        assert self.description.skipping is not None
        found = self.world.contents(self.description.skipping.relation, time)
        return Counter({row[1:]: count for row, count in found.items()})

    @property
    def statistics(self) -> Statistics:
        """What the source has done since it was started."""
        return self._ingestion.report().statistics

    @property
    def now(self) -> int:
        """The last time that is complete."""
        return max(self.bound)
