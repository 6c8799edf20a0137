"""What the log says: the events that, folded in order, are the durable state, and their bytes.

An entry of the log is one atomic step: a version byte, a checksum, then the events of the step in
MessagePack. Events record outcomes ("this capability is now at 7"), not requests, so that replaying
them needs no validation and no clock. A new field is added at the end of a record with a default;
any other change raises `FORMAT`.

Frontiers of a shard are over milliseconds, a total order, so a record holds one as a number, or as
None when it is the empty frontier.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from waterclock.persist.errors import Damaged, FormatTooNew

T = TypeVar("T")

_SEAL = struct.Struct("<BI")
"""What every record begins with: the format's version, and the checksum of the rest."""

FORMAT = 1

Bound = int | None
"""A frontier over milliseconds in a record: its one element, or None for the empty frontier."""


class Right(StrEnum):
    """What a capability allows."""

    READ = "r"
    WRITE = "w"


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of the plain records: compact, immutable, and equal by value.

    They never form cycles, and there are many of them: the garbage collector need not look.
    """


class Capability(Record, frozen=True, array_like=True, gc=False):
    """A right over a shard from a frontier on. `lease_ms` None means that it never expires."""

    id: str
    right: Right
    frontier: Bound
    lease_ms: int | None


class Part(Record, frozen=True, array_like=True, gc=False):
    """Where some of a batch's updates are: inline as one Arrow record batch, or under a blob key as
    Parquet.
    """

    rows: int
    size: int
    inline: bytes | None = None
    key: str | None = None


class Batch(Record, frozen=True, array_like=True, gc=False):
    """An immutable set of updates with what a reader must know before opening it.

    `signed` tells that some diff is not positive; without it, no update of the batch is nothing or
    can cancel another.
    """

    id: int
    min_time: int
    max_time: int
    signed: bool
    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def keys(self) -> tuple[str, ...]:
        """The blobs that the batch refers to."""
        return tuple(part.key for part in self.parts if part.key is not None)


class ShardRecord(Record, frozen=True, array_like=True, gc=False):
    """All of a shard's state, as a checkpoint keeps it."""

    id: str
    timeline: str
    schema: Any
    description: Any
    since: Bound
    upper: Bound
    capabilities: tuple[Capability, ...]
    batches: tuple[Batch, ...]


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=True):
    """Base of what can happen."""


class Opened(Event, frozen=True, array_like=True, gc=False, tag="open"):
    """A server became the owner of the log; every earlier owner is fenced off by this entry's
    position.
    """

    epoch: int
    owner: str


class Created(Event, frozen=True, array_like=True, gc=False, tag="create"):
    shard: str
    timeline: str
    schema: Any
    description: Any
    frontier: int


class Granted(Event, frozen=True, array_like=True, gc=False, tag="grant"):
    shard: str
    capability: Capability


class Downgraded(Event, frozen=True, array_like=True, gc=False, tag="down"):
    """A capability moved forward; to the empty frontier, it is gone."""

    shard: str
    capability: str
    frontier: Bound


class Expired(Event, frozen=True, array_like=True, gc=False, tag="expire"):
    shard: str
    capability: str


class Appended(Event, frozen=True, array_like=True, gc=False, tag="append"):
    shard: str
    capability: str
    frontier: Bound
    batch: Batch | None


class Replaced(Event, frozen=True, array_like=True, gc=False, tag="replace"):
    """Compaction put `batch` in the place of others; their blobs became garbage."""

    shard: str
    removed: tuple[int, ...]
    batch: Batch | None


class Swept(Event, frozen=True, array_like=True, gc=False, tag="sweep"):
    """These garbage blobs no longer exist."""

    keys: tuple[str, ...]


class Noted(Event, frozen=True, array_like=True, gc=False, tag="note"):
    """A layer above keeps this under a key of its own; None: it keeps it no longer."""

    key: str
    note: bytes | None


class Checkpointed(Event, frozen=True, array_like=True, gc=False, tag="checkpoint"):
    """The state after the entry at `position` is kept whole under the blob key."""

    position: int
    key: str


AnyEvent = (
    Opened
    | Created
    | Granted
    | Downgraded
    | Expired
    | Appended
    | Replaced
    | Swept
    | Noted
    | Checkpointed
)


class Checkpoint(Record, frozen=True, array_like=True, gc=False):
    """The whole state after the entry at `position`."""

    position: int
    epoch: int
    next_batch: int
    shards: tuple[ShardRecord, ...]
    garbage: tuple[str, ...]
    checkpoint: str | None
    notes: dict[str, bytes] = {}


_encoder = msgspec.msgpack.Encoder()
_entry_decoder = msgspec.msgpack.Decoder(tuple[AnyEvent, ...])
_checkpoint_decoder = msgspec.msgpack.Decoder(Checkpoint)


def encode_entry(events: Sequence[AnyEvent]) -> bytes:
    return seal(_encoder.encode(events))


def decode_entry(data: bytes) -> tuple[AnyEvent, ...]:
    """The events of an entry. Raises `FormatTooNew` or `Damaged`."""
    return _decoded(_entry_decoder, data, "a log entry")


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    return seal(_encoder.encode(checkpoint))


def decode_checkpoint(data: bytes) -> Checkpoint:
    """The state in a checkpoint. Raises `FormatTooNew` or `Damaged`."""
    return _decoded(_checkpoint_decoder, data, "a checkpoint")


def seal(payload: bytes) -> bytes:
    """The payload of a record with its version and checksum in front."""
    return _SEAL.pack(FORMAT, zlib.crc32(payload)) + payload


def _decoded(decoder: msgspec.msgpack.Decoder[T], data: bytes, what: str) -> T:
    if data and data[0] > FORMAT:
        raise FormatTooNew(
            f"the data has format {data[0]}, and this version reads up to {FORMAT}",
            hint="Start the version of Waterclock that wrote this data, or a newer one.",
        )
    payload = memoryview(data)[_SEAL.size :]
    if len(data) < _SEAL.size or _SEAL.unpack_from(data)[1] != zlib.crc32(payload):
        raise Damaged(
            f"{what} can not be read",
            detail="Its checksum does not fit: it is not what was written.",
            hint="Restore the data from a backup.",
        )
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(f"{what} can not be read", detail=str(error)) from error
