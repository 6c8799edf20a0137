"""What a Kafka source is, as the catalog keeps it.

Everything that was decided when the source was created is in here: which topic it is, by its id, so
that another one of the same name is told apart; and from which offsets on it is read, so that it
does not matter when the first read happens. How to reach the brokers is not: that is asked for
anew each time, by the connection's id.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from waterclock.model.ids import GlobalId
from waterclock.storage.formats.api import MessageDefinition
from waterclock.storage.reclock.progress import Partition, SourceFrontier

OUTPUT = "messages"
"""The output of a topic that is read in one way."""


class KafkaDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A topic, and how its messages are read.

    `start` has the first offset of each partition that there was. Partitions that appear later are
    read from their beginning. Messages may be read in several ways at once, each an output of its
    own: these are the `editions`, by the name of the output. Without any there is one way.
    """

    connection: str
    topic: str
    topic_id: str
    start: dict[int, int]
    group: str
    messages: MessageDefinition
    editions: dict[str, MessageDefinition] = {}

    @property
    def by_output(self) -> Mapping[str, MessageDefinition]:
        """How messages are read, for each output."""
        return self.editions or {OUTPUT: self.messages}

    @property
    def connection_id(self) -> GlobalId:
        return GlobalId.parse(self.connection)

    @property
    def first_frontier(self) -> SourceFrontier:
        return frontier_of(self.start)

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)


class TransactionsDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """Tables that Debezium writes to topics, and the topic that tells of their transactions.

    `tables` has the topic of each, by the name that the transactions have for it.
    """

    ends: KafkaDefinition
    tables: dict[str, KafkaDefinition]

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)


def frontier_of(uppers: Mapping[int, int]) -> SourceFrontier:
    """The frontier of a topic, to which partitions may be added."""
    found: dict[Partition, int] = dict(uppers.items())
    return SourceFrontier(found, more_may_appear=True)


def decoded(definition: bytes) -> KafkaDefinition:
    return msgspec.msgpack.decode(definition, type=KafkaDefinition)


def decoded_transactions(definition: bytes) -> TransactionsDefinition:
    return msgspec.msgpack.decode(definition, type=TransactionsDefinition)
