"""How a measured claim is told: a figure, what it is compared with in the same run, and its bar.

Machines differ and are noisy, so a bar is always a ratio of two things measured in turns within one
run; each is measured several times and the median counts.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Report:
    """Collects lines, prints them as they come, and remembers whether a bar was missed."""

    title: str
    missed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        print(f"\n{self.title}\n{'=' * len(self.title)}", flush=True)

    def figure(self, name: str, value: float, unit: str) -> None:
        print(f"  {name:<58} {value:>14,.1f} {unit}", flush=True)

    def bar(self, name: str, value: float, at_least: float) -> None:
        """A ratio that must not be below its bar."""
        self._judge(name, f"{value:.2f}x", f"at least {at_least:g}x", value >= at_least)

    def limit(self, name: str, value: float, at_most: float, unit: str) -> None:
        """A figure that must not be above its bar."""
        self._judge(name, f"{value:,.1f} {unit}", f"at most {at_most:g} {unit}", value <= at_most)

    def floor(self, name: str, value: float, at_least: float, unit: str) -> None:
        """A figure that must not be below its bar."""
        self._judge(
            name, f"{value:,.0f} {unit}", f"at least {at_least:,g} {unit}", value >= at_least
        )

    def _judge(self, name: str, value: str, bar: str, holds: bool) -> None:
        print(f"  {name:<58} {value:>14} ({bar}: {'holds' if holds else 'MISSED'})", flush=True)
        if not holds:
            self.missed.append(name)

    def exit(self) -> None:
        """End the program; with an error if a bar was missed."""
        if self.missed:
            print(f"\n{len(self.missed)} bar(s) missed: {', '.join(self.missed)}", flush=True)
        sys.exit(1 if self.missed else 0)


def in_turns(rounds: int, **contenders: Callable[[], float]) -> dict[str, float]:
    """The median figure of each contender, all run in turns so that they meet the same noise."""
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            figures[name].append(run())
    return {name: statistics.median(values) for name, values in figures.items()}
