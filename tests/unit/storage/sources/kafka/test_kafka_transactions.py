"""Several topics as one source: how their frontiers, ranges and messages become those of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from kafka_fakes import Event, FakeCluster, FakeConsumer, surroundings

from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema
from waterclock.persist.schema_codec import encode_schema
from waterclock.storage.envelopes.transactions import json_ends
from waterclock.storage.formats.api import DebeziumDefinition, JsonDefinition, MessageDefinition
from waterclock.storage.reclock.progress import Range, SourceFrontier
from waterclock.storage.reclock.remap import Element, RemapUpdate
from waterclock.storage.reclock.shape import KAFKA_TOPICS
from waterclock.storage.sources.api import Surroundings
from waterclock.storage.sources.kafka.connector import Kafka
from waterclock.storage.sources.kafka.definition import (
    KafkaDefinition,
    TransactionsDefinition,
    decoded_transactions,
)
from waterclock.storage.sources.kafka.pacing import Pace
from waterclock.storage.sources.kafka.reading import RangeReader
from waterclock.storage.sources.kafka.transactions import ENDS, KIND, KafkaTransactions

ROW = JsonDefinition(encode_schema(Schema((Column("id", Int(64)),))))


class AnyCluster(FakeCluster):
    """One whose topics all have the same partitions."""

    def earliest(self, topic: str, partitions: Any) -> dict[int, int]:
        del topic
        return super().earliest("orders", partitions)

    def ends(self, topic: str, partitions: Any) -> dict[int, int]:
        del topic
        return super().ends("orders", partitions)


def topic(name: str, messages: MessageDefinition, partitions: int = 1) -> KafkaDefinition:
    return KafkaDefinition(
        connection=str(GlobalId.user(1)),
        topic=name,
        topic_id="first",
        start=dict.fromkeys(range(partitions), 0),
        group="g",
        messages=messages,
    )


def definition() -> TransactionsDefinition:
    table = MessageDefinition(origin="t", value=ROW, envelope=DebeziumDefinition())
    return TransactionsDefinition(
        ends=topic("x.transaction", MessageDefinition(origin="e", value=json_ends())),
        tables={"s.a": topic("x.s.a", table), "s.b": topic("x.s.b", table, 2)},
    )


def connector(
    clusters: Mapping[str, FakeCluster], events: Mapping[str, list[Event]]
) -> tuple[KafkaTransactions, dict[str, FakeConsumer], list[Pace]]:
    consumers: dict[str, FakeConsumer] = {}
    paces: list[Pace] = []

    def opened(defined: KafkaDefinition, around: Surroundings, pace: Pace) -> Kafka:
        consumer = consumers[defined.topic] = FakeConsumer(events.get(defined.topic, ()))
        paces.append(pace)

        def reader(settings: Any, name: str, group: str, parts: Any) -> RangeReader:
            assert name == defined.topic
            return RangeReader(settings, name, group, parts, patience_s=0.05, consumer=consumer)

        return Kafka(defined, around, clusters[defined.topic], reader, pace)

    return KafkaTransactions(definition(), surroundings(), opened), consumers, paces


def clusters() -> dict[str, FakeCluster]:
    ends = {"x.transaction": {0: 4}, "x.s.a": {0: 10}, "x.s.b": {0: 3, 1: 5}}
    return {name: AnyCluster(begins=dict.fromkeys(p, 0), stops=p) for name, p in ends.items()}


def frontier(*offsets: int) -> SourceFrontier:
    names = ("x.transaction/0", "x.s.a/0", "x.s.b/0", "x.s.b/1")
    return SourceFrontier(dict(zip(names, offsets, strict=True)), more_may_appear=True)


@pytest.mark.semantics(163)
def test_one_frontier_for_all_topics() -> None:
    source, consumers, paces = connector(clusters(), {})
    assert source.start() == frontier(0, 0, 0, 0)
    source.resume(frontier(1, 2, 3, 4))
    assert source.probe().frontier == frontier(4, 10, 3, 5)
    assert set(source.outputs) == {"s.a", "s.b"}
    source.commit(frontier(1, 2, 3, 4))
    assert consumers["x.s.b"].committed == {0: 3, 1: 4}
    assert consumers["x.transaction"].committed == {0: 1}
    assert len({id(pace) for pace in paces}) == 3, "each topic learns its own pace"
    assert sum(pace.most_bytes for pace in paces) <= Pace().most_bytes
    source.close()
    assert all(consumer.is_closed for consumer in consumers.values())


def test_messages_are_told_by_their_topic() -> None:
    body = b'{"op": "c", "after": {"id": 1}}'
    given = {"x.s.a": [Event(0, 2, body)], "x.s.b": [Event(1, 4, body)]}
    given["x.transaction"] = [Event(0, 0, b'{"status": "BEGIN", "id": "1"}')]
    source, _, _ = connector(clusters(), given)
    asked = [Range("x.transaction/0", 0, 1), Range("x.s.a/0", 2, 3), Range("x.s.b/1", 4, 5)]
    found = [(m.output, m.partition, m.batch.num_rows) for m in source.read(asked)]
    news = ("s.b", "x.s.b/1", 0)  # that it has several partitions
    assert found == [
        (ENDS, "x.transaction/0", 1),
        ("s.a", "x.s.a/0", 1),
        ("s.b", "x.s.b/1", 1),
        news,
    ]


def test_progress_has_topics_and_partitions() -> None:
    updates = [RemapUpdate(Element("x.s.b/1", 7), 100, 1), RemapUpdate(Element("a/b/0", 2), 1, -1)]
    rows = KAFKA_TOPICS.rows(updates)
    assert [field.name for field in rows.schema][:3] == ["topic", "partition", "offset"]
    assert (
        rows.to_pylist()[0] | {"topic": "x.s.b", "partition": 1, "offset": 7} == rows.to_pylist()[0]
    )
    assert KAFKA_TOPICS.updates([rows]) == updates


def test_what_is_kept_is_read_again() -> None:
    kept = definition().encoded()
    assert decoded_transactions(kept) == definition()
    assert KIND.grouping(kept) is not None
    KIND.envelope(kept, "s.a")


def test_partitions_that_are_added_are_told_with_what_is_read() -> None:
    body = b'{"op": "c", "after": {"id": 1}}'
    for partitions, expected in ((1, [1]), (2, [1, 0])):
        known = clusters()
        known["x.s.a"].stops = dict.fromkeys(range(partitions), 10)
        source, _, _ = connector(known, {"x.s.a": [Event(0, 2, body)]})
        found = list(source.read([Range("x.s.a/0", 2, 3)]))
        assert [m.batch.num_rows for m in found] == expected
    assert found[1].batch.schema.metadata == {b"partitions": b"several"}
