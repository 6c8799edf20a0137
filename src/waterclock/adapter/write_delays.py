"""The writes of one session wait, if views are too far behind.

`backpressure` says how long. The wait comes before the write is handed over, so a statement that is
stopped meanwhile has not written. What has read is soon too old to be written, and so it waits for
a moment only. The client is told why, but not with every write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pyarrow as pa

from waterclock.adapter.api import Notice
from waterclock.adapter.backpressure import Backpressure
from waterclock.adapter.transaction import Transaction
from waterclock.adapter.watch import Watch
from waterclock.model.ids import GlobalId

AFTER_READS_S = 1.0
"""The longest wait of a write that depends on what was read."""
_WORTH_TELLING_S = 0.1
_TELL_AGAIN_S = 10.0


class WriteDelays:
    """Lets writes wait. Belongs to the session's event loop."""

    def __init__(
        self, backpressure: Backpressure, watch: Watch, notify: Callable[[Notice], None]
    ) -> None:
        self._backpressure = backpressure
        self._watch = watch
        self._notify = notify
        self._told_at: float | None = None

    async def before(self, changes: Mapping[GlobalId, pa.Table], transaction: Transaction) -> None:
        """Wait as long as these changes have to; `StatementCancelled` if they are to stop."""
        rows = sum(table.num_rows for table in changes.values())
        delay_s = self._backpressure.delay_s(changes.keys(), rows)
        if transaction.dependence() is not None:
            delay_s = min(delay_s, AFTER_READS_S)
        if delay_s > 0:
            self._tell(delay_s)
            await self._watch.pause(delay_s)

    def _tell(self, delay_s: float) -> None:
        now = asyncio.get_running_loop().time()
        is_new = self._told_at is None or now >= self._told_at + _TELL_AGAIN_S
        if delay_s < _WORTH_TELLING_S or not is_new:
            return
        self._told_at = now
        self._notify(
            Notice(
                f"the write is delayed by {delay_s:.1f} s because views are behind",
                detail="A view that reads what is written is farther behind than it may be.",
                hint="See the server's settings max_backlog_rows, max_backlog_bytes,"
                " max_backlog_age and max_write_delay.",
            )
        )
