"""What the decoders of COPY FROM share: rows of texts become batches, errors get their line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from waterclock.adapter.api import ColumnDescription, CopyIn
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import column_type
from waterclock.persist.rows import arrow_type
from waterclock.pgwire.errors import BadCopyData
from waterclock.pgwire.values.errors import BadValue
from waterclock.pgwire.values.text_in import decode_text
from waterclock.pgwire.values.zones import Zone

CHUNK_BYTES = 256 * 1024
"""Data is decoded when that much has come: a client that sends single rows costs no more."""
_SHOWN = 100


class CopyDecoder(Protocol):
    """Turns the bytes of COPY FROM into batches; each call may raise, and then is the last."""

    def feed(self, data: bytes) -> list[pa.RecordBatch]:
        """Take what came; the batches that are complete."""

    def finish(self) -> list[pa.RecordBatch]:
        """There is no more: the remaining batches."""


class BatchBuilder:
    """Rows of texts, None being a null, to batches of the columns."""

    def __init__(self, target: CopyIn, zone: Zone) -> None:
        self.columns = target.columns
        self.relation = target.relation
        self._null = target.options.null
        self._zone = zone
        self._schema = schema_of(target.columns)

    def build(
        self, fields: Sequence[Sequence[str | None]], lines: Sequence[int] | range
    ) -> pa.RecordBatch:
        """A batch from columns of texts; `lines` has each row's number for errors."""
        columns: list[pa.Array] = []
        first: tuple[BadValue, int] | None = None
        for place, (column, texts) in enumerate(zip(self.columns, fields, strict=False)):
            # Of several bad values the first is told, row by row. A later column has to look only
            # at the rows before.
            rows = texts if first is None else texts[: first[0].row]
            try:
                columns.append(decode_text(pa.array(rows, pa.string()), column.type, self._zone))
            except BadValue as fault:
                first = fault, place
        if first is not None:
            bad, place = first
            text = fields[place][bad.row]
            raise self.located(bad, lines[bad.row], self.columns[place], text)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def build_rows(
        self, rows: Sequence[Sequence[str | None]], lines: Sequence[int] | range
    ) -> pa.RecordBatch:
        """As `build`, from rows."""
        return self.build(list(zip(*rows, strict=True)), lines)

    def check_before(
        self,
        fault: WaterclockError,
        rows: Sequence[Sequence[str | None]],
        lines: Sequence[int] | range,
    ) -> WaterclockError:
        """The error found while reading a row; raises instead if one of the rows before has one."""
        if rows:
            self.build_rows(rows, lines)
        return fault

    def located(
        self,
        error: WaterclockError,
        line: int,
        column: ColumnDescription | None = None,
        text: str | None = None,
    ) -> WaterclockError:
        """The error, with the place that it is about as its context."""
        place = f"COPY {self.relation}, line {line}"
        if column is not None:
            place += f", column {column.name}"
        if text is not None:
            place += f': "{shown(text)}"'
        error.add_note(place)
        return error

    def wrong_count(self, row: Sequence[str | None], line: int, raw: str) -> WaterclockError:
        """The error for a row that has more or fewer fields than there are columns.

        Raises instead if one of too few fields is bad in itself.
        """
        count = len(row)
        if count > len(self.columns):
            fault = BadCopyData("extra data after last expected column")
        else:
            self._check_fields(row, line)
            fault = BadCopyData(f'missing data for column "{self.columns[count].name}"')
        return self.located(fault, line, text=raw)

    def _check_fields(self, row: Sequence[str | None], line: int) -> None:
        for column, text in zip(self.columns, row, strict=False):
            try:
                decode_text(pa.array([text], pa.string()), column.type, self._zone)
            except BadValue as fault:
                raise self.located(fault, line, column, text) from None

    def check_header(self, names: Sequence[str | None], raw: str) -> None:
        """Compare a header line with the columns."""
        if len(names) != len(self.columns):
            fault = BadCopyData(
                f"wrong number of fields in header line: got {len(names)},"
                f" expected {len(self.columns)}"
            )
            raise self.located(fault, 1, text=raw)
        for number, (name, column) in enumerate(zip(names, self.columns, strict=True), 1):
            if name != column.name:
                got = f'null value ("{self._null}")' if name is None else f'"{name}"'
                fault = BadCopyData(
                    f"column name mismatch in header line field {number}:"
                    f' got {got}, expected "{column.name}"'
                )
                raise self.located(fault, 1, text=raw)


def schema_of(columns: Sequence[ColumnDescription]) -> pa.Schema:
    """The Arrow schema of what COPY FROM hands on."""
    return pa.schema([(column.name, arrow_type(column_type(column.type))) for column in columns])


def nullified(texts: Sequence[str], null: str) -> list[str | None]:
    """The texts, None for those that stand for a null."""
    return [None if text == null else text for text in texts] if null in texts else list(texts)


def shown(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
