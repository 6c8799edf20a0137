"""Collection versions and updates, by example."""

import pickle

import pytest

from waterclock.model.collection import EMPTY, CollectionVersion, Update, difference
from waterclock.model.errors import ForeignTime, NegativeMultiplicity
from waterclock.model.lattice import EpochMillis
from waterclock.model.timeline import EPOCH_MILLIS, Timeline
from waterclock.model.updates import (
    TimeVaryingCollection,
    advance,
    advance_all,
    consolidate,
    read,
    updates_at,
    updates_of,
)
from waterclock.testing.strategies import GRID, grid_times

NOW = EPOCH_MILLIS.time(5)


@pytest.mark.semantics(11)
def test_multiplicities() -> None:
    version = CollectionVersion({"a": 2, "b": -1, "c": 0})
    assert [version.multiplicity(data) for data in "abcd"] == [2, -1, 0, 0]
    assert version == CollectionVersion({"b": -1, "a": 2})
    assert hash(version) == hash(CollectionVersion({"b": -1, "a": 2}))
    assert CollectionVersion({"a": 0}) == EMPTY
    assert EMPTY.multiplicity("a") == 0
    assert EMPTY.rows() == ()


def test_a_version_does_not_change() -> None:
    counts = {"a": 1}
    version = CollectionVersion(counts)
    counts["a"] = 2
    version.apply(Update("a", NOW, 5))
    assert version.multiplicity("a") == 1
    with pytest.raises(TypeError):
        version.counts["a"] = 3  # type: ignore[index]
    assert pickle.loads(pickle.dumps(version)) == version


@pytest.mark.semantics(12)
def test_rows_are_repeated_and_never_silently_fewer() -> None:
    assert sorted(CollectionVersion({"a": 2, "b": 1}).rows()) == ["a", "a", "b"]
    with pytest.raises(NegativeMultiplicity) as caught:
        CollectionVersion({"a": 2, "b": -1}).rows()
    assert caught.value.sqlstate == "XX000"


@pytest.mark.semantics(1)
def test_a_changed_column_is_another_whole_row() -> None:
    before = CollectionVersion({(7, "ann", "rome"): 1, (8, "bob", "oslo"): 1})
    after = CollectionVersion({(7, "ann", "bern"): 1, (8, "bob", "oslo"): 1})
    assert difference(NOW, before, after) == {
        Update((7, "ann", "rome"), NOW, -1),
        Update((7, "ann", "bern"), NOW, +1),
    }


@pytest.mark.semantics(16)
def test_apply_one_update() -> None:
    version = CollectionVersion({"a": 1, "b": 4})
    assert version.apply(Update("a", NOW, -3)) == CollectionVersion({"a": -2, "b": 4})
    assert version.apply(Update("a", NOW, -1)) == CollectionVersion({"b": 4})


@pytest.mark.semantics(17)
def test_difference_is_minimal() -> None:
    before, after = CollectionVersion({"a": 1, "b": 2}), CollectionVersion({"b": 2, "c": -1})
    assert difference(NOW, before, after) == {Update("a", NOW, -1), Update("c", NOW, -1)}
    assert difference(NOW, before, before) == frozenset()


@pytest.mark.semantics(18)
def test_read_leaves_out_incomparable_times() -> None:
    updates = [Update("a", GRID.time((0, 2)), 1), Update("b", GRID.time((1, 0)), 1)]
    assert read(updates, GRID.time((0, 2))) == CollectionVersion({"a": 1})
    assert read(updates, GRID.time((3, 1))) == CollectionVersion({"b": 1})
    assert read(updates, GRID.time((1, 2))) == CollectionVersion({"a": 1, "b": 1})
    assert read(updates, GRID.time((0, 1))) == EMPTY


@pytest.mark.semantics(20)
def test_a_corner_is_not_counted_twice() -> None:
    constant = CollectionVersion({"a": 1})
    assert updates_of(lambda _: constant, grid_times(2)) == {Update("a", GRID.least(), 1)}
    one_each = {
        (0, 0): EMPTY,
        (0, 1): CollectionVersion({"a": 1}),
        (1, 0): CollectionVersion({"a": 1}),
        (1, 1): CollectionVersion({"a": 1}),
    }
    assert updates_of(lambda time: one_each[time.value], grid_times(2)) == {
        Update("a", GRID.time((0, 1)), 1),
        Update("a", GRID.time((1, 0)), 1),
        Update("a", GRID.time((1, 1)), -1),
    }


@pytest.mark.semantics(21)
def test_the_first_updates_are_the_first_version() -> None:
    first = CollectionVersion({"a": 2, "b": -1})
    found = updates_at(lambda _: first, GRID.least(), ())
    assert found == difference(GRID.least(), EMPTY, first)
    assert found == {Update("a", GRID.least(), 2), Update("b", GRID.least(), -1)}


@pytest.mark.semantics(10, 13)
def test_a_history_belongs_to_one_timeline() -> None:
    history = TimeVaryingCollection(EPOCH_MILLIS, lambda time: CollectionVersion({"a": time.value}))
    for value in (0, 7, 2**63 - 1):
        assert history.read(EPOCH_MILLIS.time(value)).multiplicity("a") == value
    foreign = Timeline("other_ms", EpochMillis()).time(7)
    with pytest.raises(ForeignTime):
        history.read(foreign)
    with pytest.raises(ForeignTime):
        read([Update("a", NOW, 1)], foreign)


@pytest.mark.semantics(32)
def test_consolidate_sums_and_drops_zeros() -> None:
    later = EPOCH_MILLIS.time(6)
    updates = [
        Update("a", NOW, 1),
        Update("a", NOW, 1),
        Update("a", later, 1),
        Update("b", NOW, 2),
        Update("b", NOW, -2),
        Update("c", NOW, 0),
    ]
    assert consolidate(updates) == {Update("a", NOW, 2), Update("a", later, 1)}


@pytest.mark.semantics(29)
def test_advance_is_the_meet_of_the_joins() -> None:
    since = GRID.frontier((1, 4), (3, 2))
    assert advance(GRID.time((0, 0)), since) == GRID.time((1, 2))
    assert advance(GRID.time((0, 3)), since) == GRID.time((1, 3))
    assert advance(GRID.time((2, 0)), since) == GRID.time((2, 2))
    assert advance(GRID.time((5, 0)), since) == GRID.time((5, 2))
    assert advance(GRID.time((3, 3)), since) == GRID.time((3, 3))


def test_nothing_is_kept_for_nobody() -> None:
    assert advance_all([Update("a", NOW, 1)], EPOCH_MILLIS.empty()) == frozenset()
    with pytest.raises(AssertionError):
        advance(NOW, EPOCH_MILLIS.empty())
