"""When capabilities run out.

A capability may have a lease: a time after which, unexercised, it is gone. How long is durable,
when is not: each exercise renews the lease for its full length, in memory and so for free, and a
restart of the server counts as one, for nobody could reach it meanwhile.

Only the thread that commits lets a lease expire. Subscriptions renew theirs from the threads that
receive; one that renews just as its lease expires has lost it, and learns so at its next message.
"""

from __future__ import annotations

from collections.abc import Callable

Clock = Callable[[], int]
"""Milliseconds that never go back."""


class Leases:
    """The deadlines of the capabilities that have one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deadlines: dict[str, int] = {}

    def renew(self, token: str, lease_ms: int | None) -> None:
        """Start the lease anew."""
        if lease_ms is not None:
            self._deadlines[token] = self._clock() + lease_ms

    def forget(self, token: str) -> None:
        self._deadlines.pop(token, None)

    def is_over(self, token: str) -> bool:
        """Whether the lease has run out."""
        deadline = self._deadlines.get(token)
        return deadline is not None and deadline <= self._clock()

    def left_ms(self, token: str) -> int | None:
        """How long the lease still runs, 0 if it is over; None for a token without one."""
        deadline = self._deadlines.get(token)
        return None if deadline is None else max(0, deadline - self._clock())

    def over(self) -> list[str]:
        """The tokens whose lease has run out."""
        now = self._clock()
        return [token for token, deadline in list(self._deadlines.items()) if deadline <= now]
