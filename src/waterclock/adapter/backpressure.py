"""Writers wait while views that read what they write are too far behind.

Nothing breaks when views fall behind: what waits is on disk, and a step takes a bounded part of it.
But it must not grow for ever. So from a bound on, a write waits before it is carried out, longer
the farther its views are behind:

- *Pressure* is how far behind the worst of its views is, as a multiple of the bounds on rows, bytes
  and age. Up to 1 nobody waits.
- From there on writes are let through at the rate at which that view is maintained, divided by a
  factor that grows smoothly: none at 1, the very rate at 1.5, a half of it at 2, a quarter from 3
  on. So a writer that never rests brings the pressure to about 1.5, and no higher.
- Large writes take turns: each waits for those before it. A small one waits for its own rows only,
  which is less than a few milliseconds, and large ones make room for it. So whoever works by hand
  hardly notices. Reads, and changes of the catalog, never wait.
- No write waits longer than a bound, and none for a view that is broken or is only being filled:
  that would not help it.

This decides, and does not wait itself. A write that waits holds nothing but its transaction, and
can be cancelled. All is kept in memory: after a restart nobody waits until views have been seen.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from waterclock.compute.api import Backlog
from waterclock.model.ids import GlobalId

_LOG = logging.getLogger(__name__)
SMALL_ROWS = 1_000
"""A write of no more rows does not wait for others."""
STEADY = 1.5
"""The pressure at which writes come as fast as views take them."""
STRONGEST = 3.0
"""Pressure above which writers are slowed down no further."""
FIRST_RATE = 50_000.0
"""Rows a second that a view takes, as long as nobody knows."""
LEAST_RATE = 1_000.0
WINDOW_S = 20.0
"""The rate is that of so many seconds."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a view may be behind before writers wait, and how long one waits at most."""

    rows: int = 5_000_000
    size: int = 4 << 30
    age_ms: int = 60_000
    most_delay_s: float = 30.0


@dataclass(slots=True)
class _Rate:
    """How fast a view takes rows: measured over a window, and remembered while it takes none."""

    rows_per_s: float = FIRST_RATE
    seen: list[tuple[float, int]] = field(default_factory=list)

    def observe(self, now: float, taken: int, *, is_behind: bool) -> None:
        if not is_behind:  # it takes what there is, which says nothing of what it could
            self.seen.clear()
            return
        self.seen.append((now, taken))
        while len(self.seen) > 2 and self.seen[1][0] <= now - WINDOW_S:
            self.seen.pop(0)
        began, first = self.seen[0]
        if taken > first and now - began >= 1:
            self.rows_per_s = max(LEAST_RATE, (taken - first) / (now - began))


@dataclass(frozen=True, slots=True)
class _Pressed:
    """The worst view that reads a collection."""

    view: GlobalId
    pressure: float
    rows_per_s: float


class Backpressure:
    """How long writes wait. Thread-safe; nothing here blocks."""

    def __init__(self, bounds: Bounds, clock: Callable[[], float]) -> None:
        """`clock` gives seconds that never go back."""
        self._bounds = bounds
        self._clock = clock
        self._lock = threading.Lock()
        self._rates: dict[GlobalId, _Rate] = {}
        self._pressed: Mapping[GlobalId, _Pressed] = {}
        self._behind: Mapping[GlobalId, int] = {}
        self._free_at = 0.0
        """When the large writes so far have been let through."""
        self._is_pressing = False
        self.delayed_writes = 0
        """How many writes had to wait."""
        self.delayed_s = 0.0
        """How long, all together."""

    @property
    def pressure(self) -> float:
        """That of the view which is farthest behind."""
        return max((each.pressure for each in self._pressed.values()), default=0.0)

    def rows_behind(self, view: GlobalId) -> int:
        """How many updates the view had yet to take in when it was last observed."""
        return self._behind.get(view, 0)

    def observe(self, backlogs: Sequence[Backlog]) -> None:
        """How far all views are behind now. To be called a few times a second."""
        now = self._clock()
        pressed: dict[GlobalId, _Pressed] = {}
        known: dict[GlobalId, _Rate] = {}
        for backlog in backlogs:
            rate = known[backlog.view] = self._rates.get(backlog.view) or _Rate()
            rate.observe(now, backlog.taken, is_behind=backlog.rows > 0)
            found = _Pressed(backlog.view, pressure_of(backlog, self._bounds), rate.rows_per_s)
            for collection in backlog.reads:
                worst = pressed.get(collection)
                if worst is None or found.pressure > worst.pressure:
                    pressed[collection] = found
        self._rates = known
        self._pressed = pressed
        self._behind = {backlog.view: backlog.rows for backlog in backlogs}
        self._tell(pressed.values())

    def delay_s(self, collections: Collection[GlobalId], rows: int) -> float:
        """How long a write of so many rows to some collections is to wait from now on."""
        known = self._pressed
        found = [known[each] for each in collections if each in known]
        worst = max(found, key=lambda each: each.pressure, default=None)
        factor = 0.0 if worst is None else factor_at(worst.pressure)
        most_s = self._bounds.most_delay_s
        if worst is None or not factor or not rows or not most_s:
            return 0.0
        own_s = rows / worst.rows_per_s * factor
        now = self._clock()
        with self._lock:
            self._free_at = min(max(now, self._free_at) + own_s, now + most_s)
            delay_s = min(own_s, most_s) if rows <= SMALL_ROWS else self._free_at - now
            self.delayed_writes += 1
            self.delayed_s += delay_s
        return delay_s

    def _tell(self, pressed: Collection[_Pressed]) -> None:
        """A line of the log when writers begin to wait, and one when they wait no more."""
        worst = max(pressed, key=lambda each: each.pressure, default=None)
        is_pressing = worst is not None and worst.pressure > (0.8 if self._is_pressing else 1)
        if is_pressing and not self._is_pressing and worst is not None:
            _LOG.warning(
                "view %s is %.1f times as far behind as it may be: what it reads is written slower",
                *(worst.view, worst.pressure),
            )
        if self._is_pressing and not is_pressing:
            _LOG.info("views have caught up: writes do not wait any more")
        self._is_pressing = is_pressing


def pressure_of(backlog: Backlog, bounds: Bounds) -> float:
    """How far a view is behind, as a multiple of what it may be."""
    if not backlog.rows:
        return 0.0
    behind = (
        backlog.rows / bounds.rows,
        backlog.size / bounds.size,
        backlog.age_ms / bounds.age_ms,
    )
    return max(behind)


def factor_at(pressure: float) -> float:
    """By how much writes are slower than the view that takes them; 0 if they do not wait."""
    if pressure <= 1:
        return 0.0
    return (min(pressure, STRONGEST) - 1) / (STEADY - 1)


DEFAULT_BOUNDS = Bounds()
