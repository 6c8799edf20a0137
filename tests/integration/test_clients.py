"""Real clients against a real server: psql, psycopg, asyncpg, SQLAlchemy, pgjdbc and dbt.

The server is `waterclock serve` in a process of its own. Where PostgreSQL can be asked the same, it
is, and must give the same answer.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import json
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types import TypeInfo
from psycopg.types.json import Jsonb
from psycopg_pool import ConnectionPool
from sqlalchemy.dialects.postgresql import JSONB

from waterclock.testing.client_programs import (
    find_dbt_python,
    find_java_program,
    find_jdbc,
    find_psql,
)
from waterclock.testing.server_process import ServerProcess
from waterclock.testing.services import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.service, pytest.mark.timeout(1800)]

HERE = Path(__file__).parent / "clients"
SET_UP = (
    "CREATE SCHEMA shop",
    "CREATE TABLE shop.items (id int NOT NULL, name text, price numeric(10,2) DEFAULT 1.5,"
    " at timestamptz, tags text[], j jsonb, v varchar(20))",
    "CREATE TABLE customers (id bigint NOT NULL, country char(2), born date)",
    "COMMENT ON TABLE customers IS 'who buys'",
    "COMMENT ON COLUMN customers.id IS 'its number'",
    "CREATE VIEW rich AS SELECT id, country FROM customers WHERE id > 10",
    "CREATE INDEX customers_by_country ON customers (country)",
    "CREATE MATERIALIZED VIEW counts AS SELECT country, count(*) AS n FROM customers"
    " GROUP BY country",
    "GRANT SELECT ON customers TO public",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("clients") / "data") as server:
        yield server


@pytest.fixture(scope="module")
def peer(postgres_server: PostgresServer) -> str:
    """A PostgreSQL with a role and a database of the same names."""
    with psycopg.connect(postgres_server.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE ROLE waterclock SUPERUSER LOGIN")
        connection.execute("CREATE DATABASE waterclock OWNER waterclock")
    return make_conninfo(postgres_server.conninfo("waterclock"), user="waterclock")


# psql

SAME = (
    *(r"\d", r"\dt", r"\dv", r"\dm", r"\di", r"\dtvmi", r"\dt *.*items", r"\dt+", r"\df", r"\da"),
    *(r"\d customers", r"\d+ customers", r"\d rich", r"\d counts", r"\d shop.items", r"\dd"),
    *(r"\d customers_by_country", r"\d nothing", r"\dT", r"\ds", r"\dC", r"\do", r"\dD", r"\dE"),
    *(r"\ddp", r"\dO", r"\dRp", r"\dy", r"\dAc", r"\drds", r"\dP", r"\dX", r"\dew", r"\dl"),
    *(r"\encoding", r"\dconfig search_path"),
)


@pytest.fixture(scope="module")
def described(server: ServerProcess, peer: str) -> tuple[str, str]:
    """Both servers with the same objects in a database of their own."""
    targets = []
    for dsn in (server.dsn, peer):
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CREATE DATABASE described")
        target = make_conninfo(dsn, dbname="described")
        with psycopg.connect(target, autocommit=True) as connection:
            for statement in SET_UP:
                connection.execute(statement.encode())
        targets.append(target)
    return targets[0], targets[1]


def psql(dsn: str, *commands: str) -> str:
    arguments = [each for command in commands for each in ("-c", command)]
    done = subprocess.run(
        [find_psql(), dsn, "-X", "-q", *arguments],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("command", SAME)
def test_psql_says_the_same(described: tuple[str, str], command: str) -> None:
    ours, theirs = described
    assert psql(ours, command) == psql(theirs, command)


def test_psql_where_the_servers_differ(described: tuple[str, str]) -> None:
    ours, _ = described
    assert re.search(r"described +\| waterclock +\| UTF8", psql(ours, r"\l"))
    assert re.search(r"waterclock +\| Superuser", psql(ours, r"\du"))
    assert re.search(r"shop +\| waterclock", psql(ours, r"\dn"))
    assert psql(ours, r"\sv rich").splitlines() == [
        "CREATE OR REPLACE VIEW public.rich AS",
        "SELECT id, country FROM customers WHERE id > 10",
    ]
    assert "=r/waterclock" in psql(ours, r"\dp customers")
    assert 'database "described" as user "waterclock"' in psql(ours, r"\conninfo")


def test_psql_copies_files_both_ways(server: ServerProcess, tmp_path: Path) -> None:
    given, taken = tmp_path / "given.csv", tmp_path / "taken.csv"
    given.write_text('n,t\n1,"a,b"\n2,\n3,"say ""x"""\n')
    psql(server.dsn, "CREATE TABLE copied (n int, t text)")
    assert psql(server.dsn, rf"\copy copied from '{given}' csv header") == ""
    query = "select n, t from copied order by n"
    assert psql(server.dsn, rf"\copy ({query}) to '{taken}' csv header") == ""
    assert taken.read_text() == given.read_text()


# psycopg

ROW = (
    *(1, "Ann", dt.date(2020, 2, 29), Decimal("12.50"), ["x", None, "y z"], {"a": [1, 2]}),
    *(dt.datetime(2024, 1, 2, 3, 4, 5, 678901, dt.UTC), uuid.UUID(int=5), b"\0\xff"),
    *(1.5, True, 7, 2**40),
)
PETS = (
    "CREATE TABLE pets (id int NOT NULL, name text, born date, weight numeric(6,2), tags text[],"
    " info jsonb, seen timestamptz, key uuid, data bytea, f float8, b bool, s smallint, l bigint)"
)
PLACES = ",".join(f"${n}" for n in range(1, len(ROW) + 1))


@pytest.fixture(scope="module")
def tables(server: ServerProcess) -> ServerProcess:
    with server.connect() as connection:
        connection.execute(PETS)
        connection.execute("CREATE TABLE pairs (a int, b text)")
        values = [Jsonb(each) if isinstance(each, dict) else each for each in ROW]
        places = ",".join(["%s"] * len(ROW))
        connection.execute(f"INSERT INTO pets VALUES ({places})".encode(), values)
        connection.cursor().executemany(
            "INSERT INTO pairs VALUES (%s, %s)", [(n, str(n)) for n in range(20)]
        )
    return server


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_values(tables: ServerProcess, binary: bool) -> None:
    with tables.connect() as connection:
        cursor = connection.cursor(binary=binary)
        assert cursor.execute("SELECT * FROM pets").fetchone() == ROW
        shown = [(c.name, c.type_display) for c in cursor.description or ()]
        assert shown[:4] == [
            ("id", "int4"),
            ("name", "text"),
            ("born", "date"),
            ("weight", "numeric(6,2)"),
        ]
        assert TypeInfo.fetch(connection, "uuid") is not None


def test_psycopg_pipeline(tables: ServerProcess) -> None:
    with tables.connect() as connection:
        with connection.pipeline():
            for n in range(10):
                connection.execute("INSERT INTO pairs VALUES (%s, %s)", (1000 + n, "piped"))
            counted = connection.execute("SELECT count(*) FROM pairs WHERE b = 'piped'")
            one = connection.execute("SELECT a FROM pairs WHERE a = %s", (3,))
        assert counted.fetchone() == (10,), "a later statement sees what earlier ones wrote"
        assert one.fetchone() == (3,)
        with pytest.raises(psycopg.errors.UndefinedColumn), connection.pipeline():
            connection.execute("SELECT nothing FROM pairs")
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_psycopg_returning(tables: ServerProcess) -> None:
    with tables.connect() as connection:
        cursor = connection.cursor()
        rows = [(2000 + n, "returned") for n in range(3)]
        cursor.executemany("INSERT INTO pairs VALUES (%s, %s) RETURNING a", rows, returning=True)
        told = [cursor.fetchone()]
        while cursor.nextset():
            told.append(cursor.fetchone())
        assert told == [(2000,), (2001,), (2002,)]
        updated = connection.execute(
            "UPDATE pairs AS p SET b = 'new' WHERE a = 2000 RETURNING p.b, upper(b) AS loud, a + 1"
        )
        assert updated.fetchall() == [("new", "NEW", 2001)]
        gone = connection.execute("DELETE FROM pairs WHERE a >= 2000 RETURNING *")
        assert sorted(gone.fetchall()) == [(2000, "new"), (2001, "returned"), (2002, "returned")]
        with pytest.raises(psycopg.errors.UndefinedColumn) as failed:
            connection.execute("INSERT INTO pairs VALUES (1, '') RETURNING a, oops")
        assert failed.value.diag.statement_position == "47"


def test_psycopg_pool(tables: ServerProcess) -> None:
    with ConnectionPool(tables.dsn, min_size=2, max_size=4, open=True, timeout=240) as pool:
        for n in range(10):
            with pool.connection() as connection:
                found = connection.execute("SELECT b FROM pairs WHERE a = %s", (n,), prepare=True)
                assert found.fetchone() == (str(n),)
        pool.check()


@pytest.mark.parametrize("form", ["text", "binary"])
def test_psycopg_copy(tables: ServerProcess, form: str) -> None:
    with tables.connect() as connection:
        cursor = connection.cursor()
        first = 10_000 if form == "text" else 20_000
        rows = [(first + n, f"a\tb\\{n}") for n in range(500)]
        with cursor.copy(f"COPY pairs (a, b) FROM STDIN (FORMAT {form})".encode()) as copy:
            copy.set_types(["int4", "text"])
            for row in rows:
                copy.write_row(row)
        assert cursor.rowcount == 500
        picked = f"SELECT a, b FROM pairs WHERE a >= {first} AND a < {first + 500} ORDER BY a"
        with cursor.copy(f"COPY ({picked}) TO STDOUT (FORMAT {form})".encode()) as copy:
            copy.set_types(["int4", "text"])
            assert list(copy.rows()) == rows
        empty = f"COPY (SELECT a FROM pairs WHERE a < 0) TO STDOUT (FORMAT {form})"
        with cursor.copy(empty.encode()) as copy:
            assert list(copy.rows()) == []


def test_psycopg_server_cursors(tables: ServerProcess) -> None:
    with psycopg.connect(tables.dsn) as connection:
        with connection.cursor(name="some") as cursor:
            cursor.itersize = 3
            cursor.execute("SELECT a FROM pairs WHERE a < 20 ORDER BY a")
            assert [row[0] for row in cursor] == list(range(20))
        with connection.cursor(name="kept", withhold=True) as cursor:
            cursor.execute("SELECT a FROM pairs WHERE a < 20 ORDER BY a")
            connection.commit()
            assert cursor.fetchmany(2) == [(0,), (1,)]


def test_psycopg_savepoints(tables: ServerProcess) -> None:
    with psycopg.connect(tables.dsn) as connection, connection.transaction():
        connection.execute("INSERT INTO pairs VALUES (7777, 'kept')")
        with pytest.raises(psycopg.Error), connection.transaction():
            connection.execute("INSERT INTO pairs VALUES ('x'::int, 'lost')")
    with tables.connect() as connection:
        found = connection.execute("SELECT b FROM pairs WHERE a = 7777")
        assert found.fetchall() == [("kept",)]


def test_a_transaction_inserts_what_must_be_computed(tables: ServerProcess) -> None:
    """Constants that only the engine can compute read nothing, so writes may come before them."""
    with psycopg.connect(tables.dsn) as connection:
        for text in ("'a' || 'b'", "upper('c')", "'d'"):
            connection.execute(f"INSERT INTO pairs VALUES (8888, {text})".encode())
        connection.commit()
        found = connection.execute("SELECT b FROM pairs WHERE a = 8888 ORDER BY b").fetchall()
    assert found == [("C",), ("ab",), ("d",)]


# asyncpg


async def connect_asyncpg(server: ServerProcess) -> asyncpg.Connection:
    told = conninfo_to_dict(server.dsn)
    return await asyncpg.connect(
        host=told["host"], port=int(told["port"]), user=told["user"], database=told["dbname"]
    )


def test_asyncpg(tables: ServerProcess) -> None:
    asyncio.run(_prepared_statements(tables))
    asyncio.run(_cursors(tables))
    asyncio.run(_copies(tables))
    asyncio.run(_types(tables))


async def _prepared_statements(server: ServerProcess) -> None:
    connection = await connect_asyncpg(server)
    row = [json.dumps(each) if isinstance(each, dict) else each for each in ROW]
    assert list(await connection.fetchrow("SELECT * FROM pets WHERE id = 1")) == row
    row[0] = 2
    await connection.execute(f"INSERT INTO pets VALUES ({PLACES})", *row)
    assert list(await connection.fetchrow("SELECT * FROM pets WHERE id = $1", 2)) == row
    statement = await connection.prepare("SELECT a FROM pairs WHERE a = $1 AND b = $2")
    assert [each.name for each in statement.get_parameters()] == ["int4", "text"]
    assert [await statement.fetchval(n, str(n)) for n in (3, 4)] == [3, 4]
    assert await statement.fetchval(3, None) is None, "nothing equals null"
    some = await connection.fetch("SELECT a FROM pairs WHERE a = ANY($1::int[])", [5, 6])
    assert sorted(each["a"] for each in some) == [5, 6]
    await connection.close()


async def _cursors(server: ServerProcess) -> None:
    connection = await connect_asyncpg(server)
    query = "SELECT a FROM pairs WHERE a < 20 ORDER BY a"
    async with connection.transaction():
        assert [r["a"] async for r in connection.cursor(query, prefetch=7)] == list(range(20))
        cursor = await connection.cursor(query)
        await cursor.forward(3)
        assert (await cursor.fetchrow())["a"] == 3
    outer = connection.transaction()
    await outer.start()
    async with connection.transaction():
        await connection.execute("INSERT INTO pairs VALUES (31000, 'undone')")
    await outer.rollback()
    assert await connection.fetchval("SELECT count(*) FROM pairs WHERE a = 31000") == 0
    await connection.close()


async def _copies(server: ServerProcess) -> None:
    connection = await connect_asyncpg(server)
    records = [(40_000 + n, "recorded") for n in range(300)]
    told = await connection.copy_records_to_table("pairs", records=records, columns=["a", "b"])
    assert told == "COPY 300"
    out = io.BytesIO()
    query = "SELECT a FROM pairs WHERE b = $1"
    assert await connection.copy_from_query(query, "recorded", output=out) == "COPY 300"
    assert out.getvalue().count(b"\n") == 300
    source = io.BytesIO(b"50000,x\n50001,y\n")
    told = await connection.copy_to_table("pairs", source=source, format="csv", columns=["a", "b"])
    assert told == "COPY 2"
    await connection.close()


async def _types(server: ServerProcess) -> None:
    connection = await connect_asyncpg(server)
    found = await connection.fetchrow("SELECT oid, typtype FROM pg_type WHERE typname = 'int4'")
    assert tuple(found) == (23, b"b")
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads
    )
    assert await connection.fetchval("SELECT info FROM pets WHERE id = 1") == {"a": [1, 2]}
    await connection.reset()
    await connection.close()


# SQLAlchemy

METADATA = sa.MetaData()
WARES = sa.Table(
    "wares",
    METADATA,
    sa.Column("id", sa.Integer, nullable=False),
    sa.Column("name", sa.String(40)),
    sa.Column("price", sa.Numeric(10, 2)),
    sa.Column("at", sa.DateTime(timezone=True)),
    sa.Column("tags", sa.ARRAY(sa.Text)),
    sa.Column("more", JSONB),
)


def engine_of(dsn: str) -> sa.Engine:
    told = conninfo_to_dict(dsn)
    url = f"postgresql+psycopg://{told['user']}@{told['host']}:{told['port']}/{told['dbname']}"
    return sa.create_engine(url)


def reflected(engine: sa.Engine) -> list[Any]:
    """All that can be found out about the table."""
    found = sa.inspect(engine)
    columns = found.get_columns("wares")
    whole = sa.MetaData()
    whole.reflect(engine, only=["wares"])
    return [
        [(c["name"], str(c["type"]), c["nullable"], c["default"]) for c in columns],
        found.get_pk_constraint("wares"),
        found.get_foreign_keys("wares"),
        found.get_indexes("wares"),
        found.get_unique_constraints("wares"),
        found.get_check_constraints("wares"),
        found.get_table_comment("wares"),
        found.has_table("wares"),
        found.has_table("nothing"),
        [column.name for column in whole.tables["wares"].columns],
    ]


def used(engine: sa.Engine) -> list[Any]:
    """What statements of Core answer."""
    METADATA.create_all(engine)
    with engine.begin() as connection:
        wares = [{"id": n, "name": f"n{n}", "price": Decimal(n), "tags": ["a"]} for n in range(9)]
        connection.execute(sa.insert(WARES), wares)
    with engine.begin() as connection:
        added = sa.insert(WARES).values(id=100, more={"k": 1}).returning(WARES.c.id, WARES.c.more)
        answers: list[Any] = [connection.execute(added).all()]
    with engine.begin() as connection:
        changed = sa.update(WARES).where(WARES.c.id == 3).values(name="changed")
        answers.append(connection.execute(changed).rowcount)
    with engine.begin() as connection:
        answers.append(connection.execute(sa.delete(WARES).where(WARES.c.id == 4)).rowcount)
    with engine.connect() as connection:
        some = sa.select(WARES.c.id, WARES.c.name).where(WARES.c.id.in_([1, 3, 4]))
        answers.append(connection.execute(some.order_by(WARES.c.id)).all())
        total = sa.select(sa.func.sum(WARES.c.price), sa.func.count()).where(WARES.c.id < 50)
        answers.append(connection.execute(total).all())
    return answers


def test_sqlalchemy(server: ServerProcess, peer: str) -> None:
    ours, theirs = engine_of(server.dsn), engine_of(peer)
    try:
        assert used(ours) == used(theirs)
        assert reflected(ours) == reflected(theirs)
    finally:
        ours.dispose()
        theirs.dispose()


# pgjdbc


def test_pgjdbc(server: ServerProcess, peer: str) -> None:
    told = []
    for dsn in (server.dsn, peer):
        to = conninfo_to_dict(dsn)
        url = f"jdbc:postgresql://{to['host']}:{to['port']}/{to['dbname']}?user={to['user']}"
        done = subprocess.run(
            [find_java_program(), "-cp", find_jdbc(), HERE / "JdbcClient.java", url],
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        told.append(done.stdout.splitlines())
    assert told[0] == told[1]


# dbt


def test_dbt(server: ServerProcess, tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(HERE / "dbt", project)
    output = {
        **{"type": "materialize", "host": "127.0.0.1", "port": server.pg_port, "threads": 1},
        **{"user": "waterclock", "pass": "", "database": "waterclock", "schema": "shop_dbt"},
        "cluster": "quickstart",
    }
    profile = {"shop": {"target": "test", "outputs": {"test": output}}}
    (project / "profiles.yml").write_text(json.dumps(profile))
    done = subprocess.run(
        [find_dbt_python(), HERE / "dbt_commands.py"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "done: seed, run, test, docs generate, run"
    with server.connect() as connection:
        connection.execute("INSERT INTO shop_dbt.customers VALUES (4, 'GB', '2025-01-01')")
        found = connection.execute("SELECT country, n FROM shop_dbt.by_country ORDER BY country")
        assert found.fetchall() == [("GB", 2), ("US", 2)], "what dbt made is maintained"
        assert len(connection.execute("SELECT * FROM shop_dbt.recent").fetchall()) == 3
    catalog = json.loads((project / "target" / "catalog.json").read_text())
    assert set(catalog["nodes"]["model.shop.by_country"]["columns"]) == {"country", "n"}
