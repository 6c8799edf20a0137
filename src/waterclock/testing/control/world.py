"""The server of a simulation, what it stands on, and what befalls it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from random import Random

from waterclock.adapter.api import Notice, Startup
from waterclock.adapter.coordinator import Coordinator, Pace
from waterclock.adapter.front import SqlFront
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.persist.retry import Retry
from waterclock.persist.rows import DIFF, TIME
from waterclock.persist.store import Store
from waterclock.server.wiring import read_text, write_text
from waterclock.storage.api import Progress, ReadCapability, Updates
from waterclock.storage.background import Background
from waterclock.storage.controller import Storage
from waterclock.testing.adapter_world import Client
from waterclock.testing.control.checker import Violation
from waterclock.testing.control.engine import Machine, engine_of
from waterclock.testing.control.history import Definition, History, Row, Rows, Tables
from waterclock.testing.control.ports import Disk, Life, SimulatedBlob, SimulatedLog
from waterclock.testing.control.scheduler import SimulatedRuntime

TABLES = ("t0", "t1")
_MOST_OPENINGS = 200
LONGEST_S = 60.0
"""Nothing takes longer than this, in virtual time: what befalls a server takes a few seconds."""


def _join(tables: Tables) -> Rows:
    return Counter(
        (k, v, w) for k, v in tables["t0"].elements() for n, w in tables["t1"].elements() if k == n
    )


def _sums(tables: Tables) -> Rows:
    keys = {k for k, _ in tables["t0"]}
    return Counter(
        (k, sum(v for n, v in tables["t0"].elements() if n == k), _count(tables, k)) for k in keys
    )


def _count(tables: Tables, key: int) -> int:
    return sum(1 for n, _ in tables["t0"].elements() if n == key)


VIEWS: dict[str, tuple[str, Definition]] = {
    "low": (
        "SELECT k, v FROM t0 WHERE k < 2",
        lambda tables: Counter(row for row in tables["t0"].elements() if row[0] < 2),
    ),
    "sums": ("SELECT k, sum(v) AS s, count(*) AS n FROM t0 GROUP BY k", _sums),
    "pairs": ("SELECT t0.k AS k, t0.v AS v, t1.v AS w FROM t0 JOIN t1 ON t0.k = t1.k", _join),
    "large": (
        "SELECT k, s FROM sums WHERE n > 1",
        lambda tables: Counter((k, s) for k, s, n in _sums(tables).elements() if n > 1),
    ),
}
DEFINITIONS: Mapping[str, Definition] = {name: view for name, (_, view) in VIEWS.items()}
COLUMNS = {"low": "k, v", "sums": "k, s, n", "pairs": "k, v, w", "large": "k, s"}


class Server:
    """One life of the server, over the disk."""

    def __init__(self, world: World, number: int) -> None:
        """Recover what is durable. Blocks; raises what recovery finds wrong."""
        self.life = Life(world.on_death)
        disk, runtime = world.disk, world.runtime
        self._runtime = runtime
        self.store = Store.open(
            SimulatedBlob(disk, self.life),
            SimulatedLog(disk, self.life),
            f"owner-{number}",
            Retry(world.attempts, sleep=self._pause),
            runtime=runtime,
        )
        self.storage = Storage(self.store)
        self._background = Background(self.storage.maintain, lambda: self.store.has_failed, runtime)
        try:
            self.core = Coordinator(
                self.storage,
                self.store,
                None,
                Path("/nowhere"),
                world.pace,
                engine=engine_of(world.machine),
            )
        except BaseException:
            self._background.stop()
            self.storage.close()
            raise
        self.front = SqlFront(self.core, read_text, write_text)

    def _pause(self, seconds: float) -> None:
        """Between two attempts to reach the disk; none for a server that is dead anyway."""
        self._runtime.sleep(0 if self.life.is_over else seconds)

    def close(self) -> None:
        """End it. One that has lost its disk can not say good-bye to it."""
        if self.life.is_over or self.store.has_failed:
            with suppress(WaterclockError):
                self.core.close()
        else:
            self.core.close()
        self._background.stop()
        self.storage.close()


class World(logging.Handler):
    """Everything there is in one simulation."""

    def __init__(self, random: Random, runtime: SimulatedRuntime) -> None:
        super().__init__(logging.ERROR)
        self.random = random
        self.runtime = runtime
        self.disk = Disk(random, runtime)
        self.machine = Machine(self.disk, random)
        self.history = History()
        self.pace = Pace(
            tick_ms=random.choice([50, 200, 1000]),
            retain_ms=random.choice([0, 500, 5000]),
            patience_s=0.2,
        )
        self.attempts = random.choice([4, 12])
        """How often a server tries to reach its disk."""
        self.server: Server | None = None
        self.is_ready = asyncio.Event()
        self.has_died = asyncio.Event()
        self.is_ending = False
        self.connections: dict[asyncio.Task[None], None] = {}
        self.kept: dict[str, ReadCapability] = {}
        """For each table a hold on all of its history, for the judge."""
        self.complaints: list[str] = []
        self._loop = asyncio.get_running_loop()
        self._opened = 0
        self._pids = 0
        self._fresh = 0

    def tell(self, what: str) -> None:
        """Add a line to the log of what happened."""
        self.history.log.append(f"{self.runtime.monotonic_s():9.4f} {what}")

    def fresh(self) -> int:
        """A number that was not given before."""
        self._fresh += 1
        return self._fresh

    def emit(self, record: logging.LogRecord) -> None:
        """An error in the server's log."""
        told = record.getMessage()
        self.tell(f"LOG {record.name}: {told}")
        error = record.exc_info[1] if record.exc_info else None
        if self._is_explained(error):
            return
        trace = f"\n{logging.Formatter().formatException(record.exc_info)}" if error else ""  # type: ignore[arg-type]
        self.complain(f"the server's log says: {told}{trace}")

    def _is_explained(self, error: BaseException | None) -> bool:
        """Whether an error in the log comes from what was done to the world."""
        server = self.server
        if server is None or server.life.is_over or server.store.has_failed:
            return True
        return isinstance(error, WaterclockError) and error.sqlstate in ("58000", "58030")

    def complain(self, what: str) -> None:
        """Something is wrong; the simulation fails at its end, or as soon as somebody looks."""
        self.complaints.append(what)

    # The server

    async def open(self) -> Server:
        """Have a server that works."""
        for _ in range(_MOST_OPENINGS):
            self._opened += 1
            try:
                server = await asyncio.to_thread(Server, self, self._opened)
            except WaterclockError as error:
                self.tell(f"server {self._opened} does not open: {error}")
                await asyncio.sleep(self.random.random())
                continue
            self.tell(f"server {self._opened} opens")
            self.history.counts["opened"] += 1
            self.server = server
            self.has_died.clear()
            self.is_ready.set()
            return server
        raise Violation("nobody can open the data")

    def on_death(self) -> None:
        """From any thread."""
        self.tell("the server dies")
        self.history.counts["died"] += 1
        self._loop.call_soon_threadsafe(self.has_died.set)

    async def bury(self) -> None:
        """Close the server, after the connections have gone."""
        server = self.server
        assert server is not None
        self.is_ready.clear()
        for task in list(self.connections):
            task.cancel()
        if self.connections:
            await asyncio.wait(list(self.connections))
        await self.close_server()

    async def close_server(self) -> None:
        """Close the server, which must not take long."""
        server = self.server
        assert server is not None
        self.is_ready.clear()
        try:
            async with asyncio.timeout(LONGEST_S):
                await server.front.settle()
                await asyncio.to_thread(server.close)
        except TimeoutError:
            raise Violation("the server does not close") from None
        self.tell("the server is closed")
        self.server = None

    async def settled(self) -> None:
        """Wait until no change of the catalog is under way."""
        if self.server is not None:
            await self.server.front.settle()

    async def connect(self) -> Client:
        """A session of the server that is there."""
        assert self.server is not None
        self._pids += 1
        notices: list[Notice] = []
        startup = Startup("waterclock", "waterclock", {}, None, self._pids)
        return Client(await self.server.front.connect(startup, notices.append), notices)

    def durable(self) -> dict[str, list[tuple[Row, int, int]]]:
        """All updates of the tables since they are there. Blocks."""
        assert self.server is not None
        return {name: _updates(self.server.storage, kept) for name, kept in self.kept.items()}

    def keep_history(self, table: str, collection: GlobalId) -> None:
        """Hold all history of a table. Blocks."""
        assert self.server is not None
        reader, _ = self.server.storage.acquire_capabilities(collection, write=False)
        self.kept[table] = reader


def _updates(storage: Storage, kept: ReadCapability) -> list[tuple[Row, int, int]]:
    found: list[tuple[Row, int, int]] = []
    subscription = storage.subscribe_at(kept)
    while True:
        match subscription.receive(0):
            case Updates(batch):
                names = [name for name in batch.schema.names if name not in (TIME, DIFF)]
                columns = [batch.column(name).to_pylist() for name in names]
                times = batch.column(TIME).to_pylist(), batch.column(DIFF).to_pylist()
                found += zip(zip(*columns, strict=True), *times, strict=True)
            case Progress():
                continue
            case None:
                break
    subscription.close()
    return found
