"""The background work of a store: merging, deleting blobs nobody needs, and keeping the log short.

`Maintenance.step` does a bounded amount of it and says whether there may be more; who calls it, and
in which thread, is not decided here. Nothing it does changes what any reader sees, and a crash at
any point leaves only work to be done again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Generator

from waterclock.persist.compaction import merge
from waterclock.persist.errors import Damaged, NotWritten
from waterclock.persist.records import Checkpointed, Swept, encode_checkpoint
from waterclock.persist.state import State
from waterclock.persist.store import Store, new_key

_log = logging.getLogger(__name__)
LOOKS = 8
"""The most shards that are looked at in one step for something to merge."""
SWEEP_KEYS = 64
"""The most blobs deleted in one step."""
CHECKPOINT_BYTES = 32 * 1024 * 1024
"""Bytes of log between two checkpoints of the state."""


class Maintenance:
    """Not thread-safe: one thread steps it."""

    def __init__(self, store: Store, checkpoint_bytes: int = CHECKPOINT_BYTES) -> None:
        self._store = store
        self._checkpoint_bytes = checkpoint_bytes
        self._checkpointed_at = 0
        self._merges: dict[str, Generator[None]] = {}
        """The merges under way. The first one has waited longest."""
        self._touched: dict[str, None] = {}
        """The shards to look at in this round, in order."""
        self._unlisted = True
        self._suspects: deque[str] = deque()

    def step(self) -> bool:
        """Do a bounded amount of work; False if there was none."""
        try:
            worked = self._step_merges()
        except NotWritten:  # sweeping may make the room that was lacking
            self._sweep_garbage()
            self._sweep_orphans()
            raise
        worked |= self._sweep_garbage()
        worked |= self._sweep_orphans()
        worked |= self._checkpoint_if_long()
        return worked

    def run(self) -> None:
        """Work until there is nothing left to do."""
        while self.step():
            pass

    def close(self) -> None:
        """Give up the merges that are under way, and what they hold."""
        for steps in self._merges.values():
            steps.close()
        self._merges.clear()

    def _step_merges(self) -> bool:
        """Begin merges of some shards, and take one of those under way a piece further.

        Shards are looked at in rounds. When one ends and there is nothing to merge, there is no
        work, although others may have been touched meanwhile: a look costs more than an append, and
        a shard that is written to all the time need not be looked at all the time.
        """
        if not self._touched:
            self._touched = dict.fromkeys(sorted(self._store.take_touched()))
        for shard in list(self._touched)[:LOOKS]:
            del self._touched[shard]
            if shard not in self._merges:
                self._step(shard, merge(self._store, shard))
        if not self._merges:
            return bool(self._touched)
        shard = next(iter(self._merges))
        self._step(shard, self._merges.pop(shard))
        return True

    def _step(self, shard: str, steps: Generator[None]) -> None:
        """Take a merge a piece further, and put it behind all others. Its end touches the shard."""
        try:
            if next(steps, StopIteration) is not StopIteration:
                self._merges[shard] = steps
        except Damaged as error:  # it stays as it is: whoever reads it is told, and others go on
            _log.error("shard %s can not be merged: %s", shard, error)
        except BaseException:
            self._touched[shard] = None  # to begin anew when the world is well again
            raise

    def _sweep_garbage(self) -> bool:
        """Blobs of batches that were replaced and that no reader still reads."""
        keys = self._store.deletable(SWEEP_KEYS)
        if not keys:
            return False
        self._delete(keys)
        swept = Swept(tuple(keys))
        self._store.commit(lambda _: ([swept], None))
        return True

    def _sweep_orphans(self) -> bool:
        """Blobs that were written and never committed: by a crash, or for a refused command."""
        if self._unlisted:
            self._suspects.extend(self._store.retry.call(lambda: list(self._store.blob.list(""))))
            self._unlisted = False
        self._suspects.extend(self._store.take_abandoned())
        if not self._suspects:
            return False
        count = min(len(self._suspects), SWEEP_KEYS)
        suspects = [self._suspects.popleft() for _ in range(count)]
        try:
            self._delete(self._store.orphans(suspects))
        except BaseException:
            self._suspects.extend(suspects)  # to look again when the world is well again
            raise
        return True

    def _delete(self, keys: list[str]) -> None:
        blob, retry = self._store.blob, self._store.retry
        for key in keys:
            retry.call(lambda key=key: blob.delete(key))  # type: ignore[misc]

    def _checkpoint_if_long(self) -> bool:
        if self._store.logged_bytes - self._checkpointed_at < self._checkpoint_bytes:
            return False
        logged = self._store.logged_bytes
        checkpoint(self._store)
        self._checkpointed_at = logged
        return True


def checkpoint(store: Store) -> None:
    """Keep the whole state as one blob and forget the log before it."""
    state = store.read(State.to_checkpoint)
    data = encode_checkpoint(state)
    event = Checkpointed(state.position, new_key("checkpoint", store.epoch))
    with store.writing(event.key):
        store.retry.call(lambda: store.blob.put(event.key, data))
        store.commit(lambda _: ([event], None))
    store.truncate_log(event.position)
