"""GROUP BY with aggregates that are functions of sums.

The state is one arrangement, filed by the group's key, whose diff columns are the accumulators:
`mz_diff` is the number of rows, and the columns of each measure follow. To add an update to a group
is to add numbers to its accumulators, so the cost of a step does not depend on how large a group
is.

For each group the delta touches, and at each time it does, the result before and the result after
are computed from the accumulators, and where they differ the old row is retracted and the new one
inserted. A group is there iff it has rows. A reduce without keys whose `always` is set is there
even without rows: its first row is not a change and so not the kernel's to emit. Whoever starts the
view emits `initial_output` once, at the view's first time.

Errors of a group, of which one at a time is reported: it has fewer than no rows (or more values
than rows, which means the same); it has so many that sums could wrap; a result does not fit its
type. While one holds, the group has no row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from waterclock.compute.kernels.aggregates import (
    Aggregate,
    Function,
    Measure,
    Result,
    measures,
    result,
)
from waterclock.compute.kernels.codes import Codes, Mask, flat, numbers
from waterclock.compute.kernels.errors import NEGATIVE, NO_ERRORS, error_updates
from waterclock.compute.kernels.groups import Groups, Slots
from waterclock.compute.kernels.limbs import MAX_ROWS
from waterclock.compute.kernels.step import Step
from waterclock.compute.kernels.trace import HASH, Trace
from waterclock.persist.rows import DIFF, TIME

_TOO_MANY = "group has too many rows for exact sums"


@dataclass(frozen=True, slots=True)
class ReduceSpec:
    """The key columns, the aggregates, and whether there is a row even without input.

    The output's columns are the keys, normalised, then the aggregates.
    """

    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    always: bool = False

    def __post_init__(self) -> None:
        assert not (self.always and self.keys), "only a reduce without keys is always there"


def output_schema(spec: ReduceSpec, delta: pa.Schema) -> pa.Schema:
    """The schema of the output's updates, given that of the input's."""
    return _updates(
        [delta.field(k) for k in spec.keys] + [(a.name, a.type) for a in spec.aggregates]
    )


def diff_columns(spec: ReduceSpec, delta: pa.Schema) -> tuple[str, ...]:
    """The diff columns of the arrangement: the row count and the accumulators."""
    return (DIFF, *(name for m in measures(spec.aggregates, _types(delta)) for name in m.names))


def state_schema(spec: ReduceSpec, delta: pa.Schema) -> pa.Schema:
    """The schema of the arrangement, given that of the input's updates."""
    return pa.schema(
        [
            pa.field(HASH, pa.uint64(), nullable=False),
            *(delta.field(key) for key in spec.keys),
            pa.field(TIME, pa.int64(), nullable=False),
            *(pa.field(n, pa.int64(), nullable=False) for n in diff_columns(spec, delta)),
        ]
    )


def initial_output(spec: ReduceSpec, delta: pa.Schema, time: int) -> pa.Table:
    """What the output holds while there is no input: one row if `always`, else none."""
    schema = output_schema(spec, delta)
    if not spec.always:
        return schema.empty_table()
    nothing = np.zeros(1, dtype=np.int64)
    columns = measures(spec.aggregates, _types(delta))
    totals = dict.fromkeys(diff_columns(spec, delta), nothing)
    results = _results(spec, columns, delta, totals)
    values = [r.array(nothing) for r in results]
    return pa.Table.from_arrays([*values, pa.array([time]), pa.array([1])], schema=schema)


def reduce(spec: ReduceSpec, delta: pa.Table, trace: Trace) -> Step:
    """One step of the reduce: the output's changes, rows for the arrangement, errors."""
    if delta.num_rows == 0:
        return Step(
            output_schema(spec, delta.schema).empty_table(),
            state_schema(spec, delta.schema).empty_table(),
            NO_ERRORS,
        )
    columns = measures(spec.aggregates, _types(delta.schema))
    groups = Groups.of(delta, spec.keys)
    slots = Slots.of(groups.of_delta, groups.count, numbers(delta, TIME))
    changes = {name: slots.changes(part) for name, part in _contributions(columns, delta).items()}
    state, state_group = groups.state(trace)
    totals = {
        name: slots.totals(change, state_group, numbers(state, name))
        for name, change in changes.items()
    }
    results = _results(spec, columns, delta.schema, totals)
    status, messages = _status(spec, columns, totals, results)
    there = (status == 0) & ((totals[DIFF] > 0) | spec.always)
    return Step(
        _output(output_schema(spec, delta.schema), groups, slots, results, there),
        _added(state_schema(spec, delta.schema), groups, slots, changes),
        error_updates(groups.keys, slots, status, messages),
    )


def _updates(columns: list[pa.Field | tuple[str, pa.DataType]]) -> pa.Schema:
    times = [pa.field(name, pa.int64(), nullable=False) for name in (TIME, DIFF)]
    return pa.schema([*columns, *times])


def _types(schema: pa.Schema) -> dict[str, pa.DataType]:
    return dict(zip(schema.names, schema.types, strict=True))


def _contributions(columns: list[Measure], delta: pa.Table) -> dict[str, Codes]:
    diffs = numbers(delta, DIFF)
    parts = {DIFF: diffs}
    for measure in columns:
        values = measure.contributions(flat(delta[measure.column]), diffs)
        parts.update(zip(measure.names, values, strict=True))
    return parts


def _results(
    spec: ReduceSpec, columns: list[Measure], delta: pa.Schema, totals: Mapping[str, Codes]
) -> list[Result]:
    by_column = {m.column: (m, delta.field(m.column).type) for m in columns}
    return [
        result(a, totals, None if a.function is Function.COUNT_ROWS else by_column[a.column or ""])
        for a in spec.aggregates
    ]


def _status(
    spec: ReduceSpec, columns: list[Measure], totals: Mapping[str, Codes], results: list[Result]
) -> tuple[Codes, list[str]]:
    """The number of the error that holds in each slot, 0 for none, and the errors' texts."""
    rows = totals[DIFF]
    status = np.zeros(len(rows), dtype=np.int64)
    for i, found in enumerate(results):
        status[found.out_of_range & (status == 0)] = 3 + i
    status[rows > MAX_ROWS] = 2
    negative = rows < 0
    for measure in columns:
        valid = totals[measure.valid]
        negative |= (valid < 0) | (valid > rows)
        for name in measure.names[1:]:
            negative |= (valid == 0) & (totals[name] != 0)
    status[negative] = 1
    texts = [f'value of "{a.name}" is out of range for its type' for a in spec.aggregates]
    return status, [NEGATIVE, _TOO_MANY, *texts]


def _output(
    schema: pa.Schema, groups: Groups, slots: Slots, results: list[Result], there: Mask
) -> pa.Table:
    """Where the row before differs from the row after: the one retracted, the other inserted."""
    words = [word for found in results for word in found.words]
    shown, slot, diffs = slots.replacements(there, [*(found.valid for found in results), *words])
    group = pa.array(slots.group[shown])
    return pa.Table.from_arrays(
        [
            *(key.take(group) for key in groups.keys),
            *(found.array(shown) for found in results),
            pa.array(slots.time[slot]),
            pa.array(diffs),
        ],
        schema=schema,
    )


def _added(
    schema: pa.Schema, groups: Groups, slots: Slots, changes: Mapping[str, Codes]
) -> pa.Table:
    """The accumulators' changes of each group at each time, where there are any."""
    some = np.zeros(slots.count, dtype=np.bool_)
    for change in changes.values():
        some |= change != 0
    places = np.flatnonzero(some)
    group = slots.group[places]
    return pa.Table.from_arrays(
        [
            pa.array(groups.hashes[group]),
            *(key.take(pa.array(group)) for key in groups.keys),
            pa.array(slots.time[places]),
            *(pa.array(change[places]) for change in changes.values()),
        ],
        schema=schema,
    )
