"""COPY ... TO 'location' WITH (FORMAT PARQUET), from the statement to the files."""

from __future__ import annotations

import asyncio
import datetime
import json
import uuid
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from waterclock.errors import WaterclockError
from waterclock.model.schema import Array, Column, Interval, Numeric, Schema, Text, Uuid
from waterclock.storage.exports.columns import ExportedColumns, NotExportable
from waterclock.storage.exports.parquet import ParquetExport
from waterclock.storage.exports.places import ExportFailed, place_of
from waterclock.testing.adapter_world import AdapterWorld, adapter_world

TABLE = """
CREATE TABLE t (
    b bool, s smallint, i int, l bigint, n numeric(10,2), x text, y bytea, day date, at time,
    ts timestamp, tz timestamptz, u uuid, j jsonb
);
INSERT INTO t VALUES (true, 1, 2, 3, 1.10, 'é', '\\x00ff', '2026-01-02', '03:04:05.000006',
    '2026-01-02 03:04:05.000006', '2026-01-02 03:04:05+00', '00000000-0000-0000-0000-00000000002a',
    '{"k": 1.50}');
INSERT INTO t (i) VALUES (NULL)
"""
ROW = (
    *(True, 1, 2, 3, Decimal("1.10"), "é", b"\x00\xff", datetime.date(2026, 1, 2)),
    datetime.time(3, 4, 5, 6),
    datetime.datetime(2026, 1, 2, 3, 4, 5, 6),
    datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
    str(uuid.UUID(int=42)),
    '{"k": 1.50}',
)


def in_world(test: Callable[[AdapterWorld, Path], Awaitable[None]]) -> Callable[[Path], None]:
    def run(tmp_path: Path) -> None:
        async def inside() -> None:
            async with adapter_world(tmp_path / "world") as world:
                await test(world, tmp_path)

        asyncio.run(inside())

    run.__name__ = test.__name__
    return run


@in_world
async def test_every_type_is_read_back_as_it_is(world: AdapterWorld, folder: Path) -> None:
    client = await world.connect()
    await client.run(TABLE)
    assert await client.tag(f"COPY t TO '{folder}/out' WITH (FORMAT PARQUET)") == "COPY 2"
    assert json.loads((folder / "out" / "_SUCCESS").read_text()) == {
        "rows": 2,
        "files": ["part-00000.parquet"],
    }
    found = pq.read_table(folder / "out")
    rows = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    assert sorted(rows, key=repr) == sorted([ROW, (None,) * len(ROW)], key=repr)
    others = duckdb.sql(f"SELECT n, u, ts FROM '{folder}/out/*.parquet' WHERE i = 2").fetchall()
    assert others == [(Decimal("1.10"), str(uuid.UUID(int=42)), ROW[9])]


@in_world
async def test_one_file(world: AdapterWorld, folder: Path) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2)")
    copy = f"COPY (SELECT a FROM t WHERE a > 1) TO '{folder}/one.parquet' (FORMAT PARQUET)"
    assert await client.tag(copy) == "COPY 1"
    assert pq.read_table(folder / "one.parquet").to_pylist() == [{"a": 2}]
    assert sorted(p.name for p in folder.iterdir()) == ["one.parquet"]
    error = await client.fails(copy)
    assert (error.sqlstate, "is not empty" in error.message) == ("58P02", True)
    assert pq.read_table(folder / "one.parquet").to_pylist() == [{"a": 2}]


@in_world
async def test_an_empty_result_still_tells_its_columns(world: AdapterWorld, folder: Path) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int, b text)")
    assert await client.tag(f"COPY t (b) TO '{folder}/o' WITH (FORMAT PARQUET)") == "COPY 0"
    assert pq.read_table(folder / "o").schema.names == ["b"]


@in_world
async def test_what_is_refused_leaves_nothing(world: AdapterWorld, folder: Path) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (n numeric, i interval, a int); INSERT INTO t (a) VALUES (1)")
    await client.run("CREATE ROLE eve; GRANT SELECT ON t TO eve")
    to = f"TO '{folder}/o' WITH (FORMAT PARQUET"
    for copy, sqlstate, said in (
        (f"COPY t (n) {to})", "0A000", "fixed scale"),
        (f"COPY t (i) {to})", "0A000", "interval"),
        (f"COPY t (a) TO '{folder}/o'", "0A000", "format text"),
        (f"COPY t (a) TO '{folder}/o' (FORMAT CSV)", "0A000", "format csv"),
        (f"COPY t (a) {to}, MAX FILE SIZE 'many')", "42601", "requires a size"),
        (f"COPY t (a) {to}, HEADER)", "42601", "not recognized"),
        ("COPY t (a) TO 'relative' WITH (FORMAT PARQUET)", "22023", "not the location"),
        ("COPY t (a) TO 's3://bucket/f' WITH (FORMAT PARQUET)", "22023", "over a connection"),
        ("COPY t (a) TO 's3://bucket' WITH (FORMAT PARQUET)", "22023", "in a bucket"),
        (f"COPY (SUBSCRIBE t) {to})", "0A000", "SUBSCRIBE"),
        (f"SET ROLE eve; COPY t (a) {to})", "42501", "write files"),
    ):
        error = await client.fails(copy)
        assert (error.sqlstate, said in error.message) == (sqlstate, True), (copy, str(error))
    assert list(folder.iterdir()) == []


def test_a_copy_that_fails_at_the_end_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: ParquetExport) -> None:
        assert list((tmp_path / "o").iterdir()), "something was written"
        raise ExportFailed("no space left")

    @in_world
    async def ask(world: AdapterWorld, folder: Path) -> None:
        client = await world.connect()
        await client.run("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2)")
        copy = f"COPY t TO '{folder}/o' WITH (FORMAT PARQUET, MAX FILE SIZE '1B')"
        with monkeypatch.context() as patched:
            patched.setattr(ParquetExport, "finish", fail)
            assert (await client.fails(copy)).sqlstate == "58030"
        assert list((folder / "o").iterdir()) == []
        assert await client.tag(copy) == "COPY 2", "and it can be done again"

    ask(tmp_path)


# Files


def export_of(folder: Path, schema: Schema, file_bytes: int = 1 << 20) -> ParquetExport:
    return ParquetExport(place_of(str(folder), None), ExportedColumns(schema), file_bytes)


def test_a_large_result_becomes_several_files(tmp_path: Path) -> None:
    export = export_of(tmp_path / "o", Schema((Column("x", Text()),)), 100_000)
    rows = [uuid.uuid4().hex for _ in range(50_000)]
    for start in range(0, 50_000, 1000):
        export.write(pa.record_batch([pa.array(rows[start : start + 1000])], names=["x"]))
    export.finish()
    files = json.loads((tmp_path / "o" / "_SUCCESS").read_text())["files"]
    assert len(files) > 3
    assert [pq.read_metadata(tmp_path / "o" / name).num_rows for name in files] != [50_000]
    assert pq.read_table(tmp_path / "o")["x"].to_pylist() == rows


def test_an_export_that_is_given_up_leaves_no_file(tmp_path: Path) -> None:
    export = export_of(tmp_path / "o", Schema((Column("x", Text()),)), 1000)
    for _ in range(10):
        export.write(pa.record_batch([pa.array(["x" * 500] * 10)], names=["x"]))
    assert list((tmp_path / "o").iterdir())
    export.abort()
    assert list((tmp_path / "o").iterdir()) == []
    single = export_of(tmp_path / "s.parquet", Schema((Column("x", Text()),)), 1)
    single.write(pa.record_batch([pa.array(["x"])], names=["x"]))
    assert not (tmp_path / "s.parquet").exists(), "it has its name when it is whole"
    single.abort()
    assert [p.name for p in tmp_path.iterdir()] == ["o"]


def test_what_has_no_type_in_parquet_is_named() -> None:
    for kind in (Numeric(), Interval(), Array(Numeric())):
        with pytest.raises(NotExportable, match='column "c"'):
            ExportedColumns(Schema((Column("c", kind),)))
    nested = ExportedColumns(Schema((Column("c", Array(Uuid())),)))
    values = [[uuid.UUID(int=1).bytes, None], None, []]
    column = pa.array(values, pa.list_(pa.binary(16)))
    found = nested.convert(pa.record_batch([column], names=["c"])).column(0)
    assert found.to_pylist() == [[str(uuid.UUID(int=1)), None], None, []]


def test_a_disk_that_is_full_is_told_as_that(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    export = export_of(tmp_path / "file" / "below", Schema((Column("x", Text()),)), 1)
    with pytest.raises(WaterclockError) as caught:
        export.write(pa.record_batch([pa.array(["x"])], names=["x"]))
    assert caught.value.sqlstate == "58030"
