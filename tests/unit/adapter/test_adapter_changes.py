"""INSERT, UPDATE and DELETE without an engine: what is refused and where, and own writes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pyarrow as pa
import pytest

from waterclock.adapter.api import ConstraintViolated
from waterclock.adapter.tables import Dependence, Waiting, WriteConflict
from waterclock.model.ids import GlobalId
from waterclock.sql.errors import SqlFault
from waterclock.testing.adapter_world import AdapterWorld, Client, in_world


async def made(world: AdapterWorld) -> Client:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int NOT NULL, b text)")
    await client.run("INSERT INTO t VALUES (1, 'x'), (1, 'x'), (2, 'y')")
    return client


@in_world
async def test_errors_stand_where_the_statement_says_it(world: AdapterWorld) -> None:
    client = await made(world)
    for text in (
        "UPDATE t SET b = ?nope WHERE a = 1",
        "UPDATE t SET a = 1, b = (upper(?nope)) WHERE a = 1",
        "UPDATE t AS u SET b = 'q' WHERE ?nope = 1",
        "UPDATE t SET b = ?s.v FROM t AS u WHERE u.a = t.a",
        "WITH u AS (SELECT ?nope FROM t) UPDATE t SET b = 'q'",
        "UPDATE t SET a = ?'x'",
        "DELETE FROM t WHERE ?nope = 1",
        "DELETE FROM t AS u WHERE u.a = ?'y'",
        "DELETE FROM t USING t AS u WHERE ?nope = u.a",
        "DELETE FROM t USING ?nope WHERE true",
        "INSERT INTO t (a, ?nope) VALUES (1, 2)",
        "INSERT INTO t (a, b, ?a) VALUES (1, 2, 3)",
        "UPDATE t SET b = 'q', ?nope = 1",
        "UPDATE t SET b = 'q', ?b = 'r'",
        "INSERT INTO t VALUES (1, ?nope)",
        "INSERT INTO t VALUES (1, 'a'), (1 + 1, ?nope)",
        "INSERT INTO t SELECT a, ?nope FROM t",
        "WITH u AS (SELECT 1 AS c) INSERT INTO t SELECT ?nope, 'x' FROM u",
        "WITH u AS (SELECT 1 AS c) INSERT INTO t WITH v AS (TABLE u) SELECT ?nope, 'x' FROM v",
        "WITH u AS (SELECT ?nope) INSERT INTO t VALUES ((SELECT 1 FROM u), 'x')",
    ):
        fault = await client.fails(text.replace("?", ""))
        assert isinstance(fault, SqlFault), text
        assert fault.position == text.index("?") + 1, text


@in_world
async def test_each_column_that_is_named_gets_a_value(world: AdapterWorld) -> None:
    client = await made(world)
    for text in (
        "INSERT INTO t (a, b) VALUES (1)",
        "INSERT INTO t (a) VALUES (1, 2)",
        "INSERT INTO t VALUES (1, 'x', 3)",
        "INSERT INTO t (a) SELECT a, b FROM t",
        "INSERT INTO t (a, b) SELECT a FROM t",
    ):
        assert (await client.fails(text)).sqlstate == "42601", text
    assert await client.tag("INSERT INTO t VALUES (1)") == "INSERT 0 1"


@in_world
async def test_a_missing_value_is_told_with_its_row(world: AdapterWorld) -> None:
    client = await made(world)
    fault = await client.fails("INSERT INTO t VALUES (3, 'fine'), (NULL, 'bad')")
    assert isinstance(fault, ConstraintViolated)
    assert (fault.sqlstate, fault.column) == ("23502", "a")
    assert fault.detail == "Failing row contains (null, bad)."


@in_world
async def test_a_row_in_an_error_is_shown_as_postgres_shows_it(world: AdapterWorld) -> None:
    client = await made(world)
    await client.tag("CREATE TABLE kinds (a int NOT NULL, b bool, i interval, y bytea, t text)")
    insert = f"INSERT INTO kinds VALUES (NULL, true, '1 day 2:00', '\\x00ff', '{'é' * 40}')"
    shown = "Failing row contains (null, t, {}, \\x00ff, " + "é" * 32 + "...)."
    assert (await client.fails(insert)).detail == shown.format("1 day 02:00:00")
    await client.tag("SET intervalstyle = iso_8601")
    assert (await client.fails(insert)).detail == shown.format("P1DT2H")


@pytest.mark.semantics(97, 98, 100, 101)
@in_world
async def test_a_transaction_sees_its_own_writes_and_nobody_else_does(world: AdapterWorld) -> None:
    client, other = await made(world), await world.connect()
    await client.run("BEGIN")
    await client.run("INSERT INTO t VALUES (3, 'z'), (1, 'x')")
    assert await client.rows("SELECT a FROM t ORDER BY a") == [(1,), (1,), (1,), (2,), (3,)]
    assert await client.tag("DELETE FROM t WHERE a = 1") == "DELETE 3"
    assert await client.rows("SELECT * FROM t ORDER BY a") == [(2, "y"), (3, "z")]
    assert await other.rows("SELECT count(*) FROM t") == [(3,)]
    await client.run("ROLLBACK")
    assert await client.rows("SELECT a FROM t ORDER BY a") == [(1,), (1,), (2,)]
    await client.run("BEGIN; INSERT INTO t VALUES (3, 'z'); DELETE FROM t WHERE a = 1")
    assert await client.rows("SELECT a FROM t ORDER BY a") == [(2,), (3,)]
    await client.run("COMMIT")
    assert await other.rows("SELECT a FROM t ORDER BY a") == [(2,), (3,)]


@in_world
async def test_what_a_transaction_takes_back_is_never_written(world: AdapterWorld) -> None:
    client = await made(world)
    before = world.core.table_commits
    await client.run("BEGIN; INSERT INTO t VALUES (9, 'q')")
    assert await client.tag("DELETE FROM t WHERE a = 9") == "DELETE 1"
    await client.run("COMMIT")
    assert world.core.table_commits == before
    assert await client.rows("SELECT count(*) FROM t") == [(3,)]


@pytest.mark.semantics(99)
@in_world
async def test_what_was_read_after_a_write_must_stay(world: AdapterWorld) -> None:
    client, other = await made(world), await world.connect()
    await client.run("BEGIN; INSERT INTO t VALUES (3, 'mine')")
    assert await client.rows("SELECT count(*) FROM t") == [(4,)]
    await other.run("INSERT INTO t VALUES (4, 'theirs')")
    assert await client.rows("SELECT count(*) FROM t") == [(4,)]
    assert (await client.fails("COMMIT")).sqlstate == "40001"
    assert await client.rows("SELECT b FROM t WHERE a > 2") == [("theirs",)]


@pytest.mark.semantics(97)
@in_world
async def test_what_outlasts_a_transaction_can_not_see_its_writes(world: AdapterWorld) -> None:
    client = await made(world)
    for text in ("SUBSCRIBE TO t", "CREATE TABLE u AS SELECT * FROM t"):
        await client.run("BEGIN; INSERT INTO t VALUES (3, 'mine')")
        fault = await client.fails(text)
        assert (fault.sqlstate, fault.hint) == ("0A000", "Commit first.")
        await client.run("ROLLBACK")


@in_world
async def test_as_of_reads_what_was_committed_then(world: AdapterWorld) -> None:
    client = await made(world)
    while (
        world.core.oracle.read_ts() >= world.core.runtime.wall_ms()
    ):  # many writes at once are ahead of it
        await asyncio.sleep(0.001)
    await client.run("BEGIN; INSERT INTO t VALUES (3, 'mine')")
    assert await client.rows("SELECT count(*) FROM t AS OF now()") == [(3,)]
    await client.run("ROLLBACK")
    assert (await client.fails("SELECT * FROM t AS OF now() LIMIT 1")).sqlstate == "42601"


@in_world
async def test_what_is_newer_than_the_transaction_can_not_be_read_in_it(
    world: AdapterWorld,
) -> None:
    client, other = await made(world), await world.connect()
    await client.run("BEGIN; SELECT * FROM t; CREATE TABLE u (a int); INSERT INTO u VALUES (1)")
    assert await client.rows("SELECT * FROM u") == [(1,)], "it began at the same time"
    await client.run("COMMIT; BEGIN; SELECT * FROM t")
    await other.run("INSERT INTO t VALUES (3, 'later'); CREATE TABLE v (a int)")
    fault = await client.fails("SELECT * FROM v")
    assert (fault.sqlstate, fault.hint) == ("40001", "Commit first.")
    await client.run("ROLLBACK")
    assert await client.rows("SELECT * FROM v") == []


@in_world
async def test_a_statement_that_is_done_again_takes_nothing_along(world: AdapterWorld) -> None:
    """What was written before it in the same message is committed by then."""
    client, tables = await made(world), world.core.tables
    begin = tables.begin
    conflicts: list[Dependence] = []

    def conflicting(
        changes: Mapping[GlobalId, pa.Table], dependence: Dependence | None = None
    ) -> Waiting:
        if dependence is not None and not conflicts:
            conflicts.append(dependence)
            raise WriteConflict("somebody was faster")
        return begin(changes, dependence)

    tables.begin = conflicting  # type: ignore[method-assign]
    await client.run("INSERT INTO t VALUES (9, 'q'); INSERT INTO t SELECT a, b FROM t WHERE a = 2")
    assert len(conflicts) == 1
    assert await client.rows("SELECT a FROM t ORDER BY a") == [(1,), (1,), (2,), (2,), (9,)]
