"""Whether an object has the bytes that were written: compared once by each process that reads it.

Objects never change, so one comparison tells about damage that came before it. It reads the whole
object, in pieces, at the speed of the disk; after that the object is known. What is remembered is
bounded, and what is forgotten is compared again.

A store that keeps checksums of its own, as S3 does, is trusted with that: to read each object twice
over the network would cost as much as all else of a read.
"""

from __future__ import annotations

import threading
import zlib

import pyarrow as pa

from waterclock.persist.blob.api import Blob
from waterclock.persist.errors import Damaged

_MOST_KNOWN = 100_000
_READ_BYTES = 1 << 22

_Name = tuple[str, int | None]
_known: dict[_Name, None] = {}
"""The objects that were found intact, by key and checksum. Keys are never used again."""
_lock = threading.Lock()


def require_intact(blob: Blob, key: str, file: pa.NativeFile, size: int, crc32: int | None) -> None:
    """Raise `Damaged` if the open object has not that size and checksum.

    The file is left at its beginning.
    """
    name = key, crc32
    if blob.keeps_checksums or name in _known:
        return
    compare(key, file, size, crc32)
    with _lock:
        _known[name] = None
        while len(_known) > _MOST_KNOWN:
            del _known[next(iter(_known))]


def compare(key: str, file: pa.NativeFile, size: int, crc32: int | None) -> None:
    """The same, without remembering it."""
    if file.size() != size:
        raise _damaged(key, f"It has {file.size()} bytes instead of {size}.")
    if crc32 is None:
        return
    found = 0
    while piece := file.read(_READ_BYTES):
        found = zlib.crc32(piece, found)
    file.seek(0)
    if found != crc32:
        raise _damaged(key, "Its checksum does not fit: it is not what was written.")


def _damaged(key: str, reason: str) -> Damaged:
    return Damaged(
        f'object "{key}" can not be read', detail=reason, hint="Restore the data from a backup."
    )
