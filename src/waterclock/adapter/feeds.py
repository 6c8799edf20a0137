"""What one subscriber receives: the contents, if it wants them, and then the changes as they come.

A feed gives batches to whoever asks, waits while there is none, and can be asked to wait only so
long. It subscribes to a shared reader of the collection's changes (a pump), and reads by itself
what the reader passed before the subscription. Being interrupted while it waits loses nothing.

A slow receiver costs no memory. Large results wait in a file. The queue at the pump is small;
changes that do not fit are read from storage when they are asked for, where the hold on the
collection keeps them. It does so as long as somebody asks: a lease begins when a batch is given,
and when it is over the subscription has ended. The right to read is looked at again whenever the
catalog has changed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from waterclock.adapter.data_errors import explained
from waterclock.adapter.envelopes import Shape
from waterclock.adapter.following import Step, Steps
from waterclock.adapter.pumps import Followed, Pump, Pumps, Seat
from waterclock.adapter.reading import Moment
from waterclock.adapter.results import pieces
from waterclock.errors import WaterclockError
from waterclock.persist.rows import DIFF, TIME

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from waterclock.adapter.coordinator import Coordinator
    from waterclock.catalog.catalog import Catalog

_FEW_ROWS = 1000
"""Batches of at most this many rows are converted on the event loop."""


class Feed:
    """An iterator of batches that does not end by itself, unless the subscription has an end."""

    def __init__(
        self,
        core: Coordinator,
        pumps: Pumps,
        followed: Followed,
        shape: Shape,
        moment: Moment,
        up_to: int | None,
        at_close: Callable[[], Awaitable[None]] | None = None,
        require_right: Callable[[Catalog], None] | None = None,
        lease_ms: int | None = None,
    ) -> None:
        """Takes the moment over. The changes are those after it, and before `up_to`.

        Who does not ask for the next batch within `lease_ms` does not get it; None is no limit.
        `require_right` raises if the receiver may not read any more, by the catalog that is given.
        """
        self._core = core
        self._pumps = pumps
        self._followed = followed
        self._shape = shape
        self._moment = moment
        self._up_to = up_to
        self._at_close = at_close
        self._require_right = require_right
        self._lease_ms = lease_ms
        self._allowed_by: Catalog | None = None
        """The catalog in which the receiver was last found to have the right."""
        self._position = moment.time + 1
        """Everything before this time has been taken."""
        self._ready: deque[pa.RecordBatch] = deque()
        self._failure: WaterclockError | None = None
        self._has_ended = up_to is not None and up_to <= self._position
        self._sitting: tuple[Pump, Seat, int] | None = None
        """Where we sit, and from which time on everything comes there."""
        self._own: Steps | None = None
        self._reading: asyncio.Future[Step | None] | None = None
        self._shaping: tuple[Step, asyncio.Future[list[pa.RecordBatch]]] | None = None

    async def begin(self, contents: pa.Table | None) -> None:
        """Show the contents at the moment, if they are wanted, before all changes."""
        self._moment.hold.renew(self._lease_ms)
        if self._shape.progress:
            self._ready.append(self._shape.statement(self._moment.time))
        if contents is not None:
            shown = partial(self._batches, _as_updates(contents, self._moment.time))
            few = contents.num_rows <= _FEW_ROWS
            self._ready += shown() if few else await asyncio.to_thread(shown)
        if self._shape.progress and self._has_ended and self._up_to is not None:
            self._ready.append(self._shape.statement(self._up_to))

    @property
    def is_over(self) -> bool:
        """Whether nothing will come any more."""
        return not self._ready and self._has_ended and self._failure is None

    def __aiter__(self) -> Feed:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        batch = await self.next_within(None)
        if batch is None:
            raise StopAsyncIteration
        return batch

    async def next_within(self, seconds: float | None) -> pa.RecordBatch | None:
        """The next batch; None if none comes within the time, or ever. Raises what ended it."""
        if self._has_ended and not self._ready:  # nothing is held for that
            return await self._next_within(seconds)
        self._moment.hold.renew(None)  # whoever waits is there
        try:
            return await self._next_within(seconds)
        finally:
            self._moment.hold.renew(self._lease_ms)

    async def _next_within(self, seconds: float | None) -> pa.RecordBatch | None:
        clock = asyncio.get_running_loop().time
        deadline = None if seconds is None else clock() + seconds
        while True:
            self.check_right()
            if self._ready:
                return self._ready.popleft()
            if self._failure is not None:
                raise self._failure
            if self._has_ended:
                return None
            if self._shaping is not None:
                await self._shaped(deadline)
            elif (step := await self._next_step(deadline)) is not None:
                await self._take(step)
            if self._ready:
                continue
            if deadline is not None and clock() >= deadline:
                return None

    def check_right(self) -> None:
        """Raise if the receiver may not read any more, and end then."""
        current = self._core.current
        if self._require_right is None or self._allowed_by is current:
            return
        try:
            self._require_right(current)
        except WaterclockError as error:
            self._ready.clear()
            self._failure = error
            raise
        self._allowed_by = current

    async def aclose(self) -> None:
        """Let go of everything. Closing it again does nothing."""
        self._has_ended = True
        if self._sitting is not None:
            pump, seat, _ = self._sitting
            pump.leave(seat)
            self._sitting = None
        at_close, self._at_close = self._at_close, None
        try:
            await self._stop_reading()
        finally:
            self._ready.clear()
            self._moment.close()
            if at_close is not None:
                await at_close()

    # Where steps come from

    async def _next_step(self, deadline: float | None) -> Step | None:
        """The next step; None if there is none yet and it may be tried again."""
        if self._sitting is None:
            self._sitting = self._pumps.join(self._followed, self._position)
        pump, seat, first = self._sitting
        if self._position < first:
            return await self._read(deadline)
        await self._stop_reading()
        step = seat.take()
        if step is None and seat.is_lost:
            pump.leave(seat)
            self._sitting = None
        elif step is None:
            await _wait(asyncio.ensure_future(seat.news.wait()), deadline, cancel=True)
        return step

    async def _read(self, deadline: float | None) -> Step | None:
        """Read for ourselves what was handed out before we sat down."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(asyncio.to_thread(self._read_own))
        await _wait(self._reading, deadline)
        if not self._reading.done():
            return None
        reading, self._reading = self._reading, None
        return reading.result()

    def _read_own(self) -> Step | None:
        if self._own is None:
            collection = self._followed.collection
            errors = self._core.errors_of(collection)
            hold, columns = self._moment.hold, self._followed.columns
            explain = partial(explained, self._core)
            self._own = Steps(hold, collection, errors, columns, self._position - 1, explain)
        return self._own.read()

    async def _stop_reading(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            await asyncio.gather(reading, return_exceptions=True)
        own, self._own = self._own, None
        if own is not None:
            await asyncio.to_thread(own.close)

    # What becomes of them

    async def _take(self, step: Step) -> None:
        """Have a step shown: at once if it is short, else in another thread."""
        if step.updates.num_rows <= _FEW_ROWS:
            self._keep(step, self._shown(step, self._end_of(step)))
        else:
            work = asyncio.to_thread(self._shown, step, self._end_of(step))
            self._shaping = step, asyncio.ensure_future(work)

    async def _shaped(self, deadline: float | None) -> None:
        """Wait for the other thread. Whoever is interrupted finds it here again."""
        assert self._shaping is not None
        step, work = self._shaping
        await _wait(work, deadline)
        if work.done():
            self._shaping = None
            self._keep(step, work.result())

    def _end_of(self, step: Step) -> int | None:
        if self._up_to is not None and (step.upper is None or step.upper >= self._up_to):
            return self._up_to
        return step.upper

    def _keep(self, step: Step, shown: list[pa.RecordBatch]) -> None:
        end = step.upper
        if self._up_to is not None and (end is None or end >= self._up_to):
            end = self._up_to
            self._has_ended = True
        elif end is None:
            self._has_ended = True
        elif step.failure is not None:
            self._failure = step.failure
        self._ready += shown
        if end is None:
            return
        if self._shape.progress and end > self._position:
            self._ready.append(self._shape.statement(end))
        self._position = max(self._position, end)
        self._moment.hold.move(self._position - 1)

    def _shown(self, step: Step, end: int | None) -> list[pa.RecordBatch]:
        if not step.updates.num_rows:
            return []
        whole = step.lower >= self._position and end == step.upper
        if not whole:
            return self._batches(_between(step.updates, self._position, end))
        try:
            known = step.shown.get(self._shape)
        except TypeError:  # a condition's value can not be hashed
            return self._batches(step.updates)
        if known is None:
            known = step.shown[self._shape] = self._batches(step.updates)
        return known

    def _batches(self, updates: pa.Table) -> list[pa.RecordBatch]:
        if not updates.num_rows:
            return []
        shown = self._core.spool.hold(self._shape.shown(updates))
        return [batch for batch in pieces(shown) if batch.num_rows]


def _as_updates(contents: pa.Table, at: int) -> pa.Table:
    """Rows that are there at a time."""
    ones = pa.repeat(pa.scalar(1, pa.int64()), contents.num_rows)
    times = pa.repeat(pa.scalar(at, pa.int64()), contents.num_rows)
    return contents.append_column(TIME, times).append_column(DIFF, ones)


def _between(updates: pa.Table, lower: int, upper: int | None) -> pa.Table:
    inside = pc.greater_equal(updates[TIME], lower)
    if upper is not None:
        inside = pc.and_(inside, pc.less(updates[TIME], upper))
    return updates.filter(inside)


async def _wait(
    future: asyncio.Future[Any], deadline: float | None, *, cancel: bool = False
) -> None:
    """Wait for it, but not beyond the deadline; it goes on unless it is to be cancelled."""
    now = asyncio.get_running_loop().time()
    left = None if deadline is None else max(0.0, deadline - now)
    try:
        await asyncio.wait({future}, timeout=left)
    finally:
        if cancel:
            future.cancel()
