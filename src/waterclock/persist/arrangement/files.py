"""The folder of an arrangement: whole runs under their names, and what writers have not finished.

A run is written under a temporary name, synced and renamed, and then the folder is synced: at every
moment a name has a whole run or nothing. The runs of a step that is not committed yet are renamed
first and then synced, all at once (`Settling`): if that is cut short nobody will have counted them,
and the next opening removes them. Removing a run is synced only where it matters that it
stays away. Otherwise a power failure may bring the file back, and opening finds it again as one
that lies within another run. Where runs are exchanged for others that they do not lie in, a note
says which for which until it is done (`exchanging`), and opening completes it, or takes it back.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import TracebackType

from waterclock.persist.arrangement.cover import Cover
from waterclock.persist.errors import Damaged, Unavailable, refused_write
from waterclock.persist.folders import FOLDER_MODE

_TEMPORARY = ".writing"
_EXCHANGE = "exchange"
"""The name of the note."""
_SYNCS = 8
"""Concurrent fsync calls."""


def make_folder(folder: Path) -> None:
    """Make the folder and its missing ancestors, each synced into its parent."""
    with unavailable("make", folder):
        if folder.is_dir():
            return
        make_folder(folder.parent)
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        _sync(folder.parent)


def temporary(folder: Path, cover: Cover) -> Path:
    """A new name for a run that is being written. Two writers of one run do not meet in it."""
    return folder / f"{cover.name}.{uuid.uuid4().hex}{_TEMPORARY}"


def publish(written: Path, folder: Path, cover: Cover) -> None:
    """Give a file its name and make it durable, in the place of the same run written before."""
    with unavailable("write", folder):
        _sync(written)
        os.replace(written, folder / cover.name)
        _sync(folder)


class Settling:
    """Makes runs durable beside other work; when the context is left, they are.

    Many files together take a file system little longer than one.
    """

    def __init__(self) -> None:
        self._going: list[Future[None]] = []

    def publish(self, written: Path, folder: Path, cover: Cover) -> None:
        """Give a file its name at once, and make it durable before long."""
        with unavailable("write", folder):
            os.replace(written, folder / cover.name)
        self._going.append(_syncs().submit(_sync, folder / cover.name, folder))

    def try_link(self, folder: Path, other: Path, cover: Cover) -> bool:
        """Let a run that was published be in another folder too; False if that is not possible.

        Runs never change, so one file can have several names. Removing one leaves the others.
        """
        if not try_link(folder, other, [cover]):
            return False
        self._going.append(_syncs().submit(_sync, other))
        return True

    def __enter__(self) -> Settling:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.finish()
        else:
            wait(self._going)

    def finish(self) -> None:
        """Wait until the runs that were published are durable.

        Raises `Damaged` if somebody has removed one of them meanwhile.
        """
        going, self._going = self._going, []
        wait(going)
        try:
            with unavailable("write", Path("state")):
                for sync in going:
                    sync.result()
        except Unavailable as error:
            missing = error.__cause__
            if not isinstance(missing, FileNotFoundError):
                raise
            raise Damaged(f'run "{Path(str(missing.filename)).name}" was removed') from missing


def try_link(folder: Path, other: Path, covers: Iterable[Cover]) -> bool:
    """Let runs be in another folder too, all of them or none; False if that is not possible.

    They are not durable there before the folder is synced.
    """
    linked: dict[Cover, Path] = {}
    try:
        for cover in covers:
            linked[cover] = temporary(other, cover)
            os.link(folder / cover.name, linked[cover])
    except OSError:  # there are file systems that have no such thing
        for path in linked.values():
            path.unlink(missing_ok=True)
        return False
    with unavailable("write", other):
        for cover, path in linked.items():
            os.replace(path, other / cover.name)
    return True


@contextmanager
def exchanging(folder: Path, old: Iterable[Cover], new: Iterable[Cover]) -> Iterator[None]:
    """Some runs are put in the place of others meanwhile, all of them or none, whatever happens."""
    note = "\n".join([*(f"-{cover.name}" for cover in old), *(f"+{cover.name}" for cover in new)])
    written = folder / f"{_EXCHANGE}{_TEMPORARY}"
    with unavailable("write", folder):
        written.write_text(note)
        _sync(written)
        os.replace(written, folder / _EXCHANGE)
        _sync(folder)
    try:
        yield
    finally:
        settle_exchange(folder)


def is_exchanging(folder: Path) -> bool:
    """Whether an exchange of runs was cut off."""
    return (folder / _EXCHANGE).exists()


def settle_exchange(folder: Path) -> None:
    """Complete an exchange of runs, if one is noted; or take it back if not all of them are there.

    A run that is among the old ones and the new ones stays either way.
    """
    with unavailable("clear", folder):
        try:
            noted = (folder / _EXCHANGE).read_text().splitlines()
        except FileNotFoundError:
            return
        _sync(folder)
        old, new = ({line[1:] for line in noted if line[0] == sign} for sign in "-+")
        for name in old - new if new <= set(os.listdir(folder)) else new - old:
            (folder / name).unlink(missing_ok=True)
        _sync(folder)
        (folder / _EXCHANGE).unlink()


@cache
def _syncs() -> ThreadPoolExecutor:
    """The threads that sync, which stay: to begin one takes longer than many a sync."""
    return ThreadPoolExecutor(_SYNCS, thread_name_prefix="waterclock-sync")


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
        raise refused_write(error, f'could not {action} "{folder.name}": {reason}') from error


def sync(folder: Path) -> None:
    """Make the names in the folder durable."""
    with unavailable("write", folder):
        _sync(folder)


def _sync(*paths: Path) -> None:
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
