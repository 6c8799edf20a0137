"""The catalog's records as bytes: a version, then MessagePack with the fields by name.

A new field gets a default, and older data reads as before; anything else that changes raises
`FORMAT`. Data of a newer version is refused, for a field that is not known could not be kept.
The log below adds the checksum.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from waterclock.catalog.objects import AnyObject, Comments, Membership, Settings
from waterclock.persist.errors import Damaged, FormatTooNew

FORMAT = 1

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
    return _decoded(_objects, note)


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
