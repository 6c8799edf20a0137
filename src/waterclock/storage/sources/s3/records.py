"""What a source remembers of its objects, besides its progress; all of it is noted with its data.

An object is known by the fingerprint of its ETag: in the manifest when it was read to the end, as
*partial* while only a part of it was read. One that is not what it was is *broken*: an error stands
for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from waterclock.storage.sources.s3.bucket import Listed
from waterclock.storage.sources.s3.manifest import Manifest, fingerprint

_PARTIAL, _BROKEN = "partial/", "broken/"


class Broken(msgspec.Struct, frozen=True, array_like=True):
    """Where an error was told of, and its text. With `heals`, all of the object had been read, and
    if it is there again nothing is wrong.
    """

    offset: int
    text: str
    heals: bool


class Records:
    """One source's. One thread at a time."""

    def __init__(self, notes: Mapping[str, bytes] | None = None) -> None:
        """From what was noted."""
        self.manifest = Manifest(notes)
        self._partial = _with_prefix(notes or {}, _PARTIAL)
        self._broken = {
            key: msgspec.msgpack.decode(data, type=Broken)
            for key, data in _with_prefix(notes or {}, _BROKEN).items()
        }
        self._notes: dict[str, bytes | None] = {}

    @property
    def partial(self) -> Mapping[str, bytes]:
        """The fingerprints of objects of which a part was read."""
        return self._partial

    @property
    def broken(self) -> Mapping[str, Broken]:
        return self._broken

    @property
    def healing(self) -> dict[str, bool]:
        """The broken objects, and whether they can be again what they were."""
        return {key: broken.heals for key, broken in self._broken.items()}

    def add_read(self, read: Iterable[tuple[Listed, int]]) -> None:
        """These objects were read up to these places. Of a broken one, nothing more is read."""
        complete: dict[str, bytes] = {}
        for listed, end in read:
            version = fingerprint(listed.etag)
            if end == listed.size or listed.key in self._broken:
                complete[listed.key] = self._forget_partial(listed.key) or version
            elif listed.key not in self._partial:
                self._partial[listed.key] = version
                self._notes[_PARTIAL + listed.key] = version
        self.manifest.add(complete)

    def add_lost(self, listed: Listed, broken: Broken) -> None:
        """An object can not be read any further, and is not looked at again."""
        version = self._forget_partial(listed.key) or fingerprint(listed.etag)
        self.manifest.add({listed.key: version})
        self.add_broken(listed.key, broken)

    def add_broken(self, key: str, broken: Broken) -> None:
        self._broken[key] = broken
        self._notes[_BROKEN + key] = msgspec.msgpack.encode(broken)

    def heal(self, key: str) -> Broken:
        """The object is what it was; the error that stood for it."""
        self._notes[_BROKEN + key] = None
        return self._broken.pop(key)

    def changes(self) -> dict[str, bytes | None]:
        """What is to be noted since this was asked last; None for what may be forgotten."""
        notes, self._notes = self._notes, {}
        return notes | self.manifest.changes()

    def _forget_partial(self, key: str) -> bytes | None:
        version = self._partial.pop(key, None)
        if version is not None:
            self._notes[_PARTIAL + key] = None
        return version


def _with_prefix(notes: Mapping[str, bytes], prefix: str) -> dict[str, bytes]:
    return {k.removeprefix(prefix): v for k, v in notes.items() if k.startswith(prefix)}
