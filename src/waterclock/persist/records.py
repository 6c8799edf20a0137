"""What the log says: the events that, folded in order, are the durable state, and their bytes.

An entry of the log is one atomic step: a version byte, a checksum, then the events of the step in
MessagePack. Events record outcomes ("this capability is now at 7"), not requests, so that replaying
them needs no validation and no clock. A new field is added at the end of a record with a default;
any other change raises `FORMAT`.

Small updates travel in the entry itself, in blocks that several events may share. The blocks come
first, each once, and the events name them by their place.

Frontiers of a shard are over milliseconds, a total order, so a record holds one as a number, or as
None when it is the empty frontier.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from waterclock.persist.errors import Damaged, FormatTooNew

T = TypeVar("T")

_SEAL = struct.Struct("<BI")
"""Header of a record: format version, and checksum of the rest."""

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


Page = tuple[Any, int]
"""A record batch that holds a block's updates, and the row at which they begin."""


class Block:
    """Some updates of one schema as one Arrow message. Parts of many batches may share it.

    No dataclass, because those have an encoding of their own; see `_encoded`.
    """

    __slots__ = ("data", "page", "rows")

    def __init__(self, rows: int, data: bytes) -> None:
        self.rows = rows
        self.data = data
        self.page: Page | None = None
        """The updates, once somebody has decoded them: they are read about once for each part."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Block) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data)


class Part(Record, frozen=True, array_like=True, gc=False):
    """Where some of a batch's updates are: under a blob key as Parquet, or inline, as the rows of a
    block from `first` on.

    `crc32` is that of all bytes of the object; None for one that an older version wrote.
    """

    rows: int
    size: int
    inline: Block | None = None
    key: str | None = None
    first: int = 0
    crc32: int | None = None


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

    def numbered(self, number: int) -> Batch:
        """The same updates as the batch of that id."""
        return Batch(number, self.min_time, self.max_time, self.signed, self.parts)

    @property
    def rows(self) -> int:
        parts = self.parts
        return parts[0].rows if len(parts) == 1 else sum(part.rows for part in parts)

    @property
    def size(self) -> int:
        parts = self.parts
        return parts[0].size if len(parts) == 1 else sum(part.size for part in parts)

    @property
    def keys(self) -> list[str]:
        """The blobs that the batch refers to."""
        return keys_of((self,))


def keys_of(batches: Iterable[Batch]) -> list[str]:
    """The blobs that the batches refer to."""
    return [part.key for batch in batches for part in batch.parts if part.key is not None]


def rows_of(batches: Iterable[Batch]) -> list[int]:
    """How many rows each batch has; without a call for each of the many that have one part."""
    return [b.parts[0].rows if len(b.parts) == 1 else b.rows for b in batches]


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


_Frame = tuple[tuple[tuple[int, bytes], ...], msgspec.Raw]
"""The blocks of a record, and all the rest of it, which names them by their place."""

_encoder = msgspec.msgpack.Encoder()
_frame_decoder = msgspec.msgpack.Decoder(_Frame)


def encode_entry(events: Sequence[AnyEvent]) -> bytes:
    return _encoded(events)


def decode_entry(data: bytes) -> tuple[AnyEvent, ...]:
    """The events of an entry. Raises `FormatTooNew` or `Damaged`."""
    return _decoded(tuple[AnyEvent, ...], data, "a log entry")


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    return _encoded(checkpoint)


def decode_checkpoint(data: bytes) -> Checkpoint:
    """The state in a checkpoint. Raises `FormatTooNew` or `Damaged`."""
    return _decoded(Checkpoint, data, "a checkpoint")


def _encoded(record: Any) -> bytes:
    blocks: list[tuple[int, bytes]] = []
    places: dict[int, int] = {}

    def place(block: Block) -> int:
        known = places.get(id(block))
        if known is None:
            known = places[id(block)] = len(blocks)
            blocks.append((block.rows, block.data))
        return known

    rest = msgspec.msgpack.Encoder(enc_hook=place).encode(record)
    return seal(_encoder.encode((blocks, msgspec.Raw(rest))))


def seal(payload: bytes) -> bytes:
    """The payload of a record with its version and checksum in front."""
    return _SEAL.pack(FORMAT, zlib.crc32(payload)) + payload


def _decoded(kind: type[T], data: bytes, what: str) -> T:
    payload = _unsealed(data, what)
    try:
        framed, rest = _frame_decoder.decode(payload)
        blocks = [Block(rows, block) for rows, block in framed]
        decoder = msgspec.msgpack.Decoder(kind, dec_hook=lambda _, place: blocks[place])
        return decoder.decode(rest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError) as error:
        raise Damaged(f"{what} can not be read", detail=str(error)) from error


def _unsealed(data: bytes, what: str) -> memoryview:
    if data and data[0] > FORMAT:
        raise FormatTooNew(
            f"the data has format {data[0]}, and this version reads up to {FORMAT}",
            hint="Start the version of Waterclock that wrote this data, or a newer one.",
        )
    payload = memoryview(data)[_SEAL.size :]
    intact = len(data) >= _SEAL.size and _SEAL.unpack_from(data) == (FORMAT, zlib.crc32(payload))
    if not intact:
        raise Damaged(
            f"{what} can not be read",
            detail="Its checksum does not fit: it is not what was written.",
            hint="Restore the data from a backup.",
        )
    return payload
