"""Reading a span of history forwards, page by page, and whether it can be believed.

The service gives the newest messages of a span that is asked for, at most a hundred. If there are
more, the rest of the span is asked for, and the pages are held back until its oldest one is here.
Only so many are held: a span with more is given up for a shorter one, and the next span is as long
as the last one lets expect.

History that is not kept answers with nothing, as history does in which there is nothing. So it is
believed only if it has a *witness*: a message that we know was published. Best is one behind the
gap, the oldest that the queue still had, for it also shows that history is not late; history gets
messages some moments after they were published, so it is asked again before that is given up.
Otherwise it is the last message before the gap, or, where we know none, any message at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from waterclock.storage.sources.pubnub.answers import UNITS_PER_MS, Message, Page
from waterclock.storage.sources.pubnub.duplicates import Identity
from waterclock.storage.sources.pubnub.position import Gap

_FIRST_SPAN = 60_000 * UNITS_PER_MS
_LATE = 10_000 * UNITS_PER_MS
"""So long after a message was published, history has it."""
_TRAVEL = 1000 * UNITS_PER_MS
"""So long a message takes to other regions, where it is in the queue behind later ones."""
_TRIES = 5
_TRY_AGAIN_MS = 1000
_MOST_PAGES = 16
_MOST_BYTES = 4 << 20
_MANY, _FEW = 600, 100
"""A span with more messages than that is followed by no longer one, with fewer by a longer one."""


@dataclass(frozen=True, slots=True)
class AskHistory:
    """Ask for what was published after `since`, up to and with `upto`, after a while."""

    since: int
    upto: int
    after_ms: int = 0


class Filling:
    """The state of filling one gap."""

    def __init__(
        self,
        gap: Gap,
        *,
        begin: int = 0,
        last: int = 0,
        above: Message | None = None,
        believes: bool = False,
        is_patient: bool = True,
    ) -> None:
        """Nothing before `begin` is asked for. `last` is the timetoken of the newest message before
        the gap, and 0 if there is none; `above` is a message at its end. With `believes`, no
        witness is needed; with `is_patient`, history that does not have the message at the end yet
        is asked again.
        """
        self.gap = gap
        self.read_to = min(gap.since, max(begin, gap.since - _TRAVEL))
        """Everything up to there has been asked for."""
        if 0 < last <= self.read_to:
            self.read_to = last - 1
        self._last = last
        self._above = None if above is None else Identity.of(above)
        self._believes = believes
        self._span = _FIRST_SPAN
        self._end = 0
        """Where the span ends that is being read."""
        self._held: list[Sequence[Message]] = []
        """Its pages, the newest first."""
        self._tries = _TRIES if is_patient else 0
        self._pause_ms = 0
        self._has_witness = False
        self.found = 0

    @property
    def is_done(self) -> bool:
        return self.read_to >= self.gap.upto

    @property
    def is_believed(self) -> bool:
        """Whether what history gave is all there was."""
        return self._believes or self._has_witness

    def next(self) -> AskHistory:
        """What to ask for. Not when it is done."""
        assert not self.is_done
        if not self._held:
            self._end = min(self.gap.upto, self.read_to + self._span)
            return AskHistory(self.read_to, self._end, self._pause_ms)
        page = self._held[-1]
        oldest, newest = page[0].timetoken, page[-1].timetoken
        return AskHistory(self.read_to, oldest if oldest < newest else oldest - 1)

    def take(self, asked: AskHistory, page: Page) -> Sequence[Message]:
        """The messages that are known to follow what was given, in order; none if more must be
        asked first.
        """
        if page.has_more and asked.upto - asked.since > 1:
            self._hold(page)
            return ()
        messages = [*page.messages, *(m for held in reversed(self._held) for m in held)]
        self._held.clear()
        self._pause_ms = 0
        self.read_to = self._end
        if len(messages) < _MANY:
            self._span *= 2 if len(messages) > _FEW else 8
        self.found += sum(message.timetoken > self._last for message in messages)
        self._look_for_witness(messages)
        return messages

    def _hold(self, page: Page) -> None:
        """Keep a page until older ones are here, or give up so long a span."""
        size = sum(message.size for held in self._held for message in held)
        is_too_much = len(self._held) >= _MOST_PAGES or size > _MOST_BYTES
        if page.messages and not is_too_much:
            self._held.append(page.messages)
            return
        self._held.clear()
        self._span = max(1, (self._end - self.read_to) // 4)

    def _look_for_witness(self, messages: Sequence[Message]) -> None:
        if self._above is None:
            known = self._last or None
            self._has_witness |= (
                self.found > 0 if known is None else any(m.timetoken == known for m in messages)
            )
            return
        above = self._above
        self._has_witness |= any(above.is_same(Identity.of(m)) for m in messages)
        if self.is_done and not self._has_witness and self._tries > 0:
            self._tries -= 1
            self._pause_ms = _TRY_AGAIN_MS
            self.read_to = max(self.gap.since, self.gap.upto - _LATE)
