"""What can go wrong below a shard, told apart by what the caller may conclude from it."""

from __future__ import annotations

from typing import ClassVar

from waterclock.errors import WaterclockError


class Unavailable(WaterclockError):
    """The world failed and the outcome of the call is unknown: it may or may not have taken effect.

    Retrying is right only for calls that are idempotent.
    """

    sqlstate: ClassVar[str] = "58030"


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
