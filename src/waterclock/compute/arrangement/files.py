"""The folder of an arrangement: whole runs under their names, and what writers have not finished.

A run is written under a temporary name, synced and renamed, and then the folder is synced: at every
moment a name has a whole run or nothing. Removing a run is synced only where it matters that it
stays away. Otherwise a power failure may bring the file back, and opening finds it again as one
that lies within another run.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from waterclock.compute.arrangement.cover import Cover
from waterclock.persist.errors import Unavailable

_TEMPORARY = ".writing"


def make_folder(folder: Path) -> None:
    """Make the folder and its missing ancestors, each synced into its parent."""
    with unavailable("make", folder):
        if folder.is_dir():
            return
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)


def temporary(folder: Path, cover: Cover) -> Path:
    """A new name for a run that is being written. Two writers of one run do not meet in it."""
    return folder / f"{cover.name}.{uuid.uuid4().hex}{_TEMPORARY}"


def publish(written: Path, folder: Path, cover: Cover) -> None:
    """Give a synced file its name, in the place of the same run written before, if any."""
    with unavailable("write", folder):
        os.replace(written, folder / cover.name)
        _sync(folder)


def listed(folder: Path) -> list[Cover]:
    """The covers of all whole runs in the folder, in no particular order."""
    with unavailable("list", folder):
        found = [Cover.try_parse(name) for name in os.listdir(folder)]
    return [cover for cover in found if cover is not None]


def remove(folder: Path, covers: Iterable[Cover], *, sync: bool = False) -> None:
    """Remove those runs; it is fine if some are gone already."""
    with unavailable("remove runs from", folder):
        for cover in covers:
            with suppress(FileNotFoundError):
                os.unlink(folder / cover.name)
        if sync:
            _sync(folder)


def remove_unfinished(folder: Path) -> None:
    """Remove what crashed writers left. Only for the owner, when nobody writes."""
    with unavailable("clear", folder):
        for name in os.listdir(folder):
            if name.endswith(_TEMPORARY):
                os.unlink(folder / name)


@contextmanager
def unavailable(action: str, folder: Path) -> Iterator[None]:
    """Tell what the operating system refuses as the world's failure."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise Unavailable(f'could not {action} "{folder.name}": {reason}') from error


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
