"""A disk that is full: clear errors while it lasts, reads all the while, and then all goes on."""

from __future__ import annotations

import errno
import io
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema, Text
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.blob.files import FileBlob
from waterclock.persist.errors import DiskFull, NotWritten, ReadOnlyDisk
from waterclock.persist.rows import updates
from waterclock.server import checking
from waterclock.storage.api import Description, Progress, Updates, Write
from waterclock.storage.controller import Storage
from waterclock.testing.small_disk import SmallDisk, can_mount, small_disk

TABLE = GlobalId.user(1)
SCHEMA = Schema((Column("n", Int(64), nullable=False), Column("t", Text())))
MANY = 3000
"""More rows than stay in the log."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    if not can_mount(tmp_path):
        pytest.skip("a disk that is really full is one that is mounted, which only root may do")
    with small_disk(tmp_path, 32) as disk:
        yield disk


class Table:
    """A table, and what it holds as far as it was acknowledged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.storage = Storage.open_directory(path, background=False)
        self.reader, self._writer = self.storage.create(TABLE, Description(SCHEMA))
        self.rows: Counter[Any] = Counter()

    def append(self, count: int, size: int = 10) -> None:
        time = self._writer.frontier.only()
        assert time is not None
        rows = [(n, f"{time}{n}".rjust(size)) for n in range(count)]
        given = updates(SCHEMA, [(row, time, 1) for row in rows])
        frontier = EPOCH_MILLIS.frontier(time + 1)
        (self._writer,) = self.storage.append(Write(self._writer, given, frontier))
        self.rows.update(rows)

    def append_without_end(self, size: int) -> None:
        while True:
            self.append(1, size)

    def check(self) -> None:
        assert contents(self.storage, self.reader) == self.rows

    def check_all(self) -> None:
        """Also what is found when the directory is opened again."""
        self.check()
        self.storage.close()
        assert checking.run(self.path, io.StringIO()) == 0
        with Storage.open_directory(self.path) as storage:
            reader, _ = storage.acquire_capabilities(TABLE, write=False)
            assert contents(storage, reader) == self.rows


def contents(storage: Storage, reader: Any) -> Counter[Any]:
    found: Counter[Any] = Counter()
    subscription = storage.subscribe_at(reader)
    for message in subscription:
        match message:
            case Updates(batch):
                for n, text, _, diff in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                    found[n, text] += diff
            case Progress():
                break
    subscription.close()
    return found


def test_a_full_disk_under_log_and_blobs(disk: SmallDisk) -> None:
    table = Table(disk.path / "data")
    for _ in range(70):  # the write-ahead log has its full size after that
        table.append(1)
    table.append(MANY)
    for _ in range(3):
        disk.fill()
        with pytest.raises(DiskFull) as caught:
            table.append(MANY)
        assert caught.value.sqlstate == "53100"
        assert caught.value.hint is not None
        with pytest.raises(DiskFull):
            table.append_without_end(4000)  # until what the log has of its own is used up
        for _ in range(3):
            with pytest.raises(DiskFull):
                table.append(1, 4000)
            with suppress(DiskFull):
                table.storage.maintenance.run()
        table.check()
        disk.make_room()
        table.append(1)
        table.append(MANY)
        table.storage.maintenance.run()
        table.check()
    table.check_all()


def test_a_disk_that_has_become_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which a kernel does by itself after errors; to be asked for it, it wants no file open."""
    table = Table(tmp_path / "data")
    table.append(MANY)

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patched:
        patched.setattr("waterclock.persist.blob.files._write_synced", refused)
        with pytest.raises(ReadOnlyDisk, match="Read-only file system"):
            table.append(MANY)
    connection = table.storage._store._consensus._connection  # type: ignore[attr-defined]
    connection.execute("PRAGMA query_only = ON")
    with pytest.raises(NotWritten, match="readonly"):
        table.append(1)
    table.check()
    connection.execute("PRAGMA query_only = OFF")
    table.append(1)
    table.check_all()


@pytest.mark.parametrize("place", ["write", "fsync"])
def test_a_blob_that_finds_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Without a mount: the operating system says so of one call."""
    blob = FileBlob(tmp_path)
    blob.put("a/b", b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        if place == "write":
            patched.setattr("waterclock.persist.blob.files._write_synced", full)
        else:
            patched.setattr("os.fsync", full)
        with pytest.raises(DiskFull, match="No space left"):
            blob.put("a/c", b"new")
    assert list(blob.list("")) == ["a/b"]
    assert not list((tmp_path / "tmp~").iterdir())
    blob.put("a/c", b"new")
