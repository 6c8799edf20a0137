"""An engine is watched and replaced; with engines that only say what they are asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from waterclock.compute.live_session import LiveSession
from waterclock.errors import EngineDown
from waterclock.server.engine_keeper import EngineKeeper
from waterclock.server.engine_life import Policy
from waterclock.server.engine_process import EngineProcess

WAIT_S = 60.0


class Fake:
    """An engine that dies when it is told to."""

    def __init__(self) -> None:
        self.spark = cast(Any, self)
        self.ended = threading.Event()
        self.killed = threading.Event()
        self.stopped = threading.Event()
        self.serves = True
        self.hangs: threading.Event | None = None

    def wait(self, timeout_s: float) -> bool:
        return self.ended.wait(min(timeout_s, 0.02))

    def has_ended(self) -> bool:
        return self.ended.is_set()

    def is_serving(self) -> bool:
        if self.hangs is not None:
            assert self.hangs.wait(WAIT_S)
            raise ConnectionError("the JVM has gone")
        return self.serves

    def stop(self) -> None:
        self.stopped.set()
        self.ended.set()

    def kill(self) -> None:
        self.killed.set()
        self.ended.set()
        if self.hangs is not None:
            self.hangs.set()


class World:
    """A keeper, the engines that it has started, and what it has told."""

    def __init__(self, policy: Policy, *, can_restart: bool = True) -> None:
        self.live = LiveSession()
        self.engines = [Fake()]
        self.failures = 0
        self.given_up: list[str] = []
        self.over = threading.Event()
        self.changed = threading.Event()
        self.keeper = EngineKeeper(
            self.live,
            cast(EngineProcess, self.engines[0]),
            self.launch if can_restart else None,
            policy,
            given_up=self.give_up,
        )
        self.live.watch(self.changed.set)
        self.keeper.begin()

    def launch(self) -> EngineProcess:
        if self.failures:
            self.failures -= 1
            raise OSError("no more processes")
        self.engines.append(Fake())
        return cast(EngineProcess, self.engines[-1])

    def give_up(self, why: str) -> None:
        self.given_up.append(why)
        self.over.set()

    def await_engine(self, number: int) -> Fake:
        """Wait until there is that engine, counted from 1."""
        while self.keeper.starts < number or not self.live.is_up:
            assert self.changed.wait(WAIT_S)
            self.changed.clear()
        return self.engines[-1]


@pytest.fixture
def worlds() -> Iterator[list[World]]:
    made: list[World] = []
    yield made
    for world in made:
        world.keeper.close()


def world_of(worlds: list[World], policy: Policy, **options: Any) -> World:
    worlds.append(World(policy, **options))
    return worlds[-1]


def test_a_dead_engine_is_replaced_and_what_it_left_is_removed(worlds: list[World]) -> None:
    world = world_of(worlds, Policy())
    before = world.live.current()
    world.engines[0].ended.set()
    fresh = world.await_engine(2)
    assert before.is_over
    assert world.engines[0].killed.is_set()
    assert world.live.current().spark is fresh.spark
    assert world.live.current().number != before.number
    assert (world.keeper.starts, world.keeper.deaths) == (2, 1)


def test_death_shows_before_anybody_has_acted(worlds: list[World]) -> None:
    world = world_of(worlds, Policy())
    current = world.live.current()
    current.spark.ended.set()
    assert current.is_over, "whoever asks is told at once"


def test_an_engine_that_does_not_answer_is_ended(worlds: list[World]) -> None:
    world = world_of(worlds, Policy(silence_s=0.2))
    world.engines[0].hangs = threading.Event()
    world.await_engine(2)
    assert world.engines[0].killed.is_set()


def test_an_engine_without_its_context_is_none(worlds: list[World]) -> None:
    world = world_of(worlds, Policy())
    world.engines[0].serves = False
    world.await_engine(2)
    assert world.engines[0].killed.is_set()


def test_an_engine_that_is_condemned_goes(worlds: list[World]) -> None:
    world = world_of(worlds, Policy())
    world.keeper.condemn("too many plans")
    world.await_engine(2)
    assert world.engines[0].killed.is_set()


def test_after_several_deaths_it_is_given_up_once(worlds: list[World]) -> None:
    world = world_of(worlds, Policy(deaths=2))
    world.engines[0].ended.set()
    world.await_engine(2).ended.set()
    assert world.over.wait(WAIT_S)
    assert world.given_up == ["the engine has died 2 times within 300 s"]
    with pytest.raises(EngineDown):
        world.live.current()


def test_starts_that_fail_count(worlds: list[World]) -> None:
    world = world_of(worlds, Policy(deaths=2))
    world.failures = 100
    world.engines[0].ended.set()
    assert world.over.wait(WAIT_S)
    assert len(world.engines) == 1


def test_without_a_way_to_start_one_the_death_is_told_and_nothing_is_ended(
    worlds: list[World],
) -> None:
    world = world_of(worlds, Policy(), can_restart=False)
    world.engines[0].ended.set()
    while world.live.is_up or world.keeper.deaths == 0:
        world.changed.wait(0.01)
    assert not world.engines[0].killed.is_set()
    with pytest.raises(EngineDown) as caught:
        world.live.current()
    assert caught.value.detail == "The engine is gone: its process has ended."


def test_what_uses_an_engine_that_goes_is_told_so() -> None:
    live = LiveSession()
    fake = Fake()
    live.restarted(fake.spark, fake.has_ended)

    def use() -> None:
        with live.using():
            fake.ended.set()
            raise AttributeError("PySpark stumbles over what is not there any more")

    with pytest.raises(EngineDown, match="at work"):
        use()
    with pytest.raises(EngineDown, match="not running"):
        use()


def test_other_errors_stay_what_they_are() -> None:
    live = LiveSession.of(cast(Any, None))
    with pytest.raises(ValueError, match="of its own"), live.using():
        raise ValueError("of its own")
    with pytest.raises(EngineDown), live.using():
        raise ConnectionResetError


def test_closing_ends_the_engine(worlds: list[World]) -> None:
    world = world_of(worlds, Policy())
    world.keeper.close()
    assert world.engines[0].stopped.is_set()
