"""Following a channel: what to ask the service next, and what its answers mean.

No clock, no I/O: whoever drives it asks `next` what to ask, asks that, and hands the answer to
`take`. Each answer comes to a `Piece`: messages that are new, and the position that is right once
they are durable. Times are those of the service, which tells its time with the end of the queue;
our own clock may be set while we are away, and then nobody would notice how long that was.

The service keeps the newest messages of a channel for some minutes and gives what is behind a
cursor. So messages are missing from an answer

- if it is as full as the queue can be: older ones may have been pushed out;
- if nobody has looked for longer than the queue keeps messages for sure;
- and if the service moves us to another region, whose queue is in another order. Its queue is asked
  again from some moments earlier, so messages that came later there are not missed.

In the first two cases there is a gap, for which history is asked before anything that follows is
given on, so that messages keep their order. Where history can not be believed (`filling`), the
piece names the span as a loss. Duplicates are dropped (`duplicates`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from waterclock.storage.sources.pubnub.answers import UNITS_PER_MS, Answer, Cursor, Message, Page
from waterclock.storage.sources.pubnub.definition import HistoryUse
from waterclock.storage.sources.pubnub.duplicates import Identity, Recent
from waterclock.storage.sources.pubnub.filling import AskHistory, Filling
from waterclock.storage.sources.pubnub.position import Gap, Loss, Position

QUEUE_SIZE = 100
"""The service keeps so many messages of a channel; more for those who pay for it."""
KEPT_MS = 120_000
"""It says that it keeps them for 2 to 20 minutes."""
OVERLAP = 10_000 * UNITS_PER_MS
"""How far to go back where it is not sure that all was there."""
_FULL = "more had been published than the queue of the service holds"
_LATE = "the queue of the service was not looked at for longer than it keeps messages"


@dataclass(frozen=True, slots=True)
class AskQueue:
    """Ask for what is behind the cursor; the answer may take a while."""

    cursor: Cursor


@dataclass(frozen=True, slots=True)
class AskEnd:
    """Ask where the queue ends now."""


Ask = AskQueue | AskEnd | AskHistory


@dataclass(frozen=True, slots=True)
class Piece:
    """Some new messages with their identities, the position behind them, and what may be missing
    before them.
    """

    position: Position
    messages: Sequence[Message] = ()
    identities: Sequence[Identity] = ()
    loss: Loss | None = None


class Follower:
    """Follows one channel from a position."""

    def __init__(
        self,
        position: Position,
        recent: Recent,
        history: HistoryUse = "auto",
        begin: int = 0,
    ) -> None:
        """Nothing that was published before the timetoken `begin` is asked of history."""
        self._begin = begin
        self._position = position
        self._recent = recent
        self._history = history
        self._cursor = position.cursor
        self._heard_ms = position.heard_ms
        self._asked_ms = 0
        self._has_asked = False
        """Whether the service has answered at all: the end of the queue is asked for first, since
        that has an answer at once, and a time."""
        self._went_back = False
        self._filling: Filling | None = None
        self._has_history = True
        """Whether it could be believed the last time; otherwise it is not waited for again."""
        self._held: Answer | None = None
        """What the queue gave behind the gap that is being filled."""
        if position.gap is not None:
            self._fill(position.gap)

    def next(self, now_ms: int) -> Ask:
        """What to ask now. The time does not matter before the first answer."""
        if not self._has_asked:
            return AskEnd()
        if self._filling is not None:
            return self._filling.next()
        if self._is_late(now_ms):
            return AskEnd()
        self._asked_ms = now_ms
        return AskQueue(self._cursor)

    def _is_late(self, now_ms: int) -> bool:
        return self._heard_ms is None or now_ms - self._heard_ms > KEPT_MS

    def quiet(self) -> Piece:
        """The queue was asked, and had nothing to say for as long as one waits."""
        self._heard_ms = self._asked_ms
        return self._piece(())

    def take(self, ask: Ask, answer: Answer | Page, now_ms: int) -> Piece | None:
        """What an answer comes to; None if there is something to ask before that is known."""
        match ask:
            case AskQueue():
                assert isinstance(answer, Answer)
                return self._from_queue(answer, now_ms)
            case AskEnd():
                assert isinstance(answer, Answer)
                self._has_asked = True
                is_late = self._filling is None and self._is_late(now_ms)
                return self._late(answer.cursor, now_ms) if is_late else None
            case AskHistory():
                assert isinstance(answer, Page)
                return self._from_history(ask, answer)
            case _:
                assert_never(ask)

    def refuse(self, reason: str) -> Piece:
        """History, which was asked, is not to be had."""
        filling = self._filling
        assert filling is not None
        told = f"{filling.gap.reason}, and history says: {reason}"
        return self._filled(filling, (), told, is_believed=False)

    # The queue

    def _from_queue(self, answer: Answer, now_ms: int) -> Piece | None:
        if self._is_late(now_ms):  # the machine was suspended meanwhile: the gap comes first
            return None
        self._heard_ms = now_ms
        answer = replace(answer, cursor=self._reached(answer.cursor))
        region = answer.cursor.region
        if self._cursor.region not in (None, region) and not self._went_back:
            self._went_back = True
            self._cursor = Cursor(max(0, self._cursor.timetoken - OVERLAP), region)
            return None
        went_back, self._went_back = self._went_back, False
        if answer.count < QUEUE_SIZE:
            return self._accept(answer)
        first = answer.messages[0] if answer.messages else None
        if first is not None and not went_back and self._recent.has(first):
            return self._accept(answer)  # it reaches back to what this queue has given before
        oldest = min((m.timetoken for m in answer.messages), default=answer.cursor.timetoken)
        gap = Gap(min(self._cursor.timetoken, oldest - 1), oldest, _FULL)
        if self._history == "off":
            return self._accept(answer, _loss(gap))
        stored = [message for message in answer.messages if message.is_stored]
        above = min(stored, key=lambda message: message.timetoken, default=None)
        if above is not None:
            gap = replace(gap, upto=above.timetoken)
        self._held = answer
        self._fill(gap, above)
        return None

    def _reached(self, cursor: Cursor) -> Cursor:
        """A cursor that the service gave, with what it left out as it was before."""
        region = self._cursor.region if cursor.region is None else cursor.region
        return Cursor(cursor.timetoken or self._cursor.timetoken, region)

    def _accept(self, answer: Answer, loss: Loss | None = None) -> Piece:
        self._cursor = answer.cursor
        return self._piece(answer.messages, loss)

    def _late(self, end: Cursor, now_ms: int) -> Piece | None:
        """The queue ends there now, and may have forgotten some of what is behind the cursor."""
        self._heard_ms = now_ms
        self._cursor = Cursor(self._cursor.timetoken, self._reached(end).region)
        if end.timetoken <= self._cursor.timetoken:
            return None
        gap = Gap(self._cursor.timetoken, end.timetoken, _LATE)
        if self._history == "off":
            return self._piece((), _loss(gap))
        self._fill(gap)
        return self._piece(())

    # History

    def _fill(self, gap: Gap, above: Message | None = None) -> None:
        self._filling = Filling(
            gap,
            begin=self._begin,
            last=self._position.last,
            above=above,
            believes=self._history == "on",
            is_patient=self._has_history,
        )

    def _from_history(self, ask: AskHistory, page: Page) -> Piece | None:
        filling = self._filling
        assert filling is not None
        messages = filling.take(ask, page)
        if filling.is_done:
            reason = f"{filling.gap.reason}, and history is not kept"
            is_believed = filling.is_believed
            return self._filled(filling, messages, reason, is_believed=is_believed)
        return self._piece(messages) if messages else None

    def _filled(
        self, filling: Filling, messages: Sequence[Message], reason: str, *, is_believed: bool
    ) -> Piece:
        """The gap is filled, or can not be for that reason."""
        self._filling = None
        self._has_history = is_believed
        gap, held = filling.gap, self._held
        self._held = None
        loss = None if is_believed else Loss(gap.since, gap.upto, reason)
        if held is not None:
            self._cursor = held.cursor
            return self._piece((*messages, *held.messages), loss)
        if loss is None:
            back = max(gap.since, gap.upto - OVERLAP)
            self._cursor = Cursor(max(self._cursor.timetoken, back), self._cursor.region)
        return self._piece(messages, loss)

    # What comes of it

    def _piece(self, given: Sequence[Message], loss: Loss | None = None) -> Piece:
        """The new ones of these messages, and where we are behind them."""
        messages, identities = [], []
        for message in given:
            identity = self._recent.try_add(message)
            if identity is not None:
                messages.append(message)
                identities.append(identity)
        last = max((m.timetoken for m in given if m.is_stored), default=0)
        cursor, gap = self._cursor, None
        if self._filling is not None:
            gap = replace(
                self._filling.gap, since=max(self._filling.gap.since, self._filling.read_to)
            )
        self._position = Position(cursor, max(self._position.last, last), self._heard_ms, gap)
        return Piece(self._position, messages, identities, loss)


def _loss(gap: Gap) -> Loss:
    return Loss(gap.since, gap.upto, f"{gap.reason}, and history is not asked")
