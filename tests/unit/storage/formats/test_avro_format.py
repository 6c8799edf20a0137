"""Avro, by a schema of our own and with a registry."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import pickle
import uuid
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Json, Text
from waterclock.storage.envelopes.choice import decoding_of
from waterclock.storage.formats.api import (
    AvroDefinition,
    MaterializeDefinition,
    MessageDefinition,
    UpsertDefinition,
)
from waterclock.storage.formats.avro_format import AvroValue
from waterclock.storage.formats.choice import format_of, registry_at
from waterclock.storage.formats.registry import SchemaRegistry, authorization
from waterclock.storage.sources.api import ConnectionSettings
from waterclock.storage.sources.errors import InvalidSource, TransientFault
from waterclock.testing.record_world import RecordWorld
from waterclock.testing.schema_registry import Registry, framed, schema_registry


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def record(*fields: tuple[str, Any], name: str = "r") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": n, "type": t} for n, t in fields],
    }


def roundtrip(kind: Any, value: Any) -> Any:
    """What a field of that Avro type with that value is read as."""
    schema = record(("f", kind))
    found = pickle.loads(pickle.dumps(AvroValue(json.dumps(schema), None)))
    decoded = found.decode(pa.array([written(schema, {"f": value})], pa.binary()))
    assert decoded.errors[0].as_py() is None
    return decoded.columns[0][0].as_py()


MOMENT = datetime.datetime(2024, 1, 2, 3, 4, 5, 6000, tzinfo=datetime.UTC)
MICROS = 1_704_164_645_006_000
IDENTITY = uuid.UUID(int=9)


def named(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "connect.name": name}


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("boolean", True, True),
        ("int", -5, -5),
        ("long", 2**40, 2**40),
        ("float", 1.5, 1.5),
        ("double", 0.1, 0.1),
        ("bytes", b"\0", b"\0"),
        ("string", "é", "é"),
        (["null", "string"], None, None),
        (["null", "string"], "x", "x"),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", "B"),
        ({"type": "fixed", "name": "f2", "size": 2}, b"ab", b"ab"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
            decimal.Decimal("12.34"),
            decimal.Decimal("12.34"),
        ),
        (
            {"type": "int", "logicalType": "date"},
            datetime.date(2024, 1, 2),
            datetime.date(2024, 1, 2),
        ),
        ({"type": "long", "logicalType": "timestamp-millis"}, MOMENT, MOMENT),
        ({"type": "long", "logicalType": "timestamp-micros"}, MOMENT, MOMENT),
        (
            {"type": "long", "logicalType": "time-micros"},
            datetime.time(1, 2, 3),
            datetime.time(1, 2, 3),
        ),
        ({"type": "string", "logicalType": "uuid"}, IDENTITY, IDENTITY.bytes),
        ({"type": "array", "items": ["null", "int"]}, [1, None], [1, None]),
        ({"type": "map", "values": "long"}, {"b": 1, "a": 2}, '{"a": 2, "b": 1}'),
        (record(("x", "int"), name="s"), {"x": 1}, {"x": 1}),
        (named("int", "io.debezium.time.Date"), 1, datetime.date(1970, 1, 2)),
        (named("long", "io.debezium.time.MicroTimestamp"), MICROS, MOMENT.replace(tzinfo=None)),
        (
            named("long", "io.debezium.time.Timestamp"),
            MICROS // 1000,
            MOMENT.replace(tzinfo=None),
        ),
        (named("string", "io.debezium.time.ZonedTimestamp"), "2024-01-02T03:04:05.006Z", MOMENT),
        (named("long", "io.debezium.time.MicroTime"), 1_000_000, datetime.time(0, 0, 1)),
        (named("string", "io.debezium.data.Json"), '{"b":1}', '{"b": 1}'),
        (named("string", "io.debezium.data.Uuid"), str(IDENTITY), IDENTITY.bytes),
    ],
)
def test_values(kind: Any, value: Any, read: Any) -> None:
    assert roundtrip(kind, value) == read


def test_columns_follow_the_schema() -> None:
    named_twice = record(("a", ["null", record(("x", "int"), name="s")]), ("b", ["null", "s"]))
    found = AvroValue(json.dumps(named_twice), None).columns
    assert [c.name for c in found] == ["a", "b"]
    assert found[0].type == found[1].type
    assert AvroValue('"long"', None, "key").columns == (Column("key", Int(64), False),)


@pytest.mark.parametrize(
    ("schema", "wrong"),
    [
        ("{", "invalid Avro schema"),
        ('{"type": "nonsense"}', "invalid Avro schema"),
        (json.dumps(record(("a", ["int", "string"]))), "a union of several types"),
        (json.dumps(record(("a", ["null", "r"]))), "not supported|contains itself"),
    ],
)
def test_schemas_that_can_not_be_read(schema: str, wrong: str) -> None:
    with pytest.raises(InvalidSource, match=wrong):
        AvroValue(schema, None)


def test_bytes_that_are_not_the_value() -> None:
    schema = record(("a", "long"), ("s", "string"))
    good = written(schema, {"a": 1, "s": "xyz"})
    payloads = pa.array([good, good[:-1], good + b"x", b"", None], pa.binary())
    found = AvroValue(json.dumps(schema), None).decode(payloads)
    assert found.columns[0].to_pylist() == [1, None, None, None, None]
    errors = found.errors.to_pylist()
    assert errors[0] is None
    assert errors[4] is None
    assert all("bytes" in text for text in errors[1:4])


@pytest.fixture
def registry() -> Iterator[Registry]:
    with schema_registry() as found:
        yield found


OLD = record(("id", "long"), ("gone", "string"))
NEW = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}


def test_writers_of_other_versions(registry: Registry) -> None:
    old, new = registry.register("t-value", OLD), registry.register("t-value", NEW)
    other = registry.register("u-value", record(("id", "string")))
    client = SchemaRegistry(registry.url)
    latest = client.latest("t-value")
    assert latest is not None
    assert latest.id == new
    value: AvroValue = pickle.loads(pickle.dumps(AvroValue(latest.schema, client)))
    payloads = [
        framed(old, written(OLD, {"id": 1, "gone": "x"})),
        framed(new, written(NEW, {"id": 2, "note": "n"})),
        framed(99, b""),
        b"\x01abcdef",
        b"ab",
        framed(other, written(record(("id", "string")), {"id": "x"})),
    ]
    for _ in range(2):
        found = value.decode(pa.array(payloads, pa.binary()))
    assert found.columns[0].to_pylist() == [1, 2, None, None, None, None]
    assert found.columns[1].to_pylist() == [None, "n", None, None, None, None]
    errors = found.errors.to_pylist()
    assert errors[:5] == [
        None,
        None,
        "the registry has no schema 99",
        "it begins with byte 1, and not with 0",
        "it is too short to name a schema",
    ]
    assert "not what the schema says" in errors[5]
    assert registry.requests.count(f"GET /schemas/ids/{old}") == 1, "a schema is asked for once"


def test_a_registry_that_does_not_answer(registry: Registry) -> None:
    registry.register("t-value", NEW)
    client = SchemaRegistry(registry.url)
    registry.is_broken = True
    with pytest.raises(TransientFault, match="answered with 500"):
        client.latest("t-value")
    value = AvroValue(json.dumps(NEW), client)
    with pytest.raises(TransientFault):
        value.decode(pa.array([framed(1, b"\x02\x00")], pa.binary()))
    registry.is_broken = False
    assert client.latest("nobody") is None
    assert value.decode(pa.array([framed(1, b"\x02\x00")], pa.binary())).errors.null_count == 1
    with pytest.raises(TransientFault, match="could not ask"):
        SchemaRegistry("http://127.0.0.1:1").latest("t-value")


def test_the_registry_of_a_connection(registry: Registry) -> None:
    registry.credentials = ("me", "secret")
    identity = registry.register("t-value", NEW)
    options = {"url": registry.url, "username": "me", "password": "secret"}
    settings = ConnectionSettings("c", "confluent schema registry", options)
    assert registry_at(settings).latest("t-value") is not None
    assert authorization("a", "b") == {"Authorization": "Basic YTpi"}
    definition = AvroDefinition(json.dumps(NEW), str(GlobalId.user(7)))
    value = format_of(definition, lambda _: settings)
    payload = framed(identity, written(NEW, {"id": 3, "note": None}))
    assert value.decode(pa.array([payload], pa.binary())).columns[0].to_pylist() == [3]
    with pytest.raises(InvalidSource, match="no URL"):
        registry_at(ConnectionSettings("c", "k", {}))


def test_map_is_json_and_text_stays_text() -> None:
    schema = record(("m", {"type": "map", "values": "string"}), ("t", "string"))
    found = AvroValue(json.dumps(schema), None)
    assert [c.type for c in found.columns] == [Json(), Text()]


def test_upserts_with_keys_of_several_fields() -> None:
    key = record(("a", "long"), ("b", "string"), name="k")
    value = record(("b", "string"), ("v", ["null", "long"]), name="v")
    definition = MessageDefinition(
        origin='topic "t"',
        value=AvroDefinition(json.dumps(value)),
        key=AvroDefinition(json.dumps(key), None, "key"),
        envelope=UpsertDefinition(),
    )
    world = RecordWorld({"t": definition})
    one, two = (written(key, {"a": i, "b": "x"}) for i in (1, 2))
    world.upstream.append("t", (one, written(value, {"b": "ignored", "v": 7})))
    world.upstream.append("t", (two, written(value, {"b": "x", "v": None})))
    world.step()
    assert world.rows("t", world.now) == {(1, "x", 7): 1, (2, "x", None): 1}
    world.upstream.append("t", (one, b"nonsense"), (two, None))
    world.step()
    assert not world.rows("t", world.now)
    [(key_text, text)] = world.errors("t", world.now)
    assert key_text == 'key [1, "x"]'
    assert text.startswith("22P03 can not read the value of")


def test_native_updates() -> None:
    update = record(
        ("data", record(("v", "string"), name="row")), ("time", "long"), ("diff", "long"), name="u"
    )
    count = record(("time", "long"), ("count", "long"), name="c")
    times = {"type": "array", "items": "long"}
    counts = {"type": "array", "items": count}
    progress = record(("lower", times), ("upper", times), ("counts", counts), name="p")
    whole = record(
        ("updates", ["null", {"type": "array", "items": update}]), ("progress", ["null", progress])
    )
    definition = MessageDefinition(
        origin="t", value=AvroDefinition(json.dumps(whole)), envelope=MaterializeDefinition()
    )
    world = RecordWorld({"t": definition})
    for updates, said in (
        (None, {"lower": [0], "upper": [], "counts": [{"time": 3, "count": 1}]}),
        ([{"data": {"v": "x"}, "time": 3, "diff": 2}], None),
    ):
        assert not world.bound or not world.rows("t", world.now)
        world.upstream.append("t", (None, written(whole, {"updates": updates, "progress": said})))
        world.step()
    assert world.rows("t", world.now) == {("x",): 2}
    plain = MessageDefinition(
        origin="t",
        value=AvroDefinition(json.dumps(record(("a", "int")))),
        envelope=MaterializeDefinition(),
    )
    with pytest.raises(InvalidSource, match="updates and progress"):
        decoding_of(plain)
