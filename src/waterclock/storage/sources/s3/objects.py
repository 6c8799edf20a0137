"""Objects as messages, read by whoever is asked: in place, or by tasks on executors.

A piece is a part of one version of an object that can be read by itself: some of its lines, some of
its row groups, or all of it if it is compressed. What is wrong with an object is a message too, at
the beginning of the piece.

Places are bytes of the object. Several lines of a compressed object, or rows of Parquet, have no
byte of their own: theirs is their place among the decompressed bytes, or their number within the
row group, but never one behind the piece. So the order within an object is kept.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from waterclock.model.schema import Schema
from waterclock.storage.reclock.progress import Range
from waterclock.storage.sources.api import OFFSET
from waterclock.storage.sources.errors import SourceFault
from waterclock.storage.sources.files.parquet_rows import ParquetRows, opened
from waterclock.storage.sources.files.reading import LineDecoder, LineReader
from waterclock.storage.sources.s3.bucket import Bucket, Listed, ObjectLost
from waterclock.storage.sources.s3.definition import Compression

PIECE = 8 << 20
Codec = Literal["gzip", "zstd"]
_MAGIC: tuple[tuple[bytes, Codec], ...] = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"))


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of one version of an object."""

    listed: Listed
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class ObjectContents:
    """Implements `Contents` for one version of an object."""

    bucket: Bucket
    listed: Listed

    def bytes_of(self, file: str, start: int, end: int) -> bytes:
        del file
        return self.bucket.bytes_of(self.listed, start, end)

    def shown(self, file: str) -> str:
        return f'object "s3://{self.bucket.name}/{file}"'


class ObjectFile(io.RawIOBase):
    """One version of an object as a file that can be read from any place."""

    def __init__(self, bucket: Bucket, listed: Listed) -> None:
        self._bucket = bucket
        self._listed = listed
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._listed.size}[whence]
        self._at = max(0, origin + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read(self, size: int = -1) -> bytes:
        end = self._listed.size if size < 0 else min(self._listed.size, self._at + size)
        if end <= self._at:
            return b""
        data = self._bucket.bytes_of(self._listed, self._at, end)
        self._at = end
        return data


@dataclass(frozen=True)
class ObjectReader:
    """Reads pieces of objects. It can be pickled."""

    bucket: Bucket
    rows: LineDecoder | ParquetRows
    compression: Compression

    @property
    def schema(self) -> Schema:
        return self.rows.schema

    def shown(self, key: str) -> str:
        """What errors call an object."""
        return f'object "s3://{self.bucket.name}/{key}"'

    def read(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """The messages of a piece. Raises `TransientFault` only: all else is a message."""
        origin = self.shown(piece.listed.key)
        try:
            if isinstance(self.rows, ParquetRows):
                yield from self._parquet(self.rows, piece, origin)
                return
            codec = self.codec_of(piece.listed)
            if codec is not None:
                yield from self._decompressed(self.rows, codec, piece, origin)
                return
            lines = LineReader(ObjectContents(self.bucket, piece.listed), self.rows, PIECE)
            yield from lines.read(Range(piece.listed.key, piece.start, piece.end))
        except ObjectLost as lost:
            yield self.rows.error(piece.start, f"55000 {origin} {lost}")
        except SourceFault as fault:
            detail = f": {fault.detail.rstrip('.')}" if fault.detail else ""
            yield self.rows.error(piece.start, f"22P04 {fault.message}{detail}")
        except (pa.ArrowInvalid, OSError) as error:
            yield self.rows.error(piece.start, f"22P04 {origin} can not be read: {error}")

    def begin(self, listed: Listed, size: int) -> bytes:
        """The first bytes of what is in the object. Raises `ObjectLost` and `OSError`."""
        codec = self.codec_of(listed)
        if codec is None:
            return self.bucket.bytes_of(listed, 0, min(size, listed.size))
        return bytes(self._stream(listed, codec).read(size))

    def codec_of(self, listed: Listed) -> Codec | None:
        """How the object is compressed, by its first bytes unless the source says so."""
        if self.compression == "none":
            return None
        if self.compression != "auto":
            return self.compression
        begin = self.bucket.bytes_of(listed, 0, min(4, listed.size))
        return next((codec for magic, codec in _MAGIC if begin.startswith(magic)), None)

    def next_end(self, listed: Listed, start: int, most: int) -> int:
        """Where the next piece of about `most` bytes ends. Raises `ObjectLost`."""
        if listed.size - start <= most:
            return listed.size
        if isinstance(self.rows, ParquetRows):
            bounds = [b for b in self._bounds(self.parquet(listed), listed.size) if b > start]
            return max((bound for bound in bounds if bound <= start + most), default=bounds[0])
        if self.codec_of(listed) is not None:
            return listed.size
        lines = LineReader(ObjectContents(self.bucket, listed), self.rows, most)
        return lines.line_end(listed.key, start, listed.size) or listed.size

    def cut(self, piece: Piece) -> tuple[Piece, ...]:
        """The piece in smaller ones, if it can be cut without reading all of it. Raises
        `ObjectLost`.
        """
        listed = piece.listed
        if len(piece) <= PIECE:
            return (piece,)
        if isinstance(self.rows, ParquetRows):
            bounds = self._bounds(self.parquet(listed), listed.size)
            inside = [b for b in bounds if piece.start < b < piece.end]
        elif self.rows.quoted or self.codec_of(listed) is not None:
            return (piece,)
        else:
            lines = LineReader(ObjectContents(self.bucket, listed), self.rows, PIECE)
            wanted = Range(listed.key, piece.start, piece.end)
            inside = [each.end for each in lines.cut(wanted)][:-1]
        places = [piece.start, *inside, piece.end]
        return tuple(replace(piece, start=start, end=end) for start, end in pairwise(places))

    def _decompressed(
        self, rows: LineDecoder, codec: Codec, piece: Piece, origin: str
    ) -> Iterator[pa.RecordBatch]:
        stream = self._stream(piece.listed, codec)
        chunks = iter(lambda: bytes(stream.read(PIECE)), b"")
        last = pa.scalar(piece.end - 1, pa.int64())
        for batch in rows.batches(chunks, 0, piece.listed.key, origin):
            place = batch.schema.get_field_index(OFFSET)
            offsets = pc.min_element_wise(batch.column(place), last)
            yield batch.set_column(place, batch.schema.field(place), offsets)

    def _stream(self, listed: Listed, codec: Codec) -> pa.NativeFile:
        raw = io.BufferedReader(ObjectFile(self.bucket, listed), PIECE)
        return pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), codec)

    def _parquet(self, rows: ParquetRows, piece: Piece, origin: str) -> Iterator[pa.RecordBatch]:
        listed = piece.listed
        parquet = self.parquet(listed)
        bounds = self._bounds(parquet, listed.size)
        is_whole, at = len(bounds) == 2, 0
        for number in range(parquet.num_row_groups):
            begin, end = bounds[:2] if is_whole else bounds[number : number + 2]
            if not piece.start <= begin < piece.end:
                continue
            at = at if is_whole else 0
            count = parquet.metadata.row_group(number).num_rows
            for batch in rows.group(parquet, number, 0, count, listed.key, origin):
                places = np.minimum(begin + np.arange(at, at + batch.num_rows), end - 1)
                at += batch.num_rows
                yield rows.messages(batch, places)

    def parquet(self, listed: Listed) -> pq.ParquetFile:
        """The object as Parquet. Raises `ObjectLost` and `pa.ArrowInvalid`."""
        if listed.size <= PIECE:
            return opened(io.BytesIO(self.bucket.bytes_of(listed, 0, listed.size)))
        return opened(ObjectFile(self.bucket, listed))

    def _bounds(self, parquet: pq.ParquetFile, size: int) -> list[int]:
        """Where row groups begin, and the end. If they are not in the order of their places, the
        object is one piece.
        """
        meta = parquet.metadata
        starts = [_start(meta.row_group(number)) for number in range(meta.num_row_groups)]
        bounds = [0, *starts[1:], size]
        is_ordered = all(a < b for a, b in pairwise(bounds))
        return bounds if is_ordered else [0, size]


def _start(group: Any) -> int:
    """The place of the first byte of a row group."""
    columns = [group.column(number) for number in range(group.num_columns)]
    places = (p for c in columns for p in (c.dictionary_page_offset, c.data_page_offset) if p)
    return int(min(places))
