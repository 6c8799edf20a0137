"""What a new source is to be, asked of the service before it is created.

The service says where the queue of the channel ends. Everything that is published after the
statement was carried out is behind that, whenever the first message is received.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from waterclock.model.ids import GlobalId
from waterclock.storage.formats.api import MessageDefinition
from waterclock.storage.sources.errors import InvalidSource, TransientFault
from waterclock.storage.sources.pubnub.definition import HistoryUse, PubnubDefinition
from waterclock.storage.sources.pubnub.position import timetoken_at
from waterclock.storage.sources.pubnub.receiving import Answers
from waterclock.storage.sources.pubnub.service import ORIGIN, Channel, Service, checked_origin


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the statement says. A start below zero is so many milliseconds before now, by the
    service's clock.
    """

    subscribe_key: str
    channel: str
    origin: str = ORIGIN
    user: str | None = None
    auth: GlobalId | None = None
    history: HistoryUse = "auto"
    start_ms: int | None = None


def define(
    wanted: Wanted,
    auth: str | None,
    messages: MessageDefinition,
    open_service: Callable[[Channel], Answers] = Service,
) -> PubnubDefinition:
    """The definition of the source. Raises `InvalidSource`, and `TransientFault` if the service
    does not answer or refuses us.
    """
    _check_channel(wanted.channel)
    if not wanted.subscribe_key:
        raise InvalidSource("SUBSCRIBE KEY is empty")
    origin = checked_origin(wanted.origin)
    user = wanted.user or f"waterclock-{secrets.token_hex(8)}"
    channel = Channel(origin, wanted.subscribe_key, wanted.channel, user, auth)
    with closing(open_service(channel)) as service:
        end = service.end()
    if end.region is None:
        raise TransientFault(f"the PubNub service at {origin} did not say which region answers")
    start = end.timetoken
    if wanted.start_ms is not None:
        asked = timetoken_at(wanted.start_ms)
        wanted_from = asked if asked >= 0 else end.timetoken + asked
        start = max(1, min(wanted_from, end.timetoken))  # 0 would ask the queue for its end
    return PubnubDefinition(
        subscribe_key=wanted.subscribe_key,
        channel=wanted.channel,
        origin=origin,
        user=user,
        timetoken=start,
        region=end.region,
        messages=messages,
        is_past=wanted.start_ms is not None,
        auth=None if wanted.auth is None else str(wanted.auth),
        history=wanted.history,
    )


def _check_channel(channel: str) -> None:
    if not channel or len(channel) > 92 or any(each.isspace() for each in channel):
        raise InvalidSource(f'"{channel}" is not the name of a channel')
    if "," in channel or "/" in channel or ":" in channel:
        raise InvalidSource(
            f'"{channel}" is not the name of one channel',
            hint="Create a source for each channel, and put them together by UNION ALL.",
        )
    if "*" in channel:
        raise InvalidSource(
            "channels can not be named by a pattern",
            detail="History, from which gaps are filled, is kept for single channels.",
            hint="Create a source for each channel, and put them together by UNION ALL.",
        )
