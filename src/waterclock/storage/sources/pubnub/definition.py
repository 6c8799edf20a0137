"""What a PubNub source is, as the catalog keeps it.

Where to begin was settled when the source was created, by asking the service where its queue is. So
it does not matter when the first message is received. The auth key is not in here: it is asked for
by the secret's id whenever one connects.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from waterclock.model.ids import GlobalId
from waterclock.storage.formats.api import MessageDefinition
from waterclock.storage.sources.pubnub.answers import UNITS_PER_MS, Cursor

HistoryUse = Literal["auto", "on", "off"]
"""`auto` asks for history and believes it if it has a message that is known to have been published;
`on` believes it whatever it says; `off` never asks."""


class PubnubDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A channel of a keyset, and how its messages are read.

    `user` is the user ID that the service sees. With `is_past`, the cursor is not where the queue
    ended when the source was created but earlier.
    """

    subscribe_key: str
    channel: str
    origin: str
    user: str
    timetoken: int
    region: int
    messages: MessageDefinition
    is_past: bool = False
    auth: str | None = None
    history: HistoryUse = "auto"

    @property
    def auth_id(self) -> GlobalId | None:
        return None if self.auth is None else GlobalId.parse(self.auth)

    @property
    def start(self) -> Cursor:
        return Cursor(self.timetoken, self.region)

    @property
    def heard_ms(self) -> int | None:
        """When the queue was looked at, by the service's clock; None if it was not."""
        return None if self.is_past else self.timetoken // UNITS_PER_MS

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)


def decoded(definition: bytes) -> PubnubDefinition:
    return msgspec.msgpack.decode(definition, type=PubnubDefinition)
