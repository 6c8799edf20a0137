"""The envelope NONE: every message is a change by itself, as the connector says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from waterclock.persist.rows import DIFF
from waterclock.storage.sources.api import (
    ERROR,
    OFFSET,
    Changes,
    ErrorUpdate,
    Messages,
    Standing,
)


class Plain:
    """Implements `sources.api.Envelope`. It has no state."""

    def resume(self, standing: Standing) -> None:
        del standing

    def changes(self, messages: Sequence[Messages]) -> Changes:
        rows: list[pa.RecordBatch] = []
        errors: list[ErrorUpdate] = []
        for each in messages:
            batch = each.batch
            if ERROR in batch.schema.names:
                errors += wrong(each)
                batch = batch.filter(batch.column(ERROR).is_null()).drop_columns([ERROR])
            rows.append(batch.drop_columns([OFFSET]))
        return Changes(rows, errors)


def wrong(messages: Messages) -> Iterator[ErrorUpdate]:
    """The messages that can not be read, each told by where it stands."""
    batch = messages.batch
    texts = batch.column(ERROR)
    if texts.null_count == len(texts):
        return
    for i in np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False)):
        offset, diff = batch.column(OFFSET)[i].as_py(), batch.column(DIFF)[i].as_py()
        yield ErrorUpdate(where(messages, offset), texts[i].as_py(), diff)


def where(messages: Messages, offset: int) -> str:
    """A message by its place."""
    part = "" if messages.partition is None else f"partition {messages.partition}, "
    return f"{part}offset {offset}"
