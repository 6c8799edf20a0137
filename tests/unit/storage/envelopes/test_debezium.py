"""ENVELOPE DEBEZIUM: what each kind of change does, and which of them are seen again."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from waterclock.compute.snapshot import contents_at
from waterclock.model.errors import NegativeMultiplicity
from waterclock.model.schema import Column, Int, Json, Schema, Text
from waterclock.persist.rows import row_schema
from waterclock.persist.schema_codec import encode_schema
from waterclock.storage.envelopes.choice import decoding_of
from waterclock.storage.envelopes.positions import (
    Position,
    collection,
    is_snapshot,
    names_of_ended,
    position,
    transaction_name,
)
from waterclock.storage.envelopes.transactions import Transactions, json_ends
from waterclock.storage.formats.api import (
    AvroDefinition,
    DebeziumDefinition,
    Included,
    JsonDefinition,
    MessageDefinition,
    TextDefinition,
)
from waterclock.storage.sources.errors import InvalidSource
from waterclock.storage.sources.ledger import STATES
from waterclock.testing.record_world import Record, RecordWorld

ROW = Schema((Column("id", Int(64)), Column("v", Text())))


def definition(value: Any = None) -> MessageDefinition:
    chosen = JsonDefinition(encode_schema(ROW)) if value is None else value
    return MessageDefinition(origin='topic "t"', value=chosen, envelope=DebeziumDefinition())


@pytest.fixture
def world() -> RecordWorld:
    return RecordWorld({"t": definition()})


def change(
    op: str,
    before: tuple[int, str] | None,
    after: tuple[int, str] | None,
    place: tuple[int, int] | None = None,
    *,
    key: bytes | None = b"k",
) -> Record:
    def row(values: tuple[int, str] | None) -> dict[str, Any] | None:
        return None if values is None else {"id": values[0], "v": values[1]}

    source: dict[str, Any] = {"connector": "postgresql", "snapshot": op == "r"}
    if place is not None:
        source["sequence"] = json.dumps([str(place[0]), str(place[1])])
    body = {"op": op, "before": row(before), "after": row(after), "source": source}
    return key, json.dumps(body).encode()


@pytest.mark.semantics(144)
def test_changes(world: RecordWorld) -> None:
    world.upstream.append("t", change("r", None, (1, "a")), change("r", None, (2, "b")))
    world.step()
    assert world.rows("t", world.now) == {(1, "a"): 1, (2, "b"): 1}
    world.upstream.append(
        "t",
        change("c", None, (3, "c"), (1, 1)),
        change("u", (1, "a"), (1, "x"), (1, 2)),
        change("d", (2, "b"), None, (1, 3)),
        (b"k", None),
        change("m", None, None, (1, 4)),
    )
    world.step()
    assert world.rows("t", world.now) == {(1, "x"): 1, (3, "c"): 1}
    assert not world.errors("t", world.now)


@pytest.mark.parametrize(
    ("record", "wrong"),
    [
        (change("u", None, (1, "x"), (9, 9)), "an update has no row before it"),
        (change("t", None, None, (9, 9)), "a truncation of the table can not be followed"),
        ((b"k", b'{"id": 1}'), "it is not a change of Debezium"),
        ((b"k", b"nonsense"), "JSON is malformed"),
        (change("r", None, (5, "late")), "a row of a snapshot came after changes"),
    ],
)
def test_what_can_not_be_applied_is_an_error(
    world: RecordWorld, record: Record, wrong: str
) -> None:
    world.upstream.append("t", change("c", None, (1, "a"), (1, 1)), record)
    world.step()
    [(key, text)] = world.errors("t", world.now)
    assert key == "partition t/0, offset 1"
    assert wrong in text
    assert world.rows("t", world.now) == {(1, "a"): 1}


@pytest.mark.semantics(147)
def test_without_a_position_everything_counts(world: RecordWorld) -> None:
    world.upstream.append("t", change("c", None, (1, "a")), change("c", None, (1, "a")))
    world.step()
    assert world.rows("t", world.now) == {(1, "a"): 2}


@pytest.mark.semantics(146, 147)
def test_rows_at_one_place(world: RecordWorld) -> None:
    """A COPY writes many rows at one place. With a key, the same row again is the same."""
    world.upstream.append("t", change("c", None, (1, "a"), (1, 1)))
    world.upstream.append("t", change("c", None, (2, "a"), (1, 1)))
    world.upstream.append("t", change("c", None, (1, "a"), (1, 1)))
    world.step()
    assert world.rows("t", world.now) == {(1, "a"): 1, (2, "a"): 1}


@pytest.mark.semantics(147, 154)
def test_rows_at_one_place_without_a_key(world: RecordWorld) -> None:
    same = change("c", None, (1, "a"), (1, 2), key=None)
    first = change("c", None, (0, "a"), (1, 1), key=None)
    world.upstream.append("t", first, same, same)
    world.step()
    assert world.rows("t", world.now) == {(0, "a"): 1, (1, "a"): 2}, "one cannot tell them apart"
    world.restart()
    world.upstream.append("t", first, same, same, same)
    world.step()
    expected = {(0, "a"): 1, (1, "a"): 3}
    assert world.rows("t", world.now) == expected, "two of them come again, the third is new"


def test_a_copy_that_is_begun_anew(world: RecordWorld) -> None:
    rows = [change("r", None, (i, "a")) for i in range(3)]
    world.upstream.append("t", *rows[:2])
    world.step()
    world.restart()
    world.upstream.append("t", *rows)
    world.step()
    assert world.rows("t", world.now) == {(i, "a"): 1 for i in range(3)}


@pytest.mark.semantics(145)
def test_a_transaction_from_another_log_is_not_guessed(world: RecordWorld) -> None:
    def mysql(file: str, number: int) -> Record:
        source = {"connector": "mysql", "file": file, "pos": 4, "row": number}
        source["gtid"] = "3E11FA47-71CA-11E1-9E33-C80AA9429562:23"
        body = {"op": "c", "after": {"id": number, "v": "a"}, "source": source}
        return b"k", json.dumps(body).encode()

    world.upstream.append("t", mysql("bin.000009", 0), mysql("bin.000002", 1))
    world.step()
    [(_, text)] = world.errors("t", world.now)
    assert "came again from another" in text


@pytest.mark.semantics(12, 145)
@pytest.mark.parametrize("place", [None, (1, 2)], ids=["without positions", "with positions"])
def test_a_record_that_was_lost_is_an_error_of_what_depends_on_it(
    world: RecordWorld, place: tuple[int, int] | None
) -> None:
    """The row that a later record takes back was never there: nobody is shown rows until it comes,
    and times before that stay as they are.
    """
    world.upstream.append("t", change("c", None, (2, "other"), (1, 1) if place else None))
    world.step()
    before = world.now
    world.upstream.append("t", change("u", (1, "a"), (1, "b"), place))
    world.step()
    output = world.description.outputs["t"]

    def rows(time: int) -> list[dict[str, Any]]:
        holds, storage = world.world.holds, world.world.storage
        found: list[dict[str, Any]] = contents_at(
            storage, holds.capability(output), time, row_schema(ROW)
        ).to_pylist()
        return found

    assert rows(before) == [{"id": 2, "v": "other"}]
    with pytest.raises(NegativeMultiplicity) as raised:
        rows(world.now)
    assert raised.value.hint == "A source has retracted a row that was not there."
    later = (1, 3) if place else None
    world.upstream.append("t", change("c", None, (1, "a"), later))  # it was only late
    world.step()
    assert {row["v"] for row in rows(world.now)} == {"other", "b"}


def test_rows_as_json() -> None:
    world = RecordWorld({"t": definition(JsonDefinition())})
    assert decoding_of(definition(JsonDefinition())).schema == Schema((Column("data", Json()),))
    world.upstream.append("t", change("c", None, (1, "a"), (1, 1)))
    world.upstream.append("t", change("u", (1, "a"), (1, "b"), (1, 2)))
    world.step()
    assert world.rows("t", world.now) == {('{"v": "b", "id": 1}',): 1}


AVRO = {
    "type": "record",
    "name": "Envelope",
    "namespace": "server.public.t",
    "fields": [
        {
            "name": "before",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Value",
                    "fields": [
                        {"name": "id", "type": "long"},
                        {"name": "v", "type": ["null", "string"], "default": None},
                    ],
                },
            ],
            "default": None,
        },
        {"name": "after", "type": ["null", "Value"], "default": None},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "namespace": "io.debezium.connector.postgresql",
                "fields": [
                    {"name": "connector", "type": "string"},
                    {"name": "snapshot", "type": ["null", "string"], "default": "null"},
                    {"name": "sequence", "type": ["null", "string"], "default": None},
                    {"name": "schema", "type": "string"},
                    {"name": "table", "type": "string"},
                ],
            },
        },
        {"name": "op", "type": "string"},
    ],
}


def avro_schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(json.dumps(AVRO))
    schema["fields"][2]["type"]["fields"][1].pop("default")
    return schema


def test_avro() -> None:
    schema = avro_schema()
    world = RecordWorld({"t": definition(AvroDefinition(json.dumps(schema)))})
    parsed = fastavro.parse_schema(schema)
    for place, (op, before, after) in enumerate(
        [
            ("c", None, {"id": 1, "v": "a"}),
            ("u", {"id": 1, "v": "a"}, {"id": 1, "v": None}),
            ("c", None, {"id": 1, "v": "a"}),
        ]
    ):
        source = {
            "connector": "postgresql",
            "snapshot": "false",
            "sequence": json.dumps(["5", str(place % 2)]),
            "schema": "public",
            "table": "t",
        }
        out = io.BytesIO()
        value = {"before": before, "after": after, "source": source, "op": op}
        fastavro.schemaless_writer(out, parsed, value)
        world.upstream.append("t", (b"k", out.getvalue()))
    world.step()
    assert world.rows("t", world.now) == {(1, None): 1}, "the third is the first again"
    assert not world.errors("t", world.now)


def test_formats_and_clauses_that_do_not_fit() -> None:
    with pytest.raises(InvalidSource, match="requires FORMAT JSON or FORMAT AVRO"):
        decoding_of(definition(TextDefinition()))
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}
    with pytest.raises(InvalidSource, match="not that of a change of Debezium"):
        decoding_of(definition(AvroDefinition(json.dumps(schema))))
    with pytest.raises(InvalidSource, match="INCLUDE"):
        decoding_of(
            MessageDefinition(
                origin="t",
                value=JsonDefinition(),
                include=(Included("offset", "o"),),
                envelope=DebeziumDefinition(),
            )
        )


@pytest.mark.semantics(145)
def test_a_log_that_was_begun_anew_is_not_taken_for_a_replay(world: RecordWorld) -> None:
    def at(place: int, moment: int, identity: int) -> Record:
        _, value = change("c", None, (identity, "a"), (1, place))
        body = json.loads(value or b"")
        body["source"]["ts_ms"] = moment
        return b"k", json.dumps(body).encode()

    world.upstream.append("t", at(7, 100, 1), at(8, 101, 2), at(7, 100, 1))
    world.step()
    assert not world.errors("t", world.now)
    world.restart()
    world.upstream.append("t", at(5, 102, 3))  # the database was restored, and went on
    world.step()
    [(_, text)] = world.errors("t", world.now)
    assert "the log upstream has gone back" in text
    assert world.rows("t", world.now) == {(1, "a"): 1, (2, "a"): 1}


GTID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (None, None),
        ({"connector": "oracle"}, None),
        ({"connector": "postgresql", "lsn": 5}, None),
        (
            {"connector": "postgresql", "sequence": '[null, "7"]'},
            Position("postgresql", "0" * 20, "", f"{7:020d}"),
        ),
        ({"connector": "mysql", "file": None, "pos": 1}, None),
        (
            {"connector": "mysql", "file": "bin.000003", "pos": 4, "row": 1},
            Position("binlog/bin", f"{3:020d}", "", f"{4:020d}/{1:020d}"),
        ),
        (
            {"connector": "mysql", "file": "b.1", "pos": 4, "gtid": f"{GTID.upper()}:23"},
            Position(f"gtid/{GTID}", f"{23:020d}", "b.1", f"{4:020d}/{0:020d}"),
        ),
        (
            {"connector": "mariadb", "file": "b.1", "pos": 4, "gtid": "0-1-77"},
            Position("gtid/0", f"{77:020d}", "b.1", f"{4:020d}/{0:020d}"),
        ),
    ],
)
def test_positions(source: dict[str, Any] | None, expected: Position | None) -> None:
    assert position(source) == expected


def test_snapshots_and_tables() -> None:
    assert is_snapshot(None, "r")
    assert is_snapshot({"snapshot": "last"}, "c")
    assert not is_snapshot({"snapshot": "false"}, "c")
    assert not is_snapshot({"snapshot": None}, "c")
    assert not is_snapshot(None, "u")
    pg = {"connector": "postgresql", "db": "d", "schema": "s", "table": "t"}
    assert collection(pg) == "s.t"
    assert collection({"connector": "mysql", "db": "d", "table": "t"}) == "d.t"
    assert collection(None) is None


def test_names_of_transactions() -> None:
    """PostgreSQL's have the place of each change behind them, others are the same in all."""
    pg, mysql = {"connector": "postgresql"}, {"connector": "mysql"}
    assert transaction_name(pg, "731:22198776") == "731"
    assert transaction_name(mysql, f"{GTID}:10") == f"{GTID}:10"
    assert transaction_name(None, None) is None
    assert names_of_ended("731:22199072") == ("731:22199072", "731")
    assert names_of_ended(f"{GTID}:10") == (f"{GTID}:10",)
    assert names_of_ended("00000025:00000d08:0025") == ("00000025:00000d08:0025",)


ENDS = MessageDefinition(origin='topic "x"', value=json_ends())


def transaction_world(*in_order: str) -> RecordWorld:
    topics = {"t": definition(), "x": ENDS}
    return RecordWorld(topics, lambda: Transactions("x", {"t": "public.t"}, in_order), ["t"])


def in_transaction(number: int, order: int, table: str = "t") -> Record:
    _, value = change("c", None, (number, str(order)), (number, order))
    body = json.loads(value or b"")
    body["source"] |= {"schema": "public", "table": table}
    body["transaction"] = {"id": f"{number}:{order}", "total_order": order}
    return b"k", json.dumps(body).encode()


def end(number: int, count: int, *, wrapped: bool = False) -> Record:
    tables = [{"data_collection": "public.t", "event_count": count}]
    told: dict[str, Any] = {"status": "END", "id": f"{number}:9", "data_collections": tables}
    return None, json.dumps({"schema": {}, "payload": told} if wrapped else told).encode()


@pytest.mark.semantics(163)
@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"nonsense", 'can not read the value of topic "x"'),
        (b"{}", "tells of no transaction"),
        (b'{"payload": {"status": "END"}}', "tells of no transaction"),
    ],
)
def test_a_transaction_topic_that_can_not_be_read_ends_the_source(value: bytes, told: str) -> None:
    world = transaction_world()
    world.upstream.append("x", (None, value))
    assert told in world.failing_step()


@pytest.mark.semantics(163)
def test_changes_wait_for_their_transaction() -> None:
    world = transaction_world()
    world.upstream.append("t", change("r", None, (0, "copied")), in_transaction(1, 1))
    world.upstream.append("x", end(1, 2, wrapped=True))
    world.step()
    assert world.rows("t", world.now) == {(0, "copied"): 1}
    world.restart()
    world.upstream.append("t", in_transaction(2, 1))
    world.upstream.append("x", end(2, 1))
    world.step()
    assert world.rows("t", world.now) == {(0, "copied"): 1}, "the first one has not come yet"
    world.upstream.append("t", in_transaction(1, 2))
    world.step()
    assert world.rows("t", world.now) == {
        (0, "copied"): 1,
        (1, "1"): 1,
        (1, "2"): 1,
        (2, "1"): 1,
    }
    notes = world.description.notes
    assert notes is not None
    keys = [row[1] for row in world.world.contents(notes, world.now)]
    assert not [key for key in keys if key.startswith("held/")], "nothing is kept longer"


def test_a_change_that_never_comes_is_noticed() -> None:
    world = transaction_world("t")
    world.upstream.append("t", in_transaction(1, 1), in_transaction(2, 1))
    world.upstream.append("x", end(1, 2))
    world.step()  # nobody knows yet whether the second came before or after
    world.upstream.append("x", end(2, 1))
    told = world.failing_step()
    assert 'changes of table "public.t" are missing upstream' in told


@pytest.mark.semantics(116, 163)
def test_partitions_that_are_added_to_a_table() -> None:
    """What comes later in one of several need not have happened later: it is waited for."""
    world = transaction_world("t")
    world.upstream.tells_partitions = True
    world.upstream.append("t", in_transaction(1, 1), in_transaction(2, 1))
    world.upstream.append("x", end(1, 2))
    world.step()
    world.upstream.append("t", in_transaction(3, 1), partition=1)
    world.upstream.append("x", end(2, 1), end(3, 1))
    world.step()
    assert not world.rows("t", world.now)
    world.restart()  # that there are several is remembered
    world.upstream.append("x", end(4, 0))
    world.step()
    assert not world.rows("t", world.now)
    world.upstream.append("t", in_transaction(1, 2), partition=1)
    world.step()
    expected = [(1, "1"), (1, "2"), (2, "1"), (3, "1")]
    assert world.rows("t", world.now) == dict.fromkeys(expected, 1)


def test_a_topic_with_the_changes_of_another_table_ends_the_source() -> None:
    world = transaction_world()
    world.upstream.append("t", in_transaction(1, 1, "other"))
    told = world.failing_step()
    assert 'changes of table "public.t" has those of table "public.other"' in told


def test_many_transactions_in_one_binding() -> None:
    """In whatever order they come: each table is changed once, by all of them."""
    world = transaction_world("t")
    for number in range(1, 2001):
        world.upstream.append("t", *(in_transaction(number, order) for order in (1, 2)))
        world.upstream.append("x", end(number, 2))
    world.step()
    assert len(world.rows("t", world.now)) == 4000
    world.upstream.append("t", in_transaction(2000, 2), in_transaction(2001, 1))
    world.step()
    assert len(world.rows("t", world.now)) == 4000, "seen before, or not ended"


def test_transactions_that_are_told_in_avro() -> None:
    each = {
        "type": "record",
        "name": "event_collection",
        "fields": [
            {"name": "data_collection", "type": "string"},
            {"name": "event_count", "type": "long"},
        ],
    }
    schema = {
        "type": "record",
        "name": "TransactionMetadataValue",
        "fields": [
            {"name": "status", "type": "string"},
            {"name": "id", "type": "string"},
            {"name": "event_count", "type": ["null", "long"]},
            {"name": "data_collections", "type": ["null", {"type": "array", "items": each}]},
            {"name": "ts_ms", "type": "long"},
        ],
    }

    def written(status: str, tables: list[dict[str, Any]] | None) -> Record:
        row = {"status": status, "id": "1:9", "event_count": None, "ts_ms": 5}
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, schema, {**row, "data_collections": tables})
        return None, sink.getvalue()

    ends = MessageDefinition(origin='topic "x"', value=AvroDefinition(json.dumps(schema)))
    topics = {"t": definition(), "x": ends}
    world = RecordWorld(topics, lambda: Transactions("x", {"t": "public.t"}, ["t"]), ["t"])
    world.upstream.append("t", in_transaction(1, 1))
    world.upstream.append("x", written("BEGIN", None))
    world.step()
    assert not world.rows("t", world.now)
    counts = [{"data_collection": "public.t", "event_count": 1}]
    world.upstream.append("x", written("END", counts))
    world.step()
    assert world.rows("t", world.now) == {(1, "1"): 1}


def test_a_first_copy_is_remembered_on_disk_until_it_is_over(world: RecordWorld) -> None:
    folder = world.world.state_folder
    rows = [change("r", None, (n, "copied")) for n in range(20)]
    world.upstream.append("t", *rows[:10])
    world.step()
    [place] = list(folder.iterdir())
    [made] = [path.name for path in place.iterdir()]
    world.restart()
    world.upstream.append("t", *rows)
    world.step()
    assert sum(world.rows("t", world.now).values()) == 20, "rows that came again count once"
    assert [path.name for path in place.iterdir()] == [made], "it was opened, not made again"
    world.upstream.append("t", change("u", (3, "copied"), (3, "new"), (5, 5)))
    world.step()
    assert world.rows("t", world.now)[3, "new"] == 1
    assert not list(folder.rglob("*.arrow")), "nobody asks any more"
    assert not [key for key in world.world.store.read(lambda s: s.notes) if STATES in key]


def test_a_row_that_has_gone_during_a_first_copy_may_come_again(world: RecordWorld) -> None:
    """One partition has changes already while another is copied."""
    world.upstream.append("t", change("r", None, (1, "a")), change("r", None, (2, "b")))
    world.upstream.append("t", change("d", (1, "a"), None, (5, 5)), partition=1)
    world.step()
    world.upstream.append("t", change("r", None, (1, "a")), change("r", None, (2, "b")))
    world.step()
    assert world.rows("t", world.now) == {(1, "a"): 1, (2, "b"): 1}
    assert not world.errors("t", world.now)
