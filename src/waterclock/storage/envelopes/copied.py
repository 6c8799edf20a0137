"""The rows of a first copy that are here already, as digests on disk.

While a table is copied for the first time, a copy that was begun again brings rows a second time.
Whether a row is here is asked of its digest, sixteen bytes long. The digests of all contents are
kept (`keyed`) from the first copied row until the copy is over; then they are removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waterclock.persist.arrangement.writing import ascending_hashes
from waterclock.persist.hashing import hash_rows
from waterclock.persist.rows import DIFF
from waterclock.storage.envelopes.keyed import HashedRows, KeyedRows
from waterclock.storage.sources.api import Standing

Mask = npt.NDArray[np.bool_]
Digests = npt.NDArray[np.uint64]
"""Two numbers for each row."""
_SCHEMA = pa.schema([("high", pa.uint64()), ("low", pa.uint64())])


class CopiedRows:
    """The digests of all rows there are. One thread at a time."""

    def __init__(self) -> None:
        self._held = KeyedRows(_SCHEMA, len(_SCHEMA))
        self._is_open = False

    @property
    def is_open(self) -> bool:
        """Whether anything is known of the rows."""
        return self._is_open

    def open(self, standing: Standing, columns: int) -> None:
        """Know the rows that are durable, which have so many columns."""

        def contents() -> Iterator[pa.RecordBatch]:
            for batch in standing.rows():
                rows = _table(digests(batch.columns[:columns], batch.num_rows)).columns
                ones = pa.array(np.ones(batch.num_rows, np.int64))
                names = [*_SCHEMA.names, DIFF]
                yield from pa.Table.from_arrays([*rows, ones], names).to_batches()

        self._held.open(standing.state, contents)
        self._is_open = True

    def known(self, asked: Digests) -> Mask:
        """Which of these rows are here."""
        keys, order = self._hashed(asked)
        found = np.empty(len(order), np.bool_)
        found[order] = self._held.has(keys)
        return found

    def change(self, changed: Digests, diffs: npt.NDArray[np.int64]) -> None:
        """Rows came and went, all at once."""
        order = np.lexsort((changed[:, 1], changed[:, 0]))
        ordered = changed[order]
        is_first = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
        sums = np.add.reduceat(diffs[order], np.flatnonzero(is_first))
        if sums.any():
            keys, by_hash = self._hashed(ordered[is_first][sums != 0])
            self._held.write(keys, (sums[sums != 0] > 0)[by_hash])

    def _hashed(self, given: Digests) -> tuple[HashedRows, npt.NDArray[np.int64]]:
        rows = _table(given)
        hashes = self._held.hashes(rows)
        order = ascending_hashes(hashes)
        return HashedRows(rows.take(pa.array(order)), hashes[order]), order

    def record(self) -> bytes | None:
        """What the log is to say of the digests."""
        return self._held.record if self._is_open else None

    def settle(self) -> None:
        """All changes that were given are durable."""
        if self._is_open:
            self._held.settle()

    def close(self) -> None:
        """Let go of the digests; they stay as they are."""
        self._held.close()
        self._is_open = False

    def remove(self) -> None:
        """Nobody will ask for them any more."""
        self._held.remove()
        self._is_open = False


def digests(columns: Sequence[pa.Array], length: int) -> Digests:
    """Sixteen bytes for each row, the same for the same values."""
    salt = pa.repeat(pa.scalar(1, pa.int64()), length)
    return np.stack([hash_rows(columns, length), hash_rows([salt, *columns], length)], axis=1)


def digest_bytes(given: Digests) -> list[bytes]:
    """Each digest by itself."""
    data = given.astype("<u8").tobytes()
    return [data[i : i + 16] for i in range(0, len(data), 16)]


def _table(given: Digests) -> pa.Table:
    return pa.Table.from_arrays([pa.array(given[:, 0]), pa.array(given[:, 1])], schema=_SCHEMA)
