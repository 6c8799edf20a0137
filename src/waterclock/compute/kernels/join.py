"""The inner join on equal keys.

With state from before the window and a delta on each side, the output's change is everything the
two sides make together except what state and state make: a pair comes to be at the later of its two
times, and its diff is the product. So each side is put together from its state, whose time is
before all others, and its delta; a left row of the state meets only the right delta, a left row of
the delta meets both. Right rows lie sorted by key with the state's first, so what a left row meets
is one range, and all pairs come from repeating and counting, without a loop over keys.

Pairs of the same two rows may meet at the same time in several ways (one side has the row in state
and delta, or at two times) and are added up. They are recognised by the places of the two rows,
which is cheaper than looking at the output. Pairs of rows with one update each need no such care.

The output may be far larger than the input, so it comes in chunks, each made when asked for. Left
rows are handed out whole: all pairs of a row are in one chunk, so the chunks together are
consolidated. A chunk exceeds the limit only if a single left row's pairs do.

Outer, semi and anti joins are made of this one and others, elsewhere. Diffs multiply as 64-bit
integers, unchecked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from waterclock.compute.kernels.codes import (
    Codes,
    Mask,
    ascending,
    equal_rows,
    first_places,
    flat,
    numbers,
    ordinals,
    paired,
    spread,
    sums,
    unique,
)
from waterclock.compute.kernels.keys import (
    key_columns,
    key_hashes,
    matchable,
    normalised,
    shared_codes,
)
from waterclock.compute.kernels.trace import Trace, arranged, row_names
from waterclock.persist.hashing import Hashes
from waterclock.persist.rows import DIFF, TIME

CHUNK_ROWS = 1 << 20
_FEW = 4
"""Above this ratio of probe hashes to stored rows, scan instead of searching."""

_BEFORE = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """The key columns of each side, pair by pair; no keys make a cross join.

    `null_safe` says for each pair whether it is compared with `<=>` rather than `=`; empty means
    never. Both columns of a pair must have the same type.
    """

    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    null_safe: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        assert len(self.left_keys) == len(self.right_keys)
        assert len(self.null_safe) in (0, len(self.left_keys))

    @property
    def safe(self) -> tuple[bool, ...]:
        return self.null_safe or (False,) * len(self.left_keys)


@dataclass(frozen=True, slots=True)
class JoinStep:
    """The output's changes in chunks, to be read once, and the rows for both arrangements."""

    schema: pa.Schema
    output: Iterator[pa.Table]
    left: pa.Table
    right: pa.Table

    def table(self) -> pa.Table:
        """All of the output at once."""
        return pa.concat_tables([self.schema.empty_table(), *self.output])


def output_schema(left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """The left row's columns, the right row's, time and diff. No name may occur twice."""
    columns = [side.field(name) for side in (left, right) for name in row_names(side)]
    assert len({field.name for field in columns}) == len(columns), "rename before joining"
    return pa.schema([*columns, left.field(TIME), left.field(DIFF)])


def join(
    spec: JoinSpec,
    left: pa.Table,
    right: pa.Table,
    left_trace: Trace,
    right_trace: Trace,
    *,
    shown: Collection[str] | None = None,
    chunk_rows: int = CHUNK_ROWS,
) -> JoinStep:
    """One step of the join of two deltas and the state of both sides.

    Rows whose key has a null compared with `=` match nothing and are not arranged. Columns of the
    output that are not among those `shown` are null: nobody reads them.
    """
    schema = output_schema(left.schema, right.schema)
    left, left_hashes = _matchable(left, spec.left_keys, spec.safe)
    right, right_hashes = _matchable(right, spec.right_keys, spec.safe)
    left_side = _Side.of(left, left_trace, right_hashes)
    right_side = _Side.of(right, right_trace, left_hashes)
    return JoinStep(
        schema,
        _output(
            spec,
            schema,
            left_side,
            right_side,
            schema.names if shown is None else shown,
            chunk_rows,
        ),
        _added(left, left_side, left_hashes),
        _added(right, right_side, right_hashes),
    )


def _matchable(
    delta: pa.Table, keys: tuple[str, ...], safe: tuple[bool, ...]
) -> tuple[pa.Table, Hashes]:
    """The updates that can match, and the hashes of their keys."""
    columns = key_columns(delta, keys)
    able = matchable(columns, safe, delta.num_rows)
    if not able.all():
        delta = delta.filter(pa.array(able))
        columns = key_columns(delta, keys)
    return delta, key_hashes(columns, delta.num_rows)


@dataclass(frozen=True, slots=True)
class _Side:
    """Consolidated updates of one side, those of the state first, at the time before all times.

    `row` is the same number for the same row, `repeated` says whose row has other updates too (None
    if none has), `stored` is the number of updates from the state, and `place` where in the delta
    given each of the others was found.
    """

    columns: dict[str, pa.Array]
    row: Codes
    repeated: Mask | None
    time: Codes
    diff: Codes
    stored: int
    place: Codes

    @classmethod
    def of(cls, delta: pa.Table, trace: Trace, hashes: Hashes) -> _Side:
        """The delta, and what the trace has under the hashes of the other side's delta."""
        tables = [_stored(trace, hashes), delta] if len(hashes) else [delta]
        stored = sum(table.num_rows for table in tables) - delta.num_rows
        columns = {
            name: pa.concat_arrays([flat(table[name]) for table in tables])
            for name in row_names(delta)
        }
        ordinal, times = ordinals(numbers(delta, TIME))
        moment = np.concatenate((np.zeros(stored, dtype=np.int64), ordinal + 1))
        diff = np.concatenate([numbers(table, DIFF) for table in tables])
        row, place = np.arange(len(diff)), np.arange(len(diff))
        equal = equal_rows(list(columns.values()), len(diff))
        if equal is not None:
            row = equal
            some = np.flatnonzero(_repeated(row))
            diff[some] = _net(row[some], moment[some], diff[some])
        if not diff.all():
            place = np.flatnonzero(diff)
            row, diff, moment = row[place], diff[place], moment[place]
            columns = {name: column.take(pa.array(place)) for name, column in columns.items()}
        now = int(np.searchsorted(place, stored))
        time = np.append(_BEFORE, times)[moment]
        repeated = None if equal is None else _repeated(row)
        if repeated is not None and not repeated.any():
            repeated = None
        return cls(columns, row, repeated, time, diff, now, place[now:] - stored)

    def __len__(self) -> int:
        return len(self.diff)


def _stored(trace: Trace, hashes: Hashes) -> pa.Table:
    """What the trace has under the hashes; or all there is, if to sort them would take longer."""
    if trace.num_rows * _FEW <= len(hashes):
        return trace.everything()
    return trace.lookup(unique(hashes))


def _repeated(row: Codes) -> Mask:
    """Whether the number occurs several times."""
    return (np.bincount(row) > 1)[row]


@dataclass(frozen=True, slots=True)
class _Ranges:
    """For each of some left updates, the range of `order`, and so of right updates, it meets."""

    left: Codes
    start: Codes
    length: Codes
    order: Codes

    def pairs(self) -> tuple[Codes, Codes]:
        """The left and the right update of each pair."""
        if (self.length == 1).all():
            return self.left, self.order[self.start]
        return np.repeat(self.left, self.length), self.order[spread(self.start, self.length)]


def _output(
    spec: JoinSpec,
    schema: pa.Schema,
    left: _Side,
    right: _Side,
    shown: Collection[str],
    chunk_rows: int,
) -> Iterator[pa.Table]:
    if left.stored == len(left) and right.stored == len(right):
        return
    ranges = _ranges(spec, left, right)
    rows = None if left.repeated is None else left.row
    for chunk in _chunks(ranges, rows, chunk_rows):
        pairs = chunk.pairs()
        time = np.maximum(left.time[pairs[0]], right.time[pairs[1]])
        diff = left.diff[pairs[0]] * right.diff[pairs[1]]
        again = _again(left, right, pairs)
        if again is not None:
            kept = _added_up(left.row[pairs[0]], right.row[pairs[1]], time, diff, again)
            pairs, time, diff = (pairs[0][kept], pairs[1][kept]), time[kept], diff[kept]
        sides = zip((left, right), map(pa.array, pairs), strict=True)
        columns = [
            column.take(places) if name in shown else pa.nulls(len(places), column.type)
            for side, places in sides
            for name, column in side.columns.items()
        ]
        yield pa.Table.from_arrays([*columns, pa.array(time), pa.array(diff)], schema=schema)


def _again(left: _Side, right: _Side, pairs: tuple[Codes, Codes]) -> Mask | None:
    """Which pairs may be there several times; None if none."""
    found = [
        side.repeated[places]
        for side, places in zip((left, right), pairs, strict=True)
        if side.repeated is not None
    ]
    again = np.logical_or.reduce(found) if found else None
    return again if again is not None and again.any() else None


def _ranges(spec: JoinSpec, left: _Side, right: _Side) -> _Ranges:
    left_keys = [normalised(left.columns[name]) for name in spec.left_keys]
    right_keys = [normalised(right.columns[name]) for name in spec.right_keys]
    left_key, right_key, count = shared_codes(left_keys, right_keys, (len(left), len(right)))
    able = np.flatnonzero(matchable(right_keys, spec.safe, len(right)))
    key = right_key[able]
    order = able[ascending(2 * key + (able >= right.stored))]
    total = np.bincount(key, minlength=count)
    before = np.bincount(key[able < right.stored], minlength=count)
    skipped = np.where(np.arange(len(left)) < left.stored, before[left_key], 0)
    length = total[left_key] - skipped
    met = np.flatnonzero((length > 0) & matchable(left_keys, spec.safe, len(left)))
    start = (np.cumsum(total) - total)[left_key] + skipped
    return _Ranges(met, start[met], length[met], order)


def _chunks(ranges: _Ranges, row: Codes | None, chunk_rows: int) -> Iterator[_Ranges]:
    """The ranges in parts of about so many pairs, all updates of one left row in one part.

    `row` is None if each has one update.
    """
    if len(ranges.left) == 0:
        return
    if int(ranges.length.sum()) <= chunk_rows:
        yield ranges
        return
    by_row = last_of_row = np.arange(len(ranges.left))
    if row is not None:
        rows = row[ranges.left]
        by_row = ascending(rows)
        last_of_row = np.flatnonzero(np.append(np.diff(rows[by_row]) != 0, True))
    ends = np.cumsum(ranges.length[by_row])
    begin = 0
    while begin < len(by_row):
        room = (int(ends[begin - 1]) if begin else 0) + chunk_rows
        fitting = int(np.searchsorted(ends[last_of_row], room, side="right"))
        current = int(np.searchsorted(last_of_row, begin))  # at least the row begun with
        stop = int(last_of_row[max(fitting - 1, current)]) + 1
        part = slice(begin, stop) if row is None else by_row[begin:stop]
        yield _Ranges(ranges.left[part], ranges.start[part], ranges.length[part], ranges.order)
        begin = stop


def _added_up(left: Codes, right: Codes, time: Codes, diff: Codes, again: Mask) -> Codes:
    """The pairs that remain once equal ones at equal times are added up, in `diff` in place."""
    some = np.flatnonzero(again)
    both, _ = paired(left[some], right[some])
    diff[some] = _net(both, ordinals(time[some])[0], diff[some])
    return np.flatnonzero(diff)


def _net(row: Codes, moment: Codes, diff: Codes) -> Codes:
    """The diffs with those of one row and moment added up where it appears first, 0 elsewhere."""
    pair, count = paired(row, moment)
    net = np.zeros_like(diff)
    net[first_places(pair, count)] = sums(pair, diff, count)
    return net


def _added(delta: pa.Table, side: _Side, hashes: Hashes) -> pa.Table:
    """The consolidated delta with the hashes of its keys."""
    fresh = {name: column[side.stored :] for name, column in side.columns.items()}
    fresh[TIME], fresh[DIFF] = (
        pa.array(side.time[side.stored :]),
        pa.array(side.diff[side.stored :]),
    )
    schema = delta.schema
    table = pa.Table.from_arrays([fresh[name] for name in schema.names], schema=schema)
    return arranged(table, hashes[side.place])
