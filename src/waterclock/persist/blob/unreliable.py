"""A store of objects that fails as the real ones do, only more often.

Each call on it may fail before or after its effect (see `faults`). What it holds is what the store
inside holds: failures lose answers, never objects. Closing does not fail.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from random import Random

import pyarrow as pa

from waterclock.persist.blob.api import Blob
from waterclock.persist.faults import Faults


class UnreliableBlob:
    """`inner` with failures. The reader that `open` gives does not fail by itself."""

    def __init__(self, inner: Blob, randomness: int | Random, failure_rate: float) -> None:
        self._inner = inner
        self._faults = Faults(randomness, failure_rate)

    def reliable(self) -> contextlib.AbstractContextManager[None]:
        """No call fails inside the block."""
        return self._faults.reliable()

    @property
    def keeps_checksums(self) -> bool:
        return self._inner.keeps_checksums

    def put(self, key: str, data: bytes | pa.Buffer) -> None:
        self._faults.call(f'write object "{key}"', lambda: self._inner.put(key, data))

    def open(self, key: str) -> pa.NativeFile:
        return self._faults.call(
            f'open object "{key}"', lambda: self._inner.open(key), undo=lambda file: file.close()
        )

    def delete(self, key: str) -> None:
        self._faults.call(f'delete object "{key}"', lambda: self._inner.delete(key))

    def list(self, prefix: str) -> Iterator[str]:
        return self._faults.iterate(f'list objects "{prefix}"', lambda: self._inner.list(prefix))

    def close(self) -> None:
        self._inner.close()
