"""The durable state, as the fold of the log's events. No I/O, no clock, no validation.

Two frontiers of a shard follow from its capabilities and nothing else moves them:

- `since` is the meet of the live read capabilities, `upper` that of the live write capabilities.
  Neither moves back.
- Dropping the last one releases the frontier for good: it becomes empty.
- Expiry only releases a hold. If nobody else holds the frontier it stays where it is, so that the
  holder can come
  back; it does not close a collection because a client was slow.

Updates at or beyond `upper` may be in the shard (another writer holds the upper back); readers
never see them. A shard whose frontiers are both empty stays as a small record, which is why its id
is never free again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self, assert_never

import msgspec
import pyarrow as pa

from waterclock.model.schema import Schema
from waterclock.persist.records import (
    AnyEvent,
    Appended,
    Batch,
    Bound,
    Capability,
    Checkpoint,
    Checkpointed,
    Created,
    Downgraded,
    Expired,
    Granted,
    Noted,
    Opened,
    Replaced,
    Right,
    ShardRecord,
    Swept,
    keys_of,
)
from waterclock.persist.rows import update_schema
from waterclock.persist.schema_codec import decode_schema, encode_schema

_READ = Right.READ
"""Looked up once: to find a member in its enumeration takes longer than to move a frontier."""


@dataclass(slots=True)
class Shard:
    """One durable partial time-varying collection over milliseconds."""

    id: str
    timeline: str
    schema: Schema
    description: Any
    since: Bound
    upper: Bound
    capabilities: dict[str, Capability] = field(default_factory=dict)
    batches: dict[int, Batch] = field(default_factory=dict)
    columns: pa.Schema = field(init=False)
    """The Arrow schema of the shard's updates."""

    def __post_init__(self) -> None:
        self.columns = update_schema(self.schema)

    def record(self) -> ShardRecord:
        """An immutable copy."""
        return ShardRecord(
            self.id,
            self.timeline,
            encode_schema(self.schema),
            self.description,
            self.since,
            self.upper,
            tuple(self.capabilities.values()),
            tuple(self.batches.values()),
        )

    @classmethod
    def from_record(cls, record: ShardRecord) -> Shard:
        return cls(
            record.id,
            record.timeline,
            decode_schema(record.schema),
            record.description,
            record.since,
            record.upper,
            {capability.id: capability for capability in record.capabilities},
            {batch.id: batch for batch in record.batches},
        )


@dataclass(slots=True)
class State:
    """Everything the log says, up to some position."""

    position: int = 0
    epoch: int = 0
    next_batch: int = 1
    shards: dict[str, Shard] = field(default_factory=dict)
    shard_of: dict[str, str] = field(default_factory=dict)
    """Capability id -> shard id, for all live capabilities."""
    garbage: set[str] = field(default_factory=set)
    checkpoint: str | None = None
    notes: dict[str, bytes] = field(default_factory=dict)
    """What the layers above keep here, by key; it means nothing to this one."""
    tail_bytes: int = field(default=0, compare=False)
    """How much of the log had to be read beyond the checkpoint to recover this state."""

    def apply_entry(self, events: Iterable[AnyEvent]) -> None:
        """Advance by one entry of the log."""
        for event in events:
            self.apply(event)
        self.position += 1

    def follow(self, outlook: Outlook, events: Iterable[AnyEvent]) -> None:
        """Advance by one entry of the log, which is the last that `outlook` was advanced by.

        Most of what happens are appends. Where one has left its capability, and the frontier that
        follows from it, is taken from there instead of being worked out again.
        """
        for event in events:
            if isinstance(event, Appended):
                self._follow(outlook.shards[event.shard], event)
            else:
                self.apply(event)
        self.position += 1

    def _follow(self, outlook: Shard, event: Appended) -> None:
        shard = self.shards[event.shard]
        if event.batch is not None:
            self._add(shard, event.batch)
        moved = outlook.capabilities.get(event.capability)
        if moved is None:  # the same entry drops it
            self._move(shard, event.capability, event.frontier)
        else:
            shard.capabilities[event.capability] = moved
            shard.upper = outlook.upper

    def apply(self, event: AnyEvent) -> None:
        """Advance by one event of the entry after `position`."""
        match event:
            case Appended():  # most of what happens, so it is not taken apart by patterns
                appended = self.shards[event.shard]
                if event.batch is not None:
                    self._add(appended, event.batch)
                self._move(appended, event.capability, event.frontier)
            case Downgraded(shard, capability, frontier):
                self._move(self.shards[shard], capability, frontier)
            case Granted(shard, granted):
                self.shards[shard].capabilities[granted.id] = granted
                self.shard_of[granted.id] = shard
            case Expired(shard, capability):
                self._expire(self.shards[shard], capability)
            case Created(shard, timeline, schema, description, frontier):
                self.shards[shard] = Shard(
                    shard, timeline, decode_schema(schema), description, frontier, frontier
                )
            case Replaced(shard, removed, batch):
                self._replace(self.shards[shard], removed, batch)
            case Swept(keys):
                self.garbage.difference_update(keys)
            case Noted(key, note):
                if note is None:
                    self.notes.pop(key, None)
                else:
                    self.notes[key] = note
            case Checkpointed(_, key):
                if self.checkpoint is not None:
                    self.garbage.add(self.checkpoint)
                self.checkpoint = key
            case Opened(epoch, _):
                self.epoch = epoch
            case _:
                assert_never(event)

    def _add(self, shard: Shard, batch: Batch) -> None:
        number = batch.id
        shard.batches[number] = batch
        if number >= self.next_batch:
            self.next_batch = number + 1

    def _move(self, shard: Shard, capability: str, frontier: Bound) -> None:
        moved = shard.capabilities[capability]
        if frontier is None:
            del shard.capabilities[capability]
            del self.shard_of[capability]
        else:
            shard.capabilities[capability] = Capability(
                capability, moved.right, frontier, moved.lease_ms
            )
        _settle(shard, moved.right)

    def _expire(self, shard: Shard, capability: str) -> None:
        expired = shard.capabilities.pop(capability)
        del self.shard_of[capability]
        if any(other.right is expired.right for other in shard.capabilities.values()):
            _settle(shard, expired.right)

    def _replace(self, shard: Shard, removed: tuple[int, ...], batch: Batch | None) -> None:
        for number in removed:
            for part in shard.batches.pop(number).parts:
                if part.key is not None:
                    self.garbage.add(part.key)
        if batch is not None:
            self._add(shard, batch)

    def to_checkpoint(self) -> Checkpoint:
        """An immutable copy of the whole state."""
        return Checkpoint(
            self.position,
            self.epoch,
            self.next_batch,
            tuple(shard.record() for shard in self.shards.values()),
            tuple(sorted(self.garbage)),
            self.checkpoint,
            dict(self.notes),
        )

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        shards = {record.id: Shard.from_record(record) for record in checkpoint.shards}
        return cls(
            checkpoint.position,
            checkpoint.epoch,
            checkpoint.next_batch,
            shards,
            {c: shard.id for shard in shards.values() for c in shard.capabilities},
            set(checkpoint.garbage),
            checkpoint.checkpoint,
            dict(checkpoint.notes),
        )

    def referenced(self) -> set[str]:
        """Every blob the state needs, and the garbage it has not yet swept."""
        keys = {key for s in self.shards.values() for key in keys_of(s.batches.values())}
        return keys | self.garbage | ({self.checkpoint} if self.checkpoint else set())


@dataclass(slots=True)
class Outlook(State):
    """The state that plans see: as it will be when what was planned is durable.

    It does without the batches, which no plan asks for and which are most of the state.
    """

    @classmethod
    def on(cls, state: State) -> Outlook:
        """That of a state for which nothing is planned yet."""
        checkpoint = state.to_checkpoint()
        bare = tuple(msgspec.structs.replace(shard, batches=()) for shard in checkpoint.shards)
        return cls.from_checkpoint(msgspec.structs.replace(checkpoint, shards=bare))

    def _add(self, _shard: Shard, batch: Batch) -> None:
        if batch.id >= self.next_batch:
            self.next_batch = batch.id + 1

    def _replace(self, shard: Shard, _removed: tuple[int, ...], batch: Batch | None) -> None:
        if batch is not None:
            self._add(shard, batch)


def _settle(shard: Shard, right: Right) -> None:
    """Let the frontier that `right` holds follow its live capabilities."""
    held: Bound = None
    for capability in shard.capabilities.values():
        frontier = capability.frontier
        if capability.right is right and frontier is not None and (held is None or frontier < held):
            held = frontier
    if right is _READ:
        shard.since = later(shard.since, held)
    else:
        shard.upper = later(shard.upper, held)


def later(a: Bound, b: Bound) -> Bound:
    """The join of two frontiers."""
    if a is None or b is None:
        return None
    return a if a > b else b


def at_or_after(bound: Bound, time: int) -> bool:
    """Whether `time` is at or after the frontier."""
    return bound is not None and bound <= time
