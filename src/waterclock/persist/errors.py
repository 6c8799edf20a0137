"""What can go wrong below a shard, told apart by what the caller may conclude from it."""

from __future__ import annotations

import errno
from typing import ClassVar

from waterclock.errors import WaterclockError


class Unavailable(WaterclockError):
    """The world failed and the outcome of the call is unknown: it may or may not have taken effect.

    Retrying is right only for calls that are idempotent.
    """

    sqlstate: ClassVar[str] = "58030"


class NotWritten(Unavailable):
    """The world refused a write, and it is certain that nothing has changed.

    Something else may be written in its place. `is_lasting` tells that trying again at once is of
    no use: somebody has to see to the disk first.
    """

    is_lasting: ClassVar[bool] = False


class DiskFull(NotWritten):
    """There is no space left where the data is kept, or no more of it is allowed."""

    sqlstate: ClassVar[str] = "53100"
    is_lasting: ClassVar[bool] = True


class ReadOnlyDisk(NotWritten):
    """The data is where nothing can be written."""

    is_lasting: ClassVar[bool] = True


def refused_write(error: OSError, message: str) -> Unavailable:
    """What the operating system says of a write, as one of our errors."""
    if error.errno in _FULL:
        return DiskFull(message, hint=FREE_SPACE)
    if error.errno in _READ_ONLY:
        return ReadOnlyDisk(message, hint=MAKE_WRITABLE)
    return Unavailable(message)


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_READ_ONLY = (errno.EROFS,)
FREE_SPACE = (
    "Make room on the disk of the data directory; the server goes on by itself. Reads of what is"
    " complete are still answered."
)
MAKE_WRITABLE = "Make the disk of the data directory writable; the server goes on by itself."


class BlobMissing(WaterclockError):
    """No object has the key."""

    sqlstate: ClassVar[str] = "58P01"


class PositionTaken(WaterclockError):
    """The log already has an entry at the position; nothing was changed."""

    sqlstate: ClassVar[str] = "40001"


class Fenced(WaterclockError):
    """Another server has taken the data over; this one must stop."""

    sqlstate: ClassVar[str] = "57P01"


class DataInUse(WaterclockError):
    """The data directory belongs to a running server."""

    sqlstate: ClassVar[str] = "55006"


class FormatTooNew(WaterclockError):
    """The data was written by a newer version than this one can read."""

    sqlstate: ClassVar[str] = "58P02"


class Damaged(WaterclockError):
    """Stored bytes are not what was written."""

    sqlstate: ClassVar[str] = "XX001"
