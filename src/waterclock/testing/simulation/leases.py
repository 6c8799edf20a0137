"""When a lease may run out, and when it must have, as seen by those who hold the capabilities.

A holder knows when it last exercised a capability for sure, and when it may have done so: in a
command that was refused, or whose outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable

from waterclock.persist.records import Capability


class Deadlines:
    """The two deadlines of each capability that has a lease."""

    def __init__(self) -> None:
        self._earliest: dict[str, int] = {}
        self._latest: dict[str, int] = {}

    def exercised(self, capability: Capability, now: int) -> None:
        """The lease has begun anew."""
        self.perhaps_exercised(capability, now)
        if capability.lease_ms is not None:
            self._earliest[capability.id] = now + capability.lease_ms

    def perhaps_exercised(self, capability: Capability, now: int) -> None:
        if capability.lease_ms is not None:
            self._latest[capability.id] = now + capability.lease_ms
            self._earliest.setdefault(capability.id, now)

    def may_be_over(self, token: str, now: int) -> bool:
        return token in self._earliest and self._earliest[token] <= now

    def must_be_over(self, token: str, now: int) -> bool:
        return token in self._latest and self._latest[token] <= now

    def over(self, tokens: Iterable[str], now: int) -> set[str]:
        """Those that may be over."""
        return {token for token in tokens if self.may_be_over(token, now)}
