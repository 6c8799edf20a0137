"""How a command to Storage can be refused. A refused command has changed nothing."""

from __future__ import annotations

from typing import ClassVar

from waterclock.errors import WaterclockError
from waterclock.storage.api import ReadCapability, WriteCapability


class IdInUse(WaterclockError):
    """The id names, or once named, a collection; ids are never given out twice."""

    sqlstate: ClassVar[str] = "42710"


class UnknownCollection(WaterclockError):
    """The id has never been bound to a collection, so nothing can be said about its times."""

    sqlstate: ClassVar[str] = "42704"


class CapabilityInvalid(WaterclockError):
    """Base of what can be wrong with a capability that is presented."""

    sqlstate: ClassVar[str] = "42501"


class CapabilityUnknown(CapabilityInvalid):
    """Nobody holds a capability by this token: dropped, expired, or never granted."""


class CapabilityExpired(CapabilityInvalid):
    """The lease ran out; its hold is released."""


class CapabilityMisstated(CapabilityInvalid):
    """The token is good, but the collection, frontier or kind is not the one that was granted.

    `kept` is the capability as it is. Who has the token may know it: that is how a holder that only
    remembered the token finds back.
    """

    def __init__(
        self, message: str, *, detail: str, kept: ReadCapability | WriteCapability
    ) -> None:
        super().__init__(message, detail=detail)
        self.kept = kept


class CollectionTwice(WaterclockError):
    """One Append names the same collection more than once."""

    sqlstate: ClassVar[str] = "22023"


class SubscriptionCancelled(WaterclockError):
    """The subscription was ended before the collection was."""

    sqlstate: ClassVar[str] = "57014"
