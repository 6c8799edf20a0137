"""The catalog's records as bytes: a version, then MessagePack with the fields by name.

A new field gets a default, and older data reads as before; anything else that changes raises
`FORMAT`. Data of a newer version is refused, for a field that is not known could not be kept.
The log below adds the checksum.

In format 1 a `numeric` without a declared scale was held with 18 digits behind the point. Columns
of that time are still held so, and are read as `numeric(38,18)`.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from waterclock.catalog.objects import AnyObject, Comments, Membership, Relation, Settings
from waterclock.model.pg_types import with_fixed_scale
from waterclock.persist.errors import Damaged, FormatTooNew

FORMAT = 2
_ONE_SCALE = 1

R = TypeVar("R")


class Head(msgspec.Struct, frozen=True):
    """How many changes there have been, and the next numbers to give out."""

    version: int
    next_oid: int
    next_id: int


class Held(msgspec.Struct, frozen=True):
    """The tokens of the capabilities that the catalog holds for one collection."""

    reader: str | None
    writer: str | None


_objects: msgspec.msgpack.Decoder[AnyObject] = msgspec.msgpack.Decoder(AnyObject)
_memberships = msgspec.msgpack.Decoder(Membership)
_comments = msgspec.msgpack.Decoder(Comments)
_settings = msgspec.msgpack.Decoder(Settings)
_heads = msgspec.msgpack.Decoder(Head)
_held = msgspec.msgpack.Decoder(Held)


def encode(record: AnyObject | Membership | Comments | Settings | Head | Held) -> bytes:
    return bytes([FORMAT]) + msgspec.msgpack.encode(record)


def decode_object(note: bytes) -> AnyObject:
    found = _decoded(_objects, note)
    if note[0] <= _ONE_SCALE and isinstance(found, Relation):
        columns = tuple(
            msgspec.structs.replace(column, type=with_fixed_scale(column.type))
            for column in found.columns
        )
        return msgspec.structs.replace(found, columns=columns)
    return found


def decode_membership(note: bytes) -> Membership:
    return _decoded(_memberships, note)


def decode_comments(note: bytes) -> Comments:
    return _decoded(_comments, note)


def decode_settings(note: bytes) -> Settings:
    return _decoded(_settings, note)


def decode_head(note: bytes) -> Head:
    return _decoded(_heads, note)


def decode_held(note: bytes) -> Held:
    return _decoded(_held, note)


def _decoded(decoder: msgspec.msgpack.Decoder[R], note: bytes) -> R:
    if note[0] > FORMAT:
        raise FormatTooNew(
            f"the catalog has format {note[0]}, and this version reads up to {FORMAT}",
            hint="Start the version of Waterclock that wrote this data, or a newer one.",
        )
    try:
        return decoder.decode(memoryview(note)[1:])
    except msgspec.DecodeError as error:
        raise Damaged("a record of the catalog can not be read", detail=str(error)) from error
