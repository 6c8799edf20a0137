"""The bytes of the log: what is written can be read, and anything else is refused by name."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waterclock.persist.errors import Damaged, FormatTooNew
from waterclock.persist.records import (
    FORMAT,
    AnyEvent,
    Appended,
    Batch,
    Capability,
    Checkpoint,
    Checkpointed,
    Created,
    Downgraded,
    Expired,
    Granted,
    Opened,
    Part,
    Replaced,
    Right,
    ShardRecord,
    Swept,
    decode_checkpoint,
    decode_entry,
    encode_checkpoint,
    encode_entry,
    seal,
)
from waterclock.persist.schema_codec import encode_schema
from waterclock.testing.persist_world import EVERY_TYPE

READER = Capability("r", Right.READ, 3, None)
WRITER = Capability("w", Right.WRITE, None, 5000)
BATCH = Batch(7, 1, 9, True, (Part(2, 3, inline=b"\0\xff"), Part(10, 400, key="shard/u1/1-x")))
EVENTS: list[AnyEvent] = [
    Opened(2, "host/1/abc"),
    Created("u1", "epoch_ms", encode_schema(EVERY_TYPE), {"writers": "holder"}, 5),
    Granted("u1", READER),
    Granted("u1", WRITER),
    Downgraded("u1", "r", 2**62),
    Downgraded("u1", "r", None),
    Expired("u1", "w"),
    Appended("u1", "w", 10, BATCH),
    Appended("u1", "w", None, None),
    Replaced("u1", (1, 2, 3), BATCH),
    Replaced("u1", (), None),
    Swept(("a", "b")),
    Checkpointed(17, "checkpoint/1-17"),
]
CHECKPOINT = Checkpoint(
    17,
    2,
    8,
    (
        ShardRecord(
            "u1", "epoch_ms", encode_schema(EVERY_TYPE), None, 3, None, (READER, WRITER), (BATCH,)
        ),
    ),
    ("shard/u1/1-y",),
    "checkpoint/1-3",
)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_event_round_trips(event: AnyEvent) -> None:
    assert decode_entry(encode_entry([event])) == (event,)


def test_an_entry_keeps_the_order_of_its_events() -> None:
    assert decode_entry(encode_entry(EVENTS)) == tuple(EVENTS)
    assert decode_entry(encode_entry([])) == ()


def test_a_checkpoint_round_trips() -> None:
    assert decode_checkpoint(encode_checkpoint(CHECKPOINT)) == CHECKPOINT
    empty = Checkpoint(0, 0, 1, (), (), None)
    assert decode_checkpoint(encode_checkpoint(empty)) == empty


def test_a_newer_format_is_refused() -> None:
    newer = bytes((FORMAT + 1,)) + b"whatever comes then"
    for decode in (decode_entry, decode_checkpoint):
        with pytest.raises(FormatTooNew, match=f"format {FORMAT + 1}.* up to {FORMAT}") as refusal:
            decode(newer)
        assert refusal.value.hint is not None


def test_fields_of_later_versions_are_ignored_and_missing_ones_have_defaults() -> None:
    """The rule for changing a record without a new format: a field is added at the end."""
    longer = msgspec.msgpack.encode([["expire", "u1", "w", "new"]])
    assert decode_entry(seal(longer)) == (Expired("u1", "w"),)
    part = msgspec.msgpack.encode([["append", "u1", "w", 1, [1, 0, 0, False, [[1, 2]]]]])
    [event] = decode_entry(seal(part))
    assert isinstance(event, Appended)
    assert event.batch == Batch(1, 0, 0, False, (Part(1, 2),))


GARBAGE = {
    "nothing": b"",
    "only the format": bytes((FORMAT,)),
    "no checksum": bytes((FORMAT,)) + msgspec.msgpack.encode([["expire", "u1", "w"]]),
    "noise": seal(bytes(range(0xC0, 0x100))),
    "text that is none": seal(b"\x91\x93\xa5sweep\x91\xa1\xff"),
    "unknown tag": seal(msgspec.msgpack.encode([["explode", 1]])),
    "wrong type": seal(msgspec.msgpack.encode([["expire", 1, 2]])),
    "too short": seal(msgspec.msgpack.encode([["expire", "u1"]])),
    "bottomless": seal(b"\x91" * 100_000),
    "unknown right": seal(msgspec.msgpack.encode([["grant", "u1", ["c", "x", 1, None]]])),
    "schema without bottom": seal(b"\x91\x96\xa6create\xa2u1\xa1t" + b"\x91" * 100_000),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_damage(name: str) -> None:
    with pytest.raises(Damaged, match="a log entry can not be read"):
        decode_entry(GARBAGE[name])
    with pytest.raises(Damaged, match="a checkpoint can not be read"):
        decode_checkpoint(GARBAGE[name])


def test_a_flipped_bit_is_found() -> None:
    entry = encode_entry([Expired("u1", "w")])
    for place in range(1, len(entry)):
        flipped = entry[:place] + bytes((entry[place] ^ 4,)) + entry[place + 1 :]
        with pytest.raises(Damaged, match="can not be read"):
            decode_entry(flipped)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_an_entry_or_refused(data: bytes) -> None:
    for decode in (decode_entry, decode_checkpoint):
        with suppress(Damaged, FormatTooNew):
            decode(data)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_flipped_or_missing_byte_is_noticed_or_harmless(data: st.DataObject) -> None:
    """It may change a value, which only a checksum would find; it never ends in another error."""
    entry = bytearray(encode_entry(EVENTS))
    place = data.draw(st.integers(0, len(entry) - 1))
    entry[place] ^= data.draw(st.integers(1, 255))
    for damaged in (bytes(entry), encode_entry(EVENTS)[:place]):
        with suppress(Damaged, FormatTooNew):
            decode_entry(damaged)
