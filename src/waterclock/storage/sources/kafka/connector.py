"""A Kafka topic as a source: its partitions are the source's, its offsets their source times.

Two things make what is read definite. Only what is decided is bound, so a range of offsets always
holds the same records; and the topic is known by its id, which is looked at before a range is bound
and again after it was read, so records of another topic of that name are never taken for its own.

Small ranges are read here, with a client that stays connected; large ones on the executors.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from waterclock.model.schema import Schema
from waterclock.storage.envelopes.choice import decoding_of, envelope_of
from waterclock.storage.formats.api import Decoding
from waterclock.storage.reclock.progress import Range, SourceFrontier
from waterclock.storage.reclock.shape import KAFKA
from waterclock.storage.sources.api import Envelope, Kind, Messages, Probe, Surroundings
from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.kafka import errors
from waterclock.storage.sources.kafka.cluster import Cluster, Topic
from waterclock.storage.sources.kafka.definition import (
    KafkaDefinition,
    decoded,
    frontier_of,
)
from waterclock.storage.sources.kafka.pacing import Pace, limited
from waterclock.storage.sources.kafka.reading import Parts, RangeReader, ReadBroken
from waterclock.storage.sources.kafka.settings import ClientSettings, client_settings
from waterclock.storage.sources.kafka.slices import read_outside

NAME = "kafka"
MANY_OFFSETS = 500_000
"""From so many offsets on, ranges are read on the executors, if there are any. One core reads and
decodes some 150,000 messages of JSON in a second, and the first job takes seconds to begin: with
fewer offsets the job takes longer than the messages."""
_LOOKS = 3
_LOOK_AGAIN_S = 0.5
OpenCluster = Callable[[str, ClientSettings], Cluster]
OpenReader = Callable[[ClientSettings, str, str, Parts], RangeReader]


class Kafka:
    """Implements `Connector`."""

    def __init__(
        self,
        definition: KafkaDefinition,
        surroundings: Surroundings,
        open_cluster: OpenCluster = Cluster,
        open_reader: OpenReader = RangeReader,
        pace: Pace | None = None,
    ) -> None:
        self._definition = definition
        self._surroundings = surroundings
        self._open_cluster = open_cluster
        self._open_reader = open_reader
        self._decodings: dict[str, Decoding] = {
            output: decoding_of(messages, surroundings.connection)
            for output, messages in definition.by_output.items()
        }
        self._parts = Parts.of(definition.messages)
        self._pace = pace or Pace()
        self._bound = definition.first_frontier
        self.partitions = len(definition.start)
        """How many there were when it was last looked. After a read that is later than the read."""
        self._looked: Topic | None = None
        """The topic, if somebody has looked at it just before the probe."""
        self._connection = ""
        self._settings: ClientSettings | None = None
        self._cluster: Cluster | None = None
        self._reader: RangeReader | None = None

    @property
    def outputs(self) -> Mapping[str, Schema]:
        return {output: decoding.schema for output, decoding in self._decodings.items()}

    @property
    def is_linearizable(self) -> bool:
        """The leaders of the partitions answer for the head, and a new leader only when it knows
        all that the last one has acknowledged to a producer that waits for all replicas.
        """
        return True

    def head(self) -> SourceFrontier:
        """Where the partitions end, transactions that are open included: a record that was
        acknowledged behind one can not be bound before that has ended.
        """
        self._looked = topic = self._same_topic()
        return frontier_of(self._opened_cluster().heads(topic.name, topic.partitions))

    def start(self) -> SourceFrontier:
        return self._definition.first_frontier

    def resume(self, frontier: SourceFrontier) -> None:
        self._bound = frontier

    def probe(self) -> Probe:
        topic, self._looked = self._looked or self._same_topic(), None
        ends = self._opened_cluster().ends(topic.name, topic.partitions)
        known = frontier_of(ends)
        return Probe(limited(self._bound, known, self._pace.at_once), known)

    def read(self, ranges: Sequence[Range]) -> Iterator[Messages]:
        offsets = sum(map(len, ranges))
        rows = size = 0
        try:
            for messages in self._read(ranges, offsets):
                rows += messages.batch.num_rows
                size += messages.batch.nbytes
                yield messages
        except ReadBroken as broken:
            raise self._reason(ranges, broken) from None
        self._same_topic()  # otherwise these are the records of another one
        self._pace.learn(offsets, rows // len(self._decodings), size)

    def _read(self, ranges: Sequence[Range], offsets: int) -> Iterator[Messages]:
        executors = self._surroundings.executors
        if executors is not None and offsets >= MANY_OFFSETS:
            yield from read_outside(
                executors,
                self._client_settings(),
                self._definition.topic,
                self._definition.group,
                self._parts,
                self._decodings,
                ranges,
            )
            return
        for records in self._opened_reader().read(ranges):
            partition = records.column("partition")[0].as_py()
            for output, decoding in self._decodings.items():
                yield Messages(output, partition, decoding.decode(records))

    def commit(self, frontier: SourceFrontier) -> None:
        self._bound = frontier
        uppers = {p: offset for p, offset in frontier.uppers.items() if isinstance(p, int)}
        self._opened_reader().commit(uppers)

    def close(self) -> None:
        reader, self._reader = self._reader, None
        cluster, self._cluster = self._cluster, None
        for each in (reader, cluster):
            if each is not None:
                each.close()

    # What is upstream

    def _same_topic(self) -> Topic:
        """The topic that the source was made for. Raises `SourceFault` if it is gone.

        A broker that has just started may not know of a topic yet, so it is asked again.
        """
        name, known = self._definition.topic, self._definition.topic_id
        for look in range(_LOOKS):
            if look:
                time.sleep(_LOOK_AGAIN_S)
            found = self._opened_cluster().topic(name)
            if found is not None:
                if found.id != known:
                    raise errors.recreated(name, known, found.id)
                self.partitions = len(found.partitions)
                return found
        raise errors.deleted(name)

    def _reason(self, ranges: Sequence[Range], broken: ReadBroken) -> Exception:
        """Why ranges could not be read: something definite if it can be found, else it is tried
        again.
        """
        topic = self._same_topic()
        partitions = [each.partition for each in ranges if isinstance(each.partition, int)]
        begins = self._opened_cluster().earliest(topic.name, partitions)
        ends = self._opened_cluster().ends(topic.name, partitions)
        for each in ranges:
            assert isinstance(each.partition, int), "partitions have numbers"
            if begins[each.partition] > each.start:
                return errors.expired(
                    topic.name, each.partition, each.start, begins[each.partition]
                )
            if ends[each.partition] < each.end:
                return errors.shortened(topic.name, each.partition, each.end, ends[each.partition])
        return TransientFault(
            f'topic "{topic.name}" can not be read at present',
            detail=f"{str(broken).rstrip('.')}.",
            hint="It is tried again.",
        )

    def _client_settings(self) -> ClientSettings:
        if self._settings is None:
            look_up = self._surroundings.connection
            assert look_up is not None, "who runs sources knows the connections"
            connection = look_up(self._definition.connection_id)
            self._connection = connection.name
            self._settings = client_settings(connection)
        return self._settings

    def _opened_cluster(self) -> Cluster:
        if self._cluster is None:
            settings = self._client_settings()
            self._cluster = self._open_cluster(self._connection, settings)
        return self._cluster

    def _opened_reader(self) -> RangeReader:
        if self._reader is None:
            settings, definition = self._client_settings(), self._definition
            self._reader = self._open_reader(
                settings, definition.topic, definition.group, self._parts
            )
        return self._reader


def _open(definition: bytes, surroundings: Surroundings) -> Kafka:
    return Kafka(decoded(definition), surroundings)


def _envelope(definition: bytes, output: str) -> Envelope:
    return envelope_of(decoded(definition).by_output[output])


KIND = Kind(KAFKA, _open, _envelope)
