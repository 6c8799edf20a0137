"""Read holds of sessions, over the one durable hold that the catalog has on each collection.

A read must find its inputs as they were at its time, so it holds them from before it chooses the
time until it is done. Such holds are many and short: they live in memory, and the durable hold is
only ever moved to where none of them is left behind. After a crash the durable holds are where they
were, and no read is left.

A hold whose owner may stop asking without a word, as one who subscribes may, has a lease: when that
is over, the hold is released, and its owner is told at the next use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from waterclock.adapter.errors import CollectionGone
from waterclock.errors import WaterclockError
from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.model.timeline import EPOCH_MILLIS, Timeline
from waterclock.runtime import Runtime
from waterclock.storage import contents, riders
from waterclock.storage.api import ReadCapability, Token
from waterclock.storage.controller import Storage
from waterclock.storage.errors import CapabilityUnknown
from waterclock.storage.subscription import Subscription

_NOWHERE: Mapping[str, int] = MappingProxyType({})
_NONE: Mapping[GlobalId, int] = MappingProxyType({})


class HoldExpired(WaterclockError):
    """The lease of a hold was over before it was used again."""

    sqlstate: ClassVar[str] = "55000"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds, as it is shown: what kind of reader, and its name or number."""

    kind: str
    name: str | None = None


_SOMEBODY = Holder("read")


class Hold:
    """Some collections, readable from a time on until it is closed."""

    def __init__(
        self, holds: Holds, times: Mapping[GlobalId, int], holder: Holder = _SOMEBODY
    ) -> None:
        self._holds = holds
        self.holder = holder
        self.times = dict(times)
        """Each collection's since when it was taken, or the time it was moved to."""
        self.lease_ms: int | None = None
        self.expires_s: float | None = None
        """When it is released, unless it is renewed before."""
        self.has_expired = False

    @property
    def runtime(self) -> Runtime:
        """The clock and the threads of the storage that is held."""
        return self._holds.runtime

    @property
    def collections(self) -> tuple[GlobalId, ...]:
        return tuple(self.times)

    def capability(self, collection: GlobalId) -> ReadCapability:
        """The right by which the collection can be read now."""
        return self._holds.capability(collection)

    def subscribe(
        self, collection: GlobalId, after: int, columns: Sequence[str] | None
    ) -> Subscription:
        """The collection's changes at times after `after`, which is held."""
        return self._holds.subscribe(collection, after, columns)

    def join(self, collections: Iterable[GlobalId], time: int) -> bool:
        """Hold others too, at the time; False, and nothing is held, if one has no such time."""
        return self._holds.join(self, collections, time)

    def move(self, time: int) -> None:
        """Only this time and later ones are needed any more."""
        self._holds.move(self, time)

    def renew(self, lease_ms: int | None) -> None:
        """Let it be released after so long, counted from now; None is never. Raises `HoldExpired`
        if it has been released.
        """
        self._holds.renew(self, lease_ms)

    def close(self) -> None:
        """Nothing is needed any more. Closing it again does nothing."""
        self._holds.close(self)

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Holds:
    """All holds of one server. Thread-safe."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.runtime = storage.runtime
        self._lock = storage.runtime.lock()
        self._kept: dict[GlobalId, ReadCapability] = {}
        self._open: set[Hold] = set()

    def adopt(self, capability: ReadCapability) -> None:
        """From now on the collection is held by this durable capability."""
        with self._lock:
            self._kept[capability.id] = capability

    def forget(self, collection: GlobalId) -> None:
        """The collection was dropped, and its durable capability with it."""
        with self._lock:
            self._kept.pop(collection, None)

    def capability(self, collection: GlobalId) -> ReadCapability:
        with self._lock:
            return self._known(collection)

    def _known(self, collection: GlobalId) -> ReadCapability:
        """The durable hold on the collection; `CollectionGone`. For whoever has the lock."""
        found = self._kept.get(collection)
        if found is None:
            raise CollectionGone
        return found

    def frontiers(
        self, collections: Iterable[GlobalId]
    ) -> dict[GlobalId, tuple[Frontier[int], Frontier[int]]]:
        """The since and upper of each, all at one moment; `CollectionGone` if one is not known."""
        try:
            return riders.frontiers(self._storage, self._known_all(collections))
        except CapabilityUnknown as error:
            raise CollectionGone from error

    def had_none(self, collections: Iterable[GlobalId], time: int) -> bool:
        """Whether it is plain that all are empty at the time: complete, and never filled."""
        try:
            return contents.had_none(self._storage, self._known_all(collections), time)
        except (CollectionGone, CapabilityUnknown):
            return False

    def batches(self, collections: Iterable[GlobalId]) -> dict[GlobalId, tuple[contents.Made, ...]]:
        """What each collection is made of (`contents.batches_of`); one not known is left out."""
        with self._lock:
            kept = [self._kept[each] for each in collections if each in self._kept]
        try:
            return contents.batches_of(self._storage, kept)
        except CapabilityUnknown:  # one of them is just being dropped
            return {}

    def _known_all(self, collections: Iterable[GlobalId]) -> list[ReadCapability]:
        with self._lock:
            return [self._known(each) for each in collections]

    def since(self, collections: Iterable[GlobalId]) -> int | None:
        """The first time at which all of them can be read; None if one is not known any more.

        Nobody holds it: it is for those who have taken what they read before they ask.
        """
        with self._lock:
            found = [self._kept.get(collection) for collection in collections]
        if None in found:
            return None
        return max(_time(each.frontier) for each in found if each is not None)

    def subscribe(
        self, collection: GlobalId, after: int, columns: Sequence[str] | None
    ) -> Subscription:
        with self._lock:  # the capability must be as it was stated
            kept = self._known(collection)
            try:
                return self._storage.subscribe_at(
                    kept,
                    as_of=kept.frontier.timeline.frontier(after),
                    snapshot=False,
                    columns=columns,
                )
            except CapabilityUnknown as error:
                raise CollectionGone from error

    @property
    def held(self) -> frozenset[GlobalId]:
        """Every collection that can be held."""
        with self._lock:
            return frozenset(self._kept)

    @property
    def tokens(self) -> frozenset[Token]:
        """By which the durable holds are known to storage."""
        with self._lock:
            return frozenset(each.token for each in self._kept.values())

    @property
    def taken(self) -> int:
        """How many holds are open."""
        with self._lock:
            return len(self._open)

    def known(self, timeline: Timeline[int] = EPOCH_MILLIS) -> tuple[GlobalId, ...]:
        """Every collection of the timeline that can be held."""
        with self._lock:
            return tuple(c for c, each in self._kept.items() if each.frontier.timeline == timeline)

    def frontiers_elsewhere(self) -> dict[GlobalId, tuple[Frontier[int], Frontier[int]]]:
        """Those of every collection of other timelines than that of the tables."""
        with self._lock:
            kept = [e for e in self._kept.values() if e.frontier.timeline != EPOCH_MILLIS]
        found: dict[GlobalId, tuple[Frontier[int], Frontier[int]]] = {}
        for each in kept:
            with suppress(CapabilityUnknown):  # it is just being dropped
                found |= riders.frontiers(self._storage, [each])
        return found

    def opened(self) -> list[Hold]:
        """All holds that are open."""
        with self._lock:
            return list(self._open)

    def take(self, collections: Iterable[GlobalId], holder: Holder = _SOMEBODY) -> Hold:
        """Hold all of them at their sinces; `CollectionGone` if one is not known any more."""
        with self._lock:
            times = {c: _time(self._known(c).frontier) for c in collections}
            hold = Hold(self, times, holder)
            self._open.add(hold)
            return hold

    def join(self, hold: Hold, collections: Iterable[GlobalId], time: int) -> bool:
        with self._lock:
            wanted = list(collections)
            if any(hold.times.get(c, time) > time for c in wanted):
                return False
            more = [c for c in wanted if c not in hold.times]
            if any(c not in self._kept or _time(self._kept[c].frontier) > time for c in more):
                return False
            hold.times = hold.times | dict.fromkeys(more, time)
            return True

    def move(self, hold: Hold, time: int) -> None:
        with self._lock:
            hold.times = {c: max(time, old) for c, old in hold.times.items()}

    def renew(self, hold: Hold, lease_ms: int | None) -> None:
        with self._lock:
            if hold.has_expired:
                raise HoldExpired(
                    "what is read was not asked for in time, and is not kept any longer",
                    detail=f"The lease was {hold.lease_ms} ms.",
                    hint="Begin again, and read in time, or raise subscription_lease.",
                )
            hold.lease_ms = lease_ms
            left_s = None if lease_ms is None else lease_ms / 1000
            hold.expires_s = None if left_s is None else self.runtime.monotonic_s() + left_s

    def _expire(self) -> None:
        """Release those whose leases are over. For whoever has the lock."""
        now = self.runtime.monotonic_s()
        for hold in [h for h in self._open if h.expires_s is not None and h.expires_s <= now]:
            hold.has_expired = True
            self._open.discard(hold)

    def close(self, hold: Hold) -> None:
        with self._lock:
            self._open.discard(hold)

    def allow_compaction(
        self,
        time: int,
        elsewhere: Mapping[str, int] = _NOWHERE,
        longer: Mapping[GlobalId, int] = _NONE,
    ) -> None:
        """Move the durable holds up to `time`, or as far towards it as the reads allow.

        `elsewhere` has the time for each timeline other than that of the tables, by its name.
        Collections in `longer` stay behind by so much more.
        """
        with self._lock:
            self._expire()
            needed: dict[GlobalId, int] = {}
            for hold in self._open:
                for collection, held in hold.times.items():
                    needed[collection] = min(held, needed.get(collection, held))
            moves = []
            for collection, kept in self._kept.items():
                timeline = kept.frontier.timeline
                usual = time if timeline == EPOCH_MILLIS else elsewhere.get(timeline.id, 0)
                wanted = usual - longer.get(collection, 0)
                target = min(wanted, needed.get(collection, wanted))
                if target > _time(kept.frontier):
                    moves.append((kept, timeline.frontier(target)))
            self._move_all(moves)

    def _move_all(self, moves: list[tuple[ReadCapability, Frontier[int]]]) -> None:
        """All in one commit, since reads wait meanwhile."""
        if not moves:
            return
        try:
            moved = list(self._storage.downgrade_capabilities(moves))
        except CapabilityUnknown:
            moved = [each for move in moves if (each := self._moved(move)) is not None]
        for each in moved:
            self._kept[each.id] = each

    def _moved(self, move: tuple[ReadCapability, Frontier[int]]) -> ReadCapability | None:
        """The hold where it is now; None if its collection is just being dropped."""
        try:
            return self._storage.downgrade_capability(*move)
        except CapabilityUnknown:
            return None


def _time(frontier: Frontier[int]) -> int:
    time = frontier.only()
    assert time is not None, "a hold is not at the empty frontier"
    return time
