"""Requests of recent reads to several sources of one system upstream, which all follow its one log.

Such sources can be bound at one place of that log and at one time. A read at that time sees of all
of them what was there at one moment, so writes to any of them are in the one order of the log.

A *round* does that: it begins when none of its sources has a step under way, asks one of them for a
place behind everything that is acknowledged, and lets each take one step, bound exactly there. All
requests for the same sources that wait when a round begins share it.

This module keeps the requests and the rounds. It does not run steps: see `loop`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from waterclock.model.ids import GlobalId
from waterclock.storage.reclock.progress import SourceFrontier
from waterclock.storage.sources.recency import Demand, Finding, Reached

Group = frozenset[GlobalId]
"""Sources that are bound together."""
Aligned = tuple[Finding, ...] | None
"""What a round has found of each source; None if they could not be bound together, because one of
them has something to do first. A request to that source alone tells what it is."""


@dataclass(frozen=True, slots=True)
class JointRequest:
    """One recent read's request to a group."""

    time: int
    """The sources are to be complete at this time, or at a later one."""
    answer: Future[Aligned]
    """Cancelling it withdraws the request."""


class Round:
    """One step of each source of a group. For whoever has the loop's lock."""

    def __init__(self, group: Group, requests: tuple[JointRequest, ...]) -> None:
        self._group = group
        self._missing = set(group)
        self._findings: list[Finding] = []
        self.requests = requests
        self.time = max(each.time for each in requests)
        self.place: SourceFrontier | None = None
        """Where all sources are bound, once that is known."""

    def begin(self, place: SourceFrontier, standing: Iterable[Reached]) -> None:
        """Fix the place and the time. No source is complete at that time yet, so all of them can be
        bound at it; and none is bound behind the place.
        """
        known = list(standing)
        self.place = max([place, *(each.bound for each in known)], key=_offset)
        self.time = max([self.time, *(each.complete_to or 0 for each in known)])

    @property
    def demand(self) -> Demand:
        """What the step of each source is asked to do."""
        assert self.place is not None, "the round has begun"
        return Demand(self.time, is_first=True, wants_head=True, wants_news=True, up_to=self.place)

    def note(self, source: GlobalId, reached: Reached | None) -> bool:
        """The step of a source is over. Whether it was the last one."""
        self._missing.discard(source)
        if reached is not None and self._is_met(reached):
            bound, bound_at, complete_to = reached.bound, reached.bound_at, reached.complete_to
            self._findings.append(Finding(source, bound, bound_at, complete_to, self.place))
        return not self._missing

    def _is_met(self, reached: Reached) -> bool:
        is_complete = reached.complete_to is None or reached.complete_to > self.time
        return is_complete and reached.bound == self.place and reached.bound_at <= self.time

    @property
    def outcome(self) -> Aligned:
        """The answer, when the last step is over."""
        return tuple(self._findings) if len(self._findings) == len(self._group) else None


class JointRequests:
    """The open requests, by group. For whoever has the loop's lock."""

    def __init__(self) -> None:
        self._open: dict[Group, list[JointRequest]] = {}

    def add(self, group: Group, request: JointRequest) -> None:
        self._open.setdefault(group, []).append(request)

    def groups(self) -> list[Group]:
        """The groups that somebody waits for."""
        for group, requests in list(self._open.items()):
            left = [each for each in requests if not each.answer.done()]
            if left:
                self._open[group] = left
            else:
                del self._open[group]
        return list(self._open)

    def take(self, group: Group) -> tuple[JointRequest, ...]:
        """The requests for a group, which are not open any more."""
        return tuple(self._open.pop(group, ()))

    def take_all(self) -> list[JointRequest]:
        """All requests, which are not open any more."""
        found = [each for requests in self._open.values() for each in requests]
        self._open.clear()
        return found


def groups_of(orders: Mapping[GlobalId, Hashable]) -> list[Group]:
    """The sources whose order upstream is the same, where that is more than one; None is no order
    that anybody shares.
    """
    found: dict[Hashable, set[GlobalId]] = {}
    for source, order in orders.items():
        if order is not None:
            found.setdefault(order, set()).add(source)
    return [frozenset(group) for group in found.values() if len(group) > 1]


def answer_all(requests: Iterable[JointRequest], outcome: Aligned) -> None:
    """Tell all who wait and have not given up. Not under a lock."""
    for request in requests:
        if request.answer.set_running_or_notify_cancel():
            request.answer.set_result(outcome)


def _offset(frontier: SourceFrontier) -> int:
    """The place in the log, of which there is one."""
    [offset] = frontier.uppers.values()
    return offset
