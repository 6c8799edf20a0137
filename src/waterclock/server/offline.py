"""A data directory of a server that is not running, looked at without changing anything.

The lock is taken, shared with other lookers, so that no server starts meanwhile. The log is read by
a connection of SQLite that can not write.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from waterclock.errors import WaterclockError
from waterclock.persist.errors import DataInUse
from waterclock.persist.places import BLOBS, LOG, remembered

LOCK, VIEWS, SOURCES = "LOCK", "views", "sources"


class NoDataDirectory(WaterclockError):
    """There is no data directory at the path."""

    sqlstate: ClassVar[str] = "58P01"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep servers away meanwhile. Raises `DataInUse` if there is one, or `NoDataDirectory`."""
    places = remembered(path)
    if places is not None:
        raise NoDataDirectory(
            f'"{path}" does not hold its data',
            detail=f"They are in {' and in '.join(filter(None, (places.log, places.blobs)))}.",
            hint="Use the tools of PostgreSQL and of S3 for what is kept there.",
        )
    if not (path / LOG).is_file():
        raise NoDataDirectory(
            f'"{path}" is not a data directory',
            detail=f"It has no {LOG}.",
            hint="Give the directory that the server was started with.",
        )
    try:
        handle = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except PermissionError:  # who may not write may still look
        handle = os.open(path / LOG, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(handle, 100, 0).decode(errors="replace").strip() or "unknown"
            raise DataInUse(
                f'data directory "{path}" is in use by process {owner}',
                hint="Stop that server first.",
            ) from error
        yield
    finally:
        os.close(handle)


@contextmanager
def opened_log(path: Path) -> Iterator[sqlite3.Connection]:
    """The log of the directory, for reading only. Raises `sqlite3.Error`."""
    file = (path / LOG).absolute()
    # What a killed server left in the write-ahead log is part of the log. Without such a file
    # nothing but the database need be touched, so that a medium that is read-only will do.
    mode = "mode=ro" if (path / f"{LOG}-wal").exists() else "immutable=1"
    connection = sqlite3.connect(f"{file.as_uri()}?{mode}", uri=True, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def blob_keys(path: Path) -> Iterator[str]:
    """The keys of all blobs; what a killed server was still writing is none."""
    root = path / BLOBS
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if "~" not in name)
        yield from (os.path.relpath(os.path.join(folder, name), root) for name in sorted(files))
