"""Where an export goes: a file or folder here, or in a bucket.

A location that ends with `.parquet` is one file. Any other is a folder, which must be empty or
missing, so that an export never adds to something else, or replaces it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlsplit

from pyarrow import fs

from waterclock.errors import WaterclockError
from waterclock.persist.blob import s3
from waterclock.storage.sources.aws.clients import AwsAccess

SUFFIX = ".parquet"


class BadLocation(WaterclockError):
    """Nothing can be written where the statement says."""

    sqlstate: ClassVar[str] = "22023"


class NotEmpty(WaterclockError):
    """There is something already."""

    sqlstate: ClassVar[str] = "58P02"


class ExportFailed(WaterclockError):
    """The files could not be written."""

    sqlstate: ClassVar[str] = "58030"


@dataclass(frozen=True, slots=True)
class Place:
    """A path in a file system; `location` is how the user calls it."""

    system: fs.FileSystem
    path: str
    location: str

    @property
    def is_file(self) -> bool:
        return self.path.endswith(SUFFIX)

    def require_free(self) -> None:
        """Raise `NotEmpty` if there is something."""
        with failing(self.location):
            info = self.system.get_file_info(self.path)
            is_taken = info.type == fs.FileType.File
            if info.type == fs.FileType.Directory:
                is_taken = bool(self.system.get_file_info(fs.FileSelector(self.path)))
        if is_taken:
            raise NotEmpty(
                f'"{self.location}" is not empty',
                hint="Name a folder or a file that does not exist yet.",
            )


def place_of(location: str, access: AwsAccess | None) -> Place:
    """What a location means. Raises `BadLocation`, and what `AwsAccess` raises."""
    parts = urlsplit(location)
    if parts.scheme == "s3":
        if not parts.netloc or not parts.path.strip("/") or parts.query or "@" in parts.netloc:
            raise BadLocation(
                "the location does not name a folder or a file in a bucket",
                hint="The form is s3://bucket/folder, or s3://bucket/file.parquet.",
            )
        if access is None:
            raise BadLocation(
                "a bucket is written over a connection",
                hint="Use CREATE CONNECTION aws TO AWS, and WITH (AWS CONNECTION = aws).",
            )
        return Place(_bucket(access), f"{parts.netloc}{parts.path}".rstrip("/"), location)
    if parts.scheme or not location.startswith("/"):
        raise BadLocation(
            f'"{location}" is not the location of a file',
            hint="Give an absolute path, or s3://bucket/folder.",
        )
    return Place(fs.LocalFileSystem(), location.rstrip("/") or "/", location)


def _bucket(access: AwsAccess) -> fs.S3FileSystem:
    keys = access.with_keys_of_now()
    return s3.connect(
        endpoint=keys.endpoint,
        region=keys.region,
        access_key=keys.key_id,
        secret_key=keys.secret_key,
        session_token=keys.session_token,
    )


@contextmanager
def failing(location: str) -> Iterator[None]:
    """Errors of the file system as `ExportFailed`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise ExportFailed(f'could not write "{location}": {reason}') from error
