"""From the rows of a SUBSCRIBE with progress to changes that are complete up to a time.

A row either says that something changed at a time, or that everything before a time has been told.
Rows are held until that is known of their time.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from waterclock.client.api import Changes
from waterclock.client.numbers import decimals

TIME, DIFF, PROGRESSED = "mz_timestamp", "mz_diff", "mz_progressed"


class Pending:
    """What has been told and is not complete yet."""

    def __init__(self, columns: pa.Schema) -> None:
        """`columns` are those of the subscription, `mz_progressed` among them."""
        self._columns = [name for name in columns.names if name not in (TIME, DIFF, PROGRESSED)]
        self._updates = self._projected(columns.empty_table())

    def add(self, rows: pa.Table) -> Iterator[Changes]:
        """Take further rows; the changes that are complete by them."""
        start = 0
        progress = pc.indices_nonzero(rows[PROGRESSED].combine_chunks()).to_pylist()
        for place in progress:
            self._take(rows.slice(start, place - start))
            yield self._before(int(rows[TIME][place].as_py()))
            start = place + 1
        self._take(rows.slice(start))

    def _take(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._updates = pa.concat_tables([self._updates, self._projected(rows)])

    def _projected(self, rows: pa.Table) -> pa.Table:
        return rows.select([TIME, DIFF, *self._columns])

    def _before(self, upper: int) -> Changes:
        known = pc.less(self._updates[TIME], upper)
        done, self._updates = (
            self._updates.filter(known),
            self._updates.filter(pc.invert(known)),
        )
        return Changes(decimals(done.combine_chunks()), upper)
