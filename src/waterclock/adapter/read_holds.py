"""Read holds of users: named rights to read relations as of a time, while they are renewed.

A read hold is two things. Durably it is a capability with a lease for each collection behind its
relations, and a note that says whose it is; both are made in one commit, so a crash leaves all of a
hold or nothing. While the server runs it is also a `Hold`, which is what reads select their times
by. The capabilities decide: when a lease has run out, the `Hold` is closed and the note removed.

A hold belongs to a role, like the rights it stands for. It is released when the role is dropped;
and it lets go of a relation that is dropped, or that the role may not read any more. It never keeps
anybody from dropping anything. `prune` notices all that, a moment after it has happened.

All times here are those of one hold's timeline: a hold keeps all its collections at one time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from waterclock.adapter.errors import CollectionGone
from waterclock.adapter.holds import Hold, Holder, Holds
from waterclock.catalog import privileges
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.errors import DuplicateObject, PermissionDenied, UnknownObject
from waterclock.catalog.objects import AnyRelation, Oid, Role
from waterclock.errors import WaterclockError
from waterclock.model.errors import FrontierRegression
from waterclock.model.ids import GlobalId
from waterclock.persist.notes import Notes
from waterclock.persist.plans import together
from waterclock.persist.records import AnyEvent
from waterclock.persist.state import State
from waterclock.persist.store import Plan, Store
from waterclock.storage import riders
from waterclock.storage.api import ReadCapability, Token
from waterclock.storage.controller import Storage
from waterclock.storage.errors import CapabilityInvalid

PREFIX = "read_hold/"
KIND = "read hold"
MAX_HOLDS = 1000
DEFAULT_LEASE_MS = 5 * 60_000
LEAST_LEASE_MS, LONGEST_LEASE_MS = 1000, 7 * 24 * 3_600_000


class TooManyHolds(WaterclockError):
    """There are as many read holds as there may be."""

    sqlstate: ClassVar[str] = "53400"


class HoldBroken(WaterclockError):
    """The hold does not keep all of its relations readable any more."""

    sqlstate: ClassVar[str] = "55000"


class KeptHold(msgspec.Struct, frozen=True):
    """What is noted of a hold. `relations` has the collections behind each of its relations,
    `tokens` the capability for each collection.
    """

    owner: int
    lease_ms: int
    relations: dict[str, list[str]]
    tokens: dict[str, str]

    @property
    def collections(self) -> list[GlobalId]:
        return [GlobalId.parse(collection) for collection in self.tokens]


@dataclass(frozen=True, slots=True)
class Shown:
    """A hold as the catalog shows it."""

    name: str
    owner: Oid
    lease_ms: int
    left_ms: int
    tokens: Mapping[Token, GlobalId]


class ReadHolds:
    """All read holds of one server. Thread-safe."""

    def __init__(self, storage: Storage, store: Store, holds: Holds) -> None:
        """Take up the holds that there are. Every collection that can be read must be known to
        `holds` already.
        """
        self._storage = storage
        self._store = store
        self._holds = holds
        self._notes = Notes(store, PREFIX)
        self._lock = storage.runtime.lock()
        self._kept: dict[str, KeptHold] = {}
        self._open: dict[str, Hold] = {}
        self._pruned_at: int | None = None
        for name, note in self._notes.all().items():
            self._kept[name] = msgspec.msgpack.decode(note, type=KeptHold)
            self._resume(name)

    def _resume(self, name: str) -> None:
        """Hold in memory what is held durably; what can not be is found by `prune`."""
        kept = self._kept[name]
        found = self._capabilities(kept)
        try:
            hold = self._holds.take(found, Holder(KIND, name))
        except CollectionGone:  # dropped just before the restart
            return
        hold.move(max((_time(each) for each in found.values()), default=0))
        self._open[name] = hold

    def _capabilities(self, kept: KeptHold) -> dict[GlobalId, ReadCapability]:
        """Those of a hold's capabilities that are still there."""
        found = {}
        for token in kept.tokens.values():
            capability = riders.held(self._store, Token(token))
            if isinstance(capability, ReadCapability):
                found[capability.id] = capability
        return found

    # Statements

    def create(
        self,
        name: str,
        owner: Oid,
        relations: Mapping[GlobalId, Sequence[GlobalId]],
        hold: Hold,
        time: int,
        lease_ms: int,
    ) -> None:
        """Make the hold that is open in memory a durable one, by its name.

        `relations` has the collections behind each relation; the hold keeps all of them at the
        time. Raises `DuplicateObject` and `TooManyHolds`; then the hold stays the caller's.
        """
        with self._lock:
            self._require_room(name)
            collections = list(dict.fromkeys(c for each in relations.values() for c in each))
            grants = together(
                riders.lease(self._storage, each, time, lease_ms) for each in collections
            )
            behind = {str(r): [str(c) for c in found] for r, found in relations.items()}

            def plan(state: State) -> tuple[list[AnyEvent], KeptHold]:
                events, given = grants(state)
                tokens = {str(each.id): str(each.token) for each in given}
                made = KeptHold(owner, lease_ms, behind, tokens)
                note = {name: msgspec.msgpack.encode(made)}
                return events + self._notes.events(note), made

            self._kept[name] = self._store.commit(plan)
            hold.holder = Holder(KIND, name)
            self._open[name] = hold

    def _require_room(self, name: str) -> None:
        if name in self._kept:
            raise DuplicateObject(f'read hold "{name}" already exists')
        if len(self._kept) >= MAX_HOLDS:
            raise TooManyHolds(
                "too many read holds",
                detail=f"There are {MAX_HOLDS}, as many as there may be.",
                hint="Drop those that mz_internal.mz_read_holds shows and nobody needs.",
            )

    def exists(self, name: str) -> bool:
        with self._lock:
            return name in self._kept

    def renew(self, catalog: Catalog, role: Oid, name: str, to: int | None = None) -> None:
        """Start the lease again and, with `to`, keep only that time and later ones.

        Raises `UnknownObject`, `PermissionDenied`; `HoldBroken` if a relation of the hold was
        dropped, may not be read any more, or if the lease has run out; `FrontierRegression`.
        """
        with self._lock:
            kept = self._owned(catalog, role, name)
            self._require_whole(catalog, name, kept)
            found = self._capabilities(kept)
            try:
                self._move(found, to)
            except CapabilityInvalid as error:
                raise _expired(name) from error
            if len(found) < len(kept.tokens):
                raise _expired(name)
            if to is not None:
                self._open[name].move(to)

    def _move(self, found: Mapping[GlobalId, ReadCapability], to: int | None) -> None:
        """Exercise all capabilities, which renews their leases; in one commit."""
        moves = []
        for each in found.values():
            timeline = each.frontier.timeline
            if to is not None and to < _time(each):
                raise FrontierRegression(
                    f"a read hold at {_time(each)} can not go back to {to}",
                    hint="What is before the time of a hold may be forgotten already."
                    " Create another hold.",
                )
            moves.append((each, each.frontier if to is None else timeline.frontier(to)))
        self._storage.downgrade_capabilities(moves)

    def _require_whole(self, catalog: Catalog, name: str, kept: KeptHold) -> None:
        lost = [r for r in kept.relations if not _may_read(catalog, Oid(kept.owner), r)]
        if lost or name not in self._open:
            items = (catalog.try_item(GlobalId.parse(each)) for each in lost)
            what = [catalog.described(item) for item in items if item is not None]
            why = f"Its role may not read {what[0]}." if what else "A relation of it was dropped."
            raise HoldBroken(
                f'read hold "{name}" does not hold all of its relations any more',
                detail=why,
                hint="Drop it, and create another one on the relations that are left.",
            )

    def drop(self, catalog: Catalog, role: Oid, name: str) -> None:
        """Release the hold. Raises `UnknownObject` and `PermissionDenied`."""
        with self._lock:
            self._owned(catalog, role, name)
            self._remove(name)

    def _owned(self, catalog: Catalog, role: Oid, name: str) -> KeptHold:
        kept = self._kept.get(name)
        if kept is None:
            raise UnknownObject(
                f'read hold "{name}" does not exist',
                detail="It was never created, it was dropped, or its lease has run out.",
                hint="mz_internal.mz_read_holds shows the holds that there are.",
            )
        is_own = kept.owner in privileges.roles_of(catalog, role)
        if not is_own and not catalog.get(role, Role).superuser:
            raise PermissionDenied(f"must be owner of read hold {name}")
        return kept

    def _remove(self, name: str) -> None:
        """Forget the hold, durably. For whoever has the lock."""
        kept = self._kept[name]
        self._commit(riders.release(map(Token, kept.tokens.values())), name, None)
        del self._kept[name]
        hold = self._open.pop(name, None)
        if hold is not None:
            hold.close()

    def _commit(self, released: Plan[None], name: str, kept: KeptHold | None) -> None:
        """Drop capabilities, and note what is left of the hold."""

        def plan(state: State) -> tuple[list[AnyEvent], None]:
            events, _ = released(state)
            puts = {} if kept is None else {name: msgspec.msgpack.encode(kept)}
            return events + self._notes.events(puts, [name] if kept is None else ()), None

        self._store.commit(plan)

    # What follows from the rest of the world

    def prune(self, catalog: Catalog) -> None:
        """Release what is not to be held any more: see the module. Costs little if there is
        nothing to do.
        """
        with self._lock:
            if not self._kept:
                return
            self._storage.expire_leases()
            for name in self._expired():
                self._remove(name)
            if self._pruned_at == catalog.version:
                return
            for name in list(self._kept):
                self._let_go(catalog, name)
            self._pruned_at = catalog.version

    def _expired(self) -> list[str]:
        """The holds of which a capability is gone though its collection is not."""
        known = self._holds.held
        return [
            name
            for name, kept in self._kept.items()
            if any(
                GlobalId.parse(collection) in known and self._is_gone(token)
                for collection, token in kept.tokens.items()
            )
        ]

    def _is_gone(self, token: str) -> bool:
        return riders.held(self._store, Token(token)) is None

    def _let_go(self, catalog: Catalog, name: str) -> None:
        """Release what belongs to relations that are gone or may not be read any more."""
        kept = self._kept[name]
        owner = Oid(kept.owner)
        relations = {r: c for r, c in kept.relations.items() if _may_read(catalog, owner, r)}
        if len(relations) == len(kept.relations):
            return
        needed = {collection for each in relations.values() for collection in each}
        if not needed:
            self._remove(name)
            return
        left = {c: token for c, token in kept.tokens.items() if c in needed}
        gone = [Token(token) for c, token in kept.tokens.items() if c not in needed]
        if gone:
            smaller = msgspec.structs.replace(kept, tokens=left)
            self._commit(riders.release(gone), name, smaller)
            self._kept[name] = smaller
        hold = self._open.pop(name, None)
        self._resume(name)
        if hold is not None:
            hold.close()

    # What is shown

    def shown(self) -> list[Shown]:
        """All holds, for the relation that lists them."""
        with self._lock:
            return [self._shown(name, kept) for name, kept in self._kept.items()]

    def _shown(self, name: str, kept: KeptHold) -> Shown:
        tokens = {Token(token): GlobalId.parse(c) for c, token in kept.tokens.items()}
        left = (riders.lease_left_ms(self._storage, token) for token in tokens)
        least = min((each for each in left if each is not None), default=0)
        return Shown(name, Oid(kept.owner), kept.lease_ms, least, tokens)


def _may_read(catalog: Catalog, role: Oid, relation: str) -> bool:
    item = catalog.try_item(GlobalId.parse(relation))
    if role not in catalog.objects or not isinstance(item, AnyRelation):
        return False
    try:
        privileges.check_read(catalog, role, [item])
    except PermissionDenied:
        return False
    return True


def _time(capability: ReadCapability) -> int:
    time = capability.frontier.only()
    assert time is not None, "a hold is not at the empty frontier"
    return time


def _expired(name: str) -> HoldBroken:
    return HoldBroken(
        f'the lease of read hold "{name}" has run out',
        hint="Create the hold again. ALTER READ HOLD ... RENEW must come before the lease ends.",
    )
