"""Which files a source reads: those at a path or URL, as far as their names fit a pattern.

A location is a file, a folder, or has wildcards. Files are told by their paths within their file
system.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import fs

from waterclock.storage.sources.errors import InvalidSource

_WILD = "*?["


@dataclass(frozen=True, slots=True)
class Place:
    """A file system, the path to look at, and what paths below it have to look like."""

    system: fs.FileSystem
    path: str
    pattern: str | None

    def files(self) -> dict[str, int]:
        """The files there are now, in the order of their paths, and their sizes.

        Raises `OSError` if the place can not be looked at.
        """
        info = self.system.get_file_info(self.path)
        if info.type == fs.FileType.File:
            return {info.path: info.size}
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(f'"{self.path}" does not exist')
        below = self.system.get_file_info(fs.FileSelector(self.path, recursive=True))
        found = {each.path: each.size for each in below if each.type == fs.FileType.File}
        return {path: found[path] for path in sorted(found) if self._fits(path)}

    def is_there(self) -> bool:
        """Whether there is a file or folder at the path. Raises `InvalidSource`."""
        try:
            return bool(self.system.get_file_info(self.path).type != fs.FileType.NotFound)
        except OSError as error:
            raise InvalidSource(f"could not look into the files: {error}") from None

    def _fits(self, path: str) -> bool:
        name = path[len(self.path) :].lstrip("/")
        if any(part.startswith((".", "_")) for part in name.split("/")):
            return False  # what is being written, or is about other files
        return self.pattern is None or fnmatch.fnmatchcase(name, self.pattern)


def place_of(location: str, pattern: str | None) -> Place:
    """What a location means. Raises `InvalidSource`."""
    system, path = _system(location)
    wild = min((path.find(mark) for mark in _WILD if mark in path), default=-1)
    if wild < 0:
        return Place(system, path.rstrip("/") or "/", pattern)
    if pattern is not None:
        raise InvalidSource("PATTERN can not be given for a location that has wildcards")
    root, _, _ = path[:wild].rpartition("/")
    return Place(system, root or "/", path[len(root) :].lstrip("/"))


def _system(location: str) -> tuple[fs.FileSystem, str]:
    if "://" not in location:
        if not location.startswith("/"):
            raise InvalidSource("the path of files must be absolute")
        return fs.LocalFileSystem(), location
    head, mark, query = location.partition("?")
    cut = min((head.find(wild) for wild in "*[" if wild in head), default=len(head))
    head, wildcards = head[:cut], head[cut:]  # a URL can not have them
    try:
        system, path = fs.FileSystem.from_uri(head + mark + query)
    except (pa.ArrowInvalid, OSError, ValueError) as error:  # its text may have a secret in it
        raise InvalidSource(f"the location can not be understood as files: {error}") from None
    slash = "/" if wildcards and head.endswith("/") and not path.endswith("/") else ""
    return system, path + slash + wildcards
