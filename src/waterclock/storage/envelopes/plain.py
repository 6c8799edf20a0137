"""The envelope NONE: every message is a change by itself, as the connector says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from waterclock.storage.sources.api import OFFSET, Messages


class Plain:
    """Implements `sources.api.Envelope`. It has no state."""

    def resume(self, contents: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        del contents

    def changes(self, messages: Sequence[Messages]) -> list[pa.RecordBatch]:
        return [each.batch.drop_columns([OFFSET]) for each in messages]
