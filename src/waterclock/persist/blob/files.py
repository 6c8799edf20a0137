"""Objects as files below one folder; the key is the path.

An object is written under a temporary name, synced, renamed to its key, and then the folder that
holds it is synced. The rename is what makes it visible, so at every moment, a power failure
included, a key has the whole object or nothing; and once `put` returns, the bytes, the name and all
folders above it are on disk.

The temporary area is the folder `tmp~` in the root. A tilde can not be part of a key, so the area
is never in the way of an object and `list` never shows it. A crash leaves files there. Only a
caller that knows no one else is writing, since it owns the data, may remove them
(`clear_temporary`): to others a leftover looks just like a put in progress.

A deletion is not synced. A power failure may bring the object back, as garbage that is swept again.
Folders that became empty stay, since removing one would race with a put into it.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from waterclock.persist.blob.keys import check_key, folder_of, is_part
from waterclock.persist.errors import BlobMissing, refused_write
from waterclock.persist.folders import (
    FOLDER_MODE,
    make_folders,
    open_private,
    sync_folder,
)

_TEMPORARY = "tmp~"


class FileBlob:
    """A `Blob` in the folder `root`, which is made if it is missing.

    Safe for use by many threads and, on one root, by many processes.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._temporary = self._root / _TEMPORARY
        # The folders whose own names this handle has synced. Seeing that a folder exists is not
        # enough: whoever made it may not have come to sync its parent yet.
        self._synced_folders: set[Path] = set()
        with _unavailable("open", str(root)):
            make_folders(self._root)
            self._synced_folders.add(self._root)
            self._temporary.mkdir(mode=FOLDER_MODE, exist_ok=True)

    @property
    def keeps_checksums(self) -> bool:
        return False

    def put(self, key: str, data: bytes | pa.Buffer) -> None:
        check_key(key)
        target = self._root / key
        temporary = self._temporary / uuid.uuid4().hex
        with _unavailable("write", key):
            try:
                _write_synced(temporary, data)
                self._make_folder(target.parent)
                os.replace(temporary, target)
            except BaseException as error:
                with contextlib.suppress(OSError):
                    temporary.unlink()
                self._synced_folders.discard(target.parent)
                if isinstance(error, FileExistsError | NotADirectoryError | IsADirectoryError):
                    raise AssertionError(f'key "{key}" has another key as a folder') from error
                raise
            sync_folder(target.parent)

    def open(self, key: str) -> pa.NativeFile:
        """See `Blob.open`. A reader keeps its file when the object is deleted or replaced
        meanwhile.

        An ordinary file, not a memory map: both keep a deleted file readable, but a disk error
        under a map kills the process where a read raises, and Parquet is decoded into new memory
        anyway.
        """
        check_key(key)
        path = self._root / key
        with _unavailable("open", key):
            try:
                return pa.OSFile(str(path), "rb")
            except FileNotFoundError:
                pass
            except OSError as error:
                # A part of the key is a file, or all of it is a folder: no object has the key.
                if not (isinstance(error, NotADirectoryError) or path.is_dir()):
                    raise
        raise BlobMissing(f'object "{key}" does not exist')

    def delete(self, key: str) -> None:
        check_key(key)
        path = self._root / key
        with _unavailable("delete", key):
            try:
                path.unlink()
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError:
                if not path.is_dir():
                    raise

    def list(self, prefix: str) -> Iterator[str]:
        folder = folder_of(prefix)
        if folder is None:
            return iter(())
        with _unavailable("list", prefix):
            keys = [key for key in self._walk(folder) if key.startswith(prefix)]
        # Sorted as a whole: `a-b` comes before `a/b`, so the order of a walk is not the order of
        # keys.
        return iter(sorted(keys))

    def clear_temporary(self) -> None:
        """Remove what crashed puts left behind.

        Only for the owner of the data, when nobody else writes: a put in progress elsewhere would
        fail.
        """
        with _unavailable("clear", _TEMPORARY):
            for path in self._temporary.iterdir():
                path.unlink(missing_ok=True)

    def close(self) -> None:
        pass

    def _make_folder(self, folder: Path) -> None:
        """Make sure that `folder` exists and will still do after a power failure."""
        if folder in self._synced_folders:
            return
        self._make_folder(folder.parent)
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        sync_folder(folder.parent)
        self._synced_folders.add(folder)

    def _walk(self, folder: str) -> Iterator[str]:
        try:
            with os.scandir(self._root / folder) as entries:
                found = [(entry.name, entry.is_dir()) for entry in entries if is_part(entry.name)]
        except (FileNotFoundError, NotADirectoryError):
            return
        for name, is_folder in found:
            key = f"{folder}/{name}" if folder else name
            if is_folder:
                yield from self._walk(key)
            else:
                yield key


@contextlib.contextmanager
def _unavailable(action: str, name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise refused_write(error, f'could not {action} object "{name}": {reason}') from error


def replace_file(path: Path, data: bytes) -> None:
    """Give the file this content, durably: it has the old or the new one, never a part."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    _write_synced(fresh, data)
    os.replace(fresh, path)
    sync_folder(path.parent)


def _write_synced(path: Path, data: bytes | pa.Buffer) -> None:
    with open(path, "xb", buffering=0, opener=open_private) as file:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
