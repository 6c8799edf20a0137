"""Spans: from which slot of its group to which an item is there, and how often.

An item is a row, or a value, of a group. Its updates cut the group's run of slots into pieces of
constant count; those in which the count is not 0 are its spans. With `cover` they answer what is
there at a slot without a loop over slots.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from waterclock.compute.kernels.codes import Codes, first_places, ordinals, sums
from waterclock.compute.kernels.groups import Slots


@dataclass(frozen=True, slots=True)
class Spans:
    """Runs of slots, each from its start up to, and without, its end, during which an item of that
    rank has one count, which is not 0.
    """

    rank: Codes
    start: Codes
    end: Codes
    count: Codes


def spans_of(group: Codes, rank: Codes, slot: Codes, diff: Codes, slots: Slots) -> Spans:
    """The spans of all items, given the updates of state and delta.

    Items of one group are the same iff their ranks are. An update of the state is in the first slot
    of its group.
    """
    item, _ = ordinals(group * (int(rank.max(initial=0)) + 1) + rank)
    place, distinct = ordinals(item * slots.count + slot)
    steps = sums(place, diff, len(distinct))
    of_item, start = np.divmod(distinct, slots.count)
    fresh = np.diff(of_item, prepend=-1) != 0
    first = np.flatnonzero(fresh)
    total = np.cumsum(steps)
    count = total - (total[first] - steps[first])[np.cumsum(fresh) - 1]
    group_end = slots.ends[slots.group[start]]
    end = np.where(np.append(fresh[1:], True), group_end, np.append(start[1:], 0))
    some = count != 0
    of_rank = rank[first_places(place, len(distinct))]
    return Spans(of_rank[some], start[some], end[some], count[some])
