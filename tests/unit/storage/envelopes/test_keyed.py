"""Rows by key on disk: lookups, what the log says of them, damage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from waterclock.persist.arrangement.writing import ascending_hashes
from waterclock.persist.hashing import Hashes
from waterclock.storage.envelopes.keyed import HashedRows, KeyedRows, decode_record
from waterclock.storage.sources.api import StatePlace
from waterclock.storage.sources.errors import TransientFault
from waterclock.testing.keyed_model import KeyedModel

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])


def hashed(held: KeyedRows, rows: pa.Table) -> HashedRows:
    """The rows in the order of their hashes."""
    hashes = held.hashes(rows)
    order = ascending_hashes(hashes)
    return HashedRows(rows.take(pa.array(order)), hashes[order])


def table(*rows: tuple[str, int]) -> pa.Table:
    keys, values = zip(*rows, strict=True)
    return pa.table({"k": keys, "v": values}, schema=SCHEMA)


def put(held: KeyedRows, *rows: tuple[str, int], there: bool = True) -> list[tuple[Any, ...]]:
    """One step; the rows that it has replaced."""
    given = hashed(held, table(*rows))
    gone = found(held, *(key for key, _ in rows))
    held.write(given, np.full(len(rows), there))
    return gone


def found(held: KeyedRows, *keys: str) -> list[tuple[Any, ...]]:
    rows = held.find(hashed(held, table(*((key, 0) for key in keys))))
    return sorted(zip(*rows.to_pydict().values(), strict=True))


def nothing() -> Iterator[pa.RecordBatch]:
    return iter(())


def unread() -> Iterator[pa.RecordBatch]:
    raise AssertionError("the contents are not read")


def contents(*rows: tuple[str, int]) -> Iterator[pa.RecordBatch]:
    model = KeyedModel(SCHEMA, 1)
    model.write((row, True) for row in rows)
    return model.contents()


def new(folder: Path) -> KeyedRows:
    held = KeyedRows(SCHEMA, 1)
    held.open(StatePlace(folder), nothing)
    return held


def run_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.arrow"))


def test_keys_with_the_same_hash_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def bad_hash(columns: object, length: int) -> Hashes:
        del columns
        return np.zeros(length, np.uint64)

    monkeypatch.setattr("waterclock.storage.envelopes.keyed.hash_rows", bad_hash)
    held = new(tmp_path)
    for part in (range(5), range(5, 8), range(8, 9), range(3, 6), range(20, 25)):
        put(held, *((str(i), 10 * i + len(part)) for i in part))
        held.settle()
    assert found(held, "3", "7", "99") == [("3", 33), ("7", 73)]
    put(held, ("3", 0), there=False)
    held.settle()
    assert found(held, "3", "4", "7") == [("4", 43), ("7", 73)]
    while held.runs > 1:
        before = held.runs
        held.settle()
        if held.runs == before:
            break
    assert found(held, *map(str, range(9))) == [
        (str(i), 10 * i + (3 if 4 <= i < 8 else 1 if i == 8 else 5)) for i in range(9) if i != 3
    ]


def test_many_steps_make_few_runs_without_what_is_gone(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    held = KeyedRows(schema, 1)
    held.open(StatePlace(tmp_path), nothing)
    for version in range(3):
        for start in range(0, 50_000, 500):
            keys = np.arange(start, start + 500)
            rows = hashed(held, pa.table({"k": keys, "v": keys + version}, schema=schema))
            assert held.find(rows).num_rows == (500 if version else 0)
            held.write(rows, np.full(500, version < 2 or start >= 1000))
            held.settle()
    assert held.runs < 20
    keys = np.arange(50_000)
    rows = held.find(hashed(held, pa.table({"k": keys, "v": keys}, schema=schema))).sort_by("k")
    assert rows["v"].to_pylist() == list(range(1002, 50_002))
    assert sum(path.stat().st_size for path in run_files(tmp_path)) < 50_000 * 100


def test_state_that_the_log_knows_is_opened_without_the_contents(tmp_path: Path) -> None:
    held = new(tmp_path)
    put(held, ("a", 1), ("b", 2))
    record = held.record
    held.settle()
    held.close()
    again = KeyedRows(SCHEMA, 1)
    again.open(StatePlace(tmp_path, record), unread)
    assert found(again, "a", "b", "c") == [("a", 1), ("b", 2)]


def test_what_was_written_and_not_committed_does_not_count(tmp_path: Path) -> None:
    held = new(tmp_path)
    put(held, ("a", 1))
    record = held.record
    put(held, ("a", 2), ("b", 2))
    assert held.record != record
    again = KeyedRows(SCHEMA, 1)
    again.open(StatePlace(tmp_path, record), unread)
    assert found(again, "a", "b") == [("a", 1)]
    assert len(run_files(tmp_path)) == 1


def test_an_open_state_is_kept_if_the_log_agrees(tmp_path: Path) -> None:
    held = new(tmp_path)
    put(held, ("a", 1))
    record = held.record
    held.settle()
    put(held, ("a", 2))
    held.open(StatePlace(tmp_path, record), unread)  # the commit did not happen
    assert found(held, "a") == [("a", 1)]
    put(held, ("a", 3))
    held.open(StatePlace(tmp_path, held.record), unread)  # it did, and nobody was told
    assert found(held, "a") == [("a", 3)]
    held.open(StatePlace(tmp_path, b"nonsense"), lambda: contents(("z", 9)))
    assert found(held, "a", "z") == [("z", 9)], "what the log does not know is made again"


def test_state_of_other_columns_is_made_again(tmp_path: Path) -> None:
    held = new(tmp_path)
    put(held, ("a", 1))
    other = KeyedRows(pa.schema([("k", pa.string()), ("v", pa.int32())]), 1)
    other.open(StatePlace(tmp_path, held.record), nothing)
    assert decode_record(other.record).tip == 0
    assert not run_files(tmp_path), "the old files are gone"


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    match how:
        case "removed":
            path.unlink()
        case "cut":
            path.write_bytes(data[: len(data) // 2])
        case "bit":
            path.unlink()  # a file that is mapped keeps its bytes
            path.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
        case "other":
            path.unlink()
            path.write_bytes(b"nonsense")


@pytest.mark.parametrize("how", ["removed", "cut", "bit", "other"])
@pytest.mark.parametrize("which", [0, 1])
def test_damaged_state_is_made_again(tmp_path: Path, how: str, which: int) -> None:
    held = new(tmp_path)
    put(held, ("a", 1))
    put(held, ("a", 2), ("b", 2))
    record = held.record
    held.settle()
    held.close()
    damage(run_files(tmp_path)[which], how)
    again = KeyedRows(SCHEMA, 1)
    again.open(StatePlace(tmp_path, record), lambda: contents(("a", 2), ("b", 2)))
    assert found(again, "a", "b") == [("a", 2), ("b", 2)]
    assert len(list(tmp_path.iterdir())) == 1


def test_damage_that_is_met_while_running_ends_in_new_state(tmp_path: Path) -> None:
    held = new(tmp_path)
    for number in range(3):
        put(held, ("a", number), (f"b{number}", number))
        held.settle()
    put(held, ("c", 7))
    record = held.record
    damage(run_files(tmp_path)[0], "removed")
    damage(run_files(tmp_path)[-1], "removed")
    with pytest.raises(TransientFault, match="is made again"):
        held.settle()
    rows = [("a", 2), ("b0", 0), ("b1", 1), ("b2", 2), ("c", 7)]
    held.open(StatePlace(tmp_path, record), lambda: contents(*rows))
    assert found(held, "a", "b0", "b1", "b2", "c") == rows
    held.settle()


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float64(), [0.0, -0.0, float("nan"), None, 1.5]),
        (pa.list_(pa.int64()), [[1], [1, 2], [], None, [None]]),
        (pa.binary(), [b"", b"\0", None, b"\xff"]),
        (pa.bool_(), [True, False, None]),
    ],
)
def test_keys_of_many_types(tmp_path: Path, kind: pa.DataType, values: list[Any]) -> None:
    schema = pa.schema([("k", kind), ("v", pa.int64())])
    held = KeyedRows(schema, 1)
    held.open(StatePlace(tmp_path), nothing)
    for version in range(2):
        rows = pa.table({"k": pa.array(values, kind), "v": range(len(values))}, schema=schema)
        given = hashed(held, rows)
        assert held.find(given).num_rows == version * len(values)
        held.write(given, np.ones(len(values), np.bool_))
        held.settle()
