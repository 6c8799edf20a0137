"""`waterclock backup` and `restore`: everything a data directory holds, in one file and back.

A backup is a tar file. Its first member is a list of the others with their checksums; then come
the log, the blobs that it refers to, the state of views and sources, and the small files beside
them (the key of the secrets, a certificate). Garbage and temporary files stay behind.

A server may go on meanwhile. Then the log is copied as of one moment, and links to the blobs that
it refers to are made before they are read, so that what the server deletes later is still there; if
it has deleted one already, all begins anew with the log of a later moment. What is restored is what
a server would find that had been killed at that moment.

The state of views and sources is taken along if no server is running, for they go on from it. Runs
and log must be of one moment for that; without them, a restored view is computed again from its
inputs, and the state of a source is made again from its contents.

A restored directory is the data as it was. Its lineage goes on from there: never let the original
and a copy of it write to the same systems outside.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import ClassVar, TextIO

import msgspec

from waterclock.errors import WaterclockError
from waterclock.persist.blob.files import FileBlob
from waterclock.persist.consensus.sqlite import SqliteConsensus
from waterclock.persist.consensus.witness import Witness
from waterclock.persist.errors import DataInUse
from waterclock.persist.folders import make_private
from waterclock.persist.log import recover
from waterclock.persist.places import BLOBS, LOG
from waterclock.server.offline import LOCK, SOURCES, VIEWS, locked, opened_log

_MANIFEST = "waterclock-backup.json"
_FORMAT = 1
_READ_BYTES = 1 << 20
_LEFT_BEHIND = frozenset(
    {
        LOCK,
        LOG,
        f"{LOG}-wal",
        f"{LOG}-shm",
        Witness.path_of(Path(LOG)).name,
        BLOBS,
        "scratch",
        "queries",
        "spark",
    }
)
_LINKS = "backing-up-"
"""The begin of the names of folders with links to blobs, in the data directory."""
_TRIES = 5


class BackupFailed(WaterclockError):
    """The backup can not be written."""

    sqlstate: ClassVar[str] = "58030"


class BadBackup(WaterclockError):
    """The file is not a backup, or not as it was written."""

    sqlstate: ClassVar[str] = "XX001"


class TargetExists(WaterclockError):
    """Something is where the result should go."""

    sqlstate: ClassVar[str] = "58P02"


class _Manifest(msgspec.Struct, frozen=True):
    format: int
    position: int
    """Where the log ends."""
    members: dict[str, str]
    """The SHA-256 of each file, by its path in the data directory."""


def back_up(data: Path, target: Path, out: TextIO) -> None:
    """Write a backup of the directory to a file that does not exist yet.

    The file appears when it is complete, and only its owner may read it.
    """
    _require_absent(target)
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.unfinished")
    try:
        with (
            tempfile.TemporaryDirectory(prefix="waterclock-backup-") as folder,
            _collected(data, Path(folder), out) as (position, files),
        ):
            members = {name: _digest(path) for name, path in files.items()}
            handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(handle, "wb") as file:
                _write(file, _Manifest(_FORMAT, position, members), files)
                file.flush()
                os.fsync(file.fileno())
        os.link(unfinished, target)  # fails if somebody else was first
    except (OSError, sqlite3.Error) as error:
        raise BackupFailed(f'could not write backup "{target}": {error}') from error
    finally:
        unfinished.unlink(missing_ok=True)
    size = target.stat().st_size
    print(f"{target}: {len(members)} files, {size / 1e6:.1f} MB, log up to {position}", file=out)


def restore(source: Path, data: Path, out: TextIO) -> None:
    """Make a data directory, which must not exist yet, from a backup.

    The directory appears when it is complete and every checksum was compared.
    """
    _require_absent(data)
    data.absolute().parent.mkdir(parents=True, exist_ok=True)
    unfinished = data.absolute().with_name(f"{data.name}.{os.getpid()}.unfinished")
    try:
        unfinished.mkdir(mode=0o700)
        with tarfile.open(source, "r:") as archive:
            manifest = _extract(archive, unfinished)
        unfinished.chmod(0o755)  # so that all below is looked at
        make_private(unfinished)
        _sync_tree(unfinished)
        os.rename(unfinished, data)
    except (tarfile.TarError, msgspec.DecodeError, EOFError) as error:
        raise BadBackup(f'"{source}" is not a backup, or is damaged: {error}') from error
    except OSError as error:
        raise BackupFailed(f'could not restore "{source}" to "{data}": {error}') from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    print(f"{data}: {len(manifest.members)} files, log up to {manifest.position}", file=out)


@contextmanager
def _collected(data: Path, folder: Path, out: TextIO) -> Iterator[tuple[int, dict[str, Path]]]:
    """Where the log ends, and the files of the backup, which stay as they are inside the block."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(data))
            is_running = False
        except DataInUse:
            is_running = True
        if not is_running:
            yield _files(data, _copied_log(data, folder))
            return
        print(
            "A server is running on it, and goes on: what it has acknowledged until now is taken."
            " Restored views are computed again.",
            file=out,
        )
        links = tempfile.TemporaryDirectory(prefix=_LINKS, dir=data)
        yield _pinned(data, folder, Path(stack.enter_context(links)))


def _pinned(data: Path, folder: Path, links: Path) -> tuple[int, dict[str, Path]]:
    """The same while a server is running, whatever it deletes from now on."""
    for attempt in range(_TRIES):
        log = _copied_log(data, folder)
        try:
            position, files = _files(data, log, frozenset({VIEWS, SOURCES}))
            return position, _linked(files, links / str(attempt))
        except (FileNotFoundError, WaterclockError):  # deleted after the log had been copied
            if attempt == _TRIES - 1:
                raise
            log.unlink()
            Witness.path_of(log).unlink(missing_ok=True)
    raise AssertionError("the last attempt returns or raises")


def _linked(files: dict[str, Path], links: Path) -> dict[str, Path]:
    """Links to the blobs; they never change, so that a link is as good as a copy."""
    found = dict(files)
    for name, path in files.items():
        if name.startswith(f"{BLOBS}/"):
            found[name] = links / name
            found[name].parent.mkdir(parents=True, exist_ok=True)
            os.link(path, found[name])
    return found


def _copied_log(data: Path, folder: Path) -> Path:
    """The log of this moment as one file, with what still was in the write-ahead log."""
    target = folder / LOG
    # The witness first: opening the copy then finds out whether it lacks something.
    with suppress(FileNotFoundError):
        shutil.copyfile(Witness.path_of(data / LOG), Witness.path_of(target))
    with opened_log(data) as log:
        copy = sqlite3.connect(target)
        try:
            log.backup(copy)
        finally:
            copy.close()
    return target


def _files(
    data: Path, log: Path, without: frozenset[str] = frozenset()
) -> tuple[int, dict[str, Path]]:
    """Where the log ends; and what belongs to a backup, by path in the data directory."""
    consensus = SqliteConsensus(log)
    try:
        state = recover(FileBlob(data / BLOBS), consensus)
    finally:
        consensus.close()
    witness = Witness.path_of(log)
    files = {LOG: log, witness.name: witness}
    for key in sorted(state.referenced() - state.garbage):
        files[f"{BLOBS}/{key}"] = data / BLOBS / key
    for path in sorted(data.iterdir()):
        if path.name not in _LEFT_BEHIND | without and not path.name.startswith(_LINKS):
            files |= {str(each.relative_to(data)): each for each in _below(path)}
    return state.position, files


def _below(path: Path) -> Iterator[Path]:
    if path.is_symlink():
        return
    if path.is_file():
        yield path
    elif path.is_dir():
        for each in sorted(path.iterdir()):
            if not each.name.startswith("inbox-"):  # what a tick was told
                yield from _below(each)


def _write(file: io.BufferedWriter, manifest: _Manifest, files: dict[str, Path]) -> None:
    with tarfile.open(fileobj=file, mode="w:", format=tarfile.PAX_FORMAT) as archive:
        listed = msgspec.json.encode(manifest)
        info = tarfile.TarInfo(_MANIFEST)
        info.size = len(listed)
        archive.addfile(info, io.BytesIO(listed))
        for name, path in files.items():
            archive.add(path, arcname=name, recursive=False, filter=_anonymous)


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def _extract(archive: tarfile.TarFile, folder: Path) -> _Manifest:
    first = archive.next()
    if first is None or first.name != _MANIFEST:
        raise tarfile.ReadError("it does not begin with the list of its files")
    listed = archive.extractfile(first)
    assert listed is not None, "a member with a size is a file"
    manifest = msgspec.json.decode(listed.read(), type=_Manifest)
    if manifest.format > _FORMAT:
        raise tarfile.ReadError("it was written by a newer version")
    missing = dict(manifest.members)
    while (member := archive.next()) is not None:
        if missing.pop(member.name, None) is None or not member.isfile():
            raise tarfile.ReadError(f'"{member.name}" is not in the list of its files')
        archive.extract(member, folder, filter="data")
        if _digest(folder / member.name) != manifest.members[member.name]:
            raise tarfile.ReadError(f'"{member.name}" is not as it was written')
    if missing:
        raise tarfile.ReadError(f'"{min(missing)}" is missing')
    return manifest


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(_READ_BYTES):
            digest.update(part)
    return digest.hexdigest()


def _require_absent(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise TargetExists(f'"{path}" exists already', hint="Give a path where nothing is.")


def _sync_tree(folder: Path) -> None:
    for parent, _, files in os.walk(folder):
        for name in [*files, "."]:
            handle = os.open(os.path.join(parent, name), os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
