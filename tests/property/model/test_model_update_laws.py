"""Updates and functions of time are two forms of the same history."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.collection import EMPTY, CollectionVersion, Update, difference
from waterclock.model.timeline import EPOCH_MILLIS, Time
from waterclock.model.updates import (
    TimeVaryingCollection,
    consolidate,
    read,
    updates_at,
    updates_of,
)
from waterclock.testing.examples import examples
from waterclock.testing.strategies import GRID, data, grid_times, points, updates, versions

Point = tuple[int, int]

many = examples(80)
LINE = [EPOCH_MILLIS.time(value) for value in range(6)]
SQUARE = grid_times(3)
line_updates = updates(EPOCH_MILLIS, st.integers(0, 5))
grid_updates = updates(GRID, points(3))
line_functions = st.lists(versions(), min_size=6, max_size=6).map(
    lambda chosen: dict(zip(LINE, chosen, strict=True))
)
grid_functions = st.lists(versions(), min_size=9, max_size=9).map(
    lambda chosen: dict(zip(SQUARE, chosen, strict=True))
)


@pytest.mark.semantics(11, 16)
@many
@given(version=versions(), datum=data(), diff=st.integers(-5, 5))
def test_apply_changes_one_count(version: CollectionVersion[str], datum: str, diff: int) -> None:
    after = version.apply(Update(datum, GRID.least(), diff))
    for other in "abcd":
        expected = version.multiplicity(other) + (diff if other == datum else 0)
        assert after.multiplicity(other) == expected


@pytest.mark.semantics(16)
@many
@given(version=versions(), chosen=grid_updates, data=st.data())
def test_the_order_of_updates_does_not_matter(
    version: CollectionVersion[str], chosen: list[Update[str, Point]], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(chosen))
    one_by_one = version
    for update in shuffled:
        one_by_one = one_by_one.apply(update)
    assert version.apply(chosen) == version.apply(shuffled) == one_by_one


@pytest.mark.semantics(17)
@many
@given(before=versions(), after=versions())
def test_difference_leads_from_one_version_to_the_other(
    before: CollectionVersion[str], after: CollectionVersion[str]
) -> None:
    time = EPOCH_MILLIS.time(7)
    found = difference(time, before, after)
    assert before.apply(found) == after
    changed = {d for d in "abc" if before.multiplicity(d) != after.multiplicity(d)}
    assert sorted(update.data for update in found) == sorted(changed)
    assert all(update.diff != 0 and update.time == time for update in found)


@pytest.mark.semantics(18)
@many
@given(chosen=grid_updates)
def test_read_sums_exactly_what_is_at_or_before(chosen: list[Update[str, Point]]) -> None:
    for time in SQUARE:
        version = read(chosen, time)
        for datum in "abc":
            assert version.multiplicity(datum) == sum(
                update.diff
                for update in chosen
                if update.data == datum
                and update.time.value[0] <= time.value[0]
                and update.time.value[1] <= time.value[1]
            )


@pytest.mark.semantics(32)
@many
@given(chosen=grid_updates)
def test_consolidation_changes_no_read(chosen: list[Update[str, Point]]) -> None:
    settled = consolidate(chosen)
    assert len(settled) <= len(chosen)
    assert len({(update.data, update.time) for update in settled}) == len(settled)
    assert all(update.diff for update in settled)
    assert consolidate(settled) == settled
    assert all(read(settled, time) == read(chosen, time) for time in SQUARE)


@pytest.mark.semantics(19, 21)
@many
@given(function=line_functions)
def test_on_naturals_an_update_is_the_change_since_the_last_time(
    function: dict[Time[int], CollectionVersion[str]],
) -> None:
    found = updates_of(function.__getitem__, LINE)
    for index, time in enumerate(LINE):
        previous = function[LINE[index - 1]] if index else EMPTY
        here = {update for update in found if update.time == time}
        assert here == difference(time, previous, function[time])


@pytest.mark.semantics(20, 21)
@many
@given(function=grid_functions)
def test_on_a_grid_all_strictly_earlier_updates_are_subtracted(
    function: dict[Time[Point], CollectionVersion[str]],
) -> None:
    found = updates_of(function.__getitem__, SQUARE)
    for time in SQUARE:
        earlier = EMPTY.apply(update for update in found if update.time < time)
        here = {update for update in found if update.time == time}
        assert here == difference(time, earlier, function[time])
        assert here == updates_at(function.__getitem__, time, found)
        for datum in "abc":  # inclusion and exclusion, counted on the versions
            x, y = time.value
            left, down, corner = (
                function[GRID.time(value)].multiplicity(datum) if min(value) >= 0 else 0
                for value in [(x - 1, y), (x, y - 1), (x - 1, y - 1)]
            )
            expected = function[time].multiplicity(datum) - left - down + corner
            assert sum(update.diff for update in here if update.data == datum) == expected


@pytest.mark.semantics(13, 22)
@many
@given(function=line_functions, other=grid_functions)
def test_function_to_updates_and_back(
    function: dict[Time[int], CollectionVersion[str]],
    other: dict[Time[Point], CollectionVersion[str]],
) -> None:
    line = TimeVaryingCollection.of_updates(EPOCH_MILLIS, updates_of(function.__getitem__, LINE))
    assert {time: line.read(time) for time in LINE} == function
    grid = TimeVaryingCollection.of_updates(GRID, updates_of(other.__getitem__, SQUARE))
    assert {time: grid.read(time) for time in SQUARE} == other


@pytest.mark.semantics(22)
@many
@given(chosen=line_updates, other=grid_updates, data=st.data())
def test_updates_to_function_and_back(
    chosen: list[Update[str, int]], other: list[Update[str, Point]], data: st.DataObject
) -> None:
    line = TimeVaryingCollection.of_updates(EPOCH_MILLIS, chosen)
    assert updates_of(line.read, data.draw(st.permutations(LINE))) == consolidate(chosen)
    grid = TimeVaryingCollection.of_updates(GRID, other)
    assert updates_of(grid.read, data.draw(st.permutations(SQUARE))) == consolidate(other)
