"""COUNTER: 1, 2, 3 and so on, one at each tick; with a cardinality only the newest ones stay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from waterclock.model.schema import Column, Int, Schema
from waterclock.storage.sources.generators.api import Options, Piece, in_order, messages

NAME = "counter"
_ROWS = Schema((Column("counter", Int(64), nullable=False),))
_PIECE = 100_000


@dataclass(frozen=True, slots=True)
class Counter:
    """Implements `Generator`."""

    options: Options

    @property
    def outputs(self) -> Mapping[str, Schema]:
        return {NAME: _ROWS}

    @property
    def is_split(self) -> bool:
        return False

    @property
    def ticks_at_once(self) -> int:
        return 10_000_000

    @property
    def ends_at(self) -> int | None:
        return self.options.maximum

    def pieces(self, start: int, end: int) -> Iterable[Piece]:
        for first in range(start, end, _PIECE):
            last = min(first + _PIECE, end)
            yield Piece(NAME, first, last, last - first)

    def make(self, output: str, first: int, last: int) -> pa.RecordBatch:
        assert output == NAME
        offsets = np.arange(first, last)
        come = messages(_ROWS, [offsets + 1], offsets)
        kept = self.options.cardinality
        if kept is None:
            return come
        late = offsets[offsets >= kept]
        gone = messages(_ROWS, [late - kept + 1], late, np.full(len(late), -1))
        return in_order(pa.concat_batches([gone, come]))
