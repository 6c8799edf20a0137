"""The connector over brokers that a test owns: what it binds, and what ends it for good."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from kafka_fakes import (
    CONNECTION,
    MESSAGES,
    TOPIC,
    Error,
    Event,
    FakeCluster,
    FakeConsumer,
    definition,
    surroundings,
)

from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema
from waterclock.persist.schema_codec import encode_schema
from waterclock.storage.formats.api import JsonDefinition
from waterclock.storage.reclock.errors import UpstreamRegressed
from waterclock.storage.reclock.progress import Range
from waterclock.storage.sources.errors import InvalidSource, SourceFault, TransientFault
from waterclock.storage.sources.kafka import connector as module
from waterclock.storage.sources.kafka.connector import Kafka
from waterclock.storage.sources.kafka.creation import Wanted, define
from waterclock.storage.sources.kafka.definition import OUTPUT, decoded, frontier_of
from waterclock.storage.sources.kafka.reading import RangeReader


def kafka(cluster: FakeCluster, events: Iterable[Event] = ()) -> tuple[Kafka, FakeConsumer]:
    consumer = FakeConsumer(events)

    def reader(settings: Any, topic: str, group: str, parts: Any) -> RangeReader:
        return RangeReader(settings, topic, group, parts, patience_s=0.05, consumer=consumer)

    return Kafka(definition(), surroundings(), cluster, reader), consumer


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_AGAIN_S", 0.0)


@pytest.mark.semantics(105, 116)
def test_a_probe_has_the_end_of_every_partition_and_leaves_room_for_more() -> None:
    cluster = FakeCluster()
    connector, _ = kafka(cluster)
    assert connector.probe().frontier == frontier_of({0: 10, 1: 5})
    cluster.stops[2] = 1
    cluster.begins[2] = 0
    probe = connector.probe()
    assert probe.frontier == frontier_of({0: 10, 1: 5, 2: 1})
    assert probe.frontier.more_may_appear
    assert not probe.is_final


@pytest.mark.semantics(125, 138)
def test_the_head_is_behind_transactions_that_are_open() -> None:
    """What was acknowledged behind one can not be bound before that has ended."""
    cluster = FakeCluster(undecided={1: 3})
    connector, _ = kafka(cluster)
    assert connector.is_linearizable
    assert connector.head() == frontier_of({0: 10, 1: 8})
    assert connector.probe().known == frontier_of({0: 10, 1: 5})


def test_a_large_backlog_is_bound_piece_by_piece() -> None:
    cluster = FakeCluster(stops={0: 10**9, 1: 5})
    connector, _ = kafka(cluster)
    connector.resume(frontier_of({0: 0, 1: 0}))
    probe = connector.probe()
    assert probe.known == frontier_of({0: 10**9, 1: 5})
    assert probe.frontier.uppers[1] == 5
    assert 0 < probe.frontier.uppers[0] < 10**6


def test_what_has_gone_back_is_noticed_and_not_hidden() -> None:
    cluster = FakeCluster()
    connector, _ = kafka(cluster)
    bound = frontier_of({0: 10, 1: 7})
    connector.resume(bound)
    with pytest.raises(UpstreamRegressed):
        connector.probe().frontier.require_after(bound)


def test_messages_are_decoded() -> None:
    connector, consumer = kafka(FakeCluster(), [Event(0, 3, b"a"), Event(0, 4, b"b")])
    [messages] = connector.read([Range(0, 3, 5)])
    assert messages.output == OUTPUT
    assert messages.partition == 0
    assert messages.batch.column("text").to_pylist() == ["a", "b"]
    assert messages.batch.column("mz_offset").to_pylist() == [3, 4]
    connector.commit(frontier_of({0: 5}))
    assert consumer.committed == {0: 5}
    connector.close()
    assert consumer.is_closed


def test_messages_that_are_read_in_two_ways() -> None:
    known = definition()
    columns = encode_schema(Schema((Column("a", Int(64)),)))
    as_json = msgspec.structs.replace(known.messages, value=JsonDefinition(columns))
    editions = {OUTPUT: known.messages, "more": as_json}
    both = msgspec.structs.replace(known, editions=editions)
    consumer = FakeConsumer([Event(0, 3, b'{"a": 1}'), Event(0, 4, b'{"a": 2}')])

    def reader(settings: Any, topic: str, group: str, parts: Any) -> RangeReader:
        return RangeReader(settings, topic, group, parts, patience_s=0.05, consumer=consumer)

    connector = Kafka(decoded(both.encoded()), surroundings(), FakeCluster(), reader)
    assert {name: rows.names for name, rows in connector.outputs.items()} == {
        OUTPUT: ("text",),
        "more": ("a",),
    }
    [first, second] = connector.read([Range(0, 3, 5)])
    assert (first.output, second.output) == (OUTPUT, "more")
    assert first.batch.column("text").to_pylist() == ['{"a": 1}', '{"a": 2}']
    assert second.batch.column("a").to_pylist() == [1, 2]
    connector.close()


@pytest.mark.parametrize("found", ["second", None])
def test_another_topic_of_that_name_is_not_bound(found: str | None) -> None:
    connector, _ = kafka(FakeCluster(id=found))
    with pytest.raises(SourceFault) as caught:
        connector.probe()
    told = "created again" if found else "was deleted upstream"
    assert told in caught.value.message
    assert caught.value.hint


def test_records_of_another_topic_are_never_handed_over() -> None:
    """It was exchanged between the binding and the read."""
    cluster = FakeCluster()
    connector, _ = kafka(cluster, [Event(0, 0, b"of another")])
    connector.probe()
    cluster.id = "second"
    with pytest.raises(SourceFault, match="created again"):
        list(connector.read([Range(0, 0, 1)]))


def test_what_retention_has_taken_is_a_definite_error() -> None:
    gone = [Event(0, 0, fault=Error("_AUTO_OFFSET_RESET"))]
    connector, _ = kafka(FakeCluster(begins={0: 4, 1: 0}), gone)
    with pytest.raises(SourceFault) as caught:
        list(connector.read([Range(0, 2, 9)]))
    assert (
        caught.value.message
        == f'messages of topic "{TOPIC}" are gone upstream before they were read'
    )
    assert caught.value.detail is not None
    assert "from offset 2 on, and now begins at 4" in caught.value.detail


def test_a_log_that_ends_too_early_is_a_definite_error() -> None:
    connector, _ = kafka(FakeCluster(stops={0: 6, 1: 0}), [Event(0, 5)])
    with pytest.raises(SourceFault, match="are lost upstream"):
        list(connector.read([Range(0, 5, 9)]))


def test_everything_else_is_tried_again() -> None:
    connector, _ = kafka(FakeCluster(), [Event(0, 0, fault=Error("_TRANSPORT"))])
    with pytest.raises(TransientFault):
        list(connector.read([Range(0, 0, 9)]))


# Creation


def defined(cluster: FakeCluster, wanted: Wanted) -> dict[int, int]:
    found = define(GlobalId.user(1), CONNECTION, wanted, MESSAGES, lambda: 10_000, cluster)
    assert decoded(found.encoded()) == found
    assert found.topic_id == "first"
    assert found.group.startswith(f"{wanted.group_prefix}waterclock-")
    assert cluster.is_closed
    return found.start


def test_a_source_starts_where_the_topic_begins() -> None:
    assert defined(FakeCluster(begins={0: 3, 1: 0}), Wanted(TOPIC)) == {0: 3, 1: 0}


def test_start_offsets() -> None:
    cluster = FakeCluster(begins={0: 3, 1: 1})
    assert defined(cluster, Wanted(TOPIC, (5,), group_prefix="x-")) == {0: 5, 1: 1}
    assert defined(cluster, Wanted(TOPIC, (0, 5))) == {0: 3, 1: 5}
    for offsets in ((11,), (0, 6), (0, 0, 0), (-1,)):
        with pytest.raises(InvalidSource):
            defined(cluster, Wanted(TOPIC, offsets))


def test_start_timestamps() -> None:
    cluster = FakeCluster(times={0: 4, 1: None})
    assert defined(cluster, Wanted(TOPIC, time_ms=77)) == {0: 4, 1: 5}
    assert cluster.asked_ms == 77
    defined(cluster, Wanted(TOPIC, time_ms=-1000))
    assert cluster.asked_ms == 9000  # a second ago
    cluster.times[0] = 12  # in a transaction that is still open
    assert defined(cluster, Wanted(TOPIC, time_ms=1)) == {0: 10, 1: 5}


def test_a_topic_that_does_not_exist() -> None:
    with pytest.raises(InvalidSource, match='topic "orders" does not exist'):
        defined(FakeCluster(id=None), Wanted(TOPIC))
