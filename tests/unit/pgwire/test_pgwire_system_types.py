"""Types that only the catalog has reach clients: numbers of transactions, rights, addresses."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from waterclock.model.pg_types import PgType
from waterclock.pgwire.values.binary_out import encode_binary
from waterclock.pgwire.values.errors import NoBinaryForm
from waterclock.pgwire.values.text_out import encode_text
from waterclock.pgwire.values.zones import zone_named
from waterclock.testing.adapter_world import AdapterWorld
from waterclock.testing.pg_endpoint import PgEndpoint

UTC = zone_named("UTC")
XID, CID, XID8, ACL = PgType(28), PgType(29), PgType(5069), PgType(1034)


@pytest.mark.parametrize(("declared", "width"), [(XID, 4), (CID, 4), (XID8, 8)])
def test_numbers(declared: PgType, width: int) -> None:
    column = pa.array([7, None, 2**32 - 1], pa.int64())
    assert encode_text(column, declared, UTC).to_pylist() == ["7", None, "4294967295"]
    expected = [(7).to_bytes(width), None, (2**32 - 1).to_bytes(width)]
    assert encode_binary(column, declared).to_pylist() == expected


def test_access_rights() -> None:
    rights = ["ada=r/ada", "=r/ada", '"a b"=r/ada', None]
    column = pa.array([rights, None, []], pa.list_(pa.string()))
    shown = ['{ada=r/ada,=r/ada,"\\"a b\\"=r/ada",NULL}', None, "{}"]
    assert encode_text(column, ACL, UTC).to_pylist() == shown
    with pytest.raises(NoBinaryForm, match="no binary output function available"):
        encode_binary(column, ACL)


def test_addresses() -> None:
    column = pa.array(["127.0.0.1", None, "10.0.0.0/8", "::1"])
    assert encode_binary(column, PgType(869)).to_pylist() == [
        bytes([2, 32, 0, 4, 127, 0, 0, 1]),
        None,
        bytes([2, 8, 0, 4, 10, 0, 0, 0]),
        bytes([3, 128, 0, 16, *bytes(15), 1]),
    ]


def read(connection: psycopg.Connection[Any], relation: str, *, binary: bool) -> None:
    """All rows; in binary, access rights may be refused, as PostgreSQL refuses them."""
    refused = (psycopg.errors.UndefinedFunction,) if binary else ()
    with suppress(*refused):
        connection.cursor(binary=binary).execute(f"SELECT * FROM {relation}".encode()).fetchall()


def test_every_relation_of_the_system_can_be_read_whole(tmp_path: Path) -> None:
    async def made() -> AdapterWorld:
        return AdapterWorld(tmp_path)

    world = asyncio.run(made())
    try:
        with PgEndpoint(world.front, world.front) as endpoint:
            dsn = f"host=127.0.0.1 port={endpoint.port} user=waterclock dbname=waterclock"
            with psycopg.connect(dsn, autocommit=True) as connection:
                found = connection.execute(
                    "SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname)"
                    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                    " WHERE c.relkind IN ('r', 'v', 'm')"
                ).fetchall()
                assert len(found) > 100
                for (relation,) in found:
                    for binary in (False, True):
                        read(connection, relation, binary=binary)
    finally:
        world.close()
