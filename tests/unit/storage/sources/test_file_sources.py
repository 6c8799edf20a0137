"""Files as a source: lines, rows, new files, and files that are not what they were."""

from __future__ import annotations

import contextlib
import datetime
import decimal
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.schema import (
    Array,
    Column,
    Date,
    Decimal,
    Int,
    Json,
    Schema,
    Text,
    Timestamp,
)
from waterclock.persist.schema_codec import encode_schema
from waterclock.storage.formats.api import (
    CsvDefinition,
    Included,
    JsonDefinition,
    MessageDefinition,
    TextDefinition,
)
from waterclock.storage.sources.api import Surroundings
from waterclock.storage.sources.errors import InvalidSource
from waterclock.storage.sources.files import connector as files
from waterclock.storage.sources.files.connector import FILES, KIND, NAME, OUTPUT
from waterclock.storage.sources.files.definition import FilesDefinition
from waterclock.storage.sources.files.lines import line_ends, records_of
from waterclock.storage.sources.files.parquet import columns_of
from waterclock.storage.sources.files.places import place_of
from waterclock.storage.sources.ingestion import Ingestion
from waterclock.storage.sources.status import Health
from waterclock.testing.source_world import Crash, SourceWorld

TEXTS = MessageDefinition(
    origin="files", value=TextDefinition(), include=(Included("offset", "at"),)
)


class World:
    """A source of files, step by step."""

    def __init__(self, definition: FilesDefinition) -> None:
        self.world = SourceWorld()
        kept = files.encoded(definition)
        outputs = files.connector_of(definition, Surroundings(self.world.clock)).outputs
        shape = FILES.schema
        self.description = self.world.create(NAME, kept, shape, outputs, with_errors=True)
        self.ingestion = self.opened()

    def opened(self) -> Ingestion:
        return self.world.ingestion(self.description, {NAME: KIND})

    def restart(self) -> None:
        self.world.open()
        self.ingestion = self.opened()

    def step(self) -> Health:
        self.world.step(self.ingestion)
        return self.ingestion.status.health

    @property
    def now(self) -> int:
        upper = self.world.upper(self.description.outputs[OUTPUT])
        assert upper is not None
        return upper - 1

    def rows(self, time: int | None = None) -> Counter[tuple[Any, ...]]:
        at = self.now if time is None else time
        return self.world.contents(self.description.outputs[OUTPUT], at)

    def errors(self) -> list[str]:
        found = self.world.contents(self.description.errors[OUTPUT], self.now)
        return sorted(text for _, text in found)

    @property
    def error(self) -> str:
        return str(self.ingestion.status.error)


def texts(folder: Path, **more: Any) -> World:
    return World(FilesDefinition(location=str(folder), messages=TEXTS, **more))


@pytest.mark.semantics(109, 116, 164)
def test_lines_that_are_appended_and_files_that_appear(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "sub" / "two"
    one.write_text("a\nb\nc")
    (tmp_path / ".hidden").write_text("no\n")
    world = texts(tmp_path)
    assert world.step() is Health.RUNNING
    first = world.now
    assert world.rows() == {("a", 0): 1, ("b", 2): 1}
    with one.open("a") as more:
        more.write("c\r\n\nd\n")
    two.parent.mkdir()
    two.write_text("x\n")
    world.step()
    later = world.rows()
    assert later == {("a", 0): 1, ("b", 2): 1, ("cc", 4): 1, ("d", 9): 1, ("x", 0): 1}
    assert world.rows(first) == {("a", 0): 1, ("b", 2): 1}
    progress = world.world.contents(world.description.remap, world.now)
    assert progress == {(str(one), 11): 1, (str(two), 2): 1}
    world.restart()
    world.step()
    assert world.rows() == later


def test_a_source_that_ends(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("a\nlast line without an end")
    world = texts(tmp_path, follow=False)
    while world.step() is not Health.FINISHED:
        pass
    updates = world.world.updates(world.description.outputs[OUTPUT])
    assert {row for row, _ in updates} == {("a", 0), ("last line without an end", 2)}
    assert world.world.upper(world.description.outputs[OUTPUT]) is None
    assert world.world.upper(world.description.errors[OUTPUT]) is None


@pytest.mark.semantics(113, 151)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_crash_at_any_append(tmp_path: Path, at: int) -> None:
    one = tmp_path / "one"
    one.write_text("a\n")
    world = texts(tmp_path)
    world.step()
    one.write_text("a\nb\n")
    seen = 0

    def here(_: Any) -> bool:
        nonlocal seen
        seen += 1
        return seen > at

    world.world.crash_at = here
    with contextlib.suppress(Crash):
        world.step()
    bound_at = world.world.upper(world.description.remap)
    with one.open("a") as more:
        more.write("c\n")
    world.world.crash_at = None
    world.restart()
    world.step()
    assert world.rows() == {("a", 0): 1, ("b", 2): 1, ("c", 4): 1}
    if at == 1:  # b was bound, but not c
        assert bound_at is not None
        assert world.rows(bound_at - 1) == {("a", 0): 1, ("b", 2): 1}


def test_a_place_that_is_not_there_yet(tmp_path: Path) -> None:
    world = texts(tmp_path / "later")
    assert world.step() is Health.STALLED
    assert "does not exist" in world.error
    (tmp_path / "later").mkdir()
    assert world.step() is Health.RUNNING


@pytest.mark.semantics(145)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_file_that_shrinks(tmp_path: Path, restarted: bool) -> None:
    one = tmp_path / "one"
    one.write_text("a\nb\n")
    world = texts(tmp_path)
    world.step()
    one.write_text("a\n")
    if restarted:
        world.restart()
    assert world.step() is Health.FAILED
    assert "has gone back upstream" in world.error


@pytest.mark.parametrize("restarted", [False, True])
def test_a_file_that_is_replaced_by_a_longer_one(tmp_path: Path, restarted: bool) -> None:
    one = tmp_path / "one"
    one.write_text("a\nb\n")
    world = texts(tmp_path)
    world.step()
    before = world.rows()
    one.write_text("A\nb\nand more\n")
    if restarted:
        world.restart()
    assert world.step() is Health.FAILED
    assert f'file "{one}" has been replaced' in world.error
    assert world.rows() == before


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("a\n")
    (tmp_path / "two").write_text("a\n")
    world = texts(tmp_path)
    world.step()
    (tmp_path / "two").unlink()
    assert world.step() is Health.FAILED
    assert "is gone upstream" in world.error


def test_more_than_is_bound_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.storage.sources.files.connector._AT_ONCE", 50)
    monkeypatch.setattr("waterclock.storage.sources.files.connector._PIECE", 7)
    lines = ["x" * (i % 13) + str(i) for i in range(60)] + ["long " * 40]
    (tmp_path / "one").write_text("\n".join(lines) + "\n")
    (tmp_path / "two").write_text("short\n")
    world = texts(tmp_path)
    steps = 0
    while sum(world.rows().values() if steps else ()) < 62:
        world.step()
        steps += 1
        assert steps < 200
    assert steps > 10
    assert Counter(row[0] for row in world.rows().elements()) == Counter([*lines, "short"])


def test_csv_with_header_quotes_and_errors(tmp_path: Path) -> None:
    columns = encode_schema(Schema((Column("a", Int(64)), Column("b", Text()))))
    messages = MessageDefinition(origin="files", value=CsvDefinition(columns))
    definition = FilesDefinition(location=str(tmp_path), messages=messages, header=("a", "b"))
    (tmp_path / "good.csv").write_text('a,b\n1,"two\nlines"\n2,x\nbad,y\n')
    (tmp_path / "other.csv").write_text("b,a\n1,2\n")
    world = World(definition)
    world.step()
    assert world.rows() == {(1, "two\nlines"): 1, (2, "x"): 1, (1, "2"): 1}
    assert world.errors() == [
        f'22P04 can not read the value of file "{tmp_path}/good.csv", offset 22: invalid value '
        'for column "a": "bad"',
        f'22P04 the header of file "{tmp_path}/other.csv" is b, a instead of a, b',
    ]


def test_json_lines(tmp_path: Path) -> None:
    messages = MessageDefinition(origin="files", value=JsonDefinition())
    (tmp_path / "a.json").write_text('{"b":1,"a":2}\n')
    (tmp_path / "b.txt").write_text("not for us\n")
    world = World(FilesDefinition(location=str(tmp_path), pattern="*.json", messages=messages))
    world.step()
    assert world.rows() == {('{"a": 2, "b": 1}',): 1}


def test_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.storage.sources.files.parquet._ROWS_AT_ONCE", 7)
    table = pa.table({"id": pa.array(range(20), pa.int32()), "t": [str(i) for i in range(20)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=6)
    schema, _ = columns_of(str(tmp_path), None)
    assert schema == Schema((Column("id", Int(32)), Column("t", Text())))
    (tmp_path / "half.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:100])
    world = World(FilesDefinition(location=str(tmp_path), columns=encode_schema(schema)))
    for expected in (7, 14, 20, 20):
        world.step()
        assert sum(world.rows().values()) == expected
    assert world.rows() == {(i, str(i)): 1 for i in range(20)}
    pq.write_table(table.slice(0, 3), tmp_path / "half.parquet")
    world.step()
    assert world.rows()[0, "0"] == 2
    other = table.set_column(1, "t", [[f"other {i}" for i in range(20)]])  # as many rows as before
    pq.write_table(other, tmp_path / "a.parquet")
    assert world.step() is Health.FAILED
    assert "has been replaced" in world.error


def test_parquet_with_fewer_rows_after_a_restart(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array(range(20), pa.int32())})
    pq.write_table(table, tmp_path / "a.parquet")
    schema, _ = columns_of(str(tmp_path), None)
    world = World(FilesDefinition(location=str(tmp_path), columns=encode_schema(schema)))
    world.step()
    pq.write_table(table.slice(0, 5), tmp_path / "a.parquet")
    world.restart()
    assert world.step() is Health.FAILED
    assert "has been replaced" in world.error


def test_parquet_with_other_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    schema = Schema((Column("id", Int(32)),))
    world = World(FilesDefinition(location=str(tmp_path), columns=encode_schema(schema)))
    assert world.step() is Health.FAILED
    assert "has other columns than the source" in world.error


def test_columns_of_parquet(tmp_path: Path) -> None:
    with pytest.raises(InvalidSource, match="no file yet"):
        columns_of(str(tmp_path), None)
    nested = pa.struct([("x", pa.int8())])
    lists = [pa.array([], pa.list_(kind)) for kind in (nested, pa.int8(), pa.list_(pa.int8()))]
    table = pa.table(
        {"d": pa.array([], pa.decimal128(9, 2)), **dict(zip("lmn", lists, strict=True))}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    assert [c.type for c in columns_of(str(tmp_path), "*.parquet")[0].columns] == [
        Decimal(9, 2),
        Json(),
        Array(Int(16)),
        Json(),
    ]
    pq.write_table(pa.table({"n": pa.nulls(1)}), tmp_path / "a.parquet")
    with pytest.raises(InvalidSource, match="type null"):
        columns_of(str(tmp_path), None)


def test_places(tmp_path: Path) -> None:
    for name in ("a.json", "b.csv", "sub/c.json", "sub/_tmp/d.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")

    def names(location: str, pattern: str | None = None) -> list[str]:
        found = place_of(location, pattern).files()
        return [path.removeprefix(f"{tmp_path}/") for path in found]

    assert names(str(tmp_path)) == ["a.json", "b.csv", "sub/c.json"]
    assert names(f"file://{tmp_path}/") == ["a.json", "b.csv", "sub/c.json"]
    assert names(f"{tmp_path}/a.json") == ["a.json"]
    assert names(str(tmp_path), "*.json") == ["a.json", "sub/c.json"]
    assert names(f"{tmp_path}/*.csv") == ["b.csv"]
    assert names(f"file://{tmp_path}/s*") == ["sub/c.json"]
    for location, pattern in (("relative", None), ("nosuch://x", None), ("/x/*", "y")):
        with pytest.raises(InvalidSource):
            place_of(location, pattern)


@given(st.binary(max_size=60), st.integers(0, 5))
def test_lines_are_those_of_python(data: bytes, start: int) -> None:
    ends = line_ends(data, quoted=False)
    found = records_of(data, start, ends)
    lines, at = [], start
    for line in data.split(b"\n")[:-1]:
        text = line.removesuffix(b"\r")
        if text:
            lines.append((at, text))
        at += len(line) + 1
    pairs = zip(found["offset"].to_pylist(), found["value"].to_pylist(), strict=True)
    assert list(pairs) == lines


def test_newlines_in_quotes_end_nothing() -> None:
    assert line_ends(b'a,"b\nc"\n"d\n', quoted=True).tolist() == [8]
    assert line_ends(b'a,"b""\n"\n', quoted=True).tolist() == [9]
    assert line_ends(b'"\n', quoted=False).tolist() == [2]
    assert records_of(b"", 0, np.array([], np.int64)).num_rows == 0


@pytest.mark.parametrize("restarted", [False, True])
def test_a_single_file_that_is_gone(tmp_path: Path, restarted: bool) -> None:
    (tmp_path / "one").write_text("a\n")
    world = texts(tmp_path / "one")
    world.step()
    (tmp_path / "one").unlink()
    if restarted:
        world.restart()
    assert world.step() is Health.FAILED
    assert "is gone upstream" in world.error


def test_a_folder_that_is_gone_may_come_back(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one").write_text("a\n")
    world = texts(tmp_path / "in")
    world.step()
    (tmp_path / "in").rename(tmp_path / "elsewhere")
    assert world.step() is Health.STALLED
    (tmp_path / "elsewhere").rename(tmp_path / "in")
    assert world.step() is Health.RUNNING


def test_columns_from_paths(tmp_path: Path) -> None:
    path_columns = Schema((Column("day", Date()), Column("n", Int(32), nullable=False)))
    for folder, line in (
        ("day=2024-02-29/n=5", "a\nb\n"),
        ("day=__HIVE_DEFAULT_PARTITION__/n=%35", "c\n"),
        ("day=never/n=1", "d\ne\n"),
        ("day=2024-01-01", "f\n"),
    ):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "x.txt").write_text(line)
    world = texts(tmp_path, path_columns=encode_schema(path_columns))
    world.step()
    day = datetime.date(2024, 2, 29)
    assert world.rows() == {("a", 0, day, 5): 1, ("b", 2, day, 5): 1, ("c", 0, None, 5): 1}
    without, invalid = world.errors()
    assert without.startswith("22004 the path of file")
    assert without.endswith('day=2024-01-01/x.txt" has no value for column "n"')
    assert 'day=never/n=1/x.txt" has no valid value for column "day"' in invalid


def test_parquet_with_columns_from_paths(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array([1, 2], pa.int32()), "year": ["in", "file"]})
    (tmp_path / "year=2023" / "c%2Fd=x").mkdir(parents=True)
    pq.write_table(table, tmp_path / "year=2023" / "c%2Fd=x" / "a.parquet")
    schema, in_path = columns_of(str(tmp_path), None)
    assert in_path == Schema((Column("c/d", Text()),))
    rows = Schema((*schema.columns, *in_path.columns))
    kept, from_path = encode_schema(rows), encode_schema(in_path)
    world = World(FilesDefinition(location=str(tmp_path), columns=kept, path_columns=from_path))
    world.step()
    assert world.rows() == {(1, "in", "x"): 1, (2, "file", "x"): 1}


def test_types_of_parquet_as_others_write_it(tmp_path: Path) -> None:
    nanos = pa.array([1_700_000_000_123_456_789, None], pa.timestamp("ns"))
    values = pa.map_(pa.string(), pa.decimal128(5, 2))
    maps = pa.array([[("b", decimal.Decimal("1.50")), ("a", None)], None], values)
    table = pa.table(
        {
            "instant": nanos,
            "utc": nanos.cast(pa.timestamp("us", tz="UTC"), safe=False),
            "large": pa.array([2**64 - 1, 0], pa.uint64()),
            "map": maps,
            "inner": pa.array(
                [[{"m": [(1, "x")]}], []],
                pa.list_(pa.struct([("m", pa.map_(pa.int32(), pa.string()))])),
            ),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    schema, _ = columns_of(str(tmp_path), None)
    assert [column.type for column in schema.columns] == [
        Timestamp(True),
        Timestamp(True),
        Decimal(20, 0),
        Json(),
        Json(),
    ]
    world = World(FilesDefinition(location=str(tmp_path), columns=encode_schema(schema)))
    assert world.step() is Health.RUNNING
    moment = datetime.datetime(2023, 11, 14, 22, 13, 20, 123456, datetime.UTC)
    assert world.rows() == {
        (
            moment,
            moment,
            decimal.Decimal(2**64 - 1),
            '{"a": null, "b": 1.50}',
            '[{"m": {"1": "x"}}]',
        ): 1,
        (None, None, decimal.Decimal(0), None, "[]"): 1,
    }


def test_wall_clocks_of_parquet_stay_such(tmp_path: Path) -> None:
    times = pa.array([1_700_000_000_123_456], pa.timestamp("us"))
    pq.write_table(pa.table({"t": times, "n": times.cast("timestamp[ns]")}), tmp_path / "a.parquet")
    schema, _ = columns_of(str(tmp_path), None)
    assert [column.type for column in schema.columns] == [Timestamp(False), Timestamp(False)]


def test_nulls_where_none_are_declared(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([1, None], pa.int32())}), tmp_path / "a.parquet")
    schema = Schema((Column("id", Int(32), nullable=False),))
    world = World(FilesDefinition(location=str(tmp_path), columns=encode_schema(schema)))
    assert world.step() is Health.FAILED
    assert "has other columns than the source" in world.error
