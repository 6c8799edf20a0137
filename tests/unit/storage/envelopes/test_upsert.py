"""ENVELOPE UPSERT: what keys, values, nulls and errors do to the contents."""

from __future__ import annotations

import msgspec
import pytest

from waterclock.model.schema import Column, Int, Schema, Text
from waterclock.persist.schema_codec import encode_schema
from waterclock.storage.formats.api import (
    JsonDefinition,
    MessageDefinition,
    TextDefinition,
    UpsertDefinition,
)
from waterclock.testing.record_world import RecordWorld

VALUE = JsonDefinition(encode_schema(Schema((Column("v", Int(64)),))))
UPSERT = MessageDefinition(
    origin='topic "t"', value=VALUE, key=TextDefinition("key"), envelope=UpsertDefinition()
)


@pytest.fixture
def world() -> RecordWorld:
    return RecordWorld({"t": UPSERT})


@pytest.mark.semantics(148)
def test_insert_update_delete(world: RecordWorld) -> None:
    world.upstream.append("t", (b"a", b'{"v": 1}'), (b"b", b'{"v": 2}'))
    world.step()
    assert world.rows("t", world.now) == {("a", 1): 1, ("b", 2): 1}
    first = world.now
    world.upstream.append("t", (b"a", b'{"v": 3}'), (b"b", None), (b"never", None))
    world.step()
    assert world.rows("t", world.now) == {("a", 3): 1}
    assert world.rows("t", first) == {("a", 1): 1, ("b", 2): 1}
    assert not world.errors("t", world.now)


def test_the_last_of_a_binding_counts(world: RecordWorld) -> None:
    world.upstream.append("t", (b"a", b'{"v": 1}'), (b"a", b'{"v": 2}'), (b"b", b'{"v": 1}'))
    world.upstream.append("t", (b"b", None))
    world.step()
    assert world.rows("t", world.now) == {("a", 2): 1}
    updates = world.world.updates(world.description.outputs["t"])
    assert sum(abs(diff) for diff in updates.values()) == 1, "nothing but the last is seen"


def test_bad_values_are_errors_until_replaced(world: RecordWorld) -> None:
    world.upstream.append("t", (b"a", b'{"v": 1}'))
    world.step()
    world.upstream.append("t", (b"a", b"no json"))
    world.step()
    assert not world.rows("t", world.now), "the error has taken the place of the row"
    [(key, text)] = world.errors("t", world.now)
    assert key == 'key ["a"]'
    assert text.startswith('22P02 can not read the value of topic "t", partition 0, offset 1: JSON')
    world.upstream.append("t", (b"a", b"still none"))
    world.step()
    [(_, text)] = world.errors("t", world.now)
    assert "offset 2" in text
    world.restart()
    world.upstream.append("t", (b"a", b'{"v": 5}'))
    world.step()
    assert world.rows("t", world.now) == {("a", 5): 1}
    assert not world.errors("t", world.now)


def test_bad_values_are_healed_by_a_delete(world: RecordWorld) -> None:
    world.upstream.append("t", (b"a", b"no json"))
    world.step()
    assert world.errors("t", world.now)
    world.upstream.append("t", (b"a", None))
    world.step()
    assert not world.errors("t", world.now)
    assert not world.rows("t", world.now)


@pytest.mark.parametrize("key", [None, b"\xff"])
def test_keys_that_are_none(world: RecordWorld, key: bytes | None) -> None:
    world.upstream.append("t", (key, b'{"v": 1}'), (b"a", b'{"v": 1}'))
    world.step()
    [(_, text)] = world.errors("t", world.now)
    assert text.startswith("22004 the key" if key is None else "22021 can not read the key")
    assert world.rows("t", world.now) == {("a", 1): 1}
    world.restart()
    world.upstream.append("t", (key, None))
    world.step()
    assert not world.errors("t", world.now)


def test_columns_of_the_key_and_of_the_value_in_one_row() -> None:
    value = JsonDefinition(encode_schema(Schema((Column("key", Text()), Column("v", Int(64))))))
    world = RecordWorld({"t": msgspec.structs.replace(UPSERT, value=value)})
    world.upstream.append("t", (b"a", b'{"key": "other", "v": 1}'))
    world.step()
    assert world.rows("t", world.now) == {("a", 1): 1}, "the key's column counts"
