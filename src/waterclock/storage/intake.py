"""What an append brings in: its updates, checked, as batches that a plan can refer to.

The columns of a collection never change, so a write need not ask the store for them. Collections of
the same columns share a bundle, in which the small updates that are committed together become one.
"""

from __future__ import annotations

from contextlib import ExitStack

from waterclock.model.ids import GlobalId
from waterclock.persist.inline import Bundle, Bundled, is_small
from waterclock.persist.parts import write_batch
from waterclock.persist.records import Batch
from waterclock.persist.store import Store
from waterclock.storage.api import Write
from waterclock.storage.commands import shard_of


class Intake:
    """Takes in the updates of writes. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bundles: dict[GlobalId, Bundle] = {}
        self._shared: dict[int, Bundle] = {}
        """By the identity of the columns, which the bundle keeps alive."""

    def take(self, write: Write, stack: ExitStack) -> Batch | Bundled | None:
        """The write's updates, stored if they are too large for the log; None if it has none.

        They are protected until `stack` is closed (see `write_batch`). Raises `WrongColumns` and
        `UnknownCollection`.
        """
        if write.updates is None or is_small(write.updates):
            return self.take_small(write)
        self._bundle(write.capability.id).check(write.updates)
        return write_batch(self._store, str(write.capability.id), write.updates, stack)

    def take_small(self, write: Write) -> Bundled | None:
        """`take` for a write whose updates are small: it touches no file."""
        updates = write.updates
        if updates is None or not updates.num_rows:
            return None
        collection = write.capability.id
        bundle = self._bundles.get(collection) or self._bundle(collection)
        return bundle.add(updates)

    def _bundle(self, collection: GlobalId) -> Bundle:
        known = self._bundles.get(collection)
        if known is None:
            columns = self._store.read(lambda state: shard_of(state, collection).columns)
            known = self._shared.setdefault(id(columns), Bundle(columns))
            self._bundles[collection] = known
        return known
