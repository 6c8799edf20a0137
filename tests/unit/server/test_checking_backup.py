"""Checking, backing up and restoring a data directory: every kind of damage is found."""

from __future__ import annotations

import io
import shutil
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema, Text
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.arrangement.cover import Cover
from waterclock.persist.arrangement.layout import Layout
from waterclock.persist.arrangement.writing import write_run
from waterclock.persist.errors import DataInUse
from waterclock.persist.maintenance import checkpoint
from waterclock.persist.notes import Notes
from waterclock.persist.rows import DIFF, TIME, updates
from waterclock.server import backup, checking
from waterclock.server.backup import BadBackup, TargetExists
from waterclock.server.data import Data
from waterclock.server.offline import NoDataDirectory
from waterclock.storage.api import Description, Progress, Updates, Write
from waterclock.storage.controller import Storage
from waterclock.storage.envelopes.keyed import HashedRows, KeyedRows
from waterclock.storage.sources.api import StatePlace
from waterclock.storage.sources.ledger import STATES

SCHEMA = Schema((Column("n", Int(64), nullable=False), Column("t", Text())))
MANY = 3000
"""More updates than stay in the log."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A directory with a checkpoint, entries after it, Parquet, inline updates, a run and a key."""
    path = tmp_path / "data"
    data = Data(path)
    _, writer = data.storage.create(GlobalId.user(1), Description(SCHEMA))
    rows = updates(SCHEMA, [((n, f"t{n}"), 5, 1) for n in range(MANY)])
    [writer] = data.storage.append(Write(writer, rows, EPOCH_MILLIS.frontier(10)))
    checkpoint(data.store)
    few = updates(SCHEMA, [((1, "few"), 11, 1)])
    data.storage.append(Write(writer, few, EPOCH_MILLIS.frontier(20)))
    data.close()
    state = path / "views" / "u9" / "left_0"
    state.mkdir(parents=True)
    layout = Layout.of({"k": pa.int64()}, {"v": pa.string()})
    arranged = pa.table({"k": [1, 2], "v": ["a", "b"], TIME: [5, 6], DIFF: [1, 1]})
    write_run(state, layout, Cover(5, 10), arranged)
    (path / "secrets.key").write_bytes(b"k" * 32)
    return path


@pytest.fixture
def source_state(path: Path) -> Path:
    """The folder of the state of a source, which the log knows to reach up to 1."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    place = StatePlace(path / "sources" / "state" / "u7")
    held = KeyedRows(schema, 1)
    held.open(place, lambda: iter(()))
    rows = pa.table({"k": [1], "v": ["a"]}, schema=schema)
    held.write(HashedRows(rows, held.hashes(rows)), np.ones(1, np.bool_))
    record = held.record
    held.settle()
    held.close()
    data = Data(path)
    Notes(data.store, STATES).put("u7", record)
    data.close()
    return place.folder


def checked(path: Path) -> tuple[int, str]:
    out = io.StringIO()
    return checking.run(path, out), out.getvalue()


def files(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name != "LOCK"
    }


def contents(path: Path) -> list[dict[str, object]]:
    with Storage.open_directory(path) as storage:
        reader, _ = storage.acquire_capabilities(GlobalId.user(1), write=False)
        found: list[dict[str, object]] = []
        for message in storage.subscribe_at(reader, as_of=EPOCH_MILLIS.frontier(19)):
            match message:
                case Updates(batch):
                    found += batch.to_pylist()
                case Progress():
                    break
        return sorted(found, key=repr)


def test_a_sound_directory(path: Path) -> None:
    before = files(path)
    code, told = checked(path)
    assert code == 0, told
    assert "2 parts with 3001 updates, 1 runs" in told
    assert files(path) == before, "nothing was changed"


def test_a_directory_of_a_killed_server(path: Path) -> None:
    """The write-ahead log of SQLite is still there, and is part of the log."""
    data = Data(path)
    copy = path.with_name("killed")
    shutil.copytree(path, copy)
    data.close()
    assert (copy / "log.db-wal").exists()
    code, told = checked(copy)
    assert code == 0, told


def test_a_server_that_was_killed_at_its_first_moment(tmp_path: Path) -> None:
    (tmp_path / "log.db").touch()
    code, told = checked(tmp_path)
    assert code == 0, told
    backup.back_up(tmp_path, tmp_path / "b.tar", io.StringIO())
    backup.restore(tmp_path / "b.tar", tmp_path / "copy", io.StringIO())
    Data(tmp_path / "copy").close()


def test_a_running_server_is_left_alone(path: Path) -> None:
    data = Data(path)
    try:
        with pytest.raises(DataInUse):
            checked(path)
    finally:
        data.close()


def test_a_backup_of_a_running_server(path: Path, tmp_path: Path) -> None:
    file, copy = tmp_path / "b.tar", tmp_path / "copy"
    data = Data(path)
    try:
        backup.back_up(path, file, out := io.StringIO())
        _, writer = data.storage.acquire_capabilities(GlobalId.user(1), write=True)
        assert writer is not None
        later = updates(SCHEMA, [((2, "later"), 25, 1)])
        data.storage.append(Write(writer, later, EPOCH_MILLIS.frontier(30)))
    finally:
        data.close()
    assert "A server is running" in out.getvalue()
    assert not list(path.glob("backing-up-*"))
    backup.restore(file, copy, io.StringIO())
    assert checked(copy)[0] == 0
    assert len(contents(copy)) == MANY + 1
    assert not (copy / "views").exists(), "its runs may be of another moment"


def test_what_a_running_server_deletes_begins_the_backup_anew(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A blob that the copied log refers to is gone, and in the next log there is another."""
    [blob] = (path / "blobs" / "shard").rglob("*.parquet")
    copied = backup._copied_log
    tries = []

    def once_gone(data: Path, folder: Path) -> Path:
        log = copied(data, folder)
        tries.append(log)
        if len(tries) == 1:
            blob.rename(tmp_path / "aside")
        else:
            (tmp_path / "aside").rename(blob)
        return log

    monkeypatch.setattr(backup, "_copied_log", once_gone)
    data = Data(path)
    try:
        backup.back_up(path, tmp_path / "b.tar", io.StringIO())
    finally:
        data.close()
    assert len(tries) == 2
    backup.restore(tmp_path / "b.tar", tmp_path / "copy", io.StringIO())
    assert len(contents(tmp_path / "copy")) == MANY + 1


def test_something_else_is_no_data_directory(tmp_path: Path) -> None:
    with pytest.raises(NoDataDirectory):
        checked(tmp_path)
    assert list(tmp_path.iterdir()) == []


def parquet(path: Path) -> Path:
    [file] = (path / "blobs").rglob("*.parquet")
    return file


def flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)


def change_entry(path: Path) -> None:
    with closing(sqlite3.connect(path / "log.db")) as log:
        [(position, entry)] = log.execute("SELECT position, entry FROM log ORDER BY 1 DESC LIMIT 1")
        changed = bytearray(entry)
        changed[-1] ^= 1
        log.execute("UPDATE log SET entry = ? WHERE position = ?", (bytes(changed), position))
        log.commit()


def drop_entry(path: Path) -> None:
    with closing(sqlite3.connect(path / "log.db")) as log:
        log.execute("DELETE FROM log WHERE position = (SELECT max(position) - 1 FROM log)")
        log.commit()


def the_run(path: Path) -> Path:
    [file] = (path / "views").rglob("*.arrow")
    return file


def the_checkpoint(path: Path) -> Path:
    [file] = (path / "blobs" / "checkpoint").iterdir()
    return file


DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "an entry changed": (change_entry, "log: entry"),
    "an entry is gone": (drop_entry, "log: entry"),
    "a page of Parquet changed": (lambda p: flip(parquet(p), 40), "collection u1, shard/"),
    "Parquet was cut": (lambda p: parquet(p).write_bytes(b"PAR1"), "bytes instead of"),
    "Parquet is gone": (lambda p: parquet(p).unlink(), "it is missing"),
    "the checkpoint changed": (lambda p: flip(the_checkpoint(p), 20), "a checkpoint can not"),
    "the checkpoint is gone": (lambda p: the_checkpoint(p).unlink(), "log: it is missing"),
    "a run changed": (lambda p: flip(the_run(p), 200), "checksum is wrong"),
    "a run was cut": (lambda p: the_run(p).write_bytes(b"x" * 9), "state of views, u9/left_0/"),
    "no database": (lambda p: (p / "log.db").write_bytes(b"x" * 9000) and None, "log: "),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found(path: Path, name: str) -> None:
    damage, told = DAMAGE[name]
    damage(path)
    code, out = checked(path)
    assert code == 1
    assert f"damaged: {told}" in out or told in out.partition("damaged: ")[2]


def test_state_of_sources_is_checked(path: Path, source_state: Path) -> None:
    code, told = checked(path)
    assert code == 0, told
    assert "2 runs" in told
    [file] = source_state.rglob("*.arrow")
    data = file.read_bytes()
    file.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    code, told = checked(path)
    assert code == 1
    assert "damaged: state of sources, state/u7/" in told
    file.unlink()
    code, told = checked(path)
    assert code == 1
    assert "damaged: state of sources, u7: runs from 0 up to 1 are missing" in told


def test_state_of_sources_is_backed_up(path: Path, source_state: Path, tmp_path: Path) -> None:
    file, copy = tmp_path / "b.tar", tmp_path / "copy"
    backup.back_up(path, file, io.StringIO())
    backup.restore(file, copy, io.StringIO())
    assert checked(copy)[0] == 0
    assert len(list((copy / source_state.relative_to(path)).rglob("*.arrow"))) == 1


def test_files_that_nothing_refers_to_are_no_damage(path: Path) -> None:
    (path / "blobs" / "shard" / "u1" / "9-left.parquet").write_bytes(b"half")
    code, told = checked(path)
    assert code == 0
    assert "1 files that nothing refers to" in told


def test_backup_and_restore(path: Path, tmp_path: Path) -> None:
    file, copy = tmp_path / "b.tar", tmp_path / "deep" / "copy"
    (path / "scratch" / "junk").write_bytes(b"junk")
    backup.back_up(path, file, io.StringIO())
    assert file.stat().st_mode & 0o077 == 0, "it holds the key of the secrets"
    backup.restore(file, copy, io.StringIO())
    assert checked(copy)[0] == 0
    assert (copy / "secrets.key").read_bytes() == b"k" * 32
    assert the_run(copy).read_bytes() == the_run(path).read_bytes()
    assert not (copy / "scratch" / "junk").exists()
    assert contents(copy) == contents(path)
    assert len(contents(copy)) == MANY + 1
    assert not list(tmp_path.rglob("*.unfinished"))


def test_nothing_is_overwritten(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "b.tar"
    backup.back_up(path, file, io.StringIO())
    with pytest.raises(TargetExists):
        backup.back_up(path, file, io.StringIO())
    with pytest.raises(TargetExists):
        backup.restore(file, path, io.StringIO())


@pytest.mark.parametrize("how", ["cut", "changed", "other"])
def test_a_bad_backup_restores_nothing(path: Path, tmp_path: Path, how: str) -> None:
    file, copy = tmp_path / "b.tar", tmp_path / "copy"
    backup.back_up(path, file, io.StringIO())
    data = file.read_bytes()
    match how:
        case "cut":
            file.write_bytes(data[: len(data) // 2])
        case "changed":
            with tarfile.open(file) as archive:
                [key] = [m for m in archive.getmembers() if m.name == "secrets.key"]
            flip(file, key.offset_data)
        case _:
            file.write_bytes(b"hello" * 1000)
    with pytest.raises(BadBackup):
        backup.restore(file, copy, io.StringIO())
    assert not copy.exists()
    assert not list(tmp_path.rglob("*.unfinished"))
