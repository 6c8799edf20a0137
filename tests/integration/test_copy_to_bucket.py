"""COPY ... TO a bucket: files written with the rights of a connection."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from waterclock.testing.adapter_world import adapter_world
from waterclock.testing.services import S3Server


@pytest.mark.service
def test_a_bucket(tmp_path: Path, s3_server: S3Server) -> None:
    s3_server.make_bucket("exports")

    async def inside() -> None:
        async with adapter_world(tmp_path) as world:
            client = await world.connect()
            await client.run("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2), (3)")
            await client.run("CREATE SECRET k AS 'test'")
            await client.run(
                "CREATE CONNECTION aws TO AWS (ACCESS KEY ID 'test', SECRET ACCESS KEY SECRET k,"
                f" ENDPOINT '{s3_server.endpoint}')"
            )
            await client.run("CREATE ROLE bob; GRANT SELECT ON t TO bob")
            await client.run("GRANT USAGE ON CONNECTION aws TO bob; SET ROLE bob")
            over = "WITH (FORMAT PARQUET, AWS CONNECTION = aws)"
            assert await client.tag(f"COPY t TO 's3://exports/a/b' {over}") == "COPY 3"
            assert await client.tag(f"COPY t TO 's3://exports/one.parquet' {over}") == "COPY 3"
            again = await client.fails(f"COPY t TO 's3://exports/a/b' {over}")
            assert again.sqlstate == "58P02"
            nowhere = await client.fails(f"COPY t TO 's3://nobucket/a' {over}")
            assert nowhere.sqlstate == "58030"
            assert "s3://nobucket/a" in nowhere.message

    asyncio.run(inside())
    system = s3_server.filesystem()
    for path in ("exports/a/b/part-00000.parquet", "exports/one.parquet"):
        with system.open_input_file(path) as file:
            assert sorted(pq.read_table(file)["a"].to_pylist()) == [1, 2, 3]
    found = system.get_file_info(pafs.FileSelector("exports", recursive=True))
    assert sorted(each.path for each in found if each.type == pafs.FileType.File and each.size) == [
        "exports/a/b/_SUCCESS",
        "exports/a/b/part-00000.parquet",
        "exports/one.parquet",
    ]
