"""How soon the server notices what happens to its engine: exact, in simulated time."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, cast

import pytest

from waterclock.compute.live_session import LiveSession
from waterclock.server.engine_keeper import EngineKeeper
from waterclock.server.engine_life import UNANSWERED_S, Policy
from waterclock.server.engine_process import EngineProcess
from waterclock.testing.control.scheduler import Scheduler, SimulatedRuntime

ASK_S = 1.0
"""The engine is asked once a second."""
SWITCHES_S = 0.01
"""What turns of simulated threads take in a test, at most."""


class Engine:
    """An engine in simulated time, which dies or is stopped when the test says so."""

    def __init__(self, runtime: SimulatedRuntime, *, tells_its_end: bool) -> None:
        self.spark = cast(Any, self)
        self.is_dead = False
        self.is_stopped = False
        self._scheduler = runtime.scheduler
        self._tells_its_end = tells_its_end

    def wait(self, timeout_s: float) -> bool:
        if self._tells_its_end:
            return self._scheduler.wait(lambda: self.is_dead, timeout_s)
        self._scheduler.wait(None, timeout_s)
        return self.is_dead

    def has_ended(self) -> bool:
        return self.is_dead

    def is_serving(self) -> bool:
        self._scheduler.wait(lambda: self.is_dead or not self.is_stopped, None)
        if self.is_dead:
            raise ConnectionError("the JVM has gone")
        return True

    def stop(self) -> None:
        self.is_dead = True

    def kill(self) -> None:
        self.is_dead = True


class World:
    """A keeper of simulated engines, and when it told that one is gone or that there is another."""

    def __init__(self, seed: int, policy: Policy, *, tells_its_end: bool = True) -> None:
        self.random = Random(seed)
        self.scheduler = Scheduler(self.random, 0.3)
        self.runtime = SimulatedRuntime(self.scheduler)
        self.live = LiveSession()
        self._tells_its_end = tells_its_end
        self.engines = [self.engine()]
        self.changed_at: list[float] = []
        self.keeper = EngineKeeper(
            self.live,
            cast(EngineProcess, self.engines[0]),
            self.launch,
            policy,
            runtime=self.runtime,
        )
        self.live.watch(lambda: self.changed_at.append(self.scheduler.now))
        self.keeper.begin()
        self.runtime.sleep(5 + 10 * self.random.random())  # it has been watched for a while
        assert not self.changed_at

    def engine(self) -> Engine:
        return Engine(self.runtime, tells_its_end=self._tells_its_end)

    def launch(self) -> EngineProcess:
        self.runtime.sleep(3.0)
        self.engines.append(self.engine())
        return cast(EngineProcess, self.engines[-1])

    @property
    def now(self) -> float:
        return self.scheduler.now

    def wait_until(self, condition: Any, seconds: float) -> float:
        """How long it took until the condition held; fails if it does not come to hold."""
        began = self.now
        while not condition():
            assert self.now - began < seconds
            self.runtime.sleep(0.001)
        return self.now - began


@pytest.fixture
def worlds() -> Iterator[list[World]]:
    made: list[World] = []
    yield made
    for world in made:
        world.keeper.close()
        world.scheduler.shut_down()


def world_of(worlds: list[World], seed: int, policy: Policy, **options: bool) -> World:
    worlds.append(World(seed, policy, **options))
    return worlds[-1]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("tells_its_end", "bound_s"), [(True, 0.0), (False, 1.0)])
def test_a_death_is_noticed_within_a_second(
    worlds: list[World], seed: int, tells_its_end: bool, bound_s: float
) -> None:
    """At once where the kernel tells of it, and otherwise at the next look."""
    world = world_of(worlds, seed, Policy(), tells_its_end=tells_its_end)
    died = world.now
    world.engines[0].is_dead = True
    assert world.keeper.problem is not None, "whoever asks is told at once"
    world.wait_until(lambda: world.changed_at, 60)
    assert world.changed_at[0] - died <= bound_s + SWITCHES_S
    assert world.keeper.problem is not None
    world.wait_until(lambda: world.keeper.problem is None, 60)
    assert world.keeper.starts == 2


@pytest.mark.parametrize("seed", range(10))
def test_an_engine_that_does_not_answer_is_not_ready(worlds: list[World], seed: int) -> None:
    world = world_of(worlds, seed, Policy(silence_s=60.0))
    assert world.keeper.problem is None
    world.engines[0].is_stopped = True
    noticed_s = world.wait_until(lambda: world.keeper.problem is not None, 60)
    assert UNANSWERED_S - ASK_S - SWITCHES_S <= noticed_s <= UNANSWERED_S + SWITCHES_S
    assert "has not answered for 4 s" in str(world.keeper.problem)
    assert world.live.is_up, "what is under way is not lost yet"
    world.runtime.sleep(30)
    assert "has not answered for 34 s" in str(world.keeper.problem)
    world.engines[0].is_stopped = False
    assert world.wait_until(lambda: world.keeper.problem is None, 60) <= SWITCHES_S
    world.runtime.sleep(100)
    assert world.keeper.problem is None
    assert (world.keeper.starts, world.keeper.deaths) == (1, 0)


@pytest.mark.parametrize("seed", range(10))
def test_an_engine_that_is_silent_for_too_long_is_replaced(worlds: list[World], seed: int) -> None:
    world = world_of(worlds, seed, Policy(silence_s=20.0))
    world.engines[0].is_stopped = True
    world.wait_until(lambda: world.keeper.problem is not None, 60)
    gone_s = world.wait_until(lambda: not world.live.is_up, 60)
    assert 20 - UNANSWERED_S - SWITCHES_S <= gone_s <= 20 - UNANSWERED_S + 1 + SWITCHES_S
    world.wait_until(lambda: world.keeper.problem is None, 60)
    assert (world.keeper.starts, world.keeper.deaths) == (2, 1)
