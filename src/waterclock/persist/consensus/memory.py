"""The log in memory, for tests and simulations.

The object of this class is the log: it lives as long as the instance does, through any number of
`close`, which is how a simulated restart finds its data again, and all writers share the one
instance.

Nothing here survives the process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from waterclock.persist.consensus.positions import (
    check_position,
    check_truncation,
    refuse,
)


class MemoryConsensus:
    """A `Consensus` that forgets everything when the process ends. Safe for use by many threads."""

    def __init__(self) -> None:
        self._first = 1
        self._entries: list[bytes] = []
        self._lock = threading.Lock()

    def append(self, position: int, entry: bytes) -> None:
        check_position(position)
        with self._lock:
            end = self._first + len(self._entries)
            if position != end:
                refuse(position, end)
            self._entries.append(bytes(entry))

    def read(self, start: int) -> Iterator[tuple[int, bytes]]:
        with self._lock:
            first = max(start, self._first)
            entries = self._entries[first - self._first :]
        return enumerate(entries, first)

    def end(self) -> int:
        with self._lock:
            return self._first + len(self._entries)

    def truncate(self, before: int) -> None:
        with self._lock:
            check_truncation(before, self._first + len(self._entries))
            if before > self._first:
                del self._entries[: before - self._first]
                self._first = before

    def close(self) -> None:
        pass
