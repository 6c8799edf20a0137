"""The port for decisions: a log whose writers name the position they expect to write.

The log is the database. All durable state is the fold of its entries, so one append can change many
shards and is atomic by being one entry, and costs one sync to disk however much it changes. Two
writers can not interleave unnoticed: of two appends at one position exactly one succeeds, and the
other learns it.

It does not know what the entries mean, who may write, or when old entries are no longer needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class Consensus(Protocol):
    """Linearizable. Every method may raise `Unavailable`, which leaves the outcome of an append
    unknown, unless it is a `NotWritten`.
    """

    def append(self, position: int, entry: bytes) -> None:
        """Make `entry` durable at `position`, which must be `end()`.

        Raises `PositionTaken`, and changes nothing, if the log has or ever had an entry there. A
        position beyond `end()` is a broken invariant of the caller (`AssertionError`). After
        `NotWritten` the position is free, for as long as this handle is the log's owner.
        """
        ...

    def read(self, start: int) -> Iterator[tuple[int, bytes]]:
        """The retained entries at `start` and later, in order, without gaps, fetched page by page.

        Everything appended before the call is included.
        """
        ...

    def end(self) -> int:
        """The next free position: 1 for a log never written to."""
        ...

    def truncate(self, before: int) -> None:
        """Forget the entries below `before`, which must be below `end()`: the newest entry always
        stays. Idempotent.
        """
        ...

    def close(self) -> None:
        """Release what this handle holds. Idempotent."""
        ...
