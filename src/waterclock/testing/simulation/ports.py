"""Ports that stop answering when their server dies.

The server whose ports these are can not tell its own death from a world that is unavailable. It may
die before or after the effect of a call, and from then on nothing that it does reaches the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa

from waterclock.persist.blob.api import Blob
from waterclock.persist.consensus.api import Consensus
from waterclock.persist.errors import Unavailable

R = TypeVar("R")


class Life:
    """How long a server still has to live, counted in calls on its ports; at first for ever."""

    def __init__(self) -> None:
        self.is_over = False
        self._calls_left: int | None = None
        self._ends_after_effect = False

    def end_within(self, calls: int, *, after_effect: bool) -> None:
        """Die in the call of that number, counted from now."""
        self._calls_left, self._ends_after_effect = calls, after_effect

    def call(self, effect: Callable[[], R]) -> R:
        if not self.is_over and self._calls_left is not None:
            self._calls_left -= 1
            if self._calls_left <= 0:
                self.is_over = True
                if self._ends_after_effect:
                    effect()
        if self.is_over:
            raise Unavailable("the server is dead")
        return effect()


class MortalBlob:
    """`inner`, as long as its server lives."""

    def __init__(self, inner: Blob, life: Life) -> None:
        self._inner, self._life = inner, life

    @property
    def keeps_checksums(self) -> bool:
        return self._inner.keeps_checksums

    def put(self, key: str, data: bytes | pa.Buffer) -> None:
        self._life.call(lambda: self._inner.put(key, data))

    def open(self, key: str) -> pa.NativeFile:
        return self._life.call(lambda: self._inner.open(key))

    def delete(self, key: str) -> None:
        self._life.call(lambda: self._inner.delete(key))

    def list(self, prefix: str) -> Iterator[str]:
        return self._life.call(lambda: self._inner.list(prefix))

    def close(self) -> None:
        pass


class MortalConsensus:
    """`inner`, as long as its server lives."""

    def __init__(self, inner: Consensus, life: Life) -> None:
        self._inner, self._life = inner, life

    def append(self, position: int, entry: bytes) -> None:
        self._life.call(lambda: self._inner.append(position, entry))

    def read(self, start: int) -> Iterator[tuple[int, bytes]]:
        return self._life.call(lambda: self._inner.read(start))

    def end(self) -> int:
        return self._life.call(self._inner.end)

    def truncate(self, before: int) -> None:
        self._life.call(lambda: self._inner.truncate(before))

    def close(self) -> None:
        pass
