"""The laws of frontiers, against sets of times written out."""

from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.frontier import Frontier
from waterclock.model.partitioned import (
    Partitioned,
    SourceTime,
    partition_uppers,
    progress_frontier,
)
from waterclock.model.timeline import EPOCH_MILLIS, Timeline
from waterclock.testing.examples import examples
from waterclock.testing.strategies import (
    GRID,
    antichains,
    frontiers,
    grid_points,
    grid_times,
    partition_ids,
    points,
    source_times,
)

Grid = Frontier[tuple[int, int]]

SOURCE = Timeline("source", Partitioned())
SQUARE = grid_times(4)

many = examples(100)
grid_frontiers = frontiers(GRID, points())
source_frontiers = frontiers(SOURCE, source_times())
uppers = st.dictionaries(partition_ids(), st.integers(0, 4), max_size=4)


def region(frontier: Grid) -> set[object]:
    """The times of the square at or after the frontier, by definition."""
    return {time for time in SQUARE if any(element <= time for element in frontier)}


@pytest.mark.semantics(6)
@many
@given(values=st.lists(points(), max_size=6))
def test_a_frontier_is_the_antichain_of_minimal_times(values: list[tuple[int, int]]) -> None:
    frontier = GRID.frontier(*values)
    times = [GRID.time(value) for value in values]
    assert set(frontier) == {t for t in times if not any(other < t for other in times)}
    assert not any(a < b for a in frontier for b in frontier)
    assert len(set(frontier.elements)) == len(frontier.elements)
    assert frontier == GRID.frontier(*reversed(values))
    assert hash(frontier) == hash(GRID.frontier(*reversed(values)))
    inserted = GRID.empty()
    for time in times:
        inserted = inserted.insert(time)
    assert inserted == frontier


@pytest.mark.semantics(7)
@many
@given(frontier=grid_frontiers)
def test_after_means_after_some_element(frontier: Grid) -> None:
    for time in SQUARE:
        assert frontier.less_equal(time) == any(element <= time for element in frontier)
        assert frontier.less_than(time) == any(element < time for element in frontier)


@many
@given(one=grid_frontiers, other=grid_frontiers)
def test_frontiers_are_ordered_as_their_regions(one: Grid, other: Grid) -> None:
    assert (one <= other) == (region(one) >= region(other))
    assert (one < other) == (region(one) > region(other))
    assert (one >= other) == (region(one) <= region(other))
    assert (one > other) == (region(one) < region(other))
    assert (one == other) == (region(one) == region(other))
    assert region(one.meet(other)) == region(one) | region(other)
    assert region(one.join(other)) == region(one) & region(other)


@pytest.mark.semantics(8)
@many
@given(frontier=grid_frontiers)
def test_nothing_is_later_than_the_empty_frontier(frontier: Grid) -> None:
    empty = GRID.empty()
    assert GRID.start() <= frontier <= empty
    assert (empty <= frontier) == frontier.is_empty
    assert not any(empty.less_equal(time) or empty.less_than(time) for time in SQUARE)


@many
@pytest.mark.parametrize("drawn", [grid_frontiers, source_frontiers], ids=["grid", "source"])
@given(data=st.data())
def test_frontiers_form_a_lattice(
    data: st.DataObject, drawn: st.SearchStrategy[Frontier[object]]
) -> None:
    f, g, h = data.draw(drawn), data.draw(drawn), data.draw(drawn)
    assert f.meet(g.meet(h)) == f.meet(g).meet(h)
    assert f.join(g.join(h)) == f.join(g).join(h)
    assert f.meet(g) == g.meet(f)
    assert f.join(g) == g.join(f)
    assert f.meet(f) == f == f.join(f)
    assert f.meet(f.join(g)) == f == f.join(f.meet(g))
    assert (f <= g) == (f.meet(g) == f) == (f.join(g) == g)
    for result in (f.meet(g), f.join(g)):
        assert not any(a < b for a in result for b in result)


@pytest.mark.semantics(6, 8)
@many
@given(
    one=frontiers(EPOCH_MILLIS, st.integers(0, 5)), other=frontiers(EPOCH_MILLIS, st.integers(0, 5))
)
def test_on_a_total_order_a_frontier_is_a_number_or_infinity(
    one: Frontier[int], other: Frontier[int]
) -> None:
    def number(frontier: Frontier[int]) -> float:
        only = frontier.only()
        return float("inf") if only is None else only

    assert (one <= other) == (number(one) <= number(other))
    assert number(one.meet(other)) == min(number(one), number(other))
    assert number(one.join(other)) == max(number(one), number(other))


@pytest.mark.semantics(6)
def test_every_antichain_of_a_small_square_is_found_once() -> None:
    found = antichains(GRID, grid_points(3))
    assert len(found) == len(set(found)) == 19  # all antichains of a 3x3 grid but the empty one


@pytest.mark.semantics(116)
@many
@given(uppers=uppers, more=st.booleans())
def test_progress_round_trip(uppers: dict[Hashable, int], more: bool) -> None:
    frontier = progress_frontier(SOURCE, uppers, more_may_appear=more)
    assert partition_uppers(frontier) == (uppers, more)
    assert not any(a < b for a in frontier for b in frontier)
    assert len(frontier.elements) == len(uppers) + more


@pytest.mark.semantics(115, 116)
@many
@given(uppers=uppers, more=st.booleans(), partition=partition_ids(), offset=st.integers(0, 5))
def test_a_message_is_open_from_its_partitions_upper_on(
    uppers: dict[Hashable, int], more: bool, partition: Hashable, offset: int
) -> None:
    frontier = progress_frontier(SOURCE, uppers, more_may_appear=more)
    message = SOURCE.time(SourceTime.of_message(partition, offset))
    is_open = offset >= uppers[partition] if partition in uppers else more
    assert frontier.less_equal(message) == is_open


@pytest.mark.semantics(115)
@many
@given(p=partition_ids(), q=partition_ids(), m=st.integers(0, 5), n=st.integers(0, 5))
def test_messages_are_ordered_within_their_partition_only(
    p: Hashable, q: Hashable, m: int, n: int
) -> None:
    one = SOURCE.time(SourceTime.of_message(p, m))
    other = SOURCE.time(SourceTime.of_message(q, n))
    assert (one <= other) == (p == q and m <= n)


@pytest.mark.semantics(116)
@many
@given(uppers=uppers, data=st.data())
def test_a_partition_that_appears_moves_nothing(
    uppers: dict[Hashable, int], data: st.DataObject
) -> None:
    new = data.draw(partition_ids().filter(lambda partition: partition not in uppers))
    before = progress_frontier(SOURCE, uppers, more_may_appear=True)
    after = progress_frontier(SOURCE, {**uppers, new: 0}, more_may_appear=True)
    assert before < after
    for partition in (0, 1, 2, "a", "b", "never seen"):
        for offset in range(6):
            message = SOURCE.time(SourceTime.of_message(partition, offset))
            assert before.less_equal(message) == after.less_equal(message)


@pytest.mark.semantics(105, 116)
@many
@given(old=uppers, data=st.data())
def test_progress_in_every_partition_is_progress_of_the_frontier(
    old: dict[Hashable, int], data: st.DataObject
) -> None:
    new = {partition: upper + data.draw(st.integers(0, 2)) for partition, upper in old.items()}
    before = progress_frontier(SOURCE, old, more_may_appear=True)
    after = progress_frontier(SOURCE, new, more_may_appear=True)
    assert before <= after
    assert (before == after) == (old == new)
