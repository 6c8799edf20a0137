"""ON DECODE ERROR in statements: what is skipped, the column of INLINE, and what is refused."""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path

import pytest

from waterclock.testing.adapter_world import AdapterWorld, adapter_world, with_files

FAST = "WITH (TIMESTAMP INTERVAL = '20ms')"


@with_files
async def test_lines_that_can_not_be_read_are_in_a_relation_of_their_own(
    world: AdapterWorld, folder: Path
) -> None:
    one = folder / "one.json"
    one.write_text('{"id": 1}\nno json\n')
    client = await world.connect()
    made = f"CREATE SOURCE f (id int NOT NULL) FROM FILE '{one}' FORMAT JSON ON DECODE ERROR SKIP"
    await client.tag(f"{made} {FAST}")
    skipped = 'SELECT file, "offset", message_value, subject, sqlstate FROM f_errors'
    first = (str(one), 10, b"no json", f"partition {one}, offset 10", "22P02")
    await client.until_rows(skipped, [first])
    await client.until_rows("SELECT id FROM f", [(1,)])
    found = await client.one("SELECT * FROM f_errors")
    assert found.names == [
        *("bound_at", "file", "offset", "message_key", "message_value"),
        *("subject", "sqlstate", "reason"),
    ]
    [row] = found.rows
    assert row[-1].startswith(f'can not read the value of file "{one}", offset 10: JSON')
    [(shown,)] = [row[1:] for row in await client.rows("SHOW CREATE SOURCE f")]
    assert "ON DECODE ERROR SKIP WITH" in shown
    time = world.core.oracle.read_ts()
    followed = await client.one(f"SUBSCRIBE f_errors AS OF {time} UP TO {time + 1}")
    assert [each[2:] for each in followed.rows] == found.rows
    subsource = "SELECT type FROM mz_sources WHERE name = 'f_errors'"
    assert await client.rows(subsource) == [("subsource",)]
    counts = "SELECT messages_undecodable, messages_skipped FROM mz_internal.mz_source_statistics"
    await client.until_rows(counts, [(1, 1)])
    await asyncio.to_thread(world.close)
    await asyncio.to_thread(world.open)
    client = await world.connect()
    with one.open("a") as more:
        more.write('[]\n{"id": 2}\n')
    await client.until_rows("SELECT id FROM f", [(1,), (2,)])
    assert sorted(await client.rows('SELECT "offset" FROM f_errors')) == [(10,), (18,)]
    error = await client.fails("DROP SOURCE f_errors")
    assert "f" in error.message
    await client.tag("DROP SOURCE f")
    assert (await client.fails("SELECT * FROM f_errors")).sqlstate == "42P01"


@with_files
async def test_a_source_with_too_many_errors_has_no_value_but_they_can_be_read(
    world: AdapterWorld, folder: Path
) -> None:
    one = folder / "one.json"
    one.write_text('{"id": 1}\n')
    client = await world.connect()
    await client.tag(
        f"CREATE SOURCE f (id int) FROM FILE '{one}' FORMAT JSON"
        f" ON DECODE ERROR SKIP (MAX ERRORS = 1) EXPOSE ERRORS AS wrong {FAST}"
    )
    await client.until_rows("SELECT id FROM f", [(1,)])
    with one.open("a") as more:
        more.write("no\nno\n")
    error = await client.until_error("SELECT id FROM f")
    assert error.sqlstate == "54000"
    assert error.message == (
        "more than 1 messages of the source can not be read, which is its MAX ERRORS"
    )
    assert error.hint is not None
    assert '"wrong"' in error.hint or "wrong" in error.hint
    assert await client.rows('SELECT "offset" FROM wrong ORDER BY 1') == [(10,), (13,)]


@with_files
async def test_a_wrong_header_concerns_all_lines_and_is_not_skipped(
    world: AdapterWorld, folder: Path
) -> None:
    (folder / "one.csv").write_text("a,b\n1,2\n")
    client = await world.connect()
    await client.tag(
        f"CREATE SOURCE f FROM FILE '{folder / 'one.csv'}' FORMAT CSV WITH HEADER (a, c)"
        f" ON DECODE ERROR SKIP {FAST}"
    )
    error = await client.until_error("SELECT * FROM f")
    assert "the header of" in error.message
    assert await client.rows("SELECT * FROM f_errors") == []


@with_files
async def test_inline_errors(world: AdapterWorld, folder: Path) -> None:
    one = folder / "one.csv"
    one.write_text("1,a\nx,b\n")
    client = await world.connect()
    await client.tag(
        f"CREATE SOURCE f (id int NOT NULL, name text) FROM FILE '{one}'"
        f" FORMAT CSV WITH 2 COLUMNS INCLUDE OFFSET ON DECODE ERROR INLINE AS wrong {FAST}"
    )
    await client.until_rows('SELECT id, name, "offset" FROM f', [(1, "a", 0), (None, None, 4)])
    assert await client.rows("SELECT id FROM f WHERE wrong IS NULL") == [(1,)]
    [(wrong,)] = await client.rows("SELECT wrong FROM f WHERE id IS NULL")
    assert wrong.startswith(f'can not read the value of file "{one}", offset 4')
    [(_, shown)] = await client.rows("SHOW CREATE SOURCE f")
    assert "ON DECODE ERROR INLINE AS wrong" in shown


@with_files
async def test_columns_in_paths_beside_the_column_of_errors(
    world: AdapterWorld, folder: Path
) -> None:
    (folder / "day=2024-01-31").mkdir()
    (folder / "day=2024-01-31" / "one").write_text('{"id": 1}\n{"id": "x"}\n')
    client = await world.connect()
    made = f"(id int NOT NULL, day date) FROM FILE '{folder}' (HIVE PARTITIONS = (day)) FORMAT JSON"
    await client.tag(f"CREATE SOURCE f {made} ON DECODE ERROR INLINE {FAST}")
    await client.tag(f"CREATE SOURCE g {made} ON DECODE ERROR SKIP {FAST}")
    day = datetime.date(2024, 1, 31)
    await client.until_rows("SELECT id, day FROM f", [(1, day), (None, day)])
    assert await client.rows("SELECT id FROM f WHERE error IS NULL") == [(1,)]
    await client.until_rows("SELECT * FROM g", [(1, day)])
    await client.until_rows('SELECT "offset" FROM g_errors', [(10,)])


@pytest.mark.parametrize(
    ("clauses", "sqlstate", "message"),
    [
        ("FORMAT TEXT EXPOSE ERRORS AS e", "42601", "EXPOSE ERRORS requires"),
        (
            "FORMAT TEXT ON DECODE ERROR SKIP (MAX ERRORS = -1)",
            "42601",
            "MAX ERRORS must not be negative",
        ),
        (
            "FORMAT TEXT ON DECODE ERROR SKIP (LIMIT = 1)",
            "42601",
            'option "limit" not recognized',
        ),
        (
            "FORMAT TEXT ON DECODE ERROR INLINE AS text",
            "22023",
            'there is a column "text" already',
        ),
        (
            "FORMAT TEXT ON DECODE ERROR SKIP EXPOSE ERRORS AS t",
            "42P07",
            'relation "t" already exists',
        ),
        ("FORMAT PARQUET ON DECODE ERROR SKIP", "0A000", "not supported for Parquet"),
        (
            "FORMAT AVRO USING SCHEMA '{}' ENVELOPE DEBEZIUM ON DECODE ERROR SKIP",
            "0A000",
            "ON DECODE ERROR SKIP with ENVELOPE DEBEZIUM is supported for FORMAT JSON only",
        ),
        (
            "FORMAT JSON ENVELOPE MATERIALIZE ON DECODE ERROR INLINE",
            "0A000",
            "ON DECODE ERROR INLINE is not supported with ENVELOPE MATERIALIZE",
        ),
    ],
)
def test_refusals(tmp_path: Path, clauses: str, sqlstate: str, message: str) -> None:
    async def inside() -> None:
        async with adapter_world(tmp_path / "data") as world:
            client = await world.connect()
            await client.tag("CREATE TABLE t (a int)")
            columns = "(a int)" if "PARQUET" in clauses else ""
            error = await client.fails(
                f"CREATE SOURCE f {columns} FROM FILE '{tmp_path}' {clauses}"
            )
            assert (error.sqlstate, message in error.message) == (sqlstate, True), error

    asyncio.run(inside())


@with_files
async def test_sources_of_which_nothing_is_decoded(world: AdapterWorld, folder: Path) -> None:
    client = await world.connect()
    for source, what in (
        ("LOAD GENERATOR COUNTER", "load generators"),
        ("WEBHOOK BODY FORMAT JSON", "webhooks"),
    ):
        error = await client.fails(f"CREATE SOURCE s FROM {source} ON DECODE ERROR SKIP")
        assert error.message == f"ON DECODE ERROR is not supported for {what}"
        await client.tag(f"CREATE SOURCE s FROM {source} ON DECODE ERROR FAIL")
        await client.tag("DROP SOURCE s")
    assert folder.is_dir()
