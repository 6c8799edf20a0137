"""What a new source is to be, asked of the service before it is created.

Here the statement meets what there is: the stream must exist, and where each shard begins is
settled. All that can be wrong is told to the one who creates the source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from waterclock.model.ids import GlobalId
from waterclock.runtime import SYSTEM, Runtime
from waterclock.storage.formats.api import MessageDefinition
from waterclock.storage.reclock.shape import END
from waterclock.storage.sources.api import ConnectionSettings
from waterclock.storage.sources.aws.clients import AwsAccess, access_of
from waterclock.storage.sources.errors import InvalidSource
from waterclock.storage.sources.kinesis.definition import KinesisDefinition
from waterclock.storage.sources.kinesis.errors import unknown_stream
from waterclock.storage.sources.kinesis.shards import readable
from waterclock.storage.sources.kinesis.stream import (
    RECORDS_AT_ONCE,
    KinesisStream,
    NotThere,
    Place,
    Stream,
    StreamState,
)

_REST_S = 0.25
"""Between two requests to one shard, which answers five a second."""
_LOOK_BACK_MS = 10_000
"""LATEST begins behind the last record, which is looked for among those of so long ago. If there is
none, records since then count, so clocks that differ a little lose none."""


class Start(Enum):
    """Where reading begins."""

    TRIM_HORIZON = "TRIM_HORIZON"
    LATEST = "LATEST"
    AT_TIMESTAMP = "AT TIMESTAMP"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the statement says of the stream. `time_ms` is that of `AT_TIMESTAMP`."""

    stream: str
    start: Start = Start.TRIM_HORIZON
    time_ms: int | None = None


def define(
    connection: GlobalId,
    settings: ConnectionSettings,
    wanted: Wanted,
    messages: MessageDefinition,
    open_stream: Callable[[AwsAccess, str], Stream] = KinesisStream,
    runtime: Runtime = SYSTEM,
) -> KinesisDefinition:
    """The definition of the source. Raises `InvalidSource`, and `TransientFault` if the service
    does not answer.
    """
    stream = open_stream(access_of(settings), wanted.stream)
    try:
        state = stream.state()
        if not state.is_active:
            raise InvalidSource(
                f'stream "{wanted.stream}" is being created',
                hint="Try the statement again when it is active.",
            )
        listed = stream.shards()
        from_ms = _from_ms(wanted, state)
        start = {
            shard.id: _first_number(stream, shard.id, wanted.start, from_ms, runtime)
            for shard in listed
        }
    except NotThere:
        raise unknown_stream(wanted.stream) from None
    finally:
        stream.close()
    may_be_read = {shard.id for shard in readable(listed, start)}
    return KinesisDefinition(
        connection=str(connection),
        stream=wanted.stream,
        stream_created_ms=state.created_ms,
        known=tuple(sorted(shard.id for shard in listed)),
        start={s: str(n) for s, n in start.items() if n or s in may_be_read},
        begins_at_record=wanted.start is not Start.LATEST,
        messages=messages,
        from_ms=from_ms,
    )


def _from_ms(wanted: Wanted, state: StreamState) -> int | None:
    if wanted.start is Start.TRIM_HORIZON:
        return None
    if wanted.start is Start.LATEST:
        return state.now_ms - _LOOK_BACK_MS
    assert wanted.time_ms is not None, "a time is given"
    if wanted.time_ms > state.now_ms + 1000:
        raise InvalidSource("START POSITION must not be in the future")
    return wanted.time_ms


def _first_number(
    stream: Stream, shard: str, start: Start, from_ms: int | None, runtime: Runtime
) -> int:
    """Where a shard begins: at the first record that is wanted; for LATEST, after the last one that
    is not. 0 if there is none yet, and `END` if there never will be.
    """
    limit = RECORDS_AT_ONCE if start is Start.LATEST else 1
    iterator: str | None = stream.iterator(shard, Place(from_ms=from_ms))
    last = 0
    while iterator is not None:
        answer = stream.records(shard, iterator, limit)
        if answer.records and start is not Start.LATEST:
            return answer.records[0].number
        last = answer.records[-1].number + 1 if answer.records else last
        if answer.behind_ms == 0 and answer.iterator is not None:
            return last
        iterator = answer.iterator
        runtime.sleep(_REST_S)
    return END
