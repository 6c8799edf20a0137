"""Whether records may have expired before they were read: plain values, no clock, no I/O.

The service does not say that records have expired; it goes on with the next ones. But it removes
the oldest ones only, and none before the retention period is over. So nothing is lost if either

- the last record that was read is still there, or
- what follows it has not been there for as long as the retention period.

For the second, each shard has an *anchor*: a time before which nothing came that was not read. It
is the arrival of the last record that was read; or, if the service said that there was nothing
behind that, the time at which it was asked. It is noted with each binding, and if the shard was
read to its end then, every later time at which the source was complete is an anchor as well.

Where neither is known, the source fails: it may have lost nothing, but nobody can tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from waterclock.storage.sources.api import Messages

_NOTE = b"waterclock.anchor"
_MARGIN = 24
"""This part of the retention period is left for clocks that differ, and for rounds in which a shard
was not read."""


class Anchor(msgspec.Struct, frozen=True):
    """No record that follows arrived before `at_ms`; with `is_tip` there was none at that time."""

    at_ms: int
    is_tip: bool

    def encoded(self) -> bytes:
        return msgspec.json.encode(self)


def is_safe(anchor_ms: int | None, now_ms: int, retention_ms: int) -> bool:
    """Whether no record behind the anchor can have expired."""
    return anchor_ms is not None and now_ms < anchor_ms + retention_ms - retention_ms // _MARGIN


@dataclass(frozen=True, slots=True)
class Recollection:
    """What is known of anchors after a restart."""

    notes: Mapping[str, Anchor]
    complete_at_ms: int | None = None

    @classmethod
    def of(cls, notes: Mapping[str, bytes], complete_at_ms: int | None) -> Recollection:
        decoded = {shard: msgspec.json.decode(note, type=Anchor) for shard, note in notes.items()}
        return cls(decoded, complete_at_ms)

    def with_note(self, shard: str, anchor: Anchor) -> Recollection:
        """The same with what was learned meanwhile."""
        return Recollection({**self.notes, shard: anchor}, self.complete_at_ms)

    def of_bound(self, shard: str) -> int | None:
        """The anchor of a shard that is in the frontier."""
        note = self.notes.get(shard)
        if note is None:
            return self.complete_at_ms
        return max(note.at_ms, self.complete_at_ms or 0) if note.is_tip else note.at_ms

    def of_parents(self, parents: Sequence[str]) -> int | None:
        """That of a shard of which nothing is known but its parents, which are complete: nothing
        was in it before they were closed.
        """
        return max((self.notes[each].at_ms for each in parents if each in self.notes), default=None)


def with_anchor(anchor: Anchor) -> dict[bytes, bytes]:
    """The anchor behind some records, as metadata of their batch."""
    return {_NOTE: anchor.encoded()}


class Anchors:
    """Implements `sources.api.Grouping`: notes the anchor of each shard. It holds nothing back."""

    def resume(self, notes: Mapping[str, bytes]) -> None:
        pass

    def released(
        self, messages: Sequence[Messages]
    ) -> tuple[Sequence[Messages], Mapping[str, bytes | None]]:
        notes: dict[str, bytes | None] = {}
        given: list[Messages] = []
        for each in messages:
            about = each.batch.schema.metadata or {}
            if _NOTE in about:
                notes[str(each.partition)] = about[_NOTE]
            plain = each.batch.replace_schema_metadata(None)
            given.append(Messages(each.output, each.partition, plain))
        return given, notes
