"""How far a log was acknowledged, in a small file beside it: the witness against silent loss.

A write-ahead log ends where its checksums no longer fit, whether the last write was cut off by a
power failure or an old one was damaged since: the two look alike, and SQLite takes both for the
end. What tells them apart is a second record of where the log ended, kept outside of it. The log
writes that record after an entry is durable and before it is acknowledged. So the log must reach at
least as far as its witness says, and one that does not has lost acknowledged entries.

The file has two slots, each with a position and a checksum, in sectors of their own. Positions
take turns, so a write that is cut off spoils one slot at most, and the other one still says the
position before.

The witness is not synced at every entry, which would double what a commit costs; the kernel has it
at once, and the disk after every `SYNC_EVERY` entries and when the log is closed. So it is exact
after a clean stop and after any crash of the process alone. After a power failure it may be up to
`SYNC_EVERY` entries behind: damage to just these, on top of a power failure, is not found. It is
never ahead of the log.
"""

from __future__ import annotations

import os
import struct
import tempfile
import zlib
from contextlib import suppress
from pathlib import Path

from waterclock.persist.errors import Damaged
from waterclock.persist.folders import sync_folder

SYNC_EVERY = 32

_SLOT = struct.Struct("<8sQI")
_MAGIC = b"wc-head\x01"
_SECTOR = 512


class Witness:
    """The open file of one log. Not thread-safe: the log writes it under its own lock."""

    def __init__(self, file: int, position: int) -> None:
        self._file = file
        self._unsynced = 0
        self.position = position
        """The log reached at least this far when the file was opened."""

    @staticmethod
    def path_of(log: Path) -> Path:
        return log.with_name(f"{log.name}-head")

    @classmethod
    def open(cls, log: Path) -> Witness | None:
        """That of the log; None if there is no such file. Raises `Damaged` and `OSError`."""
        path = cls.path_of(log)
        position = read_witness(log)
        if position is None:
            return None
        return cls(os.open(path, os.O_RDWR | os.O_CLOEXEC), position)

    @classmethod
    def create(cls, log: Path, position: int) -> Witness:
        """Durably the first one of a log that ends with the entry at `position`."""
        path = cls.path_of(log)
        file, fresh = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
        try:
            for each in (max(0, position - 1), position):
                os.pwrite(file, _slot(each), each % 2 * _SECTOR)
            os.ftruncate(file, 2 * _SECTOR)
            os.fsync(file)
            os.replace(fresh, path)
            sync_folder(path.parent)
        except BaseException:
            os.close(file)
            with suppress(FileNotFoundError):
                os.unlink(fresh)
            raise
        return cls(file, position)

    def advance(self, position: int) -> None:
        """The entry at `position` is durable. Raises `OSError`."""
        os.pwrite(self._file, _slot(position), position % 2 * _SECTOR)
        self._unsynced += 1
        if self._unsynced >= SYNC_EVERY:
            self.sync()

    def sync(self) -> None:
        self._unsynced = 0
        os.fdatasync(self._file)

    def close(self) -> None:
        os.close(self._file)


def read_witness(log: Path) -> int | None:
    """How far the log was acknowledged; None if there is no witness. Raises `Damaged`."""
    path = Witness.path_of(log)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    found = [_position(data[at : at + _SLOT.size]) for at in (0, _SECTOR)]
    positions = [position for position in found if position is not None]
    if not positions or len(data) != 2 * _SECTOR:
        raise Damaged(
            f'file "{path}" is damaged',
            detail="It says how far the log was acknowledged, and can not be read.",
            hint="Restore the data from a backup.",
        )
    return max(positions)


def _slot(position: int) -> bytes:
    checksum = zlib.crc32(_MAGIC + position.to_bytes(8, "little"))
    return _SLOT.pack(_MAGIC, position, checksum)


def _position(slot: bytes) -> int | None:
    if len(slot) < _SLOT.size:
        return None
    magic, position, _ = _SLOT.unpack(slot)
    if magic != _MAGIC or slot != _slot(position):
        return None
    assert isinstance(position, int)
    return position
