"""Which shards may be read, and which were lost; plain values."""

from __future__ import annotations

from waterclock.storage.reclock.shape import END
from waterclock.storage.sources.kinesis.shards import Shard, find_lost, readable

SPLIT = (Shard("a"), Shard("b", ("a",)), Shard("c", ("a",)))
MERGED = (*SPLIT, Shard("d", ("b", "c")))


def ids(shards: list[Shard]) -> list[str]:
    return [shard.id for shard in shards]


def test_a_child_is_readable_when_all_its_parents_are_complete() -> None:
    assert ids(readable(MERGED, {})) == ["a"]
    assert ids(readable(MERGED, {"a": 7})) == ["a"]
    assert ids(readable(MERGED, {"a": END})) == ["b", "c"]
    assert ids(readable(MERGED, {"a": END, "b": END, "c": 3})) == ["c"]
    assert ids(readable(MERGED, {"a": END, "b": END, "c": END})) == ["d"]
    assert readable(MERGED, dict.fromkeys("abcd", END)) == []


def test_parents_that_are_forgotten() -> None:
    assert ids(readable(MERGED[1:], {"a": END})) == ["b", "c"]
    assert ids(readable(MERGED[1:], {"a": 5})) == []  # it is lost: see below
    assert ids(readable(MERGED[1:], {})) == ["b", "c"]  # before the source was made


def test_what_was_lost() -> None:
    assert find_lost(MERGED, {}, ("a",)) is None
    assert find_lost(MERGED[1:], {"a": END}, ("a",)) is None
    assert find_lost(MERGED[1:], {"a": 5}, ("a",)) == "a"
    assert find_lost(MERGED[1:], {"b": 0, "c": 0}, ("b", "c")) is None
    assert find_lost(MERGED[3:], {"a": END}, ("a",)) == "b"
    assert find_lost(MERGED[3:], {"d": 8}, ("a",)) is None


def test_the_range_of_a_shard() -> None:
    shard = Shard("a", (), 10, 20)
    assert [shard.takes(n) for n in (9, 10, 20, 21)] == [False, True, True, False]
