"""CREATE SOURCE ... FROM FILE, from the statement to the rows and what is wrong with them."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from waterclock.errors import WaterclockError
from waterclock.testing.adapter_world import AdapterWorld, Client, adapter_world, with_files
from waterclock.testing.schema_registry import schema_registry

FAST = "WITH (TIMESTAMP INTERVAL = '20ms')"


async def until(client: Client, query: str, expected: list[tuple[Any, ...]]) -> None:
    """Wait until the query has this answer."""
    found: Any = None
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        with contextlib.suppress(WaterclockError):
            found = await client.rows(query)
            if sorted(found) == sorted(expected):
                return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{query} has {found}, not {expected}")


async def until_error(client: Client, query: str) -> WaterclockError:
    """Wait until the query fails; with what."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        try:
            await client.rows(query)
        except WaterclockError as error:
            return error
        await asyncio.sleep(0.02)
    raise AssertionError(f"{query} does not fail")


@pytest.mark.semantics(119, 167, 168)
def test_json_files_over_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    one = folder / "one.json"
    one.write_text('{"id": 1, "name": "x"}\n{"id": 2}\n')

    async def first() -> None:
        async with adapter_world(tmp_path / "data") as world:
            client = await world.connect()
            made = await client.tag(
                f"CREATE SOURCE f (id int NOT NULL, name text) FROM FILE '{folder}' "
                f"(PATTERN '*.json') FORMAT JSON {FAST}"
            )
            assert made == "CREATE SOURCE"
            await until(client, "SELECT id, name FROM f", [(1, "x"), (2, None)])
            progress = 'SELECT file, "offset" FROM f_progress'
            assert await client.rows(progress) == [(str(one), 33)]
            found = await client.one("SELECT * FROM f")
            assert found.names == ["id", "name"]
            with one.open("a") as more:
                more.write('{"id": 3}\n')
            await until(client, "SELECT id FROM f", [(1,), (2,), (3,)])
            kinds = "SELECT type, envelope_type, value_format FROM mz_sources WHERE name = 'f'"
            assert await client.rows(kinds) == [("file", "none", "json")]
            world.close()
            world.open()
            client = await world.connect()
            with one.open("a") as more:
                more.write('{"id": 4}\n')
            await until(client, "SELECT id FROM f", [(1,), (2,), (3,), (4,)])

    asyncio.run(first())


@with_files
async def test_what_can_not_be_read_fails_reads_at_those_times(
    world: AdapterWorld, folder: Path
) -> None:
    one = folder / "one.json"
    one.write_text('{"id": 1}\n')
    client = await world.connect()
    source = f"CREATE SOURCE f (id int) FROM FILE '{one}' FORMAT JSON {FAST}"
    await client.tag(source)
    await until(client, "SELECT id FROM f", [(1,)])
    [(before,)] = await client.rows("SELECT mz_timestamp FROM f_progress")
    with one.open("a") as more:
        more.write('{"id": "x"}\n')
    error = await until_error(client, "SELECT id FROM f")
    place = f'file "{one}", offset 10'
    assert error.message == (
        f"can not read the value of {place}: Expected `int | null`, got `str` - at `$.id`"
    )
    assert error.sqlstate == "22P02"
    assert error.detail == f"The row is partition {one}, offset 10, in source f."
    assert error.hint is not None
    assert "ON DECODE ERROR SKIP" in error.hint
    assert await client.rows(f"SELECT id FROM f AS OF {before}") == [(1,)]
    assert "can not read" in (await client.fails("SUBSCRIBE f")).message
    status = "SELECT status FROM mz_internal.mz_source_statuses"
    await until(client, status, [("error",)])
    progress = await client.rows('SELECT "offset" FROM f_progress')
    assert progress == [(22,)], "bad data does not stop it"
    await client.tag("DROP SOURCE f")


@with_files
async def test_a_source_that_fails_while_it_runs(world: AdapterWorld, folder: Path) -> None:
    """What was complete before is no answer any more, unless it is asked for by its time."""
    one = folder / "one.txt"
    one.write_text("a\nb\n")
    client, waiter = await world.connect(), await world.connect()
    await client.tag(f"CREATE SOURCE f FROM FILE '{folder}' FORMAT TEXT {FAST}")
    await until(client, "SELECT text FROM f", [("a",), ("b",)])
    [(before,)] = await client.rows("SELECT mz_timestamp FROM f_progress")
    far = f"SELECT text FROM f AS OF {before + 3_600_000}"
    waiting = [asyncio.create_task(waiter.fails(each)) for each in (far,)]
    follower = await world.connect()
    waiting.append(asyncio.create_task(follower.fails("SUBSCRIBE f")))
    await asyncio.sleep(0.1)
    one.write_text("a\n")
    error = await until_error(client, "SELECT text FROM f")
    assert error.sqlstate == "55000"
    assert "has failed" in error.message
    for told in await asyncio.gather(*waiting):
        assert (told.sqlstate, told.message) == (error.sqlstate, error.message)
    assert await client.rows(f"SELECT text FROM f AS OF {before}") == [("a",), ("b",)]
    assert await client.rows('SELECT "offset" FROM f_progress') == [(4,)]


@with_files
async def test_formats(world: AdapterWorld, folder: Path) -> None:
    (folder / "a.csv").write_text("id;name\n1;x\n2;y\n")
    (folder / "a.txt").write_text("one\ntwo\n")
    pq.write_table(pa.table({"n": [1, 2], "t": ["a", None]}), folder / "a.parquet")
    client = await world.connect()
    end = "(FOLLOW false) FORMAT"
    csv = f"FROM FILE '{folder}/*.csv' {end} CSV WITH HEADER DELIMITED BY ';' {FAST}"
    await client.tag(f"CREATE SOURCE named {csv}")
    await client.tag(f"CREATE SOURCE typed (id bigint, name text) {csv}")
    columns = f"FROM FILE '{folder}/*.csv' {end} CSV WITH 2 COLUMNS DELIMITED BY ';' {FAST}"
    await client.tag(f"CREATE SOURCE plain {columns}")
    await client.tag(
        f"CREATE SOURCE texts (line, at) FROM FILE '{folder}/a.txt' {end} TEXT "
        f"INCLUDE OFFSET {FAST}"
    )
    await client.tag(f"CREATE SOURCE bytes FROM FILE '{folder}/a.txt' {end} BYTES {FAST}")
    await client.tag(f"CREATE SOURCE rows FROM FILE '{folder}/*.parquet' {end} PARQUET {FAST}")
    await until(client, "SELECT id, name FROM named", [("1", "x"), ("2", "y")])
    await until(client, "SELECT id, name FROM typed", [(1, "x"), (2, "y")])
    expected = [("id", "name"), ("1", "x"), ("2", "y")]
    await until(client, "SELECT column1, column2 FROM plain", expected)
    await until(client, "SELECT line, at FROM texts", [("one", 0), ("two", 4)])
    await until(client, "SELECT data FROM bytes", [(b"one",), (b"two",)])
    await until(client, "SELECT t, n FROM rows WHERE n = 1", [("a", 1)])
    status = "SELECT DISTINCT status FROM mz_internal.mz_source_statuses"
    await until(client, status, [("finished",)])


@with_files
async def test_statements_that_do_not_make_sense(world: AdapterWorld, folder: Path) -> None:
    client = await world.connect()
    for rest, told in (
        ("", "a source of files requires FORMAT"),
        ("(NONSENSE 1) FORMAT TEXT", 'option "nonsense" not recognized'),
        ("FORMAT TEXT ENVELOPE UPSERT", "ENVELOPE UPSERT is not supported for files"),
        ("KEY FORMAT TEXT VALUE FORMAT TEXT", "KEY FORMAT is not supported for files"),
        ("FORMAT TEXT INCLUDE PARTITION", "INCLUDE PARTITION is not supported for files"),
        ("FORMAT CSV WITH HEADER", "there is no file yet whose header could be taken"),
        ("FORMAT CSV WITH 2 COLUMNS DELIMITED BY ';;'", "delimited by a single character"),
        ("FORMAT PARQUET", "there is no file yet whose columns could be taken"),
        ("FORMAT PARQUET INCLUDE OFFSET", "not supported for Parquet"),
        ("FORMAT TEXT ENVELOPE DEBEZIUM", "ENVELOPE DEBEZIUM requires FORMAT JSON"),
        ("FORMAT TEXT FOR ALL TABLES", "FOR TABLES is not supported"),
    ):
        error = await client.fails(f"CREATE SOURCE f FROM FILE '{folder}' {rest}")
        assert told in error.message, rest
    for columns, told in (
        ("(a varchar(5))", "limited type"),
        ("(a timestamp(3))", "limited type"),
        ("(a interval)", "interval can not be read from JSON"),
    ):
        statement = f"CREATE SOURCE f {columns} FROM FILE '{folder}' FORMAT JSON"
        assert told in (await client.fails(statement)).message
    error = await client.fails(f"CREATE SOURCE f (a int) FROM FILE '{folder}' FORMAT TEXT")
    assert "FORMAT JSON and CSV only" in error.message
    error = await client.fails("CREATE SOURCE f FROM FILE 'relative' FORMAT TEXT")
    assert "must be absolute" in error.message
    error = await client.fails("CREATE SOURCE c (a int) FROM LOAD GENERATOR COUNTER")
    assert "have their types" in error.message


@pytest.mark.semantics(144)
@with_files
async def test_envelopes_over_files(world: AdapterWorld, folder: Path) -> None:
    """Debezium's changes and native updates may be in files as well."""
    changes = [
        {"op": "c", "after": {"id": 1}, "source": {}},
        {"op": "u", "before": {"id": 1}, "after": {"id": 2}, "source": {}},
    ]
    (folder / "d").write_text("".join(json.dumps(each) + "\n" for each in changes))
    native = [
        {"updates": [{"data": {"id": 7}, "time": 1, "diff": 2}]},
        {"progress": {"lower": [0], "upper": [2], "counts": [{"time": 1, "count": 1}]}},
    ]
    (folder / "m").write_text("".join(json.dumps(each) + "\n" for each in native))
    client = await world.connect()
    for name, envelope in (("d", "DEBEZIUM"), ("m", "MATERIALIZE")):
        await client.tag(
            f"CREATE SOURCE {name} (id int) FROM FILE '{folder}/{name}' "
            f"FORMAT JSON ENVELOPE {envelope} {FAST}"
        )
    await until(client, "SELECT id FROM d", [(2,)])
    await until(client, "SELECT id FROM m", [(7,), (7,)])


def test_a_registry_is_for_topics(tmp_path: Path) -> None:
    """Files name no subject that a registry could be asked for."""

    async def inside(folder: Path, url: str) -> None:
        async with adapter_world(folder) as world:
            client = await world.connect()
            await client.tag(f"CREATE CONNECTION r TO CONFLUENT SCHEMA REGISTRY (URL '{url}')")
            error = await client.fails(
                "CREATE SOURCE f FROM FILE '/tmp' "
                "FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION r"
            )
            assert "schema registry is not supported" in error.message

    with schema_registry() as registry:
        asyncio.run(inside(tmp_path, registry.url))


@with_files
async def test_only_superusers_read_files(world: AdapterWorld, folder: Path) -> None:
    admin = await world.connect()
    await admin.run("CREATE ROLE eve LOGIN; GRANT CREATE ON SCHEMA public TO eve")
    eve = await world.connect("eve")
    error = await eve.fails(f"CREATE SOURCE f FROM FILE '{folder}' FORMAT TEXT")
    assert (error.sqlstate, error.message) == ("42501", "must be superuser to read files")


@with_files
async def test_partitions_as_columns(world: AdapterWorld, folder: Path) -> None:
    client = await world.connect()
    january, february = datetime.date(2024, 1, 31), datetime.date(2024, 2, 1)
    for day, ids in (("2024-01-31", [1, 2]), ("2024-02-01", [3])):
        place = folder / "table" / f"day={day}" / "country=G B"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"id": ids}), place / "part.parquet")
        lines = folder / "lines" / f"day={day}"
        lines.mkdir(parents=True)
        (lines / "x.json").write_text("".join(f'{{"id": {i}}}\n' for i in ids))
    await client.tag(f"CREATE SOURCE found FROM FILE '{folder}/table' FORMAT PARQUET {FAST}")
    await until(
        client,
        "SELECT id, day, country FROM found",
        [(1, "2024-01-31", "G B"), (2, "2024-01-31", "G B"), (3, "2024-02-01", "G B")],
    )
    await client.tag(
        f"CREATE SOURCE typed (day date NOT NULL, id int) FROM FILE '{folder}/table' "
        f"(HIVE PARTITIONS (day)) FORMAT PARQUET {FAST}"
    )
    await until(
        client,
        "SELECT id, day FROM typed",
        [(1, january), (2, january), (3, february)],
    )
    await client.tag(
        f"CREATE SOURCE lines (id bigint, day date) FROM FILE '{folder}/lines' "
        f"(HIVE PARTITIONS (day, hour)) FORMAT JSON {FAST}"
    )
    await until(
        client,
        "SELECT id, day, hour FROM lines",
        [(1, january, None), (2, january, None), (3, february, None)],
    )
    wrong = await client.fails(
        f"CREATE SOURCE x FROM FILE '{folder}/lines' (HIVE PARTITIONS ('day')) FORMAT JSON"
    )
    assert wrong.sqlstate == "42601"


@with_files
async def test_a_place_that_does_not_exist_is_a_notice(world: AdapterWorld, folder: Path) -> None:
    client = await world.connect()
    await client.tag(f"CREATE SOURCE later FROM FILE '{folder}/later' FORMAT TEXT {FAST}")
    assert [each.message for each in client.notices] == [f'"{folder}/later" does not exist yet']
    (folder / "later").write_text("here\n")
    await until(client, "SELECT text FROM later", [("here",)])
    (folder / "later").unlink()
    error = await until_error(client, "SELECT text FROM later")
    assert "is gone upstream" in error.message
