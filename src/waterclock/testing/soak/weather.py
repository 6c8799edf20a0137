"""What is being broken at the moment, and which errors a client has to expect because of that.

Whoever breaks something says so before, and says when it works again. An error that a statement
met is excused if it is of a kind that follows from a disturbance between the statement's begin and
its end. Every other error is a finding, and so is each internal one, whatever the weather.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

CALM_S = 3.0
"""How long after a disturbance errors may still follow from it."""
ALWAYS = frozenset({"40001", "40003", "57014"})
"""A conflict with another transaction; a cancelled statement, or one that ran out of time; and one
whose outcome is not known when it is given up."""
CAUSED_BY = {
    "server": frozenset({"57P01", "57P02", "57P03"}),
    "engine": frozenset({"57P01", "57P02", "57P03", "58000", "53200", "55000"}),
    "worker": frozenset({"57P02", "57P03", "58000", "53200"}),
    "disk": frozenset({"53100", "58030", "57P03"}),
    "pause": frozenset[str](),
    "upstream": frozenset[str](),
}
"""By what is broken: the errors that a clear answer may have."""
BREAKS_CONNECTIONS = frozenset({"server"})


@dataclass(slots=True)
class Disturbance:
    kind: str
    began: float
    ended: float | None = None

    def touches(self, since: float) -> bool:
        return self.ended is None or self.ended + CALM_S >= since


class Weather:
    """All disturbances so far, and all findings. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._disturbances: list[Disturbance] = []
        self.findings: list[str] = []
        self.counts: Counter[str] = Counter()
        self._began = time.monotonic()
        self._told: Counter[str] = Counter()

    @contextmanager
    def disturbed(self, kind: str, description: str) -> Iterator[None]:
        """Something is broken during the block, and works again at its end."""
        assert kind in CAUSED_BY, kind
        disturbance = Disturbance(kind, time.monotonic())
        with self._lock:
            self._disturbances.append(disturbance)
        self.tell(description)
        try:
            yield
        finally:
            disturbance.ended = time.monotonic()
            self.counts[f"disturbed: {description}"] += 1

    def finding(self, who: str, text: str) -> None:
        """Something is wrong with the server. What is found in the same words again counts once."""
        with self._lock:
            self._told[text] += 1
            is_new = self._told[text] == 1
            if is_new:
                self.findings.append(f"{self._now()} {who}: {text}")
        if is_new:
            print(f"FINDING {self._now()} {who}: {text}", flush=True)

    def tell(self, text: str) -> None:
        print(f"{self._now()} {text}", flush=True)

    def is_excused(self, error: psycopg.Error, since: float) -> bool:
        """Whether a statement that began then may have met this."""
        state = error.sqlstate
        with self._lock:
            kinds = {each.kind for each in self._disturbances if each.touches(since)}
        if state is None or state.startswith("08"):  # the connection is gone, or was never made
            return bool(kinds & BREAKS_CONNECTIONS)
        return state in ALWAYS or any(state in CAUSED_BY[kind] for kind in kinds)

    def is_disturbed(self, kind: str) -> bool:
        """Whether something of the kind is broken now, or was just before."""
        now = time.monotonic()
        with self._lock:
            return any(each.kind == kind and each.touches(now) for each in self._disturbances)

    def _now(self) -> str:
        minutes, seconds = divmod(time.monotonic() - self._began, 60)
        return f"[{int(minutes):02}:{seconds:05.2f}]"
