"""The port for immutable objects.

An object is written whole, once, under a key nobody else uses, and becomes visible whole or not at
all. Nothing is ever changed in place, so a reader that knows a key needs no lock. What refers to a
key lives elsewhere (`consensus`); an object nobody refers to is garbage and someone sweeps it.

Keys are relative paths of `/`-separated parts made of letters, digits, `.`, `_` and `-`; no part is
`.` or `..`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa


class Blob(Protocol):
    """Every method may raise `Unavailable`; all of them are idempotent, so a caller may simply
    retry.
    """

    @property
    def keeps_checksums(self) -> bool:
        """Whether the store itself sees to it that what is read is what was written."""
        ...

    def put(self, key: str, data: bytes | pa.Buffer) -> None:
        """Store `data` under `key`: durable and visible as a whole once this returns.

        A crash inside leaves nothing or everything under the key. Putting the same key again
        replaces the object as a whole, which is meant for retries of the same bytes only.
        """
        ...

    def open(self, key: str) -> pa.NativeFile:
        """A random-access reader of the object, which the caller closes; `BlobMissing` if there is
        none.
        """
        ...

    def delete(self, key: str) -> None:
        """Remove the object; removing an absent one is nothing."""
        ...

    def list(self, prefix: str) -> Iterator[str]:
        """The keys that start with `prefix` (plain string prefix), in ascending order."""
        ...

    def close(self) -> None:
        """Release what this handle holds. Idempotent."""
        ...
