"""What a load generator is: rows as a pure function of a seed and of offsets.

Offset n is what happens at the n-th tick, a transaction over all outputs. Because rows depend on
nothing else, any range can be made at any time, anywhere, again and in parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np
import pyarrow as pa

from waterclock.model.schema import Schema
from waterclock.storage.sources.api import message_schema
from waterclock.storage.sources.generators.draws import Ints


class Options(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a generator is asked for. `maximum` is the number of ticks after which it ends."""

    kind: str
    tick_ms: float
    created_ms: int
    seed: int = 0
    maximum: int | None = None
    cardinality: int | None = None
    scale: float = 0.01


@dataclass(frozen=True, slots=True)
class Piece:
    """Some of the rows of one output in a range of offsets.

    `first` and `last` are for the generator to understand; `rows` is about how many there are.
    """

    output: str
    first: int
    last: int
    rows: int


class Generator(Protocol):
    """Makes rows. Implementations are picklable values."""

    @property
    def outputs(self) -> Mapping[str, Schema]: ...

    @property
    def is_split(self) -> bool:
        """Whether its outputs are subsources, rather than the one content of the source itself."""
        ...

    @property
    def ticks_at_once(self) -> int:
        """How many ticks may be bound together, so that one binding is not too large."""
        ...

    @property
    def ends_at(self) -> int | None:
        """The offset at which it ends, if it does."""
        ...

    def pieces(self, start: int, end: int) -> Iterable[Piece]:
        """The range of offsets in pieces, which can be made independently of each other."""
        ...

    def make(self, output: str, first: int, last: int) -> pa.RecordBatch:
        """The rows of a piece, as messages (`message_schema`), in the order of their offsets."""
        ...


def messages(
    rows: Schema, columns: Iterable[object], offsets: Ints, diffs: Ints | None = None
) -> pa.RecordBatch:
    """Columns with the offsets and diffs of their rows, which are insertions by default."""
    schema = message_schema(rows)
    given = [*columns, offsets, np.ones(len(offsets), np.int64) if diffs is None else diffs]
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(given, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def in_order(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Messages in the order of their offsets; at one offset, what goes before what comes."""
    *_, offset, diff = batch.schema.names
    return batch.sort_by([(offset, "ascending"), (diff, "ascending")])
