"""The contents of each group a delta touches, once for each time at which it changes.

For what has no kernel: something else evaluates a function on every version of every group, and the
function's results are as valid as the version is. A version *begins* at the time of the change that
made it and *ends* at the time of the next one. The version before the window has no beginning
there, the last one no end. So a result row r of a version stands for the updates (r, begin, +1) and
(r, end, -1), each only if there is that time, and what a change left as it was cancels out.

A row that is there three times comes three times. While some row of a group has a negative count
the group is in error, and that row is taken as absent.

The state is the multiset of the groups' rows. The cost is that of the groups touched times the
number of times at which each is touched.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from waterclock.compute.kernels.codes import (
    Codes,
    Mask,
    dense_rows,
    first_places,
    flat,
    numbers,
    paired,
    spread,
)
from waterclock.compute.kernels.errors import NEGATIVE, NO_ERRORS, error_updates
from waterclock.compute.kernels.groups import Groups, Slots, net_updates
from waterclock.compute.kernels.step import Step
from waterclock.compute.kernels.trace import Trace, arranged, arranged_schema, row_names
from waterclock.persist.rows import DIFF, TIME

BEGIN = "mz_begin"
END = "mz_end"
VERSION = "mz_version"
FIRST = "mz_first"


def versions_schema(updates: pa.Schema) -> pa.Schema:
    """The columns of versions: those of the row, when the version begins and ends, its number, and
    whether this is the first of its rows.
    """
    rows = [updates.field(name) for name in row_names(updates)]
    stamp = [(BEGIN, pa.int64()), (END, pa.int64()), (VERSION, pa.int64()), (FIRST, pa.bool_())]
    return pa.schema([*rows, *stamp])


def versions(keys: Sequence[str], delta: pa.Table, trace: Trace) -> Step:
    """One step: the output is not updates but versions; all rows of one share a number."""
    if delta.num_rows == 0:
        empty = versions_schema(delta.schema).empty_table()
        return Step(empty, arranged_schema(delta.schema).empty_table(), NO_ERRORS)
    groups = Groups.of(delta, keys)
    slots = Slots.of(groups.of_delta, groups.count, numbers(delta, TIME))
    state, state_group = groups.state(trace)
    names = row_names(delta)
    rows = [pa.concat_arrays([flat(state[name]), flat(delta[name])]) for name in names]
    code, _ = dense_rows(rows, state.num_rows + delta.num_rows)
    group = np.concatenate((state_group, groups.of_delta))
    item, count = paired(group, code)
    place = first_places(item, count)
    of_item, slot, copies = _counts(item, group[place], state, delta, slots)
    status = np.zeros(slots.count, dtype=np.int64)
    status[slot[copies < 0]] = 1
    shown = np.maximum(copies, 0)
    taken = pa.array(np.repeat(place[of_item], shown))
    begin, end = _lifetimes(slots)
    version = np.repeat(slot, shown)
    table = pa.Table.from_arrays(
        [
            *(column.take(taken) for column in rows),
            begin.take(pa.array(version)),
            end.take(pa.array(version)),
            pa.array(version),
            pa.array(_is_first(version)),
        ],
        schema=versions_schema(delta.schema),
    )
    added, net, _ = net_updates(code[state.num_rows :], slots.of_delta, numbers(delta, DIFF))
    stored = _updates(delta, added, net)
    return Step(
        table,
        arranged(stored, groups.hashes[groups.of_delta[added]]),
        error_updates(groups.keys, slots, status, [NEGATIVE]),
    )


def _is_first(numbers: Codes) -> Mask:
    """For each number whether it is the first of its kind."""
    first = np.zeros(len(numbers), dtype=np.bool_)
    _, places = np.unique(numbers, return_index=True)
    first[places] = True
    return first


def _counts(
    item: Codes, item_group: Codes, state: pa.Table, delta: pa.Table, slots: Slots
) -> tuple[Codes, Codes, Codes]:
    """For each item and each slot of its group: item, slot, and how often it is there then."""
    lengths = (slots.ends - slots.starts)[item_group]
    offsets = np.cumsum(lengths) - lengths
    slot = spread(slots.starts[item_group], lengths)
    of_item = np.repeat(np.arange(len(item_group)), lengths)
    old, new = item[: state.num_rows], item[state.num_rows :]
    change = np.zeros(len(slot), dtype=np.int64)
    np.add.at(change, offsets[old], numbers(state, DIFF))
    turn = slots.of_delta - slots.starts[item_group[new]]
    np.add.at(change, offsets[new] + turn, numbers(delta, DIFF))
    total = np.cumsum(change)
    before = total[offsets] - change[offsets]
    return of_item, slot, total - before[of_item]


def _lifetimes(slots: Slots) -> tuple[pa.Array, pa.Array]:
    """For each slot the time at which it begins and the one at which it ends, where known."""
    first = np.zeros(slots.count, dtype=np.bool_)
    first[slots.starts] = True
    last = np.zeros(slots.count, dtype=np.bool_)
    last[slots.ends - 1] = True
    return pa.array(slots.time, mask=first), pa.array(np.roll(slots.time, -1), mask=last)


def _updates(delta: pa.Table, places: Codes, diffs: Codes) -> pa.Table:
    """Those of the delta's rows, with the diffs given."""
    taken = delta.take(pa.array(places))
    at = taken.schema.get_field_index(DIFF)
    return taken.set_column(at, taken.schema.field(at), pa.array(diffs))
