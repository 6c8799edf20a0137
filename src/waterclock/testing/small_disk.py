"""A disk of a few megabytes, to be filled: a file system in memory, which only root may mount."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FILLER = ".filler"
_PIECE = b"\1" * 4096


class SmallDisk:
    """A mounted file system of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        """Leave no byte free."""
        with (self.path / _FILLER).open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(_PIECE)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def make_room(self) -> None:
        (self.path / _FILLER).unlink(missing_ok=True)

    def make_read_only(self, *, read_only: bool = True) -> None:
        """Refuse all writes, also to files that are open; or no longer."""
        flag = "ro" if read_only else "rw"
        _run("mount", "-o", f"remount,{flag}", str(self.path))


def can_mount(folder: Path) -> bool:
    """Whether this process may mount something, which root may outside of most containers."""
    if os.geteuid() != 0:
        return False
    try:
        with small_disk(folder, 1):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[SmallDisk]:
    """A disk of that size, mounted below the folder."""
    path = folder / "disk"
    path.mkdir(exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path))
    try:
        yield SmallDisk(path)
    finally:
        _run("umount", "--lazy", str(path))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
