"""Rows by key in memory, as upserts kept them before they kept them on disk: for comparison.

Rows are held as Arrow tables, and found by the hash of their key: a few *runs*, each with its
hashes in order, are searched for all keys at once. A row that is taken out is only marked; a run is
written anew, without such rows, when it is merged with the next one. Runs are merged so that each
is at least twice as long as the one after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waterclock.persist.consolidate import row_codes
from waterclock.persist.hashing import Hashes, hash_rows
from waterclock.persist.rows import DIFF
from waterclock.storage.formats.decoding import KEY
from waterclock.storage.sources.api import Messages

Ints = npt.NDArray[np.int64]
_MOST_BYTES = 1 << 30
"""Runs beyond this size are not merged: Arrow counts the bytes of texts in 32 bits."""


@dataclass(slots=True)
class _Run:
    """Some rows, and their places in the order of the hashes of their keys."""

    rows: pa.Table
    hashes: Hashes
    places: npt.NDArray[np.int32]
    is_live: npt.NDArray[np.bool_]
    """Of the rows, by place."""

    @classmethod
    def of(cls, rows: pa.Table, hashes: Hashes) -> _Run:
        order = np.argsort(hashes, kind="stable")
        places = order.astype(np.int32)  # Arrow's texts do not let a run be longer
        return cls(rows, hashes[order], places, np.ones(len(order), np.bool_))

    def live(self) -> tuple[pa.Table, Hashes]:
        """The rows that count, and their hashes."""
        if self.is_live.all():
            hashes = np.empty_like(self.hashes)
            hashes[self.places] = self.hashes
            return self.rows, hashes
        kept = self.is_live[self.places]
        places = self.places[kept]
        return self.rows.take(pa.array(places)), self.hashes[kept]


class KeyedRows:
    """Rows of which no two have the same key: that is, the first columns."""

    def __init__(self, schema: pa.Schema, key_columns: int) -> None:
        self._schema = schema
        self._key_columns = key_columns
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return sum(int(run.is_live.sum()) for run in self._runs)

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        return sum(
            run.rows.nbytes + run.hashes.nbytes + run.places.nbytes + run.is_live.nbytes
            for run in self._runs
        )

    def put(self, rows: pa.Table) -> None:
        """Add rows whose keys are not there."""
        if not rows.num_rows:
            return
        rows = rows.combine_chunks()
        hashes = hash_rows(_columns(rows, self._key_columns), rows.num_rows)
        self._runs.append(_Run.of(rows, hashes))
        while len(self._runs) > 1 and self._is_to_merge(*self._runs[-2:]):
            self._merge_last()

    @staticmethod
    def _is_to_merge(one: _Run, other: _Run) -> bool:
        small = one.rows.nbytes + other.rows.nbytes < _MOST_BYTES
        return small and len(one.is_live) < 2 * len(other.is_live)

    def _merge_last(self) -> None:
        pieces = [run.live() for run in self._runs[-2:]]
        rows = pa.concat_tables([table for table, _ in pieces]).combine_chunks()
        merged = _Run.of(rows, np.concatenate([hashes for _, hashes in pieces]))
        self._runs[-2:] = [merged] if rows.num_rows else []

    def take(self, keys: pa.Table) -> pa.Table:
        """Take out the rows with these keys, of which no two are the same; give those found."""
        found = [self._schema.empty_table()]
        if keys.num_rows:
            columns = _columns(keys.combine_chunks(), self._key_columns)
            hashes = hash_rows(columns, keys.num_rows)
            for run in self._runs:
                places = self._found(run, columns, hashes)
                run.is_live[places] = False
                found.append(run.rows.take(pa.array(places)))
        return pa.concat_tables(found)

    def _found(self, run: _Run, keys: Sequence[pa.Array], hashes: Hashes) -> Ints:
        """The places of live rows in the run with such keys."""
        first = np.searchsorted(run.hashes, hashes, "left")
        counts = np.searchsorted(run.hashes, hashes, "right") - first
        asked = np.repeat(np.arange(len(hashes)), counts)
        before = np.cumsum(counts) - counts
        at = np.arange(len(asked)) - np.repeat(before, counts) + np.repeat(first, counts)
        places: Ints = run.places[at].astype(np.int64)
        live = run.is_live[places]
        asked, places = asked[live], places[live]
        if not len(places):
            return places
        here = _columns(run.rows.select(range(self._key_columns)).take(pa.array(places)))
        both = [
            pa.concat_arrays([key.take(pa.array(asked)), held])
            for key, held in zip(keys, here, strict=True)
        ]
        codes = row_codes(both, 2 * len(places))
        same: Ints = places[codes[: len(places)] == codes[len(places) :]]
        return same


def _columns(table: pa.Table, count: int | None = None) -> list[pa.Array]:
    """The first columns, each in one piece."""
    found = []
    for column in table.columns[:count]:
        chunks = column.chunks
        whole = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else None
        found.append(pa.array([], column.type) if whole is None else whole)
    return found


class UpsertInMemory:
    """What the envelope did for messages without errors."""

    def __init__(self, schema: pa.Schema, key_columns: int) -> None:
        self._schema = schema
        self._key_columns = key_columns
        self._held = KeyedRows(schema, key_columns)

    def changes(self, messages: Sequence[Messages]) -> list[pa.RecordBatch]:
        table = pa.Table.from_batches([each.batch for each in messages]).combine_chunks()
        keys = [*table.columns[: self._key_columns], table.column(KEY)]
        codes = row_codes(keys, table.num_rows)
        _, from_the_end = np.unique(codes[::-1], return_index=True)
        table = table.take(pa.array(np.sort(len(codes) - 1 - from_the_end)))
        is_set = np.asarray(table.column(DIFF)) > 0
        rows = table.select(range(len(self._schema))).cast(self._schema)
        gone = self._held.take(rows)
        new = rows if is_set.all() else rows.filter(pa.array(is_set))
        self._held.put(new)
        return [*_with_diff(gone, -1), *_with_diff(new, 1)]


def _with_diff(rows: pa.Table, diff: int) -> list[pa.RecordBatch]:
    diffs = pa.repeat(pa.scalar(diff, pa.int64()), rows.num_rows)
    return list(rows.append_column(DIFF, diffs).to_batches())
