"""The thread that listens to a channel, and the buffer that it fills.

A message is in the buffer from its arrival until it is durable. The buffer is bounded: when it is
full the thread does not ask for more, and the service keeps what comes meanwhile as it does for
everybody who is slow. What it can not keep becomes a gap, which is filled from history later.

A connection that breaks is tried again at once, since the service ends connections as it likes.
What fails twice in a row ends the thread: the one who takes from the buffer gets what is there
first, then the fault.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from waterclock.runtime import Runtime
from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.pubnub.answers import (
    UNITS_PER_MS,
    Answer,
    Cursor,
    HistoryRefused,
    Page,
)
from waterclock.storage.sources.pubnub.filling import AskHistory
from waterclock.storage.sources.pubnub.following import (
    Ask,
    AskEnd,
    AskQueue,
    Follower,
    Piece,
)

BUFFER_BYTES = 8 << 20
_PIECE_BYTES = 300
"""About what a piece takes besides its messages."""
_GREETING_S = 15.0
"""The service answers the first question in that time, or a fault is there."""


class Answers(Protocol):
    """What is asked of the service; see `service.Service`."""

    def end(self) -> Cursor: ...
    def poll(self, cursor: Cursor) -> Answer | None: ...
    def history(self, asked: AskHistory) -> Page: ...
    def interrupt(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Taken:
    """Pieces in the order in which they came. With `has_more`, others wait."""

    pieces: tuple[Piece, ...]
    has_more: bool = False


class Listener:
    """Listens in a thread of its own until it is closed."""

    def __init__(
        self,
        follower: Follower,
        service: Answers,
        runtime: Runtime,
        *,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self._follower = follower
        self._service = service
        self._runtime = runtime
        self._most = buffer_bytes
        self._pieces: deque[tuple[Piece, int]] = deque()
        self._size = 0
        self._has_answered = False
        self._fault: Exception | None = None
        self._is_closed = False
        self._told_ms = 0
        """What time it was at the service when it last told that."""
        self._told_at_s = runtime.monotonic_s()
        self._changed = runtime.condition()
        self._thread = runtime.start_thread(self._run, "waterclock-pubnub")

    def take(self) -> Taken:
        """What has arrived, but not more than the buffer holds. It waits until the service has
        answered once. Raises the fault that has ended the thread, when there is nothing else.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._has_answered or self._fault is not None, _GREETING_S
            )
            taken, size = [], 0
            while self._pieces and size < self._most:
                piece, bytes_held = self._pieces.popleft()
                taken.append(piece)
                size += bytes_held
            self._size -= size
            self._changed.notify_all()
            if not taken and self._fault is not None:
                raise self._fault
            if not self._has_answered and self._fault is None:
                raise TransientFault("the PubNub service does not answer")
            return Taken(tuple(taken), bool(self._pieces))

    def close(self) -> None:
        """End the thread; what was not taken is gone."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._service.interrupt()
        self._thread.join()

    # The thread

    def _run(self) -> None:
        try:
            while self._may_ask():
                self._put(self._next_piece())
        except Exception as fault:
            with self._changed:
                self._fault = fault
                self._changed.notify_all()
        finally:
            self._service.close()

    def _may_ask(self) -> bool:
        """Wait for room in the buffer; False at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._size < self._most)
            return not self._is_closed

    def _put(self, piece: Piece | None) -> None:
        with self._changed:
            self._has_answered = True
            if piece is not None:
                size = _PIECE_BYTES + sum(message.size for message in piece.messages)
                self._pieces.append((piece, size))
                self._size += size
            self._changed.notify_all()

    def _next_piece(self) -> Piece | None:
        """Ask what is to be asked now, and follow the answer."""
        ask = self._follower.next(self._service_ms())
        try:
            answer = self._twice(lambda: self._answer(ask))
        except HistoryRefused as refused:
            return self._follower.refuse(str(refused))
        if answer is None:
            return self._follower.quiet()
        if isinstance(answer, Answer):
            self._set_clock(
                answer.cursor.timetoken // UNITS_PER_MS, is_exact=isinstance(ask, AskEnd)
            )
        return self._follower.take(ask, answer, self._service_ms())

    def _set_clock(self, told_ms: int, *, is_exact: bool) -> None:
        """Note what time it is at the service, at least. Our monotonic clock stands still while the
        machine is suspended, so the service may be ahead of it.
        """
        if is_exact or told_ms > self._service_ms():
            self._told_ms, self._told_at_s = told_ms, self._runtime.monotonic_s()

    def _service_ms(self) -> int:
        """What time it is at the service; not before it has told that."""
        return self._told_ms + round((self._runtime.monotonic_s() - self._told_at_s) * 1000)

    def _answer(self, ask: Ask) -> Answer | Page | None:
        match ask:
            case AskQueue(cursor):
                return self._service.poll(cursor)
            case AskEnd():
                return Answer(self._service.end())
            case AskHistory(after_ms=after_ms):
                self._rest(after_ms / 1000)
                return self._service.history(ask)

    def _rest(self, seconds: float) -> None:
        if seconds:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed, seconds)

    def _twice(self, ask: Callable[[], Answer | Page | None]) -> Answer | Page | None:
        try:
            return ask()
        except TransientFault:
            if self._is_closed:
                raise
            return ask()
