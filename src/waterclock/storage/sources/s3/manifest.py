"""Which objects have been read: their keys, each with a fingerprint of its ETag.

A source must know every object that it has read, to read none twice and to see which were replaced
or deleted. With millions of objects that has to be small. Keys are kept in their order, in segments
of some hundreds, each of which is compressed: some twenty bytes for an object. A listing comes in
the same order, so it is compared segment by segment, and only few are unpacked at a time.

Each segment is a note of the source (`notes`, `changes`), under the first key that it may have. An
object that is added changes one note.
"""

from __future__ import annotations

import hashlib
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping

import msgspec

PREFIX = "objects/"
_MANY = 512
"""A segment with more objects is split."""


def fingerprint(etag: str) -> bytes:
    """What is remembered of an ETag."""
    return hashlib.blake2b(etag.encode(), digest_size=8).digest()


class Manifest:
    """Keys and fingerprints. One thread at a time."""

    def __init__(self, notes: Mapping[str, bytes] | None = None) -> None:
        """From what was noted; other notes are passed over."""
        kept = {
            name.removeprefix(PREFIX): blob
            for name, blob in (notes or {}).items()
            if name.startswith(PREFIX)
        }
        self._firsts: list[str] = sorted(kept)
        self._blobs: list[bytes] = [kept[first] for first in self._firsts]
        self._changed: dict[str, bytes | None] = {}

    @property
    def nbytes(self) -> int:
        """The memory that it takes, without that of Python for each segment."""
        return sum(map(len, self._blobs)) + sum(map(len, self._firsts))

    def find(self, keys: Iterable[str]) -> dict[str, bytes]:
        """The fingerprints of those keys that are known."""
        by_segment: dict[int, list[str]] = {}
        for key in keys:
            by_segment.setdefault(self._segment_of(key), []).append(key)
        found: dict[str, bytes] = {}
        for number, wanted in by_segment.items():
            held = self._unpacked(number)
            found |= {key: held[key] for key in wanted if key in held}
        return found

    def between(self, after: str | None, to: str | None) -> dict[str, bytes]:
        """All objects with keys behind one and up to another, both of which may be left out."""
        first = 0 if after is None else self._segment_of(after)
        last = len(self._blobs) - 1 if to is None else self._segment_of(to)
        found: dict[str, bytes] = {}
        for number in range(first, last + 1):
            found |= {
                key: version
                for key, version in self._unpacked(number).items()
                if (after is None or key > after) and (to is None or key <= to)
            }
        return found

    def add(self, entries: Mapping[str, bytes]) -> None:
        """Objects that are new, or known with another fingerprint."""
        by_segment: dict[int, dict[str, bytes]] = {}
        for key, version in entries.items():
            by_segment.setdefault(self._segment_of(key), {})[key] = version
        for number in sorted(by_segment, reverse=True):  # so that the numbers stay right
            self._replace(number, self._unpacked(number) | by_segment[number])

    def remove(self, keys: Iterable[str]) -> None:
        """Forget objects, as if they had never been there."""
        by_segment: dict[int, set[str]] = {}
        for key in keys:
            by_segment.setdefault(self._segment_of(key), set()).add(key)
        for number in sorted(by_segment, reverse=True):
            gone = by_segment[number]
            left = {k: v for k, v in self._unpacked(number).items() if k not in gone}
            self._replace(number, left)

    def changes(self) -> dict[str, bytes | None]:
        """What is to be noted since this was asked last; None for what may be forgotten."""
        changed, self._changed = self._changed, {}
        return changed

    def _segment_of(self, key: str) -> int:
        return max(0, bisect_right(self._firsts, key) - 1)

    def _unpacked(self, number: int) -> dict[str, bytes]:
        if number >= len(self._blobs):
            return {}
        return msgspec.msgpack.decode(zlib.decompress(self._blobs[number]), type=dict[str, bytes])

    def _replace(self, number: int, entries: Mapping[str, bytes]) -> None:
        keys = sorted(entries)
        size = _MANY if len(keys) <= _MANY else _MANY // 2
        parts = [keys[i : i + size] for i in range(0, len(keys), size)]
        known = self._firsts[number : number + 1]
        firsts = [known[0] if known else ""] if parts else []
        firsts += [part[0] for part in parts[1:]]
        blobs = [
            zlib.compress(msgspec.msgpack.encode({key: entries[key] for key in part}))
            for part in parts
        ]
        if not keys:
            self._changed |= {PREFIX + first: None for first in known}
        self._firsts[number : number + 1] = firsts
        self._blobs[number : number + 1] = blobs
        for first, blob in zip(firsts, blobs, strict=True):
            self._changed[PREFIX + first] = blob
