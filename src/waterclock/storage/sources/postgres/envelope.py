"""What the changes of a PostgreSQL table mean for the contents of its output.

A change says itself what goes and what comes, so rows pass through. Two things are more than rows:
TRUNCATE takes out everything that is there, and a table that is not any more what the source was
created for has failed: from then on it is in error, and nothing that comes changes it.

A row with a value that can not be held is an error beside the output as long as it is upstream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from waterclock.persist.rows import DIFF, TIME
from waterclock.storage.envelopes.plain import wrong_records
from waterclock.storage.sources.api import (
    ERROR,
    OFFSET,
    Changes,
    ErrorUpdate,
    Messages,
    Standing,
)
from waterclock.storage.sources.decode_errors import ERROR_KEY, ERROR_VALUE, FAIL, DecodeErrors

KEY = "mz_key"
"""The column of the key that an error is filed under; null where there is none."""
_FAILED = "the table itself"
"""The key of the error that a failed table has."""


@dataclass(frozen=True, slots=True)
class Truncated(Messages):
    """Everything in the output until here is gone. The batch is empty."""


@dataclass(frozen=True, slots=True)
class TableFailed(Messages):
    """The table can not be followed any more. The batch is empty; `message` begins with a SQLSTATE
    and a blank.
    """

    message: str


def no_messages() -> pa.RecordBatch:
    """The batch of what is not about rows."""
    return pa.record_batch({OFFSET: pa.array([], pa.int64())})


class ChangesOfTable:
    """Implements `sources.api.Envelope` and `Fallible`."""

    def __init__(self, errors: DecodeErrors = FAIL) -> None:
        """`errors` says what becomes of rows that can not be held."""
        self._inline = errors.column is not None
        self._standing: Standing | None = None
        self.failure: str | None = None

    def resume(self, standing: Standing) -> None:
        self._standing = standing
        found = (text for key, text in standing.errors() if key == _FAILED)
        self.failure = next(found, None)

    def changes(self, messages: Sequence[Messages]) -> Changes:
        if self.failure is not None:
            return Changes()
        rows: list[pa.RecordBatch] = []
        errors: list[ErrorUpdate] = []
        for each in messages:
            match each:
                case Truncated():
                    rows, errors = self._emptied()
                case TableFailed(message=message):
                    self.failure = message
                    return Changes(errors=[ErrorUpdate(_FAILED, message, 1)])
                case _:
                    if not self._inline:
                        errors += _wrong(each)
                    rows.append(_right(each.batch, inline=self._inline))
        return Changes(rows, errors)

    def _emptied(self) -> tuple[list[pa.RecordBatch], list[ErrorUpdate]]:
        """Everything that was there before the binding, taken out."""
        assert self._standing is not None, "the envelope was told where the output stands"
        rows = [_negated(batch) for batch in self._standing.rows()]
        errors = self._standing.errors()
        return rows, [ErrorUpdate(key, text, -1, is_skippable=True) for key, text in errors]


def _right(batch: pa.RecordBatch, *, inline: bool) -> pa.RecordBatch:
    """The rows that can be held; all rows, if those that can not tell so themselves."""
    if ERROR in batch.schema.names and not inline:
        batch = batch.filter(batch.column(ERROR).is_null())
    besides = (OFFSET, ERROR, KEY, ERROR_KEY, ERROR_VALUE)
    return batch.drop_columns([name for name in besides if name in batch.schema.names])


def _wrong(messages: Messages) -> Iterator[ErrorUpdate]:
    batch = messages.batch
    if ERROR not in batch.schema.names:
        return
    found = batch.filter(batch.column(ERROR).is_valid())
    records = wrong_records(Messages(messages.output, messages.partition, found))
    columns = (found.column(name).to_pylist() for name in (KEY, ERROR, DIFF))
    for place, (key, text, diff) in enumerate(zip(*columns, strict=True)):
        yield ErrorUpdate(key, text, diff, True, records.get(place))


def _negated(updates: pa.RecordBatch) -> pa.RecordBatch:
    """Updates as changes that undo them."""
    place = updates.schema.get_field_index(DIFF)
    undone = pc.negate(updates.column(DIFF))
    return updates.set_column(place, updates.schema.field(place), undone).drop_columns([TIME])
