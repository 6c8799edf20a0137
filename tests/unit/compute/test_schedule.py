"""Who advances with whom, and in which thread; with groups that only say what they are asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import pytest

from waterclock.compute.maintained import Group, View
from waterclock.compute.schedule import Schedule
from waterclock.errors import EngineDown
from waterclock.model.ids import GlobalId
from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.errors import Damaged

ORDERS, PEOPLE = GlobalId.user(1), GlobalId.user(2)


class NamedView:
    def __init__(self, number: int, *reads: GlobalId) -> None:
        self.name = GlobalId.user(100 + number)
        self.reads = reads


class State:
    """A dataflow that has begun and keeps nothing."""

    def __init__(self) -> None:
        self.has_begun = True
        self.arrangements: Mapping[str, Arrangement] = {}
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Told:
    """A group that notes in which thread it has advanced."""

    is_loaded = False
    """Whether it has much to take in."""

    def __init__(self, views: Sequence[NamedView], upper: int = 5, *, quiet: bool = False) -> None:
        self.views = views
        self.upper = upper
        self.is_quiet = quiet
        self.is_changed = False
        self.is_refused = False
        """Whether its outputs can not be written."""
        self.is_finished = self.is_owing = False
        self.since = 0
        self.dataflow = State()
        self.received = 0
        self.threads: list[int] = []
        self.waits_for: threading.Event | None = None

    @property
    def reads(self) -> frozenset[GlobalId]:
        return frozenset(each for view in self.views for each in view.reads)

    @property
    def writes(self) -> frozenset[GlobalId]:
        return frozenset(view.name for view in self.views)

    def receive(self) -> None:
        self.received += 1

    def must_part(self) -> bool:
        return False

    def has_only_to_move(self) -> bool:
        return not self.is_changed

    def advance(self) -> bool:
        if self.waits_for is not None:
            assert self.waits_for.wait(120)
        self.threads.append(threading.get_ident())
        return True

    def release_inputs(self) -> None:
        pass


def grouping(views: Sequence[View], upper: int, opened: Mapping[str, Arrangement]) -> Group:
    assert not opened
    return cast(Group, Told(cast(Any, views), upper))


def move_on(groups: Sequence[Group]) -> list[bool]:
    """Each goes on, if all of them can: it is one write."""
    told = [cast(Told, group) for group in groups]
    if any(group.is_refused for group in told):
        raise RuntimeError("no longer allowed to write")
    return [group.advance() for group in told]


@pytest.fixture
def schedule(monkeypatch: pytest.MonkeyPatch) -> Iterator[Schedule]:
    monkeypatch.setattr("waterclock.compute.schedule.REGROUP_S", 0.0)

    def never(_view: View) -> Group:
        raise AssertionError("no view is opened anew here")

    made = Schedule(grouping, move_on, lambda _view: None, never, release_s=60)
    yield made
    made.close()


def add(schedule: Schedule, group: Told) -> Told:
    for view in group.views:
        schedule.add(view.name, cast(Group, group))
    return group


def settled(schedule: Schedule) -> list[int]:
    """How large the groups are, once nothing more is put together."""
    known = -1
    while known != len(schedule.groups):
        known = len(schedule.groups)
        schedule.tick(None)
        while not schedule.is_settled:
            time.sleep(0.001)
    return sorted(len(group) for group in schedule.groups)


def test_groups_that_read_the_same_are_put_together_at_once(schedule: Schedule) -> None:
    many = [add(schedule, Told([NamedView(number, ORDERS)])) for number in range(20)]
    add(schedule, Told([NamedView(20, PEOPLE)]))
    add(schedule, Told([NamedView(21, ORDERS)], upper=4))
    schedule.tick(None)
    while not schedule.is_settled:
        time.sleep(0.001)
    assert sorted(len(group) for group in schedule.groups) == [*[1] * 6, 16]
    assert [group.dataflow.is_closed for group in many] == [True] * 16 + [False] * 4
    assert settled(schedule) == [1, 1, 4, 16]


def test_what_reads_with_one_of_a_group_joins_the_group(schedule: Schedule) -> None:
    add(schedule, Told([NamedView(0, ORDERS)]))
    add(schedule, Told([NamedView(1, ORDERS), NamedView(2, PEOPLE)]))
    add(schedule, Told([NamedView(3, PEOPLE)]))
    assert settled(schedule) == [4]


def test_a_view_is_never_put_together_with_what_it_reads(schedule: Schedule) -> None:
    """It would wait for itself."""
    first, beside = NamedView(0, ORDERS), NamedView(1, ORDERS)
    over = NamedView(2, first.name, ORDERS)
    for view in (first, over, beside):
        add(schedule, Told([view]))
    settled(schedule)
    assert {first.name, beside.name} in schedule.groups
    assert {over.name} in schedule.groups


def test_no_two_groups_read_of_one_another(schedule: Schedule) -> None:
    first, other = NamedView(0, ORDERS), NamedView(1, PEOPLE)
    over_first, over_other = NamedView(2, first.name, PEOPLE), NamedView(3, other.name, ORDERS)
    for view in (first, over_other, other, over_first):
        add(schedule, Told([view]))
    assert settled(schedule) == [1, 1, 1, 1]


def test_quiet_groups_share_a_thread_and_wait_for_nobody(schedule: Schedule) -> None:
    """One that has something to do after all gets a thread, and the others go on meanwhile."""
    groups = [
        add(schedule, Told([NamedView(number, GlobalId.user(number))], quiet=True))
        for number in range(1, 6)
    ]
    slow, *quick = groups
    slow.is_changed = True
    slow.waits_for = threading.Event()

    def release() -> None:
        while not all(group.threads for group in quick):
            time.sleep(0.001)
        assert slow.waits_for is not None
        slow.waits_for.set()

    releasing = threading.Thread(target=release)
    releasing.start()
    assert schedule.tick(120)
    releasing.join()
    assert len({group.threads[0] for group in quick}) == 1
    assert len(slow.threads) == 1
    assert [group.received for group in quick] == [1] * 4, "once for each step"


def test_many_that_begin_do_not_hold_back_those_that_have_begun(schedule: Schedule) -> None:
    gate = threading.Event()
    fresh = [
        add(schedule, Told([NamedView(number, GlobalId.user(number))])) for number in range(1, 9)
    ]
    for group in fresh:
        group.dataflow.has_begun = False
        group.waits_for = gate
        group.stop = lambda: None  # type: ignore[attr-defined]
    old = add(schedule, Told([NamedView(9, ORDERS)]))
    try:
        for _ in range(3):
            schedule.tick(0.05)
            while not schedule.of(old.views[0].name).is_idle:
                time.sleep(0.001)
        assert len(old.threads) == 3
        last = fresh[-1].views[0]
        assert schedule.remove(last.name) is last, "it need not wait for its turn first"
    finally:
        gate.set()
    assert not fresh[-1].threads


def test_a_quiet_group_that_can_not_be_asked_fails_as_any_other(schedule: Schedule) -> None:
    group = add(schedule, Told([NamedView(1, ORDERS)], quiet=True))
    other = add(schedule, Told([NamedView(2, PEOPLE)], quiet=True))

    def refuse() -> None:
        raise RuntimeError("no longer allowed to read")

    group.receive = refuse  # type: ignore[method-assign]
    group.dataflow.check_state = lambda: None  # type: ignore[attr-defined]
    assert schedule.tick(None)
    assert other.threads
    assert schedule.of(group.views[0].name).problem == "no longer allowed to read"


def test_quiet_groups_that_can_not_move_together_are_tried_one_by_one(schedule: Schedule) -> None:
    groups = [
        add(schedule, Told([NamedView(number, GlobalId.user(number))], quiet=True))
        for number in range(1, 4)
    ]
    refused, *others = groups

    def refuse() -> bool:
        raise RuntimeError("no longer allowed to write")

    refused.is_refused = True
    refused.advance = refuse  # type: ignore[method-assign]
    refused.dataflow.check_state = lambda: None  # type: ignore[attr-defined]
    assert schedule.tick(None)
    assert all(len(group.threads) == 1 for group in others)
    assert schedule.of(refused.views[0].name).problem == "no longer allowed to write"


@pytest.mark.parametrize("loaded", [True, False])
def test_a_slow_step_takes_a_group_apart_unless_it_had_much_to_take_in(
    schedule: Schedule, monkeypatch: pytest.MonkeyPatch, loaded: bool
) -> None:
    for number in (1, 2):
        add(schedule, Told([NamedView(number, ORDERS)]))
    assert settled(schedule) == [2]
    monkeypatch.setattr("waterclock.compute.schedule._SLOW_S", -1.0)
    monkeypatch.setattr("waterclock.compute.schedule.REGROUP_S", 600.0)
    monkeypatch.setattr(Told, "is_loaded", loaded)
    schedule.tick(None)
    assert len(schedule.groups) == (1 if loaded else 2)


class Hanging(Told):
    """A group whose steps get nowhere until they are cancelled."""

    def __init__(self, views: Sequence[NamedView]) -> None:
        super().__init__(views)
        self.begun = threading.Semaphore(0)
        self.cancelled = threading.Semaphore(0)
        self.dataflow.progress = lambda: (0, 1)  # type: ignore[attr-defined]
        self.dataflow.cancel = self.cancelled.release  # type: ignore[attr-defined]
        self.dataflow.check_state = lambda: None  # type: ignore[attr-defined]

    def advance(self) -> bool:
        self.begun.release()
        assert self.cancelled.acquire(timeout=120)
        raise RuntimeError("the job was cancelled")


def test_steps_that_hang_are_cancelled_and_in_the_end_the_engine_is_to_blame(
    schedule: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waterclock.compute.schedule._RETRY_S", 0.0)
    group = Hanging([NamedView(1, ORDERS)])
    schedule.add(group.views[0].name, cast(Group, group))
    verdicts = []
    for _ in range(3):
        schedule.tick(0.0)
        assert group.begun.acquire(timeout=120)
        assert schedule.end_hung_steps(3600.0) is None, "it is seen for the first time"
        assert schedule.end_hung_steps(3600.0) is None, "and has all the time that it needs"
        verdicts.append(schedule.end_hung_steps(0.0))
        if verdicts[-1] is not None:
            group.cancelled.release()
        while not schedule.is_settled:
            time.sleep(0.001)
    assert verdicts == [None, None, "a step of u101 hangs whenever it is tried"]
    assert schedule.hung_steps == 3


class Mortal:
    """An engine that is another one after `die` and `rise`."""

    def __init__(self) -> None:
        self.has_engine = True
        self.current: set[int] = set()
        """Groups that were planned in the engine that there is."""
        self.known: list[Told] = []
        """All of them, so that no other gets the place of one that has gone."""
        self.renewals = 0

    def is_current(self, group: Group) -> bool:
        return self.has_engine and id(group) in self.current

    def renewed(self, group: Group) -> Group:
        if not self.has_engine:
            raise EngineDown("the engine is not running")
        self.renewals += 1
        told = cast(Told, group)
        fresh = Told(told.views, told.upper, quiet=told.is_quiet)
        self.keep(fresh)
        return cast(Group, fresh)

    def keep(self, group: Told) -> None:
        self.known.append(group)
        self.current.add(id(group))

    def guarded(self, group: Group) -> AbstractContextManager[object]:
        del group
        return nullcontext()


def test_without_an_engine_only_quiet_groups_move_and_later_all_are_planned_anew() -> None:
    engine = Mortal()
    schedule = Schedule(
        grouping, move_on, lambda _view: None, cast(Any, None), release_s=60, engine=engine
    )
    quiet = add(schedule, Told([NamedView(1, ORDERS)], quiet=True))
    busy = add(schedule, Told([NamedView(2, PEOPLE)]))
    busy.is_changed = True
    for each in (quiet, busy):
        engine.keep(each)
    try:
        engine.has_engine = False
        assert schedule.tick(120)
        assert (len(quiet.threads), len(busy.threads)) == (1, 0)
        engine.has_engine = True
        engine.current.clear()
        assert schedule.tick(120), "each is planned anew"
        assert engine.renewals == 2
        assert busy.dataflow.is_closed
        assert schedule.tick(120)
        fresh = cast(Told, schedule.of(busy.views[0].name).group)
        assert fresh is not busy
        assert fresh.threads
        assert not busy.threads
    finally:
        schedule.close()


def test_what_is_left_of_a_group_is_opened_anew_if_its_state_does_not_fit() -> None:
    reopened: list[NamedView] = []

    def misfit(*_: object) -> Group:
        raise Damaged("the state is that of other operators")

    def reopen(view: View) -> Group:
        reopened.append(cast(NamedView, view))
        return cast(Group, Told([cast(NamedView, view)]))

    schedule = Schedule(misfit, move_on, lambda _view: None, reopen, release_s=60)
    try:
        group = Told([NamedView(n, ORDERS) for n in (1, 2, 3)])
        gone, *rest = group.views
        schedule.add(gone.name, cast(Group, group))
        running = schedule.of(gone.name)
        for view in rest:
            schedule._running[view.name] = running
        assert schedule.remove(gone.name) is gone
        assert reopened == rest
        assert group.dataflow.is_closed
        assert schedule.groups == [{view.name} for view in rest]
        assert schedule.tick(120), "they go on"
    finally:
        schedule.close()


def test_a_step_whose_engine_goes_waits_for_the_next_one(schedule: Schedule) -> None:
    group = add(schedule, Told([NamedView(1, ORDERS), NamedView(2, ORDERS)]))

    def die() -> bool:
        raise EngineDown("the engine stopped while it was at work")

    group.advance = die  # type: ignore[method-assign]
    assert not schedule.tick(120)
    running = schedule.of(group.views[0].name)
    assert running.problem == "the engine stopped while it was at work"
    assert cast(Told, running.group) is group, "it is not taken apart for that"
