"""How much of a backlog is bound at once.

A binding is read whole before any of it counts, so it must fit into memory. How large messages are
is not known before they are read; what was read last is taken as a measure of what comes. Offsets
are counted, not records: where compaction has left few records, bindings span more offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.storage.reclock.progress import SourceFrontier

_FIRST = 20_000
_LEAST = 1_000
_MOST = 1_000_000
_BYTES = 192 << 20
_BYTES_OF_A_ROW = 64
"""Overhead of a message in memory, in bytes."""


@dataclass(slots=True)
class Pace:
    """How many offsets the next binding may span."""

    at_once: int = _FIRST
    most_bytes: int = _BYTES

    def learn(self, offsets: int, rows: int, size: int) -> None:
        """So many offsets had so many rows, of so many bytes."""
        if offsets >= _LEAST or size >= self.most_bytes // 4:
            each = max(1e-9, (size + rows * _BYTES_OF_A_ROW) / max(1, offsets))
            self.at_once = int(min(_MOST, max(_LEAST, self.most_bytes / each)))

    def shared(self, count: int) -> Pace:
        """That of each of so many topics that are read for one binding."""
        return Pace(max(1, self.at_once // count), max(1, self.most_bytes // count))


def limited(bound: SourceFrontier, known: SourceFrontier, at_once: int) -> SourceFrontier:
    """A frontier between the two that is at most so many offsets further than the first.

    No partition waits for another: each gets the same share, and what one does not need goes to the
    others. A partition that has gone back stays so, for others to notice.
    """
    behind = {p: end - bound.uppers.get(p, 0) for p, end in known.uppers.items()}
    left, uppers = at_once, dict(known.uppers)
    waiting = sorted((p for p in behind if behind[p] > 0), key=lambda p: behind[p])
    for place, partition in enumerate(waiting):
        share = min(behind[partition], max(1, left // (len(waiting) - place)))
        uppers[partition] = bound.uppers.get(partition, 0) + share
        left = max(0, left - share)
    return SourceFrontier(uppers, known.more_may_appear)
