"""The timestamp oracle: which times statements happen at, in an order that everybody agrees on.

Two numbers for each timeline: `read`, the time at which a read sees every write acknowledged so
far, and `write`, the last time given to a write. Always `read <= write`. Then

- a new write is after every write before it, and after every read, for it gets more than `write`;
- a write counts only once it is durable (`apply_write`), so a read never waits for one that fails;
- a read after that is at or after it.

So reads and writes, each at some instant between its call and its return, are in one order along
which times never decrease, and at equal times all writes come before all reads. Nothing of this is
told by the clock, which only keeps the times close to those on the wall: it may stand still, or
jump.

What is durable is one number for each timeline, a *bound* below which all times given out lie. It
is moved ahead of them, by a second or so, so that giving out a time costs no sync to disk; after a
crash the times go on from the bound. A clean end leaves the bound right after the last time.

The oracle does not make anything happen at the times it gives out, and knows no collections. The
frontiers that a time must respect are told by its callers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NewType

import msgspec

from waterclock.model.lattice import MAX_EPOCH_MILLIS
from waterclock.model.timeline import EPOCH_MILLIS, Timeline
from waterclock.oracle.errors import OutOfTime
from waterclock.persist.errors import Unavailable
from waterclock.persist.notes import Notes
from waterclock.runtime import SYSTEM, Runtime

Timestamp = NewType("Timestamp", int)
"""A time of the timeline that the oracle is for, in milliseconds."""
Clock = Callable[[], int]
"""Milliseconds since 1970. It may be wrong, and it may go back."""

PREFIX = "oracle/"
LEAD_MS = 1000


class _Bound(msgspec.Struct, frozen=True):
    version: int
    bound: int


class Oracle:
    """The times of one timeline. Thread-safe.

    One oracle at a time may exist for the timeline of a data set, which the ownership of the log
    below sees to: an oracle that was taken over can not move its bound, and must not be asked any
    more.
    """

    def __init__(
        self,
        notes: Notes,
        clock: Clock,
        timeline: Timeline[int] = EPOCH_MILLIS,
        *,
        lead_ms: int = LEAD_MS,
        runtime: Runtime = SYSTEM,
    ) -> None:
        """Go on after all times that were ever given out. `notes` has the prefix `PREFIX`."""
        self.timeline = timeline
        self._notes = notes
        self._clock = clock
        self._lead_ms = lead_ms
        self._lock = runtime.lock()
        kept = notes.all().get(timeline.id)
        self._bound = 0 if kept is None else msgspec.msgpack.decode(kept, type=_Bound).bound
        """Durable. All times given out are before it."""
        self._read = max(self._bound - 1, 0)
        self._write = self._read

    def read_ts(self, at_least: int = 0) -> Timestamp:
        """The time for a read: every write that was applied before the call is at or before it.

        `at_least` is a time that the read can not do without, such as the since of an input. If
        that is later than any write, it counts from now on for everybody: later reads are not
        before it, and later writes after it.
        """
        with self._lock:
            if at_least > self._read:
                self._push(at_least)
            return Timestamp(self._read)

    def write_ts(self, at_least: int = 0) -> Timestamp:
        """A new time for writes: after all reads before the call, and after all writes.

        It is not before `at_least`, the upper of what is written to. The write counts when it is
        durable and `apply_write` has said so; if it fails, nothing need be said.
        """
        with self._lock:
            time = max(self._write + 1, self._clock(), at_least)
            self._require_bound(time)
            self._write = time
            return Timestamp(time)

    def apply_write(self, time: int) -> None:
        """Say that the write at the time is durable: all reads from now on are at it or after.

        The time need not have been given out here; a write AS OF a time has its own.
        """
        with self._lock:
            if time > self._read:
                self._push(time)

    def renew(self) -> None:
        """Move the bound ahead if it is near, so that the next caller need not wait for it.

        To be called now and then, from a thread that may wait.
        """
        with self._lock:
            coming = max(self._write, self._clock())
            if coming + self._lead_ms // 2 >= self._bound:
                self._set_bound(coming + 1 + self._lead_ms)

    def close(self) -> None:
        """Let the next start go on right after the last time. The oracle may not be asked again.

        If that can not be kept, the next start goes on from the bound, as after a crash.
        """
        with self._lock, suppress(Unavailable):
            self._set_bound(self._write + 1)

    def _push(self, time: int) -> None:
        """Move the time of reads on. A failure leaves everything as it was."""
        self._require_bound(time)
        self._read = time
        self._write = max(self._write, time)

    def _require_bound(self, time: int) -> None:
        """See to it that the time is before the durable bound, before anybody learns of it."""
        if time >= self._bound:
            self._set_bound(time + 1 + self._lead_ms)

    def _set_bound(self, bound: int) -> None:
        if bound > MAX_EPOCH_MILLIS:
            raise OutOfTime(f"there is no time left after {self._write}")
        kept = msgspec.msgpack.encode(_Bound(1, bound))
        self._notes.put(self.timeline.id, kept)
        self._bound = bound
