"""The contents of a collection of storage at one time.

A source may retract what was never there, and views over it then hold rows a negative number of
times. Operators that count notice it, and report it as an error of their view. What looks at each
row alone passes it on, and has no state to notice it by; so it is noticed here, when it is read.
The time at which that is so has no contents, whichever way they are read; one at which it is made
good has.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.compute.errors import ReadCancelled
from waterclock.compute.kernels.codes import Codes, numbers
from waterclock.compute.kernels.errors import value_text
from waterclock.model.errors import NegativeMultiplicity
from waterclock.model.ids import GlobalId
from waterclock.persist.consolidate import consolidate
from waterclock.persist.rows import DIFF, TIME
from waterclock.storage.api import Progress, ReadCapability, Updates
from waterclock.storage.controller import Storage

_PATIENCE_S = 0.05


def contents_at(
    storage: Storage,
    capability: ReadCapability,
    time: int,
    schema: pa.Schema,
    *,
    condition: pc.Expression | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> pa.Table:
    """The rows at a time that the capability holds, each as often as it is there.

    `schema` has the columns wanted. Waits until the time is complete. Raises `ReadCancelled` if it
    was cancelled before.
    """
    subscription = storage.subscribe_at(
        capability,
        as_of=capability.frontier.timeline.frontier(time),
        columns=schema.names,
        condition=condition,
    )
    stamped = pa.schema([*schema, (TIME, pa.int64()), (DIFF, pa.int64())])
    found = [stamped.empty_table()]
    try:
        while not is_cancelled():
            match subscription.receive(_PATIENCE_S):
                case Updates(batch):
                    table = pa.Table.from_batches([batch])
                    found.append(table.filter(pc.less_equal(table[TIME], time)).cast(stamped))
                case Progress():
                    return rows_of(pa.concat_tables(found), time)
                case None:
                    continue
        raise ReadCancelled(f"reading collection {capability.id} was cancelled")
    finally:
        subscription.close()


def stored_at(
    storage: Storage, collection: GlobalId, time: int, columns: pa.Schema
) -> pa.Table | None:
    """The updates, all moved to the time, that make up what is stored of a collection then.

    None if the time can not be read any more. `columns` are those of the updates; the time must be
    complete.
    """
    reader, _ = storage.acquire_capabilities(collection, write=False)
    since = reader.frontier.only()
    if since is None:
        return None
    try:
        if since > time:
            return None
        as_of = reader.frontier.timeline.frontier(time)
        subscription = storage.subscribe_at(reader, as_of=as_of)
        found = [columns.empty_table()]
        try:
            while isinstance(message := next(subscription), Updates):
                table = pa.Table.from_batches([message.batch])
                found.append(table.filter(pc.less_equal(table[TIME], time)).cast(columns))
        finally:
            subscription.close()
        return consolidate(pa.concat_tables(found), since=time)
    finally:
        storage.drop_capability(reader)


def lacking(stored: pa.Table, computed: pa.Table | None, time: int) -> pa.Table:
    """What has to happen at a time for stored updates to become the computed ones."""
    place = stored.schema.get_field_index(DIFF)
    gone = stored.set_column(place, stored.schema.field(place), pc.negate(stored[DIFF]))
    parts = [gone] if computed is None else [gone, computed.cast(stored.schema)]
    return consolidate(pa.concat_tables(parts), since=time)


def rows_of(updates: pa.Table, time: int) -> pa.Table:
    """The rows that updates up to a time leave, or `NegativeMultiplicity`."""
    diffs = numbers(updates, DIFF)
    if not (diffs > 0).all():  # else nothing can cancel
        updates = consolidate(updates, since=time)
        diffs = numbers(updates, DIFF)
    rows = updates.drop_columns([TIME, DIFF])
    if (diffs == 1).all():
        return rows
    if (diffs < 0).any():
        raise _owed_row(rows, diffs, time)
    return rows.take(pa.array(np.repeat(np.arange(len(diffs)), diffs)))


def _owed_row(rows: pa.Table, diffs: Codes, time: int) -> NegativeMultiplicity:
    place = int(np.argmin(diffs))
    row = ", ".join(value_text(column[place]) for column in rows.columns)
    return NegativeMultiplicity(
        "collection holds some row a negative number of times",
        detail=f"At time {time} it holds the row ({row}) {diffs[place]} times.",
        hint="A source has retracted a row that was not there.",
    )
