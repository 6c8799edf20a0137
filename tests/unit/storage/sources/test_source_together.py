"""Sources that follow one log upstream are bound together: at one place of it, at one time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace

import pytest

from waterclock.model.ids import GlobalId
from waterclock.storage.reclock.progress import SourceFrontier
from waterclock.storage.reclock.shape import KAFKA
from waterclock.storage.sources.api import Kind, SourceDescription, Surroundings
from waterclock.storage.sources.loop import Ingestions
from waterclock.storage.sources.recency import Finding, Reached
from waterclock.storage.sources.together import (
    Aligned,
    Group,
    JointRequest,
    JointRequests,
    Round,
    groups_of,
)
from waterclock.testing.source_world import KIND, OUTPUT, ROWS, SourceWorld, Upstream, unreachable

A, B, C = (GlobalId.user(number) for number in (1, 2, 3))
PAIR = frozenset({A, B})


def upper(offset: int) -> SourceFrontier:
    return SourceFrontier({0: offset}, True)


def request(at: int = 0) -> JointRequest:
    return JointRequest(at, Future())


# Rounds


def test_sources_of_one_order_are_a_group() -> None:
    assert groups_of({A: "one", B: "other", C: "one"}) == [frozenset({A, C})]
    assert groups_of({A: None, B: None, C: "one"}) == []


def test_a_round_is_bound_behind_all_of_its_sources_at_a_time_that_is_not_complete() -> None:
    made = Round(PAIR, (request(10), request(12)))
    made.begin(upper(5), [Reached(upper(7), 3, 20), Reached(upper(4), 3, 11)])
    assert made.time == 20
    assert made.demand.up_to == upper(7)
    assert made.demand.time == 20
    assert not made.note(A, Reached(upper(7), 3, 21))
    assert made.note(B, Reached(upper(7), 20, 21))
    assert made.outcome == (
        Finding(A, upper(7), 3, 21, upper(7)),
        Finding(B, upper(7), 20, 21, upper(7)),
    )


@pytest.mark.parametrize(
    "reached",
    [None, Reached(upper(6), 20, 21), Reached(upper(7), 20, 20), Reached(upper(7), 21, 22)],
)
def test_a_source_that_is_elsewhere_spoils_the_round(reached: Reached | None) -> None:
    made = Round(PAIR, (request(20),))
    made.begin(upper(7), [])
    made.note(A, Reached(upper(7), 20, 21))
    assert made.note(B, reached)
    assert made.outcome is None


def test_requests_for_the_same_sources_share_a_round_and_withdrawn_ones_count_for_nothing() -> None:
    open_, one, other, third = JointRequests(), request(), request(), request()
    open_.add(PAIR, one)
    open_.add(frozenset({B, A}), other)
    open_.add(frozenset({A, C}), third)
    third.answer.cancel()
    assert open_.groups() == [PAIR]
    assert open_.take(PAIR) == (one, other)
    assert open_.groups() == []


# Sources that run


class Log:
    """A system upstream whose log several sources follow, each in steps that it is asked for."""

    def __init__(self) -> None:
        self.world = SourceWorld()
        self.kinds: dict[str, Kind] = {}
        self.upstreams: list[Upstream] = []
        self.messages: list[str] = []
        self.now_ms = lambda: time.time_ns() // 1_000_000
        self.loop = Ingestions(
            self.world.storage,
            self.world.store,
            self.kinds,
            Surroundings(self.now_ms),
            self.world.holds.take,
            interval_ms=600_000,
        )

    def add(self, log: str | None = "log") -> SourceDescription:
        name = f"{KIND}{len(self.kinds)}"
        self.upstreams.append(Upstream({0: self.messages}))
        self.kinds[name] = self.upstreams[-1].kind(log)
        made = self.world.create(name, b"", KAFKA.schema, {OUTPUT: ROWS})
        description = replace(made, name=name)
        self.loop.add(description)
        self.loop.ask(description.id, self.now_ms(), wants_head=True).result(60)
        return description

    def ask(self, group: Group) -> Future[Aligned]:
        return self.loop.ask_together(group, self.now_ms())

    def contents(self, source: SourceDescription, at: int) -> int:
        return self.world.contents(source.outputs[OUTPUT], at).total()


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    yield made
    made.loop.close()


@pytest.mark.semantics(131, 132, 138)
def test_sources_of_one_log_are_at_one_place_at_the_time(log: Log) -> None:
    """Whoever writes meanwhile, and however the sources go on by themselves."""
    one, other, alone = log.add(), log.add(), log.add(log=None)
    [group] = log.loop.groups([one.id, other.id, alone.id])
    assert group == {one.id, other.id}
    assert log.loop.groups([one.id, alone.id]) == []
    is_over = threading.Event()

    def write() -> None:
        while not is_over.wait(0.0005):
            log.messages.append("m")
            log.loop.wake()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(20):
            asked, known = log.now_ms(), len(log.messages)
            found = log.ask(group).result(60)
            assert found is not None
            [head] = {each.head for each in found}
            [end] = {each.complete_to for each in found}
            assert head is not None
            assert end is not None
            assert end > asked
            assert head.uppers[0] >= known
            for source in (one, other):
                assert log.contents(source, end - 1) == head.uppers[0]
    finally:
        is_over.set()
        writer.join()


@pytest.mark.semantics(140)
def test_many_requests_take_few_rounds(log: Log) -> None:
    [group] = log.loop.groups([log.add().id, log.add().id])
    rounds: set[int] = set()
    for each in [log.ask(group) for _ in range(100)]:
        found = each.result(60)
        assert found is not None
        assert found[0].complete_to is not None
        rounds.add(found[0].complete_to)
    assert len(rounds) <= 10


@pytest.mark.semantics(140, 141)
def test_a_log_that_does_not_answer_ends_the_round_and_not_the_sources(log: Log) -> None:
    one, other = log.add(), log.add()
    [group] = log.loop.groups([one.id, other.id])
    for each in log.upstreams:
        each.fault = unreachable()
    assert log.ask(group).result(60) is None
    for each in log.upstreams:
        each.fault = None
    log.messages.append("m")
    # A source that has stalled may come too late for the first rounds.
    rounds = (log.ask(group).result(60) for _ in range(100))
    assert any(each is not None for each in rounds)
    log.upstreams[1].fault = unreachable()
    assert log.ask(group).result(60) is None  # and the other is not held up by it
    assert log.loop.ask(one.id, log.now_ms(), wants_head=True).result(60).head == upper(1)


@pytest.mark.semantics(140)
def test_rounds_serve_those_who_ask_one_source_alone(log: Log) -> None:
    """However many rounds there are, nobody has to wait for the last of them."""
    one, other = log.add(), log.add()
    [group] = log.loop.groups([one.id, other.id])
    is_over = threading.Event()

    def ask_again(_: object = None) -> None:
        if not is_over.is_set():
            log.ask(group).add_done_callback(ask_again)

    for _ in range(5):
        ask_again()
    try:
        for number in range(20):
            log.messages.append("m")
            found = log.loop.ask(one.id, log.now_ms(), wants_head=True).result(60)
            assert found.head is not None
            assert found.head.uppers[0] >= number + 1
            assert found.bound.covers(found.head)
    finally:
        is_over.set()


def test_a_source_that_goes_ends_the_rounds_of_its_group(log: Log) -> None:
    one, other = log.add(), log.add()
    [group] = log.loop.groups([one.id, other.id])
    log.loop.remove(other.id)
    assert log.ask(group).result(60) is None
    assert log.loop.groups([one.id, other.id]) == []
