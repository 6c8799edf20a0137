"""A stream of Kinesis: what the service says of it, as values of our own.

The one place that speaks to the service. What it says is translated here, errors as well: a stream
or shard that is not there is `NotThere`, an iterator that can not be used is `IteratorExpired`, and
everything else is transient.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from waterclock.storage.sources.aws.clients import AwsAccess
from waterclock.storage.sources.aws.errors import as_faults, code_of
from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.kinesis.shards import Shard

RECORDS_AT_ONCE = 10_000
"""As many as one answer can have; it has 10 MB at most."""
_HOUR_MS = 3_600_000
_RECORD_BYTES = 300
"""About what a record takes besides its data and its key."""


class NotThere(Exception):
    """The stream, or the shard, does not exist."""


class IteratorExpired(Exception):
    """The iterator is too old, and another one is needed."""


@dataclass(frozen=True, slots=True)
class StreamState:
    """What a stream is, and since when; and what time it is for the service, within a second."""

    created_ms: int
    retention_ms: int
    is_active: bool
    now_ms: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where a read of a shard begins: at a record's number; at a time; else at its beginning."""

    number: int | None = None
    from_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A record as the service has it."""

    number: int
    key: str
    data: bytes
    arrived_ms: int

    @property
    def size(self) -> int:
        """About how much memory it takes."""
        return len(self.data) + len(self.key) + _RECORD_BYTES


@dataclass(frozen=True, slots=True)
class Answer:
    """Some records of a shard, the iterator that goes on behind them, which is None at the end of
    the shard, and how much older the last one is than the newest.
    """

    records: tuple[Record, ...]
    iterator: str | None
    behind_ms: int


class Stream(Protocol):
    """What is asked of a stream. Used by several threads."""

    def state(self) -> StreamState: ...
    def shards(self) -> list[Shard]: ...
    def iterator(self, shard: str, place: Place) -> str: ...
    def records(self, shard: str, iterator: str, limit: int = RECORDS_AT_ONCE) -> Answer: ...
    def close(self) -> None: ...


class KinesisStream:
    """Implements `Stream`. Methods raise `NotThere`, `IteratorExpired` and `TransientFault`."""

    def __init__(self, access: AwsAccess, stream: str) -> None:
        """`stream` is a name, or an ARN. It is not asked for yet. Raises what `AwsAccess` does."""
        self._access = access
        self._stream = stream
        self._name = {"StreamARN" if stream.startswith("arn:") else "StreamName": stream}
        self._client: Any = access.open("kinesis")

    def state(self) -> StreamState:
        with self._asking(f'describe stream "{self._stream}"'):
            answer = self._client.describe_stream_summary(**self._name)
        found = answer["StreamDescriptionSummary"]
        now = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
        status = found["StreamStatus"]
        if status == "DELETING":
            raise NotThere
        return StreamState(
            _millis(found["StreamCreationTimestamp"]),
            found["RetentionPeriodHours"] * _HOUR_MS,
            status != "CREATING",
            _millis(now),
        )

    def shards(self) -> list[Shard]:
        found: list[Shard] = []
        asked: dict[str, Any] = dict(self._name)
        while asked:
            with self._asking(f'list the shards of stream "{self._stream}"'):
                answer = self._client.list_shards(**asked)
            found += [_shard(each) for each in answer["Shards"]]
            token = answer.get("NextToken")
            asked = {"NextToken": token} if token else {}
        return found

    def iterator(self, shard: str, place: Place) -> str:
        asked: dict[str, Any] = {"ShardIteratorType": "TRIM_HORIZON"}
        if place.number is not None:
            asked = {
                "ShardIteratorType": "AT_SEQUENCE_NUMBER",
                "StartingSequenceNumber": str(place.number),
            }
        elif place.from_ms is not None:
            moment = datetime.datetime.fromtimestamp(place.from_ms / 1000, datetime.UTC)
            asked = {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": moment}
        with self._asking(f'read shard {shard} of stream "{self._stream}"'):
            answer = self._client.get_shard_iterator(**self._name, ShardId=shard, **asked)
        return str(answer["ShardIterator"])

    def records(self, shard: str, iterator: str, limit: int = RECORDS_AT_ONCE) -> Answer:
        named = {k: v for k, v in self._name.items() if k == "StreamARN"}
        with self._asking(f'read shard {shard} of stream "{self._stream}"'):
            found = self._client.get_records(ShardIterator=iterator, Limit=limit, **named)
        records = tuple(_record(each) for each in found["Records"])
        return Answer(records, found.get("NextShardIterator"), found.get("MillisBehindLatest", 0))

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        try:
            with as_faults(self._access.name, what):
                yield
        except TransientFault as fault:
            cause = fault.__cause__
            code = code_of(cause) if isinstance(cause, Exception) else ""
            if code == "ResourceNotFoundException":
                raise NotThere from fault
            if code == "ExpiredIteratorException":
                raise IteratorExpired from fault
            raise


def _shard(found: dict[str, Any]) -> Shard:
    named = (found.get("ParentShardId"), found.get("AdjacentParentShardId"))
    hashes = found["HashKeyRange"]
    return Shard(
        found["ShardId"],
        tuple(parent for parent in named if parent),
        int(hashes["StartingHashKey"]),
        int(hashes["EndingHashKey"]),
    )


def _record(found: dict[str, Any]) -> Record:
    return Record(
        int(found["SequenceNumber"]),
        found["PartitionKey"],
        found["Data"],
        _millis(found["ApproximateArrivalTimestamp"]),
    )


def _millis(moment: datetime.datetime) -> int:
    return round(moment.timestamp() * 1000)
