"""What a source of objects is asked for."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from waterclock.model.ids import GlobalId
from waterclock.storage.formats.api import MessageDefinition

Compression = Literal["auto", "none", "gzip", "zstd"]


class S3Definition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Objects of a bucket whose keys match the pattern (see `patterns`).

    Lines are read as `messages` say; without, objects are Parquet with these columns. `header`,
    `delimiter` and `path_columns` are as for files. `queue` is the name of a queue that is told of
    new objects. The bucket is listed every `scan_ms`, or at each tick if that is 0. Without
    `follow`, the source ends when everything that is there has been read. With `ignore_deletes`, an
    object may be deleted when it has been read.
    """

    connection: str
    bucket: str
    pattern: str | None = None
    queue: str | None = None
    compression: Compression = "auto"
    messages: MessageDefinition | None = None
    columns: Any = ()
    path_columns: Any = ()
    header: tuple[str, ...] | None = None
    delimiter: str = ","
    scan_ms: int = 0
    follow: bool = True
    ignore_deletes: bool = False

    @property
    def connection_id(self) -> GlobalId:
        return GlobalId.parse(self.connection)

    def encoded(self) -> bytes:
        """As a source's definition."""
        return msgspec.msgpack.encode(self)


def decoded(definition: bytes) -> S3Definition:
    return msgspec.msgpack.decode(definition, type=S3Definition)
