"""The adapter over storage in memory, for tests of statements.

Without a Spark session its engine maintains nothing and evaluates nothing: a view is refused, and
so is a query that does more than pick rows. Everything else is the real thing: storage, catalog,
oracle, the writer of tables, sessions.

`Client` runs statements in a session as a protocol layer would, and takes responses to their end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa

from waterclock.adapter.api import (
    ColumnDescription,
    CopyIn,
    CopyOut,
    Done,
    EmptyQuery,
    Notice,
    Response,
    Rows,
    Startup,
)
from waterclock.adapter.coordinator import Coordinator, Pace
from waterclock.adapter.front import SqlFront
from waterclock.adapter.secrets import KEY_BYTES, SecretBox
from waterclock.adapter.session import SqlSession
from waterclock.compute.api import Backlog, Status, View
from waterclock.compute.engine import Engine, OpenEngine, Spark
from waterclock.compute.errors import NotMaintainable
from waterclock.compute.live_session import LiveSession
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.consensus.memory import MemoryConsensus
from waterclock.persist.notes import Notes
from waterclock.persist.records import AnyEvent
from waterclock.persist.retry import Retry
from waterclock.persist.state import State
from waterclock.persist.store import Plan
from waterclock.server.wiring import read_text, write_text
from waterclock.storage import riders
from waterclock.storage.api import Token, WriteCapability
from waterclock.storage.controller import Storage
from waterclock.testing.persist_world import open_store

_PATIENCE = 1500
"""How often a test looks whether what it waits for has happened."""


class NoEngine:
    """Compute and evaluator of a world without an engine."""

    notes: Notes
    """What an engine remembers, durably, of what it maintains."""

    def __init__(self) -> None:
        self.errors: dict[GlobalId, tuple[GlobalId, ...]] = {}
        """What a test lets be the errors of a collection."""
        self.statuses: dict[GlobalId, Status] = {}
        self.behind: list[Backlog] = []

    def check_view(self, view: View) -> tuple[Any, ...]:
        raise NotMaintainable(f"there is no engine for {len(view.results)} results")

    def evaluate(self, sql: str, *_: object) -> pa.Table:
        raise NotMaintainable(f"there is no engine for {sql}")

    def errors_of(self, collection: GlobalId) -> tuple[GlobalId, ...]:
        return self.errors.get(collection, ())

    def has_index(self, _: GlobalId) -> bool:
        return False

    def status(self, output: GlobalId) -> Status:
        """How a test lets a view be doing."""
        return self.statuses[output]

    def input_tokens(self) -> dict[Token, GlobalId]:
        return {}

    def tick(self, _: float | None = None) -> bool:
        return False

    def backlogs(self) -> list[Backlog]:
        """How far a test lets views be behind."""
        return self.behind

    def cancel(self, _: str) -> None:
        pass

    def close(self) -> None:
        pass


class NotedEngine(NoEngine):
    """One that remembers durably what it was told to maintain, and never does it."""

    def check_view(self, view: View) -> tuple[Any, ...]:
        return tuple(view.results)

    def installation(
        self, _: View, __: int, outputs: Sequence[WriteCapability], errors: WriteCapability
    ) -> Plan[None]:
        tokens = [each.token for each in (*outputs, errors)]

        def plan(_: State) -> tuple[list[AnyEvent], None]:
            return self.notes.events({str(outputs[0].id): ",".join(tokens).encode()}), None

        return plan

    def removal(self, output: GlobalId) -> Plan[None]:
        kept = self.notes.all().get(str(output), b"").decode()
        released = riders.release(Token(each) for each in kept.split(",") if each)

        def plan(state: State) -> tuple[list[AnyEvent], None]:
            return released(state)[0] + self.notes.events({}, [str(output)]), None

        return plan

    def begin(self, _: GlobalId) -> None:
        pass

    end = leave = resume = begin


class SmallEngine(NotedEngine):
    """It evaluates queries that are the same in Spark's SQL and DuckDB's."""

    def evaluate(self, sql: str, *given: object) -> pa.Table:
        _, contents, _ = given
        with duckdb.connect() as engine:
            for collection, rows in cast(Mapping[GlobalId, pa.Table], contents).items():
                engine.register(str(collection), rows)
            return engine.sql(sql.replace("`", chr(34))).to_arrow_table()


@dataclass(slots=True)
class Result:
    """A response, taken to its end."""

    tag: str
    columns: tuple[ColumnDescription, ...] = ()
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]


class Client:
    """A session, and the notices that it got."""

    def __init__(self, session: SqlSession, notices: list[Notice]) -> None:
        self.session = session
        self.notices = notices

    async def run(self, text: str, copied: Sequence[pa.RecordBatch] = ()) -> list[Result]:
        """All statements of the text; `copied` is what COPY FROM STDIN is given.

        An error is told to the session, as whoever serves a client does, and raised.
        """
        try:
            responses = self.session.run_simple(text)
            return [await taken(response, copied) async for response in responses]
        except WaterclockError:
            await self.session.fail()
            raise

    async def one(self, text: str, copied: Sequence[pa.RecordBatch] = ()) -> Result:
        """The only statement of the text."""
        [result] = await self.run(text, copied)
        return result

    async def rows(self, text: str) -> list[tuple[Any, ...]]:
        return (await self.one(text)).rows

    async def tag(self, text: str) -> str:
        return (await self.one(text)).tag

    async def until(
        self, text: str, is_there: Callable[[list[tuple[Any, ...]]], bool], seconds: float = 240.0
    ) -> list[tuple[Any, ...]]:
        """What a query gives as soon as it is what is waited for."""
        deadline = time.monotonic() + seconds
        while True:
            found = await self.rows(text)
            if is_there(found):
                return found
            assert time.monotonic() < deadline, f"{text} gives {found[:20]}"
            await asyncio.sleep(0.05)

    async def fails(self, text: str) -> WaterclockError:
        """The error that the text ends in."""
        try:
            await self.run(text)
        except WaterclockError as error:
            return error
        raise AssertionError(f"this went well: {text}")

    async def until_rows(self, query: str, expected: Sequence[tuple[Any, ...]]) -> None:
        """Wait until the query has these rows, in any order."""
        found: object = None
        for _ in range(_PATIENCE):
            try:
                found = await self.rows(query)
                if sorted(found, key=repr) == sorted(expected, key=repr):
                    return
            except WaterclockError as error:
                found = error
            await asyncio.sleep(0.02)
        raise AssertionError(f"{query} has {found}, not {expected}")

    async def until_error(self, query: str) -> WaterclockError:
        """Wait until the query fails; with what."""
        for _ in range(_PATIENCE):
            try:
                await self.rows(query)
            except WaterclockError as error:
                return error
            await asyncio.sleep(0.02)
        raise AssertionError(f"{query} does not fail")


async def taken(response: Response, copied: Sequence[pa.RecordBatch] = ()) -> Result:
    """The response to its end."""
    match response:
        case Done(tag):
            return Result(tag)
        case EmptyQuery():
            return Result("")
        case Rows(columns, batches, tag, counted):
            rows = [row async for batch in batches for row in rows_of(batch)]
            return Result(f"{tag} {len(rows)}" if counted else tag, columns, rows)
        case CopyOut(columns, _, batches):
            rows = [row async for batch in batches for row in rows_of(batch)]
            return Result(f"COPY {len(rows)}", columns, rows)
        case CopyIn(columns, _, sink):
            try:
                for batch in copied:
                    await sink.append(batch)
            except WaterclockError:
                await sink.abort()
                raise
            return Result(await sink.finish(), columns)


def rows_of(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """The batch's rows as Python values."""
    columns = [column.to_pylist() for column in batch.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows


class AdapterWorld:
    """A server without a network, and its data, which outlives it."""

    def __init__(
        self,
        folder: Path,
        pace: Pace | None = None,
        spark: Spark | None = None,
        *,
        consensus: MemoryConsensus | None = None,
        engine: NoEngine | None = None,
        open_engine: OpenEngine | None = None,
    ) -> None:
        self._folder = folder
        self._spark = spark
        self._pace = pace or Pace(tick_ms=20, retain_ms=180_000)
        self.blob, self.consensus = MemoryBlob(), consensus or MemoryConsensus()
        self.secrets = SecretBox(bytes(range(KEY_BYTES)))
        self._count = 0
        self.engine = engine or NoEngine()
        self._open_engine = open_engine
        self.open()

    def open(self) -> None:
        """Start on what is durable."""
        store = open_store(self.blob, self.consensus, Retry(attempts=1))
        self.storage = Storage(store)
        engine = cast(Any, self.engine)

        def without(_: Storage, notes: Notes) -> Engine:
            engine.notes = notes
            return Engine(engine, engine)

        self.core = Coordinator(
            self.storage,
            store,
            None if self._spark is None else LiveSession.of(self._spark),
            self._folder,
            self._pace,
            secrets=self.secrets,
            engine=self._open_engine or (None if self._spark else cast(OpenEngine, without)),
        )
        self.front = SqlFront(self.core, read_text, write_text)

    def close(self) -> None:
        self.core.close()
        self.storage.close()

    async def connect(
        self,
        user: str = "waterclock",
        database: str = "waterclock",
        settings: Mapping[str, str] | None = None,
    ) -> Client:
        self._count += 1
        notices: list[Notice] = []
        startup = Startup(user, database, settings or {}, None, self._count)
        session = await self.front.connect(startup, notices.append)
        return Client(session, notices)


@asynccontextmanager
async def adapter_world(
    folder: Path,
    spark: Spark | None = None,
    *,
    pace: Pace | None = None,
    engine: NoEngine | None = None,
) -> AsyncIterator[AdapterWorld]:
    """A world that is closed at the end, off the event loop."""
    world = await asyncio.to_thread(AdapterWorld, folder, pace, spark, engine=engine)
    try:
        yield world
    finally:
        await world.front.settle()
        await asyncio.to_thread(world.close)


def in_world(test: Callable[[AdapterWorld], Awaitable[None]]) -> Callable[[Path], None]:
    """A test that gets a world of its own, and is a coroutine."""

    def run(tmp_path: Path) -> None:
        async def inside() -> None:
            async with adapter_world(tmp_path) as world:
                await test(world)

        asyncio.run(inside())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def with_files(
    test: Callable[[AdapterWorld, Path], Awaitable[None]],
) -> Callable[[Path], None]:
    """A test that is given a world and a folder for files."""

    def run(tmp_path: Path) -> None:
        async def inside() -> None:
            folder = tmp_path / "in"
            folder.mkdir()
            async with adapter_world(tmp_path / "data") as world:
                await test(world, folder)

        asyncio.run(inside())

    return run
