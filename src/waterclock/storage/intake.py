"""What an append brings in: its updates, checked, as batches that a plan can refer to.

The columns of a collection never change, so a write need not ask the store for them. Collections of
the same columns share a bundle, in which the small updates that are committed together become one.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa

from waterclock.model.ids import GlobalId
from waterclock.persist.inline import Bundle, Bundled, is_small
from waterclock.persist.parts import write_batch
from waterclock.persist.records import Batch
from waterclock.persist.rows import check_columns
from waterclock.persist.state import State
from waterclock.persist.store import Store
from waterclock.storage.api import Write
from waterclock.storage.commands import shard_of


@dataclass(frozen=True, slots=True)
class _Inlet:
    """What a collection takes."""

    columns: pa.Schema
    required: tuple[int, ...]
    bundle: Bundle


class Intake:
    """Takes in the updates of writes. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._inlets: dict[GlobalId, _Inlet] = {}
        self._bundles: dict[int, Bundle] = {}
        """By the identity of the columns, which the bundle keeps alive."""

    def take(self, write: Write, stack: ExitStack) -> Batch | Bundled | None:
        """The write's updates, stored if they are too large for the log; None if it has none.

        They are protected until `stack` is closed (see `write_batch`). Raises `WrongColumns` and
        `UnknownCollection`.
        """
        if write.updates is None or is_small(write.updates):
            return self.take_small(write)
        inlet = self._inlet(write.capability.id)
        check_columns(write.updates, inlet.columns, inlet.required)
        return write_batch(self._store, str(write.capability.id), write.updates, stack)

    def take_small(self, write: Write) -> Bundled | None:
        """`take` for a write whose updates are small: it touches no file."""
        updates = write.updates
        if updates is None or not updates.num_rows:
            return None
        inlet = self._inlet(write.capability.id)
        check_columns(updates, inlet.columns, inlet.required)
        return inlet.bundle.add(updates)

    def _inlet(self, collection: GlobalId) -> _Inlet:
        known = self._inlets.get(collection)
        if known is None:
            known = self._store.read(lambda state: self._look(state, collection))
            self._inlets[collection] = known
        return known

    def _look(self, state: State, collection: GlobalId) -> _Inlet:
        shard = shard_of(state, collection)
        bundle = self._bundles.setdefault(id(shard.columns), Bundle(shard.columns))
        return _Inlet(shard.columns, shard.required, bundle)
