"""Outputs that join a source which runs: a source of their own reads them until both have met.

A companion is a source for the new outputs alone. It has its own bindings and its own place
upstream, and nobody else knows it, so the source that it is for goes on meanwhile. When it has
caught up, the source is paused between two steps, the companion goes on to exactly the place
upstream that the source is bound to, and both are made complete at the same time. From there on
the outputs can be the source's: they hold what was upstream at that place, as all its others do.

The outputs can be read from that time on. What they held before, when they were ahead of the source
or behind it, was never seen by anybody.

A companion that was given up leaves nothing. After a crash its collections are of no object and are
released at the next start, and what it had upstream is removed then.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar

from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.store import Store
from waterclock.storage.api import ReadCapability
from waterclock.storage.controller import Storage
from waterclock.storage.sources.api import SourceDescription
from waterclock.storage.sources.errors import SourceFault
from waterclock.storage.sources.ingestion import Ingestion
from waterclock.storage.sources.loop import Ingestions, SourceBusy
from waterclock.storage.sources.status import Health
from waterclock.storage.sources.unseen import Unseen

_PATIENCE_S = 60.0
"""So long a companion tries again what does not work upstream."""
_MEETING_S = 10.0
"""So long the source stands still for the companion to get to its place."""
_REST_S = 0.1


class JoiningStopped(WaterclockError):
    """Nobody wants the outputs any more."""

    sqlstate: ClassVar[str] = "57014"


class Companion:
    """Reads outputs that are to join a source. `stop` may be called by any thread, all else by one
    at a time.
    """

    def __init__(
        self,
        storage: Storage,
        store: Store,
        sources: Ingestions,
        description: SourceDescription,
        schemas: Mapping[GlobalId, Schema],
    ) -> None:
        """`schemas` has those of all collections of the description. They are made here."""
        self._sources = sources
        self._description = description
        self._cleanup = sources.cleanup_after(description)
        self._runtime = store.runtime
        self._stopping = self._runtime.event()
        start = EPOCH_MILLIS.frontier(self._runtime.wall_ms())
        noted = sources.cleanup_notes(description)
        self._unseen = Unseen(storage, store, schemas, start, noted)
        self._ingestion: Ingestion = sources.opened(description, _Held(self._unseen))

    @property
    def readers(self) -> Mapping[GlobalId, ReadCapability]:
        """The right to read each of its collections, which nobody else has."""
        return self._unseen.readers

    def stop(self) -> None:
        """End what `join` does, soon."""
        self._stopping.set()
        self._ingestion.stop()

    # Reading

    def join(self, source: GlobalId) -> int:
        """Read until the outputs are where the source is; the time at which both are complete.

        The source is paused then, and stays so for the caller to `resume`; if this raises, it is
        not. From that time on the outputs can be read, and the source can take them over.
        """
        while True:
            self._catch_up()
            with suppress(SourceBusy):
                time = self._try_join(source)
                if time is not None:
                    return time
            self._stopping.wait(_REST_S)

    def _try_join(self, source: GlobalId) -> int | None:
        paused = self._sources.pause(source)
        time = None
        try:
            time = self._try_meet(paused)
        finally:
            if time is None:
                self._sources.resume(source)
        return time

    def _catch_up(self) -> None:
        """Step until nothing more is known upstream. Raises what can not be mended by waiting."""
        patient_until = self._runtime.monotonic_s() + _PATIENCE_S
        while True:
            again_ms = self._step()
            if self._ingestion.status.health is Health.STALLED:
                if self._runtime.monotonic_s() > patient_until:
                    raise self._ingestion.status.error or _unknown()
            elif again_ms is None:
                return
            else:
                patient_until = self._runtime.monotonic_s() + _PATIENCE_S
            if again_ms:
                self._stopping.wait(again_ms / 1000)

    def _step(self) -> int | None:
        """A step; when to do the next one, or None if there is nothing more to do."""
        outcome = self._ingestion.step()
        if self._stopping.is_set():
            raise JoiningStopped("canceling statement due to user request")
        self._ingestion.tidy()
        report = self._ingestion.report()
        for status in (report.status, *report.failed.values()):
            if status.health is Health.FAILED:
                raise status.error or _unknown()
        return outcome.again_ms

    def _try_meet(self, source: Ingestion) -> int | None:
        """Get to where the paused source is; None if that is not possible now."""
        if source.status.health in (Health.FAILED, Health.FINISHED):
            raise SourceFault(
                f"the source can not take up anything: it has {source.status.health.value}",
                detail=None if source.status.error is None else source.status.error.message,
            )
        there, here = source.standing(), self._ingestion.standing()
        if there is None or here is None or not there.bound.covers(here.bound):
            return None
        self._ingestion.limit = there.bound
        try:
            until = self._runtime.monotonic_s() + _MEETING_S
            while here is None or here.bound != there.bound:
                if self._runtime.monotonic_s() > until:
                    return None
                self._step()
                here = self._ingestion.standing()
        finally:
            self._ingestion.limit = None
        assert here.complete_to is not None
        assert there.complete_to is not None
        time = max(here.complete_to, there.complete_to) - 1
        source.advance(time)
        self._ingestion.advance(time)
        filled = [each for each in self.readers if each != self._description.remap]
        self._unseen.forget_before(time, filled)
        return time

    # The end

    def finish(self, *, has_joined: bool) -> None:
        """Let go of everything but, if they have joined, the outputs. Raises `TransientFault` if
        something could not be removed upstream; that is tried again at the next start.
        """
        self._ingestion.close()
        remap = self._description.remap
        gone = [remap] if has_joined else list(self.readers)
        self._unseen.release(gone)
        if not has_joined:
            self._ingestion.remove_state()
        if self._cleanup is not None:
            self._cleanup()


class _Held:
    """Implements `SourceHold` over capabilities of one's own, which stay where they are."""

    def __init__(self, collections: Unseen) -> None:
        self._collections = collections

    def capability(self, collection: GlobalId) -> ReadCapability:
        return self._collections.readers[collection]

    def move(self, time: int) -> None:
        pass

    def close(self) -> None:
        pass


def _unknown() -> SourceFault:
    return SourceFault("the source has ended")
