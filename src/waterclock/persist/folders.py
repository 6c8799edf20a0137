"""Folders that are still there after a crash, once they have been made, and closed to others.

What a folder holds is known to the disk when the folder itself is synced. Imports nothing else, for
this is among the first things that a server does.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

FOLDER_MODE, FILE_MODE = 0o700, 0o600
"""Only the user that runs the server may look into what it keeps."""


def open_private(path: str, flags: int) -> int:
    """For `open(..., opener=...)`: a new file is its owner's alone."""
    return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)


def make_private(root: Path) -> None:
    """Close a folder to others, with all that is in it.

    One that is closed already is left as it is, since nobody can get at what is in it. What belongs
    to another user is left alone too.
    """
    mode = root.stat().st_mode
    if not stat.S_IMODE(mode) & 0o077:
        return
    for parent, folders, files in os.walk(root):
        for name in folders:
            _close(os.path.join(parent, name), FOLDER_MODE)
        for name in files:
            _close(os.path.join(parent, name), FILE_MODE)
    _close(str(root), FOLDER_MODE)  # last: after a crash in here all is done again


def _close(path: str, mode: int) -> None:
    with suppress(PermissionError, FileNotFoundError):
        if not os.path.islink(path):
            os.chmod(path, mode)


def make_folders(folder: Path) -> None:
    """Make `folder` and its missing ancestors, each synced into its parent."""
    if not folder.parent.exists():
        make_folders(folder.parent)
    folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Have the disk know what the folder holds."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
