"""The turn of one source in the loop: when it takes its next step, and whom a step answers.

Plain values and functions over them, for whoever has the loop's lock. See `loop`, which runs steps,
and `rounds`, in which several sources take one together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field

from waterclock.errors import WaterclockError
from waterclock.storage.errors import CapabilityInvalid
from waterclock.storage.sources.api import SourceHold
from waterclock.storage.sources.errors import SourceFault
from waterclock.storage.sources.ingestion import Ingestion, Outcome
from waterclock.storage.sources.recency import Demand, Finding, Request, Requests, SourceDropped
from waterclock.storage.sources.status import Health
from waterclock.storage.sources.together import Round


class Quiet:
    """Keeps sources quiet until it is closed, and not for ever."""

    def __init__(self, until: float, close: Callable[[Quiet], None]) -> None:
        self.until = until
        self._close = close

    def close(self) -> None:
        """Let the sources bind what is new. Closing it again does nothing."""
        self._close(self)


@dataclass(slots=True)
class Turn:
    """When a source is to be looked after next."""

    ingestion: Ingestion
    hold: SourceHold
    due: float
    requests: Requests
    due_asked: float = 0.0
    """The same if a recent read waits for it."""
    looked: float = 0.0
    running: Future[None] | None = None
    round: Round | None = None
    """The round that the step under way belongs to."""
    served: tuple[Request, ...] = ()
    """The requests that were there when the round began."""
    needs_step: bool = False
    """A round could not begin: a step of its own comes first."""
    is_over: bool = False
    is_paused: bool = False
    """Somebody changes what it is to do."""
    is_pausing: bool = False
    """It has stalled and waits longer than usual; ringing the bell does not change that."""
    quiets: set[Quiet] = field(default_factory=set)
    """Those for whom it is to bind nothing new."""
    untold_at: int | None = None
    """A time at which its contents have changed, if that could not be told yet."""

    @property
    def is_idle(self) -> bool:
        """Whether it may take a step."""
        if self.is_over or self.is_paused:
            return False
        return self.running is None or self.running.done()

    @property
    def is_out(self) -> bool:
        """Whether there is something wrong with the source, so that no round can begin."""
        return self.is_over or self.ingestion.status.health is Health.STALLED

    @property
    def next_due(self) -> float:
        """When it is to take a step by itself."""
        return min(self.due, self.due_asked) if self.requests else self.due

    def is_quiet(self, now: float) -> bool:
        return any(now < each.until for each in self.quiets)


def without_news(demand: Demand | None) -> Demand:
    """What a step of a quiet source does: it is complete at a later time."""
    time = 0 if demand is None else demand.time
    return Demand(time, is_first=False, wants_head=False, wants_news=False)


def decided(
    turn: Turn, outcome: Outcome, served: Iterable[Request]
) -> list[tuple[Request, Finding | WaterclockError]]:
    """The requests that a step has decided, each with its answer."""
    found: list[tuple[Request, Finding | WaterclockError]] = []
    reached = outcome.reached
    if reached is not None:
        met = turn.requests.end_step(served, reached)
        found += [(each, turn.requests.finding(each, reached)) for each in met]
    error: WaterclockError | None = turn.ingestion.refusal
    if error is None and outcome.is_over:
        if reached is not None and reached.bound.is_finished:  # they came during the step
            late = turn.requests.fail()
            return found + [(each, turn.requests.finding(each, reached)) for each in late]
        error = _error_at_end(turn)
    if error is not None:
        found += [(each, error) for each in turn.requests.fail()]
    return found


def source_dropped() -> SourceDropped:
    """What is told about a source that is not there any more."""
    return SourceDropped("a source that is read was dropped")


def known_answer(turn: Turn, request: Request) -> Finding | WaterclockError | None:
    """The answer to a request, if no step is needed for it."""
    if turn.ingestion.refusal is not None:
        return turn.ingestion.refusal
    if not turn.is_over:
        return None
    reached = turn.ingestion.reached()
    if reached is not None and reached.bound.is_finished:
        return turn.requests.finding(request, reached)
    return _error_at_end(turn)


def _error_at_end(turn: Turn) -> WaterclockError:
    """Why nothing comes any more of a source that has not finished."""
    error = turn.ingestion.status.error
    if isinstance(error, CapabilityInvalid):  # a DROP was committed, and is to be told to us yet
        return source_dropped()
    return error or SourceFault("the source has ended")
