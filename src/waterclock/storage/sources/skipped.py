"""Messages that could not be read, as a relation beside their source (ON DECODE ERROR SKIP).

Each is a row: when it was bound, where it stands, its bytes, and what is wrong. It stays for as
long as it is wrong: what is repaired upstream takes it out again, and then the row is found by its
output, its `subject` (which row is meant, as errors tell it) and its reason. So nothing has to be
remembered besides the relation itself.

Those that come and go within one binding are never there.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.model.schema import Bytes, Column, Schema, Text, Timestamp
from waterclock.persist.rows import DIFF, TIME
from waterclock.persist.rows import updates as update_rows
from waterclock.storage.reclock.remap import Element
from waterclock.storage.reclock.shape import ProgressShape
from waterclock.storage.sources.api import ErrorUpdate, Skipping
from waterclock.storage.sources.errors import SourceFault

Row = tuple[Any, ...]
Contents = Callable[[], Iterator[pa.RecordBatch]]
Wrong = tuple[str, str, str]
"""An output, a subject, and a message that begins with a SQLSTATE."""
_OUTPUT, _SUBJECT, _SQLSTATE, _REASON = "relation", "subject", "sqlstate", "reason"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def skipped_schema(shape: ProgressShape, *, tells_output: bool) -> Schema:
    """The columns: where a message stands is told as in the source's progress."""
    output = (Column(_OUTPUT, Text(), nullable=False),) if tells_output else ()
    return Schema(
        (
            Column("bound_at", Timestamp(True), nullable=False),
            *output,
            *shape.schema.columns,
            Column("message_key", Bytes()),
            Column("message_value", Bytes()),
            Column(_SUBJECT, Text(), nullable=False),
            Column(_SQLSTATE, Text(), nullable=False),
            Column(_REASON, Text(), nullable=False),
        )
    )


class SkippedMessages:
    """What is in the relation, looked up when something of it is to go."""

    def __init__(self, shape: ProgressShape, skipping: Skipping, output: str) -> None:
        """`output` is that of all messages, unless the relation tells it."""
        self._shape = shape
        self._skipping = skipping
        self._only_output = output
        self._schema = skipped_schema(shape, tells_output=skipping.tells_output)

    def count(self, contents: Contents) -> int:
        """How many rows there are."""
        return sum(pc.sum(batch.column(DIFF)).as_py() or 0 for batch in contents())

    def errors(self, contents: Contents, output: str) -> list[tuple[str, str]]:
        """The subject and the message of each row of an output."""
        held: Counter[Wrong] = Counter()
        for row, diff in self._rows(contents()):
            held[self._wrong(row)] += diff
        return [(subject, text) for of, subject, text in held.elements() if of == output]

    def change(
        self, errors: Mapping[str, Sequence[ErrorUpdate]], time: int, contents: Contents
    ) -> tuple[pa.Table | None, int]:
        """The updates at the time, None if there are none, and how many rows more there are.

        `errors` are what can be skipped, by output.
        """
        new: dict[Wrong, list[Row]] = {}
        gone: Counter[Wrong] = Counter()
        for output, updates in errors.items():
            for each in updates:
                wrong = (output, each.key, each.message)
                if each.diff < 0:
                    gone[wrong] -= each.diff
                else:
                    new.setdefault(wrong, []).extend([self._row(output, each, time)] * each.diff)
        for wrong, rows in new.items():
            both = min(gone[wrong], len(rows))
            gone[wrong] -= both
            del rows[len(rows) - both :]
        come = [row for rows in new.values() for row in rows]
        taken = self._found(+gone, contents)
        triples = [*((row, time, -1) for row in taken), *((row, time, 1) for row in come)]
        if not triples:
            return None, 0
        table = pa.Table.from_batches([update_rows(self._schema, triples)])
        return table, len(come) - len(taken)

    def _found(self, wanted: Counter[Wrong], contents: Contents) -> list[Row]:
        """Rows of the relation that are these, as many of each."""
        if not wanted:
            return []
        subjects = pa.array(sorted({subject for _, subject, _ in wanted}), pa.string())
        held: Counter[Row] = Counter()
        for batch in contents():
            known = batch.filter(pc.is_in(batch.column(_SUBJECT), subjects))
            for row, diff in self._rows([known]):
                held[row] += diff
        found: list[Row] = []
        for row in held.elements():
            wrong = self._wrong(row)
            if wanted[wrong] > 0:
                wanted[wrong] -= 1
                found.append(row)
        for output, subject, _ in +wanted:
            raise SourceFault(
                "a row that can not be held goes upstream, and has never been there",
                detail=f"It is {subject}, of {output}.",
            )
        return found

    def _row(self, output: str, error: ErrorUpdate, time: int) -> Row:
        record = error.record
        assert record is not None, "what is skipped comes with its bytes"
        sqlstate, _, reason = error.message.partition(" ")
        place = self._shape.row(Element(record.partition, record.offset))
        told = (output,) if self._skipping.tells_output else ()
        bound_at = _EPOCH + datetime.timedelta(milliseconds=time)
        return (bound_at, *told, *place, record.key, record.value, error.key, sqlstate, reason)

    def _wrong(self, row: Row) -> Wrong:
        output = row[1] if self._skipping.tells_output else self._only_output
        *_, subject, sqlstate, reason = row
        return output, subject, f"{sqlstate} {reason}"

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Row, int]]:
        for batch in batches:
            columns = [c.to_pylist() for c in batch.drop_columns([TIME, DIFF]).columns]
            diffs = np.asarray(batch.column(DIFF)).tolist()
            yield from zip(zip(*columns, strict=True), diffs, strict=True)
