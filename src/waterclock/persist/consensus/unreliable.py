"""A log that fails as the real ones do, only more often.

Each call on it may fail before or after its effect (see `faults`). The failure of an append is the
interesting one: the entry may be in the log or not, and the writer has to find out by reading. A
failing read may give some entries first. Closing does not fail.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from random import Random

from waterclock.persist.consensus.api import Consensus
from waterclock.persist.faults import Faults


class UnreliableConsensus:
    """`inner` with failures."""

    def __init__(self, inner: Consensus, randomness: int | Random, failure_rate: float) -> None:
        self._inner = inner
        self._faults = Faults(randomness, failure_rate)

    def reliable(self) -> contextlib.AbstractContextManager[None]:
        """No call fails inside the block."""
        return self._faults.reliable()

    def append(self, position: int, entry: bytes) -> None:
        self._faults.call(
            f"append at position {position}", lambda: self._inner.append(position, entry)
        )

    def read(self, start: int) -> Iterator[tuple[int, bytes]]:
        return self._faults.iterate(f"read from position {start}", lambda: self._inner.read(start))

    def end(self) -> int:
        return self._faults.call("read the end of the log", self._inner.end)

    def truncate(self, before: int) -> None:
        self._faults.call(
            f"truncate before position {before}", lambda: self._inner.truncate(before)
        )

    def close(self) -> None:
        self._inner.close()
