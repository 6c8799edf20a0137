"""A subscription: the contents of a collection, then its changes, and how far they are complete.

Everything a subscription says is exact and final. It only speaks of times below the collection's
upper, reads them under its capability's hold, and states its own upper after all updates before
that have been handed out. Resuming from a stated upper (see `held_after`) therefore neither repeats
nor loses an update.

It ends when the collection does (its upper becomes empty), when either side cancels it, or when its
capability is gone. It pulls: nothing is read before the receiver asks, so a slow receiver costs no
memory.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import pyarrow as pa

from waterclock.model.errors import TimeForgotten
from waterclock.persist.parts import Selection
from waterclock.persist.reading import changes, snapshot
from waterclock.persist.records import Batch, Bound, keys_of
from waterclock.persist.state import Shard, State
from waterclock.persist.store import Store
from waterclock.storage.api import Message, Progress, ReadCapability, Updates
from waterclock.storage.commands import frontier_of
from waterclock.storage.errors import SubscriptionCancelled
from waterclock.storage.leases import Leases


@dataclass(frozen=True, slots=True)
class _View:
    """What the next messages are made from."""

    columns: pa.Schema
    batches: tuple[Batch, ...]
    upper: Bound


_RENEWAL_S = 1.0
"""Interval at which a waiting receiver renews its capability's lease."""


class Subscription:
    """An iterator of messages. One thread receives; any thread may cancel."""

    def __init__(
        self,
        store: Store,
        leases: Leases,
        capability: ReadCapability,
        at: int,
        contents: bool,
        selection: Selection,
    ) -> None:
        self._store = store
        self._leases = leases
        self._capability = capability
        self._selection = selection
        self._through = at
        """Every update at or before this time has been handed out, or was not asked for."""
        self._owes_contents = contents
        self._failure: BaseException | None = None
        self._news = store.runtime.event()
        store.watch(str(capability.id), self._news)
        self._messages = self._run()

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        """The next message, waiting as long as it takes. Raises the reason if there is none."""
        while True:
            message = self._step()
            if message is not None:
                return message
            self._news.wait(_RENEWAL_S)

    def receive(self, timeout_s: float) -> Message | None:
        """The next message, or None if there is none within the time. StopIteration at the end."""
        deadline = self._store.runtime.monotonic_s() + timeout_s
        while True:
            message = self._step()
            left = deadline - self._store.runtime.monotonic_s()
            if message is not None or left <= 0 or not self._news.wait(left):
                return message

    def cancel(self, reason: str = "the receiver has cancelled it") -> None:
        """End the subscription at its next message; any thread of either side may."""
        if self._failure is None:
            self._failure = SubscriptionCancelled(
                f"the subscription to collection {self._capability.id} has ended: {reason}"
            )
        self._news.set()

    def close(self) -> None:
        """End the subscription in the receiving thread and release what it holds."""
        self.cancel()
        self._messages.close()

    def _step(self) -> Message | None:
        """The next message, or None if there is none yet."""
        self._news.clear()  # before looking, so that no news and no cancel after it is missed
        if self._failure is None:
            try:
                return next(self._messages)
            except StopIteration:
                raise
            except BaseException as error:  # asked again, it must not look like the end
                self._failure = error
        self._messages.close()
        raise self._failure

    def _run(self) -> Generator[Message | None]:
        """All messages, with None in between wherever there is none yet."""
        while True:
            with self._store.pinned(self._view) as view:
                if view is not None:
                    for batch in self._read(view):
                        yield Updates(batch)
            if view is None:
                yield None
                continue
            timeline = self._capability.frontier.timeline.id
            yield Progress(frontier_of(timeline, view.upper))
            if view.upper is None:
                return
            self._through = view.upper - 1

    def _read(self, view: _View) -> Iterator[pa.RecordBatch]:
        read = (self._store, view.columns, view.batches)
        if self._owes_contents:
            self._owes_contents = False
            yield from snapshot(*read, self._through, self._selection)
        yield from changes(*read, self._through + 1, view.upper, self._selection)

    def _view(self, state: State) -> tuple[_View | None, list[str]]:
        """None if there is nothing to tell yet."""
        shard = self._shard(state)
        complete_through = self._through if self._owes_contents else self._through + 1
        if shard.upper is not None and shard.upper <= complete_through:
            return None, []
        found = shard.batches.values()
        wanted = 0 if self._owes_contents else self._through + 1
        batches = tuple(batch for batch in found if batch.max_time >= wanted)
        return _View(shard.columns, batches, shard.upper), keys_of(batches)

    def _shard(self, state: State) -> Shard:
        """The shard, if this subscription still has the right to read on in it."""
        token = self._capability.token
        shard = state.shards[str(self._capability.id)]
        held = shard.capabilities.get(token)
        if held is None or self._leases.is_over(token):
            raise SubscriptionCancelled(
                f"the subscription to collection {shard.id} has ended:"
                " its capability was dropped or has expired"
            )
        self._leases.renew(token, held.lease_ms)
        if shard.since is None or shard.since > self._through:
            since = frontier_of(shard.timeline, shard.since)
            raise TimeForgotten(
                f"the subscription to collection {shard.id} has come to time {self._through},"
                f" which is before its since {since}",
                hint="Hold the capability at or before the last time received.",
            )
        return shard
