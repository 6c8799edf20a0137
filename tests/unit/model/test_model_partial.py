"""The reference partial collection, by example."""

import dataclasses

import pytest

from waterclock.model.collection import CollectionVersion, Update
from waterclock.model.errors import (
    ForeignTime,
    FrontierRegression,
    NoProgress,
    TimeForgotten,
    TimeUnwritten,
    UpdateOutsideWindow,
)
from waterclock.model.lattice import EpochMillis
from waterclock.model.partial import PartialCollection
from waterclock.model.timeline import EPOCH_MILLIS, Timeline
from waterclock.testing.strategies import GRID, grid_times

OTHER = Timeline("other_ms", EpochMillis())


def at(value: int, data: str = "a", diff: int = 1) -> Update[str, int]:
    return Update(data, EPOCH_MILLIS.time(value), diff)


def written() -> PartialCollection[str, int]:
    """Complete up to 10 and readable from 0: one more "a" at each of 2, 5 and 8."""
    start: PartialCollection[str, int] = PartialCollection.start(EPOCH_MILLIS)
    return start.append(EPOCH_MILLIS.frontier(10), [at(2), at(5), at(8)])


def count(collection: PartialCollection[str, int], value: int) -> int:
    return collection.read(EPOCH_MILLIS.time(value)).multiplicity("a")


@pytest.mark.semantics(24)
def test_the_start_has_nothing_to_read() -> None:
    start: PartialCollection[str, tuple[int, int]] = PartialCollection.start(GRID)
    assert start == PartialCollection(GRID, frozenset(), GRID.start(), GRID.start())
    for time in grid_times(3):
        with pytest.raises(TimeUnwritten):
            start.read(time)


@pytest.mark.semantics(23)
def test_only_updates_are_stored() -> None:
    names = [field.name for field in dataclasses.fields(PartialCollection)]
    assert names == ["timeline", "updates", "since", "upper"]
    assert written().updates == {at(2), at(5), at(8)}


@pytest.mark.semantics(15)
def test_forgotten_and_unwritten_times_are_told_apart() -> None:
    collection = written().compact(EPOCH_MILLIS.frontier(4))
    with pytest.raises(TimeForgotten) as forgotten:
        count(collection, 3)
    assert forgotten.value.sqlstate == "22023"
    assert forgotten.value.detail is not None
    assert "{4}" in forgotten.value.detail
    assert count(collection, 4) == 1
    assert count(collection, 9) == 3
    with pytest.raises(TimeUnwritten) as unwritten:
        count(collection, 10)
    assert unwritten.value.sqlstate == "22023"


@pytest.mark.semantics(15)
def test_a_time_both_forgotten_and_unwritten_is_forgotten() -> None:
    collection = written().compact(EPOCH_MILLIS.frontier(20))
    with pytest.raises(TimeForgotten):
        count(collection, 12)
    with pytest.raises(TimeUnwritten):
        count(collection, 20)


@pytest.mark.semantics(25)
def test_append_reveals_its_window() -> None:
    before = written()
    after = before.append(EPOCH_MILLIS.frontier(20), [at(10), at(19)])
    assert after.since == before.since
    assert after.upper == EPOCH_MILLIS.frontier(20)
    assert [count(after, value) for value in range(10)] == [
        count(before, value) for value in range(10)
    ]
    assert [count(after, value) for value in (10, 18, 19)] == [4, 4, 5]


@pytest.mark.semantics(25, 27)
@pytest.mark.parametrize("value", [9, 20, 25])
def test_updates_outside_the_window_are_refused_as_a_whole(value: int) -> None:
    before = written()
    with pytest.raises(UpdateOutsideWindow) as caught:
        before.append(EPOCH_MILLIS.frontier(20), [at(12), at(value)])
    assert caught.value.sqlstate == "22023"
    assert before == written()


@pytest.mark.semantics(25)
def test_the_window_between_two_element_frontiers() -> None:
    start: PartialCollection[str, tuple[int, int]] = PartialCollection.start(GRID)
    collection = start.append(GRID.frontier((0, 2), (2, 0)))
    later = GRID.frontier((0, 3), (3, 0))
    for value in [(0, 2), (2, 0), (2, 2)]:
        update = Update("a", GRID.time(value), 1)
        assert collection.append(later, [update]).updates == {update}
    for value in [(1, 1), (0, 3), (3, 1)]:
        with pytest.raises(UpdateOutsideWindow):
            collection.append(later, [Update("a", GRID.time(value), 1)])


@pytest.mark.semantics(26)
def test_a_window_is_committed_once_and_whole() -> None:
    collection = written()
    with pytest.raises(UpdateOutsideWindow):
        collection.append(EPOCH_MILLIS.frontier(11), [at(5, "late")])
    with pytest.raises(NoProgress):
        collection.append(EPOCH_MILLIS.frontier(10), [at(5, "late")])


def test_append_with_equal_frontiers_is_an_error() -> None:
    for updates in ([], [at(10)]):
        with pytest.raises(NoProgress) as caught:
            written().append(EPOCH_MILLIS.frontier(10), updates)
        assert caught.value.sqlstate == "22023"


def test_append_of_nothing_is_progress() -> None:
    collection = written().append(EPOCH_MILLIS.frontier(20))
    assert count(collection, 19) == 3


@pytest.mark.semantics(33)
def test_frontiers_never_move_back() -> None:
    collection = written().compact(EPOCH_MILLIS.frontier(4))
    with pytest.raises(FrontierRegression) as caught:
        collection.append(EPOCH_MILLIS.frontier(9))
    assert caught.value.sqlstate == "22023"
    with pytest.raises(FrontierRegression):
        collection.compact(EPOCH_MILLIS.frontier(3))


@pytest.mark.semantics(33)
def test_frontiers_never_move_sideways() -> None:
    start: PartialCollection[str, tuple[int, int]] = PartialCollection.start(GRID)
    collection = start.append(GRID.frontier((0, 2))).compact(GRID.frontier((0, 2)))
    with pytest.raises(FrontierRegression):
        collection.append(GRID.frontier((2, 0)))
    with pytest.raises(FrontierRegression):
        collection.compact(GRID.frontier((2, 0)))


@pytest.mark.semantics(28, 32, 33)
def test_compact_moves_and_merges() -> None:
    collection = written().compact(EPOCH_MILLIS.frontier(6))
    assert collection.since == EPOCH_MILLIS.frontier(6)
    assert collection.upper == EPOCH_MILLIS.frontier(10)
    assert collection.updates == {at(6, diff=2), at(8)}
    assert [count(collection, value) for value in (6, 7, 8, 9)] == [2, 2, 3, 3]


@pytest.mark.semantics(32)
def test_what_cancels_out_vanishes() -> None:
    start: PartialCollection[str, int] = PartialCollection.start(EPOCH_MILLIS)
    collection = start.append(EPOCH_MILLIS.frontier(10), [at(2), at(5, diff=-1)])
    assert collection.compact(EPOCH_MILLIS.frontier(5)).updates == frozenset()


def test_since_may_overtake_upper_without_losing_updates() -> None:
    collection = written().compact(EPOCH_MILLIS.frontier(15))
    assert collection.updates == {at(15, diff=3)}
    caught_up = collection.append(EPOCH_MILLIS.frontier(20), [at(12), at(15, diff=3)])
    assert count(caught_up, 15) == 7


@pytest.mark.semantics(39)
def test_an_empty_upper_ends_writing_but_not_reading() -> None:
    collection = written().append(EPOCH_MILLIS.empty(), [at(30)])
    assert count(collection, 2**63 - 1) == 4
    with pytest.raises(NoProgress):
        collection.append(EPOCH_MILLIS.empty())
    with pytest.raises(FrontierRegression):
        collection.append(EPOCH_MILLIS.frontier(40), [at(35)])


@pytest.mark.semantics(40)
def test_an_empty_since_ends_reading() -> None:
    collection = written().compact(EPOCH_MILLIS.empty())
    assert collection.updates == frozenset()
    for value in (0, 5, 10, 2**63 - 1):
        with pytest.raises(TimeForgotten):
            count(collection, value)


@pytest.mark.semantics(10)
def test_foreign_times_are_refused() -> None:
    collection = written()
    with pytest.raises(ForeignTime):
        collection.read(OTHER.time(5))
    with pytest.raises(ForeignTime):
        collection.append(OTHER.frontier(20))
    with pytest.raises(ForeignTime):
        collection.append(EPOCH_MILLIS.frontier(20), [Update("a", OTHER.time(12), 1)])
    with pytest.raises(ForeignTime):
        collection.compact(OTHER.frontier(5))
    with pytest.raises(ForeignTime):
        collection.compact(EPOCH_MILLIS.empty()).read(OTHER.time(5))


@pytest.mark.semantics(14, 15)
def test_reading_between_two_element_frontiers() -> None:
    """Rows of the square, top to bottom: . forgotten, digit the count read there, ? unwritten."""
    start: PartialCollection[str, tuple[int, int]] = PartialCollection.start(GRID)
    updates = [Update("a", GRID.time(value), 1) for value in [(0, 0), (0, 2), (1, 1), (2, 0)]]
    collection = start.append(GRID.frontier((1, 3), (3, 2)), updates)
    collection = collection.compact(GRID.frontier((0, 2), (2, 0)))

    def show(time: object) -> str:
        try:
            return str(collection.read(time).multiplicity("a"))  # type: ignore[arg-type]
        except TimeForgotten:
            return "."
        except TimeUnwritten:
            return "?"

    square = [[show(GRID.time((x, y))) for y in range(4)] for x in range(4)]
    assert square == [
        [".", ".", "2", "2"],
        [".", ".", "3", "?"],
        ["2", "3", "4", "?"],
        ["2", "3", "?", "?"],
    ]


@pytest.mark.semantics(22)
def test_a_partial_collection_from_a_function() -> None:
    since, upper = EPOCH_MILLIS.frontier(3), EPOCH_MILLIS.frontier(6)
    collection = PartialCollection.of_function(
        lambda time: CollectionVersion({"a": time.value}),
        [EPOCH_MILLIS.time(value) for value in range(9)],
        since=since,
        upper=upper,
    )
    assert collection.updates == {at(3, diff=3), at(4), at(5)}
    assert [count(collection, value) for value in (3, 4, 5)] == [3, 4, 5]
