"""What a remap collection looks like for a kind of source, and its rows.

Each kind names its gauge of progress in its own words: Kafka has a partition and an offset,
PostgreSQL an LSN. The collection holds these columns; `mz_timestamp`, which progress relations show
first, is the time of the read and is not stored.

An offset that does not fit 64 bits is held as text, exactly: its decimal digits without leading
zeros, so that the shorter text is the smaller number, and of two that are equally long the one that
sorts first. `END` stands for the end of a partition that has one. Where a source has partitions of
several topics, a partition is called `topic/number` by connectors, and shown as topic and number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from waterclock.model.schema import Column, Int, Schema, Text
from waterclock.persist.rows import updates as update_rows
from waterclock.storage.reclock.progress import Partition
from waterclock.storage.reclock.remap import Element, RemapUpdate

END = 10**129
"""The offset of a partition after which nothing comes any more, where it is held as text: beyond
all numbers that services use."""


@dataclass(frozen=True, slots=True)
class ProgressShape:
    """The columns of a kind's remap, and whether partitions may appear while it runs.

    `end` is what is shown for `END`.
    """

    offset: Column
    partition: Column | None = None
    more_may_appear: bool = False
    topic: Column | None = None
    end: str | None = None

    @property
    def counts_offsets(self) -> bool:
        """Whether sums of offsets say how much there is."""
        return not isinstance(self.offset.type, Text)

    @property
    def schema(self) -> Schema:
        columns = (self.topic, self.partition, self.offset)
        return Schema(tuple(column for column in columns if column is not None))

    def rows(self, given: Sequence[RemapUpdate]) -> pa.RecordBatch:
        """The updates as storage takes them."""
        return update_rows(self.schema, [(self.row(u.element), u.time, u.diff) for u in given])

    def updates(self, batches: Iterable[pa.RecordBatch]) -> list[RemapUpdate]:
        """The updates that storage gave."""
        found = []
        for batch in batches:
            *columns, times, diffs = (column.to_pylist() for column in batch.columns)
            for row, time, diff in zip(zip(*columns, strict=True), times, diffs, strict=True):
                found.append(RemapUpdate(self._element(row), time, diff))
        return found

    def row(self, element: Element) -> tuple[Any, ...]:
        """An offset of a partition, in these columns."""
        offset = element.offset if self.counts_offsets else self._text(element.offset)
        if self.topic is not None:
            topic, number = topic_partition(element.partition)
            return (topic, number, offset)
        return (offset,) if self.partition is None else (element.partition, offset)

    def _element(self, row: tuple[Any, ...]) -> Element:
        partition: Partition = None if self.partition is None else row[0]
        if self.topic is not None:
            partition = partition_of(row[0], row[1])
        return Element(partition, END if row[-1] == self.end else int(row[-1]))

    def _text(self, offset: int) -> str:
        assert offset <= END, "END is beyond all offsets"
        return self.end if self.end is not None and offset == END else str(offset)


def partition_of(topic: str, number: int) -> Partition:
    """What a partition of one of several topics is called. No topic has a slash in its name."""
    return f"{topic}/{number}"


def topic_partition(partition: Partition) -> tuple[str, int]:
    """The topic and the number in it."""
    assert isinstance(partition, str), "partitions of several topics have names"
    topic, _, number = partition.rpartition("/")
    return topic, int(number)


def _column(name: str, held: Int | Text) -> Column:
    return Column(name, held, nullable=False)


KAFKA = ProgressShape(_column("offset", Int(64)), _column("partition", Int(32)), True)
KAFKA_TOPICS = ProgressShape(KAFKA.offset, KAFKA.partition, True, _column("topic", Text()))
KINESIS = ProgressShape(
    _column("sequence_number", Text()), _column("shard_id", Text()), True, end="SHARD_END"
)
POSTGRES = ProgressShape(_column("lsn", Int(64)))
PUBNUB = ProgressShape(_column("timetoken", Int(64)), _column("region", Int(64)), True)
S3 = ProgressShape(_column("byte_offset", Int(64)), Column("key", Text()), True)
"""Without a key: the bytes of all objects that are complete and have no row of their own."""
LOAD_GENERATOR = ProgressShape(_column("offset", Int(64)))
