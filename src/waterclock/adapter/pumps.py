"""Many receivers of one collection's changes, of which storage is read once.

A *pump* follows a collection and hands each step to all who have a *seat* at it. A seat holds a
bounded number of steps; a receiver that does not keep up loses it. It then takes what it has, sits
down anew, and reads from storage by itself what it has missed. So a slow receiver costs its own
time, and no other's time or memory.

A pump is there while somebody sits at it. All of this happens in one event loop; only reading does
not.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from waterclock.adapter.data_errors import explained
from waterclock.adapter.errors import CollectionGone
from waterclock.adapter.following import Step, Steps, gone
from waterclock.adapter.holds import Holder
from waterclock.adapter.reading import LOOK_AGAIN_S, Bell
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId

if TYPE_CHECKING:
    from waterclock.adapter.coordinator import Coordinator

MAX_STEPS = 256
MAX_ROWS = 100_000
MAX_BYTES = 16 << 20
"""Bytes queued for one subscriber before it has to read from storage."""
_LOOK_AGAIN_S = LOOK_AGAIN_S / 2
"""So soon is it noticed that the catalog has changed, and with it maybe who may read."""


class Followed(NamedTuple):
    """What a pump reads."""

    collection: GlobalId
    columns: pa.Schema

    @property
    def key(self) -> tuple[GlobalId, tuple[str, ...]]:
        return (self.collection, tuple(self.columns.names))


class Seat:
    """The steps that wait for one receiver."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque()
        self._rows = 0
        self._bytes = 0
        self.is_lost = False
        self.news = asyncio.Event()

    def offer(self, step: Step) -> bool:
        """Put a step here; false if there is no room, and the seat is lost."""
        many = self._rows + step.updates.num_rows > MAX_ROWS
        many = many or self._bytes + step.updates.nbytes > MAX_BYTES
        if self._steps and (many or len(self._steps) >= MAX_STEPS):
            self.lose()
            return False
        if self._steps and _is_quiet(self._steps[-1]) and _is_quiet(step):
            step = Step(self._steps.pop().lower, step.upper, step.updates)
        self._steps.append(step)
        self._rows += step.updates.num_rows
        self._bytes += step.updates.nbytes
        self.news.set()
        return True

    def lose(self) -> None:
        """Nothing more comes here."""
        self.is_lost = True
        self.news.set()

    def take(self) -> Step | None:
        """The next step, if one waits."""
        if not self._steps:
            if not self.is_lost:
                self.news.clear()
            return None
        step = self._steps.popleft()
        self._rows -= step.updates.num_rows
        self._bytes -= step.updates.nbytes
        return step


def _is_quiet(step: Step) -> bool:
    return not step.updates.num_rows and step.failure is None and step.upper is not None


class Pump:
    """Reads steps and hands them to all seats, until nobody sits here."""

    def __init__(self, core: Coordinator, followed: Followed, after: int) -> None:
        """The collection must be held at or before `after` while this is called. `RelationGone`."""
        self._core = core
        self._seats: dict[Seat, None] = {}
        self._bell = Bell()
        self._catalog = core.current
        self.complete_to = after + 1
        """Every step before this time has been handed out."""
        self.is_over = False
        errors = core.errors_of(followed.collection)
        watched = (followed.collection, *errors)
        try:
            self._hold = core.holds.take(watched, Holder("subscriptions"))
        except CollectionGone as error:
            raise gone() from error
        self._hold.move(after)
        self._watched = watched
        explain = partial(explained, core)
        self._make = (followed.collection, errors, followed.columns, after, explain)
        for each in watched:
            core.store.watch(str(each), self._bell)
        self._task = asyncio.create_task(self._run())

    @property
    def seats(self) -> int:
        return len(self._seats)

    def sit(self) -> Seat:
        """A seat at which every step from `complete_to` on will come."""
        assert not self.is_over
        seat = Seat()
        self._seats[seat] = None
        return seat

    def leave(self, seat: Seat) -> None:
        self._seats.pop(seat, None)
        if not self._seats:
            self.is_over = True
            self._bell.set()

    async def _run(self) -> None:
        steps: Steps | None = None
        try:
            steps = await asyncio.to_thread(Steps, self._hold, *self._make)
            while not self.is_over:
                step = await asyncio.to_thread(steps.read)
                if step is None:
                    self._core.require_sources(self._watched)
                    await self._bell.wait(_LOOK_AGAIN_S)
                else:
                    self._hand_out(step)
                self._tell_of_change()
        except WaterclockError as error:
            nothing = self._make[2].empty_table()
            self._hand_out(Step(self.complete_to, self.complete_to, nothing, error))
        finally:
            self.is_over = True
            for seat in self._seats:
                seat.lose()
            self._hold.close()
            if steps is not None:
                await asyncio.to_thread(steps.close)

    def _tell_of_change(self) -> None:
        """Let everybody here look whether they may still read, if the catalog has changed."""
        current = self._core.current
        if current is not self._catalog:
            self._catalog = current
            for seat in self._seats:
                seat.news.set()

    def _hand_out(self, step: Step) -> None:
        self._seats = {seat: None for seat in self._seats if seat.offer(step)}
        if step.upper is None or step.failure is not None or not self._seats:
            self.is_over = True
        if step.upper is not None:
            self.complete_to = step.upper
            self._hold.move(step.upper - 1)


class Pumps:
    """All pumps of one server."""

    def __init__(self, core: Coordinator) -> None:
        self._core = core
        self._pumps: dict[object, Pump] = {}

    def __len__(self) -> int:
        return sum(not pump.is_over for pump in self._pumps.values())

    def join(self, followed: Followed, position: int) -> tuple[Pump, Seat, int]:
        """A seat, and the time from which on all steps come there.

        The caller has everything before `position`, and holds the collection there. What there is
        between that and where the pump is, it has to read for itself.
        """
        for key in [key for key, pump in self._pumps.items() if pump.is_over]:
            del self._pumps[key]
        pump = self._pumps.get(followed.key)
        if pump is None:
            pump = self._pumps[followed.key] = Pump(self._core, followed, position - 1)
        return pump, pump.sit(), pump.complete_to
