"""Views over files, on Spark; and files that are objects in S3."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from waterclock.errors import WaterclockError
from waterclock.testing.adapter_world import AdapterWorld, Client, adapter_world
from waterclock.testing.services import S3Server

SECONDS = 240.0
FAST = "WITH (TIMESTAMP INTERVAL = '50ms')"


async def until(client: Client, query: str, expected: list[tuple[Any, ...]]) -> None:
    deadline = time.monotonic() + SECONDS
    while sorted(found := await client.rows(query)) != sorted(expected):
        assert time.monotonic() < deadline, f"{query} has {found}, not {expected}"
        await asyncio.sleep(0.1)


async def until_error(client: Client, query: str) -> WaterclockError:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            await client.rows(query)
        except WaterclockError as error:
            return error
        await asyncio.sleep(0.1)
    raise AssertionError(f"{query} does not fail")


async def follow(world: AdapterWorld, folder: Path) -> None:
    one = folder / "one.json"
    one.write_text('{"id": 1, "v": 10}\n{"id": 2, "v": 20}\n')
    client = await world.connect()
    await client.tag(f"CREATE SOURCE f (id int, v bigint) FROM FILE '{folder}' FORMAT JSON {FAST}")
    await client.tag("CREATE VIEW doubled AS SELECT id, v * 2 AS w FROM f")
    await client.tag("CREATE MATERIALIZED VIEW total AS SELECT sum(w) AS s FROM doubled")
    await until(client, "SELECT s FROM total", [(60,)])
    [(before,)] = await client.rows("SELECT DISTINCT mz_timestamp FROM f_progress")
    with one.open("a") as more:
        more.write('{"id": 3, "v": "no number"}\n')
    for query in ("SELECT s FROM total", "SELECT * FROM doubled", "SELECT count(*) FROM f"):
        error = await until_error(client, query)
        assert error.sqlstate == "22P02"
        assert f'can not read the value of file "{one}", offset 38' in error.message
    assert await client.rows(f"SELECT s FROM total AS OF {before}") == [(60,)]
    one.write_text("")  # it has shrunk: the source can not go on
    for query in ("SELECT count(*) FROM f", "SELECT * FROM doubled", "SELECT s FROM total"):
        while (error := await until_error(client, query)).sqlstate == "22P02":
            await asyncio.sleep(0.05)
        assert (error.sqlstate, error.message[:18]) == ("55000", "source has failed:")
    assert await client.rows(f"SELECT s FROM total AS OF {before}") == [(60,)]


@pytest.mark.slow
def test_errors_of_a_source_reach_views(tmp_path: Path, spark: SparkSession) -> None:
    folder = tmp_path / "in"
    folder.mkdir()

    async def inside() -> None:
        async with adapter_world(tmp_path / "data", spark) as world:
            await follow(world, folder)

    asyncio.run(inside())


@pytest.mark.service
def test_objects_in_s3(tmp_path: Path, s3_server: S3Server) -> None:
    s3_server.make_bucket("lines")
    system = s3_server.filesystem()

    def write(name: str, text: str) -> None:
        with system.open_output_stream(f"lines/in/{name}") as out:
            out.write(text.encode())

    async def inside() -> None:
        async with adapter_world(tmp_path) as world:
            client = await world.connect()
            write("one", "a\n")
            url = (
                f"s3://test:test@lines/in?scheme=http&endpoint_override=127.0.0.1:{s3_server.port}"
            )
            await client.tag(f"CREATE SOURCE s FROM FILE '{url}' FORMAT TEXT {FAST}")
            await until(client, "SELECT text FROM s", [("a",)])
            write("one", "a\nb\n")
            write("two", "c\n")
            await until(client, "SELECT text FROM s", [("a",), ("b",), ("c",)])
            progress = 'SELECT file, "offset" FROM s_progress'
            assert sorted(await client.rows(progress)) == [("lines/in/one", 4), ("lines/in/two", 2)]

    asyncio.run(inside())
