"""Rows that are there only while the time lies between their bounds.

At a time T the output has the rows of the input whose lower bounds T has reached and whose upper
bounds it has not passed. So an update (row, t, d) stands for two: (row, begin, d) at the first time
that is not before t and satisfies the lower bounds, and (row, end, -d) at the first time that does
not satisfy the upper ones; and for nothing if the end is not after the begin. What falls due after
the window waits in the state. What has waited and falls due in the window is emitted, whether or
not anything changes in the input.

The key of a waiting update is the time when it is due, and that time is also the hash it is filed
under. So the files of the arrangement lie in the order of time, and what falls due in a window is
one range of each: a step costs what is due in it, however much waits and however long the window
is. An update that was emitted is retracted from the state in the same step, and merging drops both.

Invariant: what waits after a step, and is not retracted, is due at or after the step's upper.

A bound is a 64-bit integer. A null bound is a condition that is never true. Times from `NEVER` on
do not come.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from waterclock.compute.kernels.codes import Codes, Mask, flat, numbers, words
from waterclock.compute.kernels.errors import NO_ERRORS
from waterclock.compute.kernels.linear import negate
from waterclock.compute.kernels.step import Step, Window
from waterclock.compute.kernels.trace import HASH, Trace, arranged, arranged_schema
from waterclock.persist.consolidate import consolidate
from waterclock.persist.rows import DIFF, TIME

DUE = "mz_due"
"""The column of a waiting update that says when it is due."""
NEVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Bound:
    """A column of times, and whether a row may still be there at the bound itself."""

    column: str
    inclusive: bool


@dataclass(frozen=True, slots=True)
class TemporalSpec:
    """The columns of the output, and the bounds, whose columns need not be among them.

    A row is there from all of its lower bounds on, and until the first of its upper ones.
    """

    columns: tuple[str, ...]
    lower: tuple[Bound, ...]
    upper: tuple[Bound, ...]


def output_schema(spec: TemporalSpec, updates: pa.Schema) -> pa.Schema:
    return pa.schema([updates.field(name) for name in (*spec.columns, TIME, DIFF)])


def state_schema(spec: TemporalSpec, updates: pa.Schema) -> pa.Schema:
    """The columns of the arrangement."""
    return arranged_schema(_waiting_schema(spec, updates))


def temporal(spec: TemporalSpec, delta: pa.Table, trace: Trace, window: Window) -> Step:
    """One step: what of the delta, and of what has waited, falls due in the window."""
    fallen = waiting(trace, window)
    changes = _changes(spec, delta, window)
    due = numbers(changes, DUE)
    now = pa.concat_tables([fallen, changes.filter(pa.array(due < window.upper))])
    later = pa.concat_tables([negate(fallen), changes.filter(pa.array(due >= window.upper))])
    later = consolidate(later.combine_chunks())
    return Step(
        _emitted(now, output_schema(spec, delta.schema)),
        arranged(later, numbers(later, DUE).astype(np.uint64)),
        NO_ERRORS,
    )


def waiting(trace: Trace, window: Window) -> pa.Table:
    """The updates that wait and are due in the window, consolidated: the row with `DUE` in front.

    Their times are the window's lower; what they were says nothing.
    """
    found = trace.lookup_range(window.lower, window.upper).drop_columns([HASH])
    return consolidate(_at(found.combine_chunks(), window.lower))


def _waiting_schema(spec: TemporalSpec, updates: pa.Schema) -> pa.Schema:
    rows = [updates.field(name) for name in spec.columns]
    stamps = [pa.field(name, pa.int64(), nullable=False) for name in (DUE, TIME, DIFF)]
    return pa.schema([stamps[0], *rows, *stamps[1:]])


def _changes(spec: TemporalSpec, delta: pa.Table, window: Window) -> pa.Table:
    """The changes that the delta makes, now or later, each at the time when it is due."""
    begin, end, kept = _lifetimes(spec, delta)
    diff = numbers(delta, DIFF)
    ends = kept & (end < NEVER)
    places = np.concatenate((np.flatnonzero(kept), np.flatnonzero(ends)))
    rows = delta.select(spec.columns).take(pa.array(places))
    return pa.Table.from_arrays(
        [
            pa.array(np.concatenate((begin[kept], end[ends]))),
            *rows.columns,
            pa.array(np.full(len(places), window.lower, dtype=np.int64)),
            pa.array(np.concatenate((diff[kept], -diff[ends]))),
        ],
        schema=_waiting_schema(spec, delta.schema),
    )


def _lifetimes(spec: TemporalSpec, delta: pa.Table) -> tuple[Codes, Codes, Mask]:
    """From when on and until when each update counts, and whether it ever does."""
    begin = numbers(delta, TIME)
    end = np.full(delta.num_rows, NEVER, dtype=np.int64)
    known = np.ones(delta.num_rows, dtype=np.bool_)
    for bound in spec.lower:
        begin = np.maximum(begin, _times(delta, bound, after=not bound.inclusive))
        known &= _is_known(delta, bound)
    for bound in spec.upper:
        end = np.minimum(end, _times(delta, bound, after=bound.inclusive))
        known &= _is_known(delta, bound)
    return begin, end, known & (begin < end)


def _times(delta: pa.Table, bound: Bound, *, after: bool) -> Codes:
    """The bounds, or the times after them, of which there is none after `NEVER`."""
    times = words(flat(delta[bound.column]))
    return times + (times < NEVER) if after else times


def _is_known(delta: pa.Table, bound: Bound) -> Mask:
    return flat(delta[bound.column]).is_valid().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _at(table: pa.Table, time: int) -> pa.Table:
    place = table.schema.get_field_index(TIME)
    times = pa.array(np.full(table.num_rows, time, dtype=np.int64))
    return table.set_column(place, table.schema.field(place), times)


def _emitted(changes: pa.Table, schema: pa.Schema) -> pa.Table:
    """Changes that are due as updates at that time."""
    rows = [name for name in schema.names if name not in (TIME, DIFF)]
    columns = [*(changes[name] for name in rows), changes[DUE], changes[DIFF]]
    return consolidate(pa.Table.from_arrays(columns, schema=schema).combine_chunks())
