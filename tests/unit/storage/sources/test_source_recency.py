"""Recent reads at storage: a source is asked for its head, and answers when it has got there."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from dataclasses import replace

import pytest

from waterclock.model.ids import GlobalId
from waterclock.storage.reclock.progress import FINISHED, SourceFrontier
from waterclock.storage.reclock.shape import KAFKA
from waterclock.storage.sources.api import Connector, Kind, Probe, SourceDescription, Surroundings
from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.loop import Ingestions
from waterclock.storage.sources.recency import (
    Demand,
    Finding,
    NotLinearizable,
    Reached,
    Request,
    Requests,
    SourceDropped,
)
from waterclock.storage.sources.status import Health
from waterclock.testing.source_world import KIND, OUTPUT, ROWS, SourceWorld, Upstream, unreachable

S = GlobalId.user(1)
NEVER_MS = 600_000
"""The interval of sources that do nothing unless they are asked."""


def upper(offset: int) -> SourceFrontier:
    return SourceFrontier({0: offset}, True)


# The requests of one source


def test_a_frontier_covers_another() -> None:
    assert SourceFrontier({0: 5, 1: 2}, True).covers(upper(5))
    assert not upper(4).covers(upper(5))
    assert not upper(9).covers(SourceFrontier({0: 1, 1: 1}, True))
    assert upper(9).covers(SourceFrontier({0: 1, 1: 0}, True))
    assert FINISHED.covers(upper(5))
    assert not upper(5).covers(FINISHED)


def test_requests_before_a_step_share_it_and_later_ones_wait() -> None:
    requests = Requests(S)
    assert requests.begin_step(is_due=True) == (None, ())
    early, other = Request(10, wants_head=True), Request(12, wants_head=True)
    requests.add(early)
    requests.add(other)
    demand, served = requests.begin_step(is_due=False)
    assert demand == Demand(12, is_first=True, wants_head=True, wants_news=True)
    late = Request(11, wants_head=True)
    requests.add(late)
    assert requests.end_step(served, Reached(upper(3), 12, 13, upper(3))) == [early, other]
    assert late.head is None
    demand, served = requests.begin_step(is_due=False)
    assert served == (late,)
    assert requests.end_step(served, Reached(upper(3), 12, 14, upper(3))) == [late]
    assert not requests


def test_a_head_that_is_not_bound_is_waited_for_and_not_asked_for_again() -> None:
    requests, request = Requests(S), Request(10, wants_head=True)
    requests.add(request)
    _, served = requests.begin_step(is_due=False)
    assert requests.end_step(served, Reached(upper(3), 10, 11, upper(7))) == []
    demand, served = requests.begin_step(is_due=False)
    assert demand == Demand(10, is_first=False, wants_head=False, wants_news=True)
    assert requests.end_step(served, Reached(upper(6), 20, 21)) == []
    reached = Reached(upper(7), 30, 31)
    assert requests.end_step(served, reached) == [request]
    assert requests.finding(request, reached) == Finding(S, upper(7), 30, 31, upper(7))


def test_a_time_alone_asks_nothing_upstream_unless_the_step_is_due() -> None:
    requests = Requests(S)
    requests.add(Request(10, wants_head=False))
    demand, served = requests.begin_step(is_due=False)
    assert demand is not None
    assert not demand.wants_head
    assert not demand.wants_news
    assert requests.end_step(served, Reached(upper(3), 5, 10)) == []  # 10 is not complete yet
    demand, served = requests.begin_step(is_due=True)
    assert demand is not None
    assert demand.wants_news
    assert len(requests.end_step(served, Reached(upper(3), 5, None))) == 1


def test_requests_that_were_withdrawn_are_forgotten() -> None:
    requests, request = Requests(S), Request(10, wants_head=True)
    requests.add(request)
    request.answer.cancel()
    assert not requests
    assert requests.begin_step(is_due=False) == (None, ())


# Sources that run


class Stage:
    """Sources that take a step only when they are asked to, but for the first one."""

    def __init__(self) -> None:
        self.world = SourceWorld()
        self.kinds: dict[str, Kind] = {}
        self.now_ms = lambda: time.time_ns() // 1_000_000
        self.loop = Ingestions(
            self.world.storage,
            self.world.store,
            self.kinds,
            Surroundings(self.now_ms),
            self.world.holds.take,
            interval_ms=NEVER_MS,
        )

    def add(self, upstream: Upstream, kind: Kind | None = None) -> SourceDescription:
        name = f"{KIND}{len(self.kinds)}"
        self.kinds[name] = kind or upstream.kind()
        made = self.world.create(name, b"", KAFKA.schema, {OUTPUT: ROWS})
        description = replace(made, name=name)
        self.loop.add(description)
        return description

    def ask(self, source: SourceDescription, *, wants_head: bool = True) -> Future[Finding]:
        return self.loop.ask(source.id, self.now_ms(), wants_head=wants_head)

    def count(self, source: SourceDescription) -> int:
        return len(self.world.updates(source.outputs[OUTPUT]))


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.loop.close()


@pytest.mark.semantics(123, 125, 127, 131, 132)
def test_a_source_that_is_asked_answers_when_its_head_is_durable(stage: Stage) -> None:
    upstream = Upstream({0: []})
    source = stage.add(upstream)
    for number in range(20):
        upstream.partitions[0].append(f"m{number}")
        asked = stage.now_ms()
        found = stage.loop.ask(source.id, asked, wants_head=True).result(60)
        assert found.head == upper(number + 1)
        assert found.bound.covers(found.head)
        assert found.complete_to is not None
        assert found.complete_to > max(asked, found.bound_at)
        for collection in source.collections:
            reached = stage.world.upper(collection)
            assert reached is not None
            assert reached >= found.complete_to
        assert stage.count(source) == number + 1


@pytest.mark.semantics(131)
def test_sources_that_are_asked_together_answer_with_one_time(stage: Stage) -> None:
    sources = [stage.add(Upstream({0: ["a"]})) for _ in range(3)]
    for source in sources:  # their first contents are there
        stage.ask(source).result(60)
    asked = stage.now_ms() + 5
    answers = [stage.loop.ask(s.id, asked, wants_head=True) for s in sources]
    assert {each.result(60).complete_to for each in answers} == {asked + 1}


@pytest.mark.semantics(140)
def test_a_hundred_requests_take_one_question_each_round(stage: Stage) -> None:
    upstream, gate, reached = Upstream({0: ["a"]}), threading.Event(), threading.Event()
    kind = upstream.kind()

    def opened(definition: bytes, surroundings: Surroundings) -> Connector:
        connector = kind.open(definition, surroundings)
        probe = connector.probe

        def waits() -> Probe:
            reached.set()
            assert gate.wait(600)
            return probe()

        connector.probe = waits  # type: ignore[method-assign]
        return connector

    source = stage.add(upstream, Kind(kind.progress, opened, kind.envelope))
    assert reached.wait(60)  # a step is under way: it is too early for all that follow
    answers = [stage.ask(source) for _ in range(100)]
    upstream.partitions[0].append("b")
    gate.set()
    for each in answers:
        assert each.result(60).head == upper(2)
    assert upstream.heads == 1


@pytest.mark.semantics(130)
def test_partitions_are_looked_at_until_two_looks_agree(stage: Stage) -> None:
    """One was looked at, then both were written, the other one later; only then that is seen."""
    upstream = Upstream({0: [], 1: []})
    kind, torn = upstream.kind(), [SourceFrontier({0: 0, 1: 1}, True)]

    def opened(definition: bytes, surroundings: Surroundings) -> Connector:
        connector = kind.open(definition, surroundings)
        probe = connector.probe

        def looks() -> Probe:
            if upstream.partitions[0] and torn:
                return Probe(torn[0], torn.pop())
            return probe()

        connector.probe = looks  # type: ignore[method-assign]
        return connector

    source = stage.add(upstream, Kind(kind.progress, opened, kind.envelope))
    stage.ask(source).result(60)
    before = upstream.head
    upstream.partitions[0].append("first")
    upstream.partitions[1].append("second")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Upstream, "head", property(lambda _: before))
        found = stage.ask(source).result(60)
    assert found.bound == SourceFrontier({0: 1, 1: 1}, True)
    assert not torn


def test_a_head_that_can_not_be_bound_yet_is_waited_for(stage: Stage) -> None:
    upstream = Upstream({0: ["a", "b"]}, undecided={0: 1})
    source = stage.add(upstream)
    answer = stage.ask(source)
    with pytest.raises(TooLate):
        answer.result(0.2)
    upstream.undecided.clear()
    assert answer.result(60).bound == upper(2)
    assert upstream.heads == 1


@pytest.mark.semantics(130, 139)
def test_a_source_that_does_not_tell_its_head_refuses_by_name(stage: Stage) -> None:
    source = stage.add(Upstream({0: ["a"]}, is_linearizable=False))
    for _ in range(2):  # before and after that is known
        with pytest.raises(NotLinearizable) as found:
            stage.ask(source).result(60)
        assert f'"{source.name}"' in found.value.message
        assert found.value.detail == "Its carrier pigeons keep no books."
    assert stage.count(source) == 1  # it goes on for everybody else


@pytest.mark.semantics(140, 141)
def test_a_dead_upstream_holds_up_no_other_and_is_tried_again_soon(stage: Stage) -> None:
    dead, upstream = Upstream({0: ["x"]}, fault=unreachable()), Upstream({0: ["a"]})
    stalled, well = stage.add(dead), stage.add(upstream)
    answer = stage.ask(stalled)
    for _ in range(5):
        stage.ask(well).result(60)
    assert not answer.done()
    [report] = [each for each in stage.loop.reports() if each.id == stalled.id]
    assert report.status.health is Health.STALLED
    assert isinstance(report.status.error, TransientFault)
    dead.fault = None
    assert answer.result(60).head == upper(1)


@pytest.mark.semantics(121)
def test_a_source_binds_by_itself_until_it_is_dropped(stage: Stage) -> None:
    """It is in use for as long as it exists, whether somebody reads it or not."""
    upstream, other = Upstream({0: []}), stage.add(Upstream({0: []}))
    stage.kinds["quick"] = upstream.kind()
    made = stage.world.create("quick", b"", KAFKA.schema, {OUTPUT: ROWS})
    source = replace(made, interval_ms=10)
    stage.loop.add(source)
    bound = 0
    deadline = time.monotonic() + 60
    for _ in range(3):
        upstream.partitions[0].append("m")
        while len(upstream.committed) == bound:
            assert time.monotonic() < deadline, "it looks upstream by itself"
            time.sleep(0.001)
        bound = len(upstream.committed)
    stage.loop.remove(source.id)
    stage.ask(other).result(60)  # a step that was under way may still end
    known, upper_then = stage.count(source), stage.world.upper(source.remap)
    upstream.partitions[0].append("late")
    stage.loop.wake()
    for _ in range(3):
        stage.ask(other).result(60)
    assert stage.count(source) == known
    assert stage.world.upper(source.remap) == upper_then


def test_a_time_is_reached_without_a_question(stage: Stage) -> None:
    upstream = Upstream({0: ["a"]})
    source = stage.add(upstream)
    stage.ask(source).result(60)
    upstream.partitions[0].append("b")
    asked = stage.now_ms() + 50
    found = stage.loop.ask(source.id, asked, wants_head=False).result(60)
    assert found.complete_to == asked + 1
    assert found.bound == upper(1)
    assert upstream.heads == 1


def test_a_finished_source_answers_at_once(stage: Stage) -> None:
    source = stage.add(Upstream({0: ["a"]}, is_final=True))
    deadline = time.monotonic() + 60
    while stage.ask(source).result(60).complete_to is not None:
        assert time.monotonic() < deadline
    assert stage.ask(source).result(60).bound == FINISHED


def test_who_asks_while_a_source_finishes_is_answered(stage: Stage) -> None:
    """The request comes in the middle of the last step, which does not know of it."""
    upstream = Upstream({0: ["a"]}, is_final=True)
    kind = upstream.kind()
    asked: list[Future[Finding]] = []

    def opened(definition: bytes, surroundings: Surroundings) -> Connector:
        connector = kind.open(definition, surroundings)
        probe = connector.probe

        def asks() -> Probe:
            asked.append(stage.ask(source))
            return probe()

        connector.probe = asks  # type: ignore[method-assign]
        return connector

    source = stage.add(upstream, replace(kind, open=opened))
    while not asked or asked[-1].result(60).complete_to is not None:
        stage.ask(source).result(60)
    assert all(each.result(60) for each in asked)


def test_who_waits_for_a_source_that_goes_is_told(stage: Stage) -> None:
    source = stage.add(Upstream({0: ["a"]}, fault=unreachable()))
    answer = stage.ask(source)
    stage.loop.remove(source.id)
    for each in (answer, stage.ask(source)):
        with pytest.raises(SourceDropped):
            each.result(60)


def test_who_waits_for_a_source_that_fails_is_told_why(stage: Stage) -> None:
    upstream = Upstream({0: ["a", "b"]})
    source = stage.add(upstream)
    stage.ask(source).result(60)
    upstream.partitions[0].pop()
    for _ in range(2):
        with pytest.raises(Exception, match="has gone back upstream"):
            stage.ask(source).result(60)
