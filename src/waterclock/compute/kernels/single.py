"""A subquery used as a value: at most one row for each group.

A group is all rows that belong to one use of the subquery. While it has one row, that is the
output's; while it has several, counting copies, that is an error, and the output has none of them.
Without keys there is one group, and it always has a row: while the input has none, a row of nulls.
That row is not a change and so not the kernel's to emit at the start; `initial_output` gives it.

The state is the multiset of the groups' rows, so a group in error heals when all but one of its
rows are retracted, whichever that is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from waterclock.compute.kernels.codes import Codes, Mask, dense_rows, first_places, flat, numbers
from waterclock.compute.kernels.cover import is_covered, lowest_cover
from waterclock.compute.kernels.errors import NEGATIVE, NO_ERRORS, error_updates
from waterclock.compute.kernels.groups import Groups, Slots, net_updates
from waterclock.compute.kernels.spans import Spans, spans_of
from waterclock.compute.kernels.step import Step
from waterclock.compute.kernels.trace import Trace, arranged, arranged_schema, row_names
from waterclock.persist.rows import DIFF, TIME

SEVERAL = "21000 more than one row returned by a subquery used as an expression"


def initial_output(keys: Sequence[str], delta: pa.Schema, time: int) -> pa.Table:
    """What the output holds while there is no input: a row of nulls if there are no keys."""
    if keys:
        return delta.empty_table()
    nulls = [pa.nulls(1, delta.field(name).type) for name in row_names(delta)]
    return pa.Table.from_arrays([*nulls, pa.array([time]), pa.array([1])], schema=delta)


def single(keys: Sequence[str], delta: pa.Table, trace: Trace) -> Step:
    """One step: the output has the delta's columns, the arrangement the keys' hash in front."""
    if delta.num_rows == 0:
        return Step(delta, arranged_schema(delta.schema).empty_table(), NO_ERRORS)
    names = row_names(delta)
    groups = Groups.of(delta, keys)
    slots = Slots.of(groups.of_delta, groups.count, numbers(delta, TIME))
    state, state_group = groups.state(trace)
    rows = [pa.concat_arrays([flat(state[name]), flat(delta[name])]) for name in names]
    code, count = dense_rows(rows, state.num_rows + delta.num_rows)
    diffs = numbers(delta, DIFF)
    spans = spans_of(
        np.concatenate((state_group, groups.of_delta)),
        code,
        np.concatenate((slots.starts[state_group], slots.of_delta)),
        np.concatenate((numbers(state, DIFF), diffs)),
        slots,
    )
    total = slots.totals(slots.changes(diffs), state_group, numbers(state, DIFF))
    status = _status(spans, total)
    there = (status == 0) & ((total == 1) | (not keys))
    output = _output(delta.schema, rows, first_places(code, count), slots, spans, total, there)
    places, net, _ = net_updates(code[state.num_rows :], slots.of_delta, diffs)
    return Step(
        output,
        _arranged(delta, places, net, groups),
        error_updates(groups.keys, slots, status, [NEGATIVE, SEVERAL]),
    )


def _status(spans: Spans, total: Codes) -> Codes:
    """Which of the two errors holds in each slot, 0 for none."""
    status = np.where(total > 1, 2, 0)
    negative = spans.count < 0
    status[is_covered(spans.start[negative], spans.end[negative], len(total))] = 1
    return status


def _output(
    schema: pa.Schema,
    rows: Sequence[pa.Array],
    place: Codes,
    slots: Slots,
    spans: Spans,
    total: Codes,
    there: Mask,
) -> pa.Table:
    """In a slot without error whose total is 1 there is just one row: what covers the slot.

    A row that is all nulls is the same as the row that stands for none.
    """
    cover = lowest_cover(spans.start, spans.end, spans.rank, slots.count, len(place))
    alone = np.where(there & (total == 1), cover, -1)
    alone[_all_null(rows, place)[alone] & (alone >= 0)] = -1
    shown, slot, diffs = slots.replacements(there, [alone])
    of_row = alone[shown]
    taken = pa.array(place[np.maximum(of_row, 0)], mask=of_row < 0)
    values = [column.take(taken) for column in rows]
    return pa.Table.from_arrays(
        [*values, pa.array(slots.time[slot]), pa.array(diffs)], schema=schema
    )


def _all_null(rows: Sequence[pa.Array], places: Codes) -> Mask:
    nulls = [column.is_null().to_numpy(zero_copy_only=False) for column in rows]
    return np.all(nulls, axis=0)[places]  # type: ignore[no-any-return]


def _arranged(delta: pa.Table, places: Codes, diffs: Codes, groups: Groups) -> pa.Table:
    taken = delta.take(pa.array(places))
    at = taken.schema.get_field_index(DIFF)
    taken = taken.set_column(at, taken.schema.field(at), pa.array(diffs))
    return arranged(taken, groups.hashes[groups.of_delta[places]])
