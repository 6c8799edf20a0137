"""What a kernel needs of an arrangement: all rows filed under some hashes.

An arrangement is the state of an operator: updates with a `hash` column in front (that of the row's
key), then the row's columns, `mz_timestamp`, and one or several diff columns. The diff columns add
up; for most operators there is just `mz_diff`, for a reduce they are its accumulators.

Everything in a trace lies before the window of the step, so its times tell a kernel nothing: it
adds the diffs of a row up and takes the sum as what was there when the window began.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from waterclock.compute.kernels.codes import (
    dense_rows,
    first_places,
    flat,
    numbers,
    spread,
    sums,
    unique,
)
from waterclock.persist.hashing import Hashes
from waterclock.persist.rows import DIFF, TIME

HASH = "hash"


class Trace(Protocol):
    """The state of an operator before the window of a step."""

    def lookup(self, hashes: Hashes) -> pa.Table:
        """All stored updates whose key hash is among those given, each once, in any order.

        The hashes may repeat and come in any order. Rows of other keys with the same hash are
        there too, and updates of a row need not be added up. No match gives an empty table with all
        the columns.
        """
        ...

    def lookup_range(self, low: int, high: int) -> pa.Table:
        """All stored updates whose key hash is at least `low` and below `high`, in any order."""
        ...

    @property
    def num_rows(self) -> int:
        """How many updates are stored."""
        ...

    def everything(self) -> pa.Table:
        """All stored updates, in any order."""
        ...


def row_names(table: pa.Table | pa.Schema) -> list[str]:
    """The columns of the row: neither hash nor time nor `mz_diff`."""
    names = table.names if isinstance(table, pa.Schema) else table.column_names
    return [name for name in names if name not in (HASH, TIME, DIFF)]


def arranged(table: pa.Table, hashes: Hashes) -> pa.Table:
    """The updates with the hashes of their keys in front."""
    return table.add_column(0, pa.field(HASH, pa.uint64(), nullable=False), pa.array(hashes))


def arranged_schema(updates: pa.Schema) -> pa.Schema:
    """The schema of an arrangement of such updates."""
    return updates.insert(0, pa.field(HASH, pa.uint64(), nullable=False))


class MemoryTrace:
    """A trace in memory, for tests and for state that is small.

    It holds runs sorted by hash. An insert adds a run and merges from the right while a run is not
    at least twice as large as the next, so there are logarithmically many. A merge adds up the
    diffs of equal rows, whatever their times, and forgets rows whose diffs are all zero.
    """

    def __init__(self, schema: pa.Schema, diffs: Sequence[str] = (DIFF,)) -> None:
        assert schema.names[0] == HASH
        self._schema = schema
        self._diffs = tuple(diffs)
        self._runs: list[tuple[Hashes, pa.Table]] = []

    @property
    def num_rows(self) -> int:
        return sum(table.num_rows for _, table in self._runs)

    def insert(self, rows: pa.Table) -> None:
        """Add updates with the columns of the arrangement."""
        if rows.num_rows == 0:
            return
        self._runs.append(_sorted_run(rows.cast(self._schema)))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            last, before = self._runs.pop(), self._runs.pop()
            merged = self._added_up(pa.concat_tables([before[1], last[1]]))
            if merged.num_rows:
                self._runs.append(_sorted_run(merged))

    def lookup(self, hashes: Hashes) -> pa.Table:
        wanted = unique(hashes)
        found = [self._schema.empty_table()]
        for stored, table in self._runs:
            starts = np.searchsorted(stored, wanted, side="left")
            lengths = np.searchsorted(stored, wanted, side="right") - starts
            found.append(table.take(pa.array(spread(starts, lengths))))
        return pa.concat_tables(found)

    def lookup_range(self, low: int, high: int) -> pa.Table:
        found = [self._schema.empty_table()]
        for stored, table in self._runs:
            start, stop = np.searchsorted(stored, np.array([low, high], dtype=np.uint64))
            found.append(table.slice(start, stop - start))
        return pa.concat_tables(found)

    def everything(self) -> pa.Table:
        return pa.concat_tables([self._schema.empty_table(), *(table for _, table in self._runs)])

    def _added_up(self, table: pa.Table) -> pa.Table:
        same = [n for n in table.column_names if n != TIME and n not in self._diffs]
        codes, count = dense_rows([flat(table[name]) for name in same], table.num_rows)
        totals = [sums(codes, numbers(table, name), count) for name in self._diffs]
        kept = np.any(totals, axis=0)
        table = table.take(pa.array(first_places(codes, count)[kept]))
        for name, total in zip(self._diffs, totals, strict=True):
            at = table.schema.get_field_index(name)
            table = table.set_column(at, table.schema.field(at), pa.array(total[kept]))
        return table


def _sorted_run(table: pa.Table) -> tuple[Hashes, pa.Table]:
    table = table.combine_chunks()
    hashes = flat(table[HASH]).to_numpy()
    order = np.argsort(hashes)
    return hashes[order], table.take(pa.array(order))
