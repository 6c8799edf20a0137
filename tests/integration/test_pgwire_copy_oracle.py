"""COPY FROM, odd data and bad data: the same rows or the same error as a real PostgreSQL."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from waterclock.adapter.api import (
    ColumnDescription,
    CopyHeader,
    CopyIn,
    CopyOptions,
    binary_options,
    csv_options,
    text_options,
)
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import INT4, TEXT
from waterclock.pgwire.copy.formats import decoder_of
from waterclock.pgwire.values.zones import UTC_ZONE
from waterclock.testing.services import PostgresServer

pytestmark = [pytest.mark.service]

COLUMNS = (ColumnDescription("a", INT4), ColumnDescription("b", TEXT))

TEXTS = [
    b"1\tx\n2\ty\n",
    b"1\tx",
    b"",
    b"\n",
    b"1\n",
    b"1\tx\ty\n",
    b"1\tx\nz\ty\n",
    b"1\t\\N\n\\N\tx\n\\N\t\\N\n",
    b"1\ta\\tb\\nc\\\\d\\be\\ff\\rg\\vh\n",
    b"1\t\\x41\\x4\\101\\7z\\q\n",
    b"1\ta\\\tb\n",
    b"1\ta\\\nb\n2\tc\n",
    b"1\ta\\\\\n2\tb\n",
    b"1\tx\n\\.\n2\ty\n",
    b"1\tx\r\n2\ty\r\n",
    b"1\tx\r2\ty\r",
    b"1\tx\n2\ty\r\n",
    b"1\tx\r\n2\ty\n",
    b"1\ta\rb\n2\ty\n",
    b"1\t\xff\n",
    b"1\t\xc3\xa9\n",
    b"1\t\\xff\n",
    b"1\ta\0b\n",
    b"99999999999\tx\n",
    b" 1 \tx\n",
    b"\tx\n",
    b"1\t\\\\N\n",
    b"1\t" + b"y" * 150 + b"\tz\n",
    b"1\tx\n" * 3 + b"x\n",
    b"1\t\\",
    b"1\t\\N \n",
]
CSVS = [
    b"1,x\n2,y\n",
    b'1,"x"\n2,""\n3,\n',
    b'1,"a,b"\n2,"c\nd"\n3,e\n',
    b'1,"a""b"\n2,a"b"c\n3,"x"y"z"\n',
    b'1,"x\n',
    b'1,"x',
    b"1,x,y\n",
    b"1\n",
    b"\n",
    b"z,x\n",
    b'"1",x\n"z",y\n',
    b"1,\\.\n\\.\n2,y\n",
    b'1,"\\."\n',
    b"1,x\r\n2,y\r\n",
    b'1,"a\r\nb"\r\n2,y\r\n',
    b'1,"a\nb"\n2,"c\nd"\nz,"e"\n',
    b"1,x\r\n2,y\n",
    b"1,x\n2,y\r\n",
    b"1,a\rb\n",
    b' 1,"x" \n',
    b"1,\xff\n",
    b'"",x\n',
    b'1,""""\n',
    b'1,"a"b\n2,"c\n',
]
HEADERS = [
    b"a,b\n1,x\n",
    b"b,a\n1,x\n",
    b"a\n1,x\n",
    b"a,b,c\n1,x\n",
    b'"a","b"\n1,x\n',
    b"a,\n1,x\n",
    b"",
]
OTHERS = [b"1;'x'\n", b"1;'a\\'b\\\\c\\d'\n2;NIL\n3;'NIL'\n", b"1;'x\\\n", b"1;a'b;c'd\n"]
_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_ROW = struct.pack(">hiii1s", 2, 4, 7, 1, b"x")
BINARIES = [
    _HEAD + _ROW + b"\xff\xff",
    _HEAD + _ROW + _ROW,
    _HEAD,
    b"",
    b"PGCOPY",
    b"NOPE" * 10,
    _HEAD + struct.pack(">hi", 1, -1) + b"\xff\xff",
    _HEAD + _ROW + _ROW[:-2],
    _HEAD + _ROW + b"\xff\xff" + _ROW,
    _HEAD + struct.pack(">hihi1s", 2, 2, 7, 1, b"x") + b"\xff\xff",
    _HEAD + struct.pack(">hii", 2, -1, -1) + b"\xff\xff",
    _HEAD + struct.pack(">hii1s", 2, -1, 1, b"\xff") + b"\xff\xff",
    b"PGCOPY\n\xff\r\n\0" + struct.pack(">II", 1 << 17, 0) + _ROW + b"\xff\xff",
    b"PGCOPY\n\xff\r\n\0" + struct.pack(">II", 0, 3) + b"abc" + _ROW + b"\xff\xff",
]

CASES: list[tuple[CopyOptions, str, bytes]] = [
    *((text_options(), "FORMAT text", data) for data in TEXTS),
    *((csv_options(), "FORMAT csv", data) for data in CSVS),
    *((csv_options(header=CopyHeader.MATCH), "FORMAT csv, HEADER match", d) for d in HEADERS),
    *((csv_options(header=CopyHeader.PRESENT), "FORMAT csv, HEADER", data) for data in HEADERS),
    *(
        (
            csv_options(delimiter=";", null="NIL", quote="'", escape="\\"),
            r"FORMAT csv, DELIMITER ';', NULL 'NIL', QUOTE '''', ESCAPE '\'",
            data,
        )
        for data in OTHERS
    ),
    *(
        (
            csv_options(force_not_null=frozenset({"b"}), force_null=frozenset({"a"})),
            "FORMAT csv, FORCE_NOT_NULL (b), FORCE_NULL (a)",
            data,
        )
        for data in CSVS[:3] + CSVS[-3:]
    ),
    *((binary_options(), "FORMAT binary", data) for data in BINARIES),
]


@pytest.fixture(scope="module")
def oracle(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_server.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE TEMPORARY TABLE c (a integer, b text, n serial)")
        yield connection


def theirs(oracle: psycopg.Connection[Any], options: str, data: bytes) -> object:
    oracle.execute("TRUNCATE c")
    try:
        with (
            oracle.cursor() as cursor,
            cursor.copy(f"COPY c (a, b) FROM STDIN ({options})") as copy,  # type: ignore[arg-type]
        ):
            copy.write(data)
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary, error.diag.context
    return oracle.execute("SELECT a, b FROM c ORDER BY n").fetchall()


def ours(options: CopyOptions, data: bytes, chunk: int) -> object:
    target = CopyIn(COLUMNS, options, None, "c")  # type: ignore[arg-type]
    decoder = decoder_of(target, UTC_ZONE, chunk)
    try:
        batches: list[pa.RecordBatch] = []
        for place in range(0, len(data), chunk):
            batches += decoder.feed(data[place : place + chunk])
        batches += decoder.finish()
    except WaterclockError as error:
        return error.sqlstate, error.message, "\n".join(getattr(error, "__notes__", ())) or None
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("options", "sql", "data"), CASES, ids=[f"{s} {d[:40]!r}" for _, s, d in CASES]
)
def test_data_is_read_as_the_server_reads_it(
    oracle: psycopg.Connection[Any], options: CopyOptions, sql: str, data: bytes
) -> None:
    expected = theirs(oracle, sql, data)
    assert ours(options, data, 1 << 20) == expected
    for chunk in (1, 2, 3, 7):
        got = ours(options, data, chunk)
        if isinstance(expected, list):
            assert got == expected
        else:
            assert isinstance(got, tuple)
            assert got[0] == expected[0]  # type: ignore[index]
