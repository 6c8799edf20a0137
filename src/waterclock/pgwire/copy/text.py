"""COPY's text format: lines of fields, `\\N` for null, and backslash sequences.

A line that holds no backslash is its fields. In one that does, a backslash before the delimiter or
before a newline makes it data.
"""

from __future__ import annotations

import re

import pyarrow as pa

from waterclock.adapter.api import CopyHeader, CopyIn
from waterclock.errors import WaterclockError
from waterclock.pgwire.copy.decoding import CHUNK_BYTES, BatchBuilder, nullified
from waterclock.pgwire.copy.lines import END_MARK, LineBuffer
from waterclock.pgwire.errors import BadCopyData
from waterclock.pgwire.values.errors import decode_utf8
from waterclock.pgwire.values.zones import Zone

_ESCAPE = re.compile(rb"\\([0-7]{1,3}|x[0-9A-Fa-f]{1,2}|.|$)", re.DOTALL)
_LETTERS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


class TextDecoder:
    """Decodes COPY's text format."""

    def __init__(self, target: CopyIn, zone: Zone, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._builder = BatchBuilder(target, zone)
        self._options = target.options
        self._buffer = LineBuffer(r"\\.", r"\\", csv=False)
        delimiter = re.escape(target.options.delimiter)
        self._field = re.compile(rf"((?:[^\\{delimiter}]|\\.)*\\?)(?:{delimiter}|$)", re.DOTALL)
        self._chunk_bytes = chunk_bytes
        self._line = 0
        self._carried = ""
        self._ended = False
        self._awaits_header = target.options.header is not CopyHeader.ABSENT

    def feed(self, data: bytes) -> list[pa.RecordBatch]:
        if self._ended or self._buffer.add(data) < self._chunk_bytes:
            return []
        return self._decode(last=False)

    def finish(self) -> list[pa.RecordBatch]:
        return [] if self._ended else self._decode(last=True)

    def _decode(self, *, last: bool) -> list[pa.RecordBatch]:
        try:
            text = self._buffer.take(last=last)
        except WaterclockError as fault:
            raise self._builder.located(fault, self._line + 1) from None
        lines = self._lines(text, last=last)
        if self._awaits_header and lines:
            self._awaits_header = False
            header = lines.pop(0)
            self._line += 1
            if self._options.header is CopyHeader.MATCH:
                names = [self._value(field) for field in self._split(header)]
                self._builder.check_header(names, header)
        return [self._batch(lines)] if lines else []

    def _lines(self, text: str, *, last: bool) -> list[str]:
        """Whole lines; a newline behind a backslash does not end one."""
        newline = self._buffer.newline
        if not text or newline is None:
            return []
        text = self._carried + text
        self._carried = ""
        lines = text.split(newline)
        tail = lines.pop()
        if tail and last:
            lines.append(tail)
        if "\\" + newline in text:
            lines = self._joined(lines, newline, last=last)
        if END_MARK in lines:
            self._ended = True
            lines = lines[: lines.index(END_MARK)]
        return lines

    def _joined(self, lines: list[str], newline: str, *, last: bool) -> list[str]:
        whole: list[str] = []
        pending = ""
        for line in lines:
            pending += line
            if (len(pending) - len(pending.rstrip("\\"))) % 2:
                pending += newline
            else:
                whole.append(pending)
                pending = ""
        if pending and last:
            whole.append(pending.removesuffix(newline))
        elif pending:
            self._carried = pending
        return whole

    def _batch(self, lines: list[str]) -> pa.RecordBatch:
        first = self._line + 1
        self._line += len(lines)
        numbers = range(first, self._line + 1)
        rows: list[list[str | None]] = []
        try:
            for number, line in zip(numbers, lines, strict=True):
                rows.append(self._row(line, number))
        except WaterclockError as fault:
            raise self._builder.check_before(fault, rows, numbers) from None
        return self._builder.build_rows(rows, numbers)

    def _row(self, line: str, number: int) -> list[str | None]:
        if "\r" in line or "\n" in line:
            self._check(line, number)
        row: list[str | None]
        if "\\" in line:
            try:
                row = [self._value(field) for field in self._split(line)]
            except WaterclockError as fault:
                raise self._builder.located(fault, number, text=line) from None
        else:
            null = self._options.null
            fields = line.split(self._options.delimiter)
            row = nullified(fields, null)
        if len(row) != len(self._builder.columns):
            raise self._builder.wrong_count(row, number, line)
        return row

    def _check(self, line: str, number: int) -> None:
        """A newline character must be behind a backslash."""
        bare = re.sub(r"\\.", "", line, flags=re.DOTALL)
        try:
            self._buffer.check(bare)
        except BadCopyData as fault:
            raise self._builder.located(fault, number) from None

    def _split(self, line: str) -> list[str]:
        """The raw fields of a line with backslashes in it."""
        fields: list[str] = []
        place = 0
        while True:
            match = self._field.match(line, place)
            assert match is not None
            fields.append(match[1])
            place = match.end()
            if place == match.end(1):
                return fields

    def _value(self, field: str) -> str | None:
        if field == self._options.null:
            return None
        return unescape(field) if "\\" in field else field


def unescape(field: str) -> str:
    """A field without its backslash sequences; those for bytes must add up to UTF-8."""
    return decode_utf8(_ESCAPE.sub(_meaning, field.encode()))


def _meaning(match: re.Match[bytes]) -> bytes:
    sequence = match[1]
    if sequence[:1].isdigit() and sequence[:1] < b"8":
        return bytes([int(sequence, 8) & 0xFF])
    if sequence[:1] == b"x" and len(sequence) > 1:
        return bytes([int(sequence[1:], 16)])
    return _LETTERS.get(sequence, sequence)
