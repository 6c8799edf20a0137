"""The frontiers of collections, for tests that look on from outside and hold nothing.

In the product only whoever has a capability is told them (`storage.riders.frontiers`).
"""

from __future__ import annotations

from collections.abc import Iterable

from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.persist.state import State
from waterclock.persist.store import Store
from waterclock.storage.commands import frontiers_of, shard_of


def frontiers(
    store: Store, collections: Iterable[GlobalId]
) -> dict[GlobalId, tuple[Frontier[int], Frontier[int]]]:
    """The since and upper of each collection, all at one moment."""

    def look(state: State) -> dict[GlobalId, tuple[Frontier[int], Frontier[int]]]:
        return {each: frontiers_of(shard_of(state, each)) for each in collections}

    return store.read(look)
