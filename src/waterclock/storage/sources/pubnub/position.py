"""How far a PubNub source has come, and what it knows to have missed: the notes that are durable.

The position is where to go on after a crash. It is durable in the commit of the messages before it,
so nothing is received twice or passed over because of a crash. With a gap, history is to be asked
for what lies between the cursor and its end before one listens again.

Losses are spans of which nobody can say that all messages were received. They stay for as long as
the source, joined where they touch, and only the last ones one by one.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from waterclock.errors import WaterclockError
from waterclock.storage.sources.pubnub.answers import UNITS_PER_MS, Cursor

_POSITION, _LOSSES = "position", "losses"
_MOST_LOSSES = 20


@dataclass(frozen=True, slots=True)
class Gap:
    """History is asked for what was published after `since`, up to and with `upto`."""

    since: int
    upto: int
    reason: str


@dataclass(frozen=True, slots=True)
class Position:
    """Where to go on: `last` is the newest message that was received, 0 if there is none, and
    `heard_ms` when the queue was last looked at, by the service's clock; None if it never was.
    """

    cursor: Cursor
    last: int = 0
    heard_ms: int | None = None
    gap: Gap | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """Messages that were published in a span may be missing."""

    since: int
    upto: int
    reason: str


@dataclass(frozen=True, slots=True)
class Losses:
    """All of them: the last ones, and how many there were."""

    count: int = 0
    last: tuple[Loss, ...] = ()

    def with_loss(self, loss: Loss) -> Losses:
        """The same with one more. A span that touches the last one makes that longer."""
        if self.last and loss.since <= self.last[-1].upto:
            before = self.last[-1]
            joined = Loss(min(before.since, loss.since), max(before.upto, loss.upto), loss.reason)
            return Losses(self.count, (*self.last[:-1], joined))
        return Losses(self.count + 1, (*self.last, loss)[-_MOST_LOSSES:])

    def warning(self, channel: str) -> MessagesMissed | None:
        """What the user is told; None if nothing was lost."""
        if not self.last:
            return None
        loss = self.last[-1]
        spans = "once" if self.count == 1 else f"{self.count} times"
        return MessagesMissed(
            f'messages of channel "{channel}" may be missing',
            detail=f"It has happened {spans}, last between {shown(loss.since)} and"
            f" {shown(loss.upto)}: {loss.reason}.",
            hint="With message persistence on the keyset, gaps are filled from history. To get rid"
            " of the warning, create the source again.",
        )


class MessagesMissed(WaterclockError):
    """A source goes on, and may have missed some messages."""

    sqlstate = "01000"


def shown(timetoken: int) -> str:
    """A timetoken as a moment."""
    moment = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(
        microseconds=timetoken // 10
    )
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def timetoken_at(ms: int) -> int:
    """The timetoken of a moment, in milliseconds since 1970."""
    return ms * UNITS_PER_MS


def position_noted(notes: Mapping[str, bytes]) -> Position | None:
    """The position in the notes; None before the first one."""
    found = notes.get(_POSITION)
    return None if found is None else msgspec.json.decode(found, type=Position)


def losses_noted(notes: Mapping[str, bytes]) -> Losses:
    """The losses in the notes."""
    found = notes.get(_LOSSES)
    return Losses() if found is None else msgspec.json.decode(found, type=Losses)


def position_notes(position: Position) -> dict[str, bytes]:
    return {_POSITION: msgspec.json.encode(position)}


def loss_notes(losses: Losses) -> dict[str, bytes]:
    return {_LOSSES: msgspec.json.encode(losses)}
