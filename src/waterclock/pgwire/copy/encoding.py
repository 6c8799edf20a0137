"""Rows as COPY TO sends them: a CopyData message for each, many messages in one piece."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.adapter.api import ColumnDescription, CopyFormat, CopyHeader, CopyOptions, Format
from waterclock.pgwire.values.columns import data_of, joined, lengths, of_rows, with_length
from waterclock.pgwire.values.few import FEW_ROWS
from waterclock.pgwire.values.rows import SLICE_ROWS, data_row, encode, encode_one_by_one
from waterclock.pgwire.values.zones import Zone

BINARY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
BINARY_TRAILER = struct.pack(">h", -1)
_PREFIX = np.dtype([("kind", "S1"), ("length", ">i4")])
_TEXT_ESCAPES = {
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
Encoded: TypeAlias = Iterator[tuple[int, memoryview]]


@dataclass(frozen=True, slots=True)
class CopyEncoder:
    """Encodes batches of the columns given, in the form that the options ask for."""

    columns: tuple[ColumnDescription, ...]
    options: CopyOptions
    zone: Zone

    @property
    def format(self) -> Format:
        return Format.BINARY if self.options.format is CopyFormat.BINARY else Format.TEXT

    def start(self) -> bytes:
        """The messages before the first row."""
        if self.options.header is CopyHeader.ABSENT:
            return b""
        names = [pa.array([column.name], pa.string()) for column in self.columns]
        return bytes(data_of(self._lines([self._field(name, None) for name in names], 1)))

    def encode(self, batch: pa.RecordBatch) -> Encoded:
        """Messages for some rows at a time, with the number of rows."""
        assert batch.num_columns == len(self.columns), "a batch has other columns than described"
        if batch.num_rows <= FEW_ROWS and self.options.format is not CopyFormat.CSV:
            yield batch.num_rows, memoryview(self._few_messages(batch))
            return
        for start in range(0, batch.num_rows, SLICE_ROWS):
            rows = batch.slice(start, SLICE_ROWS)
            yield rows.num_rows, data_of(self._messages(rows))

    def first(self, messages: memoryview) -> bytes:
        """The messages with the first row, or those of the end if there is none.

        The header of the binary form is in one message with what comes first: clients count on it.
        """
        if self.options.format is not CopyFormat.BINARY or not messages:
            return bytes(messages)
        (length,) = struct.unpack(">i", messages[1:5])
        size = struct.pack(">i", length + len(BINARY_HEADER))
        return b"d" + size + BINARY_HEADER + bytes(messages[5:])

    def end(self) -> bytes:
        """The messages after the last row."""
        return _copy_data(BINARY_TRAILER) if self.options.format is CopyFormat.BINARY else b""

    def _few_messages(self, rows: pa.RecordBatch) -> bytes:
        """As `_messages`, without what Arrow costs however few rows there are."""
        columns = [
            encode_one_by_one(rows.column(i), column, self.format, self.zone)
            for i, column in enumerate(self.columns)
        ]
        fields = ([column[row] for column in columns] for row in range(rows.num_rows))
        if self.options.format is CopyFormat.BINARY:
            return b"".join(_copy_data(data_row(row)[5:]) for row in fields)
        delimiter, null = self.options.delimiter.encode(), self.options.null.encode()
        escapes = {char.encode(): escape.encode() for char, escape in _escapes(delimiter.decode())}
        special = re.compile(b"[" + re.escape(b"".join(escapes)) + b"]")
        return b"".join(
            _copy_data(
                delimiter.join(
                    null if field is None else special.sub(lambda m: escapes[m[0]], field)
                    for field in row
                )
                + b"\n"
            )
            for row in fields
        )

    def _messages(self, rows: pa.RecordBatch) -> pa.Array:
        fields = [
            encode(rows.column(i), column, self.format, self.zone)
            for i, column in enumerate(self.columns)
        ]
        match self.options.format:
            case CopyFormat.BINARY:
                return _binary_rows(fields, rows.num_rows)
            case CopyFormat.TEXT | CopyFormat.CSV:
                written = [
                    self._field(field, column.name)
                    for field, column in zip(fields, self.columns, strict=True)
                ]
                return self._lines(written, rows.num_rows)
            case _:
                assert_never(self.options.format)

    def _field(self, texts: pa.Array, name: str | None) -> pa.Array:
        if self.options.format is CopyFormat.TEXT:
            return _escaped(texts, self.options.delimiter).fill_null(self.options.null)
        forced = name is not None and name in self.options.force_quote
        alone = len(self.columns) == 1
        return _quoted(texts, self.options, forced, alone).fill_null(self.options.null)

    def _lines(self, fields: list[pa.Array], rows: int) -> pa.Array:
        if not fields:
            return pa.array([_copy_data(b"\n")] * rows, pa.binary())
        as_bytes = [field.cast(pa.binary()) for field in fields]
        line = joined(as_bytes, self.options.delimiter.encode())
        return joined([_prefix(lengths(line) + 1), line, pa.scalar(b"\n")])


def _binary_rows(fields: Sequence[pa.Array], rows: int) -> pa.Array:
    parts: list[pa.Array | pa.Scalar] = [pa.scalar(struct.pack(">h", len(fields)))]
    total = np.full(rows, 2, dtype=np.int64)
    for field in fields:
        both, taken = with_length(field)
        parts += both
        total += taken
    return joined([_prefix(total), *parts])


def _prefix(sizes: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    rows = np.empty(len(sizes), dtype=_PREFIX)
    rows["kind"], rows["length"] = b"d", sizes + 4
    return of_rows(rows)


def _copy_data(data: bytes) -> bytes:
    return b"d" + struct.pack(">i", len(data) + 4) + data


def _escapes(delimiter: str) -> list[tuple[str, str]]:
    """What becomes of each character that can not stand for itself; the backslash is the first."""
    return [
        *_TEXT_ESCAPES.items(),
        *([] if delimiter in _TEXT_ESCAPES else [(delimiter, "\\" + delimiter)]),
    ]


def _escaped(texts: pa.Array, delimiter: str) -> pa.Array:
    escapes = dict(_escapes(delimiter))
    pattern = "[" + "".join(f"\\x{{{ord(char):x}}}" for char in escapes) + "]"
    if not pc.any(pc.match_substring_regex(texts, pattern)).as_py():
        return texts
    for char, escape in escapes.items():
        texts = pc.replace_substring(texts, char, escape)
    return texts


def _quoted(texts: pa.Array, options: CopyOptions, forced: bool, alone: bool) -> pa.Array:
    special = f"{options.delimiter}{options.quote}\r\n"
    pattern = "[" + "".join(f"\\x{{{ord(char):x}}}" for char in special) + "]"
    needed = pc.or_(pc.match_substring_regex(texts, pattern), pc.equal(texts, options.null))
    if alone:
        needed = pc.or_(needed, pc.equal(texts, "\\."))
    if forced:
        needed = pc.is_valid(texts)
    if not pc.any(needed).as_py():
        return texts
    inner = texts
    for char in dict.fromkeys((options.escape, options.quote)):
        inner = pc.replace_substring(inner, char, options.escape + char)
    quoted = pc.binary_join_element_wise(options.quote, inner, options.quote, "")
    return pc.if_else(needed, quoted, texts)
