"""A file that grows must still begin as it did: what is appended is read only then.

With every piece of a file comes a digest of some bytes before it, and of the last bytes in it. The
last one is noted when the piece becomes durable, and compared with the first of the next piece. So
a file that was replaced by another, even by a longer one, is found before anything of it is seen,
also after a restart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from waterclock.storage.sources.api import Messages
from waterclock.storage.sources.errors import SourceFault

REACH = 4096
"""Bytes before the new ones that the digest covers."""
_BEFORE, _AFTER = b"before", b"after"


def digest(data: bytes) -> bytes:
    """Of the last bytes of some data."""
    return hashlib.blake2b(data[-REACH:], digest_size=16).digest()


def told(before: bytes, after: bytes) -> dict[bytes, bytes]:
    """The digests of a piece, as metadata of its first batch."""
    return {_BEFORE: before, _AFTER: after}


class Continuity:
    """Implements `sources.api.Grouping`. It holds nothing back."""

    def __init__(self) -> None:
        self._noted: dict[str, bytes] = {}

    def resume(self, notes: Mapping[str, bytes]) -> None:
        self._noted = dict(notes)

    def released(
        self, messages: Sequence[Messages]
    ) -> tuple[Sequence[Messages], Mapping[str, bytes | None]]:
        notes: dict[str, bytes | None] = {}
        given: list[Messages] = []
        for each in messages:
            about = each.batch.schema.metadata or {}
            if _AFTER in about:
                file = str(each.partition)
                known = self._noted.get(file)
                if known is not None and known != about[_BEFORE]:
                    raise SourceFault(
                        f'file "{file}" has been replaced',
                        detail="What had been read of it is not there any more.",
                        hint="Drop the source and create it again to read what is there now.",
                    )
                notes[file] = self._noted[file] = about[_AFTER]
            plain = each.batch.replace_schema_metadata(None)
            given.append(Messages(each.output, each.partition, plain))
        return given, notes
