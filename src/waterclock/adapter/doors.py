"""Who may be at the door: connections that have not proven yet who they are.

They have places of their own, so none of them takes the place of a session. When all places are
taken, a newcomer gets the place of the oldest: a well-meaning client is through in milliseconds, a
silent one never. The place is taken from the address that has most of them, so one address can not
push the others out.

A pure data structure. It turns nobody away itself, but says who is to go.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Door(Generic[K]):
    """The connections at the door, by the addresses that they come from."""

    def __init__(self, most: int, most_of_address: int) -> None:
        assert most > 0, "somebody must be able to come in"
        assert most_of_address > 0, "somebody must be able to come in"
        self._most = most
        self._most_of_address = most_of_address
        self._addresses: dict[K, str] = {}
        self._waiting: dict[str, dict[K, None]] = {}

    def __len__(self) -> int:
        return len(self._addresses)

    def __contains__(self, key: K) -> bool:
        return key in self._addresses

    def enter(self, key: K, address: str | None) -> K | None:
        """A connection comes; the one that has to go for it, if one has to."""
        assert key not in self._addresses, "it is at the door already"
        place = address or ""
        gone: K | None = None
        if len(self._waiting.get(place, ())) >= self._most_of_address:
            gone = self._oldest(place)
        elif len(self._addresses) >= self._most:
            gone = self._oldest(max(self._waiting, key=lambda each: len(self._waiting[each])))
        self._addresses[key] = place
        self._waiting.setdefault(place, {})[key] = None
        return gone

    def _oldest(self, place: str) -> K:
        oldest = next(iter(self._waiting[place]))
        self.leave(oldest)
        return oldest

    def leave(self, key: K) -> None:
        """It has come in, or gone. Nothing happens if it is not there."""
        place = self._addresses.pop(key, None)
        if place is None:
            return
        del self._waiting[place][key]
        if not self._waiting[place]:
            del self._waiting[place]
