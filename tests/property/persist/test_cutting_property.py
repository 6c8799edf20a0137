"""From cut to cut a reader takes everything, each time once, and never more than it can help."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from waterclock.persist.cutting import Chunk, Limit, Times, cut
from waterclock.testing.examples import examples

ROW_BYTES = 10
_times = st.lists(st.integers(0, 30), min_size=1, max_size=12)


def chunk_of(times: list[int]) -> Chunk:
    return Chunk(min(times), max(times), len(times), ROW_BYTES * len(times))


@examples(300)
@given(st.lists(_times, max_size=8), st.integers(1, 15), st.integers(1, 150), st.integers(0, 20))
def test_cuts_are_bounded_and_lead_to_the_end(
    chunks: list[list[int]], most_rows: int, most_bytes: int, start: int
) -> None:
    limit = Limit(most_rows, most_bytes)
    every = np.array(sorted(t for times in chunks for t in times), dtype=np.int64)
    end = 31
    while start < end:

        def times_before(upper: int, since: int = start) -> Times:
            return every[(every >= since) & (every < upper)]

        found = cut([chunk_of(times) for times in chunks], start, end, limit, times_before)
        assert start < found <= end, "each cut gets on"
        taken = times_before(found)
        if not limit.allows(len(taken), ROW_BYTES * len(taken)):
            assert len(set(taken.tolist())) == 1, "only a single time is more than the limit"
        start = found


@given(st.integers(1, 20))
def test_as_much_is_taken_as_is_allowed(most: int) -> None:
    """Commits of one row each, and the same after they were merged into one chunk."""
    times = np.arange(20, dtype=np.int64)
    apart = [Chunk(t, t, 1, ROW_BYTES) for t in range(20)]
    merged = [Chunk(0, 19, 20, 20 * ROW_BYTES)]
    for chunks in (apart, merged):
        found = cut(chunks, 0, 20, Limit(most, 1000), lambda end: times[times < end])
        assert found == most


def test_a_single_large_time_is_not_read_to_be_cut() -> None:
    def unasked(_end: int) -> Times:
        raise AssertionError("its times are known")

    chunks = [Chunk(5, 5, 1000, 10_000), Chunk(7, 9, 1000, 10_000)]
    assert cut(chunks, 2, 20, Limit(10, 100), unasked) == 6
    assert cut([], 2, 20, Limit(10, 100), unasked) == 20
