"""GROUP BY with the least and the greatest value of a column.

When the extreme is retracted, the next one must be known, so the state is the multiset of (key,
value), null values too: they do not compete but a group of nulls is there, with a null result. Each
step fetches the whole multiset of every group it touches. That is exact and simple, and its cost is
the size of those groups. A hierarchical version would put a tree of reductions over hashed parts of
the group, each level keeping the extremes of the one below, and change nothing here but `_entries`:
it would look up only the parts of the group that the delta falls into.

Inside the window a value is there during some intervals of the group's slots; the extreme at a slot
is the best of the values whose intervals cover it.

Values are compared as `order` says, after normalisation: minus zero counts and shows as zero, and
NaN is greater than all other floats. A group in which some value has a negative count is in error
and has no row.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa

from waterclock.compute.kernels.codes import Codes, Mask, flat, numbers
from waterclock.compute.kernels.cover import is_covered, lowest_cover
from waterclock.compute.kernels.errors import NEGATIVE, NO_ERRORS, error_updates
from waterclock.compute.kernels.groups import Groups, Slots, net_updates
from waterclock.compute.kernels.keys import normalised
from waterclock.compute.kernels.order import ranks
from waterclock.compute.kernels.spans import Spans, spans_of
from waterclock.compute.kernels.step import Step
from waterclock.compute.kernels.trace import HASH, Trace
from waterclock.persist.rows import DIFF, TIME

VALUE = "mz_value"


class Extreme(Enum):
    """Which end of the order."""

    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class MinMaxSpec:
    """The key columns, the column of values, and the output columns with what each of them shows.

    `always` is as for a reduce: without keys, there is a row even without input, all nulls, which
    `initial_output` gives and the kernel takes as emitted.
    """

    keys: tuple[str, ...]
    value: str
    outputs: tuple[tuple[str, Extreme], ...]
    always: bool = False

    def __post_init__(self) -> None:
        assert not (self.always and self.keys), "only a reduce without keys is always there"


def output_schema(spec: MinMaxSpec, delta: pa.Schema) -> pa.Schema:
    """The schema of the output's updates, given that of the input's."""
    kind = delta.field(spec.value).type
    columns = [*(delta.field(k) for k in spec.keys), *((name, kind) for name, _ in spec.outputs)]
    return pa.schema([*columns, _required(TIME), _required(DIFF)])


def state_schema(spec: MinMaxSpec, delta: pa.Schema) -> pa.Schema:
    """The schema of the arrangement, given that of the input's updates."""
    return pa.schema(
        [
            pa.field(HASH, pa.uint64(), nullable=False),
            *(delta.field(key) for key in spec.keys),
            pa.field(VALUE, delta.field(spec.value).type),
            _required(TIME),
            _required(DIFF),
        ]
    )


def initial_output(spec: MinMaxSpec, delta: pa.Schema, time: int) -> pa.Table:
    """What the output holds while there is no input: one row of nulls if `always`, else none."""
    schema = output_schema(spec, delta)
    if not spec.always:
        return schema.empty_table()
    nulls = [pa.nulls(1, delta.field(spec.value).type) for _ in spec.outputs]
    return pa.Table.from_arrays([*nulls, pa.array([time]), pa.array([1])], schema=schema)


def minmax(spec: MinMaxSpec, delta: pa.Table, trace: Trace) -> Step:
    """One step: the output's changes, rows for the arrangement, errors."""
    if delta.num_rows == 0:
        return Step(
            output_schema(spec, delta.schema).empty_table(),
            state_schema(spec, delta.schema).empty_table(),
            NO_ERRORS,
        )
    groups = Groups.of(delta, spec.keys)
    slots = Slots.of(groups.of_delta, groups.count, numbers(delta, TIME))
    entries = _entries(spec, delta, groups, slots, trace)
    spans = spans_of(entries.group, entries.rank, entries.slot, entries.diff, slots)
    negative = spans.count < 0
    error = is_covered(spans.start[negative], spans.end[negative], slots.count)
    best = [_best(spans, extreme, entries.highest, slots.count) for _, extreme in spec.outputs]
    there = is_covered(spans.start[~negative], spans.end[~negative], slots.count) | spec.always
    return Step(
        _output(output_schema(spec, delta.schema), groups, slots, entries, best, there & ~error),
        _added(state_schema(spec, delta.schema), groups, slots, entries, numbers(delta, DIFF)),
        error_updates(groups.keys, slots, error.astype(np.int64), [NEGATIVE]),
    )


def _required(name: str) -> pa.Field:
    return pa.field(name, pa.int64(), nullable=False)


@dataclass(frozen=True, slots=True)
class _Entries:
    """State and then delta: each update's value and its rank (0 is null), group, slot and diff."""

    values: pa.Array
    rank: Codes
    group: Codes
    slot: Codes
    diff: Codes
    stored: int

    @property
    def highest(self) -> int:
        return int(self.rank.max(initial=0))


def _entries(
    spec: MinMaxSpec, delta: pa.Table, groups: Groups, slots: Slots, trace: Trace
) -> _Entries:
    state, state_group = groups.state(trace)
    values = pa.concat_arrays([flat(state[VALUE]), normalised(flat(delta[spec.value]))])
    return _Entries(
        values,
        ranks(values),
        np.concatenate((state_group, groups.of_delta)),
        np.concatenate((slots.starts[state_group], slots.of_delta)),
        np.concatenate((numbers(state, DIFF), numbers(delta, DIFF))),
        state.num_rows,
    )


def _best(spans: Spans, extreme: Extreme, highest: int, size: int) -> Codes:
    """The rank of the extreme in each slot, 0 where only nulls are there or nothing is."""
    able = (spans.count > 0) & (spans.rank > 0)
    rank = spans.rank[able]
    badness = rank if extreme is Extreme.MIN else highest + 1 - rank
    found = lowest_cover(spans.start[able], spans.end[able], badness, size, highest + 1)
    turned = found if extreme is Extreme.MIN else highest + 1 - found
    return np.where(found > highest, 0, turned)


def _output(
    schema: pa.Schema,
    groups: Groups,
    slots: Slots,
    entries: _Entries,
    best: list[Codes],
    there: Mask,
) -> pa.Table:
    shown, slot, diffs = slots.replacements(there, best)
    group = pa.array(slots.group[shown])
    holder = np.zeros(entries.highest + 1, dtype=np.int64)
    holder[entries.rank] = np.arange(len(entries.rank))
    columns = [
        entries.values.take(pa.array(holder[rank[shown]], mask=rank[shown] == 0)) for rank in best
    ]
    return pa.Table.from_arrays(
        [
            *(key.take(group) for key in groups.keys),
            *columns,
            pa.array(slots.time[slot]),
            pa.array(diffs),
        ],
        schema=schema,
    )


def _added(
    schema: pa.Schema, groups: Groups, slots: Slots, entries: _Entries, diffs: Codes
) -> pa.Table:
    """The delta as (key, value), with the diffs of one value at one time added up."""
    places, net, _ = net_updates(entries.rank[entries.stored :], slots.of_delta, diffs)
    group = groups.of_delta[places]
    return pa.Table.from_arrays(
        [
            pa.array(groups.hashes[group]),
            *(key.take(pa.array(group)) for key in groups.keys),
            entries.values.take(pa.array(places + entries.stored)),
            pa.array(slots.time[slots.of_delta[places]]),
            pa.array(net),
        ],
        schema=schema,
    )
