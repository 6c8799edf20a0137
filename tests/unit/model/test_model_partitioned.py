"""Times of partitioned sources, by example."""

from itertools import product

import pytest

from waterclock.model.errors import NotATime, NotPartitionProgress
from waterclock.model.partitioned import (
    Partitioned,
    PartitionSet,
    SourceTime,
    partition_uppers,
    progress_frontier,
)
from waterclock.model.timeline import EPOCH_MILLIS, Time, Timeline

KAFKA = Timeline("kafka", Partitioned())


def message(partition: object, offset: int) -> Time[SourceTime]:
    return KAFKA.time(SourceTime.of_message(partition, offset))


def test_partition_sets() -> None:
    finite, rest, every = PartitionSet.of(0, 1), PartitionSet.all_but(1, 2), PartitionSet.all()
    assert 0 in finite
    assert 2 not in finite
    assert 0 in rest
    assert 2 not in rest
    assert "unheard of" in every
    assert finite.intersection(rest) == PartitionSet.of(0)
    assert rest.intersection(finite) == PartitionSet.of(0)
    assert finite.union(rest) == PartitionSet.all_but(2)
    assert finite.union(PartitionSet.of(2)) == PartitionSet.of(0, 1, 2)
    assert rest.intersection(PartitionSet.all_but(3)) == PartitionSet.all_but(1, 2, 3)
    assert rest.union(PartitionSet.all_but(2, 3)) == PartitionSet.all_but(2)
    assert finite.issubset(every)
    assert finite.issubset(PartitionSet.all_but(5))
    assert not finite.issubset(rest)
    assert not every.issubset(finite)
    assert PartitionSet.of().is_empty
    assert not every.is_empty
    assert [str(s) for s in (finite, rest, every)] == ["{0, 1}", "all but {1, 2}", "all"]


@pytest.mark.semantics(115)
def test_partitions_are_incomparable_and_offsets_ordered() -> None:
    assert message(0, 2) < message(0, 3)
    one, other = message(1, 0), message(0, 2)
    assert not one <= other
    assert not other <= one
    assert KAFKA.least() <= one


@pytest.mark.semantics(105, 116)
def test_frontier_has_one_element_per_partition() -> None:
    frontier = progress_frontier(KAFKA, {0: 3, 1: 1}, more_may_appear=True)
    assert set(frontier.elements) == {
        SourceTime(PartitionSet.of(0), 3),
        SourceTime(PartitionSet.of(1), 1),
        SourceTime(PartitionSet.all_but(0, 1), 0),
    }
    assert partition_uppers(frontier) == ({0: 3, 1: 1}, True)
    assert progress_frontier(KAFKA, {}, more_may_appear=True) == KAFKA.start()
    assert progress_frontier(KAFKA, {}, more_may_appear=False) == KAFKA.empty()


@pytest.mark.semantics(116)
def test_a_new_partition_moves_no_message() -> None:
    before = progress_frontier(KAFKA, {0: 3}, more_may_appear=True)
    after = progress_frontier(KAFKA, {0: 3, 1: 0}, more_may_appear=True)
    assert before <= after
    for partition, offset in product((0, 1, 2, "x"), range(6)):
        time = message(partition, offset)
        assert before.less_equal(time) == after.less_equal(time)


@pytest.mark.semantics(116, 117)
def test_messages_become_visible_as_the_frontier_passes_them() -> None:
    parts = {0: "abcd", 1: "efgh"}
    observed = {13: (0, 0), 14: (3, 1), 15: (4, 3)}
    frontiers = {
        hour: progress_frontier(KAFKA, dict(enumerate(uppers)), more_may_appear=False)
        for hour, uppers in observed.items()
    }
    assert frontiers[13] < frontiers[14] < frontiers[15]

    def visible(hour: int) -> set[str]:
        return {
            letter
            for partition, letters in parts.items()
            for offset, letter in enumerate(letters)
            if not frontiers[hour].less_equal(message(partition, offset))
        }

    assert visible(13) == set()
    assert visible(14) == set("abce")
    assert visible(15) - visible(14) == set("dfg")
    assert "h" not in visible(15)
    for hour in (14, 15):
        old, new = set(frontiers[hour - 1].elements), set(frontiers[hour].elements)
        assert len(old - new) == len(new - old) == 2


@pytest.mark.semantics(115)
def test_one_frontier_of_milliseconds_cannot_hold_two_partitions() -> None:
    assert len(EPOCH_MILLIS.frontier(3, 1).elements) == 1
    assert len(progress_frontier(KAFKA, {0: 3, 1: 1}, more_may_appear=False).elements) == 2


@pytest.mark.parametrize("value", [SourceTime(PartitionSet.all(), -1), 3, (0, 3), None])
def test_not_a_source_time(value: object) -> None:
    with pytest.raises(NotATime):
        KAFKA.time(value)


def test_progress_of_a_negative_offset_is_refused() -> None:
    with pytest.raises(NotATime):
        progress_frontier(KAFKA, {0: -1}, more_may_appear=False)


@pytest.mark.parametrize(
    "value",
    [
        SourceTime(PartitionSet.of(0, 1), 3),
        SourceTime(PartitionSet.all(), 1),
        SourceTime(PartitionSet.all_but(0), 0),
        SourceTime(PartitionSet.of(), 0),
    ],
)
def test_frontiers_that_are_no_progress_of_partitions(value: SourceTime) -> None:
    with pytest.raises(NotPartitionProgress) as caught:
        partition_uppers(KAFKA.frontier(value))
    assert caught.value.sqlstate == "22023"
