"""A data directory: log and blobs of one server, and the lock against others.

    LOCK      held by the running server, and names it
    log.db    the log (SQLite)
    blobs/    the blobs (files)
    scratch/  temporary files of the running server; emptied by the next one

Log and blobs may also be elsewhere (`places`).

The lock is the kernel's, so a killed server leaves none behind and opening needs no repair. The log
would fence a second server off in any case; the lock refuses it before it does harm to the first.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

from waterclock.persist.blob.files import make_folders
from waterclock.persist.errors import DataInUse, Unavailable
from waterclock.persist.places import HERE, Places


class DataDirectory:
    """An open, locked data directory; made if it is missing. Raises `DataInUse` if another process
    has it.
    """

    def __init__(self, path: Path, places: Places = HERE) -> None:
        self.path = path
        try:
            make_folders(path.absolute())
            self._lock = os.open(path / "LOCK", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(
                f'could not open data directory "{path}": {error.strerror}',
                hint="Choose a directory that this user may write to.",
            ) from error
        try:
            self._take_lock()
            places.claim(path)
            self.blob = places.open_blobs(path)
            self.scratch = _emptied(path / "scratch")
            self.consensus = places.open_log(path)
        except BaseException:
            os.close(self._lock)
            raise

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(self._lock, 100, 0).decode(errors="replace").strip() or "unknown"
            raise DataInUse(
                f'data directory "{self.path}" is in use by process {owner}',
                hint="Stop that server, or give this one another directory.",
            ) from error
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let others in. The blob and log handles must be closed before."""
        os.close(self._lock)


def _emptied(folder: Path) -> Path:
    """The folder, without what a killed server left in it."""
    try:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir()
    except OSError as error:
        raise Unavailable(f'could not empty "{folder}": {error.strerror}') from error
    return folder
