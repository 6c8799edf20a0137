"""CREATE SOURCE ... FROM POSTGRES and DROP SOURCE, over a real server and without an engine."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
CREATE TABLE a (id int PRIMARY KEY, v varchar(9), n numeric(6,2), j json);
ALTER TABLE a REPLICA IDENTITY FULL;
CREATE TABLE b (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED);
ALTER TABLE b REPLICA IDENTITY FULL;
CREATE SCHEMA s;
CREATE TABLE s.c (id int);
ALTER TABLE s.c REPLICA IDENTITY FULL;
INSERT INTO a VALUES (1, 'x', 1.5, '[1]');
INSERT INTO b VALUES (7);
INSERT INTO s.c VALUES (8);
CREATE TABLE plain (id int PRIMARY KEY);
CREATE TABLE wide (id int PRIMARY KEY, n numeric(50,2));
ALTER TABLE wide REPLICA IDENTITY FULL;
CREATE TABLE own (id int PRIMARY KEY, mz_diff int);
ALTER TABLE own REPLICA IDENTITY FULL;
CREATE TABLE outside (id int);
CREATE TABLE parted (id int) PARTITION BY LIST (id);
CREATE PUBLICATION root FOR TABLE parted WITH (publish_via_partition_root = true);
CREATE PUBLICATION p FOR TABLE a, b, s.c;
CREATE PUBLICATION part FOR TABLE a WITH (publish = 'insert, update');
CREATE PUBLICATION bad FOR TABLE plain, wide, own;
CREATE PUBLICATION nothing
"""
SOURCE = "CREATE SOURCE src FROM POSTGRES CONNECTION pg"


@dataclass(slots=True)
class Stage:
    """A server of ours, a client of it, and the database that sources read."""

    world: AdapterWorld
    client: Client
    upstream: psycopg.Connection[Any]


Scene = Callable[[Stage], Awaitable[None]]


def run(server: PostgresServer, folder: Path, scene: Scene) -> None:
    """A world with a connection to a database of its own."""
    conninfo = server.create_database(f"d{uuid.uuid4().hex}")

    async def inside() -> None:
        with psycopg.connect(conninfo, autocommit=True) as upstream:
            upstream.execute(SETUP)
            async with adapter_world(folder) as world:
                client = await world.connect()
                await client.run(connection_to(conninfo))
                await scene(Stage(world, client, upstream))
            drop_slots(upstream)

    asyncio.run(inside())


def connection_to(conninfo: str, name: str = "pg", user: str = "postgres") -> str:
    given = conninfo_to_dict(conninfo)
    return (
        f"CREATE CONNECTION {name} TO POSTGRES (HOST '{given['host']}', PORT {given['port']},"
        f" DATABASE '{given['dbname']}', USER '{user}', SSL MODE 'disable')"
    )


async def rows_in_time(client: Client, query: str, expected: list[tuple[Any, ...]]) -> None:
    """What was changed upstream is here soon."""
    deadline = time.monotonic() + SECONDS
    while (found := sorted(await client.rows(query))) != expected:
        assert time.monotonic() < deadline, f"{query} has {found}"
        await asyncio.sleep(0.02)


async def fails_in_time(client: Client, query: str) -> WaterclockError:
    """The error that a query ends in soon."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            await client.run(query)
        except WaterclockError as error:
            return error
        await asyncio.sleep(0.02)
    raise AssertionError(f"this goes well: {query}")


async def slots(upstream: psycopg.Connection[Any]) -> int:
    query = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    [(found,)] = upstream.execute(query).fetchall()
    return int(found)


@pytest.mark.semantics(89, 91, 119, 167, 168, 169, 170, 171, 172)
def test_the_life_of_a_source(logical_server: PostgresServer, tmp_path: Path) -> None:
    async def scene(on: Stage) -> None:
        client, upstream = on.client, on.upstream
        await client.run(f"{SOURCE} (PUBLICATION 'p') FOR ALL TABLES")
        [notice] = client.notices
        assert notice.message == (
            'generated column "twice" of table public.b is left out: PostgreSQL does not publish it'
        )
        result = await client.one("SELECT * FROM a")
        assert [str(row[2]) for row in result.rows] == ["1.50"]
        assert [(c.name, c.type.oid, c.type.modifier) for c in result.columns] == [
            ("id", 23, -1),
            ("v", 1043, 13),
            ("n", 1700, 393222),
            ("j", 114, -1),
        ]
        assert await client.rows("SELECT * FROM b") == [(7,)]
        assert await client.rows("SELECT * FROM c") == [(8,)]
        upstream.execute("INSERT INTO b VALUES (9)")
        await rows_in_time(client, "SELECT * FROM b", [(7,), (9,)])
        result = await client.one("SELECT * FROM src_progress")
        assert result.names == ["mz_timestamp", "lsn"]
        [(_, lsn)] = result.rows
        [(flushed,)] = upstream.execute(
            "SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint"
        ).fetchall()
        assert 0 < lsn <= flushed
        [(text,)] = await client.rows("SELECT create_sql FROM mz_sources WHERE name = 'src'")
        assert "CONNECTION waterclock.public.pg" in text.replace('"', "")
        assert await slots(upstream) == 1
        await client.run("DROP SOURCE src")
        assert await slots(upstream) == 0
        assert (await client.fails("SELECT * FROM b")).sqlstate == "42P01"

    run(logical_server, tmp_path, scene)


def test_a_publication_of_its_own(logical_server: PostgresServer, tmp_path: Path) -> None:
    """It is made for the tables that are named, and goes with the source, or if there is none."""
    published = "SELECT pubname FROM pg_publication WHERE pubname LIKE 'waterclock%'"

    async def scene(on: Stage) -> None:
        client, upstream = on.client, on.upstream
        await client.run(f"{SOURCE} FOR TABLES (public.b, c AS mine)")
        assert await client.rows("SELECT * FROM b") == [(7,)]
        upstream.execute("INSERT INTO s.c VALUES (9)")
        await rows_in_time(client, "SELECT * FROM mine", [(8,), (9,)])
        assert len(upstream.execute(published).fetchall()) == 1
        again = SOURCE.replace("SOURCE", "SOURCE IF NOT EXISTS")
        await client.run(f"{again} FOR TABLES (a)")
        for tables, message in (
            ("a", 'relation "src" already exists'),
            ("none", "table none does not exist upstream"),
            ("parted", "table parted is partitioned"),
            ("plain", "REPLICA IDENTITY of table public.plain is not FULL"),
        ):
            error = await client.fails(f"{SOURCE} FOR TABLES ({tables})")
            assert error.message == message
        assert len(upstream.execute(published).fetchall()) == 1
        await client.run("DROP SOURCE src")
        assert upstream.execute(published).fetchall() == []
        assert await slots(upstream) == 0
        await check_right_to_publish(client, upstream)

    run(logical_server, tmp_path, scene)


async def check_right_to_publish(client: Client, upstream: psycopg.Connection[Any]) -> None:
    user = f"u{uuid.uuid4().hex}"
    upstream.execute(f"CREATE ROLE {user} LOGIN REPLICATION; GRANT SELECT ON a TO {user}")
    await client.run(connection_to(upstream.info.dsn, "weak", user))
    create = "CREATE SOURCE src FROM POSTGRES CONNECTION weak FOR TABLES (a)"
    error = await client.fails(create)
    assert error.message == "the user of the connection may not publish the tables"
    assert "PUBLICATION 'name'" in (error.hint or "")


def test_a_source_goes_on_after_a_restart(logical_server: PostgresServer, tmp_path: Path) -> None:
    async def scene(on: Stage) -> None:
        world, client, upstream = on.world, on.client, on.upstream
        await client.run(
            f"{SOURCE} (PUBLICATION 'p', EXCLUDE COLUMNS (a.j), TEXT COLUMNS (public.a.n))"
            " FOR TABLES (public.a AS mine, s.c) EXPOSE PROGRESS AS how_far"
        )
        assert await client.rows("SELECT * FROM mine") == [(1, "x", "1.50")]
        await asyncio.to_thread(world.close)
        upstream.execute("UPDATE a SET v = 'y'; DELETE FROM s.c")
        await asyncio.to_thread(world.open)
        again = await world.connect()
        await rows_in_time(again, "SELECT * FROM mine", [(1, "y", "1.50")])
        assert await again.rows("SELECT * FROM c") == []
        assert len(await again.rows("SELECT lsn FROM how_far")) == 1

    run(logical_server, tmp_path, scene)


def test_a_table_that_fails_leaves_the_others(
    logical_server: PostgresServer, tmp_path: Path
) -> None:
    async def scene(on: Stage) -> None:
        client, upstream = on.client, on.upstream
        await client.run(f"{SOURCE} (PUBLICATION 'p') FOR SCHEMAS (public)")
        assert await client.rows("SELECT * FROM b") == [(7,)]
        upstream.execute("ALTER TABLE a DROP COLUMN v")
        upstream.execute("INSERT INTO b VALUES (8)")
        await rows_in_time(client, "SELECT * FROM b", [(7,), (8,)])
        error = await fails_in_time(client, "SELECT * FROM a")
        assert error.sqlstate == "55000"
        assert 'column "v" was dropped or renamed upstream' in error.message

    run(logical_server, tmp_path, scene)


def test_a_lost_slot_is_what_a_reader_is_told(
    logical_server: PostgresServer, tmp_path: Path
) -> None:
    async def scene(on: Stage) -> None:
        world, client, upstream = on.world, on.client, on.upstream
        await client.run(f"{SOURCE} (PUBLICATION 'p') FOR TABLES (b)")
        assert await client.rows("SELECT * FROM b") == [(7,)]
        await asyncio.to_thread(world.close)
        await asyncio.to_thread(drop_slots, upstream)
        await asyncio.to_thread(world.open)
        client = await world.connect()
        error = await fails_in_time(client, "SELECT * FROM b")
        assert "does not exist any more upstream" in error.message
        [(status,)] = await client.rows(
            "SELECT status FROM mz_internal.mz_source_statuses WHERE name = 'src'"
        )
        assert status == "failed"

    run(logical_server, tmp_path, scene)


def wait_until_gone(server: PostgresServer, slot: str) -> None:
    until = time.monotonic() + SECONDS
    with psycopg.connect(server.conninfo(), autocommit=True) as upstream:
        query = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s"
        while upstream.execute(query, [slot]).fetchall():
            assert time.monotonic() < until, "the slot is still there"
            time.sleep(0.1)


def test_drop_while_the_server_is_away(logical_server: PostgresServer, tmp_path: Path) -> None:
    async def scene(on: Stage) -> None:
        client, upstream = on.client, on.upstream
        await client.run(f"{SOURCE} (PUBLICATION 'p') FOR TABLES (b)")
        assert await client.rows("SELECT * FROM b") == [(7,)]
        [(slot,)] = upstream.execute(
            "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
        ).fetchall()
        # Not as in a crash: the server then waits until we have what it has sent, or are gone.
        assert await asyncio.to_thread(logical_server.stop) == 0, "by itself"
        try:
            client.notices.clear()
            await client.run("DROP SOURCE src")
        finally:
            logical_server.start()
        [notice] = client.notices
        assert notice.severity == "WARNING"
        assert notice.message.startswith(f'replication slot "{slot}" was left upstream: ')
        assert notice.hint == f"Drop it there: SELECT pg_drop_replication_slot('{slot}')."
        # the next start removes what was left
        await asyncio.to_thread(on.world.close)
        await asyncio.to_thread(on.world.open)
        await asyncio.to_thread(wait_until_gone, logical_server, slot)

    with pytest.raises(psycopg.OperationalError):  # the test's own connection is gone as well
        run(logical_server, tmp_path, scene)
    with psycopg.connect(logical_server.conninfo(), autocommit=True) as upstream:
        upstream.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active"
        )


REFUSED = [
    ("(PUBLICATION 'p')", "needs FOR ALL TABLES", None),
    ("FOR ALL TABLES", "PUBLICATION option is required", None),
    ("(PUBLICATION 'x') FOR ALL TABLES", 'publication "x" does not exist', "CREATE PUBLICATION x"),
    (
        "(PUBLICATION 'part') FOR ALL TABLES",
        'publication "part" does not publish all changes',
        "SET (publish = 'insert, update, delete, truncate')",
    ),
    ("(PUBLICATION 'nothing') FOR ALL TABLES", 'publication "nothing" has no tables', "ADD TABLE"),
    ("(PUBLICATION 'p') FOR TABLES (z)", "table z does not exist upstream", None),
    (
        "(PUBLICATION 'p') FOR TABLES (public.outside)",
        'table public.outside is not in publication "p"',
        "ALTER PUBLICATION p ADD TABLE public.outside",
    ),
    (
        "(PUBLICATION 'bad') FOR TABLES (plain)",
        "REPLICA IDENTITY of table public.plain is not FULL",
        "ALTER TABLE public.plain REPLICA IDENTITY FULL",
    ),
    (
        "(PUBLICATION 'root') FOR ALL TABLES",
        "table public.parted is partitioned and published as one table",
        "publish_via_partition_root = false",
    ),
    (
        "(PUBLICATION 'bad') FOR TABLES (wide)",
        "type numeric(50,2) is not supported",
        "TEXT COLUMNS or EXCLUDE COLUMNS",
    ),
    (
        "(PUBLICATION 'bad') FOR TABLES (own)",
        'column name "mz_diff" of table public.own is reserved',
        "EXCLUDE COLUMNS",
    ),
    ("(PUBLICATION 'p') FOR SCHEMAS (x)", 'has no table in schema "x"', None),
    ("(PUBLICATION 'p') FOR TABLES (a, a AS b)", "table public.a is named twice", None),
    (
        "(PUBLICATION 'p', TEXT COLUMNS (a.nope)) FOR TABLES (a)",
        "TEXT COLUMNS names a column that is not read: a.nope",
        None,
    ),
    (
        "(PUBLICATION 'p', EXCLUDE COLUMNS (b.id, b.twice)) FOR TABLES (b)",
        "table public.b has no columns to read",
        None,
    ),
    ("(PUBLICATION 'p') FOR ALL TABLES ENVELOPE NONE", "ENVELOPE is not supported", None),
    ("(SLOT 'p') FOR ALL TABLES", 'option "slot" not recognized', None),
]


def test_what_is_refused_and_why(logical_server: PostgresServer, tmp_path: Path) -> None:
    async def scene(on: Stage) -> None:
        client, upstream = on.client, on.upstream
        for text, message, hint in REFUSED:
            error = await client.fails(f"{SOURCE} {text}")
            assert message in error.message, text
            assert hint is None or hint in (error.hint or ""), text
        assert await slots(upstream) == 0
        await check_rights(client, upstream)

    run(logical_server, tmp_path, scene)


async def check_rights(client: Client, upstream: psycopg.Connection[Any]) -> None:
    """What the user of the connection may not do is told as that."""
    user = f"u{uuid.uuid4().hex}"
    upstream.execute(f"CREATE ROLE {user} LOGIN PASSWORD 'right'")
    require_password(upstream, user)
    await client.run("CREATE SECRET pw AS 'wrong'")
    options = connection_to(upstream.info.dsn, "weak", user).removesuffix(")")
    unusable = await client.fails(f"{options}, PASSWORD SECRET pw)")
    assert "password authentication failed" in (unusable.detail or "")
    await client.run(f"{options}, PASSWORD SECRET pw) WITH (VALIDATE = false)")
    create = "CREATE SOURCE src FROM POSTGRES CONNECTION weak (PUBLICATION 'p') FOR TABLES (a)"
    error = await client.fails(create)
    assert "password authentication failed" in error.message
    await client.run("ALTER SECRET pw AS 'right'")
    error = await client.fails(create)
    assert error.message == "the user of the connection may not use replication"
    assert "WITH REPLICATION" in (error.hint or "")
    upstream.execute(f"ALTER ROLE {user} REPLICATION")
    error = await client.fails(create)
    assert error.message == "permission denied for table public.a upstream"
    upstream.execute(f"GRANT SELECT ON a TO {user}")
    upstream.execute("ALTER TABLE a ENABLE ROW LEVEL SECURITY")
    error = await client.fails(create)
    assert error.message == "row security hides rows of table public.a upstream"
    upstream.execute("ALTER TABLE a DISABLE ROW LEVEL SECURITY")
    await client.run(create)
    assert len(await client.rows("SELECT id FROM a")) == 1
    await client.run("DROP SOURCE src")


def require_password(upstream: psycopg.Connection[Any], user: str) -> None:
    [(path,)] = upstream.execute("SHOW hba_file").fetchall()
    rules = Path(path)
    line = f"host all {user} 127.0.0.1/32 scram-sha-256"
    rules.write_text(f"{line}\n{rules.read_text()}")
    upstream.execute("SELECT pg_reload_conf()")
    deadline = time.monotonic() + SECONDS
    with contextlib.suppress(psycopg.OperationalError):  # when the server has read it
        while time.monotonic() < deadline:
            psycopg.connect(upstream.info.dsn, user=user).close()


def test_a_server_that_is_not_set_up(postgres_server: PostgresServer, tmp_path: Path) -> None:
    async def inside() -> None:
        conninfo = postgres_server.conninfo()
        async with adapter_world(tmp_path) as world:
            client = await world.connect()
            await client.run(connection_to(conninfo))
            error = await client.fails(f"{SOURCE} (PUBLICATION 'p') FOR ALL TABLES")
            assert error.message == "wal_level of the PostgreSQL server is not logical"
            assert "ALTER SYSTEM SET wal_level = logical" in (error.hint or "")
            nobody = connection_to(conninfo.replace(str(postgres_server.port), "1"), "no")
            assert (await client.fails(nobody)).sqlstate == "08001"
            await client.run(f"{nobody} WITH (VALIDATE = false)")
            error = await client.fails(
                "CREATE SOURCE s FROM POSTGRES CONNECTION no (PUBLICATION 'p') FOR ALL TABLES"
            )
            assert error.sqlstate == "08000"
            assert "could not read from PostgreSQL at 127.0.0.1:1" in error.message

    asyncio.run(inside())
