"""COPY's csv format as PostgreSQL reads it.

Quotes may open and close anywhere in a field, newlines inside them are data, and only a field
without any can stand for a null. Records without a quote, the common case, are just split.
"""

from __future__ import annotations

import re

import pyarrow as pa

from waterclock.adapter.api import CopyHeader, CopyIn
from waterclock.errors import WaterclockError
from waterclock.pgwire.copy.decoding import CHUNK_BYTES, BatchBuilder, nullified
from waterclock.pgwire.copy.lines import END_MARK, LineBuffer
from waterclock.pgwire.errors import BadCopyData
from waterclock.pgwire.values.zones import Zone

_MAX_RECORD = 64 * 1024 * 1024


class CsvDecoder:
    """Decodes COPY's csv format."""

    def __init__(self, target: CopyIn, zone: Zone, chunk_bytes: int = CHUNK_BYTES) -> None:
        options = target.options
        self._builder = BatchBuilder(target, zone)
        self._options = options
        names = [column.name for column in target.columns]
        self._never_null = [name in options.force_not_null for name in names]
        self._null_if_quoted = [name in options.force_null for name in names]
        self._forced = bool(options.force_not_null or options.force_null)
        delimiter, quote, escape = map(
            re.escape, (options.delimiter, options.quote, options.escape)
        )
        if escape == quote:
            inside = f"(?:[^{quote}]|{quote}{quote})*"
        else:
            inside = (
                f"(?:[^{quote}{escape}]|{escape}[{quote}{escape}]|{escape}(?![{quote}{escape}]))*"
            )
        section = f"{quote}({inside}){quote}"
        self._buffer = LineBuffer(section, quote, csv=True)
        self._section = re.compile(section, re.DOTALL)
        self._field = re.compile(
            f"((?:[^{delimiter}{quote}]|{quote}{inside}{quote})*)({delimiter}|$)", re.DOTALL
        )
        # Fields that are quoted as a whole or not at all: nearly all there are.
        self._common = re.compile(
            f"(?:^|{delimiter})({quote}{inside}{quote}|[^{delimiter}{quote}]*)", re.DOTALL
        )
        self._escaped = re.compile(f"{escape}([{quote}{escape}])")
        self._chunk_bytes = chunk_bytes
        self._line = 0
        self._pending: list[str] = []
        self._ends_in_newline = False
        self._ended = False
        self._awaits_header = options.header is not CopyHeader.ABSENT

    def feed(self, data: bytes) -> list[pa.RecordBatch]:
        if self._ended or self._buffer.add(data) < self._chunk_bytes:
            return []
        return self._decode(last=False)

    def finish(self) -> list[pa.RecordBatch]:
        if self._ended:
            return []
        batches = self._decode(last=True)
        if self._pending:
            raise self._unterminated()
        if self._options.header is CopyHeader.MATCH and self._awaits_header:
            self._builder.check_header([None], "")
        return batches

    def _unterminated(self) -> WaterclockError:
        """The error for a quote that nothing closes; the last newline is inside it."""
        record, line = self._open_record(), self._line
        if self._ends_in_newline:
            record += self._buffer.newline or ""
            line += self._counts_newlines(len(self._pending))
        fault = BadCopyData("unterminated CSV quoted field")
        return self._builder.located(fault, line, text=record)

    def _counts_newlines(self, lines: int) -> bool:
        """Whether a newline in quotes counts as the end of a line in the numbers of errors.

        It does, but for a line feed in the first record, as in PostgreSQL.
        """
        return self._line > lines or self._buffer.newline != "\n"

    def _decode(self, *, last: bool) -> list[pa.RecordBatch]:
        try:
            text = self._buffer.take(last=last)
        except WaterclockError as fault:
            raise self._builder.located(fault, self._line + 1) from None
        lines = self._lines(text)
        if not lines:
            return []
        if not self._pending and self._options.quote not in text:
            records, numbers = self._unquoted(lines)
        else:
            records, numbers = self._records(lines)
        if self._awaits_header and records:
            self._awaits_header = False
            header = records.pop(0)
            numbers = numbers[1:]
            if self._options.header is CopyHeader.MATCH:
                fields = self._split(header, 1)
                names = [self._value(text, quoted, i) for i, (text, quoted) in enumerate(fields)]
                self._builder.check_header(names, header)
        return [self._batch(records, numbers)] if records else []

    def _lines(self, text: str) -> list[str]:
        if not text:
            return []
        assert self._buffer.newline is not None
        lines = text.split(self._buffer.newline)
        self._ends_in_newline = not lines[-1]
        if self._ends_in_newline:
            lines.pop()
        return lines

    def _unquoted(self, lines: list[str]) -> tuple[list[str], list[int] | range]:
        """Records that are lines."""
        if END_MARK in lines:
            self._ended = True
            lines = lines[: lines.index(END_MARK)]
        first = self._line + 1
        self._line += len(lines)
        return lines, range(first, self._line + 1)

    def _records(self, lines: list[str]) -> tuple[list[str], list[int] | range]:
        """Lines joined while a quote is open; each record has the number of its last line."""
        records: list[str] = []
        numbers: list[int] = []
        quote = self._options.quote
        for line in lines:
            if not self._pending and line == END_MARK:
                self._ended = True
                break
            self._line += not self._pending or self._counts_newlines(len(self._pending))
            self._pending.append(line)
            # Only a line that has a quote can open a record, or close it again.
            is_open = self._is_open() if quote in line else len(self._pending) > 1
            if is_open:
                self._check_size()
                continue
            records.append(self._open_record())
            numbers.append(self._line)
            self._pending.clear()
        return records, numbers

    def _open_record(self) -> str:
        return (self._buffer.newline or "\n").join(self._pending)

    def _is_open(self) -> bool:
        record = self._open_record()
        if self._options.quote == self._options.escape:
            return record.count(self._options.quote) % 2 == 1
        return self._options.quote in self._section.sub("", record)

    def _check_size(self) -> None:
        if sum(map(len, self._pending)) > _MAX_RECORD:
            raise self._builder.located(BadCopyData("CSV record is too long"), self._line)

    def _batch(self, records: list[str], numbers: list[int] | range) -> pa.RecordBatch:
        columns = self._plain_columns(records)
        if columns is not None:
            return self._builder.build(columns, numbers)
        rows: list[list[str | None]] = []
        try:
            for record, number in zip(records, numbers, strict=True):
                rows.append(self._row(record, number))
        except WaterclockError as fault:
            raise self._builder.check_before(fault, rows, numbers) from None
        return self._builder.build_rows(rows, numbers)

    def _plain_columns(self, records: list[str]) -> list[list[str | None]] | None:
        """The fields by column, all split at once, if the records are nothing but fields and
        delimiters, and as many as there are columns; else None.
        """
        delimiter, width = self._options.delimiter, len(self._builder.columns)
        if self._forced or any(record.count(delimiter) != width - 1 for record in records):
            return None
        text = delimiter.join(records)
        if self._options.quote in text or "\r" in text or "\n" in text:
            return None
        fields = text.split(delimiter)
        return [nullified(fields[place::width], self._options.null) for place in range(width)]

    def _row(self, record: str, number: int) -> list[str | None]:
        if "\r" in record or "\n" in record:
            self._check(record, number)
        row: list[str | None]
        if self._options.quote in record:
            row = self._common_row(record)
            if not row:
                fields = self._split(record, number)
                row = [self._value(text, quoted, i) for i, (text, quoted) in enumerate(fields)]
        else:
            plain = record.split(self._options.delimiter)
            if self._options.null in plain:
                row = [self._value(text, False, i) for i, text in enumerate(plain)]
            else:
                row = plain  # type: ignore[assignment]
        if len(row) != len(self._builder.columns):
            raise self._builder.wrong_count(row, number, record)
        return row

    def _value(self, text: str, quoted: bool, column: int) -> str | None:
        if text != self._options.null or column >= len(self._never_null):
            return text
        if quoted:
            return None if self._null_if_quoted[column] else text
        return text if self._never_null[column] else None

    def _split(self, record: str, number: int) -> list[tuple[str, bool]]:
        """The fields of a record, and whether each had quotes."""
        fields: list[tuple[str, bool]] = []
        place = 0
        while True:
            match = self._field.match(record, place)
            if match is None:
                raise self._builder.located(
                    BadCopyData("unterminated CSV quoted field"), number, text=record
                )
            raw = match[1]
            if self._options.quote in raw:
                fields.append((self._section.sub(self._inner, raw), True))
            else:
                fields.append((raw, False))
            place = match.end()
            if not match[2]:
                return fields

    def _common_row(self, record: str) -> list[str | None]:
        """The values of a record, if each field is quoted as a whole or not at all; else none."""
        raws: list[str] = self._common.findall(record)
        if self._forced or sum(map(len, raws)) + len(raws) - 1 != len(record):
            return []
        null, quote = self._options.null, self._options.quote
        return [
            (None if raw == null else raw) if raw[:1] != quote else self._unescaped(raw[1:-1])
            for raw in raws
        ]

    def _inner(self, section: re.Match[str]) -> str:
        return self._unescaped(section[1])

    def _unescaped(self, inner: str) -> str:
        return self._escaped.sub(r"\1", inner) if self._options.escape in inner else inner

    def _check(self, record: str, number: int) -> None:
        """A newline character must be inside quotes."""
        try:
            self._buffer.check(self._section.sub("", record))
        except BadCopyData as fault:
            raise self._builder.located(fault, number) from None
