"""Reading an index: rows of an arrangement at a time, without a Spark job.

The arrangement holds updates, sorted by the hash of the key, in files that are mapped into memory.
The contents at a time are the sums of the diffs up to it. Looking keys up touches only their rows;
anything else reads all of them, vectorised.

A row that is there three times comes three times. One whose sum is negative is an error of the data
at that time (see `snapshot`).

The frontiers of an index are durable, its rows are not: while they are computed again after a loss,
a reader waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from waterclock.compute.catalyst.types import column_name
from waterclock.compute.errors import IndexBehind
from waterclock.compute.kernels.codes import numbers
from waterclock.compute.kernels.groups import Groups
from waterclock.compute.kernels.keys import key_columns, key_hashes
from waterclock.compute.peek import Peek, Shown, is_plain
from waterclock.compute.snapshot import rows_of
from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.arrangement.trace import Trace
from waterclock.persist.rows import DIFF, TIME

_PATIENCE_S = 60.0


def _is_plain(column: pa.ChunkedArray) -> bool:
    """Whether equal keys are just what Arrow takes for equal: no null, and nothing with NaN."""
    kind = column.type
    return not (column.null_count or pa.types.is_floating(kind) or pa.types.is_nested(kind))


@dataclass(frozen=True, slots=True)
class Index:
    """The rows of a result, arranged under some of its columns."""

    columns: pa.Schema
    """The row's columns, under the names that the result has for them."""
    keys: tuple[str, ...]
    arrangement: Arrangement

    def at(self, time: int, wanted: pa.Table | None = None) -> pa.Table:
        """The rows at a time below the upper and not before since; only those with a wanted key.

        `wanted` has the key columns, by name. A null in it finds nulls.
        """
        if not self.arrangement.wait_beyond(time, _PATIENCE_S):
            raise IndexBehind(
                f"the index does not reach time {time} yet",
                detail="Its rows are being computed.",
                hint="Try again later.",
            )
        inside = dict(zip(self.columns.names, self._stored_names(), strict=True))
        with self.arrangement.trace() as trace:
            if wanted is None:
                batches = list(trace.scan())
                found = pa.Table.from_batches(batches, trace.layout.schema)
            else:
                found = self._found(trace, wanted, [inside[key] for key in self.keys])
            if (numbers(found, TIME) > time).any():
                found = found.filter(pc.less_equal(found[TIME], time))
            return self._rows(found, time)

    def peek(self) -> Peek:
        """What the index holds now, for a look at single keys (see there)."""
        return Peek(*self.arrangement.glance())

    def shown(self, columns: Sequence[str]) -> Shown | None:
        """How a peek shows these columns of a row; None if it can not: a key is no plain one, or
        a column is stored in another type, or not at all.
        """
        layout = self.arrangement.layout
        inside = dict(zip(self.columns.names, self._stored_names(), strict=True))
        asked = [*self.keys, *columns]
        if not inside.keys() >= set(asked):
            return None
        wanted = [self.columns.field(name).type for name in asked]
        if [layout.schema.field(inside[name]).type for name in asked] != wanted:
            return None
        if not all(is_plain(kind) for kind in wanted[: len(self.keys)]):
            return None
        assert [key.name for key in layout.key] == [inside[key] for key in self.keys]
        places = tuple(layout.schema.get_field_index(inside[name]) for name in columns)
        kinds = wanted[len(self.keys) :]
        return Shown(places, pa.schema([(f"c{n}", kind) for n, kind in enumerate(kinds)]))

    def _found(self, trace: Trace, wanted: pa.Table, names: list[str]) -> pa.Table:
        """The updates of the wanted keys.

        They are looked for in the types that the arrangement has them in: the same value in another
        type, such as a UUID of 16 bytes as bytes of any number, has another hash.
        """
        stored = pa.schema([self.arrangement.layout.schema.field(name) for name in names])
        keys = wanted.select(list(self.keys)).rename_columns(names).cast(stored)
        if len(names) > 1 or keys.num_rows > 1 or not _is_plain(keys[names[0]]):
            return Groups.of(keys, names).state(trace)[0]
        # One value: what groups are made of is worth more than a look at a few rows.
        column = key_columns(keys, names)
        found = trace.lookup(key_hashes(column, 1))
        return found.filter(pc.equal(found[names[0]], column[0][0]))

    def _stored_names(self) -> list[str]:
        """What the columns are called in the arrangement, which has the keys in front."""
        return [column_name(place) for place in range(len(self.columns))]

    def _rows(self, updates: pa.Table, time: int) -> pa.Table:
        names = self._stored_names()
        rows = rows_of(updates.select([*names, TIME, DIFF]), time)
        rows = rows.rename_columns(self.columns.names)
        return rows if rows.schema.equals(self.columns) else rows.cast(self.columns)
