"""What CREATE SOURCE asks of a bucket before there is a source: that it can be listed, that the
queue is there, and what the first object is like.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pyarrow as pa

from waterclock.model.schema import Schema
from waterclock.storage.sources.api import ConnectionSettings
from waterclock.storage.sources.aws.clients import access_of
from waterclock.storage.sources.errors import InvalidSource
from waterclock.storage.sources.files import path_columns
from waterclock.storage.sources.files.parquet_rows import ParquetRows, columns_in
from waterclock.storage.sources.s3.bucket import Bucket, Listed, ObjectLost
from waterclock.storage.sources.s3.definition import Compression
from waterclock.storage.sources.s3.discovery import first_objects
from waterclock.storage.sources.s3.objects import ObjectReader
from waterclock.storage.sources.s3.patterns import KeyPattern
from waterclock.storage.sources.s3.queue import Queue

_HEAD = 1 << 20


@dataclass(frozen=True, slots=True)
class NewBucket:
    """A bucket that a source is to read. Everything here raises `TransientFault` if the system
    upstream can not be asked, and `InvalidSource`.
    """

    settings: ConnectionSettings
    name: str
    pattern: KeyPattern
    queue: str | None

    def has_objects(self) -> bool:
        """Whether there is something to read; also whether bucket and queue can be read at all."""
        access = access_of(self.settings)
        if self.queue is not None:
            with closing(Queue(access, self.queue, self.name, self.pattern.matches)) as queue:
                queue.require()
        with closing(Bucket(access, self.name)) as bucket:
            return next(first_objects(bucket, self.pattern), None) is not None

    def first_line(self, compression: Compression) -> bytes:
        """The first line of an object."""
        with self._first(compression) as (reader, first):
            begin = reader.begin(first, _HEAD)
        line, newline, _ = begin.partition(b"\n")
        if not newline:
            raise _unreadable(f"{reader.shown(first.key)} has no whole line at its beginning")
        return line

    def columns(self) -> tuple[Schema, Schema]:
        """The columns of the first object as Parquet, and those in its key."""
        with self._first("none") as (reader, first):
            inside = columns_in(reader.parquet(first))
        return inside, path_columns.columns_in(first.key, inside)

    @contextmanager
    def _first(self, compression: Compression) -> Iterator[tuple[ObjectReader, Listed]]:
        with closing(Bucket(access_of(self.settings), self.name)) as bucket:
            first = next(first_objects(bucket, self.pattern), None)
            if first is None:
                raise InvalidSource(
                    f'there is no object in bucket "{self.name}" yet to take columns from',
                    hint="Give the columns with their types, or the names of the header.",
                )
            reader = ObjectReader(bucket, ParquetRows(Schema(())), compression)
            try:
                yield reader, first
            except (ObjectLost, pa.ArrowInvalid, OSError) as error:
                raise _unreadable(f"{reader.shown(first.key)}: {error}") from None


def _unreadable(reason: str) -> InvalidSource:
    return InvalidSource(f"could not look into the objects: {reason}")
