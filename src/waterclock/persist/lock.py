"""The lock of a data directory: one server at a time.

The lock is the kernel's, so a killed server leaves none behind and opening needs no repair. The
file names the process that has it. It is taken before anything else is begun, so that a second
server is refused at once; hence nothing large is imported here.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from waterclock.persist.errors import DataInUse, Unavailable
from waterclock.persist.folders import make_folders


class DirectoryLock:
    """Held from the start until `release`. Makes the directory if it is missing.

    Raises `DataInUse` if another process has it.
    """

    def __init__(self, path: Path) -> None:
        try:
            make_folders(path.absolute())
            self._file = os.open(path / "LOCK", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(
                f'could not open data directory "{path}": {error.strerror}',
                hint="Choose a directory that this user may write to.",
            ) from error
        self._is_held = True
        try:
            self._take(path)
        except BaseException:
            self.release()
            raise

    def _take(self, path: Path) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(self._file, 100, 0).decode(errors="replace").strip() or "unknown"
            raise DataInUse(
                f'data directory "{path}" is in use by process {owner}',
                hint="Stop that server, or give this one another directory.",
            ) from error
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let others in. Idempotent."""
        if self._is_held:
            self._is_held = False
            os.close(self._file)
