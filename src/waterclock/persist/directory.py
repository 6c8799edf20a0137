"""A data directory: log and blobs of one server, and the lock against others.

    LOCK      held by the running server, and names it
    log.db    the log (SQLite)
    blobs/    the blobs (files)
    scratch/  temporary files of the running server; emptied by the next one

Log and blobs may also be elsewhere (`places`).

The log would fence a second server off in any case; the lock (`lock.py`) refuses it before it does
harm to the first.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from waterclock.persist.errors import refused_write
from waterclock.persist.folders import FOLDER_MODE, make_private
from waterclock.persist.lock import DirectoryLock
from waterclock.persist.places import HERE, Places


class DataDirectory:
    """An open, locked data directory; made if it is missing. Raises `DataInUse` if another process
    has it. What others may look into is closed to them.
    """

    def __init__(
        self, path: Path, places: Places = HERE, lock: DirectoryLock | None = None
    ) -> None:
        """Takes the lock, or takes it over from a caller that has it."""
        self.path = path
        self._lock = DirectoryLock(path) if lock is None else lock
        try:
            make_private(path)
            places.claim(path)
            self.blob = places.open_blobs(path)
            self.scratch = _emptied(path / "scratch")
            self.consensus = places.open_log(path)
        except BaseException:
            self._lock.release()
            raise

    def release(self) -> None:
        """Let others in. The blob and log handles must be closed before."""
        self._lock.release()


def _emptied(folder: Path) -> Path:
    """The folder, without what a killed server left in it."""
    try:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(mode=FOLDER_MODE)
    except OSError as error:
        raise refused_write(error, f'could not empty "{folder}": {error.strerror}') from error
    return folder
