"""How much a step of a group of views takes: less after it ran out of memory, then more again.

A step that runs out of memory is tried again with half of what it took, divided among twice as many
tasks. So what can not be divided, because it happened at one time, gets more tasks; and what can
gets smaller too. Each time that several steps in a row have succeeded, one halving is taken back.
There is a least size: what fails even then fails.
"""

from __future__ import annotations

from waterclock.persist.cutting import Limit

MOST_HALVINGS = 7
GROW_AFTER = 8
"""Successful steps before a larger one is tried."""


class StepSize:
    """The size of the next step. Not thread-safe: one thread steps a group at a time."""

    def __init__(self, largest: Limit) -> None:
        self._largest = largest
        self._halvings = 0
        self._succeeded = 0

    @property
    def limit(self) -> Limit:
        """The most that the next step takes, unless what happened at one time is more."""
        rows, size = self._largest.rows >> self._halvings, self._largest.size >> self._halvings
        return Limit(max(1, rows), max(1, size))

    @property
    def spread(self) -> int:
        """How many times the usual number of tasks it is divided among."""
        return 1 << self._halvings

    def failed(self) -> bool:
        """The step has run out of memory: let the next be smaller; False if it can not be."""
        self._succeeded = 0
        if self._halvings == MOST_HALVINGS:
            return False
        self._halvings += 1
        return True

    def succeeded(self) -> None:
        """The step went well: let a later one be larger again."""
        if not self._halvings:
            return
        self._succeeded += 1
        if self._succeeded == GROW_AFTER:
            self._succeeded = 0
            self._halvings -= 1
