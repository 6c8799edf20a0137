"""FORMAT CSV: each message is one line of fields.

Lines without quotes are split all at once; others one by one. A field is read as its column's type;
an empty one is null, unless the column is a text, where it is the empty text.
"""

from __future__ import annotations

import csv

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.model.schema import Column
from waterclock.storage.formats.api import Decoded
from waterclock.storage.formats.plain_format import TextValue
from waterclock.storage.formats.typed import typed

_LONGEST = 2**31 - 1
"""A field may be as long as a text; by itself, the module takes 128 KB at most."""
_QUOTE = '"'


class CsvLine:
    """Implements `Format`."""

    sqlstate = "22P04"

    def __init__(self, columns: tuple[Column, ...], delimiter: str) -> None:
        self._columns = columns
        self._delimiter = delimiter

    @property
    def columns(self) -> tuple[Column, ...]:
        return self._columns

    def decode(self, payloads: pa.Array) -> Decoded:
        decoded = TextValue("line").decode(payloads)
        lines = pc.ascii_rtrim(decoded.columns[0], characters="\r\n")
        errors = decoded.errors
        fields = self._split(lines)
        if fields.null_count > lines.null_count:
            broken = pc.and_(fields.is_null(), lines.is_valid())
            errors = pc.if_else(broken, "the line is not CSV", errors)
        wanted = len(self._columns)
        counts = pc.list_value_length(fields)
        wrong = pc.fill_null(pc.not_equal(counts, wanted), False)
        if pc.any(wrong).as_py():
            told = pc.binary_join_element_wise(
                f"there are {wanted} columns, and the line has ", counts.cast(pa.string()), ""
            )
            errors = pc.if_else(wrong, told, errors)
            fields = pc.if_else(wrong, pa.scalar(None, fields.type), fields)
        return self._typed(fields, errors)

    def _split(self, lines: pa.Array) -> pa.Array:
        """The fields of each line; a null stays null, and what is not CSV becomes null."""
        fields = pc.split_pattern(lines, self._delimiter)
        quoted = pc.fill_null(pc.match_substring(lines, _QUOTE), False)
        places = np.flatnonzero(quoted.to_numpy(zero_copy_only=False))
        if not len(places):
            return fields
        texts = lines.take(pa.array(places)).to_pylist()
        split = [_fields(text, self._delimiter) for text in texts]
        order = np.arange(len(lines))
        order[places] = len(lines) + np.arange(len(places))
        return pa.concat_arrays([fields, pa.array(split, fields.type)]).take(pa.array(order))

    def _typed(self, fields: pa.Array, errors: pa.Array) -> Decoded:
        columns = []
        for place, column in enumerate(self._columns):
            texts = pc.list_element(fields, place) if len(fields) else pa.array([], pa.string())
            values, faults = typed(texts, column)
            errors = pc.coalesce(errors, faults)
            columns.append(values)
        is_wrong = errors.is_valid()
        if pc.any(is_wrong).as_py():
            columns = [pc.if_else(is_wrong, pa.scalar(None, c.type), c) for c in columns]
        return Decoded(tuple(columns), errors)


def _fields(line: str, delimiter: str) -> list[str] | None:
    """The fields of a line with quotes; None if it has none, as with a stray carriage return."""
    csv.field_size_limit(_LONGEST)
    try:
        return next(csv.reader([line], delimiter=delimiter))
    except csv.Error:
        return None
