"""Messages of pgoutput as a server would write them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from waterclock.model.pg_types import INT4, NUMERIC, TEXT, PgType
from waterclock.storage.sources.postgres.decoding import Transaction
from waterclock.storage.sources.postgres.definition import UpstreamColumn, UpstreamTable
from waterclock.storage.sources.postgres.replication import HEADER

UNCHANGED = object()
"""A value that is stored elsewhere and has not changed."""
OID = 16400
Value = str | None | object


def column(name: str, held: PgType, number: int, *, nullable: bool = True) -> UpstreamColumn:
    return UpstreamColumn(name, number, held.oid, held.modifier, held, nullable)


TABLE = UpstreamTable(
    OID,
    "public",
    "t",
    (column("a", INT4, 1, nullable=False), column("b", TEXT, 2), column("n", NUMERIC, 3)),
)
COLUMNS = [("a", INT4.oid, -1), ("b", TEXT.oid, -1), ("n", NUMERIC.oid, -1)]


def framed(message: bytes, lsn: int = 0) -> bytes:
    """The message behind the header of the replication protocol."""
    framed = struct.pack(">cQQq", b"w", lsn, lsn, 0) + message
    assert len(framed) - len(message) == HEADER
    return framed


def row(values: Sequence[Value]) -> bytes:
    parts = [struct.pack(">H", len(values))]
    for value in values:
        match value:
            case None:
                parts.append(b"n")
            case str():
                data = value.encode()
                parts.append(b"t" + struct.pack(">I", len(data)) + data)
            case _:
                parts.append(b"u")
    return b"".join(parts)


def insert(*values: Value, oid: int = OID) -> bytes:
    return b"I" + struct.pack(">I", oid) + b"N" + row(values)


def delete(*values: Value, mark: bytes = b"O") -> bytes:
    return b"D" + struct.pack(">I", OID) + mark + row(values)


def update(old: Sequence[Value], new: Sequence[Value]) -> bytes:
    return b"U" + struct.pack(">I", OID) + b"O" + row(old) + b"N" + row(new)


def update_without_old(*new: Value) -> bytes:
    return b"U" + struct.pack(">I", OID) + b"N" + row(new)


def relation(
    columns: Sequence[tuple[str, int, int]] = COLUMNS, identity: bytes = b"f", oid: int = OID
) -> bytes:
    parts = [
        b"R",
        struct.pack(">I", oid),
        b"public\0t\0",
        identity,
        struct.pack(">H", len(columns)),
    ]
    for name, type_, modifier in columns:
        parts.append(b"\0" + name.encode() + b"\0" + struct.pack(">Ii", type_, modifier))
    return b"".join(parts)


def truncate(*oids: int) -> bytes:
    return b"T" + struct.pack(f">IB{len(oids)}I", len(oids), 0, *oids)


def begin(end: int) -> bytes:
    return b"B" + struct.pack(">QqI", end, 0, 7)


def commit(end: int) -> bytes:
    return b"C" + struct.pack(">BQQq", 0, end - 8, end, 0)


def transaction(end: int, *messages: bytes) -> Transaction:
    return Transaction(end, [framed(message) for message in messages])
