"""Tables that Debezium writes to topics of their own, as one source whose transactions are whole.

All topics have one remap: a binding says how far each of them, and the topic that tells of the
transactions, is known at a time. What is read is held back until its transaction is there
(`envelopes.transactions`), so that it becomes visible in all tables at once.

It is made of connectors of single topics, which see to it that what they read is definite. Their
partitions are called `topic/number` here. That a topic has several is told with what is read of it,
for then its changes need not be in the order of the transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from waterclock.model.schema import Schema
from waterclock.storage.envelopes.choice import envelope_of
from waterclock.storage.envelopes.transactions import Transactions, several_partitions
from waterclock.storage.reclock.progress import Partition, Range, SourceFrontier
from waterclock.storage.reclock.shape import KAFKA_TOPICS, partition_of, topic_partition
from waterclock.storage.sources.api import Envelope, Kind, Messages, Probe, Surroundings
from waterclock.storage.sources.kafka.connector import Kafka
from waterclock.storage.sources.kafka.definition import (
    OUTPUT,
    KafkaDefinition,
    TransactionsDefinition,
    decoded_transactions,
    frontier_of,
)
from waterclock.storage.sources.kafka.pacing import Pace

NAME = "kafka-transactions"
ENDS = ""
"""The output that the transaction topic is. No table has this name, and nobody can ask for it."""
OpenTopic = Callable[[KafkaDefinition, Surroundings, Pace], Kafka]


class KafkaTransactions:
    """Implements `Connector`."""

    def __init__(
        self,
        definition: TransactionsDefinition,
        surroundings: Surroundings,
        open_topic: OpenTopic = lambda d, s, pace: Kafka(d, s, pace=pace),
    ) -> None:
        topics = {ENDS: definition.ends, **definition.tables}
        pace = Pace().shared(len(topics))
        self._names = {output: each.topic for output, each in topics.items()}
        self._topics = {
            output: open_topic(each, surroundings, replace(pace)) for output, each in topics.items()
        }

    @property
    def outputs(self) -> Mapping[str, Schema]:
        return {o: each.outputs[OUTPUT] for o, each in self._topics.items() if o != ENDS}

    @property
    def is_linearizable(self) -> bool:
        """What the connector upstream has not written yet is not known to the brokers."""
        return False

    def start(self) -> SourceFrontier:
        return self._all((output, each.start()) for output, each in self._topics.items())

    def resume(self, frontier: SourceFrontier) -> None:
        for output, each in self._topics.items():
            each.resume(self._of(output, frontier))

    def probe(self) -> Probe:
        found = {output: each.probe() for output, each in self._topics.items()}
        return Probe(
            self._all((output, each.frontier) for output, each in found.items()),
            self._all((output, each.known) for output, each in found.items()),
        )

    def read(self, ranges: Sequence[Range]) -> Iterator[Messages]:
        for output, topic in self._names.items():
            asked = []
            partition: Partition = None
            for each in ranges:
                name, number = topic_partition(each.partition)
                if name == topic:
                    asked.append(Range(number, each.start, each.end))
                    partition = each.partition
            if not asked:
                continue
            for messages in self._topics[output].read(asked):
                assert isinstance(messages.partition, int), "partitions of a topic have numbers"
                yield Messages(output, partition_of(topic, messages.partition), messages.batch)
            if self._topics[output].partitions > 1:
                yield several_partitions(output, partition)

    def commit(self, frontier: SourceFrontier) -> None:
        for output, each in self._topics.items():
            each.commit(self._of(output, frontier))

    def close(self) -> None:
        for each in self._topics.values():
            each.close()

    # Frontiers of topics as one, and back

    def _all(self, parts: Iterable[tuple[str, SourceFrontier]]) -> SourceFrontier:
        uppers: dict[Partition, int] = {}
        for output, part in parts:
            for number, offset in part.uppers.items():
                assert isinstance(number, int), "partitions of a topic have numbers"
                uppers[partition_of(self._names[output], number)] = offset
        return SourceFrontier(uppers, more_may_appear=True)

    def _of(self, output: str, frontier: SourceFrontier) -> SourceFrontier:
        uppers = {}
        for partition, offset in frontier.uppers.items():
            name, number = topic_partition(partition)
            if name == self._names[output]:
                uppers[number] = offset
        return frontier_of(uppers)


def _open(definition: bytes, surroundings: Surroundings) -> KafkaTransactions:
    return KafkaTransactions(decoded_transactions(definition), surroundings)


def _envelope(definition: bytes, output: str) -> Envelope:
    return envelope_of(decoded_transactions(definition).tables[output].messages)


def _grouping(definition: bytes) -> Transactions:
    tables = decoded_transactions(definition).tables
    in_order = [name for name, topic in tables.items() if len(topic.start) == 1]
    return Transactions(ENDS, {name: name for name in tables}, in_order)


KIND = Kind(
    KAFKA_TOPICS,
    _open,
    _envelope,
    _grouping,
    not_linearizable="What Debezium has not written yet is unknown to Kafka, and its transactions"
    " are complete only when their topic says so.",
)
