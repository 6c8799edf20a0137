"""The timelines that relations are on, and the time at which something over them begins.

Tables, and sources that are reclocked, are on one timeline, whose times the oracle gives out. A
source may bring a timeline of its own. What is read, or maintained, together is on one timeline,
for times of two can not be compared; and nothing of another one can be written to a table, whose
writes are ordered with what they were made from.

On a timeline of its own nobody here decides what time it is. Something new begins at the last time
at which all that it is made of is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from waterclock.adapter.holds import Hold
from waterclock.catalog.objects import Source, SourceProgress
from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.model.timeline import EPOCH_MILLIS, Timeline
from waterclock.oracle.errors import TimelinesDiffer

if TYPE_CHECKING:
    from waterclock.adapter.coordinator import Coordinator

Frontiers = Mapping[GlobalId, tuple[Frontier[int], Frontier[int]]]


def common_timeline(core: Coordinator, collections: Iterable[GlobalId]) -> Timeline[int]:
    """The timeline that all of them are on; that of the tables if there are none.

    Raises `TimelinesDiffer` with their names.
    """
    return timeline_of(core, core.holds.frontiers(collections))


def timeline_of(core: Coordinator, found: Frontiers) -> Timeline[int]:
    """The same, for collections whose frontiers are known."""
    timelines = {since.timeline.id: since.timeline for since, _ in found.values()}
    if len(timelines) > 1:
        raise TimelinesDiffer.of({_shown(core, c): s.timeline.id for c, (s, _) in found.items()})
    return next(iter(timelines.values()), EPOCH_MILLIS)


def beginning(core: Coordinator, inputs: Iterable[GlobalId], hold: Hold) -> Frontier[int]:
    """Where something that is made of the inputs begins. They are held, from then on at least.

    Raises `TimelinesDiffer`.
    """
    found = core.holds.frontiers(inputs)
    timeline = timeline_of(core, found)
    first = max((hold.times[each] for each in found), default=0)
    if timeline == EPOCH_MILLIS:
        return timeline.frontier(core.oracle.read_ts(first))
    uppers = [bound for _, upper in found.values() if (bound := upper.only()) is not None]
    return timeline.frontier(max(first, min(uppers) - 1) if uppers else first)


def require_of_tables(timeline: str | None) -> None:
    """Raise `TimelinesDiffer` if what was read at a time of this timeline is to be written."""
    if timeline not in (None, EPOCH_MILLIS.id):
        raise TimelinesDiffer(
            "can not write to a table what was read on another timeline",
            detail=f'What was read is on "{timeline}", and tables are on "{EPOCH_MILLIS.id}".',
            hint="Create a materialized view to keep the result of a query.",
        )


def compaction(core: Coordinator, behind: int) -> dict[str, int]:
    """How far each timeline but that of the tables may be forgotten.

    That is so many times before the last one at which everything on it is complete, so that all
    of it can always be read together.
    """
    least: dict[str, int] = {}
    for _, upper in core.holds.frontiers_elsewhere().values():
        bound, name = upper.only(), upper.timeline.id
        if bound is not None:
            least[name] = min(bound, least.get(name, bound))
    return {name: bound - 1 - behind for name, bound in least.items() if bound - 1 > behind}


def _shown(core: Coordinator, collection: GlobalId) -> str:
    """The relation that a collection is of, as errors name it."""
    catalog = core.current
    item = catalog.try_item(collection)
    if item is None:
        owners = (each for each in catalog.items() if collection in each.collections)
        item = next(owners, None)
    if isinstance(item, Source) and collection == item.collections[0]:
        parts = map(catalog.item, catalog.users.get(item.id, ()))
        item = next((each for each in parts if isinstance(each, SourceProgress)), item)
    return str(collection) if item is None else catalog.described(item)
