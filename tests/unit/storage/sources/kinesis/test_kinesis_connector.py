"""Streams of Kinesis as sources, against a stream in memory that keeps the rules of the service."""

from __future__ import annotations

from itertools import pairwise

import pytest
from kinesis_fakes import HOUR_MS, FakeRuntime, FakeStream, Life, uppers

from waterclock.storage.reclock.shape import END
from waterclock.storage.sources.aws.errors import Throttled
from waterclock.storage.sources.errors import InvalidSource, SourceFault, TransientFault
from waterclock.storage.sources.kinesis.creation import Start
from waterclock.storage.sources.kinesis.shards import Shard

EXPIRED = "have expired upstream before they were read"


@pytest.fixture
def stream() -> FakeStream:
    found = FakeStream(FakeRuntime())
    found.add(Shard("a"))
    return found


def waited(stream: FakeStream, seconds: float) -> None:
    stream.runtime.now_s += seconds


@pytest.mark.semantics(164, 173)
def test_records_come_once_in_their_order_with_numbers_of_129_digits(stream: FakeStream) -> None:
    numbers = stream.put("a", *(str(n) for n in range(10)))
    life = Life(stream)
    assert len(str(numbers[0])) == 129
    assert uppers(life.bound) == {"a": numbers[0]}
    life.settle()
    assert life.rows == [("a", number, str(n)) for n, number in enumerate(numbers)]
    assert uppers(life.bound) == {"a": numbers[-1] + 1}
    more = stream.put("a", "more")
    life.settle()
    assert life.rows[-1] == ("a", more[0], "more")
    assert len(life.rows) == 11


def test_what_is_bound_at_once_is_limited(stream: FakeStream) -> None:
    stream.put("a", *("x" * 1000 for _ in range(12)))
    life = Life(stream)
    life.open(at_once=4000)
    assert life.connector.probe().behind_ms > 0
    life.settle()
    assert len(life.rows) == 12
    assert life.bindings == 2  # in pages of three records


@pytest.mark.semantics(151)
@pytest.mark.parametrize("page", [1, 3, 100])
def test_a_range_is_read_again_after_a_crash(stream: FakeStream, page: int) -> None:
    stream.page = page
    stream.put("a", "0", "1", "2", "3")
    life = Life(stream)
    life.step(dies=True)
    first = life.bound
    assert life.rows == []
    stream.put("a", "4", "5")  # is behind what was bound
    life.step(dies=True)
    assert life.known == first
    stream.split("a", "b", "c")
    stream.put("b", "6")
    life.settle()
    assert life.values == ["0", "1", "2", "3", "4", "5", "6"]


def test_a_child_is_read_after_its_parents(stream: FakeStream) -> None:
    stream.add(Shard("b"))
    stream.put("a", *"0123456")
    stream.put("b", "7")
    life = Life(stream)
    life.settle()
    stream.put("a", "8")
    stream.split("a", "c", "d")
    stream.put("c", "9")
    stream.merge("d", "b", "e")
    stream.put("e", "10")
    life.settle()
    times = dict(zip(life.values, life.times, strict=True))
    assert len(times) == len(life.values) == 11
    assert times["8"] < times["9"]
    assert times["8"] < times["10"]
    found = uppers(life.bound)
    assert [shard for shard, upper in found.items() if upper == END] == ["a", "b", "d"]
    assert found.keys() == {"a", "b", "c", "d", "e"}


def test_children_wait_for_a_parent_that_is_behind(stream: FakeStream) -> None:
    stream.put("a", *(str(n) for n in range(30)))
    stream.split("a", "b", "c")
    stream.put("b", "child")
    life = Life(stream)
    assert uppers(life.bound).keys() == {"a", "b"}  # c has nothing, and may not be read yet
    life.step()
    assert "child" not in life.values
    life.settle()
    assert life.values == [*(str(n) for n in range(30)), "child"]
    assert uppers(life.bound)["c"] == 0
    life.open()
    stream.put("c", "late")
    life.settle()
    assert life.values[-1] == "late"


@pytest.mark.parametrize("crashes", [False, True])
def test_shards_that_are_complete_may_be_forgotten(stream: FakeStream, crashes: bool) -> None:
    stream.put("a", "0")
    life = Life(stream)
    stream.split("a", "b", "c")
    life.settle()
    stream.forget("a")
    waited(stream, 10)
    if crashes:
        life.open()
    stream.put("b", "1")
    life.settle()
    assert life.values == ["0", "1"]


def test_where_reading_starts(stream: FakeStream) -> None:
    stream.put("a", "old")
    waited(stream, 100)
    time_ms = stream.runtime.wall_ms()
    stream.put("a", "since")
    waited(stream, 1)
    latest = Life(stream, Start.LATEST)
    timed = Life(stream, Start.AT_TIMESTAMP, time_ms)
    all_of_it = Life(stream)
    stream.put("a", "new")
    for life in (latest, timed, all_of_it):
        life.settle()
    assert latest.values == ["new"]
    assert timed.values == ["since", "new"]
    assert all_of_it.values == ["old", "since", "new"]
    with pytest.raises(InvalidSource, match="future"):
        Life(stream, Start.AT_TIMESTAMP, stream.runtime.wall_ms() + HOUR_MS)


def test_latest_of_an_empty_and_of_a_closed_shard(stream: FakeStream) -> None:
    stream.put("a", "old")
    waited(stream, 100)
    stream.split("a", "b", "c")
    life = Life(stream, Start.LATEST)
    assert uppers(life.bound) == {"a": END, "b": 0, "c": 0}
    stream.put("c", "new")
    waited(stream, 30)
    life.settle()
    assert life.values == ["new"]


def test_records_that_expired_before_they_were_read(stream: FakeStream) -> None:
    stream.put("a", "0")
    life = Life(stream)
    life.settle()
    stream.put("a", "1")
    waited(stream, 25 * 3600)
    stream.put("a", "2")
    life.open()
    with pytest.raises(SourceFault, match=EXPIRED) as told:
        life.step()
    assert "retention period" in (told.value.hint or "")
    assert life.values == ["0"]


def test_records_that_expire_while_the_source_reads(stream: FakeStream) -> None:
    stream.put("a", "0", "1", "2")
    life = Life(stream)
    life.settle()
    stream.put("a", *"345678")
    waited(stream, 25 * 3600)
    stream.put("a", "9")
    with pytest.raises(SourceFault, match=EXPIRED):  # the iterator has expired as well
        life.step()


def test_the_first_record_expires_before_it_is_read(stream: FakeStream) -> None:
    stream.put("a", "0", "1")
    life = Life(stream)
    waited(stream, 25 * 3600)
    stream.put("a", "2")
    life.open()
    with pytest.raises(SourceFault, match=EXPIRED):
        life.step()


def test_a_binding_whose_records_expire_before_it_is_read_again(stream: FakeStream) -> None:
    stream.put("a", "0")
    life = Life(stream)
    life.settle()
    stream.put("a", "1")
    life.step(dies=True)
    waited(stream, 25 * 3600)
    life.open()
    with pytest.raises(SourceFault, match=EXPIRED):
        life.step()


def test_a_stream_that_is_idle_for_longer_than_records_are_kept(stream: FakeStream) -> None:
    stream.put("a", "0")
    stream.add(Shard("b"))
    life = Life(stream)
    life.settle()
    for _ in range(3):  # what was read has expired meanwhile, and nothing else has
        for _ in range(20):
            waited(stream, 3600)
            life.step()
        life.open()
        life.step()
    stream.put("a", "1")
    stream.put("b", "2")
    life.settle()
    assert life.values == ["0", "1", "2"]


def test_an_idle_child_and_a_restart(stream: FakeStream) -> None:
    stream.put("a", "0")
    life = Life(stream)
    life.settle()
    stream.split("a", "b", "c")
    life.settle()
    for _ in range(60):
        waited(stream, 3600)
        life.step()
    life.open()
    stream.put("b", "1")
    life.settle()
    assert life.values == ["0", "1"]


def test_a_long_stop_of_an_idle_source_can_not_be_trusted(stream: FakeStream) -> None:
    stream.put("a", "0")
    life = Life(stream)
    life.settle()
    waited(stream, 25 * 3600)  # something may have come and gone
    life.open()
    with pytest.raises(SourceFault, match=EXPIRED) as told:
        life.step()
    assert "nothing follows" in (told.value.detail or "")


def test_a_long_stop_does_no_harm_while_the_last_record_is_kept(stream: FakeStream) -> None:
    stream.retention_ms = 7 * 24 * HOUR_MS
    stream.put("a", "0")
    life = Life(stream)
    life.settle()
    waited(stream, 6 * 24 * 3600)
    stream.put("a", "1")
    life.open()
    life.settle()
    assert life.values == ["0", "1"]


def test_a_shard_that_is_forgotten_before_it_was_read(stream: FakeStream) -> None:
    stream.put("a", "0")
    life = Life(stream)
    life.settle()
    stream.split("a", "b", "c")
    stream.forget("a")
    waited(stream, 10)
    with pytest.raises(SourceFault, match=EXPIRED) as told:
        life.step()
    assert told.value.detail == "Shard a is not there any more, and was not read to its end."


def test_a_generation_of_shards_that_was_never_seen(stream: FakeStream) -> None:
    life = Life(stream)
    life.settle()
    stream.split("a", "b", "c")
    life.settle()
    stream.split("b", "d", "e")
    stream.split("e", "f", "g")
    stream.forget("e")
    waited(stream, 10)
    with pytest.raises(SourceFault, match="have expired") as told:
        life.settle()
    assert "Shard e" in (told.value.detail or "")


def test_a_stream_that_is_deleted_or_made_again(stream: FakeStream) -> None:
    life = Life(stream)
    life.settle()
    stream.is_deleted = True
    waited(stream, 10)
    with pytest.raises(SourceFault, match='stream "s" was deleted upstream'):
        life.step()
    stream.is_deleted, stream.created_ms = False, stream.created_ms + 1
    life.open()
    with pytest.raises(SourceFault, match="deleted and created again"):
        life.step()
    stream.is_deleted = True
    with pytest.raises(InvalidSource, match="does not exist"):
        Life(stream)


def test_iterators_are_renewed(stream: FakeStream) -> None:
    stream.put("a", "0")
    life = Life(stream)
    life.settle()
    for n in range(3):
        waited(stream, 301)
        stream.put("a", str(n + 1))
        life.settle()
    assert life.values == ["0", "1", "2", "3"]


def test_throttling_is_shown_and_the_others_go_on(stream: FakeStream) -> None:
    stream.add(Shard("b"))
    life = Life(stream)
    life.settle()
    waited(stream, 1)
    stream.faults["a"] = [Throttled("too many") for _ in range(3)]
    stream.put("a", "slow")
    stream.put("b", "quick")
    assert isinstance(life.connector.probe().hindrance, Throttled)
    life.step()
    assert life.values == ["quick"]
    asked = len([shard for shard, _ in stream.asked if shard == "a"])
    waited(stream, 0.3)
    life.step()  # it rests for longer than that
    assert len([shard for shard, _ in stream.asked if shard == "a"]) == asked
    for _ in range(20):
        waited(stream, 1)
        life.step()
    assert life.values == ["quick", "slow"]
    assert life.connector.probe().hindrance is None


def test_a_child_appears_when_it_is_known_what_is_in_it(stream: FakeStream) -> None:
    life = Life(stream)
    life.settle()
    stream.split("a", "b", "c")
    stream.faults["b"] = [Throttled("too many") for _ in range(2)]
    for _ in range(3):
        waited(stream, 0.3)
        life.step()
    assert uppers(life.bound) == {"a": END, "c": 0}
    for _ in range(5):
        waited(stream, 1)
        life.step()
    assert uppers(life.bound) == {"a": END, "b": 0, "c": 0}


def test_throttling_that_lasts_stops_the_source(stream: FakeStream) -> None:
    life = Life(stream)
    life.settle()
    stream.faults["a"] = [Throttled("too many") for _ in range(100)]
    for _ in range(60):
        waited(stream, 1)
        life.step()
    waited(stream, 60)
    with pytest.raises(Throttled):
        life.step()
    life.open()
    with pytest.raises(Throttled):  # nothing is known of the shard in this life
        life.step()


def test_a_stream_that_can_not_be_looked_at_is_read_for_a_while(stream: FakeStream) -> None:
    life = Life(stream)
    life.settle()
    stream.is_throttled = True
    stream.put("a", "0")
    waited(stream, 10)
    life.settle()
    assert life.values == ["0"]
    waited(stream, 60)
    with pytest.raises(Throttled):
        life.step()


def test_all_shards_are_read_in_each_step(stream: FakeStream) -> None:
    for n in range(30):
        stream.add(Shard(f"s{n:02}"))
    life = Life(stream)
    life.settle()
    for turn in range(2):
        for n in range(30):
            stream.put(f"s{n:02}", f"{turn}.{n}")
        waited(stream, 1)
        life.step()
        assert sorted(life.values[30 * turn :]) == sorted(f"{turn}.{n}" for n in range(30))


def test_a_shard_is_asked_as_often_as_the_service_allows(stream: FakeStream) -> None:
    stream.put("a", *(str(n) for n in range(60)))
    life = Life(stream)
    stream.asked.clear()
    life.settle()
    assert len(life.rows) == 60
    times = [time for _, time in stream.asked]
    assert min(b - a for a, b in pairwise(times)) >= 0.2


def test_a_large_backlog_is_read_at_the_pace_of_the_service(stream: FakeStream) -> None:
    stream.page = 1
    stream.put("a", *("x" * (10 << 20) for _ in range(4)))
    life = Life(stream)
    life.open(at_once=64 << 20)
    began, steps = stream.runtime.now_s, 0
    while len(life.rows) < 4:  # as the loop does while there is more
        life.step()
        steps += 1
    assert 15 <= stream.runtime.now_s - began < 17
    assert steps < 25


def test_a_record_that_was_bound_and_is_not_there(stream: FakeStream) -> None:
    stream.put("a", "0", "1")
    life = Life(stream)
    life.step(dies=True)
    del stream.held["a"].records[1]
    with pytest.raises(TransientFault):  # the service may be behind what it has said
        life.step()
    stream.put("a", "2")
    life.open()
    with pytest.raises(SourceFault, match="are lost upstream"):
        life.step()


def test_it_does_not_know_the_head(stream: FakeStream) -> None:
    assert not Life(stream).connector.is_linearizable
