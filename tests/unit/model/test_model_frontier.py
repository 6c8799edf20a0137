"""Frontiers, by example."""

import dataclasses

import pytest

from waterclock.model.frontier import Frontier
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.testing.strategies import GRID


@pytest.mark.semantics(7)
def test_after_and_at_or_after_five() -> None:
    five = EPOCH_MILLIS.frontier(5)
    times = [EPOCH_MILLIS.time(value) for value in range(10)]
    assert [time.value for time in times if five.less_than(time)] == [6, 7, 8, 9]
    assert [time.value for time in times if five.less_equal(time)] == [5, 6, 7, 8, 9]


@pytest.mark.semantics(7)
def test_one_element_is_enough_to_be_after() -> None:
    frontier = GRID.frontier((0, 2), (2, 0))
    assert frontier.less_than(GRID.time((0, 3)))
    assert not frontier.less_than(GRID.time((2, 0)))
    assert frontier.less_equal(GRID.time((2, 0)))
    assert not frontier.less_equal(GRID.time((1, 1)))


@pytest.mark.semantics(8)
def test_the_empty_frontier_is_the_latest() -> None:
    empty = EPOCH_MILLIS.empty()
    for value in (0, 5, 2**63 - 1):
        assert not empty.less_equal(EPOCH_MILLIS.time(value))
        assert not empty.less_than(EPOCH_MILLIS.time(value))
        assert EPOCH_MILLIS.frontier(value) < empty
        assert not empty <= EPOCH_MILLIS.frontier(value)
    assert empty <= empty
    assert not empty < empty
    assert empty == EPOCH_MILLIS.frontier()
    assert empty.is_empty


@pytest.mark.semantics(6)
def test_only_minimal_times_are_kept() -> None:
    assert EPOCH_MILLIS.frontier(7, 5, 9).elements == (5,)
    frontier = GRID.frontier((1, 1), (0, 2), (2, 2), (1, 1))
    assert set(frontier.elements) == {(1, 1), (0, 2)}
    assert GRID.frontier((1, 1), (0, 2)) == GRID.frontier((0, 2), (1, 1))
    assert hash(GRID.frontier((1, 1), (0, 2))) == hash(GRID.frontier((0, 2), (1, 1)))


@pytest.mark.semantics(6)
def test_insert_keeps_an_antichain() -> None:
    frontier = GRID.frontier((0, 3), (3, 0))
    assert frontier.insert(GRID.time((3, 3))) == frontier
    assert frontier.insert(GRID.time((1, 1))) == GRID.frontier((0, 3), (1, 1), (3, 0))
    assert frontier.insert(GRID.time((0, 0))) == GRID.frontier((0, 0))
    assert GRID.empty().insert(GRID.time((2, 2))) == GRID.frontier((2, 2))


def test_meet_and_join_of_frontiers() -> None:
    one, other = GRID.frontier((0, 2)), GRID.frontier((2, 0))
    assert one.meet(other) == GRID.frontier((0, 2), (2, 0))
    assert one.join(other) == GRID.frontier((2, 2))
    assert one.meet(GRID.empty()) == one
    assert one.join(GRID.empty()) == GRID.empty()


def test_order_of_frontiers() -> None:
    two = GRID.frontier((0, 2), (2, 0))
    assert two < GRID.frontier((2, 2))
    assert two < GRID.frontier((0, 2))
    assert GRID.frontier((0, 3), (3, 0)) > two
    assert GRID.frontier((0, 3), (3, 0)) >= two
    assert not two <= GRID.frontier((1, 1))
    assert not GRID.frontier((1, 1)) <= two


def test_single_value_of_a_total_order() -> None:
    assert EPOCH_MILLIS.frontier(5).only() == 5
    assert EPOCH_MILLIS.empty().only() is None
    with pytest.raises(AssertionError):
        GRID.frontier((0, 1), (1, 0)).only()


def test_frontier_is_an_immutable_value_of_times() -> None:
    frontier = GRID.frontier((0, 1), (1, 0))
    assert set(frontier) == {GRID.time((0, 1)), GRID.time((1, 0))}
    assert Frontier.of(GRID, [(1, 0), (0, 1)]) == frontier
    assert GRID.start() == GRID.frontier((0, 0))
    assert frontier != "frontier"
    assert not hasattr(frontier, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        frontier.elements = ()  # type: ignore[misc]
    assert str(frontier) == "{(0, 1), (1, 0)}"
    assert repr(EPOCH_MILLIS.empty()) == "Frontier({} of epoch_ms)"
