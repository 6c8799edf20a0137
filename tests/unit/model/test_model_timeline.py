"""Timelines and their times, by example."""

import dataclasses

import pytest

from waterclock.errors import WaterclockError
from waterclock.model.errors import ForeignTime, NotATime
from waterclock.model.lattice import EpochMillis, Product
from waterclock.model.partitioned import Partitioned
from waterclock.model.timeline import EPOCH_MILLIS, StatefulTimeline, Timeline
from waterclock.testing.strategies import GRID

OTHER = Timeline("other_ms", EpochMillis())


@pytest.mark.semantics(5)
def test_naturals_have_max_min_and_zero() -> None:
    assert EPOCH_MILLIS.least().value == 0
    assert EPOCH_MILLIS.time(3).join(EPOCH_MILLIS.time(8)).value == 8
    assert EPOCH_MILLIS.time(3).meet(EPOCH_MILLIS.time(8)).value == 3


@pytest.mark.semantics(4)
def test_order_on_a_partial_order() -> None:
    low, left, right, high = (GRID.time(v) for v in [(0, 0), (0, 1), (1, 0), (1, 1)])
    assert low <= left <= high
    assert low < left < high
    assert high > right >= low
    assert not left <= right
    assert not right <= left
    assert not left > right
    assert left <= left
    assert not left < left
    assert left.join(right) == high
    assert left.meet(right) == low


@pytest.mark.semantics(2)
def test_timelines_are_told_apart_by_their_id() -> None:
    assert EPOCH_MILLIS.lattice == OTHER.lattice
    assert EPOCH_MILLIS != OTHER
    assert Timeline("epoch_ms", EpochMillis()) == EPOCH_MILLIS
    assert hash(Timeline("epoch_ms", EpochMillis())) == hash(EPOCH_MILLIS)
    assert EPOCH_MILLIS.time(5) != OTHER.time(5)
    assert EPOCH_MILLIS.frontier(5) != OTHER.frontier(5)


@pytest.mark.semantics(2, 10)
@pytest.mark.parametrize(
    "relate",
    [
        lambda a, b: a <= b,
        lambda a, b: a < b,
        lambda a, b: a >= b,
        lambda a, b: a > b,
        lambda a, b: a.join(b),
        lambda a, b: a.meet(b),
    ],
)
def test_times_of_two_timelines_are_never_related(relate) -> None:
    for one, other in [
        (EPOCH_MILLIS.time(5), OTHER.time(6)),
        (EPOCH_MILLIS.frontier(5), OTHER.frontier(6)),
        (EPOCH_MILLIS.empty(), OTHER.empty()),
    ]:
        with pytest.raises(ForeignTime) as caught:
            relate(one, other)
        assert "epoch_ms" in str(caught.value)
        assert "other_ms" in str(caught.value)
        assert caught.value.sqlstate == "22023"
        assert set(caught.value.timelines) == {"epoch_ms", "other_ms"}


@pytest.mark.semantics(10)
def test_frontier_refuses_a_foreign_time() -> None:
    for frontier in (EPOCH_MILLIS.frontier(5), EPOCH_MILLIS.empty()):
        for use in (frontier.less_equal, frontier.less_than, frontier.insert):
            with pytest.raises(ForeignTime):
                use(OTHER.time(5))


@pytest.mark.parametrize("value", [-1, 2**63, True, 1.0, "1", None, (1, 2)])
def test_not_epoch_millis(value: object) -> None:
    with pytest.raises(NotATime) as caught:
        EPOCH_MILLIS.time(value)
    assert isinstance(caught.value, WaterclockError)
    assert caught.value.sqlstate == "22023"
    with pytest.raises(NotATime):
        EPOCH_MILLIS.frontier(value)
    with pytest.raises(NotATime):
        EPOCH_MILLIS.frontier(1, value)


def test_extreme_epoch_millis() -> None:
    assert EPOCH_MILLIS.time(0) < EPOCH_MILLIS.time(2**63 - 1)


@pytest.mark.parametrize("value", [1, (1,), (1, 2, 3), (1, -2), [1, 2], None, (1, (2, 3))])
def test_not_a_pair(value: object) -> None:
    with pytest.raises(NotATime):
        GRID.time(value)


def test_lattices_are_values() -> None:
    assert Product(EpochMillis(), EpochMillis()) == GRID.lattice
    assert Product(EpochMillis(), Partitioned()) != GRID.lattice
    assert len({EpochMillis(), EpochMillis(), Partitioned()}) == 2


def test_time_is_an_immutable_hashable_value() -> None:
    assert len({EPOCH_MILLIS.time(1), EPOCH_MILLIS.time(1), OTHER.time(1)}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        EPOCH_MILLIS.time(1).value = 2  # type: ignore[misc]
    assert str(EPOCH_MILLIS.time(1)) == "1"
    assert repr(EPOCH_MILLIS.time(1)) == "Time(1 of epoch_ms)"


@pytest.mark.semantics(9)
def test_stateful_timeline_keeps_the_latest_completed_times() -> None:
    state = StatefulTimeline(GRID)
    assert not state.is_past(GRID.least())
    for value in [(0, 3), (1, 1), (3, 0), (0, 1)]:
        state = state.complete(GRID.time(value))
    assert {time.value for time in state.latest} == {(0, 3), (1, 1), (3, 0)}
    state = state.complete(GRID.time((2, 2)))
    assert {time.value for time in state.latest} == {(0, 3), (2, 2), (3, 0)}


@pytest.mark.semantics(9, 10)
def test_stateful_timeline_is_of_one_timeline() -> None:
    state = StatefulTimeline(EPOCH_MILLIS)
    with pytest.raises(ForeignTime):
        state.complete(OTHER.time(1))
    with pytest.raises(ForeignTime):
        state.is_past(OTHER.time(1))
