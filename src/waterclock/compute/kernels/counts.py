"""Operators that look at one number: how often a row is there.

The state is the count of each row; the group of a row is the row itself, with floats normalised.
The output's count is a function of the input's, and an error holds while the input's is below zero.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from waterclock.compute.kernels.codes import Codes, numbers
from waterclock.compute.kernels.errors import NEGATIVE, NO_ERRORS, error_updates
from waterclock.compute.kernels.groups import Groups, Slots
from waterclock.compute.kernels.step import Step
from waterclock.compute.kernels.trace import Trace, arranged, arranged_schema, row_names
from waterclock.persist.rows import DIFF, TIME


def map_counts(
    delta: pa.Table,
    trace: Trace,
    shown: Callable[[Codes], Codes],
    *,
    expect_negative: bool = False,
) -> Step:
    """One step of the operator whose output has each row as often as `shown` says of its count.

    `shown` must give 0 for counts of 0 and below, which are no error if they are expected. The
    arrangement's columns are those of the delta with the hash of the whole row in front.
    """
    if delta.num_rows == 0:
        return Step(delta, arranged_schema(delta.schema).empty_table(), NO_ERRORS)
    groups = Groups.of(delta, row_names(delta))
    slots = Slots.of(groups.of_delta, groups.count, numbers(delta, TIME))
    changes = slots.changes(numbers(delta, DIFF))
    state, state_group = groups.state(trace)
    totals = slots.totals(changes, state_group, numbers(state, DIFF))
    counts = shown(totals)
    emitted = np.zeros_like(counts)
    later = slots.later
    emitted[later] = counts[later] - counts[later - 1]
    added = np.flatnonzero(changes)
    owed = np.zeros_like(totals) if expect_negative else (totals < 0).astype(np.int64)
    return Step(
        _rows(delta.schema, groups, slots, emitted),
        arranged(_rows(delta.schema, groups, slots, changes), groups.hashes[slots.group[added]]),
        error_updates(groups.keys, slots, owed, [NEGATIVE]),
    )


def _rows(schema: pa.Schema, groups: Groups, slots: Slots, diffs: Codes) -> pa.Table:
    """Updates of the groups' rows, one for each slot whose diff is not 0."""
    places = np.flatnonzero(diffs)
    columns = dict(zip(groups.names, groups.keys, strict=True))
    taken = pa.array(slots.group[places])
    values = {name: column.take(taken) for name, column in columns.items()}
    values[TIME], values[DIFF] = pa.array(slots.time[places]), pa.array(diffs[places])
    return pa.Table.from_arrays([values[name] for name in schema.names], schema=schema)
