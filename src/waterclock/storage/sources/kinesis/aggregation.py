"""Records into which the Kinesis Producer Library has packed several: plain functions over bytes.

Such a record begins with four fixed bytes and ends with the MD5 of what is between: a message of
Protocol Buffers that has the partition keys, and the packed records. These are records of their own
for whoever reads; they share the sequence number, so they are seen together.

The library packs records by the shard that it thinks a key goes to. If that was split meanwhile,
a packed record may be in a shard that its key does not belong to. Then the library sends it once
more, to the right one; so it does not count where it does not belong.

What looks like such a record but can not be read as one is an ordinary record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from waterclock.storage.sources.kinesis.shards import Shard

_MAGIC = b"\xf3\x89\x9a\xc2"
_DIGEST_BYTES = 16
_KEYS, _HASHES, _RECORDS = 1, 2, 3
_KEY, _HASH, _DATA = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Packed:
    """One of the records in another one."""

    key: str
    data: bytes
    hash: int | None = None
    """If the producer has chosen the place of the record itself."""


def unpacked(data: bytes, shard: Shard) -> list[Packed] | None:
    """The records in one that belong to the shard; None if it is an ordinary one."""
    if not data.startswith(_MAGIC):
        return None
    body, digest = data[len(_MAGIC) : -_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if hashlib.md5(body, usedforsecurity=False).digest() != digest:
        return None
    try:
        found = list(_packed(body))
    except (ValueError, LookupError):
        return None
    return [each for each in found if shard.takes(_hash_of(each))]


def _hash_of(packed: Packed) -> int:
    if packed.hash is not None:
        return packed.hash
    digest = hashlib.md5(packed.key.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest, "big")


def _packed(body: bytes) -> Iterator[Packed]:
    keys: list[str] = []
    hashes: list[int] = []
    records: list[bytes] = []
    for number, value in _fields(body):
        if isinstance(value, int):
            continue
        if number == _KEYS:
            keys.append(value.decode())
        elif number == _HASHES:
            hashes.append(int(value))
        elif number == _RECORDS:
            records.append(value)
    for each in records:
        parts = dict(_fields(each))
        key, data, chosen = parts[_KEY], parts[_DATA], parts.get(_HASH)
        if not isinstance(key, int) or not isinstance(data, bytes) or isinstance(chosen, bytes):
            raise ValueError("a field has another type")
        yield Packed(keys[key], data, None if chosen is None else hashes[chosen])


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message of Protocol Buffers by their numbers."""
    place = 0
    while place < len(message):
        tag, place = _number(message, place)
        kind = tag & 7
        if kind == 0:
            value, place = _number(message, place)
            yield tag >> 3, value
            continue
        size = {1: 8, 5: 4}.get(kind)
        if kind == 2:
            size, place = _number(message, place)
        if size is None or place + size > len(message):
            raise ValueError("not a message")
        yield tag >> 3, message[place : place + size]
        place += size


def _number(message: bytes, place: int) -> tuple[int, int]:
    """A number of variable length, and the place behind it."""
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")
