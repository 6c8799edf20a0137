"""Records to messages: keys, values and what is included, in one row."""

from __future__ import annotations

import datetime
import pickle

import msgspec
import pyarrow as pa
import pytest

from waterclock.model.errors import DuplicateColumn
from waterclock.model.schema import Column, Int, Schema, Text
from waterclock.persist.schema_codec import encode_schema
from waterclock.storage.envelopes.choice import decoding_of, envelope_of
from waterclock.storage.envelopes.plain import Plain
from waterclock.storage.envelopes.upsert import Upsert
from waterclock.storage.formats.api import (
    RECORDS,
    AvroDefinition,
    BytesDefinition,
    CsvDefinition,
    DebeziumDefinition,
    Decoding,
    Included,
    JsonDefinition,
    MaterializeDefinition,
    MessageDefinition,
    TextDefinition,
    UpsertDefinition,
)
from waterclock.storage.sources.api import Messages, Standing
from waterclock.storage.sources.errors import InvalidSource
from waterclock.testing.record_world import records

MOMENT = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


def decoding(definition: MessageDefinition) -> Decoding:
    """As an executor gets it: the definition through the catalog, the rest pickled."""
    kept = msgspec.msgpack.encode(definition)
    found: Decoding = pickle.loads(
        pickle.dumps(decoding_of(msgspec.msgpack.decode(kept, type=MessageDefinition)))
    )
    return found


def test_everything_that_can_be_included() -> None:
    definition = MessageDefinition(
        origin='topic "t"',
        value=TextDefinition(),
        key=BytesDefinition("key"),
        include=(
            Included("headers", "h"),
            Included("key", "k"),
            Included("timestamp", "at"),
            Included("partition", "partition"),
            Included("header", "one", "b"),
            Included("offset", "offset"),
        ),
    )
    found = decoding(definition)
    assert found.schema.names == ("k", "text", "h", "at", "partition", "one", "offset")
    headers = [
        {"key": "a", "value": b"1"},
        {"key": "b", "value": b"2"},
        {"key": "b", "value": None},
    ]
    batch = pa.RecordBatch.from_pylist(
        [
            {
                "key": b"k",
                "value": b"v",
                "partition": 3,
                "offset": 7,
                "timestamp": MOMENT,
                "headers": headers[:2],
            },
            {"key": None, "value": None, "partition": 3, "offset": 8, "headers": headers},
        ],
        schema=RECORDS,
    )
    messages = found.decode(batch)
    assert messages.schema == found.messages
    one, two = messages.to_pylist()
    assert one == {
        "k": b"k",
        "text": "v",
        "h": ['{"key": "a", "value": "\\\\x31"}', '{"key": "b", "value": "\\\\x32"}'],
        "at": MOMENT,
        "partition": 3,
        "one": b"2",
        "offset": 7,
        "mz_offset": 7,
        "mz_diff": 1,
        "mz_error": None,
    }
    assert two["k"] is None
    assert two["one"] is None, "the last one of that name counts"


def test_errors_say_where() -> None:
    value = JsonDefinition(encode_schema(Schema((Column("v", Int(64)),))))
    include = (Included("key", "key"),)
    definition = MessageDefinition(
        origin='topic "t"', value=value, key=TextDefinition("key"), include=include
    )
    batch = records([(b"\xff", b'{"v": 1}'), (b"a", b"["), (b"a", b'{"v": 1}')], 40, 2)
    messages = decoding(definition).decode(batch)
    assert messages["mz_error"].to_pylist() == [
        '22021 can not read the key of topic "t", partition 2, offset 40: it is not text in UTF-8',
        '22P02 can not read the value of topic "t", partition 2, offset 41: '
        "Expected `object`, got `array`",
        None,
    ]
    found = Plain().changes([Messages("t", 2, messages)])
    assert [(e.key, e.diff) for e in found.errors] == [
        ("partition 2, offset 40", 1),
        ("partition 2, offset 41", 1),
    ]
    assert [row for each in found.rows for row in each.to_pylist()] == [
        {"key": "a", "v": 1, "mz_diff": 1}
    ]


def test_names_must_differ() -> None:
    value = CsvDefinition(encode_schema(Schema((Column("key", Text()), Column("v", Text())))))
    definition = MessageDefinition(
        origin="t", value=value, key=TextDefinition("key"), include=(Included("key", "key"),)
    )
    with pytest.raises(DuplicateColumn):
        decoding_of(definition)
    reserved = CsvDefinition(encode_schema(Schema((Column("mz_offset", Text()),))))
    with pytest.raises(InvalidSource, match="mz_offset"):
        decoding_of(MessageDefinition(origin="t", value=reserved))
    keyless = MessageDefinition(origin="t", value=TextDefinition(), envelope=UpsertDefinition())
    with pytest.raises(InvalidSource, match="no format"):
        decoding_of(keyless)


def test_envelopes_of_definitions() -> None:
    value, key = JsonDefinition(), AvroDefinition('"long"', "u7", "key")
    plain = MessageDefinition(origin="t", value=value)
    assert isinstance(envelope_of(plain), Plain)
    assert not plain.takes_notes
    upsert = MessageDefinition(origin="t", value=value, key=key, envelope=UpsertDefinition())
    assert isinstance(envelope_of(upsert), Upsert), "no registry is needed for that"
    for envelope in (DebeziumDefinition(), MaterializeDefinition()):
        definition = MessageDefinition(origin="t", value=value, envelope=envelope)
        assert definition.takes_notes
        found = envelope_of(definition)
        found.resume(Standing(lambda: iter(())))
        changes = found.changes([])
        assert (list(changes.rows), list(changes.errors), changes.notes) == ([], [], {})
