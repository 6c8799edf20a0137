"""What PubNub's service answers, parsed: the subscribe API (v2) and message persistence (v3).

A *timetoken* is a number of 100 ns since 1970, with 17 digits at present. A *cursor* is where a
subscriber stands in the queue of a channel: a timetoken of the region that it listens to, and that
region. Each message has a timetoken and a region of its own, those of its publication. They differ
from the cursor's: a message of another region arrives later than it was published.

Only what is needed is read, and fields that are new do no harm. Payloads stay bytes of JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from waterclock.storage.sources.errors import TransientFault

UNITS_PER_MS = 10_000
PUBLISHED, SIGNAL, FILE = 0, 1, 4
"""The types of messages that are rows. What happens to objects (2) and the reactions to messages
(3) come along on the channel and are no messages of it."""
_ROWS = frozenset({PUBLISHED, SIGNAL, FILE})
_STORED = frozenset({PUBLISHED, FILE})


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a subscriber stands. The region is None until the service has told it."""

    timetoken: int
    region: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message. History does not tell its region and its sequence number."""

    timetoken: int
    payload: bytes
    region: int | None = None
    issuer: str | None = None
    sequence: int | None = None
    type: int = PUBLISHED
    custom_type: str | None = None
    meta: bytes | None = None

    @property
    def is_stored(self) -> bool:
        """Whether history has messages of its type."""
        return self.type in _STORED

    @property
    def size(self) -> int:
        """About how much memory it takes."""
        return len(self.payload) + len(self.meta or b"") + 300


@dataclass(frozen=True, slots=True)
class Answer:
    """What a subscriber was given, and where it stands after that.

    `count` is how many events there were, with those that are no messages.
    """

    cursor: Cursor
    messages: Sequence[Message] = ()
    count: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """Messages of history. With `has_more`, older ones of the same request were left out."""

    messages: Sequence[Message] = field(default=())
    has_more: bool = False


class _Place(msgspec.Struct):
    t: int | str
    r: int | str | None = None


class _Event(msgspec.Struct):
    d: msgspec.Raw = msgspec.Raw(b"null")
    p: _Place | None = None
    i: str | None = None
    s: int | None = None
    e: int | None = None
    c: str | None = None
    cmt: str | None = None
    u: msgspec.Raw = msgspec.Raw(b"")


class _Subscribed(msgspec.Struct):
    t: _Place
    m: list[_Event] = []


class _Stored(msgspec.Struct):
    message: msgspec.Raw
    timetoken: int | str
    uuid: str | None = None
    message_type: int | str | None = None
    custom_message_type: str | None = None
    meta: msgspec.Raw = msgspec.Raw(b"")


class _History(msgspec.Struct):
    channels: dict[str, list[_Stored]] = {}
    error: bool = False
    error_message: str = ""
    more: Any = None


class HistoryRefused(Exception):
    """The account has no history, or not for us. The text says what the service says."""


_SUBSCRIBED = msgspec.json.Decoder(_Subscribed)
_HISTORY = msgspec.json.Decoder(_History)


def subscribed(body: bytes) -> Answer:
    """The answer to a subscription. Raises `TransientFault` if it is none."""
    try:
        found = _SUBSCRIBED.decode(body)
        cursor = _cursor(found.t)
        messages = tuple(_message(event, cursor) for event in found.m if (event.e or 0) in _ROWS)
    except (msgspec.DecodeError, ValueError) as error:
        raise _not_pubnub(error) from None
    return Answer(cursor, messages, len(found.m))


def stored(body: bytes, limit: int) -> Page:
    """A page of one channel's history, in order of publication. `limit` is how many were asked for.
    Raises `HistoryRefused`, and `TransientFault` if it is no such page.
    """
    try:
        found = _HISTORY.decode(body)
        if found.error:
            raise HistoryRefused(found.error_message or "the service gave no reason")
        given = [_from_history(each) for each in next(iter(found.channels.values()), [])]
    except (msgspec.DecodeError, ValueError) as error:
        raise _not_pubnub(error) from None
    given.sort(key=lambda message: message.timetoken)
    rows = tuple(message for message in given if message.type in _ROWS)
    return Page(rows, len(given) >= limit or bool(found.more))


def refusal(body: bytes) -> str:
    """What the service says in an answer that is an error."""
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return ""
    if not isinstance(found, dict):
        return ""
    texts = (found.get(key) for key in ("error_message", "message"))
    return next((text for text in texts if isinstance(text, str) and text), "")


def _cursor(place: _Place) -> Cursor:
    return Cursor(_number(place.t, 63), None if place.r is None else _number(place.r, 31))


def _number(given: int | str, bits: int) -> int:
    """A number that is not negative and has so many bits at most. Raises `ValueError`."""
    try:
        number = int(given)
    except ValueError:
        raise ValueError("a text is not a number") from None
    if not 0 <= number < 1 << bits:
        raise ValueError("a number is out of range")
    return number


def _message(event: _Event, cursor: Cursor) -> Message:
    at = cursor if event.p is None else _cursor(event.p)
    return Message(
        timetoken=at.timetoken,
        payload=bytes(event.d),
        region=at.region,
        issuer=event.i,
        sequence=None if event.s is None else _number(event.s, 63),
        type=event.e or PUBLISHED,
        custom_type=event.cmt,
        meta=_meta(event.u),
    )


def _from_history(found: _Stored) -> Message:
    return Message(
        timetoken=_number(found.timetoken, 63),
        payload=bytes(found.message),
        issuer=found.uuid or None,
        type=int(found.message_type or PUBLISHED),
        custom_type=found.custom_message_type or None,
        meta=_meta(found.meta),
    )


def _meta(raw: msgspec.Raw) -> bytes | None:
    """History has an empty text where there is none."""
    held = bytes(raw)
    return None if held in (b"", b"null", b'""') else held


def _not_pubnub(error: Exception) -> TransientFault:
    """Nothing of the answer is shown: it may be from somewhere that the user must not see."""
    return TransientFault(
        "the answer of the PubNub service can not be read",
        detail=f"It is not what the service answers with: {error}.",
        hint="Check ORIGIN, and whether a proxy answers in its place.",
    )
