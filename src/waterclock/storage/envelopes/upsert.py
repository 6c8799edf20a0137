"""The envelope UPSERT: a message is the row of its key from now on, or that there is none.

What an update retracts is what the contents hold for the key, so the state is the contents: rows by
key, on disk (`keyed`). Of several messages with the same key in one binding the last counts. A key
is in one partition; if it is in several nevertheless, they count in their order.

An error takes the place of a row: a value that can not be read is the state of its key until a
message with the key takes its place, or deletes it. A null key, and one whose bytes can not be
read, count as keys of their own: they are in error until a message with the same bytes and without
a value deletes them.

With INLINE, a value that can not be read is the row of its key: its last column tells what is
wrong. A key that can not be read has a row in which nothing else is told; it is noted, to be found
again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from waterclock.storage.envelopes.plain import wrong_records
from waterclock.storage.formats.decoding import KEY
from waterclock.storage.sources.api import (
    ERROR,
    Changes,
    ErrorUpdate,
    Messages,
    Standing,
    WrongRecord,
)
from waterclock.storage.sources.decode_errors import reason_of

Mask = npt.NDArray[np.bool_]


class Upsert:
    """Implements `sources.api.Envelope` and `Stateful` for messages as `RowDecoding` makes them."""

    def __init__(self, rows: pa.Schema, key_columns: int, *, inline: bool = False) -> None:
        """`rows` is the schema of the output's rows; the key's columns are the first. With `inline`
        the last column tells what is wrong.
        """
        self._inline = inline
        self._schema = pa.schema([field.with_nullable(True) for field in rows])
        self._key_columns = key_columns
        self._held = KeyedRows(self._schema, key_columns)
        self._errors = self._known_errors(())

    def resume(self, standing: Standing) -> None:
        self._held.open(standing.state, standing.rows)
        if self._inline:
            noted = {text: message.decode() for text, message in standing.notes().items()}
            self._errors = self._known_errors(list(noted.items()))
        else:
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
        table, hashes, records = self._last_of_each_key(messages)
        by_text = _mask(table.column(KEY).is_valid())
        is_set = np.asarray(table.column(DIFF)) > 0
        is_wrong = _mask(table.column(ERROR).is_valid())
        rows = HashedRows(table.select(range(len(self._schema))).cast(self._schema), hashes)
        is_there = is_set if self._inline else is_set & ~is_wrong
        keyed = rows.where(~by_text)
        gone = self._held.find(keyed)
        self._held.write(keyed, is_there[~by_text])
        new = rows.where(~by_text & is_there).rows
        batches = [*_with_diff(gone, -1), *_with_diff(new, 1)]
        is_new = is_set & is_wrong & by_text if self._inline else is_set & is_wrong
        errors = self._changed_errors(table, hashes, is_new, records)
        if self._inline:
            return self._inlined(batches, errors)
        return Changes(batches, errors)

    def _inlined(self, batches: Sequence[pa.RecordBatch], errors: Sequence[ErrorUpdate]) -> Changes:
        """The changes, with keys that can not be read as rows that tell just that."""
        if not errors:
            return Changes(batches)
        count = len(errors)
        told = pa.array([reason_of(each.message) for each in errors], pa.string())
        nulls = [pa.nulls(count, field.type) for field in self._schema]
        diffs = pa.array([each.diff for each in errors], pa.int64())
        schema = self._schema.append(pa.field(DIFF, pa.int64(), nullable=False))
        rows = pa.RecordBatch.from_arrays([*nulls[:-1], told, diffs], schema=schema)
        notes: dict[str, bytes | None] = {}
        for each in errors:  # what is no longer wrong with a key comes before what is now
            notes[each.key] = each.message.encode() if each.diff > 0 else None
        return Changes([*batches, rows], notes=notes)

    def _last_of_each_key(
        self, messages: Sequence[Messages]
    ) -> tuple[pa.Table, Hashes, Mapping[int, WrongRecord]]:
        """Those messages in the order of the hashes of their keys, the hashes, and what is kept of
        those that can not be read, by their place.
        """
        ordered = sorted(messages, key=_place)
        table = pa.Table.from_batches([each.batch for each in ordered]).combine_chunks()
        hashes = self._held.hashes(table)
        order = ascending_hashes(hashes)
        table, hashes = table.take(pa.array(order)), hashes[order]
        names = [*table.column_names[: self._key_columns], KEY]
        kept = last_of_equals([one_array(table[name]) for name in names], hashes)
        records = _records(ordered, order[kept])
        if kept.all():
            return table, hashes, records
        return table.filter(pa.array(kept)), hashes[kept], records

    def _changed_errors(
        self,
        table: pa.Table,
        hashes: Hashes,
        is_new: Mask,
        records: Mapping[int, WrongRecord],
    ) -> list[ErrorUpdate]:
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
                found.append(ErrorUpdate(text, known, -1, is_skippable=True))
            if message is not None:
                self._errors.put(text, message, int(hashes[place]))
                found.append(ErrorUpdate(text, message, 1, True, records.get(int(place))))
        return found


def _records(messages: Sequence[Messages], kept: npt.NDArray[np.int64]) -> dict[int, WrongRecord]:
    """What is kept of messages that can not be read, by their places among those that count."""
    found: dict[int, WrongRecord] = {}
    first = 0
    for each in messages:
        found |= {first + place: record for place, record in wrong_records(each).items()}
        first += each.batch.num_rows
    if not found:
        return {}
    places = {int(origin): place for place, origin in enumerate(kept)}
    return {places[origin]: record for origin, record in found.items() if origin in places}


def _place(messages: Messages) -> tuple[bool, Any]:
    partition = messages.partition
    return isinstance(partition, str), 0 if partition is None else partition


def _mask(values: Any) -> Mask:
    return np.asarray(values, dtype=np.bool_)


def _with_diff(rows: pa.Table, diff: int) -> list[pa.RecordBatch]:
    diffs = pa.repeat(pa.scalar(diff, pa.int64()), rows.num_rows)
    field = pa.field(DIFF, pa.int64(), nullable=False)
    return list(rows.append_column(field, diffs).to_batches())
