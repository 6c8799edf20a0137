"""Following a channel against a model of the service, and each thing that can go wrong with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.storage.sources.pubnub.answers import Answer, Cursor, HistoryRefused, Message, Page
from waterclock.storage.sources.pubnub.definition import HistoryUse
from waterclock.storage.sources.pubnub.duplicates import (
    SPAN,
    Identity,
    KeptIdentities,
    Recent,
)
from waterclock.storage.sources.pubnub.filling import AskHistory
from waterclock.storage.sources.pubnub.following import (
    KEPT_MS,
    OVERLAP,
    QUEUE_SIZE,
    Ask,
    AskEnd,
    AskQueue,
    Follower,
    Piece,
)
from waterclock.storage.sources.pubnub.position import (
    Gap,
    Loss,
    Losses,
    Position,
    loss_notes,
    losses_noted,
    position_noted,
    position_notes,
)
from waterclock.testing.examples import examples

START = 17_000_000_000_000_000
SECOND = 10_000_000


def message(timetoken: int, *, region: int | None = 4) -> Message:
    return Message(timetoken, b"%d" % timetoken, region, "me", 0)


class Model:
    """The service as the follower sees it: a queue, a history, a clock."""

    def __init__(self, *, history: bool = True, page: int = 100) -> None:
        self.now = START
        self.region = 4
        self.queue: list[Message] = []
        self.history: list[Message] = []
        self.has_history = history
        self.late = 0
        """So long after its publication history does not have a message."""
        self.page = page
        self.asked: list[Ask] = []

    @property
    def now_ms(self) -> int:
        return self.now // 10_000

    def publish(self, count: int = 1, *, is_stored: bool = True) -> list[Message]:
        made = []
        for _ in range(count):
            self.now += 1000
            made.append(message(self.now))
        self.queue = [*self.queue, *made][-QUEUE_SIZE:]
        self.history += made if is_stored else []
        return made

    def answer(self, ask: Ask) -> Answer | Page | None:
        self.asked.append(ask)
        match ask:
            case AskEnd():
                return Answer(Cursor(self.now, self.region))
            case AskQueue(cursor):
                behind = [m for m in self.queue if m.timetoken > cursor.timetoken]
                if not behind:
                    return None
                end = Cursor(behind[-1].timetoken, self.region)
                return Answer(end, behind, len(behind))
            case AskHistory(since, upto, after_ms):
                self.now += after_ms * 10_000
                if not self.has_history:
                    raise HistoryRefused("not enabled")
                known = [
                    dataclasses.replace(m, region=None, sequence=None)
                    for m in self.history
                    if since < m.timetoken <= min(upto, self.now - self.late)
                ]
                return Page(known[-self.page :], len(known) >= self.page)


class Reader:
    """A follower, with what it has given that is durable."""

    def __init__(self, model: Model, history: HistoryUse = "auto") -> None:
        self.model = model
        self.history = history
        self.position = Position(Cursor(START, 4), heard_ms=START // 10_000)
        self.kept = KeptIdentities({})
        self.received: list[Message] = []
        self.losses: list[Loss] = []
        self.restart()

    def restart(self) -> None:
        """As after kill -9: only what was taken is known."""
        recent = Recent(self.kept.identities)
        self.follower = Follower(self.position, recent, self.history, START)

    def step(self) -> Piece | None:
        """Ask once."""
        ask = self.follower.next(self.model.now_ms)
        try:
            answer = self.model.answer(ask)
        except HistoryRefused as refused:
            return self.follower.refuse(str(refused))
        if answer is None:
            return self.follower.quiet()
        return self.follower.take(ask, answer, self.model.now_ms)

    def take(self, piece: Piece | None) -> None:
        """Make it durable."""
        if piece is None:
            return
        self.kept.notes(piece.identities)
        self.received += piece.messages
        self.losses += [] if piece.loss is None else [piece.loss]
        noted = position_noted(position_notes(piece.position))
        assert noted == piece.position
        self.position = piece.position

    def run(self) -> None:
        """Until the queue has nothing more."""
        while True:
            before = len(self.model.asked)
            piece = self.step()
            self.take(piece)
            asked = self.model.asked[before]
            if isinstance(asked, AskQueue) and piece is not None and not piece.messages:
                return


def timetokens(messages: Iterable[Message]) -> list[int]:
    return [each.timetoken for each in messages]


def test_messages_come_as_they_are_published() -> None:
    model = Model()
    reader = Reader(model)
    reader.run()
    sent = model.publish(3)
    reader.run()
    sent += model.publish(99)
    reader.run()
    assert timetokens(reader.received) == timetokens(sent)
    assert not reader.losses
    assert not any(isinstance(ask, AskHistory) for ask in model.asked)
    assert isinstance(model.asked[0], AskEnd)


def test_a_full_queue_is_completed_from_history_in_order() -> None:
    model = Model()
    reader = Reader(model)
    sent = model.publish(1)
    reader.run()
    sent += model.publish(1234)
    reader.run()
    assert timetokens(reader.received) == timetokens(sent)
    assert not reader.losses


def test_a_full_queue_that_reaches_back_to_what_is_known_is_no_gap() -> None:
    model = Model()
    reader = Reader(model)
    sent = model.publish(QUEUE_SIZE - 1)
    reader.run()
    reader.position = dataclasses.replace(reader.position, cursor=Cursor(START, 4))
    reader.restart()
    sent += model.publish(1)
    reader.run()
    assert timetokens(reader.received) == timetokens(sent)
    assert not any(isinstance(ask, AskHistory) for ask in model.asked)


def test_history_that_is_late_is_asked_again() -> None:
    model = Model()
    model.late = 3 * SECOND
    reader = Reader(model)
    sent = model.publish(500)
    reader.run()
    assert timetokens(reader.received) == timetokens(sent)
    assert not reader.losses


@pytest.mark.parametrize("history", ["auto", "off"])
def test_without_history_a_full_queue_is_a_loss(history: HistoryUse) -> None:
    model = Model(history=False)
    reader = Reader(model, history)
    reader.run()
    sent = model.publish(150)
    reader.run()
    assert timetokens(reader.received) == timetokens(sent[50:])
    [loss] = reader.losses
    assert loss.since == START
    assert loss.upto == sent[50].timetoken
    assert ("not asked" if history == "off" else "not enabled") in loss.reason


def test_history_that_answers_with_nothing_is_not_believed() -> None:
    model = Model()
    reader = Reader(model)
    reader.run()
    sent = model.publish(150, is_stored=False)
    reader.run()
    assert timetokens(reader.received) == timetokens(sent[50:])
    [loss] = reader.losses
    assert "history is not kept" in loss.reason
    trusting = Reader(model, "on")
    trusting.run()
    assert not trusting.losses


def test_history_that_is_trusted_and_refused_is_a_loss_all_the_same() -> None:
    model = Model(history=False)
    reader = Reader(model, "on")
    model.publish(150)
    reader.run()
    assert len(reader.losses) == 1


def test_history_that_was_not_believed_is_not_waited_for_again() -> None:
    model = Model()
    reader = Reader(model)
    reader.run()
    for _ in range(5):
        model.publish(150, is_stored=False)
        reader.run()
    waits = [ask for ask in model.asked if isinstance(ask, AskHistory) and ask.after_ms]
    assert len(waits) == 5
    assert len(reader.losses) == 5
    model.publish(150)
    reader.run()
    assert len(reader.losses) == 5, "it is believed as soon as it has something"


def test_a_service_that_leaves_something_out() -> None:
    """A cursor without a region stays in ours, and one without a timetoken where it was."""
    reader = Reader(Model())
    reader.step()
    ask = reader.follower.next(START // 10_000)
    piece = reader.follower.take(ask, Answer(Cursor(0), [message(START + 1)], 1), START // 10_000)
    assert piece is not None
    assert piece.position.cursor == Cursor(START, 4)


def test_a_long_pause_is_completed_from_history() -> None:
    model = Model()
    reader = Reader(model)
    sent = model.publish(2)
    reader.run()
    sent += model.publish(150)
    model.now += (KEPT_MS + 1000) * 10_000
    model.queue.clear()  # the service has forgotten
    reader.restart()
    sent += model.publish(1)
    reader.run()
    assert timetokens(reader.received) == timetokens(sent)
    assert not reader.losses


def test_a_long_pause_without_history_is_a_loss() -> None:
    model = Model(history=False)
    reader = Reader(model)
    reader.run()
    model.now += (KEPT_MS + 1000) * 10_000
    end = model.now
    reader.run()
    [loss] = reader.losses
    assert (loss.since, loss.upto) == (START, end)
    assert "longer than it keeps" in loss.reason
    sent = model.publish(2)
    reader.run()
    assert timetokens(reader.received) == timetokens(sent)


def test_a_pause_in_the_middle_of_a_request_is_completed_from_history() -> None:
    """The machine was suspended, and our clock with it: the answer tells that it is later."""
    model = Model()
    reader = Reader(model)
    reader.run()
    ask = reader.follower.next(model.now_ms)
    sent = model.publish(3)
    model.now += (KEPT_MS + 1000) * 10_000
    model.queue.clear()  # the service has forgotten
    sent += model.publish(1)
    answer = model.answer(ask)
    assert isinstance(answer, Answer)
    assert reader.follower.take(ask, answer, model.now_ms) is None
    reader.run()
    assert timetokens(reader.received) == timetokens(sent)
    assert not reader.losses


def test_a_quiet_channel_is_no_gap() -> None:
    model = Model()
    reader = Reader(model)
    for _ in range(20):
        model.now += KEPT_MS // 2 * 10_000
        reader.take(reader.step())
    assert not any(isinstance(ask, AskHistory) for ask in model.asked)
    assert reader.position.heard_ms == model.now_ms


def test_another_region_is_asked_again_from_earlier() -> None:
    model = Model()
    reader = Reader(model)
    sent = model.publish(5)
    reader.run()
    model.region = 7
    late = message(sent[2].timetoken + 1, region=7)
    model.queue.append(late)  # which this region got later than ours got others
    model.queue.sort(key=lambda m: m.timetoken)
    sent += model.publish(1)
    reader.run()
    assert sorted(timetokens(reader.received)) == sorted(timetokens([*sent, late]))
    again = [ask for ask in model.asked if isinstance(ask, AskQueue)]
    assert Cursor(sent[4].timetoken - OVERLAP, 7) in [ask.cursor for ask in again]


def test_what_came_late_from_another_region_and_was_pushed_out() -> None:
    """It was published before the cursor, and was in the queue behind it."""
    model = Model()
    reader = Reader(model)
    sent = model.publish(2)
    late = message(model.now - 500, region=7)
    reader.run()
    model.history.append(late)
    model.history.sort(key=lambda m: m.timetoken)
    sent += model.publish(QUEUE_SIZE)
    reader.run()
    assert sorted(timetokens(reader.received)) == sorted(timetokens([*sent, late]))


def test_another_region_whose_queue_is_full() -> None:
    """What is known in it came from our region, and says nothing of what this one has forgotten."""
    model = Model()
    reader = Reader(model)
    sent = model.publish(3)
    reader.run()
    model.region = 7
    late = message(sent[0].timetoken + 5, region=7)
    model.history.append(late)
    model.history.sort(key=lambda m: m.timetoken)
    sent += model.publish(QUEUE_SIZE - 2)  # the queue begins with one that is known
    reader.run()
    assert sorted(timetokens(reader.received)) == sorted(timetokens([*sent, late]))


def test_a_start_in_the_past_is_read_from_history() -> None:
    model = Model()
    sent = model.publish(321)
    model.queue.clear()
    model.now += 500 * SECOND
    reader = Reader(model)
    reader.position = Position(Cursor(START, 4))
    reader.restart()
    reader.run()
    assert timetokens(reader.received) == timetokens(sent)
    assert not reader.losses


def test_history_is_read_in_few_requests() -> None:
    model = Model()
    for _ in range(100):
        model.publish(100)
        model.now += 300 * SECOND
    model.queue.clear()
    reader = Reader(model)
    reader.position = Position(Cursor(START, 4))
    reader.restart()
    reader.run()
    assert len(reader.received) == 10_000
    asked = sum(isinstance(ask, AskHistory) for ask in model.asked)
    print(f"{asked} requests for 10,000 messages")
    assert asked < 300


@given(st.data())
@examples(40)
def test_nothing_is_lost_or_doubled_whatever_happens(data: st.DataObject) -> None:
    """With history: any bursts, pauses, changes of region and crashes at any place."""
    model = Model(page=data.draw(st.sampled_from([10, 100]), "page"))
    model.late = data.draw(st.sampled_from([0, 2 * SECOND]), "late")
    reader = Reader(model)
    sent = model.publish(1)  # so that there is a message that history must have
    reader.run()
    for _ in range(data.draw(st.integers(1, 12), "rounds")):
        match data.draw(st.sampled_from(["publish", "burst", "pause", "region", "step", "crash"])):
            case "publish":
                sent += model.publish(data.draw(st.integers(1, 20), "count"))
            case "burst":
                sent += model.publish(data.draw(st.integers(90, 250), "count"))
            case "pause":
                model.now += data.draw(st.integers(1, 400), "seconds") * SECOND
                kept = model.now - 120 * SECOND
                model.queue = [m for m in model.queue if m.timetoken >= kept]
            case "region":
                model.region = 11 - model.region
            case "crash":
                for _ in range(data.draw(st.integers(0, 8), "steps")):
                    reader.step()  # which nobody makes durable
                reader.restart()
            case _:
                reader.take(reader.step())
    sent += model.publish(1)
    reader.run()
    assert timetokens(reader.received) == timetokens(sent)
    assert not reader.losses


@given(st.data())
@examples(80)
def test_without_history_what_is_missing_is_within_the_losses(data: st.DataObject) -> None:
    model = Model(history=False)
    reader = Reader(model, data.draw(st.sampled_from(["auto", "off"])))
    sent: list[Message] = []
    for _ in range(data.draw(st.integers(1, 12), "rounds")):
        match data.draw(st.sampled_from(["publish", "pause", "step", "crash"])):
            case "publish":
                sent += model.publish(data.draw(st.integers(1, 350), "count"))
            case "pause":
                model.now += data.draw(st.integers(1, 400), "seconds") * SECOND
                kept = model.now - 120 * SECOND
                model.queue = [m for m in model.queue if m.timetoken >= kept]
            case "crash":
                reader.step()
                reader.restart()
            case _:
                reader.take(reader.step())
    sent += model.publish(1)
    reader.run()
    received = timetokens(reader.received)
    assert received == sorted(set(received))
    for missing in set(timetokens(sent)) - set(received):
        assert any(loss.since < missing <= loss.upto for loss in reader.losses)


# What is told apart


def test_the_same_message_from_the_queue_and_from_history() -> None:
    recent = Recent()
    queued = Message(5, b'{"a":1, "b":2}', 4, "me", 7)
    assert recent.try_add(queued) is not None
    assert recent.try_add(queued) is None
    assert recent.try_add(Message(5, b'{"b":2,"a":1}', None, "me")) is None
    assert recent.try_add(Message(5, b'{"b":2,"a":1}')) is None


@pytest.mark.parametrize(
    "other",
    [
        {"timetoken": 6},
        {"payload": b"2"},
        {"region": 7},
        {"issuer": "other"},
        {"sequence": 8},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_differs_in_anything_is_another_message(other: dict[str, object]) -> None:
    recent = Recent()
    first = Message(5, b"1", 4, "me", 7)
    assert recent.try_add(first) is not None
    assert recent.try_add(dataclasses.replace(first, **other)) is not None  # type: ignore[arg-type]


def test_identities_are_bounded_in_number_and_in_time() -> None:
    recent = Recent(most=10)
    for timetoken in range(1, 20):
        assert recent.try_add(message(timetoken)) is not None
    assert recent.try_add(message(19)) is None
    assert recent.try_add(message(1)) is not None  # never dropped on suspicion
    recent = Recent()
    recent.try_add(message(1))
    recent.try_add(message(SPAN + 2))
    assert recent.try_add(message(1)) is not None


def test_identities_that_are_noted_cost_what_arrives() -> None:
    kept = KeptIdentities({}, most=25)
    notes: dict[str, bytes] = {}
    for begin in range(0, 100, 10):
        new = [Identity.of(message(begin + n)) for n in range(10)]
        changes = kept.notes(new)
        assert len(changes) <= 2
        for name, value in changes.items():
            if value is None:
                del notes[name]
            else:
                assert len(value) == 32 * 10
                notes[name] = value
    again = KeptIdentities(notes, most=25)
    assert [each.timetoken for each in again.identities] == list(range(80, 100))
    assert kept.notes([]) == {}


def test_losses_that_touch_are_one() -> None:
    losses = Losses().with_loss(Loss(10, 20, "a")).with_loss(Loss(15, 30, "b"))
    assert losses == Losses(1, (Loss(10, 30, "b"),))
    for n in range(50):
        losses = losses.with_loss(Loss(100 + 2 * n, 101 + 2 * n, "c"))
    assert losses.count == 51
    assert len(losses.last) == 20
    assert losses_noted(dict(loss_notes(losses))) == losses
    warning = losses.warning("rides")
    assert warning is not None
    assert "51 times" in str(warning.detail)
    assert Losses().warning("rides") is None


def test_a_position_with_a_gap_is_noted_whole() -> None:
    position = Position(Cursor(5, 4), 3, 77, Gap(1, 9, "why"))
    assert position_noted(position_notes(position)) == position
    assert position_noted({}) is None
