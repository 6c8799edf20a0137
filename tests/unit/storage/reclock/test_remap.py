"""Remap collections, by worked examples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.schema import Int, Text
from waterclock.storage.reclock.errors import UpstreamRegressed
from waterclock.storage.reclock.progress import FINISHED, Range, SourceFrontier, source_timeline
from waterclock.storage.reclock.remap import (
    Element,
    Remap,
    RemapUpdate,
    bound,
)
from waterclock.storage.reclock.shape import (
    END,
    KAFKA,
    KINESIS,
    LOAD_GENERATOR,
    POSTGRES,
    PUBNUB,
    S3,
)
from waterclock.testing.increments import Increment, increments, of_increments

PM1, PM2, PM3, PM4 = 13, 14, 15, 16
single = SourceFrontier.single


def history(*steps: tuple[int, SourceFrontier]) -> list[RemapUpdate]:
    known: SourceFrontier | None = None
    updates: list[RemapUpdate] = []
    for time, frontier in steps:
        updates += bound(known, frontier, time)
        known = frontier
    return updates


def topic(first: int, second: int) -> SourceFrontier:
    return SourceFrontier({0: first, 1: second}, more_may_appear=True)


SLOW = history((PM1, single(0)), (PM2, single(1)), (PM3, single(3)), (PM4, single(6)))


@pytest.mark.semantics(106, 107)
def test_each_binding_retracts_the_old_frontier_and_adds_the_new() -> None:
    found = [(u.element.offset, u.time, u.diff) for u in SLOW]
    assert found == [
        (0, PM1, 1),
        (0, PM2, -1),
        (1, PM2, 1),
        (1, PM3, -1),
        (3, PM3, 1),
        (3, PM4, -1),
        (6, PM4, 1),
    ]


@pytest.mark.semantics(108)
def test_the_frontier_as_of_a_time() -> None:
    fast = history((PM1, single(0)), (PM2, single(100)), (PM3, single(250)), (PM4, single(1000)))
    remap = Remap.of_updates(fast, more_may_appear=False)
    assert remap.at(PM3) == single(250)
    assert remap.at(PM1 - 1) is None
    assert remap.at(PM4 + 5) == single(1000)


@pytest.mark.semantics(109, 113)
def test_messages_get_the_first_time_beyond_them() -> None:
    remap = Remap.of_updates(SLOW, more_may_appear=False)
    times = [remap.time_of(None, offset) for offset in range(7)]
    assert times == [PM2, PM3, PM3, PM4, PM4, PM4, None]
    assert remap.times_of(None, np.arange(6)).tolist() == times[:-1]


@pytest.mark.semantics(115, 116, 117)
def test_two_partitions() -> None:
    updates = history((PM1, topic(0, 0)), (PM2, topic(3, 1)), (PM3, topic(4, 3)))
    assert [(u.element.partition, u.element.offset, u.diff) for u in updates if u.time == PM2] == [
        (0, 0, -1),
        (1, 0, -1),
        (0, 3, 1),
        (1, 1, 1),
    ]
    remap = Remap.of_updates(updates, more_may_appear=True)
    found = {
        text: remap.time_of(partition, offset)
        for partition, texts in enumerate(("abcd", "efgh"))
        for offset, text in enumerate(texts)
    }
    at_two, at_three = dict.fromkeys("abce", PM2), dict.fromkeys("dfg", PM3)
    assert found == {**at_two, **at_three, "h": None}


@pytest.mark.semantics(116)
def test_a_partition_that_appears_later_moves_nothing() -> None:
    old, new = SourceFrontier({0: 2}, True), SourceFrontier({0: 2, 1: 3}, True)
    updates = history((PM1, old), (PM2, new))
    assert [u for u in updates if u.time == PM2] == [RemapUpdate(Element(1, 3), PM2, 1)]
    remap = Remap.of_updates(updates, more_may_appear=True)
    assert [remap.time_of(0, 1), remap.time_of(1, 0), remap.time_of(1, 3)] == [PM1, PM2, None]
    assert new.ranges_since(old) == (Range(1, 0, 3),)
    timeline = source_timeline("u1")
    assert old.as_frontier(timeline) <= new.as_frontier(timeline)


@pytest.mark.semantics(159)
def test_the_form_with_increments() -> None:
    first, second = 1649686076392, 1649686079487
    given = [
        Increment(1, first, 42),
        Increment(2, first, 40),
        Increment(1, second, 3),
        Increment(2, second, 4),
    ]
    remap = of_increments(given, more_may_appear=True)
    assert remap.at(first) == SourceFrontier({1: 42, 2: 40}, True)
    assert remap.at(second) == SourceFrontier({1: 45, 2: 44}, True)
    assert [remap.time_of(1, offset) for offset in (0, 41, 42, 44, 45)] == [
        first,
        first,
        second,
        second,
        None,
    ]
    updates = history(*((b.time, b.frontier) for b in remap.bindings))
    assert increments(updates) == given


@pytest.mark.semantics(159)
def test_compaction_changes_nothing_from_its_time_on() -> None:
    compacted = [RemapUpdate(u.element, max(u.time, PM3), u.diff) for u in SLOW]
    remap = Remap.of_updates(compacted, more_may_appear=False)
    whole = Remap.of_updates(SLOW, more_may_appear=False)
    assert [remap.at(t) for t in (PM3, PM4)] == [whole.at(t) for t in (PM3, PM4)]


@pytest.mark.semantics(104)
def test_offsets_may_have_gaps() -> None:
    updates = history((PM1, single(10)), (PM2, single(90)))
    assert Remap.of_updates(updates, more_may_appear=False).time_of(None, 55) == PM2


@pytest.mark.semantics(105)
def test_a_finished_source_has_the_empty_frontier() -> None:
    updates = history((PM1, single(6)), (PM2, FINISHED))
    assert updates[-1] == RemapUpdate(Element(None, 6), PM2, -1)
    remap = Remap.of_updates(updates, more_may_appear=False)
    last = remap.at(PM2)
    assert last is not None
    assert last.is_finished
    assert last.has_passed(None, 10**18)
    assert last.as_frontier(source_timeline("u1")).is_empty


@pytest.mark.semantics(160)
@pytest.mark.parametrize(
    "gone_back",
    [topic(3, 0), SourceFrontier({0: 5}, True), SourceFrontier({}, True)],
    ids=["shrunk", "partition gone", "all gone"],
)
def test_what_goes_back_upstream_is_a_named_error(gone_back: SourceFrontier) -> None:
    with pytest.raises(UpstreamRegressed) as raised:
        bound(topic(3, 1), gone_back, PM2)
    assert raised.value.hint


def test_no_partition_appears_where_none_may() -> None:
    with pytest.raises(UpstreamRegressed):
        bound(SourceFrontier({0: 1}), SourceFrontier({0: 1, 1: 1}), PM2)


def with_sum(total: int, **keys: int) -> SourceFrontier:
    return SourceFrontier({None: total, **keys}, True)


@pytest.mark.semantics(157, 160)
def test_partitions_that_are_complete_go_into_the_sum() -> None:
    """The relation stays small, and nothing that was read can be left out of it unseen."""
    course = [
        (PM1, with_sum(0)),
        (PM2, with_sum(0, a=10, b=20)),
        (PM3, with_sum(30, c=5)),
        (PM4, with_sum(35, d=1)),
    ]
    updates = history(*course)
    remap = Remap.of_updates(updates, more_may_appear=True)
    times = [remap.time_of(key, 0) for key in "abcde"]
    assert times == [PM2, PM2, PM3, PM4, None]
    assert [remap.at(time) for time, _ in course] == [frontier for _, frontier in course]
    assert [frontier.total for _, frontier in course] == [0, 30, 35, 36]
    assert course[2][1].ranges_since(course[1][1]) == (Range("c", 0, 5),)
    rows = S3.updates([S3.rows(updates)])
    assert sorted(rows, key=str) == sorted(updates, key=str)


def test_the_sum_may_go_on_by_itself() -> None:
    known = with_sum(7, a=10, b=3)
    new = with_sum(19, b=3)
    assert new.ranges_since(known) == (Range(None, 17, 19),)
    remap = Remap.of_updates(history((PM1, known), (PM2, new)), more_may_appear=True)
    assert remap.times_of(None, np.array([17, 18])).tolist() == [PM2, PM2]


@pytest.mark.semantics(160)
@pytest.mark.parametrize(
    "gone_back", [with_sum(16), with_sum(26), with_sum(7, a=9, b=20), SourceFrontier({}, True)]
)
def test_what_is_left_out_must_be_in_the_sum(gone_back: SourceFrontier) -> None:
    with pytest.raises(UpstreamRegressed):
        bound(with_sum(7, a=10, b=20), gone_back, PM2)


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(1, 9), max_size=3), st.integers(0, 2), st.sampled_from([0, 1])
        ),
        max_size=8,
    )
)
def test_every_byte_is_in_one_range(steps: list[tuple[list[int], int, int]]) -> None:
    """However objects appear, are complete, and are retired: ranges cover each object once."""
    known, number = with_sum(0), 0
    read: dict[object, int] = {}
    for sizes, retired, events in steps:
        uppers = dict(known.uppers)
        for key in [key for key in uppers if key is not None][:retired]:
            uppers[None] += uppers.pop(key)
        uppers[None] += events
        for size in sizes:
            uppers[f"{number}"] = size
            number += 1
        new = SourceFrontier(uppers, True)
        new.require_after(known)
        for each in new.ranges_since(known):
            assert each.start == (read.get(each.partition, 0) if each.partition else each.start)
            read[each.partition] = read.get(each.partition, 0) + len(each)
        assert new.total == sum(read.values())
        known = new


def test_a_frontier_that_was_listed_later() -> None:
    head = SourceFrontier({None: 0}, True, listed_at=5)
    assert not with_sum(9).covers(head)
    assert SourceFrontier({None: 9}, True, listed_at=5).covers(head)
    assert SourceFrontier({None: 9}, True, listed_at=5).is_at(with_sum(9))
    assert FINISHED.covers(head)


@pytest.mark.semantics(157, 168, 173)
def test_the_columns_of_each_kind() -> None:
    names = {kind: kind.schema.names for kind in (KAFKA, KINESIS, POSTGRES, PUBNUB, S3)}
    assert names == {
        KAFKA: ("partition", "offset"),
        KINESIS: ("shard_id", "sequence_number"),
        POSTGRES: ("lsn",),
        PUBNUB: ("region", "timetoken"),
        S3: ("key", "byte_offset"),
    }
    offset, text = Int(64), Text()
    types = {kind: [column.type for column in kind.schema.columns] for kind in names}
    assert types == {
        KAFKA: [Int(32), offset],
        KINESIS: [text, text],  # sequence numbers have up to 129 digits
        POSTGRES: [offset],
        PUBNUB: [Int(64), offset],  # regions are unsigned, of 32 bits
        S3: [text, offset],
    }
    nullable = [(kind, c.name) for kind in names for c in kind.schema.columns if c.nullable]
    assert nullable == [(S3, "key")]  # the sum of what is complete has none


@pytest.mark.semantics(173)
@pytest.mark.parametrize(
    ("shape", "partition", "offset"),
    [(KAFKA, 7, 42), (LOAD_GENERATOR, None, 2**62), (KINESIS, "shard-1", 10**128 + 7)],
    ids=["kafka", "load generator", "kinesis"],
)
def test_rows_keep_what_they_say(shape, partition, offset) -> None:  # type: ignore[no-untyped-def]
    given = [RemapUpdate(Element(partition, offset), 5, -1)]
    assert shape.updates([shape.rows(given)]) == given


@pytest.mark.semantics(173)
def test_offsets_of_any_length_are_bound_and_stamped_exactly() -> None:
    large = 10**128
    frontiers = [SourceFrontier({"a": large + n}, True) for n in (0, 5, 6)]
    updates = history(*zip((PM1, PM2, PM3), frontiers, strict=True))
    kept = KINESIS.updates([KINESIS.rows(updates)])
    assert kept == updates
    remap = Remap.of_updates(kept, more_may_appear=True)
    assert remap.at(PM2) == frontiers[1]
    offsets = np.array([large, large + 4, large + 5], np.object_)
    assert remap.times_of("a", offsets).tolist() == [PM2, PM2, PM3]
    assert remap.times_of("a", offsets[:0]).tolist() == []
    assert remap.time_of("a", large + 5) == PM3


def test_the_end_of_a_shard_is_beyond_all_its_numbers() -> None:
    known = SourceFrontier({"a": 10**128 + 7}, True)
    over = SourceFrontier({"a": END, "b": 0}, True)
    assert over.covers(known)
    updates = bound(known, over, PM2)
    texts = KINESIS.rows(updates).column("sequence_number").to_pylist()
    assert sorted(texts) == ["0", str(10**128 + 7), "SHARD_END"]
    assert KINESIS.updates([KINESIS.rows(updates)]) == updates
    assert over.has_passed("a", 10**129 - 1)


GAUGES = {
    "kafka": (KAFKA, 1, 42, 7),
    "kinesis": (KINESIS, "shardId-000000000001", 10**55 + 7, 10**54),
    "postgres": (POSTGRES, None, 0x16B3748, 8),
    "pubnub": (PUBNUB, 12, 15_614_817_397_807_462, 10_000),
    "s3": (S3, "logs/2026/11/a.json", 4096, 512),
}
"""For each kind a partition, how far it is at first, and how far it gets then."""


@pytest.mark.semantics(155, 157)
@pytest.mark.parametrize("name", GAUGES)
def test_each_kind_has_a_gauge_that_messages_are_reclocked_by(name: str) -> None:
    """Through the rows that storage keeps, exactly, however long the numbers are."""
    shape, partition, first, more = GAUGES[name]
    steps = [
        (time, SourceFrontier({partition: offset}, shape.more_may_appear))
        for time, offset in ((PM1, first), (PM2, first + more))
    ]
    kept = shape.updates([shape.rows(history(*steps))])
    remap = Remap.of_updates(kept, more_may_appear=shape.more_may_appear)
    assert [remap.at(time) for time in (PM1, PM2)] == [frontier for _, frontier in steps]
    places = (0, first - 1, first, first + more - 1, first + more)
    assert [remap.time_of(partition, each) for each in places] == [PM1, PM1, PM2, PM2, None]
    assert steps[1][1].ranges_since(steps[0][1]) == (Range(partition, first, first + more),)
