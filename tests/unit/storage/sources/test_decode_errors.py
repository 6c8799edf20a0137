"""ON DECODE ERROR on the real ledger: what is skipped, what is inline, what heals, and crashes."""

from __future__ import annotations

import msgspec
import pytest

from waterclock.model.schema import Column, Int, Schema
from waterclock.persist.schema_codec import encode_schema
from waterclock.storage.formats.api import (
    Included,
    JsonDefinition,
    MessageDefinition,
    TextDefinition,
    UpsertDefinition,
)
from waterclock.storage.sources.decode_errors import DecodeErrors
from waterclock.storage.sources.errors import InvalidSource
from waterclock.testing.record_world import RecordWorld

SKIP, INLINE = DecodeErrors(keeps_bytes=True), DecodeErrors(column="error")
VALUE = JsonDefinition(encode_schema(Schema((Column("v", Int(64), nullable=False),))))
PLAIN = MessageDefinition(
    origin='topic "t"', value=VALUE, include=(Included("offset", "at"),), errors=SKIP
)
UPSERT = MessageDefinition(
    origin='topic "t"',
    value=VALUE,
    key=TextDefinition("key"),
    envelope=UpsertDefinition(),
    errors=SKIP,
)


def inline(definition: MessageDefinition) -> MessageDefinition:
    return msgspec.structs.replace(definition, errors=INLINE)


def test_skipped_messages_are_in_their_relation_and_not_in_the_contents() -> None:
    world = RecordWorld({"t": PLAIN})
    world.upstream.append("t", (b"k", b'{"v": 1}'), (b"k", b"no json"), (None, b'{"v": "x"}'))
    world.step()
    assert world.rows("t", world.now) == {(1, 0): 1}
    assert not world.errors("t", world.now), "the source has a value"
    one, two = sorted(world.skipped(world.now))
    assert one[:5] == ("t/0", 1, b"k", b"no json", "partition t/0, offset 1")
    assert one[5] == "22P02"
    assert one[6].startswith('can not read the value of topic "t", partition 0, offset 1: JSON')
    assert two[:5] == ("t/0", 2, None, b'{"v": "x"}', "partition t/0, offset 2")
    assert (world.statistics.undecodable, world.statistics.skipped) == (2, 2)
    world.restart()
    world.upstream.append("t", (None, b'{"v": 2}'), (None, b"["))
    world.step()
    assert world.rows("t", world.now) == {(1, 0): 1, (2, 3): 1}
    assert len(world.skipped(world.now)) == 3
    assert (world.statistics.undecodable, world.statistics.skipped) == (1, 3)


@pytest.mark.parametrize("at", [0, 1])
def test_a_crash_skips_the_same_messages_at_the_same_time(at: int) -> None:
    """Between the binding and its data, and before the binding."""
    world = RecordWorld({"t": PLAIN})
    world.step()
    world.upstream.append("t", (b"k", b"no json"), (b"k", b'{"v": 1}'))
    world.crash(at)
    world.step()
    world.restart()
    world.step()
    assert len(world.skipped(world.now)) == 1
    assert sum(world.skipped(world.now).values()) == 1
    assert world.rows("t", world.now) == {(1, 1): 1}


def test_a_key_is_out_of_the_contents_until_it_is_repaired() -> None:
    world = RecordWorld({"t": UPSERT})
    world.upstream.append("t", (b"a", b'{"v": 1}'), (b"b", b'{"v": 1}'))
    world.step()
    world.upstream.append("t", (b"a", b"no json"))
    world.step()
    first_wrong = world.now
    assert world.rows("t", world.now) == {("b", 1): 1}, "it is not what it was"
    [row] = world.skipped(world.now)
    assert row[:5] == ("t/0", 2, b"a", b"no json", 'key ["a"]')
    world.upstream.append("t", (b"a", b"still none"), (None, b'{"v": 1}'))
    world.step()
    assert {row[1] for row in world.skipped(world.now)} == {3, 4}, "the last of each key"
    world.restart()
    world.upstream.append("t", (b"a", b'{"v": 5}'), (None, None))
    world.step()
    assert world.rows("t", world.now) == {("a", 5): 1, ("b", 1): 1}
    assert not world.skipped(world.now)
    assert len(world.skipped(first_wrong)) == 1, "the past is as it was"
    assert world.statistics.skipped == 0


def test_what_is_repaired_within_a_binding_was_never_wrong() -> None:
    world = RecordWorld({"t": UPSERT})
    world.upstream.append("t", (b"a", b"no json"), (b"a", b'{"v": 5}'))
    world.step()
    assert world.rows("t", world.now) == {("a", 5): 1}
    assert not world.skipped(world.now)


def test_the_source_has_no_value_while_there_are_too_many_errors() -> None:
    world = RecordWorld({"t": UPSERT}, max_errors=1)
    world.upstream.append("t", (b"a", b"no"), (b"c", b'{"v": 1}'))
    world.step()
    assert not world.errors("t", world.now)
    world.upstream.append("t", (b"b", b"no"))
    world.step()
    [(_, text)] = world.errors("t", world.now)
    assert text.startswith("54000 more than 1 messages of the source can not be read")
    assert len(world.skipped(world.now)) == 2, "they are there to be looked at"
    world.restart()
    world.upstream.append("t", (b"d", b"no"))
    world.step()
    assert sum(world.errors("t", world.now).values()) == 1
    world.upstream.append("t", (b"a", None), (b"b", b'{"v": 2}'))
    world.step()
    assert not world.errors("t", world.now)
    assert world.rows("t", world.now) == {("b", 2): 1, ("c", 1): 1}


def test_several_outputs_have_one_relation() -> None:
    world = RecordWorld({"t": PLAIN, "u": PLAIN})
    world.upstream.append("t", (b"k", b"no json"))
    world.upstream.append("u", (b"k", b"no json"))
    world.step()
    assert sorted(row[:3] for row in world.skipped(world.now)) == [("t", "t/0", 0), ("u", "u/0", 0)]


def test_inline_rows_tell_what_is_wrong_with_them() -> None:
    world = RecordWorld({"t": inline(PLAIN)})
    world.upstream.append("t", (b"k", b'{"v": 1}'), (b"k", b"no json"))
    world.step()
    (fine, wrong) = sorted(world.rows("t", world.now), key=lambda row: row[1])
    assert fine == (1, 0, None)
    assert wrong[:2] == (None, 1), "what can be read is there"
    assert wrong[2].startswith('can not read the value of topic "t", partition 0, offset 1: JSON')
    assert not world.errors("t", world.now)
    assert world.statistics.undecodable == 1


def test_an_inline_value_is_the_row_of_its_key() -> None:
    world = RecordWorld({"t": inline(UPSERT)})
    world.upstream.append("t", (b"a", b'{"v": 1}'))
    world.step()
    world.upstream.append("t", (b"a", b"no json"))
    world.step()
    [(key, value, error)] = world.rows("t", world.now)
    assert (key, value) == ("a", None)
    assert "offset 1" in error
    world.restart()
    world.upstream.append("t", (b"a", b'{"v": 2}'))
    world.step()
    assert world.rows("t", world.now) == {("a", 2, None): 1}
    world.upstream.append("t", (b"a", b"no json"))
    world.step()
    world.upstream.append("t", (b"a", None))
    world.step()
    assert not world.rows("t", world.now)


@pytest.mark.parametrize("key", [None, b"\xff"])
def test_an_inline_key_that_can_not_be_read_has_a_row_too(key: bytes | None) -> None:
    world = RecordWorld({"t": inline(UPSERT)})
    world.upstream.append("t", (key, b'{"v": 1}'), (b"a", b'{"v": 1}'))
    world.step()
    assert world.rows("t", world.now)["a", 1, None] == 1
    [wrong] = [row for row in world.rows("t", world.now) if row[0] is None]
    assert wrong[1] is None
    assert "offset 0" in wrong[2]
    world.restart()
    world.upstream.append("t", (key, b'{"v": 2}'))
    world.step()
    [wrong] = [row for row in world.rows("t", world.now) if row[0] is None]
    assert "offset 2" in wrong[2], "it has taken the place of the one before"
    world.upstream.append("t", (key, None))
    world.step()
    assert world.rows("t", world.now) == {("a", 1, None): 1}
    assert not world.errors("t", world.now)


def test_the_column_of_errors_needs_a_name_of_its_own() -> None:
    definition = msgspec.structs.replace(PLAIN, errors=DecodeErrors(column="v"))
    with pytest.raises(InvalidSource, match='there is a column "v" already'):
        RecordWorld({"t": definition})


def test_definitions_of_before_fail_as_they_did() -> None:
    """A definition of a version that knew nothing of this says nothing of errors."""
    definition = msgspec.structs.replace(PLAIN, errors=DecodeErrors())
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(definition))
    kept.pop("errors", None)
    assert msgspec.convert(kept, MessageDefinition) == definition
    world = RecordWorld({"t": definition})
    world.upstream.append("t", (b"k", b"no json"))
    world.step()
    assert len(world.errors("t", world.now)) == 1


def test_text_that_is_none() -> None:
    """Bytes that no format can read are kept as they are."""
    text = MessageDefinition(origin='topic "t"', value=TextDefinition("text"), errors=SKIP)
    assert text.errors is not None
    world = RecordWorld({"t": text})
    world.upstream.append("t", (None, b"\xff\xfe"), (None, b"fine"))
    world.step()
    assert world.rows("t", world.now) == {("fine",): 1}
    [row] = world.skipped(world.now)
    assert row[3] == b"\xff\xfe"
