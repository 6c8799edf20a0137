"""Storage: the seven commands over a store of shards.

Each command is durable when it returns and has changed nothing when it raises; except that after
`Unavailable` and `Fenced` it is unknown whether it happened, which `acquire_capabilities` tells.
Contents and frontiers are revealed only by `subscribe_at` and `acquire_capabilities`; everything
else a user may want to know is a view over these.

One background thread merges, sweeps and lets leases expire; commands run in their callers' threads.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import pyarrow.compute as pc

from waterclock.model.errors import TimeForgotten
from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.persist.blob.api import Blob
from waterclock.persist.consensus.api import Consensus
from waterclock.persist.directory import DataDirectory
from waterclock.persist.inline import is_small
from waterclock.persist.maintenance import Maintenance
from waterclock.persist.parts import Selection, filtered
from waterclock.persist.plans import together
from waterclock.persist.retry import Retry
from waterclock.persist.rows import row_schema
from waterclock.persist.state import State
from waterclock.persist.store import Plan, Store
from waterclock.runtime import Runtime
from waterclock.storage import commands
from waterclock.storage.api import (
    Description,
    ReadCapability,
    Write,
    WriteCapability,
)
from waterclock.storage.background import Background
from waterclock.storage.intake import Intake
from waterclock.storage.leases import Clock, Leases
from waterclock.storage.subscription import Subscription

C = TypeVar("C", ReadCapability, WriteCapability)


class Storage:
    """The Storage layer of one server. Thread-safe."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        """`clock` is that of leases; the default is the monotonic one of the store's runtime."""
        self._store = store
        self._leases = Leases(clock or _clock_of(store.runtime))
        self._intake = Intake(store)
        self.maintenance = Maintenance(store)
        self._background: Background | None = None
        self._directory: DataDirectory | None = None
        for token, lease_ms in store.read(_leases_in):
            self._leases.renew(token, lease_ms)

    @property
    def runtime(self) -> Runtime:
        """The clock and the threads of everything that works on this storage."""
        return self._store.runtime

    @classmethod
    def open(
        cls,
        blob: Blob,
        consensus: Consensus,
        *,
        clock: Clock | None = None,
        retry: Retry | None = None,
        background: bool = True,
        scratch: Path | None = None,
    ) -> Storage:
        """Recover everything durable and become its owner; other owners are fenced off.

        Temporary files go to `scratch`, else to the system's place for them.
        """
        owner = f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex}"
        storage = cls(Store.open(blob, consensus, owner, retry, scratch=scratch), clock)
        if background:
            storage._background = Background(
                storage.maintain, lambda: storage._store.has_failed, storage.runtime
            )
        return storage

    @classmethod
    def open_directory(cls, path: Path, *, background: bool = True) -> Storage:
        """Open, or begin, the data in a local directory. Raises `DataInUse` if a running server has
        it.
        """
        directory = DataDirectory(path)
        try:
            storage = cls.open(
                directory.blob,
                directory.consensus,
                background=background,
                scratch=directory.scratch,
            )
        except BaseException:
            directory.consensus.close()
            directory.release()
            raise
        storage._directory = directory
        return storage

    def create(
        self,
        collection: GlobalId,
        description: Description,
        *,
        start: Frontier[int] | None = None,
        lease_ms: int | None = None,
    ) -> tuple[ReadCapability, WriteCapability]:
        """Bind `collection`, never used before, to a new one whose since and upper are `start`.

        Without a start it begins at the least time of its timeline. Raises `IdInUse`, and
        `ForeignTime` for a start of another timeline.
        """
        first = start or description.timeline.start()
        return self._store.commit(
            commands.create(collection, description, first, self._leases, lease_ms)
        )

    def subscribe_at(
        self,
        capability: ReadCapability,
        *,
        as_of: Frontier[int] | None = None,
        snapshot: bool = True,
        columns: Sequence[str] | None = None,
        condition: pc.Expression | None = None,
    ) -> Subscription:
        """The collection from `as_of` on, which is the capability's frontier or later.

        Returns at once; messages come as soon as they are known. `columns` and `condition` are
        applied before anything is sent. Raises `CapabilityInvalid`, and `TimeForgotten` for an
        `as_of` that the capability does not hold.
        """
        at = capability.frontier if as_of is None else as_of
        schema = self._store.commit(commands.check(capability, self._leases))
        begin = commands.bound_of(at)
        if begin is None or not capability.frontier <= at:
            raise TimeForgotten(
                f"collection {capability.id} can not be read at {at} with a capability"
                f" at {capability.frontier}"
            )
        selected = None if columns is None else schema.project(columns).names
        filtered(row_schema(schema).empty_table(), condition)
        return Subscription(
            self._store, self._leases, capability, begin, snapshot, Selection(selected, condition)
        )

    def clone_capability(self, capability: C) -> C:
        """An independent capability for the same collection and frontier, with as long a lease."""
        return self._store.commit(commands.clone(capability, self._leases))

    def downgrade_capability(self, capability: C, frontier: Frontier[int]) -> C:
        """Move the capability forward to `frontier`. To where it already is, this renews its lease.

        Raises `CapabilityInvalid`, or `FrontierRegression` if that is not forward.
        """
        return self._store.commit(commands.downgrade(capability, frontier, self._leases))

    def downgrade_capabilities(
        self, moves: Sequence[tuple[ReadCapability, Frontier[int]]]
    ) -> tuple[ReadCapability, ...]:
        """`downgrade_capability` for many, in one commit: all of them, or none if one raises."""
        plans = [commands.downgrade(each, frontier, self._leases) for each, frontier in moves]
        return tuple(self._store.commit(together(plans)))

    def drop_capability(self, capability: C) -> C:
        """Downgrade the capability to the empty frontier: its hold and its right are gone."""
        return self.downgrade_capability(capability, capability.frontier.timeline.empty())

    def append(self, *writes: Write) -> tuple[WriteCapability, ...]:
        """Apply every write, or none, durably, and move each capability to its new frontier.

        Each write's updates must be at or after its capability's frontier and not at or after the
        new one. Raises `CapabilityInvalid`, `WrongColumns`, `UpdateOutsideWindow`, `NoProgress`,
        `FrontierRegression`.
        """
        return self._append(writes)

    def _append(
        self, writes: Sequence[Write], along: Sequence[Plan[None]] = ()
    ) -> tuple[WriteCapability, ...]:
        """`append` in one commit with what a layer above changes (see `riders.append`)."""
        with ExitStack() as stack:
            taken = [(write, self._intake.take(write, stack)) for write in writes]
            appended = commands.append(taken, self._leases)
            moved: tuple[WriteCapability, ...]
            moved, *_ = self._store.commit(together([appended, *along]))
            return moved

    async def append_async(self, *writes: Write) -> tuple[WriteCapability, ...]:
        """`append` for a coroutine. Cancelling it gives up the answer, not the change."""
        for write in writes:
            if write.updates is not None and not is_small(write.updates):
                return await asyncio.to_thread(self.append, *writes)  # it may write files
        taken = [(write, self._intake.take_small(write)) for write in writes]
        return await self._store.commit_soon(commands.append(taken, self._leases))

    def acquire_capabilities(
        self,
        collection: GlobalId,
        *,
        lease_ms: int | None = None,
        read: bool = True,
        write: bool = True,
    ) -> tuple[ReadCapability, WriteCapability]:
        """Capabilities at the collection's present since and upper, as far as they can be had.

        A frontier that everybody has released, that is not asked for, or that only Storage may
        move, comes as a useless capability at the empty frontier. Raises `UnknownCollection`.
        """
        return self._store.commit(
            commands.acquire(collection, self._leases, lease_ms, read=read, write=write)
        )

    def maintain(self) -> bool:
        """Do a bounded amount of background work; False if there was none. One thread at a time."""
        expired = self.expire_leases()
        return self.maintenance.step() or expired > 0

    def expire_leases(self) -> int:
        """Release the holds of leases that have run out, and tell how many."""
        return self._store.commit(commands.expire(self._leases)) if self._leases.over() else 0

    def close(self) -> None:
        """Finish what was asked, end the subscriptions, and stop. Idempotent."""
        if self._background is not None:
            self._background.stop()
        self.maintenance.close()
        self._store.close()
        if self._directory is not None:
            self._directory.release()
            self._directory = None

    def __enter__(self) -> Storage:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _clock_of(runtime: Runtime) -> Clock:
    return lambda: int(runtime.monotonic_s() * 1000)


def _leases_in(state: State) -> list[tuple[str, int | None]]:
    return [(c.id, c.lease_ms) for s in state.shards.values() for c in s.capabilities.values()]
