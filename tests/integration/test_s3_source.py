"""Objects in a bucket as a source, against a server that speaks S3.

WATERCLOCK_S3_ENDPOINT names another server to be tried, with `WATERCLOCK_S3_KEY` for both its keys.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from waterclock.model.schema import Column, Int, Schema, Text
from waterclock.persist.schema_codec import encode_schema
from waterclock.storage.formats.api import CsvDefinition, JsonDefinition, MessageDefinition
from waterclock.storage.sources.recency import Demand
from waterclock.storage.sources.s3 import connector
from waterclock.storage.sources.status import Health
from waterclock.testing.executors import AtHand
from waterclock.testing.s3_source import Clients, S3World, definition, notification, settings
from waterclock.testing.source_world import Crash

pytestmark = pytest.mark.service
Make = Callable[..., S3World]
_numbers = itertools.count()


OTHER = os.environ.get("WATERCLOCK_S3_ENDPOINT")
KEY = os.environ.get("WATERCLOCK_S3_KEY", "test")


@pytest.fixture(scope="module")
def clients(request: pytest.FixtureRequest) -> Clients:
    endpoint = OTHER or request.getfixturevalue("s3_server").endpoint
    return Clients(settings(endpoint, KEY))


@pytest.fixture
def make(clients: Clients) -> Make:
    """Makes a source over a bucket of its own."""

    def made(executors: Any = None, **more: Any) -> S3World:
        return S3World(
            clients, definition(f"source-{os.getpid()}-{next(_numbers)}", **more), executors
        )

    return made


@pytest.mark.semantics(155, 157, 164, 168)
def test_lines_of_objects_and_their_progress(make: Make) -> None:
    world = make(pattern="in/**/*.txt")
    world.put("in/a.txt", "one\ntwo\n")
    world.put("in/b.csv", "not for us\n")
    world.put("in/_hidden/c.txt", "nor this\n")
    world.put("in/empty.txt", "")
    world.settle()
    first = world.now
    assert world.rows() == {("one", 0): 1, ("two", 4): 1}
    assert world.progress() == {None: 0, "in/a.txt": 8}
    world.put("in/deep/er/z.txt", "three")  # a last line without an end
    world.put("in/Late.txt", "four\n")  # before everything that was read
    world.settle()
    assert world.rows() == {("one", 0): 1, ("two", 4): 1, ("three", 0): 1, ("four", 0): 1}
    assert world.progress() == {None: 8, "in/Late.txt": 5, "in/deep/er/z.txt": 5}
    assert world.rows(first) == {("one", 0): 1, ("two", 4): 1}
    before = world.updates()
    world.restart()
    world.settle()
    assert world.updates() == before
    world.put("in/more.txt", "five\n")
    world.settle()
    assert world.progress() == {None: 18, "in/more.txt": 5}


def test_nothing_new_binds_nothing(make: Make) -> None:
    world = make()
    world.put("a", "x\n")
    world.settle()
    bindings = world.world.updates(world.description.remap)
    for _ in range(3):
        world.step()
    assert world.world.updates(world.description.remap) == bindings


@pytest.mark.semantics(113, 151)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_crash_at_any_append(make: Make, at: int) -> None:
    world = make()
    world.put("a", "1\n")
    world.settle()
    world.put("b", "2\n")
    seen = 0

    def here(_: Any) -> bool:
        nonlocal seen
        seen += 1
        return seen > at

    world.world.crash_at = here
    with contextlib.suppress(Crash):
        world.step()
    bound = world.world.upper(world.description.remap)
    world.world.crash_at = None
    world.put("c", "3\n")
    world.restart()
    world.settle()
    assert world.rows() == {("1", 0): 1, ("2", 0): 1, ("3", 0): 1}
    assert not world.errors()
    if at == 1:  # b was bound, but not c
        assert bound is not None
        assert world.rows(bound - 1) == {("1", 0): 1, ("2", 0): 1}


@pytest.mark.parametrize("restored", [True, False])
def test_an_object_that_is_overwritten_or_deleted_after_it_was_read(
    make: Make, restored: bool
) -> None:
    world = make()
    for key in "abc":
        world.put(key, f"{key}\n")
    world.settle()
    world.put("a", "other\n")
    world.delete("b")
    world.settle()
    name = f'object "s3://{world.bucket}/'
    told = [
        f'55000 {name}a" was overwritten after it was read',
        f'55000 {name}b" was deleted after it was read',
    ]
    assert world.errors() == told
    world.restart()
    world.settle()
    assert world.errors() == told
    assert world.rows() == {("a", 0): 1, ("b", 0): 1, ("c", 0): 1}
    if restored:
        world.put("a", "a\n")
        world.put("b", "b\n")
        world.settle()
        assert world.errors() == []
        world.delete("a")
        world.settle()
        assert world.errors() == [f'55000 {name}a" was deleted after it was read']
    world.put("d", "d\n")
    world.settle()
    assert world.rows()["d", 0] == 1


def test_an_event_that_was_bound_when_the_server_died(make: Make) -> None:
    world = make()
    world.put("a", "a\n")
    world.settle()
    world.delete("a")
    appends = itertools.count()
    world.world.crash_at = lambda _: next(appends) == 1  # the binding, but not its data
    with pytest.raises(Crash):
        world.step()
    world.restart()
    world.settle()
    assert len(world.errors()) == 1
    assert world.rows() == {("a", 0): 1}


@pytest.mark.parametrize("change", ["deleted", "overwritten", "longer", "same"])
def test_an_object_that_changes_between_its_binding_and_its_read(make: Make, change: str) -> None:
    world = make()
    world.put("a", "one\ntwo\n")
    appends = itertools.count()
    world.world.crash_at = lambda _: next(appends) == 2
    with pytest.raises(Crash):
        world.step()
    match change:
        case "deleted":
            world.delete("a")
        case "overwritten":
            world.put("a", "x\n")
        case "longer":
            world.put("a", "one\ntwo\nthree\n")
    world.restart()
    world.settle()
    if change == "same":
        assert (world.rows(), world.errors()) == ({("one", 0): 1, ("two", 4): 1}, [])
        return
    word = "deleted" if change == "deleted" else "overwritten"
    assert world.errors() == [f'55000 object "s3://{world.bucket}/a" was {word}']
    assert not world.rows()
    world.put("b", "b\n")
    world.settle()
    assert (world.rows(), len(world.errors())) == ({("b", 0): 1}, 1)


def test_deletes_that_do_not_matter(make: Make) -> None:
    world = make(ignore_deletes=True)
    world.put("a", "a\n")
    world.settle()
    world.put("b", "b\n")
    world.settle()
    world.delete("ab")
    world.settle()
    world.put("c", "c\n")
    world.settle()
    world.put("a", "new\n")  # nothing is known any more of the one that was deleted
    world.settle()
    assert world.errors() == []
    assert world.rows() == {("a", 0): 1, ("b", 0): 1, ("c", 0): 1, ("new", 0): 1}


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("quoted", [False, True])
def test_a_large_object_in_several_bindings(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside: bool, quoted: bool
) -> None:
    monkeypatch.setattr("waterclock.storage.sources.s3.connector._AT_ONCE", 3000)
    monkeypatch.setattr("waterclock.storage.sources.s3.objects.PIECE", 1000)
    columns = encode_schema(Schema((Column("n", Int(64)), Column("t", Text()))))
    more = {"messages": MessageDefinition(origin="o", value=CsvDefinition(columns))}
    world = make(AtHand(tmp_path) if outside else None, **(more if quoted else {}))
    lines = [
        f'{i},"x\n{"y" * (i % 40)}"' if quoted else f"{i} {'y' * (i % 40)}" for i in range(300)
    ]
    world.put("large", "\n".join(lines) + "\n")
    world.put("small", '7,"7"\n')
    steps = 0
    while world.step().again_ms is not None:
        steps += 1
        assert len(world.progress()) <= 3
        if steps == 2:
            world.restart()
    assert steps >= 2
    assert world.errors() == []
    found = sorted(row[0] for row in world.rows().elements())
    expected = [*range(300), 7] if quoted else [*lines, '7,"7"']
    assert found == sorted(expected)  # type: ignore[type-var]
    found_at = {row: time for row, time in world.updates() if row[0] != '7,"7"'}
    times = {} if quoted else {row[1]: time for row, time in found_at.items()}
    in_order = [times[at] for at in sorted(times)]
    assert in_order == sorted(in_order)


@pytest.mark.parametrize("change", ["deleted", "overwritten"])
def test_a_large_object_that_is_lost_half_way(
    make: Make, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr("waterclock.storage.sources.s3.connector._AT_ONCE", 100)
    world = make()
    world.put("large", "".join(f"line {i}\n" for i in range(100)))
    world.step()
    read = world.rows()
    assert 0 < read.total() < 100
    if change == "deleted":
        world.delete(["large"])
    else:
        world.put("large", "".join(f"LINE {i}\n" for i in range(100)))
    world.settle()
    assert world.errors() == [f'55000 object "s3://{world.bucket}/large" was {change}']
    assert world.rows() == read
    world.put("next", "next\n")
    world.settle()
    assert world.rows()["next", 0] == 1


def compressed(codec: str, text: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as out:
        out.write(text.encode())
    return bytes(sink.getvalue())


@pytest.mark.parametrize("outside", [False, True])
def test_compressed_objects(make: Make, tmp_path: Path, outside: bool) -> None:
    world = make(AtHand(tmp_path) if outside else None)
    world.put("a.gz", compressed("gzip", "one\n" * 1000) + gzip.compress(b"two\n"))
    world.put("b.zst", compressed("zstd", "three\n"))
    world.put("unnamed", compressed("gzip", "four\n"))
    world.put("plain", "five\n")
    world.put("broken.gz", compressed("gzip", "six\n" * 1000)[:-20])
    world.settle()
    found = world.rows()
    assert {row[0] for row in found} == {"one", "two", "three", "four", "five"}
    assert found["one", 3996] == 1
    assert found["two", 4000] == 1
    [error] = world.errors()
    assert error.startswith(f'22P04 object "s3://{world.bucket}/broken.gz" can not be read')


def test_no_compression_where_none_is_said(make: Make) -> None:
    world = make(compression="gzip")
    world.put("a", gzip.compress(b"one\n"))
    world.put("b", "plain\n")
    world.settle()
    assert world.rows() == {("one", 0): 1}
    assert len(world.errors()) == 1


def parquet(table: pa.Table, **more: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **more)
    return sink.getvalue()


@pytest.mark.parametrize("outside", [False, True])
def test_parquet_with_partitions(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside: bool
) -> None:
    monkeypatch.setattr("waterclock.storage.sources.s3.connector._AT_ONCE", 2000)
    monkeypatch.setattr("waterclock.storage.sources.s3.objects.PIECE", 1000)
    rows = Schema((Column("id", Int(64)), Column("t", Text()), Column("year", Int(32))))
    world = make(
        AtHand(tmp_path) if outside else None,
        messages=None,
        columns=encode_schema(rows),
        path_columns=encode_schema(Schema(rows.columns[2:])),
    )
    table = pa.table({"id": range(1000), "t": [f"text {i}" for i in range(1000)]})
    world.put("t/year=2023/a.parquet", parquet(table, row_group_size=100))
    world.put("t/year=2024/b.parquet", parquet(table.slice(0, 2)))
    world.put("t/year=__HIVE_DEFAULT_PARTITION__/c.parquet", parquet(table.slice(0, 1)))
    world.put("t/year=never/d.parquet", parquet(table))
    world.put("t/year=2023/e.parquet", parquet(pa.table({"id": [1]})))
    world.put("t/year=2023/f.parquet", "this is no Parquet")
    assert world.settle() > 3
    found = world.rows()
    assert found.total() == 1003
    assert found[999, "text 999", 2023] == found[1, "text 1", 2024] == found[0, "text 0", None] == 1
    errors = world.errors()
    assert [error[:5] for error in errors] == ["22P04"] * 3
    assert "has other columns than the source" in errors[0] + errors[1] + errors[2]


def test_json_with_values_of_the_key(make: Make) -> None:
    world = make(
        messages=MessageDefinition(origin="o", value=JsonDefinition()),
        path_columns=encode_schema(Schema((Column("day", Text()), Column("n", Int(32))))),
    )
    world.put("day=a%2Fb/n=7/x.json", '{"a": 1}\n')
    world.put("day=c/n=none/x.json", '{"a": 2}\n')
    world.put("x.json", '{"a": 3}\nno json\n')
    world.settle()
    assert world.rows() == {('{"a": 1}', "a/b", 7): 1, ('{"a": 3}', None, None): 1}
    assert [error[:5] for error in world.errors()] == ["22P02", "22P02"]


def test_many_objects_in_few_rows_of_progress(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.storage.sources.s3.connector._MANY", 40)
    monkeypatch.setattr("waterclock.storage.sources.s3.connector._PAGES", 1)
    monkeypatch.setattr("waterclock.storage.sources.s3.bucket._PAGE", 50)
    world = make()
    for i in range(210):
        world.put(f"{i:05}", f"{i}\n")
    size = sum(len(f"{i}\n") for i in range(210))
    steps = 0
    while world.step().again_ms is not None or steps < 8:
        progress = world.progress()
        assert len(progress) <= 41
        steps += 1
        if steps in (3, 7):
            world.restart()
    assert world.rows() == {(str(i), 0): 1 for i in range(210)}
    assert sum(world.progress().values()) == size
    world.delete(f"{i:05}" for i in (3, 209))
    world.settle()
    assert len(world.errors()) == 2


@pytest.mark.skipif(OTHER is not None, reason="it speaks S3 only")
def test_a_queue_makes_it_quick_and_the_listing_is_the_truth(make: Make) -> None:
    world = make(queue="none yet", scan_ms=10_000_000, pattern="in/*")
    url = world.sqs.create_queue(QueueName=f"{world.bucket}-queue")["QueueUrl"]
    world = make(queue=f"{world.bucket}-queue", scan_ms=10_000_000, pattern="in/*")

    def send(body: str) -> None:
        world.sqs.send_message(QueueUrl=url, MessageBody=body)

    world.put("in/a", "a\n")
    world.step()
    assert world.rows() == {("a", 0): 1}
    for key in ("in/b", "in/c", "in/d d", "out/e"):
        world.put(key, f"{key[-1]}\n")
    send(notification(world.bucket, ["in/b"]))
    send(json.dumps({"Type": "Notification", "Message": notification(world.bucket, ["in/d+d"])}))
    send(notification(world.bucket, ["in/b"]))  # twice
    send(notification(world.bucket, ["in/none"]))  # it was deleted meanwhile
    send(notification(world.bucket, ["in/b"], "ObjectRemoved:Delete"))  # it was not
    foreign = [
        notification("other", ["in/b"]),
        notification(world.bucket, ["out/e"]),
        json.dumps({"Event": "s3:TestEvent"}),
        "{",
        "[1, 2]",
        json.dumps({"Records": [{"s3": {"bucket": {"name": 5}, "object": {}}}]}),
    ]
    for body in foreign:
        send(body)
    world.step()
    world.step()
    assert world.rows() == {("a", 0): 1, ("b", 0): 1, ("d", 0): 1}
    left = []
    while messages := world.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get(
        "Messages"
    ):
        left += [message["Body"] for message in messages]
    assert sorted(left) == sorted(foreign)
    world.world.now += 10_000_000
    world.settle()  # the listing finds what no message was about
    assert world.rows() == {("a", 0): 1, ("b", 0): 1, ("c", 0): 1, ("d", 0): 1}
    world.sqs.delete_queue(QueueUrl=url)
    world.put("in/f", "f\n")
    world.settle()  # and all of it without a queue
    assert world.rows()["f", 0] == 1
    assert world.errors() == []


def test_a_recent_read_finds_what_was_written_before_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waterclock.storage.sources.s3.connector._MANY", 3)
    world = make()
    world.settle()
    for i in range(10):
        world.put(f"b{i}", f"{i}\n")
    world.step()  # a pass that goes on when the read begins
    world.put("a", "a\n")  # behind it
    demand = Demand(world.world.now + 1, is_first=True, wants_head=True, wants_news=True)
    outcome = world.ingestion.step(demand)
    assert outcome.reached is not None
    head = outcome.reached.head
    assert head is not None
    steps = 0
    reached = outcome.reached
    while not reached.bound.covers(head):
        outcome = world.step()
        assert outcome.reached is not None
        reached = outcome.reached
        steps += 1
    assert 0 < steps < 20
    assert ("a", 0) in world.rows()
    assert world.rows().total() == 11


def test_what_a_probe_proposes_is_not_lost_if_it_is_not_bound(make: Make) -> None:
    world = make()
    world.put("a", "a\n")
    world.settle()
    world.put("b", "b\n")
    world.delete("a")
    source = world.connector()
    assert source.probe().frontier == source.probe().frontier
    found = source.probe().frontier.uppers
    assert (found[None], found["b"]) == (3, 2)  # two bytes and an event


def test_a_source_that_ends(make: Make) -> None:
    world = make(follow=False)
    world.put("a", "1\n2")
    while not world.step().is_over:
        pass
    assert world.ingestion.status.health is Health.FINISHED
    assert {row for row, _ in world.updates()} == {("1", 0), ("2", 2)}


def test_a_bucket_that_is_not_there(make: Make) -> None:
    world = make()
    world.s3.delete_bucket(Bucket=world.bucket)
    world.step()
    assert world.ingestion.status.health is Health.STALLED
    error = world.ingestion.status.error
    assert error is not None
    assert "NoSuchBucket" in str(error.detail)
    world.s3.create_bucket(Bucket=world.bucket)
    world.put("a", "a\n")
    world.settle()
    assert world.rows() == {("a", 0): 1}
    assert connector.KIND.progress.schema.names == ("key", "byte_offset")
