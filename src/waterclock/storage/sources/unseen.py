"""Collections that are filled before anything refers to them.

Whoever fills them has the rights to read them. Then the catalog takes these over, or they are
released; after a crash that is done at the next start, for the collections are of no object.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.plans import together
from waterclock.persist.records import AnyEvent
from waterclock.persist.state import State
from waterclock.persist.store import Store
from waterclock.storage import riders
from waterclock.storage.api import Description, ReadCapability, Writers
from waterclock.storage.controller import Storage


class Unseen:
    """Some new collections, which storage itself writes. One thread at a time."""

    def __init__(
        self,
        storage: Storage,
        store: Store,
        schemas: Mapping[GlobalId, Schema],
        start: Frontier[int],
        noted: Sequence[AnyEvent] = (),
    ) -> None:
        """Make them, and what is to be noted with them, in one commit."""
        self._storage = storage
        self._store = store
        made = together(
            riders.create(each, Description(schema, Writers.STORAGE), start)
            for each, schema in schemas.items()
        )

        def plan(state: State) -> tuple[list[AnyEvent], list[ReadCapability]]:
            events, given = made(state)
            return [*events, *noted], [reader for reader, _ in given]

        self.readers = {reader.id: reader for reader in store.commit(plan)}
        """The right to read each."""

    def forget_before(self, time: int, collections: Collection[GlobalId]) -> None:
        """Let these be read from the time on only."""
        moves = [(self.readers[each], EPOCH_MILLIS.frontier(time)) for each in collections]
        for moved in self._storage.downgrade_capabilities(moves):
            self.readers[moved.id] = moved

    def release(self, collections: Collection[GlobalId]) -> None:
        """Let go of these."""
        tokens = riders.release(self.readers[each].token for each in collections)
        self._store.commit(together([tokens, riders.release_own_writers(collections)]))
