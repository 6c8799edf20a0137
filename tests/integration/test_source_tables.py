"""ALTER SOURCE ... ADD TABLE and DROP TABLE over a real server, while others write upstream."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from waterclock.errors import WaterclockError
from waterclock.testing.adapter_world import AdapterWorld, Client, adapter_world
from waterclock.testing.postgres_source import drop_slots
from waterclock.testing.services import PostgresServer

pytestmark = pytest.mark.service
SECONDS = 240.0
SETUP = """
CREATE TABLE a (id int PRIMARY KEY, v text);
ALTER TABLE a REPLICA IDENTITY FULL;
CREATE TABLE b (id int PRIMARY KEY, v text);
ALTER TABLE b REPLICA IDENTITY FULL;
INSERT INTO a SELECT i, 'a' || i FROM generate_series(1, 200) i;
INSERT INTO b SELECT i, 'b' || i FROM generate_series(1, 5) i;
CREATE PUBLICATION p FOR TABLE a, b
"""


class Stage:
    """A server of ours, a client of it, and the database that the source reads."""

    def __init__(self, world: AdapterWorld, client: Client, conninfo: str) -> None:
        self.world = world
        self.client = client
        self.conninfo = conninfo
        self.upstream = psycopg.connect(conninfo, autocommit=True)

    async def same(self, here: str, there: str | None = None) -> None:
        """What is here is soon what is there, with nobody writing."""
        expected = sorted(self.upstream.execute(there or here).fetchall())  # type: ignore[arg-type]
        async with asyncio.timeout(SECONDS):
            while (found := sorted(await self.client.rows(here))) != expected:
                await asyncio.sleep(0.02)
        assert found == expected

    async def restarted(self) -> None:
        await asyncio.to_thread(self.world.close)
        await asyncio.to_thread(self.world.open)
        self.client = await self.world.connect()

    def slots(self) -> int:
        query = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
        [(found,)] = self.upstream.execute(query).fetchall()
        return int(found)


def run(server: PostgresServer, folder: Path, scene: Callable[[Stage], Awaitable[None]]) -> None:
    conninfo = server.create_database(f"d{uuid.uuid4().hex}")
    given = conninfo_to_dict(conninfo)

    async def inside() -> None:
        with psycopg.connect(conninfo, autocommit=True) as upstream:
            upstream.execute(SETUP)
        async with adapter_world(folder) as world:
            on = Stage(world, await world.connect(), conninfo)
            try:
                await on.client.run(
                    f"CREATE CONNECTION pg TO POSTGRES (HOST '{given['host']}',"
                    f" PORT {given['port']}, DATABASE '{given['dbname']}', USER 'postgres')"
                )
                await scene(on)
            finally:
                with psycopg.connect(conninfo, autocommit=True) as upstream:
                    await asyncio.to_thread(world.close)
                    drop_slots(upstream)
                    await asyncio.to_thread(world.open)
                on.upstream.close()

    asyncio.run(inside())


CREATE = "CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES"


def test_a_column_that_was_added_upstream(logical_server: PostgresServer, tmp_path: Path) -> None:
    """Rows from before the column was added have its default, also when they go."""

    async def scene(on: Stage) -> None:
        client, upstream = on.client, on.upstream
        await client.run(CREATE)
        await client.run("CREATE VIEW everything AS SELECT * FROM a")
        await on.same("SELECT * FROM a")
        upstream.execute("ALTER TABLE a ADD COLUMN c int DEFAULT 7, ADD COLUMN d text")
        upstream.execute("UPDATE a SET c = id, d = 'new' WHERE id < 10")
        upstream.execute("DELETE FROM a WHERE id > 190; INSERT INTO a VALUES (1000, 'x', 5, 'y')")
        await on.same("SELECT * FROM a", "SELECT id, v FROM a")
        error = await client.fails("ALTER SOURCE s ADD TABLE a")
        assert error.sqlstate == "42P07"
        assert "ADD TABLE ... AS name" in (error.hint or "")
        assert await client.tag("ALTER SOURCE s ADD TABLE a AS wide") == "ALTER SOURCE"
        assert on.slots() == 1
        shown = await client.one("SELECT * FROM wide")
        assert shown.names == ["id", "v", "c", "d"]
        assert sorted(shown.rows) == sorted(upstream.execute("SELECT * FROM a").fetchall())
        # rows from before the column, which its log has without it
        upstream.execute("DELETE FROM a WHERE id BETWEEN 20 AND 29")
        upstream.execute("UPDATE a SET v = 'later' WHERE id BETWEEN 30 AND 39")
        upstream.execute("UPDATE a SET c = NULL WHERE id BETWEEN 40 AND 49")
        await on.same("SELECT * FROM a", "SELECT id, v FROM a")
        await on.same("SELECT * FROM wide", "SELECT * FROM a")
        await client.run("ALTER SOURCE a SWAP WITH wide")
        await on.same("SELECT * FROM a")
        await on.restarted()
        upstream.execute("UPDATE a SET c = 1 WHERE id < 60; TRUNCATE b; INSERT INTO b VALUES (1)")
        await on.same("SELECT * FROM a")
        await on.same("SELECT * FROM wide", "SELECT id, v FROM a")
        await on.same("SELECT * FROM b")
        await drop_the_old_one(on)

    run(logical_server, tmp_path, scene)


async def drop_the_old_one(on: Stage) -> None:
    client, upstream = on.client, on.upstream
    error = await client.fails("ALTER SOURCE s DROP TABLE wide")
    assert error.sqlstate == "2BP01"
    client.notices.clear()
    await client.run("ALTER SOURCE s DROP TABLE wide CASCADE")
    assert [each.message for each in client.notices] == ["drop cascades to view everything"]
    assert (await client.fails("SELECT * FROM wide")).sqlstate == "42P01"
    upstream.execute("TRUNCATE a; INSERT INTO a VALUES (1, 'v', 2, 'd')")
    await on.same("SELECT * FROM a")
    [(text,)] = await client.rows("SELECT create_sql FROM mz_sources WHERE name = 's'")
    tables = "FOR TABLES (public.b AS waterclock.public.b, public.a AS waterclock.public.a)"
    assert tables in text.replace('"', "")
    assert "has no table" in (await client.fails("ALTER SOURCE s DROP TABLE nope")).message
    await client.run("ALTER SOURCE s DROP TABLE IF EXISTS nope, b")
    error = await client.fails("ALTER SOURCE s DROP TABLE a")
    assert error.message == "cannot drop the last table of source s"
    await on.restarted()
    await on.same("SELECT * FROM a")
    await on.client.run("DROP SOURCE s")
    assert on.slots() == 0


@contextmanager
def writing(conninfo: str) -> Iterator[Callable[[], int]]:
    """Rows of both tables are changed in transactions; how many there have been."""
    stop, done = threading.Event(), [0]

    def write() -> None:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            for i in count():
                if stop.is_set():
                    return
                with connection.transaction():
                    for table in ("a", "b"):
                        connection.execute(
                            f"UPDATE {table} SET v = 'v{i}' WHERE id = {i % 100}".encode()
                        )
                        connection.execute(
                            f"INSERT INTO {table} (id, v) VALUES ({1000 + i}, 'new')".encode()
                        )
                        connection.execute(f"DELETE FROM {table} WHERE id = {980 + i}".encode())
                done[0] += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield lambda: done[0]
    finally:
        stop.set()
        writer.join()


@pytest.mark.semantics(113, 161)
def test_both_are_the_same_at_every_time(logical_server: PostgresServer, tmp_path: Path) -> None:
    """While others write, and while the table is added: the old relation and the new one."""

    async def scene(on: Stage) -> None:
        client, upstream = on.client, on.upstream
        await client.run(f"{CREATE} WITH (TIMESTAMP INTERVAL '20ms')")
        await on.same("SELECT * FROM a")
        with writing(on.conninfo) as done:
            upstream.execute("ALTER TABLE a ADD COLUMN c int DEFAULT 7")
            await client.run("ALTER SOURCE s ADD TABLE a AS wide")
            upstream.execute("ALTER TABLE a ADD COLUMN e timestamptz DEFAULT clock_timestamp()")
            await client.run("ALTER SOURCE s ADD TABLE a AS wider, b AS again")
            assert await client.rows("SELECT * FROM wider LIMIT 1")
            [(first,)] = await client.rows("SELECT mz_timestamp FROM s_progress")
            until = done() + 30
            while done() < until:
                await asyncio.sleep(0.01)
        await on.same("SELECT * FROM wider", "SELECT * FROM a")
        await on.same("SELECT * FROM wide", "SELECT id, v, c FROM a")
        await on.same("SELECT * FROM a", "SELECT id, v FROM a")
        [(last,)] = await client.rows("SELECT mz_timestamp FROM s_progress")
        seen = set()
        for time in range(int(first), int(last), max(1, (int(last) - int(first)) // 25)):
            old, new = [
                sorted(await client.rows(f"SELECT id, v FROM {name} AS OF {time}"))
                for name in ("a", "wider")
            ]
            assert old == new
            old, new = [
                sorted(await client.rows(f"SELECT id, v FROM {name} AS OF {time}"))
                for name in ("b", "again")
            ]
            assert old == new
            seen.add(str(old))
        assert len(seen) > 1, "something has happened"

    run(logical_server, tmp_path, scene)


def test_the_others_go_on_meanwhile(logical_server: PostgresServer, tmp_path: Path) -> None:
    """A transaction upstream keeps the table from being read. Then the statement is cancelled."""

    async def scene(on: Stage) -> None:
        client, upstream = on.client, on.upstream
        await client.run(CREATE)
        await on.same("SELECT * FROM b")
        other = await on.world.connect()
        with psycopg.connect(on.conninfo) as holding:
            holding.execute("SELECT pg_current_xact_id()")
            adding = asyncio.create_task(other.fails("ALTER SOURCE s ADD TABLE a AS again"))
            for i in range(20, 23):
                upstream.execute(f"INSERT INTO b VALUES ({i}, 'x')".encode())
                await on.same("SELECT * FROM b")
            assert (await client.fails("SELECT * FROM again")).sqlstate == "42P01"
            assert not adding.done()
            other.session.cancel()
            assert (await adding).sqlstate == "57014"
        async with asyncio.timeout(SECONDS):
            while on.slots() > 1:
                await asyncio.sleep(0.05)
        upstream.execute("INSERT INTO b VALUES (30, 'x')")
        await on.same("SELECT * FROM b")
        await client.run("ALTER SOURCE s ADD TABLE a AS again")
        await on.same("SELECT * FROM again", "SELECT * FROM a")

    run(logical_server, tmp_path, scene)


def test_a_source_that_is_dropped_meanwhile(logical_server: PostgresServer, tmp_path: Path) -> None:
    async def scene(on: Stage) -> None:
        client = on.client
        await client.run(CREATE)
        await on.same("SELECT * FROM b")
        other = await on.world.connect()
        with psycopg.connect(on.conninfo) as holding:
            holding.execute("SELECT pg_current_xact_id()")
            adding = asyncio.create_task(other.fails("ALTER SOURCE s ADD TABLE a AS again"))
            async with asyncio.timeout(SECONDS):
                while on.slots() < 2:
                    await asyncio.sleep(0.02)
            await client.run("DROP SOURCE s")
        assert (await adding).sqlstate == "42P01"
        async with asyncio.timeout(SECONDS):
            while on.slots():
                await asyncio.sleep(0.05)
        await client.run(CREATE)
        await on.same("SELECT * FROM a")

    run(logical_server, tmp_path, scene)


def test_tables_that_were_published_later(logical_server: PostgresServer, tmp_path: Path) -> None:
    async def scene(on: Stage) -> None:
        client, upstream = on.client, on.upstream
        await client.run(f"{CREATE.replace('ALL TABLES', 'TABLES (b)')}")
        await on.same("SELECT * FROM b")
        upstream.execute("CREATE TABLE late (id int, kind money, x point)")
        upstream.execute("INSERT INTO late VALUES (1, 2, '(1,2)'), (1, 2, '(1,2)')")
        upstream.execute("CREATE SCHEMA here")
        error = await client.fails("ALTER SOURCE s ADD TABLE late")
        assert error.message == 'table late is not in publication "p"'
        upstream.execute("ALTER PUBLICATION p ADD TABLE late")
        error = await client.fails("ALTER SOURCE s ADD TABLE late")
        assert error.message == "REPLICA IDENTITY of table public.late is not FULL"
        upstream.execute("ALTER TABLE late REPLICA IDENTITY FULL")
        await client.run("CREATE SCHEMA mine")
        await client.run(
            "ALTER SOURCE s ADD TABLE public.late AS mine.late, a WITH (EXCLUDE COLUMNS (late.x))"
        )
        upstream.execute("INSERT INTO late VALUES (2, 3, '(0,0)')")
        await on.same("SELECT * FROM mine.late", "SELECT id, kind::text FROM late")
        await on.same("SELECT * FROM a")
        # what can not be followed any more can be read anew
        upstream.execute("ALTER TABLE a ALTER COLUMN v TYPE int USING 5")
        async with asyncio.timeout(SECONDS):
            while (found := await error_of(client, "SELECT * FROM a")) is None:
                await asyncio.sleep(0.02)
        assert "ALTER SOURCE ... ADD TABLE" in found.message
        await client.run("ALTER SOURCE s ADD TABLE a AS mine.a")
        await client.run("ALTER SOURCE s DROP TABLE public.a")
        upstream.execute("UPDATE a SET v = id")
        await on.same("SELECT * FROM mine.a", "SELECT * FROM a")
        await check_refusals(client)

    run(logical_server, tmp_path, scene)


async def error_of(client: Client, query: str) -> WaterclockError | None:
    try:
        await client.rows(query)
    except WaterclockError as error:
        return error
    return None


async def check_refusals(client: Client) -> None:
    for text, sqlstate in (
        ("ALTER SOURCE s ADD TABLE nope", "22023"),
        ("ALTER SOURCE s ADD TABLE a, OWNER TO waterclock", "42601"),
        ("ALTER SOURCE s ADD TABLE b", "42P07"),
        ("ALTER SOURCE s ADD TABLE b AS nowhere.b", "3F000"),
        ("ALTER SOURCE nope ADD TABLE b", "42P01"),
        ("ALTER SOURCE counter ADD TABLE b", "0A000"),
        ("ALTER SOURCE s ADD TABLE a AS z (x int)", "0A000"),
        ("DROP SOURCE b", "42809"),
    ):
        if "counter" in text:
            await client.run("CREATE SOURCE counter FROM LOAD GENERATOR COUNTER")
        assert (await client.fails(text)).sqlstate == sqlstate, text
    await client.run("ALTER SOURCE IF EXISTS nope ADD TABLE b")
    await client.run("CREATE ROLE weak; GRANT CREATE ON SCHEMA public TO weak; SET ROLE weak")
    error = await client.fails("ALTER SOURCE s ADD TABLE b AS bb")
    assert error.sqlstate == "42501"


def test_a_publication_of_its_own(logical_server: PostgresServer, tmp_path: Path) -> None:
    async def scene(on: Stage) -> None:
        client, upstream = on.client, on.upstream
        published = (
            "SELECT tablename FROM pg_publication_tables WHERE pubname LIKE 'waterclock%'"
            " ORDER BY tablename"
        )
        await client.run("CREATE SOURCE s FROM POSTGRES CONNECTION pg FOR TABLES (b)")
        await on.same("SELECT * FROM b")
        with writing(on.conninfo):
            await client.run("ALTER SOURCE s ADD TABLE a")
        assert upstream.execute(published).fetchall() == [("a",), ("b",)]
        await on.same("SELECT * FROM a")
        upstream.execute("CREATE TABLE plain (id int)")
        assert "FULL" in (await client.fails("ALTER SOURCE s ADD TABLE plain")).message
        assert upstream.execute(published).fetchall() == [("a",), ("b",)]
        await client.run("ALTER SOURCE s ADD TABLE a AS other")
        await client.run("ALTER SOURCE s DROP TABLE a")
        assert upstream.execute(published).fetchall() == [("a",), ("b",)]
        await client.run("ALTER SOURCE s DROP TABLE other")
        assert upstream.execute(published).fetchall() == [("b",)]
        upstream.execute("UPDATE b SET v = 'end'")
        await on.same("SELECT * FROM b")

    run(logical_server, tmp_path, scene)
