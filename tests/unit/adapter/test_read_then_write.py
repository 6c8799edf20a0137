"""Transactions that read and then write: valid only while nothing that they have read changes.

Sources look at their files when they are asked to by a recent read, unless they never rest.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from waterclock.adapter.coordinator import Pace
from waterclock.errors import WaterclockError
from waterclock.storage.sources.unchanged import SourceChanged
from waterclock.testing.adapter_world import AdapterWorld, Client, SmallEngine, adapter_world
from waterclock.testing.frontiers import frontiers
from waterclock.testing.serial.checker import check
from waterclock.testing.serial.history import (
    Append,
    Kind,
    Listed,
    Operation,
    Outcome,
    Step,
)

SLOW = Pace(tick_ms=600_000, retain_ms=180_000)


class Shore:
    """A world with files, each of them a source, and tables."""

    def __init__(self, world: AdapterWorld, folder: Path, client: Client) -> None:
        self.world = world
        self.folder = folder
        self.client = client

    async def add(self, name: str, interval: str = "10min") -> None:
        (self.folder / name).touch()
        await self.client.run(
            f"CREATE SOURCE {name} FROM FILE '{self.folder / name}' FORMAT TEXT"
            f" WITH (TIMESTAMP INTERVAL = '{interval}')"
        )

    def write(self, name: str, line: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(f"{line}\n")

    async def bring(self, name: str, line: str) -> None:
        """Write a line, and see to it that it is here."""
        self.write(name, line)
        other = await self.world.connect()
        rows = await other.rows(f"SELECT * FROM {name} AS OF UPSTREAM")
        assert (line,) in rows


def on_shore(test: Callable[[Shore], Awaitable[None]]) -> Callable[[Path], None]:
    def run(tmp_path: Path) -> None:
        async def inside() -> None:
            folder = tmp_path / "in"
            folder.mkdir()
            engine = SmallEngine()
            async with adapter_world(tmp_path / "data", pace=SLOW, engine=engine) as world:
                shore = Shore(world, folder, await world.connect())
                await shore.client.run("CREATE TABLE t (a text); CREATE TABLE u (a text)")
                await test(shore)

        asyncio.run(inside())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


READS = (
    "SELECT * FROM lines",
    "SELECT * FROM low",
    "SELECT count(*) FROM lowest",
    "SELECT * FROM lines_progress",
)


@pytest.mark.semantics(87, 99)
@on_shore
async def test_what_a_source_brings_meanwhile_refuses_the_write(shore: Shore) -> None:
    """Whether the source is read, a view over it, or how far it is."""
    client = shore.client
    await shore.add("lines")
    await shore.bring("lines", "first")
    await client.run("CREATE VIEW low AS SELECT text FROM lines WHERE text < 'm'")
    await client.run("CREATE VIEW lowest AS SELECT text FROM low WHERE text < 'c'")
    for number, read in enumerate(READS):
        await client.run("BEGIN")
        await client.run(read)
        await client.run("INSERT INTO t VALUES ('depends')")
        await shore.bring("lines", f"line {number}")
        fault = await client.fails("COMMIT")
        assert fault.sqlstate == "40001", read
        assert await client.rows("SELECT * FROM t") == []


@pytest.mark.semantics(99)
@on_shore
async def test_what_is_wrong_with_a_source_meanwhile_refuses_the_write(shore: Shore) -> None:
    """It has no rows then, and that is a change too."""
    client, other = shore.client, await shore.world.connect()
    (shore.folder / "j").touch()
    await client.run(
        f"CREATE SOURCE j (a int) FROM FILE '{shore.folder / 'j'}' FORMAT JSON"
        " WITH (TIMESTAMP INTERVAL = '10min')"
    )
    shore.write("j", '{"a": 1}')
    assert await client.rows("SELECT * FROM j AS OF UPSTREAM") == [(1,)]
    await client.run("BEGIN; SELECT * FROM j; INSERT INTO t VALUES ('depends')")
    shore.write("j", "no JSON")
    await other.fails("SELECT * FROM j AS OF UPSTREAM")
    assert (await client.fails("COMMIT")).sqlstate == "40001"


@pytest.mark.semantics(87, 99)
@on_shore
async def test_what_other_sources_and_tables_get_refuses_nothing(shore: Shore) -> None:
    client = shore.client
    await shore.add("lines")
    await shore.add("others")
    await shore.bring("lines", "first")
    await client.run("BEGIN; SELECT * FROM lines; INSERT INTO t VALUES ('depends')")
    await shore.bring("others", "line")
    await (await shore.world.connect()).run(
        "INSERT INTO t VALUES ('x'); INSERT INTO u VALUES ('y')"
    )
    await client.run("COMMIT")
    assert sorted(await client.rows("SELECT * FROM t")) == [("depends",), ("x",)]


@pytest.mark.semantics(83, 99)
@on_shore
async def test_between_the_read_and_the_write_the_source_stays_as_it_was(shore: Shore) -> None:
    """At each time up to that of the write, for any reader; what comes then comes later."""
    client = shore.client
    await shore.add("lines")
    await shore.bring("lines", "first")
    await client.run("BEGIN; SELECT * FROM lines")
    shore.write("lines", "not seen yet")
    await client.run("INSERT INTO t VALUES ('depends'); COMMIT")
    written_at = shore.world.core.oracle.read_ts()
    assert await client.rows(f"SELECT * FROM lines AS OF {written_at}") == [("first",)]
    assert await client.rows(f"SELECT * FROM t AS OF {written_at}") == [("depends",)]
    assert await client.rows(f"SELECT * FROM t AS OF {written_at - 1}") == []
    assert len(await client.rows("SELECT * FROM lines AS OF UPSTREAM")) == 2
    assert await client.rows(f"SELECT * FROM lines AS OF {written_at}") == [("first",)]


@pytest.mark.semantics(99)
@on_shore
async def test_a_change_between_the_check_and_the_commit_is_seen(shore: Shore) -> None:
    """The source moves just then: its changes are looked up again, and refuse the write."""
    client, sources = shore.client, shore.world.core.sources
    await shore.add("lines")
    await shore.bring("lines", "first")
    await client.run("BEGIN; SELECT * FROM lines; INSERT INTO t VALUES ('depends')")
    right, asked = sources.unchanged, list[object]()
    [lines] = [each for each in shore.world.core.current.items() if each.name == "lines"]

    def upper() -> int:
        found = frontiers(shore.world.core.store, [lines.id])[lines.id][1].only()
        assert found is not None
        return found

    def just_before(*given: object) -> object:
        plan = right(*given)  # type: ignore[arg-type]
        if not asked:
            asked.append(given)
            before = upper()
            shore.write("lines", "late")
            sources.wake()
            while upper() == before:
                time.sleep(0.001)
        return plan

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "unchanged", just_before)
        assert (await client.fails("COMMIT")).sqlstate == "40001"
    assert asked
    assert await client.rows("SELECT * FROM t") == []


@pytest.mark.semantics(99)
@on_shore
async def test_a_statement_outside_a_block_is_done_again(shore: Shore) -> None:
    """It ends well over a source that brings something all the time, for it waits meanwhile."""
    client = shore.client
    await shore.add("lines", "10ms")
    stop = threading.Event()

    def rain() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            shore.write("lines", f"drop {number}")
            time.sleep(0.002)

    raining = threading.Thread(target=rain)
    raining.start()
    try:
        while len(await client.rows("SELECT * FROM lines")) < 5:
            await asyncio.sleep(0.01)
        for _ in range(10):
            await client.run("INSERT INTO t SELECT text FROM lines WHERE text LIKE 'drop%'")
        for _ in range(5):
            await in_two_steps(client)
    finally:
        stop.set()
        raining.join()
    # Nobody is waited for any more.
    await shore.bring("lines", "after the rain")


async def in_two_steps(client: Client) -> None:
    """A block that takes its time, and is done again when it is refused, by the same client."""
    for _ in range(5):
        await client.run("BEGIN; SELECT count(*) FROM lines")
        await asyncio.sleep(0.1)
        if await is_accepted(client, "INSERT INTO u VALUES ('depends'); COMMIT"):
            return
    raise AssertionError("it is refused again and again")


@pytest.mark.semantics(99)
@on_shore
async def test_as_of_depends_on_nothing(shore: Shore) -> None:
    """What is read as of a time never changes, and the transaction is not at that time."""
    client = shore.client
    await shore.add("lines")
    await shore.bring("lines", "first")
    at = shore.world.core.oracle.read_ts()
    await client.run(f"BEGIN; SELECT * FROM lines AS OF {at}; INSERT INTO t VALUES ('x')")
    await shore.bring("lines", "second")
    await client.run("COMMIT")


def test_both_errors_say_that_it_can_be_tried_again() -> None:
    assert SourceChanged("").sqlstate == "40001"


async def is_accepted(client: Client, text: str) -> bool:
    """Whether a transaction ends well; it may only be refused for what was changed."""
    try:
        await client.run(text)
    except WaterclockError as error:
        if error.sqlstate != "40001":
            raise
        return False
    return True


# Histories


class Clients:
    """Some who append to a table of their own what depends on a source and others' tables, some who
    read everything, and one who writes upstream. Each keeps what it did.
    """

    def __init__(self, shore: Shore, seed: int, until: float) -> None:
        self._shore = shore
        self._random = random.Random(seed)
        self._until = until
        self._lock = threading.Lock()
        self._moment = 0
        self.history: list[Operation] = []

    def now(self) -> int:
        with self._lock:
            self._moment += 1
            return self._moment

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self._until

    def note(
        self, client: str, kind: Kind, steps: list[Step], begun: int, outcome: Outcome = Outcome.OK
    ) -> None:
        ended = self.now()
        with self._lock:
            number = len(self.history) + 1
            made = Operation(number, client, kind, tuple(steps), begun, ended, outcome)
            self.history.append(made)

    def upstream(self) -> None:
        """One line after the other, in a thread of its own."""
        number = 0
        while self.goes_on:
            number += 1
            begun = self.now()
            self._shore.write("lines", str(number))
            self.note("upstream", Kind.UPSTREAM, [Append("file:lines", number)], begun)
            time.sleep(self._random.random() * 0.03)

    async def write(self, name: str, others: list[str]) -> None:
        """Read some, then append to one's own table."""
        client, number = await self._shore.world.connect(), 0
        while self.goes_on:
            begun = self.now()
            number += 1
            await client.run("BEGIN")
            wanted = self._random.sample(["file:lines", *others], 2)
            steps: list[Step] = [await self._listed(client, each) for each in wanted]
            await asyncio.sleep(self._random.random() * 0.01)
            steps.append(Append(f"table:{name}", number))
            is_done = await is_accepted(client, f"INSERT INTO {name} VALUES ('{number}'); COMMIT")
            outcome = Outcome.OK if is_done else Outcome.FAILED
            self.note(name, Kind.WRITE, steps, begun, outcome)

    async def read(self, name: str, tables: list[str]) -> None:
        """Read all, at one time."""
        client = await self._shore.world.connect()
        while self.goes_on:
            is_recent = self._random.random() < 0.2
            begun = self.now()
            await client.run("BEGIN")
            await client.run(f"SET LOCAL real_time_recency = {'on' if is_recent else 'off'}")
            wanted = ["file:lines", *tables]
            steps: list[Step] = [await self._listed(client, each) for each in wanted]
            await client.run("COMMIT")
            self.note(name, Kind.RECENT if is_recent else Kind.READ, steps, begun)

    async def _listed(self, client: Client, key: str) -> Listed:
        relation = key.partition(":")[2]
        rows = await client.rows(f"SELECT * FROM {relation}")
        return Listed(key, tuple(sorted(int(value) for (value,) in rows)))


@pytest.mark.semantics(76, 83, 86, 99, 100)
@pytest.mark.parametrize("seed", [1, 2])
def test_histories_are_serializable(tmp_path: Path, seed: int) -> None:
    """The checker finds an order of all that was done, upstream and here, whoever was refused."""
    made: list[Clients] = []

    @on_shore
    async def run(shore: Shore) -> None:
        await shore.add("lines", "10ms")
        clients = Clients(shore, seed, time.monotonic() + 3)
        made.append(clients)
        names = ["t", "u"]
        tables = [f"table:{name}" for name in names]
        raining = threading.Thread(target=clients.upstream)
        raining.start()
        await asyncio.gather(
            clients.write("t", ["table:u"]),
            clients.write("u", ["table:t"]),
            clients.read("r1", tables),
            clients.read("r2", tables),
        )
        raining.join()

    run(tmp_path)
    [clients] = made
    strict, loose = check(clients.history)
    done = [each for each in clients.history if each.outcome is Outcome.OK]
    assert {each.client for each in done} == {"upstream", "t", "u", "r1", "r2"}
    assert loose.edges["rw"], "there was something to be told apart"
    assert strict.operations["recent"]
