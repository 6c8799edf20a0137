"""COPY both ways, and its options."""

from __future__ import annotations

import pyarrow as pa
import pytest

from waterclock.adapter import sequencer
from waterclock.adapter.api import CopyFormat, CopyHeader, CopyIn, CopyOptions
from waterclock.adapter.copy_options import copy_options
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.sequencer import copying
from waterclock.adapter.sequencer.writing import NotNullViolated
from waterclock.errors import WaterclockError
from waterclock.sql.ast import Copy
from waterclock.sql.parser import parse_statements
from waterclock.testing.adapter_world import AdapterWorld, Client, in_world


async def made(world: AdapterWorld) -> Client:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int NOT NULL, b text DEFAULT 'usual')")
    return client


def batch(**columns: list[object]) -> pa.RecordBatch:
    kinds = {"a": pa.int32(), "b": pa.string()}
    arrays = [pa.array(values, kinds[name]) for name, values in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


@in_world
async def test_rows_come_in(world: AdapterWorld) -> None:
    client = await made(world)
    rows = [batch(a=[1, 2], b=["x", None]), batch(a=[3], b=["y"])]
    assert (await client.one("COPY t FROM STDIN", rows)).tag == "COPY 3"
    assert await client.rows("SELECT * FROM t ORDER BY a") == [(1, "x"), (2, None), (3, "y")]


@in_world
async def test_columns_that_do_not_come_have_their_default(world: AdapterWorld) -> None:
    client = await made(world)
    await client.one("COPY t (a) FROM STDIN", [batch(a=[1])])
    assert await client.rows("SELECT * FROM t") == [(1, "usual")]
    copied = await client.one("COPY t (b, a) TO STDOUT")
    assert copied.names == ["b", "a"]
    assert copied.rows == [("usual", 1)]
    assert copied.tag == "COPY 1"


@in_world
async def test_a_bad_row_leaves_nothing(world: AdapterWorld) -> None:
    client = await made(world)
    rows = [batch(a=[1], b=["x"]), batch(a=[None], b=["y"])]
    with pytest.raises(NotNullViolated):
        await client.one("COPY t FROM STDIN", rows)
    assert await client.rows("SELECT * FROM t") == []


@pytest.mark.semantics(98)
@in_world
async def test_it_is_part_of_the_transaction(world: AdapterWorld) -> None:
    client, other = await made(world), await world.connect()
    await client.run("BEGIN")
    await client.one("COPY t FROM STDIN", [batch(a=[1], b=["x"])])
    assert await other.rows("SELECT * FROM t") == []
    await client.run("ROLLBACK; BEGIN")
    await client.one("COPY t FROM STDIN", [batch(a=[2], b=["y"])])
    await client.run("INSERT INTO t VALUES (3, 'z'); COMMIT")
    assert await other.rows("SELECT a FROM t ORDER BY a") == [(2,), (3,)]


@in_world
async def test_it_is_durable_when_it_says_so(world: AdapterWorld) -> None:
    client, other = await made(world), await world.connect()
    [parsed] = parse_statements("COPY t FROM STDIN")
    response = await sequencer.run(client.session, parsed, ())
    assert isinstance(response, CopyIn)
    await response.sink.append(batch(a=[1], b=["x"]))
    assert await response.sink.finish() == "COPY 1"
    assert await other.rows("SELECT a FROM t") == [(1,)]


@in_world
async def test_many_rows_wait_in_a_file(world: AdapterWorld) -> None:
    client = await made(world)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copying, "_IN_MEMORY_BYTES", 1000)
        rows = [batch(a=[n] * 100, b=[str(n)] * 100) for n in range(20)]
        assert (await client.one("COPY t FROM STDIN", rows)).tag == "COPY 2000"
        with pytest.raises(NotNullViolated):
            await client.one("COPY t FROM STDIN", [*rows, batch(a=[None], b=["x"])])
    assert await client.rows("SELECT count(*) FROM t") == [(2000,)]


@in_world
async def test_what_is_refused(world: AdapterWorld) -> None:
    client = await made(world)
    await client.run("CREATE VIEW v AS SELECT a FROM t")
    expected = {
        "COPY v FROM STDIN": "42809",
        "COPY nowhere FROM STDIN": "42P01",
        "COPY t (nothing) FROM STDIN": "42703",
        "COPY t (a, a) FROM STDIN": "42701",
        "COPY t FROM STDIN WHERE a > 1": "0A000",
        "COPY t (nothing) TO STDOUT": "42703",
    }
    for text, sqlstate in expected.items():
        assert (await client.fails(text)).sqlstate == sqlstate, text
    await client.run("SET default_transaction_read_only = on")
    assert (await client.fails("COPY t FROM STDIN")).sqlstate == "25006"
    assert (await client.fails("INSERT INTO t VALUES (1)")).sqlstate == "25006"


def options_of(text: str) -> CopyOptions:
    [parsed] = parse_statements(text)
    statement = parsed.statement
    assert isinstance(statement, Copy)
    return copy_options(statement.options, statement.direction, ["a", "b"])


def test_options_of_both_syntaxes() -> None:
    new = options_of("COPY t FROM STDIN (FORMAT csv, HEADER, NULL 'x', QUOTE '''', DELIMITER ';')")
    old = options_of("COPY t FROM STDIN WITH CSV HEADER NULL AS 'x' QUOTE '''' DELIMITER ';'")
    assert new == old
    assert new == CopyOptions(CopyFormat.CSV, ";", "x", CopyHeader.PRESENT, "'", "'")
    assert options_of("COPY t TO STDOUT") == CopyOptions(CopyFormat.TEXT)
    assert options_of("COPY t TO STDOUT (FORMAT binary)") == CopyOptions(CopyFormat.BINARY)
    assert options_of("COPY t FROM STDIN (HEADER match)").header is CopyHeader.MATCH
    forced = options_of("COPY t TO STDOUT (FORMAT csv, FORCE_QUOTE *)")
    assert forced.force_quote == frozenset({"a", "b"})
    forced = options_of("COPY t FROM STDIN (FORMAT csv, FORCE_NOT_NULL (a), FORCE_NULL (b))")
    assert (forced.force_not_null, forced.force_null) == (frozenset({"a"}), frozenset({"b"}))


def test_an_option_of_a_later_kind_is_unsupported() -> None:
    with pytest.raises(Unsupported):
        options_of("COPY t TO STDOUT (FORMAT csv, HEADER match)")
    with pytest.raises(WaterclockError) as raised:
        options_of("COPY t FROM STDIN (ENCODING 'latin1')")
    assert raised.value.sqlstate == "22023"
