"""The servers of a simulation: one that owns the data, and earlier ones that do not know it yet."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from waterclock.persist.blob.api import Blob
from waterclock.persist.blob.unreliable import UnreliableBlob
from waterclock.persist.consensus.api import Consensus
from waterclock.persist.consensus.unreliable import UnreliableConsensus
from waterclock.persist.errors import BlobMissing, Fenced, Unavailable
from waterclock.persist.retry import Retry
from waterclock.storage.controller import Storage
from waterclock.testing.simulation.ports import Life, MortalBlob, MortalConsensus
from waterclock.testing.thresholds import checkpoint_often

ATTEMPTS = 4
"""How often a server tries before it gives up; few, so that it happens."""
CHECKPOINT_BYTES = 4_000
MOST_STALE = 2
MOST_WORK = 12
"""So many steps of maintenance at most are done at a time."""


class Server:
    """One server with a life of its own."""

    def __init__(self, number: int, life: Life, storage: Storage) -> None:
        self.number = number
        self.life = life
        self.storage = storage

    @property
    def has_failed(self) -> bool:
        """Whether it answers nothing more."""
        try:
            self.storage._store.read(lambda _: None)
        except (Fenced, Unavailable):
            return True
        return self.life.is_over

    def kill(self) -> None:
        """End it without a word to the data."""
        self.life.is_over = True
        self.storage.close()


class Servers:
    """Opens servers one after the other on the same data. The last one opened is the owner.

    In a pause between two attempts of the owner another server may take over: the one moment that
    a single thread of clients would never meet otherwise.
    """

    def __init__(
        self,
        blob: Blob,
        consensus: Consensus,
        clock: Callable[[], int],
        random: Random,
        failure_rate: float,
    ) -> None:
        self._blob = blob
        self._consensus = consensus
        self._clock = clock
        self._random = random
        self._failure_rate = failure_rate
        self._opening = False
        self._owner: Server | None = None
        self.stale: list[Server] = []
        """Those that live although another one has opened the data after them."""
        self.opened = 0
        self.refusal: Unavailable | None = None
        """Why the last one that could not be opened could not."""

    @property
    def owner(self) -> Server:
        assert self._owner is not None, "no server has been opened"
        return self._owner

    @property
    def has_owner(self) -> bool:
        """Whether the last server that was opened still works, as far as anyone knows."""
        return self._owner is not None and not self._owner.has_failed

    def try_open(self) -> Server | None:
        """Another server, which takes over; None if that fails, perhaps after taking over."""
        self.opened += 1
        number, life = self.opened, Life()
        if self._failure_rate and self._random.random() < 0.1:
            life.end_within(self._random.randint(1, 12), after_effect=self._random.random() < 0.5)
        rate, seed = self._failure_rate, self._random.getrandbits(32)
        self._opening = True
        try:
            storage = Storage.open(
                UnreliableBlob(MortalBlob(self._blob, life), seed, rate),
                UnreliableConsensus(MortalConsensus(self._consensus, life), seed + 1, rate),
                clock=self._clock,
                retry=Retry(ATTEMPTS, sleep=lambda _: self._pause(number)),
                background=False,
            )
        except Unavailable as error:
            self.refusal = error
            return None
        finally:
            self._opening = False
        checkpoint_often(storage, CHECKPOINT_BYTES)
        if self._owner is not None:
            self.stale.append(self._owner)
        self._owner = Server(number, life, storage)
        return self._owner

    def _pause(self, number: int) -> None:
        is_owner = self._owner is not None and self._owner.number == number
        if is_owner and not self._opening and self._random.random() < 0.1:
            server = self.try_open()
            if server is not None and self._random.random() < 0.5:
                self._work(server)

    def _work(self, server: Server) -> None:
        """Let it merge, sweep and cut the log, before the one in the pause goes on."""
        try:
            for _ in range(self._random.randint(1, MOST_WORK)):
                server.storage.maintenance.step()
        except (Fenced, Unavailable):
            pass
        except BlobMissing:
            if server is self._owner:  # if not, another one has taken over from it and swept
                raise

    def bury(self) -> None:
        """End the stale ones that have failed, and the oldest of too many."""
        for server in list(self.stale):
            if server.has_failed or server in self.stale[:-MOST_STALE]:
                server.kill()
                self.stale.remove(server)

    def calm(self) -> None:
        """End all of them; nothing fails from now on."""
        self.end()
        self._failure_rate = 0.0

    def end(self) -> None:
        """End all of them."""
        for server in (*self.stale, *([self._owner] if self._owner else [])):
            server.kill()
        self.stale.clear()
        self._owner = None
