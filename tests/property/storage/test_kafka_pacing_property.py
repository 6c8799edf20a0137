"""How much of a backlog is bound at once, and how ranges are cut: for all frontiers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from waterclock.storage.reclock.progress import Range
from waterclock.storage.sources.kafka.definition import frontier_of
from waterclock.storage.sources.kafka.pacing import Pace, limited
from waterclock.storage.sources.kafka.slices import cut

OFFSETS = st.integers(0, 1000)
BOUND = st.dictionaries(st.integers(0, 6), OFFSETS)
GROWTH = st.dictionaries(st.integers(0, 9), OFFSETS)


@given(BOUND, GROWTH, st.integers(1, 500))
def test_limited_frontiers(bound: dict[int, int], growth: dict[int, int], at_once: int) -> None:
    partitions = bound.keys() | growth.keys()
    ends = {p: bound.get(p, 0) + growth.get(p, 0) for p in partitions}
    before, known = frontier_of(bound), frontier_of(ends)
    found = limited(before, known, at_once)
    found.require_after(before)
    known.require_after(found)
    assert found.uppers.keys() == known.uppers.keys()
    taken = {p: found.uppers[p] - bound.get(p, 0) for p in ends}
    behind = {p: ends[p] - bound.get(p, 0) for p in ends}
    waiting = [p for p in ends if behind[p]]
    assert sum(taken.values()) <= max(at_once, len(waiting))
    assert sum(taken.values()) >= min(at_once, sum(behind.values())) - len(waiting)
    assert all(taken[p] > 0 for p in waiting)  # nobody starves
    if sum(behind.values()) <= at_once:
        assert found == known


@given(st.lists(st.tuples(OFFSETS, OFFSETS), max_size=5), st.integers(1, 300))
def test_cut_ranges(given_ranges: list[tuple[int, int]], size: int) -> None:
    ranges = [Range(p, start, start + n) for p, (start, n) in enumerate(given_ranges)]
    pieces = cut(ranges, size)
    assert all(0 < len(piece) <= size for piece in pieces)
    for each in ranges:
        own = [piece for piece in pieces if piece.partition == each.partition]
        offsets = [offset for piece in own for offset in range(piece.start, piece.end)]
        assert offsets == list(range(each.start, each.end))


@given(st.integers(1, 10**7), st.integers(0, 10**7), st.integers(0, 10**10))
def test_the_pace_stays_within_bounds(offsets: int, rows: int, size: int) -> None:
    pace = Pace()
    pace.learn(offsets, min(rows, offsets), size)
    assert 1000 <= pace.at_once <= 1_000_000


def test_large_messages_are_bound_fewer_at_once() -> None:
    small, large = Pace(), Pace()
    small.learn(10_000, 10_000, 10_000 * 100)
    large.learn(10_000, 10_000, 10_000 * 100_000)
    assert large.at_once < 3000 < small.at_once
