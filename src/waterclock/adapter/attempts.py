"""Wrong passwords: each makes the next try wait longer, and many are refused for a while.

Tries are counted by role and client address together, and by address alone over all roles. So
whoever guesses slows down itself and those behind the same address, and can not lock a role out for
clients elsewhere. An IPv6 client has its network of 64 bits for an address: it can choose the rest.

A pure state machine over a clock. It remembers a bounded number of addresses, each with a bounded
number of roles; one who tries more roles than that is known by its address alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import ClassVar

from waterclock.adapter.api import SessionEnded

FIRST_DELAY_S = 0.25
LONGEST_DELAY_S = 4.0
TRIES = 10
"""Wrong passwords in a row, per role and address, before tries are refused."""
TRIES_OF_ADDRESS = 100
"""The same for all roles from one address."""
REFUSED_S = 60.0
"""For so long nothing more is tried then; twice as long each time it happens again."""
MOST_REFUSED_S = 900.0
FORGOTTEN_S = 1800.0
"""Without a wrong password for so long, nothing is remembered."""
ADDRESSES = 4096
ROLES_OF_ADDRESS = 64
_LONGEST_QUEUE_S = 5.0
"""Tries of a role that would wait longer than this for their turn are refused at once."""


class TooManyTries(SessionEnded):
    """Too many wrong passwords have come from there."""

    sqlstate: ClassVar[str] = "28000"


@dataclass(slots=True)
class _Count:
    """The wrong passwords of one role from one address, or of all roles from there."""

    failures: int = 0
    last_s: float = 0.0
    next_s: float = 0.0
    """No password is looked at before."""

    def fail(self, now: float, tries: int, *, delays: bool) -> None:
        self.failures += 1
        self.last_s = now
        beyond = self.failures - tries
        if beyond >= 0:
            self.next_s = now + min(REFUSED_S * 2.0 ** min(beyond, 10), MOST_REFUSED_S)
        elif delays:
            self.next_s = max(self.next_s, now + self.delay)

    @property
    def delay(self) -> float:
        if not self.failures:
            return 0.0
        return min(FIRST_DELAY_S * 2.0 ** min(self.failures - 1, 10), LONGEST_DELAY_S)


@dataclass(slots=True)
class _Address:
    all: _Count = field(default_factory=_Count)
    roles: dict[str, _Count] = field(default_factory=dict)


class Attempts:
    """What is remembered of wrong passwords. It belongs to one event loop."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """The clock counts seconds and never goes back."""
        self._clock = clock
        self._addresses: OrderedDict[str, _Address] = OrderedDict()

    def turn(self, role: str, client: str | None) -> float:
        """For how many seconds to wait before a password is looked at. Raises `TooManyTries`.

        Those who try at the same time after a wrong password get their turns one after the other.
        """
        found = self._addresses.get(_network(client))
        if found is None:
            return 0.0
        now = self._clock()
        count = found.roles.get(role)
        if now - found.all.last_s > FORGOTTEN_S:
            del self._addresses[_network(client)]
            return 0.0
        refused_s = max(
            found.all.next_s - now if found.all.failures >= TRIES_OF_ADDRESS else 0.0,
            count.next_s - now if count is not None and count.failures >= TRIES else 0.0,
        )
        if refused_s > 0:
            raise _refused(role, refused_s)
        if count is None:
            return 0.0
        wait_s = max(0.0, count.next_s - now)
        if wait_s > _LONGEST_QUEUE_S:
            raise _refused(role, wait_s)
        count.next_s = max(now, count.next_s) + count.delay
        return wait_s

    def failed(self, role: str, client: str | None) -> None:
        """The password was wrong."""
        now, network = self._clock(), _network(client)
        found = self._addresses.setdefault(network, _Address())
        self._addresses.move_to_end(network)
        found.all.fail(now, TRIES_OF_ADDRESS, delays=False)
        if role in found.roles or len(found.roles) < ROLES_OF_ADDRESS:
            found.roles.setdefault(role, _Count()).fail(now, TRIES, delays=True)
        else:  # a spray over made-up roles is the address's doing, whoever it names next
            found.all.failures = max(found.all.failures, TRIES_OF_ADDRESS)
            found.all.next_s = max(found.all.next_s, now + REFUSED_S)
        while len(self._addresses) > ADDRESSES:
            self._addresses.popitem(last=False)

    def succeeded(self, role: str, client: str | None) -> None:
        """The password was right: the role is in good standing there again."""
        found = self._addresses.get(_network(client))
        if found is not None:
            found.roles.pop(role, None)

    def __len__(self) -> int:
        return sum(1 + len(each.roles) for each in self._addresses.values())


def _network(client: str | None) -> str:
    """The part of an address that a client can not choose by itself."""
    if client is None:
        return ""
    try:
        address = ip_address(client.partition("%")[0])
    except ValueError:
        return client
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(IPv6Address(int(address) >> 64 << 64))
    return str(address)


def _refused(role: str, seconds: float) -> TooManyTries:
    return TooManyTries(
        f'too many failed password attempts for user "{role}" from this address',
        hint=f"Try again in {max(1, round(seconds))} s.",
    )
