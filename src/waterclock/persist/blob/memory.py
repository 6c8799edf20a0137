"""Objects in memory, for tests and simulations.

The object of this class is the store: it lives as long as the instance does, through any number of
`close`, which is how a simulated restart finds its data again. What is put is copied, so nobody can
change it afterwards, and a reader keeps the bytes it opened whatever happens to the key.

Nothing here survives the process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa

from waterclock.persist.blob.keys import check_key
from waterclock.persist.errors import BlobMissing


class MemoryBlob:
    """A `Blob` that forgets everything when the process ends. Safe for use by many threads."""

    def __init__(self) -> None:
        self._objects: dict[str, pa.Buffer] = {}
        self._lock = threading.Lock()

    @property
    def keeps_checksums(self) -> bool:
        return False

    def put(self, key: str, data: bytes | pa.Buffer) -> None:
        check_key(key)
        copy = pa.py_buffer(data if isinstance(data, bytes) else data.to_pybytes())
        with self._lock:
            self._objects[key] = copy

    def open(self, key: str) -> pa.NativeFile:
        check_key(key)
        with self._lock:
            data = self._objects.get(key)
        if data is None:
            raise BlobMissing(f'object "{key}" does not exist')
        return pa.BufferReader(data)

    def delete(self, key: str) -> None:
        check_key(key)
        with self._lock:
            self._objects.pop(key, None)

    def list(self, prefix: str) -> Iterator[str]:
        with self._lock:
            keys = [key for key in self._objects if key.startswith(prefix)]
        return iter(sorted(keys))

    def close(self) -> None:
        pass
