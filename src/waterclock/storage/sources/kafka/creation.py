"""What a new source is to be, asked of the brokers before it is created.

Here the statement meets what there is: the topic must exist, its id is noted, and where to start is
settled for each partition. All that can be wrong is told to the one who creates the source.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from waterclock.model.ids import GlobalId
from waterclock.storage.formats.api import MessageDefinition
from waterclock.storage.sources.api import Clock, ConnectionSettings
from waterclock.storage.sources.errors import InvalidSource
from waterclock.storage.sources.kafka.cluster import Cluster, Topic
from waterclock.storage.sources.kafka.definition import KafkaDefinition
from waterclock.storage.sources.kafka.errors import unknown_topic
from waterclock.storage.sources.kafka.settings import ClientSettings, client_settings


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the statement says of the topic.

    `offsets` are for the first partitions, in their order; the others are read from the beginning.
    A time below zero is so many milliseconds before now.
    """

    topic: str
    offsets: tuple[int, ...] | None = None
    time_ms: int | None = None
    group_prefix: str = ""


def define(
    connection: GlobalId,
    settings: ConnectionSettings,
    wanted: Wanted,
    messages: MessageDefinition,
    clock: Clock,
    open_cluster: Callable[[str, ClientSettings], Cluster] = Cluster,
) -> KafkaDefinition:
    """The definition of the source. Raises `InvalidSource`, and `TransientFault` if the brokers do
    not answer.
    """
    cluster = open_cluster(settings.name, client_settings(settings))
    try:
        topic = cluster.topic(wanted.topic)
        if topic is None:
            raise unknown_topic(wanted.topic)
        start = _start(cluster, topic, wanted, clock)
    finally:
        cluster.close()
    return KafkaDefinition(
        connection=str(connection),
        topic=topic.name,
        topic_id=topic.id,
        start=start,
        group=f"{wanted.group_prefix}waterclock-{uuid.uuid4()}",
        messages=messages,
    )


def topics_at(
    settings: ConnectionSettings,
    open_cluster: Callable[[str, ClientSettings], Cluster] = Cluster,
) -> list[str]:
    """The names of all topics there. Raises `TransientFault` if the brokers do not answer."""
    cluster = open_cluster(settings.name, client_settings(settings))
    try:
        return cluster.topics()
    finally:
        cluster.close()


def _start(cluster: Cluster, topic: Topic, wanted: Wanted, clock: Clock) -> dict[int, int]:
    """The first offset of each partition; never one that is gone already."""
    earliest = cluster.earliest(topic.name, topic.partitions)
    if wanted.offsets is not None:
        return _from_offsets(cluster, topic, wanted.offsets, earliest)
    if wanted.time_ms is None:
        return earliest
    time_ms = wanted.time_ms if wanted.time_ms >= 0 else max(0, clock() + wanted.time_ms)
    found = cluster.at(topic.name, topic.partitions, time_ms)
    ends = cluster.ends(topic.name, topic.partitions)
    start: dict[int, int] = {}
    for partition in topic.partitions:
        offset = found[partition]
        # A transaction that is still open at that time is before the end of what is decided.
        start[partition] = ends[partition] if offset is None else min(offset, ends[partition])
    return start


def _from_offsets(
    cluster: Cluster, topic: Topic, offsets: tuple[int, ...], earliest: dict[int, int]
) -> dict[int, int]:
    if len(offsets) > len(topic.partitions):
        raise InvalidSource(
            f'there are {len(offsets)} start offsets, and topic "{topic.name}" has'
            f" {len(topic.partitions)} partitions"
        )
    ends = cluster.ends(topic.name, topic.partitions)
    start = dict(earliest)
    for partition, offset in zip(topic.partitions, offsets, strict=False):
        if offset < 0:
            raise InvalidSource("START OFFSET must not be negative")
        if offset > ends[partition]:
            raise InvalidSource(
                f"start offset {offset} is beyond the end of partition {partition}",
                detail=f'Partition {partition} of topic "{topic.name}" ends at {ends[partition]}.',
            )
        start[partition] = max(offset, earliest[partition])
    return start
