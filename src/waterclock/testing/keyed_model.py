"""Rows by key as a dictionary: what `storage.envelopes.keyed` is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from waterclock.persist.rows import DIFF, TIME

Row = tuple[Any, ...]


class KeyedModel:
    """Rows of which no two have the same key, the first columns. One commit at a time."""

    def __init__(self, schema: pa.Schema, key_columns: int) -> None:
        self.schema = schema
        self._key_columns = key_columns
        self.rows: dict[Row, Row] = {}

    def find(self, keys: Iterable[Row]) -> list[Row]:
        """The rows with these keys."""
        return [self.rows[key] for key in keys if key in self.rows]

    def write(self, rows: Iterable[tuple[Row, bool]]) -> None:
        """Each of the rows is there from now on, or there is none with its key."""
        for row, is_there in rows:
            key = row[: self._key_columns]
            self.rows.pop(key, None)
            if is_there:
                self.rows[key] = row

    def contents(self) -> Iterator[pa.RecordBatch]:
        """All rows as updates."""
        columns = zip(*self.rows.values(), strict=True) if self.rows else [[]] * len(self.schema)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, self.schema, strict=True)]
        ones = pa.array([1] * len(self.rows), pa.int64())
        yield pa.RecordBatch.from_arrays([*arrays, ones, ones], [*self.schema.names, TIME, DIFF])
