"""Which columns an arrangement has, and what it means to consolidate them.

A run has the columns `hash`, the operator's key columns, its value columns, `mz_timestamp`, and one
or more diff columns. The hash is that of the key columns alone: it decides where a row lies and
which partition owns it, never whether two rows are equal. Equal rows must have equal hashes. An
operator with a notion of its own of equal keys (zero and minus zero, say) gives the hashes itself.

All diff columns are 64-bit integers that add up. The plain arrangement has just `mz_diff`. A reduce
keeps its accumulators as further diff columns, so that consolidating is aggregating: updates with
the same key, values and time become one whose diffs are the sums, and it vanishes only if every sum
is zero. A sum beyond 64 bits wraps around; who could reach that splits the number over two columns.

A layout of the *latest* is for collections that have one row for each key at most, and are only
read as of their end. There an update says which row its key has from its time on, or, with a diff
below 0, that it has none, whatever its values are. So an update need not say what was there before,
and consolidating leaves the last update of each key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waterclock.persist.consolidate import last_of_equals, row_codes
from waterclock.persist.hashing import Hashes, hash_rows
from waterclock.persist.rows import DIFF, TIME

HASH = "hash"

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of an arrangement. Their names are distinct. The key may have none."""

    key: tuple[pa.Field, ...]
    values: tuple[pa.Field, ...]
    diffs: tuple[str, ...] = (DIFF,)
    latest: bool = False
    schema: pa.Schema = field(init=False, repr=False, compare=False)
    """The columns of a run: with the hash."""

    def __post_init__(self) -> None:
        assert self.diffs, "a layout needs a diff column"
        fields = [
            pa.field(HASH, pa.uint64(), nullable=False),
            *self.key,
            *self.values,
            pa.field(TIME, pa.int64(), nullable=False),
            *(pa.field(name, pa.int64(), nullable=False) for name in self.diffs),
        ]
        names = [column.name for column in fields]
        assert len(set(names)) == len(names), f"a column occurs twice among {names}"
        object.__setattr__(self, "schema", pa.schema(fields))

    @staticmethod
    def of(
        key: Mapping[str, pa.DataType],
        values: Mapping[str, pa.DataType],
        diffs: tuple[str, ...] = (DIFF,),
    ) -> Layout:
        """The layout with those nullable columns."""
        return Layout(_fields(key), _fields(values), diffs)

    @staticmethod
    def of_schema(
        schema: pa.Schema, key: Sequence[str], diffs: tuple[str, ...] = (DIFF,)
    ) -> Layout:
        """The layout of updates that have these columns, with or without the hash."""
        values = [f for f in schema if f.name not in (HASH, *key, TIME, *diffs)]
        return Layout(tuple(schema.field(name) for name in key), tuple(values), diffs)

    @property
    def row_names(self) -> list[str]:
        """The names of the key and value columns."""
        return [column.name for column in (*self.key, *self.values)]

    def arranged(self, updates: pa.Table) -> pa.Table:
        """The updates with this layout's columns, found by name, in its order.

        The hash is taken as given; if there is none, it is that of the key columns as they are.
        """
        names = updates.column_names
        given = {*names, HASH}
        assert given == set(self.schema.names), f"updates have the columns {sorted(given)}"
        columns = [updates[name] for name in self.schema.names if name in names]
        if HASH not in names:
            columns.insert(0, pa.chunked_array([self.hashes(updates)]))
        for have, want in zip(columns, self.schema, strict=True):
            assert have.type == want.type, f"{want.name} is of type {have.type}, not {want.type}"
            assert want.nullable or have.null_count == 0, f"null in column {want.name}"
        return pa.Table.from_arrays(columns, schema=self.schema)

    def hashes(self, rows: pa.Table | pa.RecordBatch) -> Hashes:
        """The hash of each row's key. The rows need no more than the key columns."""
        if rows.num_rows == 0:
            return np.zeros(0, dtype=np.uint64)
        columns = [_one_array(rows.column(column.name)) for column in self.key]
        return hash_rows(columns, rows.num_rows)

    def empty(self) -> pa.Table:
        return self.schema.empty_table()


def consolidated(updates: pa.Table, layout: Layout, *, since: int | None = None) -> pa.Table:
    """The same updates, each (key, values, time) once and none whose diffs are all 0.

    `updates` has the layout's columns and is sorted by hash; so is the result. Times below `since`
    advance to it first.

    Equal rows have equal hashes, so they are neighbours, and only rows that share their hash with a
    neighbour are compared. Where most keys occur once this costs little more than copying.

    In a layout of the latest, updates of one hash are in the order of their times.
    """
    if updates.num_rows == 0:
        return updates
    if layout.latest:
        keys = [_one_array(updates[column.name]) for column in layout.key]
        return updates.filter(pa.array(last_of_equals(keys, updates[HASH].to_numpy())))
    times = updates[TIME].to_numpy()
    if since is not None:
        times = np.maximum(times, since)
    diffs = np.stack([updates[name].to_numpy() for name in layout.diffs])
    shared = _shares_its_hash(updates[HASH].to_numpy())
    keep: npt.NDArray[np.bool_] = np.any(diffs != 0, axis=0)
    if shared.any():
        places = np.flatnonzero(shared)
        firsts, sums = _sums_of_equals(updates, layout, places, times, diffs)
        keep[places] = False
        keep[firsts[np.any(sums != 0, axis=0)]] = True
        diffs[:, firsts] = sums
    if not keep.all():
        kept = np.flatnonzero(keep)
        updates, times, diffs = updates.take(pa.array(kept)), times[kept], diffs[:, kept]
    rest = [updates.column(i) for i in range(1 + len(layout.row_names))]
    return pa.Table.from_arrays(
        [*rest, pa.array(times), *map(pa.array, diffs)], schema=layout.schema
    )


def _shares_its_hash(hashes: Hashes) -> npt.NDArray[np.bool_]:
    same = hashes[1:] == hashes[:-1]
    shared = np.zeros(len(hashes), dtype=np.bool_)
    shared[1:] = same
    shared[:-1] |= same
    return shared


def _sums_of_equals(
    updates: pa.Table, layout: Layout, places: Numbers, times: Numbers, diffs: Numbers
) -> tuple[Numbers, Numbers]:
    """For each distinct (key, values, time) at those places: its first place, and its sums."""
    rows = updates.select(layout.row_names)
    if len(places) < updates.num_rows:
        rows = rows.take(pa.array(places))
    codes = row_codes([*rows.columns, pa.array(times[places])], len(places))
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    sums = np.add.reduceat(diffs[:, places[order]], starts, axis=1)
    return places[order[starts]], sums


def _fields(columns: Mapping[str, pa.DataType]) -> tuple[pa.Field, ...]:
    return tuple(pa.field(name, kind) for name, kind in columns.items())


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
