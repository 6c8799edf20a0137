"""Folders that are still there after a crash, once they have been made.

What a folder holds is known to the disk when the folder itself is synced. Imports nothing else, for
this is among the first things that a server does.
"""

from __future__ import annotations

import os
from pathlib import Path


def make_folders(folder: Path) -> None:
    """Make `folder` and its missing ancestors, each synced into its parent."""
    if not folder.parent.exists():
        make_folders(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Have the disk know what the folder holds."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
