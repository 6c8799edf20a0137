"""What a Kinesis source is, as the catalog keeps it.

Everything that was decided when the source was created is in here: which stream it is, by the time
at which it was created, so that another one of the same name is told apart; and where each shard
begins, so that it does not matter when the first read happens. How to reach the service is not:
that is asked for anew each time, by the connection's id.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from waterclock.model.ids import GlobalId
from waterclock.storage.formats.api import MessageDefinition
from waterclock.storage.reclock.progress import Partition, SourceFrontier


class KinesisDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stream, and how its records are read.

    `known` are the shards that there were. `start` has the sequence numbers at which they begin, in
    decimal digits; with `begins_at_record`, a number above 0 is that of the first record that is
    wanted, otherwise it is one after the last record that is not. Shards that appear later are read
    from their beginning; no record is wanted that came before `from_ms`.
    """

    connection: str
    stream: str
    stream_created_ms: int
    known: tuple[str, ...]
    start: dict[str, str]
    begins_at_record: bool
    messages: MessageDefinition
    from_ms: int | None = None

    @property
    def connection_id(self) -> GlobalId:
        return GlobalId.parse(self.connection)

    @property
    def first_numbers(self) -> Mapping[str, int]:
        return {shard: int(digits) for shard, digits in self.start.items()}

    @property
    def first_frontier(self) -> SourceFrontier:
        return frontier_of(self.first_numbers)

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)


def frontier_of(uppers: Mapping[str, int]) -> SourceFrontier:
    """The frontier of a stream, to which shards may be added."""
    found: dict[Partition, int] = dict(uppers.items())
    return SourceFrontier(found, more_may_appear=True)


def decoded(definition: bytes) -> KinesisDefinition:
    return msgspec.msgpack.decode(definition, type=KinesisDefinition)
