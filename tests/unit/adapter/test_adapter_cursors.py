"""Prepared statements and cursors, in SQL and through the protocol's calls."""

from __future__ import annotations

import pyarrow as pa
import pytest

from waterclock.adapter.api import Rows, TransactionStatus
from waterclock.adapter.errors import DuplicateStatement, UnknownCursor
from waterclock.model.pg_types import INT4, TEXT
from waterclock.testing.adapter_world import AdapterWorld, Client, in_world, taken


async def made(world: AdapterWorld) -> Client:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int, b text)")
    await client.run("INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three'), (4, 'four')")
    return client


@in_world
async def test_prepare_and_execute(world: AdapterWorld) -> None:
    client = await made(world)
    assert await client.tag("PREPARE q (int) AS SELECT b FROM t WHERE a = $1") == "PREPARE"
    assert await client.rows("EXECUTE q(2)") == [("two",)]
    assert await client.rows("EXECUTE q(9)") == []
    assert (await client.fails("EXECUTE q")).sqlstate == "42601"
    assert (await client.fails("EXECUTE q(1, 2)")).detail == "Expected 1 parameters but got 2."
    assert (await client.fails("PREPARE q AS SELECT 1")).sqlstate == "42P05"
    assert await client.tag("DEALLOCATE q") == "DEALLOCATE"
    assert (await client.fails("EXECUTE q(1)")).sqlstate == "26000"
    assert (await client.fails("DEALLOCATE q")).sqlstate == "26000"


@in_world
async def test_types_of_parameters_are_inferred(world: AdapterWorld) -> None:
    client = await made(world)
    await client.run("PREPARE q AS SELECT b FROM t WHERE a = $1")
    described = await client.session.describe_statement("q")
    assert described.parameters == (INT4,)
    assert described.columns is not None
    assert [(c.name, c.type) for c in described.columns] == [("b", TEXT)]
    assert await client.rows("EXECUTE q(3)") == [("three",)]


@in_world
async def test_execute_of_a_change(world: AdapterWorld) -> None:
    client = await made(world)
    await client.run("PREPARE add (int, text) AS INSERT INTO t VALUES ($1, $2)")
    assert await client.tag("EXECUTE add(5, 'five')") == "INSERT 0 1"
    assert await client.rows("SELECT b FROM t WHERE a = 5") == [("five",)]


@in_world
async def test_statements_of_the_protocol_and_of_sql_share_their_names(world: AdapterWorld) -> None:
    client = await made(world)
    session = client.session
    await session.parse("p", "SELECT a FROM t WHERE a > $1", [])
    assert sorted(await client.rows("EXECUTE p(2)")) == [(3,), (4,)]
    await client.run("PREPARE s AS SELECT a FROM t WHERE a = $1")
    with pytest.raises(DuplicateStatement):
        await session.parse("s", "SELECT 1", [])
    await session.bind("", "s", [pa.scalar(4, pa.int32())], ())
    assert (await taken(await session.execute("", 0))).rows == [(4,)]
    await session.sync()
    await session.parse("", "SELECT 1", [])
    assert await client.tag("DEALLOCATE ALL") == "DEALLOCATE ALL"
    assert list(session.statements) == [""]


@in_world
async def test_a_cursor_is_taken_bit_by_bit(world: AdapterWorld) -> None:
    client = await made(world)
    assert (await client.fails("DECLARE c CURSOR FOR SELECT a FROM t")).sqlstate == "25P01"
    await client.run("BEGIN")
    assert await client.tag("DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a") == "DECLARE CURSOR"
    fetched = await client.one("FETCH 2 FROM c")
    assert (fetched.tag, fetched.rows) == ("FETCH 2", [(1,), (2,)])
    assert await client.tag("MOVE c") == "MOVE 1"
    assert (await client.one("FETCH ALL IN c")).tag == "FETCH 1"
    assert (await client.one("FETCH NEXT c")).rows == []
    assert await client.tag("MOVE ALL c") == "MOVE 0"
    assert await client.tag("CLOSE c") == "CLOSE CURSOR"
    assert (await client.fails("FETCH c")).sqlstate == "34000"


@in_world
async def test_absolute_and_relative_places(world: AdapterWorld) -> None:
    client = await made(world)
    await client.run("BEGIN; DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a")
    assert await client.rows("FETCH 0 c") == []
    assert await client.rows("FETCH FIRST c") == [(1,)]
    assert await client.rows("FETCH RELATIVE 2 c") == [(3,)]
    assert await client.rows("FETCH ABSOLUTE 4 c") == [(4,)]
    assert await client.rows("FETCH ABSOLUTE 9 c") == []


@pytest.mark.parametrize("way", ["PRIOR", "BACKWARD 2", "ABSOLUTE 1", "RELATIVE 0", "-1", "LAST"])
def test_no_way_back(way: str, tmp_path: object) -> None:
    async def inside(world: AdapterWorld) -> None:
        client = await made(world)
        await client.run(
            "BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT a FROM t ORDER BY a; FETCH 2 c"
        )
        error = await client.fails(f"FETCH {way} FROM c")
        assert error.sqlstate == "55000"
        assert client.session.status is TransactionStatus.FAILED

    in_world(inside)(tmp_path)  # type: ignore[arg-type]


@in_world
async def test_a_cursor_does_not_see_what_is_written_after_it(world: AdapterWorld) -> None:
    client, other = await made(world), await world.connect()
    await client.run("BEGIN; DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a")
    await other.run("INSERT INTO t VALUES (0, 'zero')")
    await client.run("INSERT INTO t VALUES (-1, 'mine')")
    assert await client.rows("FETCH ALL c") == [(1,), (2,), (3,), (4,)]


@in_world
async def test_cursors_end_with_the_transaction_unless_held(world: AdapterWorld) -> None:
    client = await made(world)
    await client.run("BEGIN; DECLARE c CURSOR FOR SELECT a FROM t")
    await client.run("DECLARE h CURSOR WITH HOLD FOR SELECT a FROM t ORDER BY a; COMMIT")
    assert (await client.fails("FETCH c")).sqlstate == "34000"
    assert await client.rows("FETCH 1 h") == [(1,)]
    assert await client.rows("FETCH 2 h") == [(2,), (3,)]
    assert await client.tag("CLOSE ALL") == "CLOSE CURSOR ALL"
    await client.run("BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT a FROM t; ROLLBACK")
    assert (await client.fails("FETCH h")).sqlstate == "34000"


@in_world
async def test_what_cursors_can_not_be(world: AdapterWorld) -> None:
    client = await made(world)
    for text in ("SCROLL CURSOR FOR SUBSCRIBE t", "CURSOR WITH HOLD FOR SUBSCRIBE t"):
        assert (await client.fails(f"BEGIN; DECLARE c {text}")).sqlstate == "0A000"
        await client.run("ROLLBACK")
    await client.run("BEGIN; DECLARE c CURSOR FOR SELECT a FROM t")
    assert (await client.fails("DECLARE c CURSOR FOR SELECT a FROM t")).sqlstate == "42P03"
    await client.run("ROLLBACK; BEGIN; DECLARE c CURSOR FOR SELECT a FROM t")
    error = await client.fails("FETCH c WITH (timeout = 'soon')")
    assert error.sqlstate == "42601"


@in_world
async def test_fetch_and_execute_are_described(world: AdapterWorld) -> None:
    client = await made(world)
    session = client.session
    await client.run("PREPARE q AS SELECT b FROM t; BEGIN; DECLARE c CURSOR FOR SELECT a FROM t")
    for text, names in (("FETCH ALL c", ["a"]), ("EXECUTE q", ["b"])):
        await session.parse("", text, [])
        columns = (await session.describe_statement("")).columns
        assert columns is not None
        assert [column.name for column in columns] == names
    for text in ("MOVE ALL c", "CLOSE c", "DEALLOCATE q", "FETCH nowhere"):
        await session.parse("", text, [])
        assert (await session.describe_statement("")).columns is None
    with pytest.raises(UnknownCursor):
        await session.describe_portal("nowhere")


@in_world
async def test_a_cursor_is_declared_with_parameters(world: AdapterWorld) -> None:
    client = await made(world)
    session = client.session
    await client.run("BEGIN")
    await session.parse("", "DECLARE c CURSOR FOR SELECT b FROM t WHERE a = $1", [])
    described = await session.describe_statement("")
    assert (described.parameters, described.columns) == ((INT4,), None)
    await session.bind("", "", [pa.scalar(3, pa.int32())], ())
    assert (await taken(await session.execute("", 0))).tag == "DECLARE CURSOR"
    assert await client.rows("FETCH ALL c") == [("three",)]


@in_world
async def test_a_portal_and_a_cursor_are_one_thing(world: AdapterWorld) -> None:
    client = await made(world)
    session = client.session
    await client.run("BEGIN; DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a")
    page = await session.execute("c", 3)
    assert isinstance(page, Rows)
    assert (await taken(page)).rows == [(1,), (2,), (3,)]
    assert await client.rows("FETCH ALL c") == [(4,)]
    await session.parse("s", "SELECT a FROM t ORDER BY a", [])
    await session.bind("p", "s", [], ())
    await taken(await session.execute("p", 1))
    assert await client.rows("FETCH 2 p") == [(2,), (3,)]


# --- What the catalog tells of them ---------------------------------------------------------------


@in_world
async def test_a_session_sees_its_own_statements_and_cursors(world: AdapterWorld) -> None:
    client, other = await world.connect(), await world.connect()
    await client.run("PREPARE p (int, text) AS SELECT $1, $2")
    await client.session.parse("named", "SELECT 1", [])
    await client.session.sync()
    asked = (
        "SELECT name, statement, parameter_types, from_sql, prepare_time IS NOT NULL"
        " FROM pg_prepared_statements ORDER BY name"
    )
    assert await client.rows(asked) == [
        ("named", "SELECT 1", [], False, True),
        ("p", "PREPARE p (int, text) AS SELECT $1, $2", ["integer", "text"], True, True),
    ]
    await client.run("BEGIN")
    await client.run("DECLARE c SCROLL CURSOR FOR VALUES (1)")
    flags = "SELECT name, statement, is_holdable, is_binary, is_scrollable FROM pg_cursors"
    expected = ("c", "DECLARE c SCROLL CURSOR FOR VALUES (1)", False, False, True)
    assert await client.rows(flags) == [expected]
    await client.run("CLOSE c")
    await client.run("DEALLOCATE ALL")
    for relation in ("pg_cursors", "pg_prepared_statements"):
        assert await client.rows(f"SELECT count(*) FROM {relation}") == [(0,)]
        assert await other.rows(f"SELECT count(*) FROM {relation}") == [(0,)]
