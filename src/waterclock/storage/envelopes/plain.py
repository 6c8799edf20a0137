"""The envelope NONE: every message is a change by itself, as the connector says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.persist.rows import DIFF
from waterclock.storage.sources.api import (
    ERROR,
    OFFSET,
    Changes,
    ErrorUpdate,
    Messages,
    Standing,
    WrongRecord,
)
from waterclock.storage.sources.decode_errors import ERROR_KEY, ERROR_VALUE

_BESIDES = (OFFSET, ERROR, ERROR_KEY, ERROR_VALUE)


class Plain:
    """Implements `sources.api.Envelope`. It has no state."""

    def __init__(self, inline: str | None = None) -> None:
        """`inline` is the column of rows that tells what is wrong with them, if there is one."""
        self._inline = inline

    def resume(self, standing: Standing) -> None:
        del standing

    def changes(self, messages: Sequence[Messages]) -> Changes:
        rows: list[pa.RecordBatch] = []
        errors: list[ErrorUpdate] = []
        for each in messages:
            batch = each.batch
            if ERROR in batch.schema.names:
                is_row = batch.column(ERROR).is_null()
                if self._inline is not None:
                    is_row = pc.or_(is_row, batch.column(self._inline).is_valid())
                wrong = Messages(each.output, each.partition, batch.filter(pc.invert(is_row)))
                errors += errors_in(wrong)
                batch = batch.filter(is_row)
            rows.append(batch.drop_columns([n for n in _BESIDES if n in batch.schema.names]))
        return Changes(rows, errors)


def errors_in(messages: Messages) -> Iterator[ErrorUpdate]:
    """What is wrong with messages that can not be read, each told by where it stands."""
    batch = messages.batch
    records = wrong_records(messages)
    columns = (batch.column(name).to_pylist() for name in (OFFSET, DIFF, ERROR))
    for place, (offset, diff, text) in enumerate(zip(*columns, strict=True)):
        record = records.get(place)
        yield ErrorUpdate(where(messages, offset), text, diff, record is not None, record)


def wrong_records(messages: Messages) -> dict[int, WrongRecord]:
    """The messages that can be skipped as they are kept then, by their place in the batch."""
    batch = messages.batch
    if ERROR_VALUE not in batch.schema.names:
        return {}
    keys, values = batch.column(ERROR_KEY), batch.column(ERROR_VALUE)
    kept = pc.or_(keys.is_valid(), values.is_valid())
    return {
        place: WrongRecord(
            messages.partition,
            int(batch.column(OFFSET)[place].as_py()),
            keys[place].as_py(),
            values[place].as_py(),
        )
        for place in np.flatnonzero(kept.to_numpy(zero_copy_only=False)).tolist()
    }


def where(messages: Messages, offset: int) -> str:
    """A message by its place."""
    part = "" if messages.partition is None else f"partition {messages.partition}, "
    return f"{part}offset {offset}"
