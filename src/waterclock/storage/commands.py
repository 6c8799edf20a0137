"""The commands as plans: from the state and what was asked to what happens and the answer.

Each plan validates first and names what is wrong; only then does it say what happens. Plans run one
after the other in the committing thread, so what they see is what is true, and nothing can come
between the check and the change.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from waterclock.model.errors import (
    ForeignTime,
    FrontierRegression,
    NoProgress,
    NotATime,
    UpdateOutsideWindow,
)
from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.model.lattice import EpochMillis
from waterclock.model.schema import Schema
from waterclock.model.timeline import Timeline
from waterclock.persist import records
from waterclock.persist.inline import Bundled
from waterclock.persist.records import (
    AnyEvent,
    Appended,
    Batch,
    Bound,
    Created,
    Downgraded,
    Expired,
    Granted,
    Right,
)
from waterclock.persist.schema_codec import encode_schema
from waterclock.persist.state import Shard, State
from waterclock.persist.store import Plan
from waterclock.storage.api import (
    Description,
    ReadCapability,
    Token,
    Write,
    WriteCapability,
    Writers,
)
from waterclock.storage.errors import (
    CapabilityExpired,
    CapabilityMisstated,
    CapabilityUnknown,
    CollectionTwice,
    IdInUse,
    UnknownCollection,
)
from waterclock.storage.leases import Leases

Capability = ReadCapability | WriteCapability
C = TypeVar("C", ReadCapability, WriteCapability)

_EPOCH_MILLIS = EpochMillis()


def new_token() -> Token:
    """An identifier that can not be guessed."""
    return Token(secrets.token_hex(16))


def frontier_of(timeline: str, bound: Bound) -> Frontier[int]:
    """A frontier of the records as the model has it."""
    named: Timeline[int] = Timeline(timeline, _EPOCH_MILLIS)
    return Frontier(named, () if bound is None else (bound,))


def shard_of(state: State, collection: GlobalId) -> Shard:
    """The shard of a collection that exists or once existed."""
    shard = state.shards.get(str(collection))
    if shard is None:
        raise UnknownCollection(f"collection {collection} does not exist")
    return shard


def valid(state: State, leases: Leases, presented: Capability) -> tuple[Shard, records.Capability]:
    """The capability as it is kept, if it is as presented. Exercising it renews its lease."""
    token = presented.token
    shard_id = state.shard_of.get(token)
    if shard_id is None:
        raise CapabilityUnknown(
            f"the capability for collection {presented.id} does not exist",
            detail="It was dropped, its lease expired, or it was never granted.",
            hint="Acquire new capabilities for the collection.",
        )
    shard = state.shards[shard_id]
    kept = shard.capabilities[token]
    is_leased = kept.lease_ms is not None
    if is_leased and leases.is_over(token):
        raise CapabilityExpired(
            f"the lease of the capability for collection {presented.id} has expired",
            hint="Acquire new capabilities for the collection, and renew them in time.",
        )
    stated = presented.frontier
    if (
        kept.right is not presented.right
        or str(presented.id) != shard.id
        or stated.timeline.id != shard.timeline
        or stated.elements != (kept.frontier,)
    ):
        raise _misstated(presented, shard, kept)
    if is_leased:
        leases.renew(token, kept.lease_ms)
    return shard, kept


def shard_held(state: State, leases: Leases, capability: Capability) -> Shard:
    """The shard, for somebody who has a live capability of it, wherever that has moved to.

    Whoever holds a capability may look at the collection's frontiers. Looking exercises nothing,
    so it renews no lease, and a holder need not know to where another thread has just moved it.
    """
    token = capability.token
    shard_id = state.shard_of.get(token)
    if shard_id is None or shard_id != str(capability.id) or leases.is_over(token):
        raise CapabilityUnknown(
            f"there is no such capability for collection {capability.id} any more",
            detail="It was dropped, its lease expired, or it was never granted.",
            hint="Acquire new capabilities for the collection.",
        )
    return state.shards[shard_id]


def frontiers_of(shard: Shard) -> tuple[Frontier[int], Frontier[int]]:
    """The collection's since and upper."""
    since = frontier_of(shard.timeline, shard.since)
    return since, frontier_of(shard.timeline, shard.upper)


def _misstated(
    presented: Capability, shard: Shard, kept: records.Capability
) -> CapabilityMisstated:
    held = frontier_of(shard.timeline, kept.frontier)
    made = ReadCapability if kept.right is Right.READ else WriteCapability
    return CapabilityMisstated(
        f"the capability for collection {presented.id} is not as stated",
        detail=f"It is a {kept.right.name.lower()} capability for {shard.id} at {held}.",
        kept=made(presented.token, GlobalId.parse(shard.id), held),
    )


def bound_of(frontier: Frontier[int]) -> Bound:
    """The frontier as records have it: one whole number, or none.

    Durable collections are on total orders. `NotATime` refuses a frontier of anything else, such
    as of pairs: it would have several elements, which nothing below can hold.
    """
    elements = frontier.elements
    if not elements:
        return None
    if len(elements) == 1 and type(elements[0]) is int:
        return elements[0]
    raise NotATime(
        f"frontier {frontier} is not that of a durable collection",
        detail="The times of a collection are whole numbers, so its frontiers have one element.",
    )


def _bound(shard: Shard, frontier: Frontier[int]) -> Bound:
    """`bound_of`; `ForeignTime` if the frontier is of another timeline."""
    if frontier.timeline.id != shard.timeline:
        raise ForeignTime(shard.timeline, frontier.timeline.id)
    return bound_of(frontier)


def create(
    collection: GlobalId,
    description: Description,
    start: Frontier[int],
    leases: Leases,
    lease_ms: int | None,
) -> Plan[tuple[ReadCapability, WriteCapability]]:
    """Bind the id. For a collection that Storage fills, the write capability stays inside."""
    timeline = description.timeline.id
    if start.timeline.id != timeline:
        raise ForeignTime(timeline, start.timeline.id)
    first = _first(start)
    read = records.Capability(new_token(), Right.READ, first, lease_ms)
    fills = description.writers is Writers.STORAGE
    write = records.Capability(new_token(), Right.WRITE, first, None if fills else lease_ms)
    detail: dict[str, Any] = {"writers": description.writers.value}
    if fills:
        detail["writer"] = write.id

    def plan(state: State) -> tuple[list[AnyEvent], tuple[ReadCapability, WriteCapability]]:
        shard = str(collection)
        if shard in state.shards:
            raise IdInUse(
                f"collection id {collection} is already used",
                detail="An id names one collection forever, also after it is dropped.",
            )
        for granted in (read, write):
            leases.renew(granted.id, granted.lease_ms)
        created = Created(shard, timeline, encode_schema(description.schema), detail, first)
        events: list[AnyEvent] = [created, Granted(shard, read), Granted(shard, write)]
        given = new_token() if fills else Token(write.id)
        frontier = start.timeline.empty() if fills else start
        return events, (
            ReadCapability(Token(read.id), collection, start),
            WriteCapability(given, collection, frontier),
        )

    return plan


def _first(start: Frontier[int]) -> int:
    first = bound_of(start)
    if first is None:
        raise NotATime("a collection can not begin at the empty frontier, which is after all times")
    return first


def check(presented: Capability, leases: Leases) -> Plan[Schema]:
    """Only validate the capability, renew its lease, and tell the collection's schema."""

    def plan(state: State) -> tuple[list[AnyEvent], Schema]:
        shard, _ = valid(state, leases, presented)
        return [], shard.schema

    return plan


def clone(presented: C, leases: Leases) -> Plan[C]:
    """An independent copy, with a lease of the same length."""

    def plan(state: State) -> tuple[list[AnyEvent], C]:
        shard, kept = valid(state, leases, presented)
        copy = msgspec.structs.replace(kept, id=new_token())
        leases.renew(copy.id, copy.lease_ms)
        given = type(presented)(Token(copy.id), presented.id, presented.frontier)
        return [Granted(shard.id, copy)], given

    return plan


def downgrade(presented: C, frontier: Frontier[int], leases: Leases) -> Plan[C]:
    """Move the capability forward. To where it already is, this only renews its lease."""

    def plan(state: State) -> tuple[list[AnyEvent], C]:
        shard, kept = valid(state, leases, presented)
        bound = _bound(shard, frontier)
        if not presented.frontier <= frontier:
            raise FrontierRegression(
                f"the capability for collection {presented.id} can not move back"
                f" from {presented.frontier} to {frontier}"
            )
        moved = type(presented)(presented.token, presented.id, frontier)
        if bound == kept.frontier:
            return [], moved
        if bound is None:
            leases.forget(presented.token)
        return [Downgraded(shard.id, presented.token, bound)], moved

    return plan


def append(
    writes: Sequence[tuple[Write, Batch | Bundled | None]], leases: Leases
) -> Plan[tuple[WriteCapability, ...]]:
    """Apply all writes or none. With each comes what was made of its updates."""

    def plan(state: State) -> tuple[list[AnyEvent], tuple[WriteCapability, ...]]:
        events: list[AnyEvent] = []
        answers: list[WriteCapability] = []
        next_batch = state.next_batch
        for write, batch in writes:
            capability = write.capability
            shard, kept = valid(state, leases, capability)
            new_frontier = write.new_frontier
            bound = _bound(shard, new_frontier)
            numbered = None
            if batch is not None:
                numbered = batch.numbered(next_batch)
                next_batch += 1
            _check_window(capability.id, kept.frontier, bound, numbered)
            events.append(Appended(shard.id, capability.token, bound, numbered))
            answers.append(WriteCapability(capability.token, capability.id, new_frontier))
        if len(writes) > 1:
            _check_distinct([write.capability.id for write, _ in writes])
        return events, tuple(answers)

    return plan


def _check_window(collection: GlobalId, old: Bound, new: Bound, batch: Batch | None) -> None:
    assert old is not None, "a capability that is kept is not at the empty frontier"
    if old == new:
        raise NoProgress(
            f"append to collection {collection} does not move its frontier on from {_shown(old)}",
            hint="The new frontier must be after the times of the updates.",
        )
    if new is not None and new < old:
        raise FrontierRegression(
            f"append to collection {collection} can not move its frontier back"
            f" from {_shown(old)} to {_shown(new)}"
        )
    if batch is not None and (batch.min_time < old or (new is not None and batch.max_time >= new)):
        raise UpdateOutsideWindow(
            f"append to collection {collection} has updates outside its window",
            detail=f"The updates are at {batch.min_time} to {batch.max_time};"
            f" the window goes from {_shown(old)} up to, and without, {_shown(new)}.",
        )


def _shown(bound: Bound) -> str:
    """The frontier as messages have it."""
    return "{}" if bound is None else f"{{{bound}}}"


def _check_distinct(ids: list[GlobalId]) -> None:
    seen: set[GlobalId] = set()
    for collection in ids:
        if collection in seen:
            raise CollectionTwice(f"append names collection {collection} more than once")
        seen.add(collection)


def acquire(
    collection: GlobalId, leases: Leases, lease_ms: int | None, *, read: bool, write: bool
) -> Plan[tuple[ReadCapability, WriteCapability]]:
    """New capabilities at the present frontiers; useless ones where a frontier is released for
    good.
    """

    def plan(state: State) -> tuple[list[AnyEvent], tuple[ReadCapability, WriteCapability]]:
        shard = shard_of(state, collection)
        since = shard.since if read else None
        open_to_us = write and shard.description["writers"] == Writers.HOLDER
        upper = shard.upper if open_to_us else None
        reader = ReadCapability(new_token(), collection, frontier_of(shard.timeline, since))
        writer = WriteCapability(new_token(), collection, frontier_of(shard.timeline, upper))
        events: list[AnyEvent] = []
        for granted, right in ((reader, Right.READ), (writer, Right.WRITE)):
            bound = granted.frontier.only()
            if bound is not None:
                leases.renew(granted.token, lease_ms)
                kept = records.Capability(granted.token, right, bound, lease_ms)
                events.append(Granted(shard.id, kept))
        return events, (reader, writer)

    return plan


def expire(leases: Leases) -> Plan[int]:
    """Release the holds of all leases that have run out, and tell how many."""

    def plan(state: State) -> tuple[list[AnyEvent], int]:
        over = leases.over()
        events: list[AnyEvent] = []
        for token in over:
            leases.forget(token)
            shard = state.shard_of.get(token)
            if shard is not None:
                events.append(Expired(shard, token))
        return events, len(events)

    return plan
