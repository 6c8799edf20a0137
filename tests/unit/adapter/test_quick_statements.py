"""Prepared statements that are answered at once: as the ordinary way does it, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from waterclock.adapter.api import AtHand, Done, Response, Rows
from waterclock.adapter.sequencer.writing import NotNullViolated
from waterclock.adapter.transaction import ReadOnly
from waterclock.catalog.errors import PermissionDenied
from waterclock.compute.index import Index
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.arrangement.cover import Cover
from waterclock.persist.arrangement.layout import Layout
from waterclock.persist.arrangement.writing import write_run
from waterclock.persist.rows import DIFF, TIME
from waterclock.testing.adapter_world import AdapterWorld, Client, NotedEngine, taken

INT, TEXT = pa.int32(), pa.string()
Test = Callable[["World"], Awaitable[None]]


class Engine(NotedEngine):
    """One that has an index, filled by the test."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        layout = Layout.of({"c0": INT}, {"c1": TEXT})
        arrangement = Arrangement.open(folder, layout, 0)
        self.made = Index(pa.schema([("a", INT), ("b", TEXT)]), ("a",), arrangement)
        self.id: GlobalId | None = None

    def has_index(self, collection: GlobalId) -> bool:
        return collection == self.id

    def index(self, _: GlobalId) -> Index:
        return self.made


class World:
    """A table with an index, which follows the table when it is told to."""

    def __init__(self, folder: Path) -> None:
        self.engine = Engine(folder / "index")
        self.adapter = AdapterWorld(folder, engine=self.engine)

    async def begin(self) -> None:
        self.client = await self.adapter.connect()
        await self.client.run("CREATE TABLE t (a int NOT NULL, b text); CREATE INDEX i ON t (a)")
        [self.engine.id] = [i.id for i in self.adapter.core.current.items() if i.name == "i"]
        await self.write((1, "x"), (2, "y"), (2, "z"))

    async def write(self, *rows: tuple[int, str]) -> None:
        await self.client.run("INSERT INTO t VALUES " + ", ".join(map(repr, rows)))
        self.follow(*rows)

    def follow(self, *rows: tuple[int, str], diff: int = 1) -> None:
        """Let the index have the rows at the time of the last write, and be complete then."""
        index = self.engine.made.arrangement
        time = self.adapter.core.oracle.read_ts()
        cover = Cover(index.upper, time + 1)
        table = pa.table(
            {
                "c0": pa.array([row[0] for row in rows], INT),
                "c1": pa.array([row[1] for row in rows], TEXT),
                TIME: pa.array([time] * len(rows), pa.int64()),
                DIFF: pa.array([diff] * len(rows), pa.int64()),
            }
        )
        if rows:
            write_run(index.folder, index.layout, cover, table)
        index.advance(time + 1, [cover] if rows else ())


def in_quick_world(test: Test) -> Callable[[Path], None]:
    def run(tmp_path: Path) -> None:
        async def inside() -> None:
            world = await asyncio.to_thread(World, tmp_path)
            try:
                await world.begin()
                await test(world)
            finally:
                await asyncio.to_thread(world.adapter.close)

        asyncio.run(inside())

    run.__name__ = test.__name__
    return run


async def prepared(client: Client, text: str, *parameters: pa.Scalar) -> None:
    await client.session.close_statement("s")
    await client.session.parse("s", text, [])
    await client.session.bind("", "s", list(parameters), ())


OIDS = {pa.int16(): 21, pa.int32(): 23, pa.int64(): 20, pa.string(): 25}


async def prepared_as_sent(client: Client, text: str, *parameters: pa.Scalar) -> None:
    """Prepare as drivers do that say the types of what they send."""
    await client.session.close_statement("s")
    await client.session.parse("s", text, [OIDS[each.type] for each in parameters])
    await client.session.bind("", "s", list(parameters), ())


async def quickly(client: Client, text: str, *parameters: pa.Scalar) -> Response | None:
    """What the quick way says, without anything around it."""
    await prepared(client, text, *parameters)
    portal = client.session.portal("")
    assert portal.shortcut is not None
    if text.startswith("INSERT"):
        assert portal.shortcut.run(client.session, portal.parameters) is None, "it is new"
    return portal.shortcut.run(client.session, portal.parameters)


async def ordinarily(client: Client, text: str, *parameters: pa.Scalar) -> Any:
    """What the statement answers without a quick way."""
    await prepared(client, text, *parameters)
    client.session.portal("").shortcut = None
    result = await taken(await client.session.execute("", 0))
    await client.session.sync()
    return result


async def answered(client: Client, text: str, *parameters: pa.Scalar) -> Any:
    """What the statement answers when it was not run for the first time."""
    await prepared(client, text, *parameters)
    shortcut = client.session.portal("").shortcut
    if text.startswith("INSERT") and shortcut is not None:
        assert shortcut.run(client.session, parameters) is None
    result = await taken(await client.session.execute("", 0))
    await client.session.sync()
    return result


def rows_in(response: Response | None) -> list[tuple[Any, ...]]:
    assert isinstance(response, Rows)
    assert isinstance(response.batches, AtHand)
    return [tuple(row.values()) for b in response.batches.taken() for row in b.to_pylist()]


def number(value: int | None) -> pa.Scalar:
    return pa.scalar(value, INT)


LOOKUPS = [
    "SELECT * FROM t WHERE a = $1",
    "SELECT b FROM t WHERE $1 = a",
    "SELECT b, a, b FROM t WHERE a IN (1, $1, 7)",
    "SELECT b FROM t WHERE a IN ($1, 1) ORDER BY b",
    "SELECT b FROM t WHERE a = $1 LIMIT 1",
    "SELECT b FROM t WHERE a = $1 LIMIT 0",
]


@in_quick_world
async def test_a_lookup_answers_as_the_ordinary_way_does(world: World) -> None:
    for text in LOOKUPS:
        for key in (1, 2, 3):
            slow = await ordinarily(world.client, text, number(key))
            fast = await answered(world.client, text, number(key))
            assert sorted(fast.rows) == sorted(slow.rows), (text, key)
            assert (fast.tag, fast.columns) == (slow.tag, slow.columns)
    quick = await quickly(world.client, LOOKUPS[0], number(2))
    assert sorted(rows_in(quick)) == [(2, "y"), (2, "z")]


@in_quick_world
async def test_what_takes_more_than_a_look_is_left_alone(world: World) -> None:
    async def is_quick(text: str, *parameters: pa.Scalar) -> bool:
        found = await quickly(world.client, text, *parameters)
        await world.client.session.sync()
        return found is not None

    point = LOOKUPS[0]
    assert await is_quick(point, number(1))
    assert not await is_quick(point, number(None))
    assert not await is_quick("SELECT * FROM t WHERE a = $1 AND b = 'y'", number(2))
    assert not await is_quick("SELECT * FROM t WHERE a > $1", number(2))
    assert not await is_quick("SELECT count(*) FROM t WHERE a = $1", number(2))
    assert not await is_quick("SELECT b FROM t WHERE a = $1 ORDER BY b", number(2))
    assert await is_quick("SELECT b FROM t WHERE a = $1 ORDER BY b", number(1))
    assert not await is_quick("SELECT b FROM t WHERE a = $1 OFFSET 1", number(2))
    await world.client.run("SET transaction_isolation = 'serializable'")
    assert not await is_quick(point, number(1))
    await world.client.run("RESET transaction_isolation")
    assert await is_quick(point, number(1))
    await world.client.run("BEGIN")
    assert not await is_quick(point, number(1))
    await world.client.run("COMMIT")


@in_quick_world
async def test_integers_of_any_size_are_looked_up(world: World) -> None:
    session = world.client.session
    for text in LOOKUPS[:3]:
        for kind in (pa.int16(), pa.int32(), pa.int64()):
            key = pa.scalar(2, kind)
            await prepared_as_sent(world.client, text, key)
            portal = session.portal("")
            assert portal.shortcut is not None
            quick = portal.shortcut.run(session, portal.parameters)
            await session.sync()
            slow = await ordinarily(world.client, text, number(2))
            assert sorted(rows_in(quick)) == sorted(slow.rows), (text, kind)
    beyond = pa.scalar(2**40, pa.int64())
    await prepared_as_sent(world.client, LOOKUPS[0], beyond)
    portal = session.portal("")
    assert portal.shortcut is not None
    assert portal.shortcut.run(session, portal.parameters) is None, "no int has that value"


@in_quick_world
async def test_integers_of_any_size_are_inserted(world: World) -> None:
    session, text = world.client.session, "INSERT INTO t VALUES ($1, $2)"
    for place, kind in enumerate((pa.int16(), pa.int32(), pa.int64())):
        sent = (pa.scalar(100 + place, kind), pa.scalar("new", TEXT))
        await prepared_as_sent(world.client, text, *sent)
        shortcut = session.portal("").shortcut
        assert shortcut is not None
        assert shortcut.run(session, sent) is None, "it is new"
        assert isinstance(shortcut.run(session, sent), Done)
        await session.sync()
    found = await world.client.run("SELECT a FROM t WHERE a >= 100 ORDER BY a")
    assert found[-1].rows == [(100,), (101,), (102,)]
    beyond = (pa.scalar(2**40, pa.int64()), pa.scalar("new", TEXT))
    await prepared_as_sent(world.client, text, *beyond)
    shortcut = session.portal("").shortcut
    assert shortcut is not None
    assert shortcut.run(session, beyond) is None, "it is new"
    assert shortcut.run(session, beyond) is None, "no int has that value"
    with pytest.raises(WaterclockError) as out_of_range:
        await taken(await session.execute("", 0))
    assert out_of_range.value.sqlstate == "22003"
    await session.sync()


@pytest.mark.semantics(93)
@in_quick_world
async def test_an_index_that_is_behind_is_not_asked(world: World) -> None:
    point = LOOKUPS[0]
    await world.client.run("INSERT INTO t VALUES (1, 'new')")
    assert await quickly(world.client, point, number(1)) is None
    world.follow((1, "new"))
    assert sorted(rows_in(await quickly(world.client, point, number(1)))) == [(1, "new"), (1, "x")]


@in_quick_world
async def test_an_index_that_begins_later_is_not_asked(world: World) -> None:
    core = world.adapter.core
    world.engine.made.arrangement.advance(core.oracle.read_ts() + 1000)
    assert rows_in(await quickly(world.client, LOOKUPS[0], number(1))) == [(1, "x")]
    await world.client.session.sync()
    core.holds.allow_compaction(core.oracle.read_ts() + 1)
    assert await quickly(world.client, LOOKUPS[0], number(1)) is None


@in_quick_world
async def test_rows_that_cancel_are_left_to_the_lookup(world: World) -> None:
    await world.client.run("DELETE FROM t WHERE a = 1")
    world.follow((1, "x"), diff=-1)
    assert await quickly(world.client, LOOKUPS[0], number(1)) is None
    assert (await answered(world.client, LOOKUPS[0], number(1))).rows == []


@in_quick_world
async def test_who_may_not_read_any_more_is_told(world: World) -> None:
    await world.client.run("CREATE ROLE r LOGIN; GRANT SELECT ON t TO r")
    other = await world.adapter.connect("r")
    assert sorted((await answered(other, LOOKUPS[0], number(1))).rows) == [(1, "x")]
    await world.client.run("REVOKE SELECT ON t FROM r")
    await other.session.bind("", "s", [number(1)], ())
    with pytest.raises(PermissionDenied):
        await other.session.execute("", 0)


@in_quick_world
async def test_a_portal_of_a_lookup_is_taken_bit_by_bit(world: World) -> None:
    session = world.client.session
    await prepared(world.client, LOOKUPS[0], number(2))
    first = rows_in(await session.execute("", 1))
    second = rows_in(await session.execute("", 1))
    assert sorted(first + second) == [(2, "y"), (2, "z")]
    assert rows_in(await session.execute("", 1)) == []
    await session.sync()


@pytest.mark.semantics(87)
@in_quick_world
async def test_a_write_after_a_quick_read_depends_on_it(world: World) -> None:
    session = world.client.session
    response = await quickly(world.client, LOOKUPS[0], number(1))
    assert response is not None
    dependence = session.transaction.dependence()
    assert dependence is not None
    [table] = [item for item in world.adapter.core.current.items() if item.name == "t"]
    assert dependence.tables == {table.id}
    assert dependence.time == world.adapter.core.oracle.read_ts()
    again = world.client.session.portal("").shortcut
    assert again is not None
    assert again.run(session, [number(2)]) is not None, "more of them before the end are as quick"
    await session.sync()
    assert session.transaction.dependence() is None


KINDS = (
    "CREATE TABLE k (i int NOT NULL, t text, n numeric(6,2), w timestamptz DEFAULT now(),"
    " v varchar(3), d int DEFAULT 7)"
)
INSERTS: list[tuple[str, tuple[pa.Scalar, ...], bool]] = [
    ("INSERT INTO t VALUES ($1, $2)", (number(5), pa.scalar("five")), True),
    ("INSERT INTO t (b, a) VALUES ($1, $2)", (pa.scalar("b"), number(6)), True),
    ("INSERT INTO t (a) VALUES ($1)", (number(7),), True),
    ("INSERT INTO t VALUES ($1, NULL), (-3, 'it'), (8, $2)", (number(8), pa.scalar("x")), True),
    ("INSERT INTO t VALUES ($1, $2)", (number(9), pa.scalar(None, TEXT)), True),
    ("INSERT INTO t VALUES ($1 + 1, 'sum')", (number(9),), False),
    ("INSERT INTO t VALUES ($1, 'a' || 'b')", (number(9),), False),
    ("INSERT INTO t VALUES ($1, $2) RETURNING a", (number(9), pa.scalar("y")), False),
    ("INSERT INTO k (i, v) VALUES ($1, 'abc')", (number(1),), False),
    ("INSERT INTO k (i, w) VALUES ($1, '2026-01-01')", (number(1),), False),
]


@pytest.mark.parametrize(("text", "parameters", "is_quick"), INSERTS)
def test_an_insert_writes_what_the_ordinary_way_writes(
    tmp_path: Path, text: str, parameters: tuple[pa.Scalar, ...], is_quick: bool
) -> None:
    @in_quick_world
    async def check(world: World) -> None:
        client = world.client
        await client.run(KINDS)
        found = await quickly(client, text, *parameters)
        assert (found is not None) == is_quick
        await client.session.rollback()
        table = "k" if " k " in text else "t"
        written: list[list[tuple[Any, ...]]] = []
        for run in (ordinarily, answered):
            await client.run(f"TRUNCATE {table}")
            try:
                result = await run(client, text, *parameters)
            except WaterclockError:  # what takes the engine, which is not here
                assert not is_quick
                await client.session.fail()
                return
            shown = "i, t, n, v, d" if table == "k" else "*"
            rows = await client.rows(f"SELECT {shown} FROM {table}")
            assert result.tag == f"INSERT 0 {len(rows)}"
            written.append(sorted(rows, key=repr))
        assert written[0] == written[1]
        assert written[0]

    check(tmp_path)


@in_quick_world
async def test_an_insert_that_must_not_be(world: World) -> None:
    client = world.client
    text = "INSERT INTO t VALUES ($1, 'x')"
    assert await quickly(client, text, number(None)) is None
    with pytest.raises(NotNullViolated):
        await client.session.execute("", 0)
    await client.session.fail()
    await client.session.sync()
    await client.run("SET default_transaction_read_only = on")
    with pytest.raises(ReadOnly):
        await quickly(client, text, number(1))
    await client.session.fail()


@in_quick_world
async def test_an_insert_in_a_block_waits_for_its_end(world: World) -> None:
    client = world.client
    await client.run("BEGIN")
    for value in (10, 11):
        found = await quickly(client, "INSERT INTO t VALUES ($1, 'block')", number(value))
        assert isinstance(found, Done)
        await client.session.sync()
    other = await world.adapter.connect()
    assert (10, "block") not in await other.rows("SELECT * FROM t")
    await client.run("COMMIT")
    assert {(10, "block"), (11, "block")} <= set(await other.rows("SELECT * FROM t"))


@in_quick_world
async def test_a_table_made_anew_is_another_one(world: World) -> None:
    client = world.client
    await client.run("CREATE TABLE other (a int, b text)")
    text = "INSERT INTO other VALUES ($1, $2)"
    await client.session.parse("again", text, [])
    for _ in range(4):
        await client.session.bind("", "again", [number(1), pa.scalar("x")], ())
        assert isinstance(await client.session.execute("", 0), Done)
        await client.session.sync()
        await client.run("DROP TABLE other; CREATE TABLE other (a int, b text)")
    await client.session.bind("", "again", [number(1), pa.scalar("x")], ())
    await client.session.execute("", 0)
    await client.session.sync()
    assert await client.rows("SELECT * FROM other") == [(1, "x")]


@in_quick_world
async def test_constants_are_known_at_once(world: World) -> None:
    client = world.client
    found = await quickly(client, "SELECT 1, 'a', 2.50, NULL::int")
    assert rows_in(found) == [(1, "a", Decimal("2.50"), None)]
    again = await quickly(client, "SELECT 1, 'a', 2.50, NULL::int")
    assert len(rows_in(again)) == 1
    assert await quickly(client, "SELECT now()") is None
    await prepared(client, "SELECT 1")
    portal = client.session.portal("")
    assert portal.shortcut is not None
    await client.session.sync()
    await client.run("BEGIN")
    with pytest.raises(WaterclockError):
        await client.run("SELECT nonsense")
    assert portal.shortcut.run(client.session, ()) is None, "the transaction has failed"
    await client.run("ROLLBACK")
    assert rows_in(portal.shortcut.run(client.session, ())) == [(1,)]


def test_batches_at_hand_are_taken_by_the_row() -> None:
    table = pa.table({"n": range(10)})
    for counts in ([10], [3, 3, 3, 3], [1, 0, 9], [20], [4, 6, 1]):
        batches = AtHand(table.to_batches(max_chunksize=4))
        taken_rows: list[int] = []
        for count in counts:
            found = [n for batch in batches.taken(count) for n in batch.column(0).to_pylist()]
            assert len(found) == min(count, 10 - len(taken_rows))
            taken_rows += found
        rest = [n for batch in batches.taken() for n in batch.column(0).to_pylist()]
        assert taken_rows + rest == list(range(10))
        assert batches.taken() == []


def test_batches_at_hand_come_one_by_one_too() -> None:
    async def run() -> list[int]:
        batches = AtHand(pa.table({"n": range(10)}).to_batches(max_chunksize=4))
        first = await anext(batches)
        assert first.num_rows == 4
        rest = [batch.num_rows async for batch in batches]
        await batches.aclose()
        return rest

    assert asyncio.run(run()) == [4, 2]
