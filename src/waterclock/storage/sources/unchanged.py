"""Whether sources are as they were, for a commit that is only right if they are.

Whoever reads a source and then writes a table at a later time relies on it that the source has no
update in between, up to and including the time of the write. What the source binds later must
therefore get a later time. So the commit that writes the table also moves the uppers of the source
beyond that time. That is an append without updates, as the source makes it itself when nothing has
happened; the source notices at its next append that it is further on (`ledger`).

It can not be done while a binding is durable and its data is not: the data belongs at the time of
the binding. Then there is news, and the commit is refused.

What has changed is looked up in the committed state, since plans do without the list of batches.
The plan only asks that no source has moved since it was looked up; else that has to be done again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import ClassVar

from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.records import AnyEvent, Appended, Bound
from waterclock.persist.state import Shard, State
from waterclock.persist.store import Plan, Store
from waterclock.storage.sources.api import SourceDescription


class SourceChanged(WaterclockError):
    """A source has brought something since it was read."""

    sqlstate: ClassVar[str] = "40001"


class SourceMoved(Exception):
    """A source has moved since it was looked up."""


def has_update(state: State, collection: GlobalId, after: int, until: int | None = None) -> bool:
    """Whether there is an update after a time and not after another one; if the collection is gone,
    it is not as it was.
    """
    shard = state.shards.get(str(collection))
    if shard is None or shard.since is None:
        return True
    return any(
        batch.max_time > after and (until is None or batch.min_time <= until)
        for batch in shard.batches.values()
    )


def unchanged(
    store: Store,
    sources: Iterable[SourceDescription],
    reads: Sequence[tuple[Collection[GlobalId], int]],
    until: int,
) -> Plan[None]:
    """Let the sources be complete at `until`. Raises `SourceChanged` if one of the collections has
    an update after the time at which it was read, up to `until`, or may still get one.

    The plan raises `SourceMoved` if one of the sources has moved since: then ask again.
    """
    named = list(sources)

    def look(state: State) -> list[Bound]:
        for collections, time in reads:
            if any(has_update(state, each, time, until) for each in collections):
                raise SourceChanged("A source that was read has brought something since.")
        return [_upper(state, each) for each in named]

    uppers = store.read(look)

    def plan(state: State) -> tuple[list[AnyEvent], None]:
        events: list[AnyEvent] = []
        for source, upper in zip(named, uppers, strict=True):
            if _upper(state, source) != upper:
                raise SourceMoved(f'source "{source.name}" has moved on')
            if upper is not None and upper <= until:
                events += [
                    Appended(shard.id, _own_writer(shard), until + 1, None)
                    for shard in _shards(state, source)
                ]
        return events, None

    return plan


def _upper(state: State, source: SourceDescription) -> Bound:
    """Up to where the source is complete. Raises `SourceChanged` if it is not done with what is
    before that.
    """
    shards = _shards(state, source)
    uppers = {shard.upper for shard in shards}
    is_new = any(shard.since == shard.upper and shard.since is not None for shard in shards)
    if len(uppers) > 1 or is_new:
        raise SourceChanged(f'Source "{source.name}" is just taking in something new.')
    [upper] = uppers
    return upper


def _shards(state: State, source: SourceDescription) -> list[Shard]:
    """The collections of a source that are on the timeline of the tables."""
    found = [state.shards[str(each)] for each in source.collections]
    return [shard for shard in found if shard.timeline == EPOCH_MILLIS.id]


def _own_writer(shard: Shard) -> str:
    writer: str = shard.description["writer"]
    return writer
