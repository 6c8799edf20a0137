"""Large reads on executors: ranges cut into slices, each read and decoded by one task.

A task reads its slice with a client of its own. What goes wrong in it is told to whoever asked,
which knows what to make of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

import pyarrow as pa

from waterclock.storage.formats.api import Decoding
from waterclock.storage.reclock.progress import Range
from waterclock.storage.sources.api import Executors, Messages
from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.kafka.reading import Parts, RangeReader, ReadBroken
from waterclock.storage.sources.kafka.settings import ClientSettings

SLICE = 50_000
"""Offsets per task."""


def cut(ranges: Sequence[Range], size: int = SLICE) -> tuple[Range, ...]:
    """The same ranges in pieces of at most that size, in their order."""
    return tuple(
        Range(each.partition, start, min(start + size, each.end))
        for each in ranges
        for start in range(each.start, each.end, size)
    )


@dataclass(frozen=True)
class _ReadSlice:
    """What a task does: the slice of that number."""

    settings: ClientSettings
    topic: str
    group: str
    parts: Parts
    decodings: tuple[Decoding, ...]
    slices: tuple[Range, ...]

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        reader = RangeReader(self.settings, self.topic, self.group, self.parts)
        try:
            for records in reader.read([self.slices[number]]):
                for decoding in self.decodings:
                    yield decoding.decode(records)
        except ReadBroken as error:
            raise TransientFault(str(error)) from None
        finally:
            reader.close()


def read_outside(
    executors: Executors,
    settings: ClientSettings,
    topic: str,
    group: str,
    parts: Parts,
    decodings: Mapping[str, Decoding],
    ranges: Sequence[Range],
) -> Iterator[Messages]:
    """The messages of the ranges, in order, for each of the outputs. Raises `ReadBroken`."""
    slices = cut(ranges)
    task = _ReadSlice(settings, topic, group, parts, tuple(decodings.values()), slices)
    outputs = cycle(decodings)  # a task gives the same records for each of them in turn
    try:
        for number, batch in executors.read(task, len(slices)):
            yield Messages(next(outputs), slices[number].partition, batch)
    except TransientFault as fault:
        raise ReadBroken(fault.message) from None
