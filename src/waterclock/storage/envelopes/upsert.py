"""The envelope UPSERT: a message is the row of its key from now on, or that there is none.

What an update retracts is what the contents hold for the key, so the state is the contents: rows by
key, on disk (`keyed`). Of several messages with the same key in one binding the last counts. A key
is in one partition; if it is in several nevertheless, they count in their order.

An error takes the place of a row: a value that can not be read is the state of its key until a
message with the key takes its place, or deletes it. A null key, and one whose bytes can not be
read, count as keys of their own: they are in error until a message with the same bytes and without
a value deletes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waterclock.persist.arrangement.writing import ascending_hashes
from waterclock.persist.consolidate import last_of_equals
from waterclock.persist.hashing import Hashes
from waterclock.persist.rows import DIFF
from waterclock.storage.envelopes.key_errors import KeyErrors, key_text
from waterclock.storage.envelopes.keyed import HashedRows, KeyedRows, one_array
from waterclock.storage.formats.decoding import KEY
from waterclock.storage.sources.api import ERROR, Changes, ErrorUpdate, Messages, Standing

Mask = npt.NDArray[np.bool_]


class Upsert:
    """Implements `sources.api.Envelope` and `Stateful` for messages as `RowDecoding` makes them."""

    def __init__(self, rows: pa.Schema, key_columns: int) -> None:
        """`rows` is the schema of the output's rows; the key's columns are the first."""
        self._schema = pa.schema([field.with_nullable(True) for field in rows])
        self._key_columns = key_columns
        self._held = KeyedRows(self._schema, key_columns)
        self._errors = self._known_errors(())

    def resume(self, standing: Standing) -> None:
        self._held.open(standing.state, standing.rows)
        self._errors = self._known_errors(standing.errors())

    def _known_errors(self, errors: Sequence[tuple[str, str]]) -> KeyErrors:
        return KeyErrors(pa.schema(list(self._schema)[: self._key_columns]), errors)

    def state_record(self) -> bytes | None:
        return self._held.record

    def settle(self) -> None:
        self._held.settle()

    def close(self) -> None:
        self._held.close()

    def changes(self, messages: Sequence[Messages]) -> Changes:
        if not messages:
            return Changes()
        table, hashes = self._last_of_each_key(messages)
        by_text = _mask(table.column(KEY).is_valid())
        is_set = np.asarray(table.column(DIFF)) > 0
        is_wrong = _mask(table.column(ERROR).is_valid())
        rows = HashedRows(table.select(range(len(self._schema))).cast(self._schema), hashes)
        is_there = is_set & ~is_wrong
        keyed = rows.where(~by_text)
        gone = self._held.find(keyed)
        self._held.write(keyed, is_there[~by_text])
        new = rows.where(~by_text & is_there).rows
        batches = [*_with_diff(gone, -1), *_with_diff(new, 1)]
        return Changes(batches, self._changed_errors(table, hashes, is_set & is_wrong))

    def _last_of_each_key(self, messages: Sequence[Messages]) -> tuple[pa.Table, Hashes]:
        """Those messages in the order of the hashes of their keys, and the hashes."""
        ordered = sorted(messages, key=_place)
        table = pa.Table.from_batches([each.batch for each in ordered]).combine_chunks()
        hashes = self._held.hashes(table)
        order = ascending_hashes(hashes)
        table, hashes = table.take(pa.array(order)), hashes[order]
        names = [*table.column_names[: self._key_columns], KEY]
        kept = last_of_equals([one_array(table[name]) for name in names], hashes)
        return (table, hashes) if kept.all() else (table.filter(pa.array(kept)), hashes[kept])

    def _changed_errors(self, table: pa.Table, hashes: Hashes, is_new: Mask) -> list[ErrorUpdate]:
        """What is no longer wrong, and what is now, given the last message of each key."""
        if not self._errors and not is_new.any():
            return []
        found: list[ErrorUpdate] = []
        by_text = _mask(table.column(KEY).is_valid())
        columns = [table.column(i) for i in range(self._key_columns)]
        for place in np.flatnonzero(is_new | by_text | self._errors.candidates(hashes)):
            text = table.column(KEY)[place].as_py() or key_text([c[place].as_py() for c in columns])
            message = table.column(ERROR)[place].as_py() if is_new[place] else None
            known = self._errors.pop(text)
            if known is not None:
                found.append(ErrorUpdate(text, known, -1))
            if message is not None:
                self._errors.put(text, message, int(hashes[place]))
                found.append(ErrorUpdate(text, message, 1))
        return found


def _place(messages: Messages) -> tuple[bool, Any]:
    partition = messages.partition
    return isinstance(partition, str), 0 if partition is None else partition


def _mask(values: Any) -> Mask:
    return np.asarray(values, dtype=np.bool_)


def _with_diff(rows: pa.Table, diff: int) -> list[pa.RecordBatch]:
    diffs = pa.repeat(pa.scalar(diff, pa.int64()), rows.num_rows)
    field = pa.field(DIFF, pa.int64(), nullable=False)
    return list(rows.append_column(field, diffs).to_batches())
