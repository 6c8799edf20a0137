"""The thread that listens: what it keeps, when it stops asking, and what ends it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from waterclock.runtime import SYSTEM
from waterclock.storage.formats.api import JsonDefinition, MessageDefinition
from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.pubnub.answers import (
    Answer,
    Cursor,
    HistoryRefused,
    Message,
    Page,
)
from waterclock.storage.sources.pubnub.creation import Wanted, define
from waterclock.storage.sources.pubnub.duplicates import Recent
from waterclock.storage.sources.pubnub.filling import AskHistory
from waterclock.storage.sources.pubnub.following import Follower
from waterclock.storage.sources.pubnub.position import Loss, Position
from waterclock.storage.sources.pubnub.receiving import Listener

BEGIN = 17_000_000_000_000_000
PAYLOAD = b'"%s"' % (b"x" * 1000)


class Scripted:
    """A service that answers each poll with ten messages, as long as it may."""

    def __init__(self) -> None:
        self.polls = threading.Semaphore(0)
        """Released by each poll that was answered."""
        self.may_answer = threading.Semaphore(10_000)
        self.faults: list[bool] = []
        """Whether the next requests fail; none of those that follow does."""
        self.sent = 10
        """How many messages an answer has."""
        self.later = 0
        """So much later the service says that it is, all at once."""
        self.ends = 0
        """How often it was asked where the queue ends."""
        self.is_ended = threading.Event()
        self.is_closed = False

    def end(self) -> Cursor:
        self._fail_if_told()
        self.ends += 1
        return Cursor(BEGIN + self.later, 4)

    def poll(self, cursor: Cursor) -> Answer | None:
        self._fail_if_told()
        while not self.may_answer.acquire(timeout=0.01):
            if self.is_ended.is_set():
                raise TransientFault("interrupted")
        self.polls.release()
        begin = cursor.timetoken
        found = [Message(begin + n + 1, PAYLOAD, 4) for n in range(self.sent)]
        return Answer(Cursor(begin + 10 + self.later, 4), found, self.sent)

    def history(self, asked: AskHistory) -> Page:
        assert self.later, asked
        raise HistoryRefused("not enabled")

    def _fail_if_told(self) -> None:
        if self.faults and self.faults.pop(0):
            raise TransientFault("broken")

    def interrupt(self) -> None:
        self.is_ended.set()

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def service() -> Scripted:
    return Scripted()


@pytest.fixture
def listener(service: Scripted) -> Iterator[Listener]:
    with closing(listening(service)) as found:
        yield found
    assert service.is_closed


def listening(service: Scripted, buffer_bytes: int = 100_000) -> Listener:
    follower = Follower(Position(Cursor(BEGIN, 4), heard_ms=BEGIN // 10_000), Recent())
    return Listener(follower, service, SYSTEM, buffer_bytes=buffer_bytes)


def test_no_more_is_asked_for_than_there_is_room(service: Scripted, listener: Listener) -> None:
    """Ten messages have about 13 kB here: eight answers fill the buffer."""
    timetokens: list[int] = []
    for _ in range(3):
        for _ in range(8):
            assert service.polls.acquire(timeout=60)
        assert not service.polls.acquire(timeout=0.2)
        taken = listener.take()
        assert sum(len(piece.messages) for piece in taken.pieces) == 80
        assert not taken.has_more
        timetokens += [m.timetoken for piece in taken.pieces for m in piece.messages]
    assert timetokens == list(range(BEGIN + 1, BEGIN + 241))


def test_answers_without_messages_take_room_too(service: Scripted, listener: Listener) -> None:
    """A service that answers at once and has nothing is not asked for ever."""
    service.sent = 0
    for _ in range(250):
        service.polls.acquire(timeout=0.05)
    assert not service.polls.acquire(timeout=0.2)
    assert len(listener.take().pieces) < 400


def test_a_clock_that_has_stood_still_is_noticed(service: Scripted) -> None:
    service.may_answer = threading.Semaphore(0)
    with closing(listening(service)) as listener:
        assert listener.take().pieces == ()
        service.later = 600 * 10_000_000
        service.may_answer.release()
        losses: list[Loss] = []
        while not losses:
            losses += [piece.loss for piece in listener.take().pieces if piece.loss is not None]
        assert service.ends == 2
        assert (losses[0].since, losses[0].upto) == (BEGIN, BEGIN + service.later)


def test_what_fails_once_is_asked_again(service: Scripted) -> None:
    service.faults = [True, False, True, False]
    with closing(listening(service)) as listener:
        listener.take()
        assert service.polls.acquire(timeout=60)


def test_what_fails_twice_is_a_fault_behind_what_is_there(service: Scripted) -> None:
    service.faults = [False, False, True, True]
    with closing(listening(service)) as listener:
        assert service.polls.acquire(timeout=60)
        assert received_before_the_fault(listener) == 10
        with pytest.raises(TransientFault, match="broken"):
            listener.take()


def received_before_the_fault(listener: Listener) -> int:
    """How many messages there are before the listener ends."""
    count = 0
    while True:
        try:
            count += sum(len(piece.messages) for piece in listener.take().pieces)
        except TransientFault:
            return count


def test_the_first_look_waits_for_the_service(service: Scripted) -> None:
    service.faults = [True, True]
    with closing(listening(service)) as listener, pytest.raises(TransientFault, match="broken"):
        listener.take()


@pytest.mark.parametrize(
    ("start_ms", "timetoken"),
    [
        (None, BEGIN),
        (0, 1),  # 0 would ask the queue for its end
        (-(10**18), 1),
        (-1000, BEGIN - 10_000_000),
        (10**18, BEGIN),
    ],
)
def test_where_a_source_begins(service: Scripted, start_ms: int | None, timetoken: int) -> None:
    wanted = Wanted("sub-c-1", "c", start_ms=start_ms)
    messages = MessageDefinition(origin="the channel", value=JsonDefinition())
    definition = define(wanted, None, messages, lambda _channel: service)
    assert definition.timetoken == timetoken
    assert definition.is_past == (start_ms is not None)


def test_closing_interrupts_a_poll(service: Scripted) -> None:
    service.may_answer = threading.Semaphore(0)
    listener = listening(service)
    assert listener.take().pieces == ()
    listener.close()
    assert service.is_closed
