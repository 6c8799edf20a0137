"""What to do when the engine dies, and when it says nothing: decisions, without any engine.

The first death is followed by a new engine at once; those that come soon after it by one after a
rest that doubles. After so many deaths within a while it is given up: something is wrong that a new
engine does not mend, and whoever runs the server has to know. An engine that has not answered for a
few seconds is of no use at the moment (`unanswered_s`), and one that has not answered for too long
counts as dead (`silent_s`).

All times are seconds of one clock that never goes back, and are arguments.
"""

from __future__ import annotations

from dataclasses import dataclass

UNANSWERED_S = 4.0
"""An engine that answers is asked every second, so by then it has missed several questions."""
_FIRST_REST_S = 1.0
_LONGEST_REST_S = 30.0


@dataclass(frozen=True, slots=True)
class Policy:
    """How much is borne."""

    deaths: int = 5
    """With so many deaths within `within_s`, the engine is given up."""
    within_s: float = 300.0
    silence_s: float = 60.0
    """An engine that does not answer for so long is dead."""


@dataclass(frozen=True, slots=True)
class Restart:
    """Start a new engine at this time."""

    at: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Start none any more."""

    why: str


class EngineLife:
    """What is known of one engine after the other."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._deaths: list[float] = []
        self._answered: float | None = None
        self.died = 0
        """How many engines have died."""

    def started(self, now: float) -> None:
        """There is an engine, and it has answered."""
        self._answered = now

    def answered(self, now: float) -> None:
        """The engine has shown that it is alive."""
        if self._answered is not None:
            self._answered = now

    def silent_s(self, now: float) -> float | None:
        """For how long the engine has not answered, if that is too long."""
        return self._unanswered_s(now, self._policy.silence_s)

    def unanswered_s(self, now: float) -> float | None:
        """For how long the engine has not answered, if that is too long to call it ready."""
        return self._unanswered_s(now, UNANSWERED_S)

    def _unanswered_s(self, now: float, bound_s: float) -> float | None:
        answered = self._answered
        if answered is None or now - answered < bound_s:
            return None
        return now - answered

    def lost(self, now: float) -> Restart | GiveUp:
        """The engine is dead, or could not be started."""
        self._answered = None
        self.died += 1
        recent = [each for each in self._deaths if now - each < self._policy.within_s]
        self._deaths = [*recent, now]
        if len(self._deaths) >= self._policy.deaths:
            return GiveUp(
                f"the engine has died {len(self._deaths)} times within {self._policy.within_s:g} s"
            )
        if not recent:
            return Restart(now)
        return Restart(now + min(_FIRST_REST_S * 2 ** (len(recent) - 1), _LONGEST_REST_S))
