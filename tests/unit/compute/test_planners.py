"""Whoever waits for a plan can be told to stop; with a JVM that only has threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from waterclock.compute.live_session import Incarnation
from waterclock.compute.planners import (
    Planners,
    Planning,
    PlanningCancelled,
    PlanningTooLong,
)
from waterclock.errors import EngineDown

WAIT_S = 60.0


class JavaThread:
    """What PySpark's threads are in the JVM."""

    def __init__(self) -> None:
        self.interrupted = threading.Event()

    def interrupt(self) -> None:
        self.interrupted.set()


class Jvm:
    """Implements `SparkSession.sparkContext._jvm.java.lang.Thread`."""

    def __init__(self) -> None:
        self.sparkContext = self._jvm = self.java = self.lang = self.Thread = self
        self._own = threading.local()

    def currentThread(self) -> JavaThread:
        if not hasattr(self._own, "thread"):
            self._own.thread = JavaThread()
        thread: JavaThread = self._own.thread
        return thread

    def interrupted(self) -> bool:
        was = self.currentThread().interrupted.is_set()
        self.currentThread().interrupted.clear()
        return was


class Engine:
    """One life of an engine, and planners for it."""

    def __init__(self, timeout_s: float = WAIT_S) -> None:
        self.jvm = Jvm()
        self.is_dead = False
        self.incarnation = Incarnation(1, cast(Any, self.jvm), lambda: self.is_dead)
        self.stuck: list[str] = []
        self.planners = Planners(timeout_s, self.stuck.append)
        self.gate = threading.Event()

    def hang(self) -> str:
        """Plans until the thread is interrupted."""
        assert self.jvm.currentThread().interrupted.wait(WAIT_S)
        raise RuntimeError("interrupted")

    def ignore(self) -> str:
        """Plans for long, whoever interrupts it."""
        assert self.gate.wait(WAIT_S)
        return "late"

    def give_up_one(self, work: Any) -> None:
        """Begin to plan something, and give it up."""
        planning, began = Planning(), threading.Event()

        def noted() -> str:
            began.set()
            result: str = work()
            return result

        def wait() -> None:
            with pytest.raises(PlanningCancelled):
                self.planners.plan(self.incarnation, noted, planning)

        waiting = threading.Thread(target=wait)
        waiting.start()
        assert began.wait(WAIT_S)
        assert self.planners.give_up(planning, PlanningCancelled("enough"))
        waiting.join(WAIT_S)
        assert not waiting.is_alive()


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine()
    yield made
    made.gate.set()
    made.planners.close()


def test_what_is_planned_is_given(engine: Engine) -> None:
    assert engine.planners.plan(engine.incarnation, lambda: "plan") == "plan"
    with pytest.raises(ZeroDivisionError):
        engine.planners.plan(engine.incarnation, lambda: 1 // 0)


def test_a_plan_that_is_given_up_is_interrupted_and_holds_nothing(engine: Engine) -> None:
    for _ in range(40):
        engine.give_up_one(engine.hang)
    assert engine.planners.plan(engine.incarnation, lambda: "plan") == "plan"
    assert not engine.stuck


def test_an_interrupt_does_not_reach_what_the_thread_does_next(engine: Engine) -> None:
    engine.give_up_one(engine.hang)
    for _ in range(20):
        interrupted = engine.planners.plan(
            engine.incarnation, lambda: engine.jvm.currentThread().interrupted.is_set()
        )
        assert not interrupted


def test_others_plan_while_some_hang_and_too_many_are_told(engine: Engine) -> None:
    for _ in range(8):
        engine.give_up_one(engine.ignore)
        assert engine.planners.plan(engine.incarnation, lambda: "plan") == "plan"
    assert not engine.stuck
    engine.give_up_one(engine.ignore)
    assert engine.stuck == ["9 statements that were given up are still being planned"]


def test_a_plan_that_takes_too_long_is_an_error_that_names_the_setting() -> None:
    engine = Engine(timeout_s=0.05)
    try:
        with pytest.raises(PlanningTooLong) as caught:
            engine.planners.plan(engine.incarnation, engine.ignore)
        assert "plan_timeout" in (caught.value.hint or "")
    finally:
        engine.gate.set()
        engine.planners.close()


def test_an_engine_that_goes_ends_the_plan(engine: Engine) -> None:
    def die() -> str:
        engine.is_dead = True
        raise RuntimeError("whatever PySpark says of it")

    with pytest.raises(EngineDown):
        engine.planners.plan(engine.incarnation, die)


def test_what_nobody_waits_for_any_more_is_not_begun(engine: Engine) -> None:
    planning = Planning()
    assert engine.planners.give_up(planning, PlanningCancelled("enough"))
    with pytest.raises(PlanningCancelled):
        engine.planners.plan(engine.incarnation, lambda: "plan", planning)
