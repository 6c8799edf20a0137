"""Partial collections stay true to the whole, however they evolve."""

from collections.abc import Iterable

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from waterclock.model.collection import CollectionVersion, Update
from waterclock.model.errors import TimeForgotten, TimeUnwritten, UpdateOutsideWindow
from waterclock.model.frontier import Frontier
from waterclock.model.partial import PartialCollection
from waterclock.model.partitioned import Partitioned
from waterclock.model.timeline import EPOCH_MILLIS, Time, Timeline
from waterclock.model.updates import (
    TimeVaryingCollection,
    advance,
    advance_all,
    consolidate,
    read,
)
from waterclock.testing.examples import examples
from waterclock.testing.strategies import (
    GRID,
    antichains,
    frontiers,
    grid_points,
    grid_times,
    points,
    source_times,
    updates,
)

Point = tuple[int, int]
Collection = PartialCollection[str, Point]

SQUARE = grid_times(4)
SOURCE = Timeline("source", Partitioned())

many = examples(80)
grid_updates = updates(GRID, points())
ANTICHAINS = antichains(GRID, grid_points(4))
WIDE = [frontier for frontier in ANTICHAINS if len(frontier.elements) >= 2]
WIDE_WINDOWS = [(since, upper) for since in WIDE for upper in WIDE if since < upper]
nonempty = st.sampled_from(ANTICHAINS)
wide_windows = st.sampled_from(WIDE_WINDOWS)


def readable(collection: Collection) -> list[Time[Point]]:
    """The times of the square between since and upper, by definition."""
    return [
        time
        for time in SQUARE
        if any(s <= time for s in collection.since) and not any(u <= time for u in collection.upper)
    ]


def window(
    history: Iterable[Update[str, Point]], lower: Frontier[Point], upper: Frontier[Point]
) -> list[Update[str, Point]]:
    return [u for u in history if lower.less_equal(u.time) and not upper.less_equal(u.time)]


def append_from(
    history: list[Update[str, Point]], collection: Collection, target: Frontier[Point]
) -> Collection:
    """The collection with upper joined with the target, unless that is no progress."""
    upper = collection.upper.join(target)
    if upper == collection.upper:
        return collection
    return collection.append(upper, window(history, collection.upper, upper))


def at_two_frontiers(
    history: list[Update[str, Point]], since: Frontier[Point], upper: Frontier[Point]
) -> Collection:
    start: Collection = PartialCollection.start(GRID)
    return append_from(history, start, upper).compact(since)


@pytest.mark.semantics(14, 22)
@many
@given(history=grid_updates, window=wide_windows)
def test_reads_are_true_between_two_element_frontiers(
    history: list[Update[str, Point]], window: tuple[Frontier[Point], Frontier[Point]]
) -> None:
    whole = TimeVaryingCollection.of_updates(GRID, history)
    collection = at_two_frontiers(history, *window)
    assert (collection.since, collection.upper) == window
    assert readable(collection)
    for time in readable(collection):
        assert collection.read(time) == whole.read(time)


@pytest.mark.semantics(15, 27)
@many
@given(history=grid_updates, since=nonempty, upper=nonempty)
def test_reads_outside_are_refused(
    history: list[Update[str, Point]], since: Frontier[Point], upper: Frontier[Point]
) -> None:
    collection = at_two_frontiers(history, since, upper)
    for time in set(SQUARE) - set(readable(collection)):
        expected = TimeUnwritten if collection.since.less_equal(time) else TimeForgotten
        with pytest.raises(expected):
            collection.read(time)


Steps = list[tuple[str, Frontier[Point]]]
steps = st.lists(st.tuples(st.sampled_from(["append", "compact"]), nonempty), max_size=4)


@pytest.mark.semantics(14, 25, 28, 33)
@examples(150)
@given(history=grid_updates, window=wide_windows, before=steps, after=steps)
def test_an_answer_once_given_never_changes(
    history: list[Update[str, Point]],
    window: tuple[Frontier[Point], Frontier[Point]],
    before: Steps,
    after: Steps,
) -> None:
    """Any interleaving; on the way both frontiers are joined with ones of several elements."""
    whole = TimeVaryingCollection.of_updates(GRID, history)
    collection: Collection = PartialCollection.start(GRID)
    answers: dict[Time[Point], CollectionVersion[str]] = {}
    for step, target in [*before, ("append", window[1]), ("compact", window[0]), *after]:
        last = collection
        if step == "append":
            collection = append_from(history, collection, target)
            assert collection.since == last.since
        else:
            collection = collection.compact(collection.since.join(target))
            assert collection.upper == last.upper
        assert last.since <= collection.since
        assert last.upper <= collection.upper
        for time in readable(collection):
            answer = collection.read(time)
            assert answer == answers.setdefault(time, answer) == whole.read(time)
        if {len(collection.since.elements), len(collection.upper.elements)}.isdisjoint({0, 1}):
            event("since and upper of several elements")


@pytest.mark.semantics(25)
@many
@given(history=grid_updates, first=nonempty, second=nonempty)
def test_append_takes_exactly_its_window(
    history: list[Update[str, Point]], first: Frontier[Point], second: Frontier[Point]
) -> None:
    whole = TimeVaryingCollection.of_updates(GRID, history)
    start: Collection = PartialCollection.start(GRID)
    before = append_from(history, start, first)
    after = append_from(history, before, second)
    assert after.updates == consolidate(u for u in history if not after.upper.less_equal(u.time))
    newly = set(readable(after)) - set(readable(before))
    assert newly == {
        t for t in SQUARE if before.upper.less_equal(t) and not after.upper.less_equal(t)
    }
    assert all(after.read(time) == whole.read(time) for time in readable(after))


@pytest.mark.semantics(25, 27)
@many
@given(history=grid_updates, first=nonempty, second=nonempty, point=points())
def test_append_refuses_what_is_outside_its_window(
    history: list[Update[str, Point]], first: Frontier[Point], second: Frontier[Point], point: Point
) -> None:
    start: Collection = PartialCollection.start(GRID)
    before = append_from(history, start, first)
    upper = before.upper.join(second)
    stray = Update("stray", GRID.time(point), 1)
    if upper == before.upper:
        return
    batch = [*window(history, before.upper, upper), stray]
    if before.upper.less_equal(stray.time) and not upper.less_equal(stray.time):
        assert stray in before.append(upper, batch).updates
    else:
        with pytest.raises(UpdateOutsideWindow):
            before.append(upper, batch)


@pytest.mark.semantics(22)
@many
@given(history=grid_updates, since=nonempty, upper=nonempty)
def test_partial_updates_to_function_and_back(
    history: list[Update[str, Point]], since: Frontier[Point], upper: Frontier[Point]
) -> None:
    collection = at_two_frontiers(history, since, upper)
    again = PartialCollection.of_function(
        collection.read, SQUARE, since=collection.since, upper=collection.upper
    )
    for time in readable(collection):
        assert again.read(time) == collection.read(time)
    inside = set(readable(collection))
    if all(update.time in inside for update in collection.updates):
        assert again == collection


@pytest.mark.semantics(22)
@many
@given(
    history=updates(EPOCH_MILLIS, st.integers(0, 7)),
    since=st.integers(0, 4),
    length=st.integers(1, 4),
)
def test_partial_round_trip_on_naturals(
    history: list[Update[str, int]], since: int, length: int
) -> None:
    upper = EPOCH_MILLIS.frontier(since + length)
    start: PartialCollection[str, int] = PartialCollection.start(EPOCH_MILLIS)
    early = [update for update in history if not upper.less_equal(update.time)]
    collection = start.append(upper, early).compact(EPOCH_MILLIS.frontier(since))
    line = [EPOCH_MILLIS.time(value) for value in range(9)]
    again = PartialCollection.of_function(
        collection.read, line, since=collection.since, upper=collection.upper
    )
    assert again == collection


@pytest.mark.semantics(28, 30, 32)
@many
@given(history=grid_updates, since=nonempty)
def test_compaction_is_not_seen_from_since_on(
    history: list[Update[str, Point]], since: Frontier[Point]
) -> None:
    settled = consolidate(history)
    compacted = advance_all(settled, since)
    assert len(compacted) <= len(settled)
    assert len({(update.data, update.time) for update in compacted}) == len(compacted)
    assert all(update.diff for update in compacted)
    for time in SQUARE:
        if since.less_equal(time):
            assert read(compacted, time) == read(settled, time)
    for update in settled:
        if since.less_equal(update.time):
            assert advance(update.time, since) == update.time


@pytest.mark.semantics(28, 30)
@many
@given(
    value=source_times(),
    since=frontiers(SOURCE, source_times(), min_size=1),
    reader=source_times(),
)
def test_advancing_is_not_seen_from_since_on_a_partitioned_source(
    value: object, since: Frontier[object], reader: object
) -> None:
    time, at = SOURCE.time(value), SOURCE.time(reader)
    advanced = advance(time, since)
    assert time <= advanced
    if since.less_equal(at):
        assert (time <= at) == (advanced <= at)
    if since.less_equal(time):
        assert advanced == time


@pytest.mark.semantics(28)
@many
@given(history=grid_updates, first=nonempty, second=nonempty)
def test_compacting_in_two_steps_is_compacting_at_once(
    history: list[Update[str, Point]], first: Frontier[Point], second: Frontier[Point]
) -> None:
    later = first.join(second)
    assert advance_all(advance_all(history, first), later) == advance_all(history, later)


def effect(time: Time[Point], region: set[Time[Point]]) -> set[Time[Point]]:
    """The readers of the region that an update at the time reaches."""
    return {reader for reader in region if time <= reader}


@pytest.mark.semantics(29, 30, 31)
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_advanced_time_is_the_best_there_is(size: int) -> None:
    """Among all times of the square, for every update time and every since of that size."""
    sinces = [f for f in antichains(GRID, grid_points(4)) if len(f.elements) == size]
    assert len(sinces) == {1: 16, 2: 36, 3: 16, 4: 1}[size]
    for since in sinces:
        region = {time for time in SQUARE if since.less_equal(time)}
        for time in SQUARE:
            wanted = effect(time, region)
            faithful = [other for other in SQUARE if effect(other, region) == wanted]
            chosen = advance(time, since)
            outside = {other: len(effect(other, set(SQUARE) - region)) for other in faithful}
            assert chosen in faithful
            assert all(other <= chosen for other in faithful)
            assert outside[chosen] == min(outside.values())
            assert time not in region or chosen == time


@pytest.mark.semantics(32, 33)
@many
@given(history=grid_updates, since=nonempty, upper=nonempty, later=nonempty)
def test_compact_touches_since_only_and_never_grows(
    history: list[Update[str, Point]],
    since: Frontier[Point],
    upper: Frontier[Point],
    later: Frontier[Point],
) -> None:
    before = at_two_frontiers(history, since, upper)
    after = before.compact(before.since.join(later))
    assert after.since == before.since.join(later)
    assert after.upper == before.upper
    assert len(after.updates) <= len(before.updates)
    assert before.compact(before.since) == before
