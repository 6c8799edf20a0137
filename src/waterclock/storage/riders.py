"""Commands of Storage that ride in the commit of a layer above.

A definition and the collection behind it must appear together, and go together. Therefore creating
a collection and dropping capabilities exist also as plans, which the owner of the definitions puts
into one commit with them (`persist.plans.together`).

Capabilities made or dropped here belong to the system and never expire, so no lease is involved.
Where only a token is known, as after a restart, `held` tells the capability as it is now.

Nothing here tells the frontiers of a collection to somebody who has no capability of it. What
diagnostics show, of who holds what and of the room that data takes, names no token.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import pyarrow as pa

from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId, IdKind
from waterclock.persist import records
from waterclock.persist.records import AnyEvent, Downgraded, Granted, Right
from waterclock.persist.state import State
from waterclock.persist.store import Plan, Store
from waterclock.storage import commands
from waterclock.storage.api import Description, ReadCapability, Token, Write, WriteCapability
from waterclock.storage.controller import Storage
from waterclock.storage.leases import Leases

N = TypeVar("N")


def create(
    collection: GlobalId, description: Description, start: Frontier[int] | None = None
) -> Plan[tuple[ReadCapability, WriteCapability]]:
    """`Storage.create` as a plan, for capabilities that never expire."""
    first = start or description.timeline.start()
    return commands.create(collection, description, first, _no_leases(), None)


def append(
    storage: Storage, writes: Sequence[Write], along: Plan[None]
) -> tuple[WriteCapability, ...]:
    """`Storage.append` with a plan that rides in its commit."""
    return storage._append(writes, [along])


def release(tokens: Iterable[Token]) -> Plan[None]:
    """Drop these capabilities, wherever they have moved to; one that is gone already is no error.

    Each token is to be named once.
    """
    named = list(tokens)

    def plan(state: State) -> tuple[list[AnyEvent], None]:
        events: list[AnyEvent] = []
        for token in named:
            shard = state.shard_of.get(token)
            if shard is not None:
                events.append(Downgraded(shard, token, None))
        return events, None

    return plan


def release_all_but(kept: Collection[GlobalId]) -> Plan[tuple[GlobalId, ...]]:
    """Drop every capability of every user's collection that is not kept; tells which had any.

    It is for the start of a server, before anybody else uses the collections: what a crash left
    half-made has no name and so no user.
    """
    names = {str(collection) for collection in kept}

    def plan(state: State) -> tuple[list[AnyEvent], tuple[GlobalId, ...]]:
        events: list[AnyEvent] = []
        released: list[GlobalId] = []
        for name, shard in state.shards.items():
            collection = GlobalId.parse(name)
            if name not in names and shard.capabilities and collection.kind is IdKind.USER:
                released.append(collection)
                events += [Downgraded(name, token, None) for token in shard.capabilities]
        return events, tuple(released)

    return plan


def held(store: Store, token: Token) -> ReadCapability | WriteCapability | None:
    """The capability of that token as it is now; None if it is gone."""
    return store.read(lambda state: _held_in(state, token))


def writers(
    storage: Storage, stated: Iterable[WriteCapability]
) -> dict[GlobalId, ReadCapability | WriteCapability | None]:
    """The capabilities as they are now, all at one moment; None for those that are gone."""
    named = list(stated)
    return storage._store.read(lambda state: {w.id: _held_in(state, w.token) for w in named})


def _held_in(state: State, token: Token) -> ReadCapability | WriteCapability | None:
    shard_id = state.shard_of.get(token)
    if shard_id is None:
        return None
    shard = state.shards[shard_id]
    kept = shard.capabilities[token]
    made = ReadCapability if kept.right is Right.READ else WriteCapability
    return made(
        token, GlobalId.parse(shard_id), commands.frontier_of(shard.timeline, kept.frontier)
    )


def columns_of(store: Store, collection: GlobalId) -> pa.Schema:
    """The columns that the collection's updates have."""
    return store.read(lambda state: commands.shard_of(state, collection).columns)


def own_writer(store: Store, collection: GlobalId) -> WriteCapability | None:
    """Storage's own right to write a collection that it fills; None if that has ended."""

    def look(state: State) -> str | None:
        token: str | None = commands.shard_of(state, collection).description.get("writer")
        return token

    token = store.read(look)
    assert token is not None, f"{collection} is not filled by storage"
    writer = held(store, Token(token))
    assert writer is None or isinstance(writer, WriteCapability)
    return writer


def release_own_writers(collections: Iterable[GlobalId]) -> Plan[None]:
    """Drop storage's own rights to write these collections, as far as it has any."""
    named = list(collections)

    def plan(state: State) -> tuple[list[AnyEvent], None]:
        shards = (commands.shard_of(state, collection) for collection in named)
        tokens = (Token(shard.description.get("writer", "")) for shard in shards)
        return release(tokens)(state)

    return plan


def hold(collection: GlobalId, time: int) -> Plan[ReadCapability]:
    """A new read capability at the time, which must be readable."""

    return _held_at(collection, time, None)


def lease(storage: Storage, collection: GlobalId, time: int, lease_ms: int) -> Plan[ReadCapability]:
    """`hold`, by a capability that expires unless it is renewed: for somebody outside."""

    def plan(state: State) -> tuple[list[AnyEvent], ReadCapability]:
        events, given = granted(state)
        storage._leases.renew(given.token, lease_ms)
        return events, given

    granted = _held_at(collection, time, lease_ms)
    return plan


def _held_at(collection: GlobalId, time: int, lease_ms: int | None) -> Plan[ReadCapability]:
    def plan(state: State) -> tuple[list[AnyEvent], ReadCapability]:
        shard = commands.shard_of(state, collection)
        held = shard.since is not None and shard.since <= time
        assert held, f"{collection} is not held at {time}"
        token = commands.new_token()
        kept = records.Capability(token, Right.READ, time, lease_ms)
        given = ReadCapability(token, collection, commands.frontier_of(shard.timeline, time))
        return [Granted(shard.id, kept)], given

    return plan


def lease_left_ms(storage: Storage, token: Token) -> int | None:
    """How long the lease of a capability still runs; None for one that never expires."""
    return storage._leases.left_ms(token)


class Reader(NamedTuple, Generic[N]):
    """A read capability that somebody holds."""

    name: N | None
    """What the caller calls it, who has its token; None if somebody else has that."""
    collection: GlobalId
    since: int
    lease_ms: int | None
    left_ms: int | None


def readers(storage: Storage, names: Mapping[Token, N]) -> list[Reader[N]]:
    """Every read capability there is, for showing who holds what back.

    Tokens stay inside: who is to be shown as the holder of one has to know it already.
    """

    def look(state: State) -> list[Reader[N]]:
        return [
            Reader(
                names.get(Token(kept.id)),
                GlobalId.parse(name),
                kept.frontier,
                kept.lease_ms,
                storage._leases.left_ms(kept.id),
            )
            for name, shard in state.shards.items()
            for kept in shard.capabilities.values()
            if kept.right is Right.READ and kept.frontier is not None
        ]

    return storage._store.read(look)


def frontiers(
    storage: Storage, held: Iterable[ReadCapability | WriteCapability]
) -> dict[GlobalId, tuple[Frontier[int], Frontier[int]]]:
    """The since and upper of each collection, all at one moment, for the holder of a capability.

    Only whoever holds a collection may rely on its since a moment later. Raises `CapabilityUnknown`
    if one of the capabilities is gone.
    """

    def look(state: State) -> dict[GlobalId, tuple[Frontier[int], Frontier[int]]]:
        return {
            each.id: commands.frontiers_of(commands.shard_held(state, storage._leases, each))
            for each in held
        }

    return storage._store.read(look)


def stored_bytes(store: Store, collection: GlobalId) -> int | None:
    """How many bytes the updates of a collection take up; None if there is no such collection."""

    def look(state: State) -> int | None:
        shard = state.shards.get(str(collection))
        return None if shard is None else sum(batch.size for batch in shard.batches.values())

    return store.read(look)


def highest_user_id(store: Store) -> int:
    """The largest number of a user's collection that ever existed; 0 if none has."""

    def look(state: State) -> int:
        ids = (GlobalId.parse(name) for name in state.shards)
        return max((each.number for each in ids if each.kind is IdKind.USER), default=0)

    return store.read(look)


def _no_leases() -> Leases:
    return Leases(lambda: 0)
