"""The disk of a simulation: what outlives a server, and the ports by which one server reaches it.

A port waits as long as the disk takes, fails now and then before or after its effect, fails while
the disk is full, and reaches nothing any more once its server is dead. A death strikes inside an
append, before or after the effect, as the seed decides; the server can not tell it from a disk that
is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pyarrow as pa

from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.consensus.memory import MemoryConsensus
from waterclock.persist.errors import Unavailable
from waterclock.testing.control.scheduler import SimulatedRuntime


class Disk:
    """What is durable, and how the disk is doing."""

    def __init__(self, random: Random, runtime: SimulatedRuntime) -> None:
        self.random = random
        self.runtime = runtime
        self.blob = MemoryBlob()
        self.log = MemoryConsensus()
        self.state: dict[tuple[str, int], Any] = {}
        """State of views, by the name of the view and the time up to which it is complete."""
        self.sync_s = random.choice([0.0001, 0.0005, 0.004])
        self.slow_until = 0.0
        self.full_until = 0.0
        self.failure_rate = random.choice([0.0, 0.0, 0.02])

    def wait(self) -> None:
        """As long as a sync takes."""
        took = self.sync_s * (0.5 + self.random.random())
        if self.runtime.monotonic_s() < self.slow_until:
            took += self.random.random() * 0.4
        self.runtime.sleep(took)

    def require_room(self) -> None:
        if self.runtime.monotonic_s() < self.full_until:
            raise Unavailable("could not write: no space left on device")


class Life:
    """Whether a server lives, and after how many more appends it dies."""

    def __init__(self, on_death: Callable[[], None]) -> None:
        self.is_over = False
        self.appends_left: int | None = None
        self.dies_after_effect = False
        self._on_death = on_death

    def end(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._on_death()

    def require(self) -> None:
        if self.is_over:
            raise Unavailable("the server is dead")

    def strikes(self) -> bool:
        """Counts an append; whether it is the one in which the server dies."""
        if self.appends_left is None:
            return False
        self.appends_left -= 1
        return self.appends_left <= 0


class SimulatedLog:
    """A `Consensus`."""

    def __init__(self, disk: Disk, life: Life) -> None:
        self._disk = disk
        self._life = life

    def append(self, position: int, entry: bytes) -> None:
        disk, life = self._disk, self._life
        life.require()
        disk.require_room()
        strikes = life.strikes()
        chance = disk.random.random()
        fails = chance < disk.failure_rate
        takes_effect = life.dies_after_effect if strikes else chance >= disk.failure_rate / 2
        early = disk.random.random() < 0.5
        if takes_effect and early:
            disk.log.append(position, entry)
        disk.wait()
        if strikes:
            if takes_effect and not early:
                disk.log.append(position, entry)
            life.end()
        life.require()
        if takes_effect and not early:
            disk.log.append(position, entry)
        if fails:
            raise Unavailable("could not append: simulated failure")

    def read(self, start: int) -> Iterator[tuple[int, bytes]]:
        self._life.require()
        return iter(list(self._disk.log.read(start)))

    def end(self) -> int:
        self._life.require()
        return self._disk.log.end()

    def truncate(self, before: int) -> None:
        self._life.require()
        self._disk.wait()
        self._life.require()
        self._disk.log.truncate(before)

    def close(self) -> None:
        pass


class SimulatedBlob:
    """A `Blob`."""

    keeps_checksums = False

    def __init__(self, disk: Disk, life: Life) -> None:
        self._disk = disk
        self._life = life

    def put(self, key: str, data: bytes | pa.Buffer) -> None:
        self._life.require()
        self._disk.require_room()
        self._disk.wait()
        self._life.require()
        self._disk.blob.put(key, data)

    def open(self, key: str) -> pa.NativeFile:
        self._life.require()
        return self._disk.blob.open(key)

    def delete(self, key: str) -> None:
        self._life.require()
        self._disk.wait()
        self._life.require()
        self._disk.blob.delete(key)

    def list(self, prefix: str) -> Iterator[str]:
        self._life.require()
        return iter(list(self._disk.blob.list(prefix)))

    def close(self) -> None:
        pass
