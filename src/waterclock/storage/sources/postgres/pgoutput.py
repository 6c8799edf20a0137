"""The messages of PostgreSQL's output plugin `pgoutput`, version 1: pure functions of bytes.

What comes is a transaction at a time, in the order of commits. `Relation` tells how a table looks
before its first change, and again when that has changed. The rows themselves are not taken apart
here but many at a time, in `tuples`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from waterclock.storage.sources.errors import SourceFault

BEGIN, COMMIT, RELATION, TRUNCATE = b"B"[0], b"C"[0], b"R"[0], b"T"[0]
INSERT, UPDATE, DELETE = b"I"[0], b"U"[0], b"D"[0]
CHANGES = frozenset((INSERT, UPDATE, DELETE))
ORIGIN, TYPE, MESSAGE = b"O"[0], b"Y"[0], b"M"[0]
IGNORED = frozenset((ORIGIN, TYPE, MESSAGE))
FULL = "f"
"""The replica identity that says: with every change comes the whole row as it was before."""

_COMMIT = struct.Struct(">BQQq")
_COLUMN = struct.Struct(">Ii")


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column as the stream has it."""

    name: str
    type: int
    modifier: int


@dataclass(frozen=True, slots=True)
class Relation:
    """How the rows of a table look from here on."""

    oid: int
    schema: str
    name: str
    identity: str
    attributes: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True)
class Truncate:
    """These tables have been emptied."""

    oids: tuple[int, ...]


def commit_end(message: bytes, place: int) -> int:
    """The end of a transaction in the write-ahead log, from its COMMIT."""
    _, _, end, _ = _unpack(_COMMIT, message, place + 1)
    return int(end)


def relation(message: bytes, place: int) -> Relation:
    """What RELATION says."""
    (oid,) = _unpack(struct.Struct(">I"), message, place + 1)
    schema, place = _text(message, place + 5)
    name, place = _text(message, place)
    identity, count = _unpack(struct.Struct(">BH"), message, place)
    place += 3
    attributes = []
    for _ in range(count):
        column, place = _text(message, place + 1)  # a flag stands before the name
        attributes.append(Attribute(column, *_unpack(_COLUMN, message, place)))
        place += _COLUMN.size
    # The empty schema stands for the one that the system's own tables are in.
    return Relation(oid, schema or "pg_catalog", name, chr(identity), tuple(attributes))


def truncate(message: bytes, place: int) -> Truncate:
    """What TRUNCATE says."""
    (count,) = _unpack(struct.Struct(">I"), message, place + 1)
    return Truncate(_unpack(struct.Struct(f">{count}I"), message, place + 6))


def _text(message: bytes, place: int) -> tuple[str, int]:
    end = message.find(b"\0", place)
    if end < 0:
        raise malformed()
    return message[place:end].decode(), end + 1


def _unpack(form: struct.Struct, message: bytes, place: int) -> tuple[int, ...]:
    try:
        return form.unpack_from(message, place)
    except struct.error:
        raise malformed() from None


def malformed() -> SourceFault:
    """What came is not what pgoutput writes."""
    return SourceFault(
        "the replication stream can not be read",
        detail="It holds a message that is not in the form of pgoutput, version 1.",
    )
