"""Large reads on executors: ranges cut into slices, each read and decoded by one task.

A task reads its slice with a client of its own and sends the messages back as Arrow's stream format
in one value, so that no type has to be known to Spark. What goes wrong in it comes back as a text:
whoever asked knows what to make of it, and a task that fails would be tried again in vain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from waterclock.storage.formats.api import Decoding
from waterclock.storage.reclock.progress import Range
from waterclock.storage.sources.api import Executors
from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.kafka.reading import Parts, RangeReader, ReadBroken
from waterclock.storage.sources.kafka.settings import ClientSettings

SLICE = 50_000
"""So many offsets are one task's."""
_RESULT = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("messages", pa.binary()),
        pa.field("fault", pa.string()),
    ]
)


def cut(ranges: Sequence[Range], size: int = SLICE) -> tuple[Range, ...]:
    """The same ranges in pieces of at most that size, in their order."""
    return tuple(
        Range(each.partition, start, min(start + size, each.end))
        for each in ranges
        for start in range(each.start, each.end, size)
    )


@dataclass(frozen=True)
class _ReadSlice:
    """What a task does: slice number `first`."""

    settings: ClientSettings
    topic: str
    group: str
    parts: Parts
    decoding: Decoding
    slices: tuple[Range, ...]

    def __call__(self, first: int, last: int) -> pa.RecordBatch:
        assert last == first + 1
        wanted = self.slices[first]
        stream, fault = None, None
        try:
            stream = self._read(wanted)
        except ReadBroken as error:
            fault = str(error)
        except TransientFault as error:
            fault = error.message
        columns = [[wanted.partition], [stream], [fault]]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, _RESULT, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_RESULT)

    def _read(self, wanted: Range) -> bytes:
        reader = RangeReader(self.settings, self.topic, self.group, self.parts)
        sink = pa.BufferOutputStream()
        try:
            with pa.ipc.new_stream(sink, self.decoding.messages) as writer:
                for records in reader.read([wanted]):
                    writer.write_batch(self.decoding.decode(records))
        finally:
            reader.close()
        found: bytes = sink.getvalue().to_pybytes()
        return found


def read_outside(
    executors: Executors,
    settings: ClientSettings,
    topic: str,
    group: str,
    parts: Parts,
    decoding: Decoding,
    ranges: Sequence[Range],
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The messages of the ranges with their partitions, in order. Raises `ReadBroken`."""
    slices = cut(ranges)
    task = _ReadSlice(settings, topic, group, parts, decoding, slices)
    numbers = [(number, number + 1) for number in range(len(slices))]
    for batch in executors.run(task, numbers, _RESULT):
        for row in batch.to_pylist():
            if row["fault"] is not None:
                raise ReadBroken(row["fault"])
            for messages in pa.ipc.open_stream(row["messages"]):
                yield row["partition"], messages
