"""The frame of every operator that works group by group: affected groups, and slots in time.

Only groups that the delta touches can change. Each of them gets a number, and for each group there
is a run of slots: first one for the state before the window, then one for each distinct time at
which the delta touches the group. Put the state's diffs into the first slot and the delta's into
theirs, and a running sum along each run gives the contents at every time that matters. What an
operator emits at a slot is the difference between its result there and at the slot before.

Between two slots of a group nothing happens to it, so looking at the slots is exact for all times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from waterclock.compute.kernels.codes import (
    Codes,
    Mask,
    dense_rows,
    first_places,
    ordinals,
    paired,
    sums,
)
from waterclock.compute.kernels.keys import key_columns, key_hashes, shared_codes
from waterclock.compute.kernels.trace import Trace
from waterclock.persist.hashing import Hashes


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups that a delta touches, numbered from 0: their normalised keys and hashes, and the
    group of each row of the delta.
    """

    names: tuple[str, ...]
    keys: list[pa.Array]
    hashes: Hashes
    of_delta: Codes

    @classmethod
    def of(cls, delta: pa.Table, names: Sequence[str]) -> Groups:
        columns = key_columns(delta, names)
        of_delta, count = dense_rows(columns, delta.num_rows)
        firsts = pa.array(first_places(of_delta, count))
        keys = [column.take(firsts) for column in columns]
        return cls(tuple(names), keys, key_hashes(keys, count), of_delta)

    @property
    def count(self) -> int:
        return len(self.hashes)

    def state(self, trace: Trace) -> tuple[pa.Table, Codes]:
        """What the trace holds of exactly these groups, and the group of each row of it."""
        found = trace.lookup(self.hashes)
        stored = key_columns(found, self.names)
        ask, have, count = shared_codes(self.keys, stored, (self.count, found.num_rows))
        group_of = np.full(count, -1, dtype=np.int64)
        group_of[ask] = np.arange(self.count)
        group = group_of[have]
        ours = group >= 0
        if not ours.all():
            found, group = found.filter(pa.array(ours)), group[ours]
        return found, group


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of all groups, in the order of group and time.

    `starts` has for each group its first slot, the one before the window; `of_delta` has for each
    row of the delta the slot it falls into. The time of a first slot means nothing.
    """

    group: Codes
    time: Codes
    starts: Codes
    of_delta: Codes

    @classmethod
    def of(cls, group: Codes, count: int, times: Codes) -> Slots:
        """The slots of so many groups, given the group and the time of each row of the delta."""
        ordinal, distinct = ordinals(times)
        width = len(distinct) + 1
        place = group * width + (ordinal + 1)
        if count * width <= 4 * len(group) + 1024:
            used = np.zeros(count * width, dtype=np.bool_)
            used[place] = True
            used[::width] = True
            places = np.flatnonzero(used)
            of_delta = (np.cumsum(used) - 1)[place]
        else:
            firsts = np.arange(count, dtype=np.int64) * width
            within, places = ordinals(np.concatenate((firsts, place)))
            of_delta = within[count:]
        of_group, of_time = np.divmod(places, width)
        starts = np.flatnonzero(of_time == 0)
        return cls(of_group, distinct[of_time - 1], starts, of_delta)

    @property
    def count(self) -> int:
        return len(self.group)

    @property
    def later(self) -> Codes:
        """The slots inside the window: all but the first of each group."""
        inside = np.ones(self.count, dtype=np.bool_)
        inside[self.starts] = False
        return np.flatnonzero(inside)

    @property
    def ends(self) -> Codes:
        """For each group the slot after its last."""
        return np.append(self.starts[1:], self.count)

    def changes(self, delta: Codes) -> Codes:
        """The sum of the delta's weights in each slot."""
        return sums(self.of_delta, delta, self.count)

    def totals(self, changes: Codes, state_group: Codes, state: Codes) -> Codes:
        """What has added up by each slot, from the state before the window and the changes."""
        steps = changes.copy()
        np.add.at(steps, self.starts[state_group], state)
        return self.running(steps)

    def replacements(
        self, there: Mask, values: Sequence[Codes | Mask]
    ) -> tuple[Codes, Codes, Codes]:
        """The changes of an output that has at most one row for each group.

        `there` says in which slots it has one, `values` what it is made of. Where the row differs
        from that of the slot before, the old one is retracted and the new one inserted. Gives for
        each change the slot whose row it is about, the slot at which it happens, and the diff.
        """
        later = self.later
        differs = there[later] != there[later - 1]
        for value in values:
            differs |= value[later] != value[later - 1]
        later = later[differs]
        old, new = later[there[later - 1]], later[there[later]]
        diffs = np.repeat(np.array((-1, 1)), (len(old), len(new)))
        return np.concatenate((old - 1, new)), np.concatenate((old, new)), diffs

    def running(self, steps: Codes) -> Codes:
        """The sum along each group's run. Sums may wrap on the way and come back exact."""
        total = np.cumsum(steps)
        base = total[self.starts] - steps[self.starts]
        return total - base[self.group]


def net_updates(codes: Codes, slot: Codes, diffs: Codes) -> tuple[Codes, Codes, Codes]:
    """Updates of coded rows with those of one row in one slot added up and zeros left out.

    Gives for each that remains a place where it is found, and its diff; and the code of each.
    """
    pair, count = paired(codes, slot)
    net = sums(pair, diffs, count)
    kept = net != 0
    places = first_places(pair, count)[kept]
    return places, net[kept], codes[places]
