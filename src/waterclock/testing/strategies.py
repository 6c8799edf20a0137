"""Hypothesis strategies for values of the model.

The sizes are small on purpose. Laws about orders break on three elements or not at all, and a
small grid of times can be checked exhaustively beside the random part of a test.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import product
from typing import TypeVar

from hypothesis import strategies as st

from waterclock.model.collection import CollectionVersion, Update
from waterclock.model.frontier import Frontier
from waterclock.model.lattice import MAX_EPOCH_MILLIS, EpochMillis, Product
from waterclock.model.partitioned import PartitionSet, SourceTime
from waterclock.model.timeline import Time, Timeline

T = TypeVar("T")

Point = tuple[int, int]

GRID: Timeline[Point] = Timeline("grid", Product(EpochMillis(), EpochMillis()))
"""A timeline of pairs, the smallest one that is truly partially ordered."""


def grid_points(side: int) -> list[Point]:
    """The raw values of the square with that many times on each side, closed downwards."""
    return list(product(range(side), range(side)))


def grid_times(side: int) -> list[Time[Point]]:
    """The times of that square, no later one before an earlier one."""
    return [GRID.time(point) for point in grid_points(side)]


def antichains(timeline: Timeline[T], values: Sequence[T]) -> list[Frontier[T]]:
    """Every non-empty frontier whose elements are among the values."""
    found: list[Frontier[T]] = []
    extensible: list[tuple[Frontier[T], int]] = [(timeline.empty(), 0)]
    while extensible:
        frontier, start = extensible.pop()
        for index in range(start, len(values)):
            larger = Frontier.of(timeline, (*frontier.elements, values[index]))
            if set(larger.elements) == {*frontier.elements, values[index]}:
                found.append(larger)
                extensible.append((larger, index + 1))
    return found


def epoch_millis() -> st.SearchStrategy[int]:
    """Raw values of `EpochMillis`: mostly small, so that equal ones occur, some extreme."""
    return st.integers(0, 5) | st.integers(0, MAX_EPOCH_MILLIS) | st.just(MAX_EPOCH_MILLIS)


def points(side: int = 4) -> st.SearchStrategy[Point]:
    """Raw values of `GRID` within a square."""
    return st.sampled_from(grid_points(side))


def partition_ids() -> st.SearchStrategy[Hashable]:
    """Partition ids, both numbers and text."""
    return st.sampled_from((0, 1, 2, "a", "b"))


def partition_sets() -> st.SearchStrategy[PartitionSet]:
    """Finite and co-finite sets of a few partitions, the empty one and all among them."""
    return st.builds(PartitionSet, st.frozensets(partition_ids(), max_size=4), st.booleans())


def source_times() -> st.SearchStrategy[SourceTime]:
    """Raw values of `Partitioned`."""
    return st.builds(SourceTime, partition_sets(), st.integers(0, 4))


def frontiers(
    timeline: Timeline[T], values: st.SearchStrategy[T], *, min_size: int = 0, max_size: int = 4
) -> st.SearchStrategy[Frontier[T]]:
    """Frontiers of at most that many elements; not empty if at least one value is drawn."""
    drawn = st.lists(values, min_size=min_size, max_size=max_size)
    return drawn.map(lambda chosen: Frontier.of(timeline, chosen))


def data() -> st.SearchStrategy[str]:
    """A few pieces of data, so that updates meet."""
    return st.sampled_from("abc")


def versions() -> st.SearchStrategy[CollectionVersion[str]]:
    """Collection versions, counts of either sign."""
    return st.dictionaries(data(), st.integers(-3, 3), max_size=3).map(CollectionVersion)


def updates(
    timeline: Timeline[T], values: st.SearchStrategy[T], *, max_size: int = 12
) -> st.SearchStrategy[list[Update[str, T]]]:
    """Updates at such times, in any order, not consolidated."""
    one = st.builds(Update, data(), values.map(timeline.time), st.integers(-2, 2))
    return st.lists(one, max_size=max_size)
