"""Requests of recent reads to one source: its head, and being complete at a time.

The *head* of a source is how far the system upstream is: everything that was acknowledged there
before it was asked for is before the head. A recent read asks for the heads of its sources and
waits until each is durably bound and its data is here. Two sources may get there at different
times; then the one that is behind is asked to be complete at the later time, for which nothing has
to be asked upstream.

All requests that are there when a step of the source begins share that step, and with it one
question upstream. A request that comes later waits for the next step, because what was asked before
it says nothing about what was acknowledged since.

This module keeps the requests of one source and decides what its next step is asked to do. It does
not run steps: see `loop`.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import ClassVar

from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.storage.reclock.progress import SourceFrontier


class NotLinearizable(WaterclockError):
    """The system upstream of a source can not tell how far it is."""

    sqlstate: ClassVar[str] = "0A000"


class SourceDropped(WaterclockError):
    """The source was dropped while somebody waited for it."""

    sqlstate: ClassVar[str] = "42P01"


@dataclass(frozen=True, slots=True)
class Demand:
    """What a step is asked to do besides what it does anyway."""

    time: int
    """The source is to be complete at this time after the step."""
    is_first: bool
    """Whether the step binds at just that time, so that the sources of one read agree on it. Later
    steps for the same requests go by the clock again."""
    wants_head: bool
    """Whether the head is to be asked for."""
    wants_news: bool
    """Whether the step is to look upstream at all."""
    up_to: SourceFrontier | None = None
    """The place in the log upstream that the step binds and does not go beyond (`together`)."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Where a source stands after a step."""

    bound: SourceFrontier
    bound_at: int
    """The time of the last binding."""
    complete_to: int | None
    """The first time at which the contents may still change; None if there is none."""
    head: SourceFrontier | None = None
    """What the step has learned of the head, if it was asked to."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer to a request. `head` is None if it was not asked for."""

    source: GlobalId
    bound: SourceFrontier
    bound_at: int
    complete_to: int | None
    head: SourceFrontier | None = None


class Request:
    """One recent read's request to one source."""

    __slots__ = ("answer", "head", "is_new", "time", "wants_head")

    def __init__(self, time: int, *, wants_head: bool) -> None:
        self.time = time
        self.wants_head = wants_head
        self.head: SourceFrontier | None = None
        self.is_new = True
        self.answer: Future[Finding] = Future()
        """Cancelling it withdraws the request."""

    def is_met(self, reached: Reached) -> bool:
        """Whether the source has got to what is asked."""
        if reached.complete_to is not None and reached.complete_to <= self.time:
            return False
        if not self.wants_head:
            return True
        return self.head is not None and reached.bound.covers(self.head)


class Requests:
    """The open requests of one source. For whoever has the loop's lock."""

    def __init__(self, source: GlobalId) -> None:
        self._source = source
        self._open: list[Request] = []

    def __bool__(self) -> bool:
        self._open = [each for each in self._open if not each.answer.done()]
        return bool(self._open)

    def add(self, request: Request) -> None:
        self._open.append(request)

    def begin_step(self, *, is_due: bool) -> tuple[Demand | None, tuple[Request, ...]]:
        """What the step that begins now is asked to do, and the requests that it is for. One that
        is due anyway looks upstream whatever is asked.
        """
        if not self:
            return None, ()
        asking = [each for each in self._open if each.wants_head]
        demand = Demand(
            max(each.time for each in self._open),
            is_first=any(each.is_new for each in self._open),
            wants_head=any(each.head is None for each in asking),
            wants_news=bool(asking) or is_due,
        )
        for each in self._open:
            each.is_new = False
        return demand, tuple(self._open)

    def end_step(self, served: Iterable[Request], reached: Reached) -> list[Request]:
        """The step has got so far: the requests that are met now, which are not open any more.

        Only those for which the step was begun learn the head from it.
        """
        for request in served:
            if request.wants_head and request.head is None:
                request.head = reached.head
        met = [each for each in self._open if each.is_met(reached)]
        self._open = [each for each in self._open if each not in met]
        return met

    def fail(self) -> list[Request]:
        """All open requests, which are not open any more: nothing comes of them."""
        failed, self._open = self._open, []
        return failed

    def finding(self, request: Request, reached: Reached) -> Finding:
        """The answer to a request that is met."""
        bound, bound_at, complete_to = reached.bound, reached.bound_at, reached.complete_to
        return Finding(self._source, bound, bound_at, complete_to, request.head)


def answer(request: Request, outcome: Finding | WaterclockError) -> None:
    """Tell whoever waits, unless they have given up. Not under a lock."""
    if not request.answer.set_running_or_notify_cancel():
        return
    if isinstance(outcome, Finding):
        request.answer.set_result(outcome)
    else:
        request.answer.set_exception(outcome)
