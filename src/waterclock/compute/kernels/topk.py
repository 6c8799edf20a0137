"""The first rows of each group: ORDER BY with OFFSET and LIMIT.

The order is given by columns, each ascending or descending, nulls first or last, as Spark compares
them (zero and minus zero tie, NaN is greatest). Rows that tie are told apart by the whole row:
column by column from the left, ascending, nulls first, in the total order of `order`. So which rows
are shown depends on what the collection holds and on nothing else, neither on arrival nor on a
restart. A row that is there three times takes three places; some of its copies may be cut off.

The state is the multiset of the groups' rows, and a step fetches all rows of the groups it touches.
Of the rows the delta does not touch only the first `offset + limit` of each group can ever be shown
in the window, so the others are dropped at once. The rest is worked through in rounds: round n
takes the n-th time of every group that has so many, all groups together. A step in which one group
has very many times costs their number times the rows kept; give such a group shorter windows.

While some row of a group has a negative count the group is in error; its output takes that row as
absent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from waterclock.compute.kernels.codes import (
    Codes,
    Mask,
    ascending,
    first_places,
    flat,
    numbers,
    ordinals,
    sums,
)
from waterclock.compute.kernels.errors import NEGATIVE, NO_ERRORS, error_updates
from waterclock.compute.kernels.groups import Groups, Slots, net_updates
from waterclock.compute.kernels.keys import normalised
from waterclock.compute.kernels.order import directed, lexicographic, ranks
from waterclock.compute.kernels.step import Step
from waterclock.compute.kernels.trace import Trace, arranged, arranged_schema, row_names
from waterclock.persist.rows import DIFF, TIME

_FOREVER = 2**62


@dataclass(frozen=True, slots=True)
class OrderBy:
    """One column of the order."""

    column: str
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True)
class TopKSpec:
    """Group keys (none: one group of all rows), the order, and which places are shown."""

    keys: tuple[str, ...]
    order: tuple[OrderBy, ...]
    limit: int | None
    offset: int = 0

    def __post_init__(self) -> None:
        assert self.offset >= 0
        assert self.limit is None or self.limit >= 0

    @property
    def end(self) -> int:
        """The first place that is not shown any more."""
        return _FOREVER if self.limit is None else self.offset + self.limit


def topk(spec: TopKSpec, delta: pa.Table, trace: Trace) -> Step:
    """One step: the output has the delta's columns, the arrangement the keys' hash in front."""
    if delta.num_rows == 0:
        return Step(delta, arranged_schema(delta.schema).empty_table(), NO_ERRORS)
    names = row_names(delta)
    groups = Groups.of(delta, spec.keys)
    slots = Slots.of(groups.of_delta, groups.count, numbers(delta, TIME))
    state, state_group = groups.state(trace)
    rows = {name: pa.concat_arrays([flat(state[name]), flat(delta[name])]) for name in names}
    rank, _ = ordinals(_positions(spec, rows, state.num_rows + delta.num_rows))
    diffs = numbers(delta, DIFF)
    items = _Items.of(
        rank,
        np.concatenate((state_group, groups.of_delta)),
        np.concatenate((numbers(state, DIFF), diffs)),
        state.num_rows,
        slots,
        spec.end,
    )
    status = np.zeros(slots.count, dtype=np.int64)
    emitted = list(_rounds(spec, items, slots, diffs, status))
    item, slot, change = (np.concatenate(part) for part in zip(*emitted, strict=True))
    places, net, _ = net_updates(rank[state.num_rows :], slots.of_delta, diffs)
    added = _updates(
        delta.schema, rows, places + state.num_rows, slots.of_delta[places], net, slots
    )
    return Step(
        _updates(delta.schema, rows, items.place[item], slot, change, slots),
        arranged(added, groups.hashes[groups.of_delta[places]]),
        error_updates(groups.keys, slots, status, [NEGATIVE]),
    )


def _positions(spec: TopKSpec, rows: dict[str, pa.Array], length: int) -> Codes:
    """A number for each row that compares as the rows do and is the same iff the rows are."""
    wanted = [
        directed(
            ranks(normalised(rows[by.column])),
            descending=by.descending,
            nulls_first=by.nulls_first,
        )
        for by in spec.order
    ]
    ties = [ranks(column) for column in rows.values()]
    return lexicographic([*wanted, *ties], length)


@dataclass(frozen=True, slots=True)
class _Items:
    """The distinct rows of the groups that may matter, in the order of group and position.

    Groups come in the order of how many slots they have, most first, so that those still busy in a
    round are in front; `groups` lists them so. `starts` has the first item of each and, at the end,
    the number of items.
    """

    groups: Codes
    starts: Codes
    place: Codes
    count: Codes
    of_delta: Codes

    @classmethod
    def of(
        cls, rank: Codes, group: Codes, diffs: Codes, stored: int, slots: Slots, end: int
    ) -> _Items:
        busiest = ascending(slots.starts - slots.ends)
        turn = np.empty_like(busiest)
        turn[busiest] = np.arange(len(busiest))
        item, distinct = ordinals(turn[group] * (int(rank.max()) + 1) + rank)
        count = sums(item[:stored], diffs[:stored], len(distinct))
        of_turn = distinct // (int(rank.max()) + 1)
        kept = _may_matter(of_turn, count, item[stored:], end)
        number = np.cumsum(kept) - 1
        starts = np.searchsorted(of_turn[kept], np.arange(len(busiest) + 1))
        place = first_places(item, len(distinct))[kept]
        return cls(busiest, starts, place, count[kept], number[item[stored:]])


def _may_matter(group: Codes, count: Codes, touched: Codes, end: int) -> Mask:
    """Which items are touched, or wrong, or among the first untouched ones of their group."""
    special = count < 0
    special[touched] = True
    fixed = np.where(special, 0, count)
    before = np.cumsum(fixed) - fixed
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    return special | ((fixed > 0) & (before - before[starts][group] < end))  # type: ignore[no-any-return]


def _rounds(
    spec: TopKSpec, items: _Items, slots: Slots, diffs: Codes, status: Codes
) -> Iterator[tuple[Codes, Codes, Codes]]:
    """The changes (item, slot, diff) of each round; `status` is filled in on the way."""
    first = slots.starts[items.groups]
    length = slots.ends[items.groups] - first
    turn = slots.of_delta - slots.starts[slots.group[slots.of_delta]]
    by_round = ascending(turn)
    bounds = np.searchsorted(turn[by_round], np.arange(1, int(length[0]) + 1))
    count = items.count.copy()
    shown = _shown(spec, count, items.starts)
    status[first] = _has_negative(count, items.starts)
    owner = np.repeat(np.arange(len(first)), np.diff(items.starts))
    for n in range(1, int(length[0])):
        now = by_round[bounds[n - 1] : bounds[n]]
        np.add.at(count, items.of_delta[now], diffs[now])
        busy = int(np.searchsorted(-length, -n, side="left"))
        starts = items.starts[: busy + 1]
        end = int(starts[-1])
        after = _shown(spec, count[:end], starts)
        change = after - shown[:end]
        changed = np.flatnonzero(change)
        shown[:end] = after
        status[first[:busy] + n] = _has_negative(count[:end], starts)
        yield changed, first[owner[changed]] + n, change[changed]


def _shown(spec: TopKSpec, count: Codes, starts: Codes) -> Codes:
    """How many copies of each item fall into the places shown."""
    present = np.maximum(count, 0)
    end = np.cumsum(present)
    base = end[starts[:-1]] - present[starts[:-1]]
    end = end - np.repeat(base, np.diff(starts))
    within = np.minimum(end, spec.end) - np.maximum(end - present, spec.offset)
    return np.maximum(within, 0)  # type: ignore[no-any-return]


def _has_negative(count: Codes, starts: Codes) -> Mask:
    return np.minimum.reduceat(count, starts[:-1]) < 0


def _updates(
    schema: pa.Schema,
    rows: dict[str, pa.Array],
    places: Codes,
    slot: Codes,
    diffs: Codes,
    slots: Slots,
) -> pa.Table:
    values = {name: column.take(pa.array(places)) for name, column in rows.items()}
    values[TIME], values[DIFF] = pa.array(slots.time[slot]), pa.array(diffs)
    return pa.Table.from_arrays([values[name] for name in schema.names], schema=schema)
