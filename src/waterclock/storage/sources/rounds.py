"""Beginning and ending rounds: the part of the loop that has several sources step together.

A round begins when all of its sources are idle, so the idle ones wait for the others, but not for
long. It needs a place in the log upstream; where none is to be had, its requests are answered with
nothing, and each source takes a step of its own, which finds out why.

What a round is, and what it comes to, is in `together`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, Future

from waterclock.model.ids import GlobalId
from waterclock.runtime import Condition
from waterclock.storage.sources.together import (
    Group,
    JointRequest,
    JointRequests,
    Round,
    answer_all,
)
from waterclock.storage.sources.turns import Turn

_PATIENCE_S = 1.0
"""For so long at most a source waits for others that are to take a step together with it."""


class Rounds:
    """The rounds of a loop, whose lock whoever calls has, unless a method says otherwise."""

    def __init__(
        self,
        turns: Mapping[GlobalId, Turn],
        lock: Condition,
        pool: Executor,
        take_step: Callable[[Turn], None],
    ) -> None:
        """`take_step` runs in the pool, and calls `end_step` for a source that is in a round."""
        self._turns = turns
        self._lock = lock
        self._pool = pool
        self._take_step = take_step
        self._requests = JointRequests()
        self._is_closed = False

    def add(self, group: Group, request: JointRequest) -> None:
        """Have a round begin as soon as it can."""
        self._requests.add(group, request)

    def close(self) -> list[JointRequest]:
        """Begin no more; the requests that are open still."""
        self._is_closed = True
        return self._requests.take_all()

    def dues(self, now: float, awaited: Collection[GlobalId]) -> list[float]:
        """When rounds should be looked after again."""
        wanted = {source for group in self._requests.groups() for source in group}
        turns = [turn for source, turn in self._turns.items() if source in wanted]
        found = [turn.due_asked for turn in turns if turn.is_idle and turn.due_asked > now]
        return [*found, now + _PATIENCE_S] if awaited else found

    def begin(self, now: float) -> set[GlobalId]:
        """Let sources that are wanted together begin when all of them can. Those that are to wait
        for others of their group, which are not busy for long.
        """
        awaited: set[GlobalId] = set()
        for group in self._requests.groups():
            turns = [turn for s in sorted(group) if (turn := self._turns.get(s)) is not None]
            if len(turns) < len(group) or any(turn.is_out for turn in turns):
                requests = self._requests.take(group)  # asking one by one tells why
                self._pool.submit(answer_all, requests, None)
            elif all(t.is_idle and not t.needs_step and t.due_asked <= now for t in turns):
                self._begin_one(group, turns, now)
            elif not any(turn.needs_step for turn in turns) and all(
                turn.is_idle or now - turn.looked < _PATIENCE_S for turn in turns
            ):
                awaited |= group
        return awaited

    def _begin_one(self, group: Group, turns: Sequence[Turn], now: float) -> None:
        joint = Round(group, self._requests.take(group))
        for turn in turns:
            demand, turn.served = turn.requests.begin_step(is_due=False)
            if demand is not None:
                joint.time = max(joint.time, demand.time)
            turn.looked, turn.running, turn.round = now, Future(), joint
        self._pool.submit(self._look_together, turns, joint)

    def _look_together(self, turns: Sequence[Turn], joint: Round) -> None:
        """Find the place and the time for a round, and let each source take its step."""
        ready = all(turn.ingestion.can_follow for turn in turns)
        place = turns[0].ingestion.place() if ready else None
        standing = [turn.ingestion.reached() for turn in turns]
        with self._lock:
            begins = place is not None and None not in standing and not self._is_closed
            if begins:
                assert place is not None
                joint.begin(place, [each for each in standing if each is not None])
                for turn in turns[1:]:
                    self._pool.submit(self._take_step, turn)
        if begins:
            self._take_step(turns[0])
            return
        for turn in turns:
            self.end_step(turn, needs_step=True)
        answer_all(joint.requests, None)

    def end_step(self, turn: Turn, *, needs_step: bool) -> None:
        """The step of a source in a round is over, or was not begun. Not under the lock."""
        with self._lock:
            running, turn.running, turn.round, turn.served = turn.running, None, None, ()
            turn.needs_step = needs_step
            if needs_step:
                turn.due = turn.looked
            self._lock.notify()
        if running is not None:
            running.set_result(None)
