"""The bytes of the log: what is written can be read, and anything else is refused by name."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.persist.errors import Damaged, FormatTooNew
from waterclock.persist.records import (
    FORMAT,
    AnyEvent,
    Appended,
    Batch,
    Block,
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
from waterclock.testing.examples import examples
from waterclock.testing.persist_world import EVERY_TYPE

READER = Capability("r", Right.READ, 3, None)
WRITER = Capability("w", Right.WRITE, None, 5000)
BLOCK = Block(5, b"\0\xff" * 1000)
BATCH = Batch(7, 1, 9, True, (Part(2, 3, inline=BLOCK, first=3), Part(10, 400, key="shard/u1/1-x")))
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


def framed(events: list[Any], blocks: list[Any] | None = None) -> bytes:
    """An entry as it is written, of whatever is said to be its events."""
    return seal(msgspec.msgpack.encode([blocks or [], events]))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_event_round_trips(event: AnyEvent) -> None:
    assert decode_entry(encode_entry([event])) == (event,)


def test_an_entry_keeps_the_order_of_its_events() -> None:
    assert decode_entry(encode_entry(EVENTS)) == tuple(EVENTS)
    assert decode_entry(encode_entry([])) == ()


@pytest.mark.parametrize("form", ["entry", "checkpoint"])
def test_a_block_is_written_once_however_many_share_it(form: str) -> None:
    shared = [Batch(n, 1, 9, True, (Part(1, 3, inline=BLOCK, first=n),)) for n in range(5)]
    if form == "entry":
        data = encode_entry([Appended("u1", "w", 10, batch) for batch in shared])
        found = [event.batch for event in decode_entry(data) if isinstance(event, Appended)]
    else:
        record = msgspec.structs.replace(CHECKPOINT.shards[0], batches=tuple(shared))
        data = encode_checkpoint(msgspec.structs.replace(CHECKPOINT, shards=(record,)))
        found = list(decode_checkpoint(data).shards[0].batches)
    assert data.count(BLOCK.data) == 1
    assert found == shared
    assert len({id(part.inline) for batch in found if batch for part in batch.parts}) == 1


def test_a_block_that_is_not_there_is_damage() -> None:
    event = ["append", "u1", "w", 1, [1, 0, 0, False, [[1, 2, 1]]]]
    with pytest.raises(Damaged, match="a log entry can not be read"):
        decode_entry(framed([event], [[1, b"x"]]))


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
    longer = ["expire", "u1", "w", "new"]
    assert decode_entry(framed([longer])) == (Expired("u1", "w"),)
    part = ["append", "u1", "w", 1, [1, 0, 0, False, [[1, 2]]]]
    [event] = decode_entry(framed([part]))
    assert isinstance(event, Appended)
    assert event.batch == Batch(1, 0, 0, False, (Part(1, 2),))


GARBAGE = {
    "nothing": b"",
    "only the format": bytes((FORMAT,)),
    "no checksum": bytes((FORMAT,)) + framed([["expire", "u1", "w"]])[5:],
    "noise": seal(bytes(range(0xC0, 0x100))),
    "no blocks": seal(msgspec.msgpack.encode([["expire", "u1", "w"]])),
    "text that is none": seal(b"\x92\x90\x91\x93\xa5sweep\x91\xa1\xff"),
    "unknown tag": framed([["explode", 1]]),
    "wrong type": framed([["expire", 1, 2]]),
    "too short": framed([["expire", "u1"]]),
    "bottomless": seal(b"\x91" * 100_000),
    "bottomless behind the blocks": seal(b"\x92\x90" + b"\x91" * 100_000),
    "unknown right": framed([["grant", "u1", ["c", "x", 1, None]]]),
    "schema without bottom": seal(b"\x92\x90\x91\x96\xa6create\xa2u1\xa1t" + b"\x91" * 100_000),
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


@examples(200)
@given(st.binary(max_size=60))
def test_any_bytes_are_an_entry_or_refused(data: bytes) -> None:
    for decode in (decode_entry, decode_checkpoint):
        with suppress(Damaged, FormatTooNew):
            decode(data)


@examples(200)
@given(st.data())
def test_a_flipped_or_missing_byte_is_noticed_or_harmless(data: st.DataObject) -> None:
    """It may change a value, which only a checksum would find; it never ends in another error."""
    entry = bytearray(encode_entry(EVENTS))
    place = data.draw(st.integers(0, len(entry) - 1))
    entry[place] ^= data.draw(st.integers(1, 255))
    for damaged in (bytes(entry), encode_entry(EVENTS)[:place]):
        with suppress(Damaged, FormatTooNew):
            decode_entry(damaged)
