"""Reading an index: rows of an arrangement at a time, without a Spark job.

The arrangement holds updates, sorted by the hash of the key, in files that are mapped into memory.
The contents at a time are the sums of the diffs up to it. Looking keys up touches only their rows;
anything else reads all of them, vectorised.

A row that is there three times comes three times. A negative sum is an error of the data, which the
view's errors report; such a row is left out here.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from waterclock.compute.arrangement.arrangement import Arrangement
from waterclock.compute.catalyst.types import column_name
from waterclock.compute.kernels.groups import Groups
from waterclock.compute.snapshot import rows_of
from waterclock.persist.rows import DIFF, TIME


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
        assert time < self.arrangement.upper, f"{time} is not complete yet"
        inside = dict(zip(self.columns.names, self._stored_names(), strict=True))
        with self.arrangement.trace() as trace:
            if wanted is None:
                batches = list(trace.scan())
                found = pa.Table.from_batches(batches, trace.layout.schema)
            else:
                keys = pa.table({inside[key]: wanted[key] for key in self.keys})
                groups = Groups.of(keys, [inside[key] for key in self.keys])
                found, _ = groups.state(trace)
            return self._rows(found.filter(pc.less_equal(found[TIME], time)), time)

    def _stored_names(self) -> list[str]:
        """What the columns are called in the arrangement, which has the keys in front."""
        return [column_name(place) for place in range(len(self.columns))]

    def _rows(self, updates: pa.Table, time: int) -> pa.Table:
        names = self._stored_names()
        rows = rows_of(updates.select([*names, TIME, DIFF]), time)
        return rows.rename_columns(self.columns.names).cast(self.columns)
