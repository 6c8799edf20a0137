"""Exact ranges out of what a consumer is told: gaps, ends, and what breaks a read."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
import pytest
from kafka_fakes import TOPIC, Error, Event, FakeConsumer, end_of

from waterclock.storage.formats.api import RECORDS
from waterclock.storage.reclock.progress import Range
from waterclock.storage.sources.errors import InvalidSource
from waterclock.storage.sources.kafka.cluster import Cluster
from waterclock.storage.sources.kafka.errors import KafkaMissing
from waterclock.storage.sources.kafka.reading import Parts, RangeReader, ReadBroken

NOTHING_MORE = Parts(timestamp=False, headers=False)


def reader(consumer: FakeConsumer, parts: Parts = NOTHING_MORE) -> RangeReader:
    return RangeReader({}, TOPIC, "g", parts, patience_s=0.05, consumer=consumer)


def rows(consumer: FakeConsumer, *ranges: Range) -> dict[int, list[int]]:
    """The offsets that are read, by partition."""
    found: dict[int, list[int]] = {}
    for batch in reader(consumer).read(ranges):
        [partition] = set(batch.column("partition").to_pylist())
        found.setdefault(partition, []).extend(batch.column("offset").to_pylist())
    return found


def records(partition: int, *offsets: int) -> list[Event]:
    return [Event(partition, offset, b"%d" % offset) for offset in offsets]


def test_a_range_ends_with_its_last_record() -> None:
    consumer = FakeConsumer(records(0, 3, 4, 5, 6))
    assert rows(consumer, Range(0, 3, 6)) == {0: [3, 4, 5]}
    assert consumer.assigned == []
    assert consumer.paused == set()  # or the next read would get nothing


def test_a_range_with_a_gap_at_its_end_is_over_when_the_reader_is_past_it() -> None:
    assert rows(FakeConsumer(records(0, 0, 1, 9)), Range(0, 0, 5)) == {0: [0, 1]}
    assert rows(FakeConsumer([*records(0, 1), end_of(0, 5)]), Range(0, 0, 5)) == {0: [1]}
    assert rows(FakeConsumer([end_of(0, 7)]), Range(0, 0, 5)) == {}


def test_the_end_of_a_partition_before_that_of_the_range_is_not_its_end() -> None:
    events = [*records(0, 0), end_of(0, 1), *records(0, 1, 2)]
    assert rows(FakeConsumer(events), Range(0, 0, 3)) == {0: [0, 1, 2]}
    with pytest.raises(ReadBroken):
        rows(FakeConsumer([*records(0, 0), end_of(0, 1)]), Range(0, 0, 3))


def test_partitions_come_mixed_and_are_told_apart() -> None:
    events = [*records(0, 0), *records(1, 7, 8), *records(0, 1), *records(1, 9), end_of(0, 2)]
    assert rows(FakeConsumer(events), Range(0, 0, 2), Range(1, 7, 9)) == {0: [0, 1], 1: [7, 8]}


def test_it_asks_for_what_makes_ranges_exact() -> None:
    consumer = FakeConsumer(records(0, 4))
    list(reader(consumer).read([Range(0, 4, 5), Range(1, 2, 2)]))
    assert consumer.settings["isolation.level"] == "read_committed"
    assert consumer.settings["auto.offset.reset"] == "error"  # never another place than asked for
    assert consumer.settings["enable.auto.commit"] is False
    assert consumer.settings["enable.partition.eof"] is True


def test_an_error_breaks_the_read() -> None:
    events = [*records(0, 0), Event(0, 1, fault=Error("_AUTO_OFFSET_RESET"))]
    with pytest.raises(ReadBroken, match="_AUTO_OFFSET_RESET"):
        rows(FakeConsumer(events), Range(0, 0, 5))


def test_brokers_that_go_away_break_the_read_and_lesser_troubles_do_not() -> None:
    trouble = Event(-1, -1, fault=Error("_TRANSPORT"))
    assert rows(FakeConsumer([trouble, *records(0, 0)]), Range(0, 0, 1)) == {0: [0]}
    gone = Event(-1, -1, fault=Error("_ALL_BROKERS_DOWN"))
    with pytest.raises(ReadBroken, match="_ALL_BROKERS_DOWN"):
        rows(FakeConsumer([gone, *records(0, 0)]), Range(0, 0, 1))


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    monkeypatch.setitem(sys.modules, "confluent_kafka.admin", None)
    for make in (
        lambda: RangeReader({}, TOPIC, "g", NOTHING_MORE),
        lambda: Cluster("k", {"bootstrap.servers": "nowhere:1"}),
    ):
        with pytest.raises(KafkaMissing) as caught:
            make()
        assert caught.value.hint == "Install it: pip install 'waterclock[kafka]'."


def test_settings_that_the_library_does_not_take() -> None:
    with pytest.raises(InvalidSource) as caught:
        Cluster("k", {"security.protocol": "SSL", "ssl.ca.pem": "no certificate", "log_level": 0})
    assert caught.value.message == 'the options of connection "k" are not valid'


def test_keys_values_times_and_headers() -> None:
    events = [
        Event(2, 0, b"v", b"k", millis=1500, told=[("h", b"1"), ("h", None)]),
        Event(2, 1, None, None),
    ]
    [batch] = reader(FakeConsumer(events), Parts(True, True)).read([Range(2, 0, 2)])
    assert batch.schema.equals(RECORDS)
    assert batch.column("key").to_pylist() == [b"k", None]
    assert batch.column("value").to_pylist() == [b"v", None]
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [1_500_000, None]
    headers: list[Any] = batch.column("headers").to_pylist()
    assert headers == [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None]


def test_a_long_range_comes_in_pieces() -> None:
    consumer = FakeConsumer(records(0, *range(120_000)), at_once=5000)
    batches = list(reader(consumer).read([Range(0, 0, 120_000)]))
    assert len(batches) > 1
    offsets = [offset for batch in batches for offset in batch.column("offset").to_pylist()]
    assert offsets == list(range(120_000))


def test_commits_are_only_told() -> None:
    consumer = FakeConsumer([])
    reading = reader(consumer)
    reading.commit({0: 7, 1: 3})
    assert consumer.committed == {0: 7, 1: 3}
    reading.close()
    assert consumer.is_closed
