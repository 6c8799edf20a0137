"""Rows that many clients get at the same time, encoded once.

All who subscribe to the same thing are handed the same batch, and want the same bytes of it. The
last few encodings are kept, by the batch itself and how it is encoded; whoever comes first pays.
Only small batches are kept, so what is held is little.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

import pyarrow as pa

from waterclock.pgwire.copy.encoding import CopyEncoder

_KEPT = 32
_MOST_ROWS = 1_000

Pieces = Sequence[tuple[int, memoryview]]


class SharedEncodings:
    """The last encodings of one server. It belongs to one event loop."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, CopyEncoder], tuple[pa.RecordBatch, Pieces]]
        self._kept = OrderedDict()

    def encode(
        self, encoder: CopyEncoder, batch: pa.RecordBatch
    ) -> Iterable[tuple[int, memoryview]]:
        """What `CopyEncoder.encode` gives."""
        if batch.num_rows > _MOST_ROWS:
            return encoder.encode(batch)
        key = (id(batch), encoder)  # the batch is kept too, so nothing else gets its id
        found = self._kept.get(key)
        if found is None:
            found = (batch, list(encoder.encode(batch)))
            self._kept[key] = found
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found[1]
