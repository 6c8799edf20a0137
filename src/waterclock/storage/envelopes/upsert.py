"""The envelope UPSERT: a message is the row of its key from now on, or that there is none.

What an update retracts is what the contents hold for the key, so the state is the contents: rows by
key, made again from the output when the source is taken up. Of several messages with the same key
in one binding the last counts. A key is in one partition; if it is in several nevertheless, they
count in their order.

An error takes the place of a row: a value that can not be read is the state of its key until a
message with the key takes its place, or deletes it. A null key, and one whose bytes can not be
read, count as keys of their own: they are in error until a message with the same bytes and without
a value deletes them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waterclock.persist.consolidate import row_codes
from waterclock.persist.rows import DIFF
from waterclock.storage.envelopes.keyed import KeyedRows
from waterclock.storage.formats.decoding import KEY
from waterclock.storage.sources.api import ERROR, Changes, ErrorUpdate, Messages, Standing

Mask = npt.NDArray[np.bool_]


class Upsert:
    """Implements `sources.api.Envelope` for messages as `RowDecoding` makes them."""

    def __init__(self, rows: pa.Schema, key_columns: int) -> None:
        """`rows` is the schema of the output's rows; the key's columns are the first."""
        self._schema = pa.schema([field.with_nullable(True) for field in rows])
        self._key_columns = key_columns
        self._held = KeyedRows(self._schema, key_columns)
        self._errors: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._held)

    @property
    def nbytes(self) -> int:
        """About how much memory the state takes."""
        return self._held.nbytes

    def resume(self, standing: Standing) -> None:
        self._held = KeyedRows(self._schema, self._key_columns)
        for batch in standing.rows():
            diffs = np.asarray(batch.column(batch.num_columns - 1))
            assert (diffs == 1).all(), "a key has one row"
            arrays = batch.columns[: len(self._schema)]
            self._held.put(pa.Table.from_arrays(arrays, schema=self._schema))
        self._errors = dict(standing.errors())

    def changes(self, messages: Sequence[Messages]) -> Changes:
        if not messages:
            return Changes()
        table = self._last_of_each_key(messages)
        by_text = _mask(table.column(KEY).is_valid())
        is_set = np.asarray(table.column(DIFF)) > 0
        is_wrong = _mask(table.column(ERROR).is_valid())
        rows = table.select(range(len(self._schema))).cast(self._schema)
        gone = self._held.take(_where(rows, ~by_text))
        new = _where(rows, ~by_text & is_set & ~is_wrong)
        self._held.put(new)
        batches = [*_with_diff(gone, -1), *_with_diff(new, 1)]
        return Changes(batches, self._changed_errors(table, is_set & is_wrong))

    def _last_of_each_key(self, messages: Sequence[Messages]) -> pa.Table:
        ordered = sorted(messages, key=_place)
        table = pa.Table.from_batches([each.batch for each in ordered]).combine_chunks()
        keys = [*table.columns[: self._key_columns], table.column(KEY)]
        codes = row_codes(keys, table.num_rows)
        _, from_the_end = np.unique(codes[::-1], return_index=True)
        return table.take(pa.array(np.sort(len(codes) - 1 - from_the_end)))

    def _changed_errors(self, table: pa.Table, is_new: Mask) -> list[ErrorUpdate]:
        """What is no longer wrong, and what is now, given the last message of each key."""
        if not self._errors and not is_new.any():
            return []
        found: list[ErrorUpdate] = []
        looked_at = np.arange(len(is_new)) if self._errors else np.flatnonzero(is_new)
        columns = [table.column(i) for i in range(self._key_columns)]
        for place in looked_at:
            text = table.column(KEY)[place].as_py() or _text([c[place].as_py() for c in columns])
            message = table.column(ERROR)[place].as_py() if is_new[place] else None
            known = self._errors.pop(text, None)
            if known is not None:
                found.append(ErrorUpdate(text, known, -1))
            if message is not None:
                self._errors[text] = message
                found.append(ErrorUpdate(text, message, 1))
        return found


def _place(messages: Messages) -> tuple[bool, Any]:
    partition = messages.partition
    return isinstance(partition, str), 0 if partition is None else partition


def _mask(values: Any) -> Mask:
    return np.asarray(values, dtype=np.bool_)


def _where(table: pa.Table, mask: Mask) -> pa.Table:
    return table if mask.all() else table.filter(pa.array(mask))


def _with_diff(rows: pa.Table, diff: int) -> list[pa.RecordBatch]:
    diffs = pa.repeat(pa.scalar(diff, pa.int64()), rows.num_rows)
    field = pa.field(DIFF, pa.int64(), nullable=False)
    return list(rows.append_column(field, diffs).to_batches())


def _text(key: Sequence[Any]) -> str:
    """The values of a key as text, different for different ones."""
    texts = [each.hex() if isinstance(each, bytes) else each for each in key]
    return f"key {json.dumps(texts, default=str, ensure_ascii=False)}"
