"""One simulation: from a seed to a verdict.

A world is made and filled; clients run their transactions while things befall the server; then the
world is calm, and everything has to come to rest: the server idle, healthy and able to do
everything, nothing held, nobody waited for. It is closed, opened once more and read to the end, and
the checker judges what everybody was told all along.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import secrets
import socket
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from random import Random
from typing import NoReturn
from unittest import mock

from waterclock.adapter.coordinator import Coordinator
from waterclock.catalog.objects import Table
from waterclock.model.ids import GlobalId
from waterclock.runtime import Runtime
from waterclock.testing.control.checker import Violation, check
from waterclock.testing.control.clients import ClientLife
from waterclock.testing.control.engine import without_jvm
from waterclock.testing.control.history import History
from waterclock.testing.control.loop import SimulatedLoop
from waterclock.testing.control.scheduler import Scheduler, SimulatedRuntime
from waterclock.testing.control.world import DEFINITIONS, LONGEST_S, TABLES, VIEWS, World

_MOST_AWAITS = 50
_MOST_BLOWS = 30
_OF_THE_SYSTEM = [name for name in vars(Runtime) if not name.startswith("_")]


class SimulationFailed(AssertionError):
    """A simulation went wrong. Its seed gives it again."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much happens."""

    clients: int = 5
    transactions: int = 8
    """Of each client."""


USUAL = Size()


def simulate(
    seed: int,
    size: Size = USUAL,
    *,
    plant: Callable[[World], None] = lambda _world: None,
) -> History:
    """Live through the seed's simulation. Raises `SimulationFailed`.

    `plant` may put a fault into each server's world, for tests of the simulation itself.
    """
    random = Random(seed)
    scheduler = Scheduler(random, random.choice([0.0, 0.05, 0.3]))
    runtime = SimulatedRuntime(scheduler)
    loop = SimulatedLoop(scheduler)
    worlds: list[World] = []

    async def everything() -> None:
        with ExitStack() as stack:
            stack.enter_context(_nobody_asks_the_system())
            world = World(random, runtime)
            worlds.append(world)
            stack.enter_context(without_jvm())
            stack.enter_context(_heard_by(world))
            plant(world)
            await _Simulation(world, size).run()

    collects = gc.isenabled()
    gc.disable()
    try:
        with _named_by(Random(-1 - seed)):
            loop.run_until_complete(everything())
    except Exception as error:
        log = worlds[0].history.log if worlds else []
        tail = "\n".join(f"  {line}" for line in log[-25:])
        raise SimulationFailed(
            f"seed {seed} failed: {error!r}\n{error}\nthe end of its history:\n{tail}\n"
            f"replay: python -m waterclock.testing.control {seed}"
            f" --clients {size.clients} --transactions {size.transactions}"
        ) from error
    finally:
        with _silence():
            scheduler.shut_down()
            _forget_tasks(loop)
        loop.close()
        for world in worlds:
            world.machine.close()
        if collects:
            gc.enable()
    history = worlds[0].history
    history.counts["switches"] = scheduler.switches
    return history


class _Simulation:
    def __init__(self, world: World, size: Size) -> None:
        self._world = world
        self._size = size
        self._random = world.random

    async def run(self) -> None:
        world = self._world
        await self._found()
        clients = [
            ClientLife(world, f"c{n}", self._size.transactions, is_victim=n % 2 == 0)
            for n in range(self._size.clients)
        ]
        befalling = asyncio.create_task(self._befall())
        keeping = asyncio.create_task(self._keep_a_server())
        working = asyncio.create_task(_all(clients))
        watching = asyncio.create_task(self._see_progress())
        tasks = [befalling, keeping, watching, working]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
        await _stop(watching)
        await _stop(befalling)
        self._calm()
        await self._have_a_living_server()
        await _stop(keeping)
        self._fail_if_complained()
        await self._come_to_rest()
        self._fail_if_complained()
        await world.close_server()
        await world.open()
        await self._judge("after the last start")
        durable = await asyncio.to_thread(world.durable)
        await world.close_server()
        self._fail_if_complained()
        check(world.history, durable, DEFINITIONS)

    # The beginning

    async def _found(self) -> None:
        """Tables and views, in a world in which nothing fails."""
        world = self._world
        rates = world.disk.failure_rate, world.machine.failure_rate
        world.disk.failure_rate = world.machine.failure_rate = 0.0
        server = await world.open()
        client = await world.connect()
        for table in TABLES:
            await client.one(f"CREATE TABLE {table} (k int, v int)")
            [item] = [i for i in server.core.current.items() if i.name == table]
            await asyncio.to_thread(world.keep_history, table, item.id)
        for view, (text, _) in VIEWS.items():
            await client.one(f"CREATE MATERIALIZED VIEW {view} AS {text}")
        await client.session.terminate()
        world.disk.failure_rate, world.machine.failure_rate = rates

    # What befalls the world

    async def _befall(self) -> None:
        world, random = self._world, self._random
        blows = random.sample(
            [
                self._kill,
                self._kill,
                self._slow_disk,
                self._full_disk,
                self._stop_engine,
                self._slow_engine,
                self._lose_state,
                self._turn_clock,
            ],
            random.randint(0, 4),
        )
        for _ in range(random.randint(1, _MOST_BLOWS) if blows else 0):
            await asyncio.sleep(random.random() * random.choice([0.05, 0.5]))
            if world.is_ready.is_set():
                random.choice(blows)()
        await asyncio.Event().wait()

    def _kill(self) -> None:
        """The server dies in one of its next appends, or at once."""
        assert self._world.server is not None
        life = self._world.server.life
        if self._random.random() < 0.2:
            life.end()
        elif life.appends_left is None:
            life.dies_after_effect = self._random.random() < 0.5
            life.appends_left = self._random.randint(1, 30)

    def _slow_disk(self) -> None:
        self._world.disk.slow_until = self._soon()

    def _full_disk(self) -> None:
        self._world.disk.full_until = self._soon()

    def _stop_engine(self) -> None:
        self._world.machine.dead_until = self._soon()

    def _slow_engine(self) -> None:
        self._world.machine.slow_until = self._soon()

    def _lose_state(self) -> None:
        state = self._world.disk.state
        if state:
            del state[self._random.choice(list(state))]

    def _turn_clock(self) -> None:
        self._world.runtime.wall_offset_s += self._random.choice([-2.0, -0.1, 0.3, 5.0])

    def _soon(self) -> float:
        return self._world.runtime.monotonic_s() + self._random.random() * 2

    def _calm(self) -> None:
        world = self._world
        now = world.runtime.monotonic_s()
        world.disk.slow_until = world.disk.full_until = now
        world.machine.dead_until = world.machine.slow_until = now
        world.disk.failure_rate = world.machine.failure_rate = 0.0
        if world.server is not None:
            world.server.life.appends_left = None

    async def _keep_a_server(self) -> None:
        """Whenever the server has died, or has given up, another one is started."""
        world = self._world
        while True:
            died = asyncio.create_task(world.has_died.wait())
            try:
                while not died.done() and not (world.server and world.server.store.has_failed):
                    await asyncio.wait([died], timeout=0.2)
            finally:
                died.cancel()
            await world.bury()
            await asyncio.sleep(self._random.random() * 0.2)
            await world.open()

    async def _see_progress(self) -> None:
        """Nobody waits for ever: whatever befalls the server takes a few seconds only."""
        history = self._world.history
        while True:
            before = history.last_moment
            await asyncio.sleep(LONGEST_S)
            if history.last_moment == before:
                waiting = [str(each) for each in history.transactions if each.ended is None]
                raise Violation("nobody gets on:\n" + "\n".join(waiting[-8:]))

    async def _have_a_living_server(self) -> None:
        world = self._world
        async with asyncio.timeout(LONGEST_S):
            while True:
                await world.is_ready.wait()
                server = world.server
                if server and not (server.life.is_over or server.store.has_failed):
                    return
                await asyncio.sleep(0.5)

    # The end

    async def _come_to_rest(self) -> None:
        """All that anybody can do works, and then nothing is left of it."""
        world = self._world
        try:
            async with asyncio.timeout(LONGEST_S):
                await self._judge("when all was calm")
                await self._define_something()
                while (left := self._left()) != "":
                    await asyncio.sleep(0.5)
        except TimeoutError:
            raise Violation(
                f"the server does not come to rest: {self._left() or 'it hangs'}"
            ) from None
        del left
        assert world.server is not None

    async def _judge(self, when: str) -> None:
        """A client that reads and writes everything; what it sees is checked like the rest."""
        world = self._world
        world.tell(f"the judge, {when}")
        judge = ClientLife(world, f"judge {when}", 0, is_victim=False)
        await judge.use_everything()

    async def _define_something(self) -> None:
        client = await self._world.connect()
        await client.one("CREATE TABLE last (k int)")
        await client.one("INSERT INTO last VALUES (1)")
        await client.one("CREATE MATERIALIZED VIEW last_view AS SELECT k FROM last")
        if await client.rows("SELECT k FROM last_view") != [(1,)]:
            raise Violation("a new view is wrong")
        await client.one("DROP TABLE last CASCADE")
        for text in ("SELECT k FROM last", "SELECT k FROM last_view"):
            error = await client.fails(text)
            if error.sqlstate != "42P01":
                raise Violation(f"what was dropped is still there: {error}")
        await client.session.terminate()

    def _left(self) -> str:
        """What has not come to rest."""
        server = self._world.server
        assert server is not None
        front, core = server.front, server.core
        left = []
        if front.sessions:
            left.append(f"{front.sessions} sessions")
        if core.holds._open:
            left.append(f"holds on {[hold.times for hold in core.holds._open]}")
        if core.tables._queue or core.tables._arriving:
            left.append("writes to tables")
        if server.store._committer._queue:
            left.append("commits")
        if not front.changes.is_idle:
            left.append("changes of the catalog")
        writers, tables = set(core.tables._writers), _tables_of(server.core)
        if writers != tables:
            left.append(f"writers of {writers ^ tables}")
        return ", ".join(left)

    def _fail_if_complained(self) -> None:
        if self._world.complaints:
            raise Violation("\n".join(self._world.complaints))


def _tables_of(core: Coordinator) -> set[GlobalId]:
    return {item.id for item in core.current.items() if isinstance(item, Table)}


@contextmanager
def _silence() -> Iterator[None]:
    """Threads that are ended in the middle of something have nothing to say."""
    logging.disable(logging.CRITICAL)
    try:
        with mock.patch.object(sys, "unraisablehook"):
            yield
    finally:
        logging.disable(logging.NOTSET)


def _forget_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Close what a simulation that has failed leaves in its loop, without a word."""
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        for _ in range(_MOST_AWAITS):
            try:
                task.get_coro().close()
            except RuntimeError:
                continue  # it waits for something in its `finally`
            except BaseException:
                pass
            break


async def _all(clients: Sequence[ClientLife]) -> None:
    await asyncio.gather(*(client.run() for client in clients))


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()


@contextmanager
def _heard_by(world: World) -> Iterator[None]:
    """The world hears what the server logs as an error, and nobody else does."""
    logger = logging.getLogger("waterclock")
    propagates = logger.propagate
    logger.addHandler(world)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(world)
        logger.propagate = propagates


@contextmanager
def _nobody_asks_the_system() -> Iterator[None]:
    """Whoever was not given the runtime of the simulation and takes the system's is found out."""

    def refused(*_: object) -> NoReturn:
        raise AssertionError("somebody takes the system's clock or threads in a simulation")

    with ExitStack() as stack:
        for name in _OF_THE_SYSTEM:
            stack.enter_context(mock.patch.object(Runtime, name, refused))
        yield


@contextmanager
def _named_by(random: Random) -> Iterator[None]:
    """Names that would be random come from the generator."""

    def token_hex(count: int) -> str:
        return f"{random.getrandbits(8 * count):0{2 * count}x}"

    def uuid4() -> uuid.UUID:
        return uuid.UUID(int=random.getrandbits(128))

    with (
        mock.patch.object(secrets, "token_hex", token_hex),
        mock.patch.object(uuid, "uuid4", uuid4),
        mock.patch.object(socket, "gethostname", return_value="host"),
        mock.patch.object(os, "getpid", return_value=1),
    ):
        yield
