"""Objects in a bucket of S3 or of anything that speaks its protocol, through `pyarrow.fs`.

The store itself makes an object visible whole or not at all, and a list complete, so there is
little to add: names are put below a base, and errors are told in our terms. A failed upload stays
unfinished and invisible.

Three things differ from files. A reader fetches ranges of the object as they are asked for, so it
does not survive the deletion of the object. An error while reading comes from the reader, as an
`OSError`, since the reader is pyarrow's own. And a deletion may leave an empty marker for the
folder, which `list` does not show.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import ClassVar
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from waterclock.errors import WaterclockError
from waterclock.persist.blob.keys import check_key, folder_of
from waterclock.persist.errors import BlobMissing, Unavailable

_CONNECT_TIMEOUT_SECONDS = 10
_ATTEMPTS = 3


class BadAddress(WaterclockError):
    """The address of a bucket does not have the form it must have."""

    sqlstate: ClassVar[str] = "22023"


class S3Blob:
    """A `Blob` below `base` (`bucket` or `bucket/prefix`) of `filesystem`.

    Does not make the bucket. Safe for use by many threads and processes.
    """

    def __init__(self, filesystem: pafs.FileSystem, base: str) -> None:
        self._filesystem = filesystem
        self._base = base.strip("/")

    @classmethod
    def from_url(
        cls, url: str, *, access_key: str | None = None, secret_key: str | None = None
    ) -> S3Blob:
        """A handle for `s3://bucket/prefix?endpoint=http://host:port&region=name`.

        Both parameters of the address may be left out. Without keys, the credentials are looked for
        where programs for S3 do (environment, profile, role). Raises `BadAddress` if the address
        can not be understood and `Unavailable` if the bucket does not exist or can not be reached.
        """
        bucket, base, endpoint, region = _parse(url)
        filesystem = connect(
            endpoint=endpoint, region=region, access_key=access_key, secret_key=secret_key
        )
        with _unavailable("reach", "bucket", bucket):
            found = filesystem.get_file_info(bucket).type != pafs.FileType.NotFound
        if not found:
            raise Unavailable(f'bucket "{bucket}" does not exist', hint="Create the bucket first.")
        return cls(filesystem, base)

    @property
    def keeps_checksums(self) -> bool:
        return True

    def put(self, key: str, data: bytes | pa.Buffer) -> None:
        check_key(key)
        # One write of everything: there is no error between two parts after which closing the
        # stream, which can not be avoided, would finish an object that is not whole.
        with (
            _unavailable("write", "object", key),
            self._filesystem.open_output_stream(self._path(key), compression=None) as stream,
        ):
            stream.write(data)

    def open(self, key: str) -> pa.NativeFile:
        check_key(key)
        with _unavailable("open", "object", key):
            try:
                return self._filesystem.open_input_file(self._path(key))
            except FileNotFoundError:
                pass
        raise BlobMissing(f'object "{key}" does not exist')

    def delete(self, key: str) -> None:
        check_key(key)
        with (
            _unavailable("delete", "object", key),
            contextlib.suppress(FileNotFoundError),
        ):
            self._filesystem.delete_file(self._path(key))

    def list(self, prefix: str) -> Iterator[str]:
        folder = folder_of(prefix)
        if folder is None:
            return iter(())
        selector = pafs.FileSelector(self._path(folder), recursive=True, allow_not_found=True)
        with _unavailable("list", "objects", prefix):
            found = self._filesystem.get_file_info(selector)
        start = len(self._base) + 1
        keys = (info.path[start:] for info in found if info.type == pafs.FileType.File)
        return iter(sorted(key for key in keys if key.startswith(prefix)))

    def close(self) -> None:
        pass

    def _path(self, key: str) -> str:
        return f"{self._base}/{key}" if key else self._base


def connect(
    *,
    endpoint: str | None = None,
    region: str | None = None,
    access_key: str | None = None,
    secret_key: str | None = None,
    session_token: str | None = None,
) -> pafs.S3FileSystem:
    """A client for the service at `endpoint` (`http://host:port`; Amazon's if None).

    It tries a request a few times before it gives up, and sends a small object in one request.
    """
    scheme, host = None, None
    if endpoint is not None:
        scheme, separator, host = endpoint.rpartition("://")
        scheme = scheme if separator else "https"
    return pafs.S3FileSystem(
        access_key=access_key,
        secret_key=secret_key,
        session_token=session_token,
        region=region,
        scheme=scheme,
        endpoint_override=host,
        connect_timeout=_CONNECT_TIMEOUT_SECONDS,
        retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        allow_delayed_open=True,
    )


def _parse(url: str) -> tuple[str, str, str | None, str | None]:
    """The bucket, the base (bucket and prefix), the endpoint and the region that `url` names."""
    form = "The form is s3://bucket/prefix?endpoint=http://host:port&region=name."
    parts = urlsplit(url)
    if parts.scheme != "s3" or not parts.netloc or "@" in parts.netloc:
        raise BadAddress("the address of the objects does not name a bucket", hint=form)
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    endpoint = parameters.pop("endpoint", None)
    region = parameters.pop("region", None)
    for name in parameters:
        raise BadAddress(f'the address of the objects has an unknown parameter "{name}"', hint=form)
    return parts.netloc, f"{parts.netloc}/{parts.path.strip('/')}".rstrip("/"), endpoint, region


@contextlib.contextmanager
def _unavailable(action: str, kind: str, name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(f'could not {action} {kind} "{name}": {error}') from error
