"""The laws of lattices, for every kind of time there is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.errors import NotATime
from waterclock.model.lattice import EpochMillis, Lattice, Product
from waterclock.model.partitioned import Partitioned, PartitionSet
from waterclock.model.timeline import StatefulTimeline, Timeline
from waterclock.testing.examples import examples
from waterclock.testing.strategies import (
    GRID,
    epoch_millis,
    grid_times,
    partition_ids,
    partition_sets,
    points,
    source_times,
)

KINDS: dict[str, tuple[Lattice[Any], st.SearchStrategy[Any]]] = {
    "millis": (EpochMillis(), epoch_millis()),
    "pair": (Product(EpochMillis(), EpochMillis()), points()),
    "nested pair": (
        Product(Product(EpochMillis(), EpochMillis()), Product(EpochMillis(), Partitioned())),
        st.tuples(points(3), st.tuples(st.integers(0, 3), source_times())),
    ),
    "partitioned": (Partitioned(), source_times()),
}

every_kind = pytest.mark.parametrize("kind", KINDS)
many = examples(100)


def draw_three(data: st.DataObject, kind: str) -> tuple[Lattice[Any], Any, Any, Any]:
    lattice, values = KINDS[kind]
    return lattice, data.draw(values), data.draw(values), data.draw(values)


@pytest.mark.semantics(3)
@every_kind
@many
@given(data=st.data())
def test_join_and_meet_laws(data: st.DataObject, kind: str) -> None:
    lattice, a, b, c = draw_three(data, kind)
    for operation in (lattice.join, lattice.meet):
        assert operation(a, operation(b, c)) == operation(operation(a, b), c)
        assert operation(a, b) == operation(b, a)
        assert operation(a, a) == a
    assert lattice.join(a, lattice.meet(a, b)) == a
    assert lattice.meet(a, lattice.join(a, b)) == a


@pytest.mark.semantics(4)
@every_kind
@many
@given(data=st.data())
def test_the_order_is_the_order_of_joins(data: st.DataObject, kind: str) -> None:
    lattice, a, b, c = draw_three(data, kind)
    assert lattice.less_equal(a, b) == (lattice.join(a, b) == b) == (lattice.meet(a, b) == a)
    if lattice.less_equal(a, b) and lattice.less_equal(b, c):
        assert lattice.less_equal(a, c)
    timeline = Timeline("t", lattice)
    one, other = timeline.time(a), timeline.time(b)
    assert (one < other) == (one <= other and one != other)
    assert (one > other) == (other < one)
    assert (one >= other) == (other <= one)


@pytest.mark.semantics(3)
@every_kind
@many
@given(data=st.data())
def test_join_and_meet_are_the_closest_bounds(data: st.DataObject, kind: str) -> None:
    lattice, a, b, c = draw_three(data, kind)
    below_both = lattice.less_equal(c, a) and lattice.less_equal(c, b)
    above_both = lattice.less_equal(a, c) and lattice.less_equal(b, c)
    assert below_both == lattice.less_equal(c, lattice.meet(a, b))
    assert above_both == lattice.less_equal(lattice.join(a, b), c)


@pytest.mark.semantics(5)
@every_kind
@many
@given(data=st.data())
def test_there_is_a_least_time(data: st.DataObject, kind: str) -> None:
    lattice, a, _, _ = draw_three(data, kind)
    assert lattice.less_equal(lattice.least(), a)
    assert lattice.join(lattice.least(), a) == a
    assert lattice.check(lattice.least()) == lattice.least()


@pytest.mark.semantics(5)
@many
@given(a=epoch_millis(), b=epoch_millis())
def test_naturals_join_by_max_and_meet_by_min(a: int, b: int) -> None:
    lattice = EpochMillis()
    assert (lattice.join(a, b), lattice.meet(a, b), lattice.least()) == (max(a, b), min(a, b), 0)


@every_kind
@many
@given(data=st.data())
def test_operations_stay_in_the_lattice(data: st.DataObject, kind: str) -> None:
    lattice, a, b, _ = draw_three(data, kind)
    for value in (a, lattice.join(a, b), lattice.meet(a, b)):
        assert lattice.check(value) == value
    with pytest.raises(NotATime):
        lattice.check(object())


@many
@given(one=partition_sets(), other=partition_sets(), partition=partition_ids())
def test_partition_sets_are_sets(one: PartitionSet, other: PartitionSet, partition: object) -> None:
    both, either = one.intersection(other), one.union(other)
    assert (partition in both) == (partition in one and partition in other)
    assert (partition in either) == (partition in one or partition in other)
    assert one.issubset(other) == (both == one) == (either == other)
    assert one.is_empty == one.issubset(PartitionSet.of())


@pytest.mark.semantics(9)
@many
@given(completed=st.lists(points(3), max_size=8))
def test_a_stateful_timeline_never_regresses(completed: list[tuple[int, int]]) -> None:
    state = StatefulTimeline(GRID)
    times = [GRID.time(value) for value in completed]
    for index, time in enumerate(times):
        before, state = state, state.complete(time)
        for probe in grid_times(4):
            assert state.is_past(probe) == any(probe <= done for done in times[: index + 1])
            assert state.is_past(probe) or not before.is_past(probe)
        assert not any(a < b for a in state.latest for b in state.latest)
    assert state.latest == {a for a in times if not any(a < b for b in times)}
